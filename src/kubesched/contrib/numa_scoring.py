"""How well a request fits the NUMA zones of nodes: a score per row."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Final

import numpy as np

from kubesched.cluster.table import Ints, Mask
from kubesched.contrib.numa_zones import ABSENT, ZoneColumns
from kubesched.framework.plugin import MAX_NODE_SCORE

Request = Mapping[str, int]
"""Amounts by resource, as columns have them."""
Columns = dict[str, Ints]
"""What is available, by resource: an array per NUMA id, an entry per row."""
ZoneScore = Callable[[Request, Columns, Mapping[str, int]], Ints]

LARGEST_DISTANCE: Final = 256.0


def whole(resource: str, amounts: Ints | int) -> Ints:
    """Amounts in whole units, rounded up; those that are absent count as 0."""
    found: Ints = np.maximum(np.asarray(amounts), 0)
    return np.asarray(-(-found // 1000)) if resource == "cpu" else found


def least_allocated(request: Request, available: Columns, weights: Mapping[str, int]) -> Ints:
    """The more is left of a zone, the better."""
    return _weighted(request, available, weights, lambda wanted, there: (there - wanted) * MAX_NODE_SCORE // there)


def most_allocated(request: Request, available: Columns, weights: Mapping[str, int]) -> Ints:
    """The less is left of a zone, the better."""
    return _weighted(request, available, weights, lambda wanted, there: wanted * MAX_NODE_SCORE // there)


def _weighted(
    request: Request, available: Columns, weights: Mapping[str, int], score: Callable[[Ints, Ints], Ints]
) -> Ints:
    total: Ints | int = 0
    for name, amount in request.items():
        fits = (available[name] > 0) & (amount <= available[name])
        there = np.maximum(whole(name, available[name]), 1)
        total = total + np.where(fits, score(whole(name, amount), there), 0) * _weight(weights, name)
    return np.asarray(total // max(sum(_weight(weights, name) for name in request), 1))


def _weight(weights: Mapping[str, int], name: str) -> int:
    return max(weights.get(name, 1), 1)


def balanced_allocation(request: Request, available: Columns, weights: Mapping[str, int]) -> Ints:
    """The less the used shares of the resources differ, the better."""
    shares = []
    for name, amount in request.items():
        there = whole(name, available[name])
        shares.append(np.where(there > 0, whole(name, amount) / np.maximum(there, 1), 1.0))
    stacked = np.stack(shares)
    variance = stacked.var(axis=0, ddof=1) if len(shares) > 1 else np.zeros(stacked.shape[1:])
    return np.where((stacked > 1).any(axis=0), 0, ((1 - variance) * MAX_NODE_SCORE).astype(np.int64))


STRATEGIES: Final[dict[str, ZoneScore]] = {
    "LeastAllocated": least_allocated,
    "MostAllocated": most_allocated,
    "BalancedAllocation": balanced_allocation,
}


def worst_zone(
    score: ZoneScore, request: Request, zones: ZoneColumns, available: Columns, weights: Mapping[str, int]
) -> Ints:
    """The lowest score of a row's zones, of those that fit at all; 0 if none does."""
    scores = np.where(zones.zones, score(request, available, weights), 0)
    lowest = np.where(scores > 0, scores, MAX_NODE_SCORE + 1).min(axis=0)
    return np.where(lowest > MAX_NODE_SCORE, 0, lowest)


class FewestZones:
    """Scores rows by how many zones containers need, and by the distance between those."""

    def __init__(self, zones: ZoneColumns, available: Columns) -> None:
        self._zones = zones
        self._available = {name: column.copy() for name, column in available.items()}
        size = len(zones.reported)
        self._most: Ints = np.zeros(size, dtype=np.int64)
        self._near: Mask = np.ones(size, dtype=np.bool_)
        self._fits: Mask = np.ones(size, dtype=np.bool_)

    def add(self, request: Request) -> None:
        """Place a container, or a pod, on the zones that it needs."""
        concerned = np.zeros(len(self._fits), dtype=np.bool_)
        for name in request:
            concerned |= (self._available[name] != ABSENT).any(axis=0)
        open_ = concerned.copy()
        for count in range(1, self._zones.width + 1):
            if not open_.any():
                break
            self._try(request, list(combinations(range(self._zones.width), count)), open_)
        self._fits &= ~open_

    def _try(self, request: Request, choices: Sequence[tuple[int, ...]], open_: Mask) -> None:
        """Find the nearest zones, of so many, that have room. Rows that are done are taken out of `open_`."""
        size = len(open_)
        nearest = np.full(size, LARGEST_DISTANCE - 1)
        best, chosen = np.full(size, LARGEST_DISTANCE), np.full(size, -1)
        for number, choice in enumerate(choices):
            there = self._zones.zones[list(choice)].all(axis=0)
            distance = self._zones.distances[np.ix_(choice, choice)].mean(axis=(0, 1))
            nearest = np.where(there, np.minimum(nearest, distance), nearest)
            better = there & self._has_room(request, choice) & (distance < best)
            best[better], chosen[better] = distance[better], number
        done = open_ & (chosen >= 0)
        self._near &= ~done | (best == nearest)
        self._most[done] = np.maximum(self._most[done], len(choices[0]))
        for number in np.unique(chosen[done]).tolist():
            self._take(request, choices[number], np.flatnonzero(done & (chosen == number)))
        open_ &= ~done

    def _has_room(self, request: Request, choice: tuple[int, ...]) -> Mask:
        found = np.ones(len(self._fits), dtype=np.bool_)
        for name, amount in request.items():
            columns = self._available[name][list(choice)]
            found &= (columns != ABSENT).all(axis=0) & ((amount == 0) | (columns.sum(axis=0) >= amount))
        return found

    def _take(self, request: Request, choice: tuple[int, ...], rows: Ints) -> None:
        for name, amount in request.items():
            left = np.full(len(rows), amount)
            for zone in choice:
                taken = np.minimum(left, np.maximum(self._available[name][zone, rows], 0))
                self._available[name][zone, rows] -= taken
                left -= taken

    def scores(self) -> Ints:
        """100 for a request that no zone matters to; less with every zone, and a bit more if the zones are near."""
        step = MAX_NODE_SCORE // self._zones.max_nodes
        found = MAX_NODE_SCORE - self._most * step + np.where(self._near, step // 2, 0)
        return np.where(self._fits, np.where(self._most == 0, MAX_NODE_SCORE, found), 0)
