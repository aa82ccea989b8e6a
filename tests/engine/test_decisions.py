"""Whole decisions: from a cluster and a pod to a node, or to the reasons why not."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.builders import affinity, cluster, node, node_term, pod, spread
from tests.harness import default_engine, engine_of, feasible, make, named, place, profile, schedule

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.engine.engine import Engine
from kubesched.engine.outcome import Outcome
from kubesched.framework.plugin import Plugin, Reads, Verdicts
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error, unresolvable, unschedulable
from kubesched.plugins.node_affinity import NodeAffinity
from kubesched.plugins.node_resources import NodeResourcesFit
from kubesched.plugins.node_unschedulable import NodeUnschedulable


class Fixed(Plugin):
    """Scores nodes as it is told, 0 where it is told nothing; notes which nodes it was asked about."""

    name = "Fixed"
    points: ClassVar[dict[str, int]] = {}
    asked: ClassVar[list[str]] = []

    def score(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
        self.asked.append(node.name)
        return self.points.get(node.name, 0)


def fixed(name: str = "Fixed", **points: int) -> type[Fixed]:
    plugin = named(Fixed, name)
    plugin.points, plugin.asked = points, []
    return plugin


class Picky(Plugin):
    """Rejects nodes as it is told, one at a time; notes which nodes it was asked about."""

    name = "Picky"
    rejects: ClassVar[dict[str, Status]] = {}
    asked: ClassVar[list[str]] = []

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        self.asked.append(node.name)
        return self.rejects.get(node.name)


def picky(name: str = "Picky", **rejects: Status) -> type[Picky]:
    plugin = named(Picky, name)
    plugin.rejects, plugin.asked = rejects, []
    return plugin


# --- choosing ---------------------------------------------------------------------------------------------------------


def test_the_highest_total_wins() -> None:
    """Scores are weighted and summed; the decision keeps every plugin's part."""
    made = cluster(node("a"), node("b"), node("c"))
    engine = engine_of(made, fixed("One", a=10, b=20), fixed("Two", a=9, c=7), weights={"Two": 3})
    decision = schedule(engine, pod())
    assert decision.outcome is Outcome.SCHEDULED
    assert decision.node == "a"
    assert decision.scores is not None
    assert {name: (scores, total) for name, scores, total in decision.scores.by_node()} == {
        "a": ({"One": 10, "Two": 27}, 37),
        "b": ({"One": 20, "Two": 0}, 20),
        "c": ({"One": 0, "Two": 21}, 21),
    }


def test_only_feasible_nodes_are_scored() -> None:
    """A node that Filter rejected cannot win, however many points it would get."""
    made = cluster(node("a"), node("b"), node("c"))
    score = fixed(a=100, b=1, c=2)
    decision = schedule(engine_of(made, picky(a=unschedulable("no")), score), pod())
    assert decision.node == "c"
    assert sorted(score.asked) == ["b", "c"]
    assert feasible(decision) == {"b", "c"}
    assert decision.diagnosis is not None
    assert [status.message for status, _ in decision.diagnosis.statuses()] == ["no"]


def test_a_single_feasible_node_needs_no_score() -> None:
    """With one node left there is nothing to compare."""
    made = cluster(node("a"), node("b"))
    score = fixed(a=1)
    decision = schedule(engine_of(made, picky(a=unschedulable("no")), score), pod())
    assert decision.node == "b"
    assert score.asked == []
    assert decision.scores is None
    assert decision.feasible == 1


def test_ties_are_broken_by_the_chooser() -> None:
    """Among the best nodes, and only those, the injected source decides."""
    made = cluster(node("a"), node("b"), node("c"))
    offered: list[Sequence[int]] = []

    def last(rows: Sequence[int]) -> int:
        offered.append(list(rows))
        return rows[-1]

    decision = schedule(engine_of(made, fixed(a=5, c=5), choose=last), pod())
    assert decision.node == "c"
    assert offered == [[0, 2]]
    assert decision.best_rows is not None
    assert decision.best_rows.tolist() == [0, 2]


