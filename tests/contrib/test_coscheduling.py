"""Coscheduling: groups that start together, with the cases of upstream's tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.contrib.support import bound, sorter

from kubesched import Pod, Status
from kubesched.contrib.coscheduling import Coscheduling
from kubesched.contrib.gangs import GROUP_LABEL, Gang
from kubesched.testing import ConfigError, VirtualCluster, check_plugin, node, pod

NAMES = ["p0", "p1", "p2"]


def gang(name: str = "job", members: int = 3, created: str = "2026-01-01T00:00:00Z", **spec: Any) -> Gang:
    """A PodGroup."""
    metadata = {"name": name, "namespace": "default", "creationTimestamp": created}
    return msgspec.convert({"metadata": metadata, "spec": {"minMember": members, **spec}}, Gang)


def member(name: str, group: str = "job", cpu: str = "3", **more: Any) -> Pod:
    """A pod of a group; one fills a node."""
    return pod(name, cpu=cpu, labels={GROUP_LABEL: group}, **more)


def configured(cluster: VirtualCluster, **args: Any) -> VirtualCluster:
    """The plugin at all its points, as in upstream's sample configuration."""
    cluster.configure(sorter("Coscheduling", args, multiPoint={"enabled": [{"name": "Coscheduling"}]}))
    return cluster


def plugin_of(cluster: VirtualCluster) -> Coscheduling:
    """The plugin in a running scheduler."""
    plugins = cluster.scheduler.profiles["default-scheduler"].engine.framework.plugins
    return next(each for each in plugins if isinstance(each, Coscheduling))


def nodes(cluster: VirtualCluster, count: int) -> None:
    """So many nodes."""
    cluster.add(*(node(f"n{number}") for number in range(count)))


def test_a_group_starts_when_the_last_has_a_place(cluster: VirtualCluster) -> None:
    """Pods wait until minMember of them exist, then all are bound."""
    nodes(configured(cluster), 3)
    cluster.add(gang())
    decision = cluster.schedule(member("p0"))
    assert (
        "pre-filter pod p0 cannot find enough sibling pods, current pods number: 1, minMember of group: 3"
        in decision.message
    )
    cluster.add(member("p1"), member("p2"))
    cluster.advance(2)
    assert bound(cluster, NAMES) == [True] * 3


@pytest.mark.parametrize(
    ("members", "others", "gated", "succeeds"),
    [(1, 0, 0, True), (2, 0, 0, False), (2, 1, 0, True), (2, 2, 0, True), (2, 2, 1, True), (3, 2, 1, False)],
)
def test_the_number_of_pods(cluster: VirtualCluster, members: int, others: int, gated: int, succeeds: bool) -> None:
    """Enough pods must exist, and enough of them without scheduling gates."""
    nodes(configured(cluster), 4)
    cluster.add(gang(members=members))
    for number in range(others):
        cluster.add(member(f"other{number}", gates=["example.com/gate"] if number < gated else ()))
    cluster.advance(1)
    assert bool(cluster.schedule(member("p")).node) is succeeds


def test_a_pod_whose_group_does_not_exist(cluster: VirtualCluster) -> None:
    """It passes PreFilter and is rejected on Permit; when the group comes it starts."""
    nodes(configured(cluster), 1)
    assert "PodGroup not found" in cluster.schedule(member("p0")).message
    cluster.add(gang(members=1))
    cluster.advance(2)
    assert cluster.node_of("p0")
    assert cluster.schedule(pod("alone", cpu="1")).node


@pytest.mark.parametrize(("wanted", "fits"), [("6", True), ("10", False)])
def test_minimum_resources(cluster: VirtualCluster, wanted: str, fits: bool) -> None:
    """Two nodes have 8 CPUs together: a group that needs ten is not tried."""
    nodes(configured(cluster), 2)
    cluster.add(gang(members=2, minResources={"cpu": wanted}), member("a", cpu="1"))
    decision = cluster.schedule(member("b", cpu="1"))
    assert bool(decision.node) is fits
    assert fits or "resource gap: cpu: 2000" in decision.message


