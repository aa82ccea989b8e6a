"""Columns of numbers in as few bytes as they need."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

Column = npt.NDArray[Any]
_TYPES: Final = (np.uint8, np.int16, np.int32)


def small(column: Column) -> Column:
    """A copy of a column of integers or truth values in the smallest type that holds all of it."""
    if column.dtype == np.bool_:
        return column.astype(np.uint8)
    if not len(column):
        return column.copy()
    low, high = int(column.min()), int(column.max())
    for kind in _TYPES:
        limits = np.iinfo(kind)
        if limits.min <= low and high <= limits.max:
            return column.astype(kind)
    return column.copy()


def distinct(column: Column) -> list[int]:
    """The distinct numbers of a column, without 0."""
    found = np.flatnonzero(np.bincount(column)) if column.dtype == np.uint8 else np.unique(column)
    return [number for number in found.tolist() if number]


def packed(mask: Column) -> bytes | None:
    """A mask in bits; None if it is true everywhere."""
    return None if mask.all() else np.packbits(mask).tobytes()


def unpacked(bits: bytes | None, size: int) -> npt.NDArray[np.bool_]:
    """The mask again."""
    if bits is None:
        return np.ones(size, dtype=np.bool_)
    return np.unpackbits(np.frombuffer(bits, dtype=np.uint8), count=size).astype(np.bool_)
