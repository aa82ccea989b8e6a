"""Whole decisions: from a cluster and a pod to a node, or to the reasons why no node fits."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import pytest
from tests.builders import affinity, cluster, node, node_term, pod, spread
from tests.harness import default_engine, engine_of, feasible, make, named, place, profile, schedule

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.engine.engine import Engine
from kubesched.engine.outcome import Outcome
from kubesched.framework.plugin import Handle, Plugin, Reads, Verdicts, reject
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Code, Status, error, unresolvable, unschedulable
from kubesched.plugins.node_affinity import NodeAffinity
from kubesched.plugins.node_resources import NodeResourcesFit
from kubesched.plugins.node_unschedulable import NodeUnschedulable


class Fixed(Plugin):
    """Scores nodes as configured, 0 by default, and records the nodes it was called for."""

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
    """Rejects nodes as configured, one at a time, and records the nodes it was called for."""

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
    """Scores are weighted and summed, and the decision keeps every plugin's share."""
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
    """A node that Filter rejected cannot win, whatever its score would be."""
    made = cluster(node("a"), node("b"), node("c"))
    score = fixed(a=100, b=1, c=2)
    decision = schedule(engine_of(made, picky(a=unschedulable("no")), score), pod())
    assert decision.node == "c"
    assert sorted(score.asked) == ["b", "c"]
    assert feasible(decision) == {"b", "c"}
    assert decision.diagnosis is not None
    assert [status.message for status, _ in decision.diagnosis.statuses()] == ["no"]


def test_a_single_feasible_node_needs_no_score() -> None:
    """A single feasible node is not scored."""
    made = cluster(node("a"), node("b"))
    score = fixed(a=1)
    decision = schedule(engine_of(made, picky(a=unschedulable("no")), score), pod())
    assert decision.node == "b"
    assert score.asked == []
    assert decision.scores is None
    assert decision.feasible == 1


def test_ties_are_broken_by_the_chooser() -> None:
    """The injected chooser decides among the best nodes only."""
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
    """Without a chooser, the engine's random source breaks ties, evenly and reproducibly."""
    made = cluster(*(node(f"n{i}") for i in range(4)))

    def drawn(seed: int) -> list[str]:
        engine = Engine(profile(made, fixed()), random.Random(seed))
        return [schedule(engine, pod()).node for _ in range(200)]

    assert drawn(1) == drawn(1)
    counts = [drawn(1).count(f"n{i}") for i in range(4)]
    assert min(counts) > 25


def test_without_score_plugins_any_feasible_node_will_do() -> None:
    """A profile without Score plugins takes the first feasible node."""
    made = cluster(node("a"), node("b"))
    decision = schedule(engine_of(made, picky(a=unschedulable("no"))), pod())
    assert decision.node == "b"
    assert decision.scores is None


def test_without_any_plugin() -> None:
    """A profile without any plugins still places pods."""
    assert schedule(engine_of(cluster(node("a"))), pod()).node == "a"


def test_pods_spread_over_equal_nodes() -> None:
    """The default profile places pods of one template on the emptiest nodes."""
    made = cluster(*(node(f"n{i}") for i in range(3)))
    placed = place(default_engine(made), [pod(f"p{i}", cpu="1") for i in range(6)])
    assert sorted(placed.values()) == ["n0", "n0", "n1", "n1", "n2", "n2"]


# --- nominated nodes --------------------------------------------------------------------------------------------------


def test_a_nominated_node_comes_first() -> None:
    """A nominated pod goes to its node if it fits; no other node is filtered or scored."""
    made = cluster(node("a"), node("b"))
    checks, score = picky(), fixed(a=100)
    decision = schedule(engine_of(made, checks, score), pod(nominated="b"))
    assert decision.node == "b"
    assert set(checks.asked) == {"b"}
    assert score.asked == []
    assert (decision.feasible, decision.evaluated) == (1, 1)


