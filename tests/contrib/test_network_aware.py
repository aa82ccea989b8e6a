"""TopologicalSort and NetworkOverhead, with the cases of upstream's tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from tests.contrib.support import profile, scores, sorter

from kubesched import Pod
from kubesched.contrib.app_groups import GROUP_LABEL, WORKLOAD_LABEL, AppGroup, NetworkTopology, workload_order
from kubesched.contrib.network_overhead import REGION, ZONE, NetworkOverhead
from kubesched.contrib.topological_sort import TopologicalSort
from kubesched.testing import VirtualCluster, check_plugin, node, pod

NAME = "NetworkOverhead"


def app_group(name: str = "basic", order: dict[str, int] | None = None, algorithm: str = "KahnSort") -> AppGroup:
    """p1 depends on p2, and p2 on p3."""
    needs = {"p1": [("p2", 15)], "p2": [("p3", 8)], "p3": []}
    workloads = [
        {
            "workload": {"selector": each},
            "dependencies": [{"workload": {"selector": other}, "maxNetworkCost": cost} for other, cost in others],
        }
        for each, others in needs.items()
    ]
    tree: dict[str, Any] = {
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"numMembers": 3, "topologySortingAlgorithm": algorithm, "workloads": workloads},
        "status": {"topologyOrder": [{"workload": {"selector": k}, "index": v} for k, v in (order or {}).items()]},
    }
    return msgspec.convert(tree, AppGroup)


def costs(key: str, *pairs: tuple[str, str, int]) -> dict[str, Any]:
    """Costs in both directions."""
    both = [*pairs, *((b, a, cost) for a, b, cost in pairs)]
    origins = [
        {"origin": a, "costList": [{"destination": b, "networkCost": cost} for x, b, cost in both if x == a]}
        for a in sorted({a for a, _, _ in both})
    ]
    return {"topologyKey": key, "originList": origins}


def network() -> NetworkTopology:
    """Two regions of two zones."""
    listed = [costs(ZONE, ("Z1", "Z2", 5), ("Z3", "Z4", 10)), costs(REGION, ("west", "east", 20))]
    tree = {
        "metadata": {"name": "nt-test", "namespace": "default"},
        "spec": {"weights": [{"name": "Other", "topologyList": []}, {"name": "UserDefined", "topologyList": listed}]},
    }
    return msgspec.convert(tree, NetworkTopology)


def member(workload: str, name: str = "p", group: str = "basic", **more: Any) -> Pod:
    """A pod of a workload of the group."""
    return pod(name, labels={GROUP_LABEL: group, WORKLOAD_LABEL: workload}, **more)


@pytest.fixture
def placed(cluster: VirtualCluster) -> VirtualCluster:
    """Eight nodes in four zones, with p1 on n-2, p2 on n-5 and p3 on n-1."""
    scoring = {"enabled": [{"name": NAME}], "disabled": [{"name": "*"}]}
    args = {NAME: {"networkTopologyName": "nt-test"}}
    cluster.configure(profile({"multiPoint": {"enabled": [{"name": NAME}]}, "score": scoring}, args))
    for number in range(8):
        place = {REGION: "west" if number < 4 else "east", ZONE: f"Z{number // 2 + 1}"}
        cluster.add(node(f"n-{number + 1}", labels=place))
    for workload, where in (("p1", "n-2"), ("p2", "n-5"), ("p3", "n-1")):
        cluster.add(member(workload, workload, node=where))
    cluster.add(app_group(), network())
    return cluster


@pytest.mark.parametrize(
    ("workload", "rejected", "expected"),
    [
        ("p1", ["n-1", "n-2", "n-3", "n-4"], {"n-5": 100, "n-6": 90, "n-7": 0, "n-8": 0}),
        ("p2", ["n-5", "n-6", "n-7", "n-8"], {"n-1": 100, "n-2": 80, "n-3": 0, "n-4": 0}),
        ("p3", [], {f"n-{number}": 0 for number in range(1, 9)}),
    ],
)
def test_near_the_pods_that_it_needs(
    placed: VirtualCluster, workload: str, rejected: list[str], expected: dict[str, int]
) -> None:
    """Another region is too far; the same node costs nothing, the same zone 1, another zone what the topology says."""
    decision = placed.schedule(member(workload))
    assert sorted(decision.rejections) == rejected
    assert scores(decision, NAME) == expected


def test_why_a_node_is_too_far(placed: VirtualCluster) -> None:
    """The message is upstream's."""
    assert placed.schedule(member("p1")).rejections["n-1"].message == (
        "Node n-1 does not meet several network requirements from Workload dependencies: Satisfied: 0 Violated: 1"
    )


