"""Preemption: the victims, the node, and when not to preempt."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.builders import ZONE, affinity, budget, cluster, expression, node, pod, pod_term, selector, spread
from tests.cluster.content import content
from tests.harness import default_engine, engine_of, make, schedule

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.config.args import DefaultPreemptionArgs
from kubesched.engine.decision import Decision
from kubesched.engine.outcome import Outcome
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error, unschedulable
from kubesched.plugins.default_preemption import DefaultPreemption
from kubesched.plugins.node_resources import NodeResourcesFit

WEB = {"app": "web"}


def preempt(made: ClusterState, each: api.Pod, **options: Any) -> Decision:
    """Try a pod that fits nowhere, and check that the cluster is unchanged."""
    before = content(made)
    decision = schedule(default_engine(made, **options), each)
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert content(made) == before
    return decision


def plan(decision: Decision) -> tuple[str, list[str]]:
    """The nominated node and the victims' names, the most important first."""
    assert decision.post_filter is not None
    assert decision.post_filter_status is not None
    assert decision.post_filter_status.is_success
    return decision.post_filter.nominated_node_name, [victim.pod.name for victim in decision.post_filter.victims]


def guest(name: str, place: str, priority: int = 0, cpu: str = "1", **fields: Any) -> api.Pod:
    return pod(name, node=place, priority=priority, cpu=cpu, **fields)


def vip(cpu: str = "1", **fields: Any) -> api.Pod:
    return pod("vip", **{"priority": 100, "cpu": cpu, **fields})


# --- victims ----------------------------------------------------------------------------------------------------------


def test_a_pod_of_lower_priority_makes_room() -> None:
    """The victim and its node are returned, and the message says why the pod does not fit now."""
    decision = preempt(cluster(node("a", cpu="1"), guest("low", "a")), vip())
    assert plan(decision) == ("a", ["low"])
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."


@pytest.mark.parametrize("priority", [100, 200])
def test_pods_of_equal_or_higher_priority_are_no_victims(priority: int) -> None:
    """Pods of equal or higher priority are never victims."""
    decision = preempt(cluster(node("a", cpu="1"), guest("high", "a", priority)), vip())
    assert decision.post_filter is not None
    assert decision.post_filter.nominated_node_name == ""
    assert decision.message == (
        "0/1 nodes are available: 1 Insufficient cpu. no new claims to deallocate, "
        "preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
    )


def test_no_more_victims_than_needed() -> None:
    """No more victims than needed are chosen, the least important first."""
    made = cluster(node("a", cpu="4"), *(guest(f"p{i}", "a", priority=i) for i in range(4)))
    assert plan(preempt(made, vip("2"))) == ("a", ["p1", "p0"])


def test_a_large_pod_may_go_so_that_small_ones_stay() -> None:
    """Victims are reprieved in order of importance as long as the preemptor still fits."""
    made = cluster(
        node("a", cpu="4"),
        guest("large", "a", 1, cpu="3"),
        guest("small", "a", 2, cpu="500m"),
        guest("tiny", "a", 0, "500m"),
    )
    assert plan(preempt(made, vip("3"))) == ("a", ["large"])


def test_of_equal_pods_the_later_ones_are_victims() -> None:
    """Among pods of equal priority, those that started later are the victims."""
    made = cluster(
        node("a", cpu="3"),
        guest("young", "a", started="2026-01-03T00:00:00Z"),
        guest("old", "a", started="2026-01-01T00:00:00Z"),
        guest("middle", "a", started="2026-01-02T00:00:00Z"),
    )
    assert plan(preempt(made, vip("2"))) == ("a", ["middle", "young"])


def test_pods_of_any_scheduler_can_be_victims() -> None:
    """Pods of other schedulers can be victims."""
    made = cluster(node("a", cpu="1"), guest("foreign", "a", scheduler="other"))
    assert plan(preempt(made, vip())) == ("a", ["foreign"])


@pytest.mark.parametrize(
    ("there", "wanted", "victims"),
    [
        ({"host_ports": [80]}, {"host_ports": [80]}, ["low"]),
        ({"labels": WEB}, {"affinity": affinity(away=[pod_term(WEB)])}, ["low"]),
        ({"affinity": affinity(away=[pod_term(WEB)])}, {"labels": WEB}, ["low"]),
        ({"labels": WEB}, {"labels": WEB, "spread": [spread(WEB, ZONE)]}, ["low"]),
    ],
)
def test_other_things_than_resources_can_be_in_the_way(
    there: dict[str, Any], wanted: dict[str, Any], victims: list[str]
) -> None:
    """Ports, anti-affinity in either direction and spreading are resolved by removing the conflicting pod."""
    made = cluster(
        node("a", zone="x"),
        node("b", zone="y", unschedulable=True),
        guest("low", "a", **there),
        guest("bystander", "a"),
    )
    assert plan(preempt(made, vip(**wanted))) == ("a", victims)