def test_a_nominated_node_that_does_not_fit() -> None:
    """If the nominated node does not fit, all nodes are evaluated as usual."""
    made = cluster(node("a"), node("b"))
    engine = engine_of(made, picky(b=unschedulable("taken")), fixed(a=1))
    assert schedule(engine, pod(nominated="b")).node == "a"


@pytest.mark.parametrize("promised", ["gone", "ghost"])
def test_a_nominated_node_that_is_gone(promised: str) -> None:
    """A nomination to a node that was deleted, or that only pods name, is ignored."""
    made = cluster(node("a"), node("gone"), pod("early", node="ghost"))
    made.remove(node("gone"))
    assert schedule(engine_of(made, picky()), pod(nominated=promised)).node == "a"


def test_room_of_nominated_pods() -> None:
    """Room of a nominated pod is taken only by a pod of higher priority."""
    made = cluster(node("a", cpu="2"), node("b", cpu="1"), pod("promised", nominated="a", cpu="2", priority=5))
    engine = engine_of(made, NodeResourcesFit)
    assert schedule(engine, pod("equal", cpu="1", priority=5)).node == "b"
    assert feasible(schedule(engine, pod("important", cpu="1", priority=6))) == {"a", "b"}
    nowhere = schedule(engine, pod("big", cpu="2", priority=5))
    assert nowhere.message == "0/2 nodes are available: 2 Insufficient cpu."
    made.remove(pod("promised"))
    assert schedule(engine, pod("big", cpu="2", priority=5)).node == "a"


def test_room_of_many_nominated_pods() -> None:
    """Nodes with one, two or no nominated pods of this priority are told apart in the same decision."""
    nodes = [node(name, cpu="3") for name in ("a", "b", "c", "d")]
    promised = [
        pod("a1", nominated="a", cpu="2", priority=5),
        pod("b1", nominated="b", cpu="1", priority=5),
        pod("b2", nominated="b", cpu="1", priority=6),
        pod("c1", nominated="c", cpu="3", priority=4),
    ]
    made = cluster(*nodes, *promised, pod("d1", node="d", cpu="3"))
    decision = schedule(default_engine(made), pod("big", cpu="2", priority=5))
    assert decision.node == "c"
    decision = schedule(default_engine(made), pod("huge", cpu="4", priority=5))
    assert decision.message.startswith("0/4 nodes are available: 4 Insufficient cpu.")
    assert schedule(default_engine(made), pod("tiny", cpu="1", priority=4)).node in ("a", "b")


def test_nominations_do_not_hide_the_nodes_own_reasons() -> None:
    """Where the nominated pods fit too, a node is rejected for its own reasons."""
    made = cluster(node("a", cpu="2"), pod("promised", nominated="a", cpu="1"))
    decision = schedule(engine_of(made, NodeResourcesFit, picky(a=unresolvable("never"))), pod(cpu="1"))
    assert decision.message == "0/1 nodes are available: 1 never."


# --- when nothing fits ------------------------------------------------------------------------------------------------


def test_a_cluster_without_nodes_is_an_error() -> None:
    """A cluster without nodes is an error with upstream's message."""
    made = cluster(pod("early", node="ghost"))
    decision = schedule(default_engine(made), pod())
    assert decision.outcome is Outcome.NO_NODES
    assert decision.message == "no nodes available to schedule pods"


def test_the_message_counts_reasons() -> None:
    """Every node counts once for each reason of the first plugin that rejected it."""
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
    """A PreFilter rejection applies to all nodes, and no Filter is called."""

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
    """Only the nodes that PreFilter names are evaluated; the others are attributed to the plugins that excluded
    them.
    """
    made = cluster(node("a", cpu="1"), node("b"), node("c"))
    by_name = pod(cpu="2", affinity=affinity(nodes=[node_term(name="a"), node_term(name="gone")]))
    decision = schedule(engine_of(made, NodeAffinity, NodeResourcesFit), by_name)
    assert decision.message == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )
    assert decision.diagnosis is not None
    assert decision.diagnosis.unschedulable_plugins == {"NodeAffinity", "NodeResourcesFit"}