def test_without_a_chooser_ties_are_random() -> None:
    """The random source that the engine was given decides, evenly and reproducibly."""
    made = cluster(*(node(f"n{i}") for i in range(4)))

    def drawn(seed: int) -> list[str]:
        engine = Engine(profile(made, fixed()), random.Random(seed))
        return [schedule(engine, pod()).node for _ in range(200)]

    assert drawn(1) == drawn(1)
    counts = [drawn(1).count(f"n{i}") for i in range(4)]
    assert min(counts) > 25


def test_without_score_plugins_any_feasible_node_will_do() -> None:
    """A profile that scores nothing takes one feasible node and looks no further."""
    made = cluster(node("a"), node("b"))
    decision = schedule(engine_of(made, picky(a=unschedulable("no"))), pod())
    assert decision.node == "b"
    assert decision.scores is None


def test_without_any_plugin() -> None:
    """A profile without plugins places pods all the same."""
    assert schedule(engine_of(cluster(node("a"))), pod()).node == "a"


def test_pods_spread_over_equal_nodes() -> None:
    """The default profile puts pods of one template where there is most room."""
    made = cluster(*(node(f"n{i}") for i in range(3)))
    placed = place(default_engine(made), [pod(f"p{i}", cpu="1") for i in range(6)])
    assert sorted(placed.values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]


# --- nominated nodes --------------------------------------------------------------------------------------------------


def test_a_nominated_node_comes_first() -> None:
    """A pod that was promised a node goes there if it fits; nobody else is looked at or scored."""
    made = cluster(node("a"), node("b"))
    checks, score = picky(), fixed(a=100)
    decision = schedule(engine_of(made, checks, score), pod(nominated="b"))
    assert decision.node == "b"
    assert set(checks.asked) == {"b"}
    assert score.asked == []
    assert (decision.feasible, decision.evaluated) == (1, 1)


def test_a_nominated_node_that_does_not_fit() -> None:
    """Then all nodes are looked at as usual."""
    made = cluster(node("a"), node("b"))
    engine = engine_of(made, picky(b=unschedulable("taken")), fixed(a=1))
    assert schedule(engine, pod(nominated="b")).node == "a"


@pytest.mark.parametrize("promised", ["gone", "ghost"])
def test_a_nominated_node_that_is_gone(promised: str) -> None:
    """A promise of a node that has left, or is only a name on pods, is void."""
    made = cluster(node("a"), node("gone"), pod("early", node="ghost"))
    made.remove(node("gone"))
    assert schedule(engine_of(made, picky()), pod(nominated=promised)).node == "a"


def test_room_promised_to_others() -> None:
    """A pod does not take room that was promised to one of at least its priority; a more important one may."""
    made = cluster(node("a", cpu="2"), node("b", cpu="1"), pod("promised", nominated="a", cpu="2", priority=5))
    engine = engine_of(made, NodeResourcesFit)
    assert schedule(engine, pod("equal", cpu="1", priority=5)).node == "b"
    assert feasible(schedule(engine, pod("important", cpu="1", priority=6))) == {"a", "b"}
    nowhere = schedule(engine, pod("big", cpu="2", priority=5))
    assert nowhere.message == "0/2 nodes are available: 2 Insufficient cpu."
    made.remove(pod("promised"))
    assert schedule(engine, pod("big", cpu="2", priority=5)).node == "a"


def test_a_promise_does_not_hide_the_nodes_own_reasons() -> None:
    """Where the nominated pods fit besides, a node is rejected for what it lacks itself."""
    made = cluster(node("a", cpu="2"), pod("promised", nominated="a", cpu="1"))
    decision = schedule(engine_of(made, NodeResourcesFit, picky(a=unresolvable("never"))), pod(cpu="1"))
    assert decision.message == "0/1 nodes are available: 1 never."


# --- when nothing fits ------------------------------------------------------------------------------------------------


