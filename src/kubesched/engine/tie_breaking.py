"""Which of several nodes with the same highest score is taken."""

from __future__ import annotations

from random import Random

from kubesched.cluster.table import Ints
from kubesched.engine.ranking import HighestRows, ListedRows
from kubesched.framework.handle import Choose as Choose

Best = Ints | HighestRows | ListedRows
"""The nodes with the highest score."""


class TieBreaker:
    """Takes one at random, as upstream does, or lets a given function choose."""

    def __init__(self, random: Random, choose: Choose | None = None) -> None:
        self._random = random
        self._choose = choose

    def __call__(self, best: Best) -> int:
        """One of these rows."""
        if len(best) == 1:
            return int(best[0])
        if self._choose is not None:
            return self._choose(best.tolist())
        return int(best[self._random.randrange(len(best))])
