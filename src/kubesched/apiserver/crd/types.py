"""The types that the expressions of a custom resource see, by its schema. The rules are upstream's."""

from __future__ import annotations

from kubesched.apiserver.crd.rules import escaped
from kubesched.base.types import JSON
from kubesched.cel.types import (
    BOOL,
    BYTES,
    DOUBLE,
    DURATION,
    DYN,
    INT,
    STRING,
    TIMESTAMP,
    Type,
    list_of,
    map_of,
    object_type,
)

_SCALARS = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_TEXTS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_EMBEDDED = "x-kubernetes-embedded-resource"
_META = {"name": STRING, "generateName": STRING}


def declared_type(schema: JSON, name: str, *, is_root: bool = False) -> Type | None:
    """The type of a part of an object; None if expressions cannot use it. `name` is for messages.

    At the root of a resource, apiVersion, kind and metadata are there whether or not the schema has them.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return DYN
    match schema.get("type"):
        case "array":
            item = _part(schema.get("items"), f"{name}.@idx")
            return None if item is None else list_of(item)
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            value = _part(schema["additionalProperties"], f"{name}.@elem")
            return None if value is None else map_of(STRING, value)
        case "object":
            return object_type(name, _fields(schema, name, is_root))
        case "string":
            return _TEXTS.get(schema.get("format") or "", STRING)
        case other:
            return _SCALARS.get(other or "")


def _fields(schema: JSON, name: str, is_root: bool) -> dict[str, Type]:
    parts = ((key, _part(part, f"{name}.{key}")) for key, part in (schema.get("properties") or {}).items())
    fields = {escaped(key): part for key, part in parts if part is not None}
    if is_root:
        metadata = fields.get("metadata")
        known = {} if metadata is None else dict(metadata.fields or {})
        fields |= {"apiVersion": STRING, "kind": STRING}
        fields["metadata"] = object_type(f"{name}.metadata", {**_META, **known})
    return fields


def _part(schema: JSON | None, name: str) -> Type | None:
    return declared_type(schema, name, is_root=bool(schema.get(_EMBEDDED))) if isinstance(schema, dict) else None
