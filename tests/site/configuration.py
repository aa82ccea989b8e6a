"""The reference of the configuration file, made from the types that it is decoded into."""

from __future__ import annotations

import ast
import inspect
import json
import textwrap
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

import msgspec
from tests.site.markdown import attribute_docs, code, page, plain, table

from kubesched.api.objects import Object
from kubesched.config.args import ARGS
from kubesched.config.defaults import DEFAULT_PLUGINS
from kubesched.config.duration import Duration
from kubesched.config.types import API_VERSION, KIND, KubeSchedulerConfiguration, Plugins
from kubesched.plugins import OFFERED

WORDS = {str: "string", int: "integer", float: "number", bool: "true or false", bytes: "base64", Duration: "duration"}
Struct = type[msgspec.Struct]


def configuration_page() -> str:
    """The page of all fields of the configuration, and of all plugins' arguments."""
    seen: set[Struct] = set()
    return page(
        "Configuration",
        f"`kubesched run --config=FILE` reads a `{KIND}` of `{API_VERSION}`. These are all its fields with their "
        "defaults. `kubesched run --config=FILE --write-config-to=OUT` writes the complete configuration to a file. "
        "Durations are written as in Go: `15s`, `1m30s`. Older versions, v1beta1 to v1beta3, load with a warning.",
        *_structs(KubeSchedulerConfiguration, 2, seen),
        "## Default plugins",
        "They are enabled through `multiPoint`, in this order. The weight counts where a plugin scores.",
        table(("plugin", "weight"), ((code(name), str(weight or "")) for name, weight in DEFAULT_PLUGINS.items())),
        "## Arguments of the built-in plugins",
        "They are the `args` of an entry of `pluginConfig`; their `kind` is the heading.",
        *(part for name in sorted(ARGS) for part in _structs(ARGS[name], 3, seen)),
        "## Arguments of the plugins of scheduler-plugins",
        "These plugins are off by default. [The guide](../guides/contrib.md) says what they do.",
        *(part for each in offered_args() for part in _structs(each, 3, seen)),
    )


def offered_args() -> Iterator[Struct]:
    """The types of the arguments of the plugins of scheduler-plugins. CapacityScheduling and others have none."""
    for place in OFFERED.values():
        module, _, name = place.partition(":")
        args = getattr(getattr(import_module(module), name), "args_type", None)
        if args is not None:
            yield args


def _structs(top: Struct, level: int, seen: set[Struct]) -> Iterator[str]:
    """The tables of a struct and of the structs inside, outermost first, without those that the page has already."""
    waiting = [top]
    while waiting:
        struct = waiting.pop(0)
        if struct in seen:
            continue
        seen.add(struct)
        yield f"{'#' * (level if struct is top else level + 1)} {struct.__name__}"
        yield plain(inspect.cleandoc(struct.__doc__)) if "__doc__" in vars(struct) and struct.__doc__ else ""
        yield table(("field", "type", "default", "meaning"), _rows(struct))
        waiting += [each for field in msgspec.structs.fields(struct) for each in _inside(field.type)]


def _rows(struct: Struct) -> Iterator[tuple[str, str, str, str]]:
    docs = meanings(struct)
    for field in msgspec.structs.fields(struct):
        default = field.default_factory() if field.default_factory is not msgspec.NODEFAULT else field.default
        shown = "" if default is msgspec.NODEFAULT else _value(default)
        meaning = docs.get(field.name, "") or ("The plugins of this extension point." if struct is Plugins else "")
        yield code(field.encode_name), _type(field.type), code(shown), plain(meaning)


@cache
def meanings(struct: Struct) -> dict[str, str]:
    """What the source says about each field, those of base classes included."""
    found: dict[str, str] = {}
    for cls in reversed(struct.__mro__):
        if issubclass(cls, msgspec.Struct) and cls.__module__.startswith("kubesched."):
            (tree,) = ast.parse(textwrap.dedent(inspect.getsource(cls))).body
            assert isinstance(tree, ast.ClassDef)
            found |= attribute_docs(tree.body)
    return found


def _value(default: Any) -> str:
    """A default as the file would have it; nothing for what is empty or documented as a struct of its own."""
    if isinstance(default, Duration):
        return str(default)
    if default is None or default in ("", (), b"", {}) or isinstance(default, msgspec.Struct):
        return ""
    if isinstance(default, str):
        return default
    return json.dumps(msgspec.to_builtins(default, str_keys=True))


def _type(kind: Any) -> str:
    """A type in the words of people who write YAML."""
    origin, inner = get_origin(kind), get_args(kind)
    if isinstance(kind, type) and kind in WORDS:
        return WORDS[kind]
    if origin in (Union, UnionType):
        return " or ".join(_type(each) for each in inner if each is not NoneType)
    if origin is Literal:
        return ", ".join(code(str(each)) for each in inner if each)
    if origin is tuple:
        return f"list of {_type(inner[0])}"
    if origin is dict:
        return f"map of {_type(inner[1])}"
    if hasattr(kind, "__metadata__"):
        return _type(inner[0])
    if any(_inside(kind)):
        return f"[{kind.__name__}](#{kind.__name__.lower()})"
    return kind.__name__ if isinstance(kind, type) and kind is not object else "object"


def _inside(kind: Any) -> Iterator[Struct]:
    """The structs of the configuration in a type. Those of the Kubernetes API are documented there."""
    if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and not issubclass(kind, Object):
        if not kind.__module__.startswith("kubesched.api"):
            yield kind
        return
    for each in get_args(kind):
        yield from _inside(each)
