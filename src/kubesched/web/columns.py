"""Columns of numbers as the page gets them: little-endian bytes in base64, never one JSON object per node."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kubesched.cluster.table import Ints

ABSENT = 65535
"""In a column of shares: the node does not offer the resource."""
_TYPES = {"u1": np.uint8, "u2": np.uint16, "u4": np.uint32, "i4": np.int32, "f8": np.float64}


def packed(values: npt.NDArray[Any] | Sequence[float] | Sequence[Sequence[float]], kind: str) -> str:
    """Numbers as base64 of `kind`: u1, u2, u4, i4 or f8."""
    array = np.asarray(values, dtype=np.dtype(_TYPES[kind]).newbyteorder("<"))
    return base64.b64encode(array.tobytes()).decode()


def shares(used: Ints, allocatable: Ints) -> npt.NDArray[np.uint16]:
    """Thousandths of what each node offers that is requested; `ABSENT` where it offers nothing."""
    offered = allocatable > 0
    share = np.divide(used * 1000.0, allocatable, out=np.zeros(used.shape), where=offered)
    return np.where(offered, np.clip(np.rint(share), 0, ABSENT - 1), ABSENT).astype(np.uint16)


class Interned:
    """Texts that repeat, by number, in the order in which they first came."""

    def __init__(self, first: Iterable[str] = ()) -> None:
        self._numbers: dict[str, int] = {}
        for each in first:
            self.number(each)

    def number(self, text: str) -> int:
        """The number of a text."""
        return self._numbers.setdefault(text, len(self._numbers))

    @property
    def texts(self) -> list[str]:
        """All texts, by number."""
        return list(self._numbers)