def test_narrowing_to_nothing_is_a_rejection() -> None:
    """Disjoint sets of names leave no node, and the plugin is named."""

    class Nowhere(Plugin):
        """Allows no node."""

        name = "Nowhere"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> set[str]:
            return set()

    decision = schedule(engine_of(cluster(node("a")), Nowhere), pod())
    assert decision.message == "0/1 nodes are available: node(s) didn't satisfy plugin Nowhere."
    assert decision.diagnosis is not None
    assert decision.diagnosis.unschedulable_plugins == {"Nowhere"}


def test_a_recorded_decision_does_not_change() -> None:
    """A recorded decision about an unschedulable pod does not change with the cluster."""
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


# --- which plugins are called for which nodes -------------------------------------------------------------------------


def test_a_lifted_plugin_sees_only_rows_still_alive() -> None:
    """A per-node plugin is called only for nodes that no earlier plugin has rejected."""
    made = cluster(*(node(name) for name in "abcd"))
    first, second = picky("First", a=unschedulable("no")), picky("Second", b=unschedulable("no"))
    decision = schedule(engine_of(made, first, second), pod())
    assert sorted(first.asked) == ["a", "b", "c", "d"]
    assert sorted(second.asked) == ["b", "c", "d"]
    assert decision.outcome is Outcome.SCHEDULED


def test_a_lifted_plugin_is_spared_what_vectorised_ones_rejected() -> None:
    """Vectorised plugins run before a per-node one only if they come first in the profile."""
    made = cluster(node("small", cpu="1"), node("large"))
    early, late = picky("Early"), picky("Late")
    schedule(engine_of(made, early, NodeResourcesFit, late), pod(cpu="2"))
    assert sorted(early.asked) == ["large", "small"]
    assert late.asked == ["large"]


def test_a_lifted_plugin_sees_only_nodes_prefilter_left() -> None:
    """A per-node plugin is not called for nodes that PreFilter excluded, even if pods are nominated to them."""
    made = cluster(node("a"), node("b"), node("c"), pod("promised", nominated="c"))
    checks = picky(a=unschedulable("no"))
    by_name = pod(affinity=affinity(nodes=[node_term(name="a"), node_term(name="b")]))
    decision = schedule(engine_of(made, NodeAffinity, checks), by_name)
    assert decision.node == "b"
    assert sorted(checks.asked) == ["a", "b"]


class OnlyGpu(Plugin):
    """Counts the calls of PreFilter and PreScore; pods without a GPU are none of its business."""

    name = "OnlyGpu"
    reads = Reads.CLUSTER

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.calls: list[str] = []

    def ignores(self, pod_class: PodClass) -> bool:
        return "gpu" not in pod_class.labels

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        self.calls.append(f"PreFilter {pod.name}")
        return SKIP if self.ignores(state.pod_class) else None

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        return reject(nodes.label("gpu") < 0, unschedulable("no GPU"))

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        self.calls.append(f"PreScore {pod.name}")
        return SKIP if self.ignores(state.pod_class) else None

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> int:
        return 0


def test_a_plugin_is_called_once_for_a_class_that_it_ignores() -> None:
    """Pods that a plugin ignores cost no calls of it; pods of the same spec that it does not ignore are checked."""
    made = cluster(node("a"), node("b"), node("c", labels={"gpu": "yes"}), node("d", labels={"gpu": "yes"}))
    engine = engine_of(made, OnlyGpu, NodeResourcesFit)
    (plugin,) = engine.framework.points["preFilter"][:1]
    assert isinstance(plugin, OnlyGpu)
    for name in ("one", "two", "three"):
        assert schedule(engine, pod(name)).feasible == 4
    assert plugin.calls == ["PreFilter one", "PreScore one"]
    for name in ("four", "five"):
        assert schedule(engine, pod(name, labels={"gpu": "yes"})).feasible == 2
    assert plugin.calls[2:] == ["PreFilter four", "PreScore four", "PreFilter five", "PreScore five"]