def test_affinity_to_the_victim_makes_it_useless() -> None:
    """A pod is not preempted if the preemptor has affinity to it."""
    made = cluster(node("a", cpu="1"), guest("low", "a", labels=WEB))
    decision = preempt(made, vip(affinity=affinity(near=[pod_term(WEB)])))
    assert decision.post_filter is not None
    assert decision.post_filter.nominated_node_name == ""
    assert decision.message.endswith("preemption: 0/1 nodes are available: 1 node(s) didn't match pod affinity rules.")


# --- no preemption ----------------------------------------------------------------------------------------------------


def test_a_pod_may_decline_to_preempt() -> None:
    """With preemptionPolicy Never nothing is tried, and the message says so."""
    decision = preempt(cluster(node("a", cpu="1"), guest("low", "a")), vip(preemption_policy="Never"))
    assert decision.post_filter is None
    assert decision.message.endswith("preemption: not eligible due to preemptionPolicy=Never.")


def leaving(reason: str = "PreemptionByScheduler", status: str = "True") -> dict[str, Any]:
    condition = api.PodCondition(type="DisruptionTarget", status=status, reason=reason)
    return {"terminating": True, "conditions": [condition]}


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        (leaving(), True),
        (leaving("EvictionByEvictionAPI"), False),
        (leaving(status="False"), False),
        ({"terminating": True}, False),
        ({}, False),
    ],
)
def test_a_preemptor_waits_for_its_victims(state: dict[str, Any], waits: bool) -> None:
    """While a victim is still terminating on the nominated node, no more pods are preempted."""
    made = cluster(node("a", cpu="2"), guest("low", "a", **state), guest("other", "a"))
    decision = preempt(made, vip("2", nominated="a"))
    assert decision.message.endswith("not eligible due to a terminating pod on the nominated node.") is waits
    if not waits:
        assert plan(decision)[0] == "a"


def test_a_preemptor_does_not_wait_for_higher_priorities() -> None:
    """A terminating pod of equal or higher priority is no reason to wait."""
    made = cluster(node("a", cpu="2"), guest("high", "a", 100, **leaving()), guest("low", "a"))
    assert plan(preempt(made, vip("1", nominated="a"))) == ("a", ["low"])


def test_an_unresolvable_nominated_node_is_abandoned() -> None:
    """If preemption can no longer help on the nominated node, other nodes are tried although a victim is
    terminating.
    """
    made = cluster(
        node("a", cpu="2", unschedulable=True), guest("low", "a", **leaving()), node("b", cpu="2"), guest("p", "b")
    )
    assert plan(preempt(made, vip("2", nominated="a"))) == ("b", ["p"])


def test_unresolvable_nodes_are_not_tried() -> None:
    """Nodes with an unresolvable rejection are not tried, and are counted as such."""
    made = cluster(
        node("cordoned", unschedulable=True),
        node("small", cpu="500m"),
        node("full", cpu="1"),
        guest("high", "full", 100),
        guest("low", "cordoned"),
    )
    decision = preempt(made, vip("1"))
    assert decision.message.endswith(
        "preemption: 0/3 nodes are available: 1 No preemption victims found for incoming pod, "
        "2 Preemption is not helpful for scheduling."
    )


def test_even_without_its_pods_a_node_may_not_fit() -> None:
    """The reasons that remain without all lower-priority pods are reported."""
    made = cluster(node("a", cpu="4"), guest("high", "a", 100, cpu="3"), guest("low", "a"))
    decision = preempt(made, vip("2"))
    assert decision.message.endswith("preemption: 0/1 nodes are available: 1 Insufficient cpu.")


def test_room_made_for_others_is_not_taken() -> None:
    """Nominated pods of equal or higher priority count during the dry run."""
    made = cluster(
        node("a", cpu="2"),
        guest("low", "a", cpu="2"),
        pod("promised", nominated="a", cpu="2", priority=100),
        node("b", cpu="2"),
    )
    made.set(guest("also low", "b", 50, cpu="2"))
    assert plan(preempt(made, vip("2"))) == ("b", ["also low"])


