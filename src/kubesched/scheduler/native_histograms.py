"""Native histograms: Prometheus' exponential buckets, which need no bounds (gate NativeHistograms).

Each bucket's upper bound is 2^(1/8) times that of the one before it. When a histogram has too many buckets, pairs of
them are merged. All metrics here are times, sizes and counts, so there are no buckets for negative values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator
from math import frexp
from sys import float_info
from typing import Final

SCHEMA: Final = 3
"""Eight buckets for each power of two: each is at most 10 % wider than the one before it, as upstream asks for."""
MOST_BUCKETS: Final = 160
ZERO_THRESHOLD: Final = 2.0**-128
LARGEST_GAP: Final = 2
"""Gaps that are longer begin a new span; shorter ones are filled with empty buckets. As in Go's client."""
LOWEST_SCHEMA: Final = -4

_FRACTIONS: Final = tuple(tuple(0.5 * 2 ** (step / 2**schema) for step in range(2**schema)) for schema in range(4))


class NativeBuckets:
    """The buckets of one histogram."""

    __slots__ = ("counts", "schema", "zeros")

    def __init__(self) -> None:
        self.schema = SCHEMA
        self.zeros = 0
        self.counts: dict[int, int] = {}

    def observe(self, value: float) -> None:
        """Count a value."""
        if value <= ZERO_THRESHOLD:
            self.zeros += 1
            return
        self._add(self._key(value), 1)

    def merge(self, other: NativeBuckets) -> None:
        """Add the counts of another histogram."""
        self.zeros += other.zeros
        while self.schema > other.schema:
            self._widen()
        for key, count in other.counts.items():
            for _ in range(other.schema - self.schema):
                key = _wider(key)
            self._add(key, count)

    def spans(self) -> Iterator[tuple[int, list[int]]]:
        """Runs of buckets: the distance from the end of the last run, and counts."""
        end, run = 0, list[int]()
        offset = 0
        for key in sorted(self.counts):
            gap = key - end
            if not run or gap > LARGEST_GAP:
                if run:
                    yield offset, run
                offset, run = gap, []
            else:
                run += [0] * gap
            run.append(self.counts[key])
            end = key + 1
        if run:
            yield offset, run

    def _key(self, value: float) -> int:
        fraction, exponent = frexp(min(value, float_info.max))
        if self.schema > 0:
            return bisect_left(_FRACTIONS[self.schema], fraction) + (exponent - 1) * len(_FRACTIONS[self.schema])
        key = exponent - 1 if fraction == 0.5 else exponent
        return (key + (1 << -self.schema) - 1) >> -self.schema

    def _add(self, key: int, count: int) -> None:
        self.counts[key] = self.counts.get(key, 0) + count
        while len(self.counts) > MOST_BUCKETS and self.schema > LOWEST_SCHEMA:
            self._widen()

    def _widen(self) -> None:
        """Merge pairs of buckets."""
        merged: dict[int, int] = {}
        for key, count in self.counts.items():
            wider = _wider(key)
            merged[wider] = merged.get(wider, 0) + count
        self.counts = merged
        self.schema -= 1


def _wider(key: int) -> int:
    """The bucket, twice as wide, that has a bucket's values."""
    return (key + 1) >> 1