def test_a_cluster_without_nodes_is_an_error() -> None:
    """There is nothing to say about nodes; upstream says just that."""
    made = cluster(pod("early", node="ghost"))
    decision = schedule(default_engine(made), pod())
    assert decision.outcome is Outcome.NO_NODES
    assert decision.message == "no nodes available to schedule pods"


def test_the_message_counts_reasons() -> None:
    """Every node counts once per reason that the first rejecting plugin gave."""
    made = cluster(
        node("a", unschedulable=True), node("b", cpu="1", memory="1"), node("c", cpu="1", memory="1"), node("d", pods=0)
    )
    decision = schedule(engine_of(made, NodeUnschedulable, NodeResourcesFit), pod(cpu="2", memory="1Gi"))
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message == (
        "0/4 nodes are available: 1 Too many pods, 1 node(s) were unschedulable, 2 Insufficient cpu, "
        "2 Insufficient memory."
    )
    assert decision.diagnosis is not None
    assert decision.diagnosis.unschedulable_plugins == {"NodeUnschedulable", "NodeResourcesFit"}
    assert (decision.node, decision.feasible, decision.evaluated) == ("", 0, 4)


def test_prefilter_may_reject_the_pod_as_a_whole() -> None:
    """Its words stand for all nodes and no Filter is asked."""

    class Never(Plugin):
        """Rejects every pod."""

        name = "Never"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
            return unresolvable("not in a thousand years")

    made = cluster(node("a"), node("b"))
    checks = picky()
    decision = schedule(engine_of(made, Never, checks), pod())
    assert decision.message == "0/2 nodes are available: not in a thousand years."
    assert checks.asked == []
    assert decision.diagnosis is not None
    assert decision.diagnosis.pre_filter == unresolvable("not in a thousand years").by("Never")


def test_prefilter_may_narrow_the_nodes() -> None:
    """Only named nodes are looked at; the others count under the plugins that narrowed."""
    made = cluster(node("a", cpu="1"), node("b"), node("c"))
    by_name = pod(cpu="2", affinity=affinity(nodes=[node_term(name="a"), node_term(name="gone")]))
    decision = schedule(engine_of(made, NodeAffinity, NodeResourcesFit), by_name)
    assert decision.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert decision.diagnosis is not None
    assert decision.diagnosis.unschedulable_plugins == {"NodeAffinity", "NodeResourcesFit"}


def test_narrowing_to_nothing_is_a_rejection() -> None:
    """Names that exclude each other leave no node, and the plugin is named."""

    class Nowhere(Plugin):
        """Names no node."""

        name = "Nowhere"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> set[str]:
            return set()

    decision = schedule(engine_of(cluster(node("a")), Nowhere), pod())
    assert decision.message == "0/1 nodes are available: node(s) didn't satisfy plugin Nowhere."
    assert decision.diagnosis is not None
    assert decision.diagnosis.unschedulable_plugins == {"Nowhere"}


def test_a_recorded_decision_does_not_change() -> None:
    """What was said of a pod that fits nowhere is the same after the cluster has moved on."""
    made = cluster(node("a", cpu="1"), node("b", cpu="1", unschedulable=True), pod("guest", node="a", cpu="1"))
    engine = engine_of(made, NodeUnschedulable, NodeResourcesFit)
    decision = schedule(engine, pod(cpu="1"))
    assert decision.diagnosis is not None
    before = decision.diagnosis.message(), decision.diagnosis.unschedulable_plugins
    made.remove(pod("guest"))
    assert schedule(engine, pod(cpu="1")).node == "a"
    assert (decision.diagnosis.message(), decision.diagnosis.unschedulable_plugins) == before
    made.remove(node("b"))
    assert (decision.diagnosis.message(), decision.diagnosis.unschedulable_plugins) == before


# --- who is asked about what ------------------------------------------------------------------------------------------


def test_a_lifted_plugin_sees_only_rows_still_alive() -> None:
    """One node at a time, it is asked only about nodes that no plugin before it has rejected."""
    made = cluster(*(node(name) for name in "abcd"))
    first, second = picky("First", a=unschedulable("no")), picky("Second", b=unschedulable("no"))
    decision = schedule(engine_of(made, first, second), pod())
    assert sorted(first.asked) == ["a", "b", "c", "d"]
    assert sorted(second.asked) == ["b", "c", "d"]
    assert decision.outcome is Outcome.SCHEDULED


