"""Sorts more than fits into memory: sorted parts on disk, merged as they are read."""

from __future__ import annotations

import heapq
import tempfile
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import IO, Any, Generic, TypeVar

import msgspec

T = TypeVar("T")
PART = 50_000
"""How many items are in memory at a time."""
MOST_FILES = 64
"""How many files of a size are open at a time: a process may not have many."""


def sorted_on_disk(
    items: Iterable[T], kind: type[T], key: Callable[[T], Any], part: int = PART, most_files: int = MOST_FILES
) -> Iterator[T]:
    """The items in order. Equal ones stay in the order in which they came."""
    sorter = _Sorter(msgspec.json.Decoder(kind), key, most_files)
    source = iter(items)
    try:
        while waiting := sorted(islice(source, part), key=key):
            sorter.add(_stored(waiting))
        yield from sorter.merged()
    finally:
        sorter.close()


class _Sorter(Generic[T]):
    """Sorted files in levels: each file of a level is a full level before it, merged."""

    def __init__(self, decoder: msgspec.json.Decoder[T], key: Callable[[T], Any], most_files: int) -> None:
        self._decoder, self._key, self._most_files = decoder, key, most_files
        self._levels: list[list[IO[bytes]]] = []

    def add(self, file: IO[bytes], number: int = 0) -> None:
        """Add a file whose items come after those of all others."""
        if number == len(self._levels):
            self._levels.append([])
        level = self._levels[number]
        level.append(file)
        if len(level) == self._most_files:
            self.add(_stored(self._merge(level)), number + 1)
            for each in level:
                each.close()
            level.clear()

    def merged(self) -> Iterator[T]:
        """The items of all files, in order."""
        return self._merge([file for level in reversed(self._levels) for file in level])

    def close(self) -> None:
        """Delete the files."""
        for level in self._levels:
            for file in level:
                file.close()

    def _merge(self, files: Iterable[IO[bytes]]) -> Iterator[T]:
        return heapq.merge(*(map(self._decoder.decode, file) for file in files), key=self._key)


def _stored(items: Iterable[object]) -> IO[bytes]:
    file = tempfile.TemporaryFile()  # noqa: SIM115 - the caller closes it
    encode = msgspec.json.Encoder().encode
    file.writelines(encode(item) + b"\n" for item in items)
    file.seek(0)
    return file
