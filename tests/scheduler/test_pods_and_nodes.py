"""Pods and nodes are added, changed and deleted, and every pod ends up where it should."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.scheduler.handlers import EventHandlers
from kubesched.testing import VirtualCluster


@virtual_time
async def test_a_pod_is_bound_to_the_only_node(clock: VirtualClock) -> None:
    """A pod that fits is bound and gets an event."""
    async with world(clock, node("n1")) as here:
        here.create(pod("web", cpu="1"))
        await here.settle()
        assert here.node_of("web") == "n1"
        assert here.events.of("Scheduled") == [("web", "Successfully assigned default/web to n1")]


@virtual_time
async def test_pods_that_were_there_before_count(clock: VirtualClock) -> None:
    """Pods that exist when the scheduler starts are counted on their nodes, or scheduled if pending."""
    before = [node("n1", cpu="1"), pod("old", node="n1", cpu="800m"), pod("big", cpu="800m"), pod("small", cpu="100m")]
    async with world(clock, *before) as here:
        assert here.node_of("small") == "n1"
        assert here.node_of("big") == ""
        assert here.message("big").startswith("0/1 nodes are available: 1 Insufficient cpu.")


@virtual_time
async def test_without_nodes_a_pod_waits_for_the_first(clock: VirtualClock) -> None:
    """Without nodes the condition has upstream's message, and the pod is bound once there is a node."""
    async with world(clock) as here:
        here.create(pod("web"))
        await here.settle()
        condition = here.condition("web")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert condition.message == "no nodes available to schedule pods"
        here.create(node("n1"))
        await here.settle(3)
        assert here.node_of("web") == "n1"


@virtual_time
async def test_a_pod_of_another_scheduler_is_left_alone(clock: VirtualClock) -> None:
    """A pod of another scheduler is not bound by us, but counts once it is bound."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("theirs", scheduler="other", cpu="1"))
        await here.settle()
        assert here.node_of("theirs") == ""
        await here.api.bind(here.pod("theirs"), "n1")
        here.create(pod("ours", cpu="1"))
        await here.settle()
        assert "Insufficient cpu" in here.message("ours")


@virtual_time
async def test_a_gated_pod_waits_for_its_gates(clock: VirtualClock) -> None:
    """A pod with scheduling gates is not tried until an update removes them."""
    async with world(clock, node("n1")) as here:
        here.create(pod("web", gates=["wait"]))
        await here.settle(60)
        assert here.attempts("web") == 0
        gated = here.pod("web")
        here.api.update(replace(gated, spec=replace(gated.spec, scheduling_gates=())))
        await here.settle()
        assert here.node_of("web") == "n1"


@virtual_time
async def test_a_deleted_pod_with_a_terminal_state_makes_room(clock: VirtualClock) -> None:
    """A deleted pod frees its resources even if its last delivered state is terminal."""
    async with world(clock, node("n1", cpu="1"), pod("old", node="n1", cpu="1")) as here:
        old = here.pod("old")
        news = EventHandlers(here.scheduler.shared, here.scheduler.profiles)
        news.handle(replace(old, status=replace(old.status, phase="Succeeded")), None)
        assert old.uid not in here.scheduler.cluster.pods
        news.handle(None, old)  # the original state again, for the check at the end


@virtual_time
async def test_a_deleted_pod_makes_room(clock: VirtualClock) -> None:
    """A pod that waits for resources is bound as soon as a pod on a node is deleted."""
    async with world(clock, node("n1", cpu="1"), pod("old", node="n1", cpu="1")) as here:
        here.create(pod("new", cpu="1"))
        await here.settle(20)
        here.api.delete(here.pod("old"))
        await here.settle()
        assert here.node_of("new") == "n1"
        assert here.attempts("new") == 2


@virtual_time
async def test_a_finished_pod_makes_room(clock: VirtualClock) -> None:
    """A pod that has ended no longer uses resources on its node."""
    async with world(clock, node("n1", cpu="1"), pod("job", node="n1", cpu="1")) as here:
        here.create(pod("new", cpu="1"))
        await here.settle(20)
        done = here.pod("job")
        here.api.update(replace(done, status=replace(done.status, phase="Succeeded")))
        await here.settle()
        assert here.node_of("new") == "n1"


@virtual_time
async def test_a_pending_pod_that_is_deleted_is_forgotten(clock: VirtualClock) -> None:
    """A pending pod that is deleted leaves the queue."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="2"))
        await here.settle()
        here.api.delete(here.pod("big"))
        await here.settle()
        assert len(here.scheduler.queue) == 0


@virtual_time
async def test_a_pod_bound_by_another_scheduler_is_not_scheduled_again(clock: VirtualClock) -> None:
    """A pending pod that another scheduler binds leaves the queue and counts on its node."""
    async with world(clock, node("n1", taints=["a=b:NoSchedule"])) as here:
        here.create(pod("web", cpu="1"))
        await here.settle()
        await here.api.bind(here.pod("web"), "n1")
        await here.settle()
        assert len(here.scheduler.queue) == 0
        assert here.scheduler.cluster.pods.keys() == {here.pod("web").uid}


