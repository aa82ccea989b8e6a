"""The search for preemption candidates: cached and vectorised, it finds what trying every node by itself finds."""

from __future__ import annotations

import gc
from collections import Counter
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import HOSTNAME, ZONE, affinity, budget, cluster, node, pod, pod_term, selector, spread
from tests.harness import default_engine, schedule

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.engine.engine import Engine
from kubesched.engine.outcome import Outcome
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.state import CycleState
from kubesched.plugins.default_preemption import search as preemption_search
from kubesched.plugins.default_preemption.dry_run import OneRowProbe, Trial, dry_run
from kubesched.plugins.default_preemption.plugin import DefaultPreemption
from kubesched.plugins.default_preemption.search import Candidates, CandidateSearch

WEB, DB = {"app": "web"}, {"app": "db"}
PREEMPTORS: dict[str, dict[str, Any]] = {
    "large": {"cpu": "3"},
    "port": {"host_ports": [80]},
    "spread": {"labels": WEB, "spread": [spread(WEB, ZONE)], "cpu": "2"},
    "alone": {"labels": WEB, "affinity": affinity(away=[pod_term(WEB, HOSTNAME)])},
    "away from db": {"cpu": "2", "affinity": affinity(away=[pod_term(DB, ZONE)])},
    "near db": {"cpu": "2", "affinity": affinity(near=[pod_term(DB, ZONE)])},
    "on ssd": {"cpu": "2", "node_selector": {"disk": "ssd"}},
}
RUNNING: list[dict[str, Any]] = [
    {"cpu": "1", "labels": WEB},
    {"cpu": "1", "labels": DB, "host_ports": [80]},
    {"cpu": "2", "priority": 5},
    {"cpu": "1", "priority": 20},
    {"cpu": "500m", "affinity": affinity(away=[pod_term(WEB, ZONE)])},
    {"labels": DB, "affinity": affinity(away=[pod_term(None, HOSTNAME)])},
]
Pods = list[tuple[int, dict[str, Any]]]
PLACES = st.tuples(st.integers(0, 2), st.sampled_from(RUNNING))
crowds = st.lists(PLACES, min_size=9, max_size=15)
nominees = st.lists(PLACES, max_size=3)


class Watched(CandidateSearch):
    """Remembers the result of a search, and what trying every row by itself gives."""

    def search(self, state: CycleState, pod: api.Pod, rows: Any, wanted: int) -> Candidates:
        self.found = super().search(state, pod, rows, wanted)
        self.expected = [self._alone(state, pod, row) for row in rows.tolist()]
        return self.found

    def _alone(self, state: CycleState, pod: api.Pod, row: int) -> Trial:
        what_if = self._what_if()
        table = self._cluster.nodes
        return dry_run(what_if, table, OneRowProbe(what_if, state, pod), pod, [row], self.budgets)[0]


def watched(engine: Engine) -> Watched:
    """Replace the search of an engine's preemption."""
    plugin = engine.framework.preemption
    assert isinstance(plugin, DefaultPreemption)
    plugin._search = search = Watched(engine.cluster, lambda: engine.framework.what_if)
    return search


def of(trial: Trial) -> tuple[int, list[str], int]:
    return trial.row, [info.pod.uid for info in trial.victims], trial.violations


def compare(search: Watched) -> None:
    """Same candidates, and the same reasons for the other rows."""
    assert [of(trial) for trial in search.found.candidates] == [of(t) for t in search.expected if t.victims]
    failures = Counter(t.failure for t in search.expected if t.failure is not None)
    assert {s: n for s, n in search.found.failures.items() if s.plugin or s in failures} == failures
    assert search.found.tried == len(search.expected)


