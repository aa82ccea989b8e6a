"""A list of tuples that only grows. Of a long one, most is in a temporary file, so that memory stays flat."""

from __future__ import annotations

import tempfile
import weakref
from collections.abc import Iterator, Sequence
from itertools import islice
from operator import eq
from typing import IO, Any, Generic, NamedTuple, TypeVar, overload

import msgspec

T = TypeVar("T", bound=NamedTuple)
BLOCK = 10_000
"""How many items are written and read together."""
MOST_IN_MEMORY = 5 * BLOCK


class LongList(Sequence[T], Generic[T]):
    """Items of one kind. Iterating over it reads one block at a time."""

    def __init__(self, kind: type[T]) -> None:
        self._decode = msgspec.msgpack.Decoder(list[kind]).decode  # type: ignore[valid-type] # a type, but not a name
        self._file: IO[bytes] | None = None
        self._ends = [0]
        """Where each block ends in the file; the first begins at 0."""
        self._recent: list[T] = []

    def append(self, item: T) -> None:
        self._recent.append(item)
        if len(self._recent) >= MOST_IN_MEMORY:
            self._write()

    def _write(self) -> None:
        if self._file is None:
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - open as long as the list is in use
            weakref.finalize(self, self._file.close)
        self._file.seek(self._ends[-1])
        for start in range(0, len(self._recent), BLOCK):
            self._file.write(msgspec.msgpack.encode(self._recent[start : start + BLOCK]))
            self._ends.append(self._file.tell())
        self._recent.clear()

    def _block(self, number: int) -> list[T]:
        assert self._file is not None
        self._file.seek(self._ends[number])
        return self._decode(self._file.read(self._ends[number + 1] - self._ends[number]))

    def __len__(self) -> int:
        return (len(self._ends) - 1) * BLOCK + len(self._recent)

    def __iter__(self) -> Iterator[T]:
        for number in range(len(self._ends) - 1):
            yield from self._block(number)
        yield from self._recent

    @overload
    def __getitem__(self, index: int) -> T: ...
    @overload
    def __getitem__(self, index: slice) -> list[T]: ...
    def __getitem__(self, index: int | slice) -> T | list[T]:
        if isinstance(index, slice):
            start, stop, step = index.indices(len(self))
            return list(islice(self, start, max(stop, start), step)) if step > 0 else list(self)[index]
        position = range(len(self))[index]
        number, offset = divmod(position, BLOCK)
        if number < len(self._ends) - 1:
            return self._block(number)[offset]
        return self._recent[position - (len(self._ends) - 1) * BLOCK]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and len(self) == len(other) and all(map(eq, self, other))

    def __reduce__(self) -> tuple[Any, ...]:
        return list, (list(self),)