def test_costs_before_they_are_normalised(placed: VirtualCluster) -> None:
    """With a violated and a satisfied dependency the node stays, and costs add up; where no cost is known it is 100."""
    placed.add(member("p2", "p2b", node="n-1"), node("lost"))
    decision = placed.schedule(member("p1"))
    assert not decision.rejections
    assert scores(decision, NAME) == {  # of 20, 21, 25, 25, 20, 21, 30, 30 and 200
        "n-1": 100,
        "n-2": 100,
        "n-3": 98,
        "n-4": 98,
        "n-5": 100,
        "n-6": 100,
        "n-7": 95,
        "n-8": 95,
        "lost": 0,
    }


def test_pods_that_belong_to_no_group(placed: VirtualCluster) -> None:
    """They may go anywhere, and so may pods of an unknown group, or of one of whose needs nothing is placed."""
    assert set(scores(placed.schedule(pod("plain")), NAME).values()) == {0}
    assert set(scores(placed.schedule(member("p1", "q", group="gone")), NAME).values()) == {0}
    placed.remove(placed.pod("p2"))
    assert set(scores(placed.schedule(member("p1", "r")), NAME).values()) == {0}


def test_a_rejected_pod_is_woken(placed: VirtualCluster) -> None:
    """No node is near enough until the other pod moves."""
    for number in range(5, 9):
        placed.add(node(f"n-{number}", unschedulable=True, labels={REGION: "east", ZONE: f"Z{(number + 1) // 2}"}))
    assert placed.schedule(member("p1")).node == ""
    placed.remove(placed.pod("p2"))
    placed.advance(12)
    assert placed.node_of("p")


def test_a_rejected_pod_with_other_labels_is_woken(placed: VirtualCluster) -> None:
    """It turns out to be of another workload, which depends on nothing."""
    for number in range(5, 9):
        placed.add(node(f"n-{number}", unschedulable=True, labels={REGION: "east", ZONE: f"Z{(number + 1) // 2}"}))
    rejected = member("p1")
    assert placed.schedule(rejected).node == ""
    now = placed.pod(rejected.name)
    placed.add(replace(now, metadata=replace(now.metadata, labels={**now.labels, WORKLOAD_LABEL: "p3"})))
    placed.advance(12)
    assert placed.node_of(rejected.name)


def test_the_order_of_workloads(cluster: VirtualCluster) -> None:
    """What a controller has written counts; without it, workloads come before those that they need."""
    assert workload_order(app_group()) == {"p1": 1, "p2": 2, "p3": 3}
    assert workload_order(app_group(algorithm="ReverseKahn")) == {"p3": 1, "p2": 2, "p1": 3}
    assert workload_order(app_group(order={"p1": 3, "p2": 1, "p3": 2})) == {"p1": 3, "p2": 1, "p3": 2}


class Queued:
    """A pod in the queue, as the plugin sees it."""

    def __init__(self, each: Pod, timestamp: float) -> None:
        self.pod = each
        self.timestamp = timestamp
        self.initial_attempt_timestamp: float | None = timestamp


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Queued(member("p1"), 9), Queued(member("p2"), 1)),
        (Queued(member("p2", priority=1), 9), Queued(member("p3", priority=5), 1)),
        (Queued(member("p9"), 9), Queued(member("p1"), 1)),
        (Queued(member("p1"), 1), Queued(member("p1"), 2)),
        (Queued(member("p3", group="gone"), 1), Queued(member("p1", group="gone"), 2)),
        (Queued(member("p3"), 1), Queued(member("p1", group="other"), 2)),
        (Queued(member("p3", priority=5), 9), Queued(member("p1", group="other"), 2)),
        (Queued(pod("b"), 1), Queued(pod("a"), 2)),
    ],
)
def test_the_order_of_the_queue(cluster: VirtualCluster, first: Queued, second: Queued) -> None:
    """Pods of one group by their workloads, one that the group does not name first; others by priority and time."""
    cluster.configure(sorter("TopologicalSort"))
    cluster.add(app_group(order={"p1": 1, "p2": 2, "p3": 3}))
    plugins = cluster.scheduler.profiles["default-scheduler"].engine.framework.plugins
    plugin = next(each for each in plugins if isinstance(each, TopologicalSort))
    assert plugin.less(first, second)
    assert not plugin.less(second, first)


def test_the_contract() -> None:
    """Deterministic, and nothing changed."""
    check_plugin(NetworkOverhead)
    check_plugin(TopologicalSort)
