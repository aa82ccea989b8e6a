"""The objects with which mutating policies describe a change: ``Object{...}`` and ``JSONPatch{...}``."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterator, Mapping

from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.times import duration_text, timestamp_text
from kubesched.cel.types import DYN, STRING, Type, object_type
from kubesched.cel.values import Duration, Optional, StructValue, Timestamp, name_of

library = Library()
_ESCAPES = str.maketrans({"/": "~1", "~": "~0"})
_LARGEST_EXACT = 2**53
"""Larger integers lose digits if they are read as doubles, so they become strings, as in protobuf's JSON."""


class _AnyField(Mapping[str, Type]):
    """Fields of an object whose schema is not known: every name is allowed, with any value."""

    def __getitem__(self, _name: str) -> Type:
        return DYN

    def __iter__(self) -> Iterator[str]:
        return iter(())

    def __len__(self) -> int:
        return 0


OBJECT = object_type("Object", _AnyField())
JSON_PATCH = object_type("JSONPatch", {"op": STRING, "path": STRING, "from": STRING, "value": DYN})


def patch_types(name: str) -> Type | None:
    """The type that ``name{...}`` creates in a mutating policy."""
    name = name.lstrip(".")
    if name == JSON_PATCH.name:
        return JSON_PATCH
    if name == OBJECT.name or name.startswith(f"{OBJECT.name}."):
        return object_type(name, _AnyField())
    return None


@library.define(string_jsonpatch_escapeKey_string="jsonpatch::escapeKey(string) -> string")
def escape_key(key: str) -> str:
    return key.translate(_ESCAPES)


def wrong_names(value: object, path: str) -> Iterator[str]:
    """Created objects whose type is not named after the place where they stand. Lists and maps have no name."""
    if isinstance(value, StructValue):
        if value.type_name != path:
            where = "which matches field name path from root Object type"
            yield f'unexpected type name "{value.type_name}", expected "{path}", {where}'
        for name, item in value.items():
            yield from wrong_names(item, f"{path}.{name}")
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from wrong_names(item, path)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from wrong_names(item, path)


def to_json(value: object) -> object:
    """A value of CEL as JSON has it."""
    match value:
        case None | bool() | float() | str():
            return value
        case int():
            return int(value) if abs(value) <= _LARGEST_EXACT else str(int(value))
        case bytes():
            return b64encode(value).decode()
        case Timestamp():
            return timestamp_text(value)
        case Duration():
            return duration_text(value)
        case Optional():
            return to_json(value.value) if value.present else None
        case Mapping():
            return {_key(key): to_json(item) for key, item in value.items()}
        case list() | tuple():
            return [to_json(item) for item in value]
    raise EvaluationError(f"a value of type {name_of(type(value))} has no form in JSON")


def _key(key: object) -> str:
    if isinstance(key, str):
        return key
    raise EvaluationError(f"map key {key!r} is of type {name_of(type(key))}, not string")
