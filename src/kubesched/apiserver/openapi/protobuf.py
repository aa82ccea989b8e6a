"""The protobuf messages of OpenAPI: encoders for the kinds of fields that its proto files have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

from kubesched.apiserver.storage.store import encode
from kubesched.base import protobuf
from kubesched.base.protobuf import nested
from kubesched.base.types import JSON

Encoder = Callable[[int, Any], bytes]
METHODS = ("get", "put", "post", "delete", "options", "head", "patch")
"""In the order in which a message of a path numbers them."""


def text(number: int, value: Any) -> bytes:
    return protobuf.text(number, str(value))


def integer(number: int, value: Any) -> bytes:
    return protobuf.integer(number, int(value))


def double(number: int, value: Any) -> bytes:
    with suppress(OverflowError):  # no double is that large
        return protobuf.double(number, float(value))
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


def schema_or_flag(schema: Encoder) -> Encoder:
    """What `additionalProperties` is: a schema, or whether anything may be there."""
    return lambda number, value: nested(number, integer(2, value) if isinstance(value, bool) else schema(1, value))