def filled(running: Pods, nominated: Pods) -> ClusterState:
    """Three small nodes with pods on them and pods nominated to them."""
    nodes = [node(f"n{i}", cpu="3", zone="aab"[i], labels={"disk": ["ssd", "hdd"][i % 2]}) for i in range(3)]
    on, due = [], []
    for i, (row, template) in enumerate(running):
        on.append(pod(f"r{i}", node=f"n{row}", started=f"2026-01-01T00:00:{i:02}Z", **template))
    for i, (row, template) in enumerate(nominated):
        due.append(pod(f"p{i}", nominated=f"n{row}", **{"priority": 10, **template}))
    return cluster(*nodes, *on, *due, budget("pdb", selector(WEB), allowed=1))


@given(crowds, nominees, st.lists(st.sampled_from(sorted(PREEMPTORS)), min_size=1, max_size=4), st.data())
def test_the_search_finds_what_single_trials_find(
    running: Pods, nominated: Pods, kinds: list[str], data: st.DataObject
) -> None:
    """Candidates, victims, violations and failures are those of trying each node alone with all plugins, also after
    pods have come and gone and nominations have changed. The same holds for the statuses of nodes that pods are
    nominated to."""
    made = filled(running, nominated)
    engine = default_engine(made)
    search = watched(engine)
    for number, kind in enumerate(kinds * 2):
        search.expected, search.found = [], Candidates()
        decision = schedule(engine, pod(f"new{number}", priority=10, **PREEMPTORS[kind]))
        compare(search)
        if decision.diagnosis is not None:
            for row in range(3):
                alone = engine.framework.what_if.status_on(decision.state, decision.pod, row)
                assert decision.diagnosis.status_of(row) == alone
        chosen = decision.post_filter
        if chosen is not None and chosen.nominated_node_name:
            follow(made, decision.info.pod, chosen, data.draw(st.sampled_from(("nominate", "evict", "leave"))))


def follow(made: ClusterState, preemptor: api.Pod, chosen: PostFilterResult, what: str) -> None:
    """What a scheduler does afterwards: it nominates the pod, and evicts the victims."""
    if what != "leave":
        made.nominate(made.classes.info(preemptor), chosen.nominated_node_name)
    if what == "evict":
        for victim in chosen.victims:
            made.remove_pod(victim.pod.uid)


def test_unchanged_rows_are_not_tried_again() -> None:
    """The second pod of a class asks Filter plugins only about the row that has changed."""
    made = filled([(row, RUNNING[0]) for row in range(3)] * 3, [])
    engine = default_engine(made)
    tried: list[list[int]] = []
    what_if = engine.framework.what_if
    on_rows = what_if.on_rows

    def watched_rows(rows: Sequence[int]) -> AbstractContextManager[None]:
        tried.append(list(rows))
        return on_rows(rows)

    what_if.on_rows = watched_rows  # type: ignore[assignment, method-assign]  # to see them
    chosen = [schedule(engine, pod(f"new{number}", priority=10, cpu="3")).post_filter for number in range(3)][-1]
    assert chosen is not None
    assert tried == [tried[0]]
    assert sorted(tried[0]) == [0, 1, 2]
    follow(made, pod("new2", priority=10, cpu="3"), chosen, "evict")
    row = made.nodes.row_of[chosen.nominated_node_name]
    schedule(engine, pod("new3", priority=10, cpu="3"))
    assert {each for rows in tried[1:] for each in rows} == {row}


def test_few_sets_of_classes_are_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """With too many sets of classes of moved pods everything is tried again, with the same result."""
    monkeypatch.setattr(preemption_search, "MOST_SETS", -3)  # none at all, for three nodes
    made = filled([(row, {"cpu": "1", "labels": {"own": f"{row}{i}"}}) for row in range(3) for i in range(3)], [])
    engine = default_engine(made)
    search = watched(engine)
    for number in range(3):
        schedule(engine, pod(f"new{number}", priority=10, **PREEMPTORS["spread"]))
        compare(search)
        (cached,) = search._cached.values()
        assert len(cached.moved_classes) <= 3