def test_prefilter_may_leave_room_for_preemption() -> None:
    """A pod with a resolvable PreFilter rejection is tried on every node."""

    class Crowd(Plugin):
        """Needs an empty cluster."""

        name = "Crowd"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
            return unschedulable("too many pods in the cluster") if nodes.pod_count.sum() else None

        def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
            return unschedulable("somebody is here") if node.pods else None

    made = cluster(node("a"), guest("low", "a"))
    decision = schedule(default_engine(made, Crowd), vip())
    assert plan(decision) == ("a", ["low"])
    assert decision.message == "0/1 nodes are available: too many pods in the cluster."


def test_an_error_on_one_node_is_that_nodes() -> None:
    """A plugin error in a dry run excludes that node and does not fail the attempt."""

    class Fragile(Plugin):
        """Raises on node b once it is empty."""

        name = "Fragile"

        def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
            return error("broke") if node.name == "b" and not node.pods else None

    made = cluster(node("a", cpu="1"), node("b", cpu="1"), guest("dear", "a", 50), guest("cheap", "b", 1))
    assert plan(schedule(default_engine(made, Fragile), vip())) == ("a", ["dear"])


def test_while_victims_are_deleted_the_pod_stays_out_of_the_queue() -> None:
    """PreEnqueue blocks a pod whose victims are being deleted."""
    made = cluster(node("a"))
    plugin = make(DefaultPreemption, made)
    each = vip()
    assert plugin.pre_enqueue(each) is None
    plugin.begin_preemption(each.uid)
    held = plugin.pre_enqueue(each)
    assert held is not None
    assert held.message == "waiting for the preemption for this pod to be finished"
    plugin.end_preemption(each.uid)
    assert plugin.pre_enqueue(each) is None


# --- disruption budgets -----------------------------------------------------------------------------------------------


def test_a_budget_directs_to_another_node() -> None:
    """A node without budget violations is preferred over one with less important victims."""
    made = cluster(
        node("a", cpu="1"),
        node("b", cpu="1"),
        guest("protected", "a", 1, labels=WEB),
        guest("free", "b", 50),
        budget("web", WEB),
    )
    assert plan(preempt(made, vip())) == ("b", ["free"])


def test_a_budget_with_disruptions_left_does_not_protect() -> None:
    """A pod whose budget still allows disruptions can be a victim like any other."""
    made = cluster(
        node("a", cpu="1"),
        node("b", cpu="1"),
        guest("covered", "a", 1, labels=WEB),
        guest("free", "b", 50),
        budget("web", WEB, allowed=1),
    )
    assert plan(preempt(made, vip())) == ("a", ["covered"])


def test_protected_pods_are_let_back_first() -> None:
    """On one node, a pod whose budget would be violated is reprieved before more important ones."""
    made = cluster(
        node("a", cpu="2"), guest("protected", "a", 1, labels=WEB), guest("free", "a", 50), budget("web", WEB)
    )
    assert plan(preempt(made, vip())) == ("a", ["free"])


def test_a_budget_is_used_up_in_order_of_importance() -> None:
    """With one disruption allowed, the most important covered pod uses it, and the next one is a violation."""
    made = cluster(
        node("a", cpu="2"),
        guest("first", "a", 2, labels=WEB),
        guest("second", "a", 1, labels=WEB),
        budget("web", WEB, allowed=1),
    )
    assert plan(preempt(made, vip())) == ("a", ["first"])


def test_a_violation_is_the_last_resort() -> None:
    """If nothing else helps, budgets are violated."""
    made = cluster(node("a", cpu="1"), guest("protected", "a", labels=WEB), budget("web", WEB))
    assert plan(preempt(made, vip())) == ("a", ["protected"])


@pytest.mark.parametrize(
    "powerless",
    [
        budget("elsewhere", WEB, namespace="other"),
        budget("nobody", None),
        budget("everybody", selector()),
        budget("others", {"app": "db"}),
        budget("counted", WEB, disrupted=["covered"]),
        budget("broken", selector(None, expression("app", "In"))),
    ],
)
def test_budgets_that_do_not_protect(powerless: api.PodDisruptionBudget) -> None:
    """These budgets protect nothing: other namespace or labels, empty, absent or bad selector, eviction already
    counted.
    """
    made = cluster(
        node("a", cpu="1"), node("b", cpu="1"), guest("covered", "a", 1, labels=WEB), guest("free", "b", 50), powerless
    )
    assert plan(preempt(made, vip())) == ("a", ["covered"])


def test_a_pod_without_labels_has_no_budget() -> None:
    """As upstream, a pod without labels has no budget, though a selector could match it."""
    absent = selector(None, expression("app", "DoesNotExist"))
    made = cluster(
        node("a", cpu="1"), node("b", cpu="1"), guest("bare", "a", 1), guest("free", "b", 50), budget("x", absent)
    )
    assert plan(preempt(made, vip())) == ("a", ["bare"])