def test_errors_on_nodes_prefilter_left_out_do_not_matter() -> None:
    """A plugin error on a node that PreFilter excluded does not fail the attempt."""
    made = cluster(node("a"), node("b"))

    class Fails(Plugin):
        """Fails on node b."""

        name = "Fails"

        def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
            codes = np.array([name == "b" for name in nodes.names])
            return Verdicts(codes, lambda _: error("cannot say"))

    by_name = pod(affinity=affinity(nodes=[node_term(name="a")]))
    assert schedule(engine_of(made, NodeAffinity, Fails), by_name).node == "a"
    assert schedule(engine_of(made, NodeAffinity, Fails), pod()).message == 'running "Fails" filter plugin: cannot say'


def test_rows_without_a_node_are_never_chosen() -> None:
    """A row that only pods name is never chosen."""
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
        (90, 10, 90),  # below a hundred, all nodes are evaluated
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
    """Each search starts where the last one stopped, so that every node gets its turn."""
    engine = engine_of(cluster(*many(250)), NodeResourcesFit, percentage=40)
    samples = [feasible(schedule(engine, pod(cpu="1"))) for _ in range(3)]
    assert [len(sample) for sample in samples] == [100, 100, 100]
    assert samples[0] == {f"n{i:04}" for i in range(100)}
    assert samples[1] == {f"n{i:04}" for i in range(100, 200)}
    assert samples[2] == {f"n{i:04}" for i in [*range(200, 250), *range(50)]}


