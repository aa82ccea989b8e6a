"""The best rows found in blocks are those that a pass over all rows finds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import cluster, node, pod
from tests.harness import default_engine, schedule

from kubesched.engine import cache, ranking
from kubesched.engine.ranking import BLOCK, BlockMaxima

ROWS = 2 * BLOCK + 7
changes = st.lists(
    st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-1, 3)), min_size=1, max_size=5), max_size=5
)


@given(st.integers(0, 2), changes)
def test_the_best_rows_after_changes(everywhere: int, steps: list[list[tuple[int, int]]]) -> None:
    """After each change the rows, their number, and each of them by its index are those of a new search."""
    scores = np.full(ROWS, everywhere, dtype=np.int64)
    maxima = BlockMaxima(scores)
    for step in [[], *steps]:
        for row, score in step:
            scores[row] = score
        maxima.update(row for row, _ in step)
        best, wanted = maxima.best(), np.flatnonzero(scores == scores.max()).tolist()
        assert list(best) == best.tolist() == wanted
        assert len(best) == len(wanted)
        assert all(best[index] == wanted[index] for index in {0, len(wanted) // 2, len(wanted) - 1})


def test_the_same_nodes_are_chosen_with_blocks_and_without(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same seed, pods go to the same nodes, wherever blocks end and also after a node has changed."""

    def placed() -> list[str]:
        made = cluster(*(node(f"n{index}", cpu="4") for index in range(20)))
        engine = default_engine(made, random=Random(7))
        chosen = []
        for index in range(40):
            if index == 20:
                made.set(node("n3", cpu="8"))
            decision = schedule(engine, pod(f"p{index}", cpu="1"), record=False)
            made.assume(decision.info, decision.node)
            chosen.append(decision.node)
        return chosen

    without = placed()
    monkeypatch.setattr(cache, "LARGE", 1)
    monkeypatch.setattr(ranking, "BLOCK", 3)
    assert placed() == without