@pytest.mark.parametrize(("group", "fits"), [("other", False), ("job", True)])
def test_pods_of_the_group_count_as_room(cluster: VirtualCluster, group: str, fits: bool) -> None:
    """Of 8 CPUs 3 are used; 6 are there for a group only if the 3 are its own."""
    nodes(configured(cluster), 2)
    cluster.add(gang(minResources={"cpu": "6"}, members=1), member("there", group=group, node="n0"))
    assert bool(cluster.schedule(member("p", cpu="1")).node) is fits


def test_a_group_without_room_gives_up_its_places(cluster: VirtualCluster) -> None:
    """One pod finds no node: those that wait are rejected at once, and their room is free."""
    nodes(configured(cluster), 2)
    cluster.add(gang(), *map(member, NAMES))
    cluster.advance(1)
    assert bound(cluster, NAMES) == [False] * 3
    notes = [note for name in NAMES for note in cluster.events.of(name, "FailedScheduling")]
    assert any("optimistic rejection in PostFilter" in note for note in notes)
    assert any("is unschedulable even after PostFilter" in note for note in notes)
    assert not cluster.scheduler.cluster.assumed
    cluster.add(node("n2"))
    cluster.advance(30)
    assert bound(cluster, NAMES) == [True] * 3


def test_pods_wait_no_longer_than_the_group_says(cluster: VirtualCluster) -> None:
    """scheduleTimeoutSeconds is shorter than permitWaitingTimeSeconds; when it is over the others give up too."""
    nodes(configured(cluster, permitWaitingTimeSeconds=100, podGroupRejectPercentage=100), 2)
    cluster.add(gang(scheduleTimeoutSeconds=5), *map(member, NAMES))
    cluster.advance(4.5)
    assert len(cluster.waiting_pods) == 2
    cluster.advance(1)
    notes = [note for name in NAMES for note in cluster.events.of(name, "FailedScheduling")]
    assert any("rejected due to timeout after waiting 5s at plugin Coscheduling" in note for note in notes)


@pytest.mark.parametrize(
    ("percentage", "assigned", "rejects"),
    [(10, 9, False), (10, 8, True), (0, 9, True), (100, 0, False), (50, 6, False), (50, 4, True), (10, 10, False)],
)
def test_how_many_may_be_missing(cluster: VirtualCluster, percentage: int, assigned: int, rejects: bool) -> None:
    """Of ten pods so many have a node when another finds none."""
    nodes(configured(cluster, podGroupRejectPercentage=percentage), 1)
    cluster.add(gang(members=10))
    cluster.add(*(member(f"there{number}", cpu="0", node="n0") for number in range(assigned)))
    cluster.add(*(member(f"gated{number}", gates=["example.com/gate"]) for number in range(10 - assigned)))
    plugin = plugin_of(cluster)

    async def ask() -> Status:
        return plugin.post_filter(None, member("p"), None)[1]  # type: ignore[arg-type]  # neither is read

    status = cluster.run(ask())
    assert ("PodGroup default/job gets rejected due to Pod p" in status.message) is rejects


def test_a_group_backs_off(cluster: VirtualCluster) -> None:
    """With podGroupBackoffSeconds the group is rejected at PreFilter until the time is over, then retried."""
    nodes(configured(cluster, podGroupBackoffSeconds=20), 2)
    cluster.add(gang(), *map(member, NAMES))
    cluster.advance(1)
    cluster.add(node("n2"))
    cluster.advance(15)
    assert bound(cluster, NAMES) == [False] * 3
    cluster.advance(10)
    assert bound(cluster, NAMES) == [True] * 3


def test_two_groups_do_not_hold_half_of_the_room_each(cluster: VirtualCluster) -> None:
    """The queue keeps a group together, so that the older one starts."""
    configured(cluster)
    nodes(cluster, 0)
    cluster.start()
    cluster.add(gang("old", created="2026-01-01T00:00:00Z"), gang("new", created="2026-01-02T00:00:00Z"))
    for number in range(3):
        cluster.add(member(f"new-{number}", "new"), member(f"old-{number}", "old"))
    nodes(cluster, 4)
    cluster.advance(60)
    assert bound(cluster, [f"old-{number}" for number in range(3)]) == [True] * 3
    assert bound(cluster, [f"new-{number}" for number in range(3)]) == [False] * 3
    assert cluster.attempts("new-0") < 20  # it is not tried all the time


