"""OpenAPI v2 as protobuf, the only form that kubectl accepts.

kubectl requests it when /openapi/v3 does not have a kind: for a `kind: List`, whose items it checks itself, and for a
kind that is not served. The tables list the fields that we fill, for each message of OpenAPI's proto file.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

from kubesched.apiserver.storage.store import encode
from kubesched.base.types import JSON

ACCEPTED = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
CONTENT_TYPE = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
"""Differs from the accepted type, because Go does not parse a type with an @ in it."""


def document(body: JSON) -> bytes:
    """An OpenAPI v2 document, as protobuf."""
    return _message(body, _DOCUMENT)


# --- the wire ---------------------------------------------------------------------------------------------------------


def _varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def _bytes(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


Encoder = Callable[[int, Any], bytes]


def _text(number: int, value: Any) -> bytes:
    return _bytes(number, str(value).encode())


def _integer(number: int, value: Any) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def _double(number: int, value: Any) -> bytes:
    return _varint(number << 3 | 1) + struct.pack("<d", value)


def _any(number: int, value: Any) -> bytes:
    return _bytes(number, _text(2, encode(value).decode()))


def _each(one: Encoder) -> Encoder:
    return lambda number, values: b"".join(one(number, value) for value in values)


def _inside(*numbers: int, of: Encoder) -> Encoder:
    """A value in a message of one field, nested as often as there are numbers."""
    *outer, last = numbers

    def encode_inside(number: int, value: Any) -> bytes:
        found = of(last, value)
        for each in reversed(outer):
            found = _bytes(each, found)
        return _bytes(number, found)

    return encode_inside


def _by_name(inner: int, of: Encoder) -> Encoder:
    """A map: a message with one entry of name and value for each key."""

    def encode_map(number: int, values: JSON) -> bytes:
        entries = (_bytes(inner, _text(1, name) + of(2, value)) for name, value in values.items())
        return _bytes(number, b"".join(entries))

    return encode_map


class Fields(dict[str, tuple[int, Encoder]]):
    """The fields of a message by JSON name, and the number for names that begin with x-."""

    extensions = 0


def _message(body: JSON, fields: Fields) -> bytes:
    return b"".join(_encoded(body, fields))


def _encoded(body: JSON, fields: Fields) -> Iterator[bytes]:
    for name, value in body.items():
        if name in fields:
            number, encoder = fields[name]
            yield encoder(number, value)
        elif name.startswith("x-") and fields.extensions:
            yield _bytes(fields.extensions, _text(1, name) + _any(2, value))


def _of(fields: Fields) -> Encoder:
    return lambda number, value: _bytes(number, _message(value, fields))


# --- the messages -----------------------------------------------------------------------------------------------------

_SCHEMA = Fields()
_schema = _of(_SCHEMA)


def _additional(number: int, value: Any) -> bytes:
    return _bytes(number, _integer(2, value) if isinstance(value, bool) else _schema(1, value))


_SCHEMA.extensions = 31
_SCHEMA.update(
    {
        "$ref": (1, _text),
        "format": (2, _text),
        "title": (3, _text),
        "description": (4, _text),
        "default": (5, _any),
        "multipleOf": (6, _double),
        "maximum": (7, _double),
        "exclusiveMaximum": (8, _integer),
        "minimum": (9, _double),
        "exclusiveMinimum": (10, _integer),
        "maxLength": (11, _integer),
        "minLength": (12, _integer),
        "pattern": (13, _text),
        "maxItems": (14, _integer),
        "minItems": (15, _integer),
        "uniqueItems": (16, _integer),
        "maxProperties": (17, _integer),
        "minProperties": (18, _integer),
        "required": (19, _each(_text)),
        "enum": (20, _each(_any)),
        "additionalProperties": (21, _additional),
        "type": (22, _inside(1, of=_text)),
        "items": (23, _inside(1, of=_schema)),
        "allOf": (24, _each(_schema)),
        "properties": (25, _by_name(1, _schema)),
    }
)
_PARAMETER = Fields({"in": (2, _text), "name": (4, _text), "type": (6, _text), "uniqueItems": (20, _integer)})
_RESPONSE = Fields({"description": (1, _text)})
_OPERATION = Fields(
    {
        "tags": (1, _each(_text)),
        "operationId": (5, _text),
        "parameters": (8, _each(_inside(1, 2, 3, of=_of(_PARAMETER)))),
        "responses": (9, _by_name(1, _inside(1, of=_of(_RESPONSE)))),
    }
)
_OPERATION.extensions = 13
_METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
_PATH = Fields({method: (number, _of(_OPERATION)) for number, method in enumerate(_METHODS, 2)})
_DOCUMENT = Fields(
    {
        "swagger": (1, _text),
        "info": (2, _of(Fields({"title": (1, _text), "version": (2, _text)}))),
        "paths": (8, _by_name(2, _of(_PATH))),
        "definitions": (9, _by_name(1, _schema)),
    }
)
