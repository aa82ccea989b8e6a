"""How the plugins here bring scores to 0 to 100."""

from __future__ import annotations

import numpy as np

from kubesched.cluster.table import Ints
from kubesched.framework.plugin import MAX_NODE_SCORE


def min_max(scores: Ints) -> Ints:
    """Scale linearly: the lowest score becomes 0, the highest 100. Equal scores all become 0."""
    if not len(scores):
        return scores
    lowest = scores.min()
    span = scores.max() - lowest
    if span == 0:
        return np.zeros_like(scores)
    scaled: Ints = (scores - lowest) * MAX_NODE_SCORE // span
    return scaled


def lowest_best(scores: Ints) -> Ints:
    """The lowest score becomes 100, the highest 0. Equal scores become 100, unless all are 0."""
    if not scores.any():
        return scores
    lowest = scores.min()
    span = float(scores.max() - lowest)
    # In this order, as upstream: 100 * 29 / 100 is 29, but 100 * (29 / 100) is less.
    worse = MAX_NODE_SCORE * (scores - lowest).astype(np.float64) / (span or 1.0)
    found: Ints = MAX_NODE_SCORE - worse.astype(np.int64)
    return found