def test_a_lifted_plugin_is_spared_what_vectorised_ones_rejected() -> None:
    """Plugins that answer for all nodes at once run first where they come first in the profile, and only there."""
    made = cluster(node("small", cpu="1"), node("large"))
    early, late = picky("Early"), picky("Late")
    schedule(engine_of(made, early, NodeResourcesFit, late), pod(cpu="2"))
    assert sorted(early.asked) == ["large", "small"]
    assert late.asked == ["large"]


def test_a_lifted_plugin_sees_only_nodes_prefilter_left() -> None:
    """Nodes that PreFilter narrowed away are nobody's business, nominated pods on them included."""
    made = cluster(node("a"), node("b"), node("c"), pod("promised", nominated="c"))
    checks = picky(a=unschedulable("no"))
    by_name = pod(affinity=affinity(nodes=[node_term(name="a"), node_term(name="b")]))
    decision = schedule(engine_of(made, NodeAffinity, checks), by_name)
    assert decision.node == "b"
    assert sorted(checks.asked) == ["a", "b"]


def test_errors_on_nodes_prefilter_left_out_do_not_matter() -> None:
    """A plugin that cannot answer for a node that nobody asked about does not fail the attempt."""
    made = cluster(node("a"), node("b"))

    class Fails(Plugin):
        """Cannot say anything about b."""

        name = "Fails"

        def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
            codes = np.array([name == "b" for name in nodes.names])
            return Verdicts(codes, lambda _: error("cannot say"))

    by_name = pod(affinity=affinity(nodes=[node_term(name="a")]))
    assert schedule(engine_of(made, NodeAffinity, Fails), by_name).node == "a"
    assert schedule(engine_of(made, NodeAffinity, Fails), pod()).message == 'running "Fails" filter plugin: cannot say'


def test_rows_without_a_node_are_never_chosen() -> None:
    """A node known only from its pods' names is no node."""
    made = cluster(node("a", cpu="1"), pod("early", node="ghost"), pod("p", node="a", cpu="1"))
    decision = schedule(engine_of(made, NodeResourcesFit), pod(cpu="1"))
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."
    made.remove(node("a"))
    assert schedule(engine_of(made, NodeResourcesFit), pod()).outcome is Outcome.NO_NODES


# --- percentageOfNodesToScore -----------------------------------------------------------------------------------------


def many(count: int) -> list[api.Node]:
    return [node(f"n{i:04}") for i in range(count)]


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [
        (90, 10, 90),  # fewer than a hundred are all looked at
        (300, 10, 100),  # never fewer than a hundred
        (300, 50, 150),
        (300, 100, 300),
        (300, 0, 300),  # not set: all of them, since that is cheap here
    ],
)
def test_a_percentage_is_honoured(nodes: int, percentage: int, expected: int) -> None:
    """With a percentage set, only as many feasible nodes are scored as upstream would find."""
    engine = engine_of(cluster(*many(nodes)), NodeResourcesFit, percentage=percentage)
    assert schedule(engine, pod(cpu="1")).feasible == expected


def test_the_sample_moves_on() -> None:
    """Each search begins where the last one stopped, so that every node has its turn."""
    engine = engine_of(cluster(*many(250)), NodeResourcesFit, percentage=40)
    samples = [feasible(schedule(engine, pod(cpu="1"))) for _ in range(3)]
    assert [len(sample) for sample in samples] == [100, 100, 100]
    assert samples[0] == {f"n{i:04}" for i in range(100)}
    assert samples[1] == {f"n{i:04}" for i in range(100, 200)}
    assert samples[2] == {f"n{i:04}" for i in [*range(200, 250), *range(50)]}


