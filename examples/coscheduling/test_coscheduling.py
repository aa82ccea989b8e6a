"""Groups that start together, or not at all."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from coscheduling import GROUP, MIN_AVAILABLE, Coscheduling
from msgspec.structs import replace

from kubesched import Pod
from kubesched.simulator import ScenarioClient
from kubesched.simulator import node as machine
from kubesched.testing import VirtualCluster, check_plugin, node, pod

if TYPE_CHECKING:
    from examples.conftest import Embedded

NAMES = ["job-0", "job-1", "job-2"]


def member(name: str, of: str = "3", group: str = "job") -> Pod:
    """A pod that fills a node, of a group of three."""
    return pod(name, cpu="3", scheduler="gang-scheduler", labels={GROUP: group, MIN_AVAILABLE: of})


@pytest.fixture
def two(cluster: VirtualCluster) -> VirtualCluster:
    """Room for two members."""
    cluster.know(Coscheduling)
    cluster.configure(Path(__file__).parent / "scheduler.yaml")
    cluster.add(node("n1"), node("n2"))
    return cluster


def placed(cluster: VirtualCluster) -> list[bool]:
    """Which members are bound."""
    return [bool(cluster.node_of(name)) for name in NAMES]


def test_all_go_when_the_last_has_a_place(two: VirtualCluster) -> None:
    """Two members hold their places and wait; the third comes, and all three are bound."""
    two.add(node("n3"))
    for name in NAMES[:2]:
        assert two.schedule(member(name)).node
        assert two.node_of(name) == ""
    two.schedule(member("job-2"))
    assert placed(two) == [True] * 3


def test_they_give_up_together(two: VirtualCluster) -> None:
    """With room for two of three, no pod is bound, and after ten seconds the room is free for others."""
    for name in NAMES:
        two.add(member(name))
    two.advance(5)
    assert placed(two) == [False] * 3
    two.advance(5.1)
    assert len(two.scheduler.cluster.assumed) == 0
    notes = [*two.events.of("job-0", "FailedScheduling"), *two.events.of("job-1", "FailedScheduling")]
    assert any("rejected due to timeout after waiting 10s at plugin Coscheduling" in note for note in notes)
    assert two.schedule(pod("other", cpu="3", scheduler="gang-scheduler")).node


def test_one_that_came_later_gives_up_with_the_first(two: VirtualCluster) -> None:
    """Its own ten seconds are not over, but no pod is left to wait for."""
    two.schedule(member("job-0"))
    two.advance(6)
    two.schedule(member("job-1"))
    two.advance(4.1)
    assert len(two.waiting_pods) == 0
    assert "pod job-0 of group job gave up its place" in two.events.of("job-1", "FailedScheduling")[0]


def test_a_member_is_deleted_while_it_waits(two: VirtualCluster) -> None:
    """The others give up with it; with new members, and after its backoff, the group starts."""
    two.add(node("n3"))
    for name in ("gone", "job-0"):
        two.schedule(member(name))
    two.remove(two.pod("gone"))
    assert len(two.waiting_pods) == 0
    two.add(member("job-1"), member("job-2"))
    two.advance(19)
    assert placed(two) == [False] * 3
    two.advance(2)
    assert placed(two) == [True] * 3


def test_two_groups_do_not_block_each_other(two: VirtualCluster) -> None:
    """Each has half of the room; one gets all of it, and the other when the first one's pods are gone."""
    two.add(node("n3"), node("n4"))
    members = [(group, f"{group}-{number}") for number in range(3) for group in ("one", "two")]
    for group, name in members:
        two.schedule(member(name, group=group))
    assert len(two.waiting_pods) == 4
    two.advance(60)
    bound = {group for group, name in members if two.node_of(name)}
    assert len(bound) == 1
    two.remove(*(two.pod(name) for group, name in members if group in bound))
    two.advance(60)
    assert all(two.node_of(name) for group, name in members if group not in bound)


def test_a_group_of_which_too_few_exist_leaves_room_most_of_the_time(two: VirtualCluster) -> None:
    """It is retried every half minute, and no event in between makes it more often."""
    for name in NAMES[:2]:
        two.add(member(name))
    for number in range(15):
        two.advance(20)
        two.add(node(f"more-{number}"))
    assert two.attempts("job-0") == 11


def test_they_are_tried_again_together(two: VirtualCluster) -> None:
    """Long after all gave up, a node with room for the third is added, and the group starts."""
    for name in NAMES:
        two.add(member(name))
    two.advance(120)
    assert placed(two) == [False] * 3
    two.add(node("n3"))
    two.advance(40)
    assert placed(two) == [True] * 3


def test_a_member_that_comes_back_finds_the_others(two: VirtualCluster) -> None:
    """Members that run already count: a replacement does not wait for a whole new group."""
    running = [member(name) for name in NAMES[:2]]
    two.add(
        node("n3"), *(pod(each.name, node=f"n{n}", labels=each.metadata.labels) for n, each in enumerate(running, 1))
    )
    two.schedule(member("job-2"))
    assert two.node_of("job-2") == "n3"


def test_a_member_that_is_going_does_not_count(two: VirtualCluster) -> None:
    """A pod that is being deleted does not count."""
    going = pod("job-0", node="n1", labels=member("job-0").labels)
    two.add(node("n3"), replace(going, metadata=replace(going.metadata, deletion_timestamp="2026-01-01T00:00:00Z")))
    for name in NAMES[1:]:
        two.schedule(member(name))
    assert placed(two)[1:] == [False, False]


def test_a_group_without_a_size_gets_a_message(two: VirtualCluster) -> None:
    """A label that is no number keeps the pod pending, with the reason, until it is corrected; pods without a group
    are not affected."""
    decision = two.schedule(member("job-0", of="three"))
    assert "must be a positive number" in decision.message
    found = two.pod("job-0")
    two.add(replace(found, metadata=replace(found.metadata, labels={**found.labels, MIN_AVAILABLE: "1"})))
    two.advance(5)
    assert two.node_of("job-0")
    two.schedule(pod("alone", scheduler="gang-scheduler"))
    assert two.node_of("alone")


def test_on_the_embedded_cluster(embedded: Embedded) -> None:
    """The README's commands: a Job of three on two nodes waits as one, and starts when a third node comes."""

    async def act(client: ScenarioClient) -> None:
        for number in (1, 2):
            await client.create(machine(f"node-{number}"))
        await embedded.apply(client, "job.yaml")
        training = {"job-name": "training"}
        for _ in range(4):
            await client.sleep(7)
            await client.expect(labels=training, count=3, pending=True)
        await embedded.apply(client, "node.yaml")
        await client.wait_for(labels=training, count=3, pending=False, timeout=40)

    embedded.run(act, plugin="coscheduling.py", config="scheduler.yaml")


def test_it_keeps_the_contract() -> None:
    """Deterministic, and nothing changed."""
    check_plugin(Coscheduling, pods=[member("job-0"), member("job-1", of="three"), pod("alone")])