# --- node choice ------------------------------------------------------------------------------------------------------

EARLY, LATE = "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"


@pytest.mark.parametrize(
    ("on_a", "on_b"),
    [
        # The highest victim priority should be as low as possible,
        ([(50, "2", EARLY)], [(40, "1", EARLY), (40, "1", EARLY)]),
        # then the sum of priorities should be lower,
        ([(40, "1", EARLY), (40, "1", EARLY)], [(40, "1", EARLY), (30, "1", EARLY)]),
        # where a negative priority counts like any other,
        ([(0, "1", EARLY), (-5, "1", EARLY)], [(0, "2", EARLY)]),
        # then there should be fewer victims (the offset makes sums of different counts incomparable),
        ([(40, "1", EARLY), (40, "1", EARLY)], [(40, "2", EARLY)]),
        # then the most important victim should have started later,
        ([(40, "2", EARLY)], [(40, "2", LATE)]),
        ([(40, "1", EARLY), (40, "1", LATE)], [(40, "1", LATE), (40, "1", LATE)]),
        # where a pod that has not started counts as the latest,
        ([(40, "2", LATE)], [(40, "2", None)]),
    ],
)
@pytest.mark.parametrize("swapped", [False, True])
def test_the_node_whose_victims_matter_least(
    on_a: list[tuple[int, str, str | None]], on_b: list[tuple[int, str, str | None]], swapped: bool
) -> None:
    """Upstream's criteria apply in order, whichever node comes first."""
    worse, better = ("b", "a") if swapped else ("a", "b")
    made = cluster(node("a", cpu="2"), node("b", cpu="2"))
    for place, pods in ((worse, on_a), (better, on_b)):
        for number, (priority, cpu, started) in enumerate(pods):
            made.set(guest(f"{place}{number}", place, priority, cpu, started=started))
    assert plan(preempt(made, vip("2")))[0] == better


def test_equal_candidates_go_by_name() -> None:
    """When all criteria are equal, the first node by name is chosen."""
    made = cluster(*(node(name, cpu="1") for name in "cab"), *(guest(f"on {name}", name) for name in "abc"))
    assert plan(preempt(made, vip())) == ("a", ["on a"])


def test_a_node_without_need_for_victims_cannot_be() -> None:
    """A candidate without victims would have been feasible, so if it is the only one, that is an error."""

    class Fickle(Plugin):
        """Rejects at first and accepts later."""

        name = "Fickle"
        calls = 0

        def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
            Fickle.calls += 1
            return unschedulable("not yet") if Fickle.calls == 1 else None

    made = cluster(node("a"), guest("low", "a"))
    decision = schedule(default_engine(made, Fickle), vip())
    assert decision.outcome is Outcome.UNSCHEDULABLE
    assert decision.message.endswith('preemption: expected at least one victim pod on node "a"')
    assert decision.post_filter_status is not None
    assert decision.post_filter_status.code is Code.ERROR


# --- how many candidates ----------------------------------------------------------------------------------------------


def crowd(count: int) -> ClusterState:
    """Full nodes, each with a victim slightly more important than the previous one."""
    made = cluster(*(node(f"n{i:03}", cpu="1") for i in range(count)))
    for number in range(count):
        made.set(guest(f"p{number:03}", f"n{number:03}", priority=number % 90))
    return made


@pytest.mark.parametrize(
    ("percentage", "absolute", "expected"), [(0, 1, 1), (10, 1, 5), (10, 20, 20), (10, 100, 50), (100, 1, 50)]
)
def test_how_many_candidates_are_enough(percentage: int, absolute: int, expected: int) -> None:
    """The number of candidates is a percentage of the nodes, with a minimum, and never more than all."""
    args = DefaultPreemptionArgs(min_candidate_nodes_percentage=percentage, min_candidate_nodes_absolute=absolute)
    assert make(DefaultPreemption, cluster(), args)._enough(50) == expected


class From(Random):
    """A random source that always returns the same starting point."""

    def __init__(self, start: int) -> None:
        super().__init__(0)
        self.start = start

    def randrange(self, *_: Any, **__: Any) -> int:
        return self.start


