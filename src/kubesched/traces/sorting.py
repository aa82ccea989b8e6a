"""Sorts more than fits into memory: sorted parts on disk, merged as they are read."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any, TypeVar

import msgspec

T = TypeVar("T")
PART = 50_000
"""How many items are in memory at a time."""


def sorted_on_disk(items: Iterable[T], kind: type[T], key: Callable[[T], Any], part: int = PART) -> Iterator[T]:
    """The items in order. Equal ones stay in the order in which they came."""
    decoder = msgspec.json.Decoder(kind)
    with ExitStack() as files:
        parts: list[Iterator[T]] = []
        waiting: list[T] = []
        for item in items:
            waiting.append(item)
            if len(waiting) >= part:
                parts.append(_stored(sorted(waiting, key=key), decoder, files))
                waiting.clear()
        parts.append(iter(sorted(waiting, key=key)))
        yield from heapq.merge(*parts, key=key)


def _stored(items: list[T], decoder: msgspec.json.Decoder[T], files: ExitStack) -> Iterator[T]:
    file = files.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
    encode = msgspec.json.Encoder().encode
    file.writelines(encode(item) + b"\n" for item in items)
    file.seek(0)
    return map(decoder.decode, file)
