"""How full a node should be: three ways to score requested against allocatable.

Each takes arrays with a row per resource and a column per node. A node's score ignores resources that the node does
not have.

Huge amounts, near 2^63, overflow here as they do in upstream's 64-bit arithmetic, and quotients are cut towards zero as
Go cuts them, so that absurd nodes get upstream's scores. Where upstream's score would leave 0 to 100, which fails every
pod there, ours is clipped instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from kubesched.cluster.table import Ints
from kubesched.config.args import ScoringStrategy, UtilizationShapePoint
from kubesched.framework.plugin import MAX_NODE_SCORE
from kubesched.plugins.node_resources.amounts import EXACT, AmountsAsDoubles, Floats, ScoredRequests

Strategy = Callable[[Ints, Ints, Ints, bool], Ints]
"""(requested, allocatable, weights, whether amounts may overflow) → score per node."""

OneNodeStrategy = Callable[[ScoredRequests, Sequence[int], Sequence[int]], int]
"""(requests, allocatable by column, used by column) → score of one node."""

_MAX_CUSTOM_SCORE = 10
_FEW = 128
"""Up to so many integers are divided in less time than it takes to find out whether doubles are exact."""


def strategy(config: ScoringStrategy) -> Strategy:
    """The scoring function that a configuration names."""
    if config.type == "LeastAllocated":
        return least_allocated
    if config.type == "MostAllocated":
        return most_allocated
    ratio = config.requested_to_capacity_ratio
    return requested_to_capacity_ratio(ratio.shape if ratio is not None else ())


def one_node_strategy(config: ScoringStrategy) -> OneNodeStrategy | None:
    """The scoring function for one node, for the strategies that have one."""
    return {"LeastAllocated": _least_allocated_on, "MostAllocated": _most_allocated_on}.get(config.type)


def _least_allocated_on(wanted: ScoredRequests, allocatable: Sequence[int], used: Sequence[int]) -> int:
    total = weight_sum = 0
    for column, amount, weight in wanted.each:
        offered = allocatable[column]
        if offered:
            weight_sum += weight
            free = offered - used[column] - amount
            if free > 0:
                total += free * MAX_NODE_SCORE // offered * weight
    return total // max(weight_sum, 1)


def _most_allocated_on(wanted: ScoredRequests, allocatable: Sequence[int], used: Sequence[int]) -> int:
    total = weight_sum = 0
    for column, amount, weight in wanted.each:
        offered = allocatable[column]
        if offered:
            weight_sum += weight
            total += min(used[column] + amount, offered) * MAX_NODE_SCORE // offered * weight
    return total // max(weight_sum, 1)


def least_allocated(requested: Ints, allocatable: Ints, weights: Ints, huge: bool) -> Ints:
    """Prefer free nodes."""
    if huge:
        free = np.where(requested > allocatable, 0, allocatable - requested)
    else:
        free = np.maximum(allocatable - requested, 0)
    free *= MAX_NODE_SCORE
    return _weighted(free, allocatable, weights, huge)


def least_allocated_in_doubles(amounts: AmountsAsDoubles, wanted: ScoredRequests) -> Ints:
    """The same for amounts that are exact in doubles: a third of the time."""
    scores = amounts.free - wanted.doubles
    np.maximum(scores, 0.0, out=scores)
    scores *= MAX_NODE_SCORE
    scores /= amounts.offered
    np.floor(scores, out=scores)
    if any(weight != 1 for weight in wanted.weight_list):
        scores *= wanted.weights
    mean: Floats = scores.sum(axis=0)
    mean /= max(sum(wanted.weight_list), 1)
    return mean.astype(np.int64)


def most_allocated(requested: Ints, allocatable: Ints, weights: Ints, huge: bool) -> Ints:
    """Prefer full nodes."""
    return _weighted(np.minimum(requested, allocatable) * MAX_NODE_SCORE, allocatable, weights, huge)


def requested_to_capacity_ratio(shape: Sequence[UtilizationShapePoint]) -> Strategy:
    """Prefer the utilisation at which `shape` is highest."""
    by_percent = np.array([_interpolate(shape, percent) for percent in range(101)], dtype=np.int64)

    def score(requested: Ints, allocatable: Ints, weights: Ints, huge: bool) -> Ints:
        present = allocatable != 0
        percent = _quotient(requested * 100, np.where(present, allocatable, 1), huge)
        scores = by_percent[np.where(requested > allocatable, 100, np.clip(percent, 0, 100))]
        counted = weights * (present & (scores > 0))
        total = counted.sum(axis=0)
        mean = (scores * counted).sum(axis=0) / np.maximum(total, 1)
        return np.where(total == 0, 0, np.floor(mean + 0.5)).astype(np.int64)

    return score


def _weighted(scaled: Ints, allocatable: Ints, weights: Ints, huge: bool) -> Ints:
    """The weighted mean of scaled / allocatable over the resources each node has, in whole numbers."""
    if not huge and allocatable.size > _FEW and allocatable.min() > 0 and allocatable.max() <= EXACT:
        # Dividing doubles takes a tenth of the time of dividing integers.
        parts = (scaled / allocatable).astype(np.int64)
        total: Ints = (parts if (weights == 1).all() else parts * weights).sum(axis=0)
        return total // max(int(weights.sum()), 1)
    if np.logical_and.reduce(allocatable, axis=None):
        parts = _quotient(scaled, allocatable, huge) * weights
        mean: Ints = np.add.reduce(parts, axis=0) // max(sum(weights.ravel().tolist()), 1)
    else:
        present = allocatable != 0
        counted = weights * present
        scores: Ints = (_quotient(scaled, np.where(present, allocatable, 1), huge) * counted).sum(axis=0)
        mean = scores // np.maximum(counted.sum(axis=0), 1)
    return in_range(mean) if huge else mean


def in_range(scores: Ints) -> Ints:
    """Scores limited to 0…100. Two ufuncs take half the time of `ndarray.clip` on a single row."""
    return np.minimum(np.maximum(scores, 0), MAX_NODE_SCORE)


def _quotient(dividend: Ints, divisor: Ints, huge: bool) -> Ints:
    """Whole quotients, cut towards zero."""
    quotient: Ints = dividend // divisor
    if huge:
        quotient += (quotient < 0) & (dividend % divisor != 0)
    return quotient


def _interpolate(shape: Sequence[UtilizationShapePoint], percent: int) -> int:
    points = [(point.utilization, point.score * (MAX_NODE_SCORE // _MAX_CUSTOM_SCORE)) for point in shape]
    before: tuple[int, int] | None = None
    for at, score in points:
        if percent <= at:
            if before is None:
                return score
            rise = (score - before[1]) * (percent - before[0])
            steps = abs(rise) // (at - before[0])  # truncated towards zero, also on a falling line
            return before[1] + (steps if rise >= 0 else -steps)
        before = (at, score)
    return points[-1][1]