@pytest.mark.parametrize("start", [0, 7, 19])
def test_the_search_begins_at_random_and_stops_with_enough(start: int) -> None:
    """The search stops with enough candidates, and the best of them is chosen."""
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 3}
    config = {"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}
    decision = preempt(crowd(20), vip(), config=config, random=From(start))
    tried = [(start + i) % 20 for i in range(3)]
    assert plan(decision)[0] == f"n{min(tried):03}"


def test_the_search_goes_on_while_all_candidates_violate_budgets() -> None:
    """The search continues while all candidates violate budgets."""
    made = cluster(*(node(f"n{i}", cpu="1") for i in range(6)), budget("web", WEB))
    for number in range(6):
        made.set(guest(f"p{number}", f"n{number}", priority=number, labels={} if number == 4 else WEB))
    args = {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 2}
    config = {"pluginConfig": [{"name": "DefaultPreemption", "args": args}]}
    assert plan(preempt(made, vip(), config=config, random=From(0))) == ("n4", ["p4"])


# --- vectorised or node by node ---------------------------------------------------------------------------------------


class Slow(Plugin):
    """Accepts every node, but one at a time, so that dry runs cannot be vectorised."""

    name = "Slow"

    def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
        return None


guests = st.lists(
    st.tuples(
        st.integers(0, 3),
        st.integers(0, 120),
        st.sampled_from(["250m", "500m", "1"]),
        st.booleans(),
        st.sampled_from([None, EARLY, LATE]),
    ),
    max_size=14,
)


@given(pods=guests, cpu=st.sampled_from(["500m", "1", "2"]), allowed=st.integers(0, 2), port=st.booleans())
def test_trying_nodes_together_is_as_trying_them_one_by_one(
    pods: list[tuple[int, int, str, bool, str | None]], cpu: str, allowed: int, port: bool
) -> None:
    """If nodes are independent, all are tried at once, with the same result as one by one."""
    made = cluster(*(node(f"n{i}", cpu="2") for i in range(4)), budget("web", WEB, allowed=allowed))
    for number, (row, priority, size, covered, started) in enumerate(pods):
        ports = [80] if number % 3 == 0 else []
        labels = WEB if covered else {}
        made.set(guest(f"p{number}", f"n{row}", priority, size, labels=labels, started=started, host_ports=ports))
    before = content(made)
    each = vip(cpu, host_ports=[80] if port else [])
    together, alone = schedule(default_engine(made), each), schedule(default_engine(made, Slow), each)
    assert content(made) == before
    assert (together.outcome, together.message) == (alone.outcome, alone.message)
    if together.post_filter is not None and alone.post_filter is not None:
        assert together.post_filter.nominated_node_name == alone.post_filter.nominated_node_name
        assert [v.pod.uid for v in together.post_filter.victims] == [v.pod.uid for v in alone.post_filter.victims]


@given(pods=guests, cpu=st.sampled_from(["1", "2"]))
def test_the_plan_works(pods: list[tuple[int, int, str, bool, str | None]], cpu: str) -> None:
    """The pod fits on its node without the victims, and does not fit with any of them back."""
    made = cluster(*(node(f"n{i}", cpu="2") for i in range(4)))
    for number, (row, priority, size, _, started) in enumerate(pods):
        made.set(guest(f"p{number}", f"n{row}", priority, size, started=started))
    decision = schedule(default_engine(made), vip(cpu))
    if decision.outcome is Outcome.SCHEDULED or decision.post_filter is None or not decision.post_filter.victims:
        return
    room = decision.post_filter
    for victim in room.victims:
        made.remove(victim.pod)
    assert schedule(default_engine(made), vip(cpu, nominated=room.nominated_node_name)).node == room.nominated_node_name
    for victim in room.victims:
        assert victim.pod.priority < 100
        made.set(victim.pod)
        assert schedule(default_engine(made), vip(cpu)).node != room.nominated_node_name
        made.remove(victim.pod)


def test_a_profile_without_preemption() -> None:
    """Without PostFilter plugins nothing is tried, and the message ends with the reasons."""
    config = {"plugins": {"postFilter": {"disabled": [{"name": "*"}]}}}
    decision = preempt(cluster(node("a", cpu="1"), guest("low", "a")), vip(), config=config)
    assert (decision.post_filter, decision.post_filter_status) == (None, None)
    assert decision.message == "0/1 nodes are available: 1 Insufficient cpu."


def test_a_new_resource_in_a_trial() -> None:
    """A plugin may ask for a new resource during a dry run."""

    class Asks(Plugin):
        """Reads a resource that nothing else uses."""

        name = "Asks"

        def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
            nodes.requested("example.com/unheard-of")

    made = cluster(node("a", cpu="1"), guest("low", "a"))
    decision = schedule(engine_of(made, NodeResourcesFit, Asks, DefaultPreemption), vip())
    assert plan(decision) == ("a", ["low"])
    assert int(made.nodes.used[0, 0]) == 1000
