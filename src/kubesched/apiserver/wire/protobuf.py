"""Decoding Kubernetes' protobuf. Go clients, such as kubectl's `create` commands, send nothing else.

There is no encoder: every client that sends protobuf accepts JSON. Fields are found by their numbers in the schemas.
Zero values that Go's JSON would omit are omitted here too.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

from kubesched.apiserver.kinds.schema import Field, ObjectType, ValueType, schemas
from kubesched.base.documents import REQUEST, DocumentError, DocumentLimitError, read_json, within_depth
from kubesched.base.types import JSON

_MAGIC = b"k8s\x00"
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ZERO_TIME = -62135596800
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class ProtobufError(ValueError):
    """Bytes that are not a message of the expected type."""


def decode(data: bytes, type_: ObjectType) -> JSON:
    """Decode an object in Kubernetes' envelope to its JSON form."""
    if not data.startswith(_MAGIC):
        raise ProtobufError("it does not start with the mark of Kubernetes' protobuf")
    envelope = {number: value for number, _, value in _fields(data[len(_MAGIC) :])}
    names = {number: _text(value) for number, _, value in _fields(_as_bytes(envelope.get(1, b"")))}
    try:
        obj: JSON = within_depth(_message(_as_bytes(envelope.get(2, b"")), type_), REQUEST)
    except RecursionError:
        raise ProtobufError(f"nested deeper than {REQUEST.depth} levels") from None
    head = {"apiVersion": names.get(1, ""), "kind": names.get(2, "")}
    return {**{key: value for key, value in head.items() if value}, **obj}


# --- the wire ---------------------------------------------------------------------------------------------------------


def _fields(data: bytes) -> Iterator[tuple[int, int, int | bytes]]:
    """Each field of a message: its number, its wire type and its value."""
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        number, wire = key >> 3, key & 7
        value: int | bytes
        if wire == _VARINT:
            value, position = _varint(data, position)
        elif wire == _BYTES:
            size, position = _varint(data, position)
            value, position = data[position : position + size], position + size
        elif wire in (_FIXED64, _FIXED32):
            size = 8 if wire == _FIXED64 else 4
            value, position = data[position : position + size], position + size
        else:
            raise ProtobufError(f"unknown wire type {wire}")
        if position > end:
            raise ProtobufError("it ends in the middle of a field")
        yield number, wire, value


def _varint(data: bytes, position: int) -> tuple[int, int]:
    result = shift = 0
    while True:
        if position >= len(data) or shift > 63:
            raise ProtobufError("a number does not end")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
        shift += 7


def _signed(value: int | bytes) -> int:
    if not isinstance(value, int):
        raise ProtobufError("a number was expected")
    return value - (1 << 64) if value >= 1 << 63 else value


def _as_bytes(value: int | bytes) -> bytes:
    if not isinstance(value, bytes):
        raise ProtobufError("text or a message was expected")
    return value


def _text(value: int | bytes) -> str:
    try:
        return _as_bytes(value).decode()
    except UnicodeDecodeError:
        raise ProtobufError("text is not UTF-8") from None


# --- messages ---------------------------------------------------------------------------------------------------------

Tags = dict[int, Any]
"""Fields by number. An unnamed message inside is a nested table."""


def _tags(type_: ObjectType) -> Tags:
    if type_.tags is None:
        table: Tags = {}
        for field in type_.fields.values():
            if not field.tag:
                continue
            inner = table
            for number in field.tag[:-1]:
                inner = inner.setdefault(number, {})
            inner[field.tag[-1]] = field
        type_.tags = table
    return type_.tags


def _message(data: bytes, type_: ObjectType) -> JSON:
    result: JSON = {}
    _fill(result, data, _tags(type_))
    return result


def _fill(result: JSON, data: bytes, tags: Tags) -> None:
    for number, wire, value in _fields(data):
        known = tags.get(number)
        if isinstance(known, dict):
            _fill(result, _as_bytes(value), known)
        elif isinstance(known, Field):
            _set(result, known, wire, value)


def _set(result: JSON, field: Field, wire: int, value: int | bytes) -> None:
    shape = field.shape
    if shape.kind == "list" and shape.item is not None:
        result.setdefault(field.name, []).append(_value(shape.item, wire, value))
    elif shape.kind == "map" and shape.item is not None:
        key, item = _map_entry(shape.item, _as_bytes(value))
        result.setdefault(field.name, {})[key] = item
    else:
        read = _value(shape, wire, value)
        if read is not None and (read or field.keeps_zero or isinstance(read, dict)):
            result[field.name] = read


def _map_entry(shape: ValueType, data: bytes) -> tuple[str, Any]:
    entry = {number: (wire, value) for number, wire, value in _fields(data)}
    key = _text(entry[1][1]) if 1 in entry else ""
    if shape.kind == "list":
        # The only lists in maps are a user's extra attributes; the list is wrapped in a message.
        return key, [_text(value) for _, _, value in _fields(_as_bytes(entry[2][1]))] if 2 in entry else []
    if 2 not in entry:
        return key, {} if shape.kind == "object" else ""
    return key, _value(shape, *entry[2])


def _value(shape: ValueType, wire: int, value: int | bytes) -> Any:
    kind = shape.kind
    if kind == "string":
        return _text(value)
    if kind == "object" and shape.object is not None:
        return _message(_as_bytes(value), shape.object)
    if kind in ("int32", "int64"):
        return _signed(value)
    if kind == "bool":
        return bool(_signed(value))
    if kind == "bytes":
        return base64.b64encode(_as_bytes(value)).decode()
    if kind == "double":
        return struct.unpack("<d", _as_bytes(value))[0]
    return _special(kind, {number: part for number, _, part in _fields(_as_bytes(value))})


def _special(kind: str, parts: dict[int, int | bytes]) -> Any:
    """Types that are messages on the wire and plain values in JSON."""
    if kind == "quantity":
        return _text(parts.get(1, b"")) or "0"
    if kind == "intorstring":
        return _text(parts.get(3, b"")) if parts.get(1) else _signed(parts.get(2, 0))
    if kind in ("time", "microtime"):
        return _time(_signed(parts.get(1, 0)), _signed(parts.get(2, 0)), kind)
    if kind in ("schema", "schemaorbool"):
        return _schema(kind, parts)
    raw = _as_bytes(parts.get(1, b""))
    try:
        return read_json(raw, REQUEST) if raw else None
    except DocumentLimitError:
        raise
    except DocumentError:
        raise ProtobufError("an embedded object is not JSON") from None


def _schema(kind: str, parts: dict[int, int | bytes]) -> Any:
    """A schema inside a schema, which may be a plain yes or no in some places."""
    data = parts.get(1 if kind == "schema" else 2)
    if data is None:
        return bool(parts.get(1))
    return _message(_as_bytes(data), schemas().types["apiextensions.JSONSchemaProps"])


def _time(seconds: int, nanoseconds: int, kind: str) -> str | None:
    if seconds == _ZERO_TIME or (seconds == 0 and nanoseconds == 0):
        return None
    moment = _EPOCH + timedelta(seconds=seconds, microseconds=nanoseconds // 1000)
    return moment.strftime("%Y-%m-%dT%H:%M:%S.%fZ" if kind == "microtime" else "%Y-%m-%dT%H:%M:%SZ")
