"""Reading YAML (and so JSON) as kube-scheduler does: one document, no key twice, scalars as Go's library sees them.

PyYAML keeps the last of two equal keys without a word, which in a configuration file means that a setting silently has
no effect. And the two libraries disagree about what is not a string: ``y`` and ``1e3`` here, ``1:30`` and dates there.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, TypeVar

import yaml

from kubesched.config.errors import Problem, join

if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader
else:
    from yaml import CSafeLoader as SafeLoader

R = TypeVar("R", bound=type[yaml.SafeLoader] | type[yaml.SafeDumper])

_DIGITS = "-+0123456789"
_SCALARS = (
    ("bool", "y|Y|yes|Yes|YES|n|N|no|No|NO|true|True|TRUE|false|False|FALSE|on|On|ON|off|Off|OFF", "yYnNtTfFoO"),
    ("null", "~|null|Null|NULL|", ["~", "n", "N", ""]),
    ("merge", "<<", "<"),
    ("int", "[-+]?(?:0b[01_]+|0o[0-7_]+|0x[0-9a-fA-F_]+|0[0-7_]*|[1-9][0-9_]*)", _DIGITS),
    ("float", r"[-+]?(?:\.[0-9]+|[0-9]+(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?", f".{_DIGITS}"),
    ("float", r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)", ".-+"),
)


def scalars_as_go(cls: R) -> R:
    """Makes a PyYAML loader or dumper tell strings from other scalars as Go's library does."""
    cls.yaml_implicit_resolvers = {}
    for tag, pattern, first in _SCALARS:
        cls.add_implicit_resolver(f"tag:yaml.org,2002:{tag}", re.compile(f"(?:{pattern})$"), first)
    return cls


@scalars_as_go
class Loader(SafeLoader):
    """Scalars as Go's library sees them."""

    bool_values = SafeLoader.bool_values | {"y": True, "n": False}


def read(text: str | bytes, problems: list[Problem]) -> object:
    """The document in ``text``; None, and a problem, where there is none to read."""
    loader = Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        problems += _repeated(node, "", set())
        document: object = loader.construct_document(node)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        problems.append(Problem("", f"not valid YAML: {' '.join(str(error).split())}"))
        return None
    finally:
        loader.dispose()
    return document


def _repeated(node: yaml.Node, path: str, visited: set[int]) -> Iterator[Problem]:
    # An alias may lead to a node that was seen before, even to one that holds the alias.
    if id(node) in visited:
        return
    visited.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for index, item in enumerate(node.value):
            yield from _repeated(item, f"{path}[{index}]", visited)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            name, line = str(key.value), key.start_mark.line + 1
            if name in lines:
                message = f"given twice, on lines {lines[name]} and {line}"
                yield Problem(join(path, name), message, hint="keep one of them")
            lines.setdefault(name, line)
            yield from _repeated(value, join(path, name), visited)