def test_a_lifted_filter_brings_the_adaptive_sample() -> None:
    """With a per-node plugin in the profile, upstream's adaptive percentage limits the search."""
    engine = engine_of(cluster(*many(500)), picky(), fixed())
    assert schedule(engine, pod()).feasible == 500 * (50 - 500 // 125) // 100


def test_a_lifted_filter_is_asked_until_enough_nodes_fit() -> None:
    """The search stops at the last node needed, counts the nodes visited, and continues from there next time."""
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
    """Without Score plugins the first feasible node is enough; if none is feasible, all nodes are visited."""
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
    """PreFilter may leave no nodes to search."""

    class Elsewhere(Plugin):
        name = "Elsewhere"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> set[str]:
            return {"nowhere"}

    engine = engine_of(cluster(node("n1")), Elsewhere, picky())
    assert schedule(engine, pod()).outcome is Outcome.UNSCHEDULABLE


def test_nodes_that_fit_only_without_nominated_pods_do_not_count() -> None:
    """A node that fits only without a nominated pod does not count as found, however early it is visited."""
    nodes = many(200)
    state = cluster(*nodes, *(pod(f"vip{n}", cpu="4", priority=10, nominated=f"n{n:04}") for n in range(3)))
    engine = engine_of(state, NodeResourcesFit, picky(), fixed(), percentage=50)
    found = feasible(schedule(engine, pod(cpu="4")))
    assert found == {f"n{number:04}" for number in range(3, 103)}


def test_the_percentage_is_of_the_nodes_prefilter_left() -> None:
    """As upstream, the percentage applies to the nodes that PreFilter left."""

    class First(Plugin):
        """Allows the first 150 nodes."""

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
    """Raises at the configured point, for pods with the label."""

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
    """The error names the plugin and the point every time, and the engine still decides for other pods."""
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
    """Declares that it reads pods, and raises on any node with a pod."""

    name = "Tripped"
    reads = Reads.PODS

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        if nodes.pod_count.any():
            raise RuntimeError("stumbled")
        return None


@pytest.mark.parametrize("pods", [1, 2])
def test_a_plugin_that_fails_on_a_changed_row_is_named(pods: int) -> None:
    """An error during a partial update of cached results also names the plugin, and later updates recover."""
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
    """An out-of-range score fails the attempt on a feasible node and is ignored on any other."""

    class Wild(Plugin):
        """Returns scores out of range for nodes with pods."""

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
    """As upstream, an error status from Filter fails the attempt even if other nodes fit."""
    made = cluster(node("a"), node("b"))
    decision = schedule(engine_of(made, picky(a=error("disk on fire")), fixed()), pod())
    assert decision.outcome is Outcome.ERROR
    assert decision.message == 'running "Picky" filter plugin: disk on fire'
    assert decision.plugin == "Picky"


def test_an_error_behind_a_rejection_is_not_reached() -> None:
    """A plugin's error on a node that an earlier plugin rejected is ignored, since upstream would not have called
    it.
    """

    class Fails(Plugin):
        """Fails on cordoned nodes."""

        name = "Fails"

        def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
            return Verdicts(nodes.unschedulable, lambda _: error("cannot say"))

    made = cluster(node("a", unschedulable=True), node("b"))
    assert schedule(engine_of(made, NodeUnschedulable, Fails), pod()).node == "b"


def test_of_several_errors_that_of_the_first_node_counts() -> None:
    """The error does not depend on the numbers that a plugin gives to its errors."""

    class Backwards(Plugin):
        name = "Backwards"

        def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
            return Verdicts(np.array([2, 1]), {1: error("second"), 2: error("first")}.__getitem__)

    decision = schedule(engine_of(cluster(node("a"), node("b")), Backwards, fixed()), pod())
    assert decision.message == 'running "Backwards" filter plugin: first'


def test_skipping_in_prescore() -> None:
    """A plugin whose PreScore skips adds no points and is not in the record, with or without cached scores."""

    class Skips(Plugin):
        """Scores one node at a time, but skips pods without labels."""

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
    """Without the record, outcome and node are the same, and scores and other nodes' statuses are omitted."""
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
    """A pod that one profile assumed is visible to another."""
    made = cluster(node("a", cpu="1"))
    packing: dict[str, Any] = {
        "schedulerName": "packing",
        "pluginConfig": [{"name": "NodeResourcesFit", "args": {"scoringStrategy": {"type": "MostAllocated"}}}],
    }
    one, other = default_engine(made), default_engine(made, config=packing)
    assert place(one, [pod("p", cpu="1")]) == {"p": "a"}
    assert schedule(other, pod("q", cpu="1")).outcome is Outcome.UNSCHEDULABLE


def test_the_number_of_cached_classes_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    """Cached results of the least recently used classes are dropped, and recomputed correctly."""
    monkeypatch.setattr("kubesched.engine.filtering.CACHE_BYTES", 1)
    made = cluster(node("a", cpu="4"), node("b", cpu="8"))
    engine = engine_of(made, NodeResourcesFit)
    for _ in range(2):
        for cpu in range(1, 9):
            decision = schedule(engine, pod(cpu=str(cpu)))
            assert feasible(decision) == ({"a", "b"} if cpu <= 4 else {"b"})
    assert len(engine.filtering._cached_classes) <= 3


def test_constraints_hold_over_a_sequence_of_pods() -> None:
    """Pods that must spread over zones do so one after another, and the last one that does not fit gets the reason."""
    made = cluster(node("a", zone="x", cpu="1"), node("b", zone="y", cpu="1"), node("c", zone="z", cpu="1"))
    web = {"app": "web"}
    pods = [pod(f"p{i}", cpu="500m", labels=web, spread=[spread(web)]) for i in range(7)]
    placed = place(default_engine(made), pods)
    assert sorted(placed[f"p{i}"] for i in range(6)) == ["a", "a", "b", "b", "c", "c"]
    assert placed["p6"].startswith("0/3 nodes are available: 3 Insufficient cpu.")


def test_a_plugin_made_for_a_test_is_whole() -> None:
    """The test helpers give each plugin its own name and list."""
    one, other = picky("One"), picky("Other")
    assert (one.name, other.name) == ("One", "Other")
    assert one.asked is not other.asked
    assert make(one, cluster()).name == "One"
