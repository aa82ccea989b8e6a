"""The highest of many scores, and the rows that have it, without a pass over all of them for each pod.

Scores are kept in blocks, each with its highest score and how many rows have it. When a row changes, its block is
looked at again. One of the best rows is found from these alone: a tie of a hundred thousand rows need not be listed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from kubesched.cluster.table import Ints

BLOCK = 512


class HighestRows:
    """The rows with the highest score, in order. Valid until the scores change; its length always."""

    __slots__ = ("_blocks", "_ends", "_highest", "_scores")

    def __init__(self, scores: Ints, highest: int, blocks: Ints, counts: Ints) -> None:
        """`blocks` are those that have such rows, and `counts` how many each has."""
        self._scores = scores
        self._highest = highest
        self._blocks = blocks
        self._ends = np.cumsum(counts)

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __getitem__(self, index: int) -> int:
        at = int(np.searchsorted(self._ends, index, side="right"))
        start = int(self._blocks[at]) * BLOCK
        rows = np.flatnonzero(self._scores[start : start + BLOCK] == self._highest)
        return start + int(rows[index - int(self._ends[at])])  # counted from the end of the block

    def __iter__(self) -> Iterator[int]:
        return iter(self.tolist())

    def tolist(self) -> list[int]:
        """All rows."""
        return np.flatnonzero(self._scores == self._highest).tolist()


class BlockMaxima:
    """The highest score of each block, kept up to date."""

    def __init__(self, scores: Ints) -> None:
        self._scores = scores
        starts = np.arange(0, len(scores), BLOCK)
        self._maxima: Ints = np.maximum.reduceat(scores, starts)
        is_highest = scores == np.repeat(self._maxima, BLOCK)[: len(scores)]
        self._counts: Ints = np.add.reduceat(is_highest, starts, dtype=np.int64)

    def update(self, rows: Iterable[int]) -> None:
        """Follow the scores after some rows have changed."""
        for block in {row // BLOCK for row in rows}:
            scores = self._scores[block * BLOCK : (block + 1) * BLOCK]
            highest = self._maxima[block] = scores.max()
            self._counts[block] = np.count_nonzero(scores == highest)

    def best(self) -> HighestRows:
        """The rows with the highest score."""
        highest = self._maxima.max()
        blocks = np.flatnonzero(self._maxima == highest)
        return HighestRows(self._scores, int(highest), blocks, self._counts[blocks])
