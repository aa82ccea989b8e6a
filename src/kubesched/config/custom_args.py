"""The arguments of external plugins, decoded into the structs that they define.

Built-in plugins have theirs in `args`, with upstream's rules. Others may use any struct that msgspec supports, so
msgspec decodes it; this module adds the place in the file to its errors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import msgspec
from msgspec import inspect as mi
from msgspec.structs import replace

from kubesched.config.args import ARGS
from kubesched.config.errors import Problem, join, suggest
from kubesched.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile, PluginConfig

_WHERE = re.compile(r" - at `(key in )?\$(.*)`$")
_PART = re.compile(r"\.([^.\[\]]+)|\[(\d+|\.\.\.)\]")
_TYPE_META = ("apiVersion", "kind")

_describe = cache(mi.type_info)


def with_custom_args(
    config: KubeSchedulerConfiguration, types: Mapping[str, type | None]
) -> tuple[KubeSchedulerConfiguration, list[Problem]]:
    """The configuration with typed arguments for every enabled plugin that ``types`` has a struct for, and what is
    wrong with them. Built-in plugins have theirs already."""
    problems: list[Problem] = []
    profiles = [_profile(each, f"profiles[{i}]", types, problems) for i, each in enumerate(config.profiles)]
    return replace(config, profiles=tuple(profiles)), problems


def decode_args(cls: type, args: object, path: str, problems: list[Problem]) -> object:
    """``args`` as a ``cls``; None, and a problem for everything that is wrong, when they are not."""
    if isinstance(args, cls):
        return args
    args = {} if args is None else args
    if isinstance(args, dict):
        # Upstream's arguments may have apiVersion and kind, so these may, too.
        fields = _field_names(cls)
        args = {name: value for name, value in args.items() if name not in _TYPE_META or name in fields}
    found = list(_unknown(_describe(cls), args, path))
    problems.extend(found)
    if found and cls.__struct_config__.forbid_unknown_fields:  # type: ignore[attr-defined]  # it is a struct
        return None  # msgspec would report it again
    try:
        return msgspec.convert(args, cls)
    except msgspec.ValidationError as error:
        problems.append(_placed(error, args, path))
    return None


def _profile(
    profile: KubeSchedulerProfile, path: str, types: Mapping[str, type | None], problems: list[Problem]
) -> KubeSchedulerProfile:
    configs: list[PluginConfig] = []
    for index, each in enumerate(profile.plugin_config):
        cls = _custom(each.name, types)
        if cls is not None:
            each = replace(each, args=decode_args(cls, each.args, f"{path}.pluginConfig[{index}].args", problems))
        configs.append(each)
    given = {each.name for each in configs}
    for name in profile.plugins.names():
        cls = None if name in given else _custom(name, types)
        if cls is not None:
            configs.append(PluginConfig(name=name, args=_defaults(name, cls, path, problems)))
    return replace(profile, plugin_config=tuple(configs))


def _custom(name: str, types: Mapping[str, type | None]) -> type | None:
    return None if name in ARGS else types.get(name)


def _defaults(name: str, cls: type, path: str, problems: list[Problem]) -> object:
    """The arguments of a plugin for which the file has none."""
    found: list[Problem] = []
    args = decode_args(cls, {}, "", found)
    for each in found:
        hint = f"add an entry to pluginConfig with name: {name} and its args"
        problems.append(
            Problem(f"{path}.pluginConfig", f"{name} cannot do without arguments: {each.message}", hint=hint)
        )
    return args


def _placed(error: msgspec.ValidationError, args: object, path: str) -> Problem:
    text = str(error)
    where = _WHERE.search(text)
    place = where[2] if where else ""
    said = _reworded(text[: where.start()] if where else text)
    value = msgspec.UNSET if where and where[1] else _value_at(args, place)
    if value is not msgspec.UNSET and said.startswith("expected "):
        said = said.partition(", got ")[0]  # msgspec names the value's type, a Problem the value
    else:
        value = msgspec.UNSET
    return Problem(f"{path}{place.replace('[...]', '[]')}", said, value)


def _value_at(value: Any, place: str) -> Any:
    """The value at ``.rules[0].key``; UNSET if msgspec does not say which of several it means."""
    for name, index in _PART.findall(place):
        if index == "...":
            return msgspec.UNSET
        value = value[name] if name else value[int(index)]
    return value


def _reworded(text: str) -> str:
    return text[:1].lower() + text[1:].replace("`", "")


def _field_names(cls: type) -> set[str]:
    return {field.encode_name for field in msgspec.structs.fields(cls)} if issubclass(cls, msgspec.Struct) else set()


def _unknown(kind: mi.Type, value: object, path: str) -> Iterator[Problem]:
    """Unknown fields. msgspec ignores them, but in a configuration file they are mistakes."""
    match kind, value:
        case mi.StructType(), dict():
            known = {field.encode_name: field.type for field in kind.fields}
            for name, item in value.items():
                if name in known:
                    yield from _unknown(known[name], item, join(path, str(name)))
                else:
                    hint = suggest(str(name), known) or f"the fields here are {', '.join(sorted(known)) or 'none'}"
                    yield Problem(join(path, str(name)), "unknown field", hint=hint)
        case ((mi.ListType() | mi.VarTupleType()), (list() | tuple())):
            for index, item in enumerate(value):
                yield from _unknown(kind.item_type, item, f"{path}[{index}]")
        case mi.DictType(), dict():
            for key, item in value.items():
                yield from _unknown(kind.value_type, item, f'{path}["{key}"]')
        case mi.UnionType(), _:
            structs = [each for each in kind.types if isinstance(each, mi.StructType)]
            if len(structs) == 1:
                yield from _unknown(structs[0], value, path)
