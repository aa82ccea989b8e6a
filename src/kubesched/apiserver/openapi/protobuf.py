"""The protobuf messages of OpenAPI: encoders for the kinds of fields that its proto files have."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from kubesched.apiserver.storage.store import encode
from kubesched.base.types import JSON


def _varint(value: int) -> bytes:
    value &= 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def nested(number: int, value: bytes) -> bytes:
    return _varint(number << 3 | 2) + _varint(len(value)) + value


Encoder = Callable[[int, Any], bytes]


def text(number: int, value: Any) -> bytes:
    return nested(number, str(value).encode())


def integer(number: int, value: Any) -> bytes:
    return _varint(number << 3) + _varint(int(value))


def double(number: int, value: Any) -> bytes:
    with suppress(OverflowError):  # no double is that large
        return _varint(number << 3 | 1) + struct.pack("<d", float(value))
    return b""


def any_value(number: int, value: Any) -> bytes:
    return nested(number, text(2, encode(value).decode()))


def each(encoder: Encoder) -> Encoder:
    return lambda number, values: b"".join(encoder(number, value) for value in values)


def inside(*numbers: int, encoder: Encoder) -> Encoder:
    """A value in a message of one field, nested as often as there are numbers."""
    *outer, last = numbers

    def encode_inside(number: int, value: Any) -> bytes:
        found = encoder(last, value)
        for outside in reversed(outer):
            found = nested(outside, found)
        return nested(number, found)

    return encode_inside


def by_name(inner: int, encoder: Encoder) -> Encoder:
    """A map: a message with one entry of name and value for each key."""

    def encode_map(number: int, values: JSON) -> bytes:
        entries = (nested(inner, text(1, name) + encoder(2, value)) for name, value in values.items())
        return nested(number, b"".join(entries))

    return encode_map


class Fields(dict[str, tuple[int, Encoder]]):
    """The fields of a message by JSON name, and the number for names that begin with x-."""

    extensions = 0


def message(body: JSON, fields: Fields) -> bytes:
    return b"".join(_encoded(body, fields))


def _encoded(body: JSON, fields: Fields) -> Iterator[bytes]:
    for name, value in body.items():
        if name in fields:
            number, encoder = fields[name]
            yield encoder(number, value)
        elif name.startswith("x-") and fields.extensions:
            yield nested(fields.extensions, text(1, name) + any_value(2, value))


def of(fields: Fields) -> Encoder:
    return lambda number, value: nested(number, message(value, fields))