def test_trials_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used classes are dropped, also if they have no candidate."""
    for name, value in {"CACHE_BYTES": 50, "CLASS_BYTES": 10, "SET_BYTES": 0, "TRIAL_BYTES": 0, "ROW_BYTES": 0}.items():
        monkeypatch.setattr(preemption_search, name, value)
    made = filled([(row, RUNNING[0]) for row in range(3)], [])
    engine = default_engine(made)
    search = watched(engine)
    decisions = [schedule(engine, pod(f"new{number}", priority=10, cpu=str(100 + number))) for number in range(9)]
    assert all(decision.outcome is Outcome.UNSCHEDULABLE for decision in decisions)
    assert [kept() for kept in search._cached] == [decision.info.pod_class for decision in decisions[-5:]]
    assert search._bytes == 50


def test_pods_that_fit_nowhere_leave_no_trials_behind() -> None:
    """A class goes with its last pod, and so do its trials, except for the last few."""
    made = cluster(node("n0", cpu="1"), pod("r", node="n0", cpu="1"))
    engine = default_engine(made)
    search = watched(engine)
    for number in range(made.classes.RECENT + 50):
        schedule(engine, pod(f"p{number}", priority=10, cpu=str(100 + number)), record=False)
    gc.collect()
    assert len(search._cached) <= made.classes.RECENT + 1
    assert search._bytes == sum(each.size for each in search._cached.values())


def test_pods_that_were_nominated_side_by_side_leave_no_trials_behind() -> None:
    """The trials of a class know of its other pods that were nominated, and go with the last of them all the same."""
    running = (pod(f"r{i}", node=f"n{i}", cpu="1") for i in range(3))
    made = cluster(*(node(f"n{i}", cpu="1") for i in range(3)), *running)
    engine = default_engine(made)
    search = watched(engine)
    for number in range(3):
        preemptor = pod(f"p{number}", priority=10, cpu="1")
        chosen = schedule(engine, preemptor, record=False).post_filter
        assert chosen is not None
        follow(made, preemptor, chosen, "nominate")
    assert len(search._cached) == 1
    for info in [each for name in made.nominations.nodes for each in made.nominations.on(name)]:
        made.nominations.remove(info.pod.uid)
    for number in range(made.classes.RECENT + 1):
        made.classes.info(pod(f"other{number}", cpu=str(100 + number)))
    del info, preemptor, chosen
    search.found, search.expected = Candidates(), []
    gc.collect()
    assert not search._cached


def test_a_nominated_pod_is_tried_again_after_budgets_have_changed() -> None:
    """Nothing is cached then, not even for the node that the pod is nominated to."""
    made = filled([(row, RUNNING[0]) for row in range(3)] * 3, [])
    engine = default_engine(made)
    preemptor = pod("new", priority=10, cpu="3")
    first = schedule(engine, preemptor).post_filter
    assert first is not None
    follow(made, preemptor, first, "nominate")
    made.set(budget("pdb", selector(DB), allowed=0))
    again = schedule(engine, preemptor)
    assert again.outcome is Outcome.UNSCHEDULABLE
    assert again.post_filter is not None
    assert again.post_filter.victims


def test_no_more_candidates_than_upstream_compares() -> None:
    """The search stops at the candidate that makes them enough, provided that one violates no budget."""
    made = cluster(
        *(node(f"n{i}", cpu="1") for i in range(6)),
        *(pod(f"r{i}", node=f"n{i}", cpu="1", labels=WEB if i < 3 else {}) for i in range(6)),
        budget("pdb", selector(WEB), allowed=0),
    )
    engine = default_engine(made)
    search = watched(engine)
    info = made.classes.info(pod("new", cpu="1", priority=10))
    decision = engine.schedule(info)
    assert decision.diagnosis is not None
    for start, rows in ((0, [0, 1, 2, 3]), (1, [1, 2, 3]), (3, [3, 4])):
        found = search.search(decision.state, info.pod, np.roll(np.arange(6), -start), 2)
        assert [trial.row for trial in found.candidates] == rows
