"""Writing protobuf messages: a field is its number, its kind and its value."""

from __future__ import annotations

import struct


def varint(value: int) -> bytes:
    """An integer in as few bytes as it needs; a negative one as its 64 bits."""
    value &= 0xFFFFFFFFFFFFFFFF
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)


def integer(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def double(field: int, value: float) -> bytes:
    return varint(field << 3 | 1) + struct.pack("<d", value)


def nested(field: int, body: bytes) -> bytes:
    """A message, or any other bytes, as a field of another message."""
    return varint(field << 3 | 2) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    return nested(field, value.encode())
