"""The best rows that are listed, or found in blocks, are those that a pass over all rows finds."""

from __future__ import annotations

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import HOSTNAME, affinity, cluster, node, pod, pod_term
from tests.harness import default_engine, schedule

from kubesched.cluster.table import Ints
from kubesched.cluster.view import Rows
from kubesched.engine import cache, ranking, scoring
from kubesched.engine.cache import CachedAnswers
from kubesched.engine.ranking import BLOCK, FEW, BestList, BlockMaxima
from kubesched.engine.tie_breaking import Best

ROWS = 2 * BLOCK + 7
changes = st.lists(
    st.lists(st.tuples(st.integers(0, ROWS - 1), st.integers(-1, 3)), min_size=1, max_size=FEW + 3), max_size=5
)


@pytest.mark.parametrize("followed", [BestList, BlockMaxima])
@given(st.integers(0, 2), changes)
def test_the_best_rows_after_changes(
    followed: type[BestList | BlockMaxima], everywhere: int, steps: list[list[tuple[int, int]]]
) -> None:
    """After each change the rows, their number, and each of them by its index are those of a new search."""
    scores = np.full(ROWS, everywhere, dtype=np.int64)
    maxima = followed(scores)
    for step in [[], *steps]:
        for row, score in step:
            scores[row] = score
        maxima.update([row for row, _ in step])
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


def test_the_same_nodes_are_chosen_where_few_have_a_score(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the same seed, pods go to the same nodes, whether the few that attract them are looked at alone or with all
    others: as long as such a node is the best, when it is as good as others, and when it is worse or full."""
    sociable = affinity(prefer_near=[(1, pod_term({"app": "web"}, HOSTNAME))])
    few: list[bool] = []
    best_of_few = scoring._best_of_few

    def watched(cached: CachedAnswers, part: Ints, rows: Rows) -> Best | None:
        best = best_of_few(cached, part, rows)
        few.append(best is not None)
        return best

    def placed(cpu: str) -> list[str]:
        made = cluster(*(node(f"n{index}", cpu="4") for index in range(40)))
        engine = default_engine(made, random=Random(7))
        chosen = []
        for index in range(30):
            decision = schedule(
                engine, pod(f"p{index}", cpu=cpu, labels={"app": "web"}, affinity=sociable), record=False
            )
            made.assume(decision.info, decision.node)
            chosen.append(decision.node)
        return chosen

    without = [placed(cpu) for cpu in ("100m", "1", "2")]
    monkeypatch.setattr(cache, "LARGE", 1)
    monkeypatch.setattr(scoring, "LARGE", 1)
    monkeypatch.setattr(scoring, "SAMPLED", 1)
    monkeypatch.setattr(scoring, "FEW", 2)
    monkeypatch.setattr(scoring, "_best_of_few", watched)
    assert [placed(cpu) for cpu in ("100m", "1", "2")] == without
    assert any(few)
