"""The highest of many scores, and the rows that have it, without a pass over all of them for each pod.

Of some thousand rows, those with the highest score are listed, and a row that changes enters the list or leaves it.

Scores of more rows are kept in blocks, each with its highest score and how many rows have it. When a row changes, its
block is looked at again. One of the best rows is found from these alone: a tie of a hundred thousand rows need not be
listed.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from kubesched.cluster.table import Ints

BLOCK = 512
FEW = 32
"""Up to so many rows are followed one by one; after more changes, a pass over all scores takes less time."""


class ListedRows:
    """The rows with the highest score, in order. Valid until the scores change; its length always."""

    __slots__ = ("_length", "_rows")

    def __init__(self, rows: list[int]) -> None:
        self._rows = rows
        self._length = len(rows)

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, index: int) -> int:
        return self._rows[index]

    def __iter__(self) -> Iterator[int]:
        return iter(self._rows)

    def tolist(self) -> list[int]:
        """All rows."""
        return self._rows.copy()


class BestList:
    """The rows with the highest score, kept up to date.

    A pod may raise the score of its node and the next one lower it again. So the rows that were best stay listed beside
    the one that is better for a while.
    """

    def __init__(self, scores: Ints) -> None:
        self._scores = scores
        self._lowest = 0
        self._by_score: dict[int, list[int]] = {}
        """All rows whose score is at least `_lowest`, in order."""

    def update(self, rows: Sequence[int]) -> None:
        """Follow the scores after some rows have changed."""
        if len(rows) > FEW:
            self._by_score.clear()
        for row in rows if self._by_score else ():
            self._remove(row)
            score = self._scores.item(row)
            if score >= self._lowest:
                insort(self._by_score.setdefault(score, []), row)

    def _remove(self, row: int) -> None:
        for score, listed in self._by_score.items():
            at = bisect_left(listed, row)
            if at < len(listed) and listed[at] == row:
                del listed[at]
                if not listed:
                    del self._by_score[score]
                return

    def best(self) -> ListedRows:
        """The rows with the highest score."""
        if not self._by_score:
            highest = np.maximum.reduce(self._scores)
            self._lowest = int(highest)
            self._by_score[self._lowest] = (self._scores == highest).nonzero()[0].tolist()
        return ListedRows(self._by_score[max(self._by_score)])


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
