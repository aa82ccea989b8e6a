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
