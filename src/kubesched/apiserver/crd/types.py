"""The types that the expressions of a custom resource see, by its schema. The rules are upstream's.

Types have the greatest sizes of their values, which estimates of costs need.
"""

from __future__ import annotations

from dataclasses import replace

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

MAX_REQUEST = 3 << 20
"""Bytes of the largest request."""
_SCALARS = {"boolean": BOOL, "number": DOUBLE, "integer": INT}
_TEXTS = {"byte": BYTES, "duration": DURATION, "date": TIMESTAMP, "date-time": TIMESTAMP}
_LEAST_SCALARS = {"boolean": len("true"), "number": 1, "integer": 1, "array": len("[]")}
_LEAST_TEXTS, _GREATEST_TEXTS = (
    {"duration": 3, "date": 12, "date-time": 21},
    {"duration": 32, "date": 12, "date-time": 32},
)
_EMBEDDED = "x-kubernetes-embedded-resource"
_META = ("name", "generateName")


def declared_type(schema: JSON, name: str, *, is_root: bool = False) -> Type | None:
    """The type of a part of an object; None if expressions cannot use it. `name` is for messages.

    At the root of a resource, apiVersion, kind and metadata are there whether or not the schema has them.
    """
    if schema.get("x-kubernetes-int-or-string"):
        return replace(DYN, max_size=_greatest_text(schema))
    match schema.get("type"):
        case "array":
            item = _part(schema.get("items"), f"{name}.@idx")
            return None if item is None else list_of(item, _greatest(schema.get("maxItems"), schema["items"], len(",")))
        case "object" if isinstance(schema.get("additionalProperties"), dict):
            items = schema["additionalProperties"]
            value, key = _part(items, f"{name}.@elem"), replace(STRING, max_size=0)
            limit = _greatest(schema.get("maxProperties"), items, len('"":,') + 2)
            return None if value is None else map_of(key, value, limit)
        case "object":
            return replace(object_type(name, _fields(schema, name, is_root)), max_size=0)
        case "string":
            return replace(_TEXTS.get(schema.get("format") or "", STRING), max_size=_greatest_text(schema))
        case other:
            scalar = _SCALARS.get(other or "")
            return None if scalar is None else replace(scalar, max_size=0)


def least_size(schema: JSON) -> int:
    """The bytes that a value takes at least, in JSON. Defaults need not be sent."""
    if schema.get("x-kubernetes-int-or-string"):
        return 1
    match schema.get("type"):
        case "object" if not isinstance(schema.get("additionalProperties"), dict):
            required = {name for name in schema.get("required") or () if isinstance(name, str)}
            parts = [
                len(name) + len('"":,') + least_size(part)
                for name, part in (schema.get("properties") or {}).items()
                if name in required and part.get("default") is None and _part(part, name) is not None
            ]
            return len("{}") + sum(parts)
        case "string":
            return _LEAST_TEXTS.get(schema.get("format") or "", len('""'))
        case other:
            return _LEAST_SCALARS.get(other or "", len("{}"))


def _greatest(limit: int | None, item: JSON, separators: int) -> int:
    """The most items of a list or map, which a request must have room for if there is no limit."""
    return (MAX_REQUEST - 2) // (least_size(item) + separators) if limit is None else max(limit, 0)


def _greatest_text(schema: JSON) -> int:
    """The bytes of the longest text. A character may take four of them."""
    format_, length = schema.get("format") or "", schema.get("maxLength")
    either = bool(schema.get("x-kubernetes-int-or-string"))
    if not either and format_ in _GREATEST_TEXTS:
        return _GREATEST_TEXTS[format_]
    if length is not None:
        return int(max(length, 0) * (1 if format_ == "byte" and not either else 4))
    if not either and format_ != "byte" and (listed := schema.get("enum")):
        return max((len(each.encode()) for each in listed if isinstance(each, str)), default=0)
    return MAX_REQUEST - 2


def _fields(schema: JSON, name: str, is_root: bool) -> dict[str, Type]:
    parts = ((key, _part(part, f"{name}.{key}")) for key, part in (schema.get("properties") or {}).items())
    fields = {escaped(key): part for key, part in parts if part is not None}
    if is_root:
        metadata = fields.get("metadata")
        known = {} if metadata is None else dict(metadata.fields or {})
        text = replace(STRING, max_size=MAX_REQUEST - 2)
        fields |= {"apiVersion": text, "kind": text}
        metadata = object_type(f"{name}.metadata", {**dict.fromkeys(_META, text), **known})
        fields["metadata"] = replace(metadata, max_size=0)
    return fields


def _part(schema: JSON | None, name: str) -> Type | None:
    return declared_type(schema, name, is_root=bool(schema.get(_EMBEDDED))) if isinstance(schema, dict) else None