def test_a_lifted_filter_brings_the_adaptive_sample() -> None:
    """With a one-node-at-a-time plugin in the profile, upstream's adaptive percentage limits the search."""
    engine = engine_of(cluster(*many(500)), picky(), fixed())
    assert schedule(engine, pod()).feasible == 500 * (50 - 500 // 125) // 100


def test_a_lifted_filter_is_asked_until_enough_nodes_fit() -> None:
    """The search ends with the last node that is wanted, counts what it has looked at, and goes on there next time."""
    plugin = picky()
    plugin.rejects = {f"n{number:04}": unschedulable("no") for number in range(0, 1000, 2)}
    engine = engine_of(cluster(*many(1000)), plugin, fixed(), percentage=10)
    first = schedule(engine, pod())
    assert feasible(first) == {f"n{number:04}" for number in range(1, 200, 2)}
    assert (first.evaluated, first.feasible) == (200, 100)
    assert set(first.rejections) == {f"n{number:04}" for number in range(0, 200, 2)}
    assert len(plugin.asked) <= 200 + 15
    plugin.asked.clear()
    assert feasible(schedule(engine, pod())) == {f"n{number:04}" for number in range(201, 400, 2)}
    assert plugin.asked[0] == "n0200"


def test_without_scores_one_node_is_enough_for_a_lifted_filter() -> None:
    """Nobody tells nodes apart, so the first that fits will do; where none fits, all are asked."""
    plugin = picky()
    plugin.rejects = {f"n{number:04}": unschedulable("no") for number in range(50)}
    engine = engine_of(cluster(*many(300)), plugin)
    assert schedule(engine, pod()).node == "n0050"
    assert len(plugin.asked) == 64
    plugin.rejects = {f"n{number:04}": unschedulable("no") for number in range(300)}
    plugin.asked.clear()
    assert schedule(engine, pod()).message.startswith("0/300 nodes are available: 300 no.")
    assert sorted(plugin.asked) == [f"n{number:04}" for number in range(300)]


def test_a_search_of_no_nodes_at_all() -> None:
    """PreFilter may leave nothing to look at."""

    class Elsewhere(Plugin):
        name = "Elsewhere"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> set[str]:
            return {"nowhere"}

    engine = engine_of(cluster(node("n1")), Elsewhere, picky())
    assert schedule(engine, pod()).outcome is Outcome.UNSCHEDULABLE


def test_nodes_that_others_are_promised_do_not_count_towards_the_sample() -> None:
    """A node with room for one that another pod is nominated to is no find, however early in the search."""
    nodes = many(200)
    state = cluster(*nodes, *(pod(f"vip{n}", cpu="4", priority=10, nominated=f"n{n:04}") for n in range(3)))
    engine = engine_of(state, NodeResourcesFit, picky(), fixed(), percentage=50)
    found = feasible(schedule(engine, pod(cpu="4")))
    assert found == {f"n{number:04}" for number in range(3, 103)}


def test_the_percentage_is_of_the_nodes_prefilter_left() -> None:
    """After narrowing, the share is taken of what is left, as upstream does."""

    class First(Plugin):
        """Names the first 150 nodes."""

        name = "First"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> set[str]:
            return set(nodes.names[:150])

    engine = engine_of(cluster(*many(1000)), First, NodeResourcesFit, percentage=50)
    assert schedule(engine, pod(cpu="1")).feasible == 100


def test_the_profile_percentage_is_read_from_the_configuration() -> None:
    """A profile's percentage reaches its engine."""
    engine = default_engine(cluster(*many(400)), config={"percentageOfNodesToScore": 30})
    assert schedule(engine, pod(cpu="1")).feasible == 120


# --- errors -----------------------------------------------------------------------------------------------------------


class Moody(Plugin):
    """Raises at the point it is told to, for pods with the label."""

    name = "Moody"
    reads: ClassVar[Reads] = Reads.CLUSTER
    fails_at: ClassVar[str] = ""

    def _mood(self, point: str, pod: api.Pod) -> None:
        if point == self.fails_at and "anger" in pod.labels:
            raise RuntimeError("in a mood")

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        self._mood("PreFilter", pod)

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        self._mood("Filter", pod)
        return None

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        self._mood("PreScore", pod)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        self._mood("Score", pod)
        return nodes.pod_count * 0

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        self._mood("NormalizeScore", pod)
        return scores


@pytest.mark.parametrize("reads", list(Reads))
@pytest.mark.parametrize("point", ["PreFilter", "Filter", "PreScore", "Score", "NormalizeScore"])
def test_a_failing_plugin_fails_the_attempt_alone(point: str, reads: Reads) -> None:
    """The error names plugin and point, every time, and the engine goes on deciding for other pods as before."""
    made = cluster(node("a"), node("b"))
    moody = named(Moody, "Moody")
    moody.reads, moody.fails_at = reads, point
    engine = engine_of(made, NodeResourcesFit, moody)
    good, bad = pod("good", cpu="1"), pod("bad", cpu="1", labels={"anger": ""})
    fine = schedule(engine, good)
    for _ in range(2):
        decision = schedule(engine, bad)
        assert decision.outcome is Outcome.ERROR
        assert decision.message == f'running {point} plugin "Moody": RuntimeError: in a mood'
        assert decision.plugin == "Moody"
        assert decision.node == ""
        again = schedule(engine, good)
        assert (again.node, feasible(again)) == (fine.node, feasible(fine))
    made.assume(fine.info, fine.node)
    assert schedule(engine, pod("next", cpu="1")).node == "b"


class Tripped(Plugin):
    """Declares that it reads pods, and stumbles over any node with a pod on it."""

    name = "Tripped"
    reads = Reads.PODS

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        if nodes.pod_count.any():
            raise RuntimeError("stumbled")
        return None


@pytest.mark.parametrize("pods", [1, 2])
def test_a_plugin_that_fails_on_a_changed_row_is_named(pods: int) -> None:
    """Also when only the rows that changed are asked about again, and it recovers with the cluster."""
    made = cluster(node("a"), node("b"))
    engine = engine_of(made, Tripped)
    assert schedule(engine, pod()).outcome is Outcome.SCHEDULED
    guests = [pod(f"guest{i}", node=name) for i, name in enumerate("ab"[:pods])]
    for guest in guests:
        made.set(guest)
    for _ in range(2):
        decision = schedule(engine, pod())
        assert decision.message == 'running Filter plugin "Tripped": RuntimeError: stumbled'
    for guest in guests:
        made.remove(guest)
    assert schedule(engine, pod()).outcome is Outcome.SCHEDULED


@pytest.mark.parametrize("reads", [Reads.PODS, Reads.ROW, Reads.CLUSTER])
def test_a_score_out_of_range_is_an_error(reads: Reads) -> None:
    """On a feasible node it fails the attempt; on a node nobody looks at, any answer will do."""

    class Wild(Plugin):
        """Scores far too much where there are pods."""

        name = "Wild"

        def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
            return nodes.pod_count * 1000

    Wild.reads = reads
    made = cluster(node("a"), node("b"), node("c", unschedulable=True), pod("p", node="c"))
    engine = engine_of(made, NodeUnschedulable, Wild)
    assert schedule(engine, pod()).outcome is Outcome.SCHEDULED
    made.set(pod("q", node="a"))
    decision = schedule(engine, pod())
    assert decision.outcome is Outcome.ERROR
    assert 'plugin "Wild" returns an invalid score 1000' in decision.message
    made.remove(pod("q"))
    assert schedule(engine, pod()).outcome is Outcome.SCHEDULED


def test_an_error_status_of_a_filter_fails_the_attempt() -> None:
    """Even when other nodes fit: upstream does not place a pod when a plugin could not answer."""
    made = cluster(node("a"), node("b"))
    decision = schedule(engine_of(made, picky(a=error("disk on fire")), fixed()), pod())
    assert decision.outcome is Outcome.ERROR
    assert decision.message == 'running "Picky" filter plugin: disk on fire'
    assert decision.plugin == "Picky"


def test_an_error_behind_a_rejection_is_not_reached() -> None:
    """A plugin's error about a node that an earlier plugin rejected is none: upstream would not have asked."""

    class Fails(Plugin):
        """Cannot say anything about cordoned nodes."""

        name = "Fails"

        def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
            return Verdicts(nodes.unschedulable, lambda _: error("cannot say"))

    made = cluster(node("a", unschedulable=True), node("b"))
    assert schedule(engine_of(made, NodeUnschedulable, Fails), pod()).node == "b"


def test_skipping_in_prescore() -> None:
    """A plugin whose PreScore skips gives no points and is not in the record; kept or not makes no difference."""

    class Skips(Plugin):
        """Scores one node at a time, but for no pod without labels."""

        name = "Skips"

        def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
            return None if pod.labels else Status(Code.SKIP)

        def score(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
            return 7

    made = cluster(node("a"), node("b"))
    for reads in Reads:
        Skips.reads = reads
        engine = engine_of(made, Skips, fixed())
        scored = [schedule(engine, pod(labels=labels)).scores for labels in ({}, {"app": "web"})]
        assert [set(scores.plugins) for scores in scored if scores] == [{"Fixed"}, {"Skips", "Fixed"}]


# --- the shape of a decision ------------------------------------------------------------------------------------------


def test_an_unrecorded_decision_is_the_same_but_for_the_record() -> None:
    """Without the record, outcome and node are the same, and scores and other nodes' statuses are left out."""
    made = cluster(node("a", cpu="2"), node("b", cpu="8"), node("c", cpu="1"))
    engine = default_engine(made)
    kept, bare = (schedule(engine, pod(cpu="2"), record=record) for record in (True, False))
    assert (
        (bare.node, bare.feasible, bare.outcome)
        == (kept.node, kept.feasible, kept.outcome)
        == (
            "b",
            2,
            Outcome.SCHEDULED,
        )
    )
    assert (bare.scores, bare.diagnosis, bare.feasible_rows) == (None, None, None)
    assert kept.pod.name == "pod"


def test_several_profiles_share_a_cluster() -> None:
    """What one profile assumed, another sees."""
    made = cluster(node("a", cpu="1"))
    packing: dict[str, Any] = {
        "schedulerName": "packing",
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
    }
    one, other = default_engine(made), default_engine(made, config=packing)
    assert place(one, [pod("p", cpu="1")]) == {"p": "a"}
    assert schedule(other, pod("q", cpu="1")).outcome is Outcome.UNSCHEDULABLE


def test_many_classes_are_kept_in_bounds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Answers of classes not asked about lately are dropped, and asked for again they are right."""
    monkeypatch.setattr("kubesched.engine.filtering.CACHE_BYTES", 1)
    made = cluster(node("a", cpu="4"), node("b", cpu="8"))
    engine = engine_of(made, NodeResourcesFit)
    for _ in range(2):
        for cpu in range(1, 9):
            decision = schedule(engine, pod(cpu=str(cpu)))
            assert feasible(decision) == ({"a", "b"} if cpu <= 4 else {"b"})
    assert len(engine.filtering._cached_classes) <= 3


def test_constraints_hold_over_a_sequence_of_pods() -> None:
    """Pods that must spread over zones do so one after another, and the last that cannot says why."""
    made = cluster(node("a", zone="x", cpu="1"), node("b", zone="y", cpu="1"), node("c", zone="z", cpu="1"))
    web = {"app": "web"}
    pods = [pod(f"p{i}", cpu="500m", labels=web, spread=[spread(web)]) for i in range(7)]
    placed = place(default_engine(made), pods)
    assert sorted(placed[f"p{i}"] for i in range(6)) == ["a", "a", "b", "b", "c", "c"]
    assert placed["p6"].startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_a_plugin_made_for_a_test_is_whole() -> None:
    """The helpers of these tests give each plugin a name and a list of its own."""
    one, other = picky("One"), picky("Other")
    assert (one.name, other.name) == ("One", "Other")
    assert one.asked is not other.asked
    assert make(one, cluster()).name == "One"
