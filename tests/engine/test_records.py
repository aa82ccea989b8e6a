"""What the engine keeps: recorded decisions, which do not change, and cached results, which are limited."""

from __future__ import annotations

import gc

import numpy as np
import pytest
from tests.builders import affinity, cluster, node, pod, pod_term, spread
from tests.harness import default_engine, schedule

from kubesched.api import objects as api
from kubesched.cluster.counters import RowCounter
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.engine import filtering as engine_module
from kubesched.engine.cache import CachedAnswers
from kubesched.engine.decision import Decision
from kubesched.framework.plugin import Plugin, Reads
from kubesched.framework.state import CycleState


def said(decision: Decision) -> tuple[str, set[str]]:
    """The message of a decision, and the reason for each rejected node."""
    assert decision.diagnosis is not None
    names = decision.diagnosis.table.names
    reasons = {f"{names[row]}: {s.message}" for s, rows in decision.diagnosis.statuses() for row in rows.tolist()}
    return decision.diagnosis.message(), reasons


@pytest.mark.parametrize("room", [0, 1])
def test_a_recorded_decision_stays_as_it_was(room: int) -> None:
    """A recorded decision does not change with the cluster, whether the pod was placed or not."""
    names = [f"n{number}" for number in range(4)]
    running = [pod(f"on-{name}", node=name, cpu="3") for name in names[room:]]
    world = cluster(*(node(name, cpu="4") for name in names), *running)
    engine = default_engine(world)
    decision = schedule(engine, pod("first", cpu="2", preemption_policy="Never"))
    before = said(decision)
    assert len(before[1]) == len(names) - room
    world.remove(running[-1])
    schedule(engine, pod("second", cpu="2", preemption_policy="Never"))
    world.remove(node("n2"))
    assert said(decision) == before


def test_cached_answers_are_bounded_by_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recently used classes are dropped, as many as it takes, also after the cluster has grown."""
    for name, value in {"CACHE_BYTES": 24, "CLASS_BYTES": 2, "ROW_BYTES": 1}.items():
        monkeypatch.setattr(engine_module, name, value)
    world = cluster(node("n0"), node("n1"))
    engine = default_engine(world)
    for number in range(9):
        schedule(engine, pod(f"p{number}", cpu=f"{number + 1}m"))
    assert len(engine.filtering._cached_classes) == 6
    for number in range(2, 4):
        world.set(node(f"n{number}"))
    schedule(engine, pod("last", cpu="100m"))
    assert len(engine.filtering._cached_classes) == 4


def test_pods_of_many_classes_leave_nothing_behind_when_they_are_deleted() -> None:
    """A class goes with its last pod, and so does everything that was cached for it, except for the last few."""
    before = _live_answers()
    world = cluster(node("n0"), node("n1"), node("n2"))
    engine = default_engine(world)
    for number in range(world.classes.RECENT + 100):
        decision = schedule(engine, pod(f"p{number}", cpu=f"{number + 1}m"), record=False)
        world.assume(decision.info, decision.node)
        world.remove_pod(decision.info.pod.uid)
    del decision
    gc.collect()
    assert len(world.classes) == len(engine.filtering._cached_classes) == world.classes.RECENT
    assert _live_answers() - before <= world.classes.RECENT + 5


def _live_answers() -> int:
    """How many cached answers there are in the whole process, those of other tests included."""
    gc.collect()
    return sum(type(each) is CachedAnswers for each in gc.get_objects())


class Boundless(Plugin):
    """Returns scores out of range for nodes with a pod."""

    name = "Boundless"
    reads = Reads.PODS

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        return nodes.pod_count * 1000


def test_a_score_out_of_range_is_noted_once() -> None:
    """A bad score for a node that is not feasible does no harm, and is recorded once."""
    world = cluster(node("a"), node("b"), node("full", unschedulable=True))
    engine = default_engine(world, Boundless)
    assert schedule(engine, pod("first")).node == "a"
    for number in range(5):
        world.set(pod(f"p{number}", node="full"))
        assert schedule(engine, pod(f"next-{number}")).node == "a"
    (kept,) = (each for each in gc.get_objects() if type(each) is CachedAnswers and each._framework is engine.framework)
    assert len(kept.suspects) == 1


class InPlace(Plugin):
    """Scores nodes by their number and normalises in place, as Go's plugins do."""

    name = "InPlace"
    reads = Reads.NODE

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        return np.arange(len(nodes), dtype=np.int64) * 10

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        scores += 1
        return scores


def test_normalising_in_place_spoils_no_cached_scores() -> None:
    """The second pod of a class gets the same scores as the first."""
    engine = default_engine(cluster(node("a"), node("b")), InPlace)
    given = [schedule(engine, pod(name)).node_scores for name in ("first", "second")]
    assert [[scores["InPlace"] for scores in each.values()] for each in given] == [[1, 11], [1, 11]]


def _asking_for(name: str) -> list[api.Pod]:
    """Pods that fit only on a node with this label and resource, each for another reason."""
    web = {"app": "web"}
    return [
        pod("selecting", node_selector={name: "x"}),
        pod("spread", labels=web, spread=[spread(web, name)]),
        pod("near", labels=web, affinity=affinity(near=[pod_term(web, name)])),
        pod("greedy", requests={name: 1}),
    ]


def test_names_that_only_pods_use_take_no_memory() -> None:
    """Label keys and resource names of pods add no columns, and of one selector's domains a limited number is kept.
    A node that has what the pods ask for is found."""
    world = cluster(node("n0"), node("n1"))
    engine = default_engine(world)
    before = len(world.nodes.resource_columns)
    for number in range(2 * RowCounter.MOST_DOMAINS):
        name = f"example.com/made-up-{number}"
        assert [schedule(engine, asking).node for asking in _asking_for(name)] == [""] * 4
    assert not any("made-up" in key for key in world.nodes.label_columns)
    assert len(world.nodes.resource_columns) == before
    assert all(len(each._domains) <= RowCounter.MOST_DOMAINS for each in world.counts._counters.values())
    world.set(node("n1", labels={name: "x"}, resources={name: "1"}))
    assert [schedule(engine, asking).node for asking in _asking_for(name)] == ["n1"] * 4
