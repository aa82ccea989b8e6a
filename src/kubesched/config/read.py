"""Reading YAML (and so JSON) as kube-scheduler does: one document, no key twice, nothing turned into dates.

PyYAML keeps the last of two equal keys without a word, which in a configuration file means that a setting silently has
no effect.
"""

from collections.abc import Iterator
from typing import TYPE_CHECKING

import yaml

from kubesched.config.errors import Problem, join

if TYPE_CHECKING or not yaml.__with_libyaml__:
    from yaml import SafeLoader
else:
    from yaml import CSafeLoader as SafeLoader


class _Loader(SafeLoader):
    yaml_implicit_resolvers = {  # noqa: RUF012 - PyYAML's way of configuring a loader
        first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in SafeLoader.yaml_implicit_resolvers.items()
    }


def read(text: str | bytes, problems: list[Problem]) -> object:
    """The document in ``text``; None, and a problem, where there is none to read."""
    loader = _Loader(text)
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