def test_a_pod_whose_binding_a_backup_does_not_know_is_bound_again() -> None:
    """When the API server goes back to a state before a binding, the pod waits again, and its place is free."""
    with VirtualCluster() as cluster:
        cluster.add(node("n1", cpu="1"))
        cluster.schedule(pod("web", cpu="800m"))
        bound = cluster.pod("web")
        assert bound.node_name == "n1"

        async def restore() -> None:
            cluster.api.pause("watch_event")
            cluster.api.delete(bound)
            cluster.api.create(replace(bound, spec=replace(bound.spec, node_name=""), status=api.PodStatus()))
            cluster.api.forget_history()
            cluster.api.cut_watches()
            cluster.api.resume("watch_event")

        cluster.run(restore())
        cluster.advance(30)
        assert cluster.node_of("web") == "n1"


@virtual_time
async def test_a_deleting_pod_is_skipped(clock: VirtualClock) -> None:
    """A pod that is being deleted is not tried, and an event says so."""
    async with world(clock, node("n1"), check=False) as here:
        here.create(pod("web", terminating=True))
        await here.settle()
        assert here.events.of("FailedScheduling") == [("web", "skip schedule deleting pod: default/web")]
        assert here.node_of("web") == ""


@virtual_time
async def test_node_changes_wake_pods_they_may_help(clock: VirtualClock) -> None:
    """Only node changes that the rejecting plugin registered for retry the pod."""
    cordoned = node("n1", cpu="1", labels={"disk": "hdd"}, taints=["a=b:NoSchedule"], unschedulable=True)
    async with world(clock, cordoned) as here:
        here.create(pod("web", cpu="2", node_selector={"disk": "ssd"}))
        changes = [
            node("n1", cpu="1", labels={"disk": "ssd"}, taints=["a=b:NoSchedule"], unschedulable=True),
            node("n1", cpu="1", labels={"disk": "ssd"}, unschedulable=True),
            node("n1", cpu="1", labels={"disk": "ssd"}),
            node("n1", cpu="2", labels={"disk": "ssd"}),
        ]
        for changed in changes:
            await here.settle(30)
            assert here.node_of("web") == ""
            here.api.update(changed)
        await here.settle(30)
        assert here.node_of("web") == "n1"
        # First rejected for the cordon, then for lack of cpu: the changes in between could not help.
        assert here.attempts("web") == 3


@virtual_time
async def test_a_heartbeat_wakes_no_pods(clock: VirtualClock) -> None:
    """A node update without relevant changes retries no pods."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="2"))
        await here.settle(30)
        for _ in range(5):
            here.api.update(node("n1", cpu="1"))
            await here.settle(5)
        assert here.attempts("big") == 1


@virtual_time
async def test_a_removed_node_is_not_used(clock: VirtualClock) -> None:
    """A deleted node gets no more pods, even while pods remain on it."""
    async with world(clock, node("n1"), node("n2"), check=False) as here:
        here.create(pod("a", node="n1"))
        await here.settle()
        gone = here.api.get(api.Node, "n1")
        assert gone is not None
        here.api.delete(gone)
        await here.settle()
        here.create(pod("b"))
        await here.settle()
        assert here.node_of("b") == "n2"


@virtual_time
async def test_a_broken_watch_misses_nothing(clock: VirtualClock) -> None:
    """Pods created, deleted and recreated while the watch was broken are all handled."""
    async with world(clock, node("n1", cpu="2")) as here:
        here.create(pod("big", cpu="3"), pod("again", cpu="3"))
        await here.settle()
        here.api.pause("watch")
        here.api.pause("list")
        here.api.cut_watches()
        await here.settle(1)
        here.api.forget_history()
        here.api.delete(here.pod("big"))
        here.api.delete(here.pod("again"))
        here.create(pod("again", uid="another", cpu="1"), pod("new", cpu="1"))
        here.api.heal()
        await here.settle(60)
        assert here.node_of("again") == here.node_of("new") == "n1"


@virtual_time
async def test_several_profiles_decide_each_its_own_way(clock: VirtualClock) -> None:
    """Every pod is scheduled by the profile it names, on the same cluster."""
    blind = {"schedulerName": "blind", "plugins": {"multiPoint": {"disabled": [{"name": "TaintToleration"}]}}}
    profiles: list[dict[str, Any]] = [{"schedulerName": "default-scheduler"}, blind]
    async with world(clock, node("n1", taints=["a=b:NoSchedule"]), profiles=profiles) as here:
        here.create(pod("careful"), pod("bold", scheduler="blind"))
        await here.settle()
        assert here.node_of("bold") == "n1"
        assert "untolerated taint" in here.message("careful")
        assert {event.profile for event in here.events} == {"default-scheduler", "blind"}