class Queued:
    """A pod in the queue, as the plugin sees it."""

    def __init__(self, each: Pod, first: float) -> None:
        self.pod = each
        self.timestamp = first
        self.initial_attempt_timestamp: float | None = first


@pytest.fixture
def plugin(cluster: VirtualCluster) -> Coscheduling:
    """The plugin in a running scheduler, with two groups created ten seconds apart."""
    cluster.add(gang("one", created="2026-01-01T00:00:00Z"), gang("two", created="2026-01-01T00:00:10Z"))
    return plugin_of(configured(cluster))


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (Queued(pod("b", priority=100), 5), Queued(pod("a", priority=10), 1)),
        (Queued(pod("b"), 1), Queued(pod("a"), 2)),
        (Queued(member("b", "one", priority=100), 5), Queued(pod("a", priority=10), 1)),
        (Queued(member("b", "one"), 9), Queued(member("a", "two"), 1)),
        (Queued(member("a", "one"), 1), Queued(member("b", "one"), 1)),
        (Queued(member("b", "two"), 1), Queued(pod("a"), 10**9)),
        (Queued(pod("a"), 1), Queued(pod("b"), 1)),
        (Queued(member("b", "gone"), 1), Queued(pod("a"), 2)),
    ],
)
def test_the_order_of_the_queue(plugin: Coscheduling, first: Queued, second: Queued) -> None:
    """By priority, then by the age of the group or the first attempt of the pod, then by name."""
    assert plugin.less(first, second)
    assert not plugin.less(second, first)


def test_a_group_that_failed_goes_behind_the_others(plugin: Coscheduling, cluster: VirtualCluster) -> None:
    """Until it succeeds its age counts from the failure."""
    old, new = Queued(member("a", "one"), 1), Queued(member("b", "two"), 1)
    assert plugin.less(old, new)
    cluster.advance(20)
    plugin.unreserve(None, old.pod, "n1")  # type: ignore[arg-type]  # the state is not read
    assert plugin.less(new, old)


def test_a_member_that_runs_counts(cluster: VirtualCluster) -> None:
    """A replacement does not wait for a whole new group, and one that has ended does not count."""
    nodes(configured(cluster), 3)
    cluster.add(gang(), member("p0", node="n0"), member("p1", node="n1"), member("done", node="n2", phase="Succeeded"))
    cluster.schedule(member("p2"))
    assert cluster.node_of("p2") == "n2"


def test_a_change_of_the_group_wakes_its_pods(cluster: VirtualCluster) -> None:
    """minMember is lowered, and the one pod starts."""
    nodes(configured(cluster), 1)
    cluster.add(gang())
    cluster.schedule(member("p0"))
    cluster.add(gang(members=1))
    cluster.advance(2)
    assert cluster.node_of("p0") == "n0"


@pytest.mark.parametrize(
    ("args", "message"),
    [
        ({"permitWaitingTimeSeconds": -1}, "permitWaitingTimeSeconds must not be negative, got -1"),
        ({"podGroupBackoffSeconds": -1}, "podGroupBackoffSeconds must not be negative"),
        ({"podGroupRejectPercentage": 101}, "podGroupRejectPercentage must be from 0 to 100, got 101"),
        ({"permitWaitingTime": 1}, "args.permitWaitingTime: unknown field; did you mean permitWaitingTimeSeconds"),
    ],
)
def test_wrong_arguments(cluster: VirtualCluster, args: dict[str, int], message: str) -> None:
    """Each mistake is named."""
    with pytest.raises(ConfigError, match=message):
        configured(cluster, **args).start()


def test_the_contract() -> None:
    """Deterministic, and nothing changed."""
    check_plugin(Coscheduling, pods=[member("p0"), pod("alone")])
