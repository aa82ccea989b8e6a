"""Preemption from end to end: victims are marked and deleted, and the preemptor gets their resources."""

from __future__ import annotations

import asyncio
import math

from msgspec.structs import replace
from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.client.protocol import ApiError, WatchType
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status
from kubesched.scheduler.urgent_calls import UrgentCalls
from kubesched.scheduler.victims import PATIENCE


@virtual_time
async def test_a_victim_makes_room(clock: VirtualClock) -> None:
    """A higher-priority pod takes the place of a lower-priority one, which gets an event with the reason."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.create(pod("high", uid="u-high", cpu="1", priority=10))
        await here.settle(5)
        assert here.node_of("high") == "n1"
        assert here.api.get(api.Pod, "default/low") is None
        assert here.events.of("Preempted") == [("low", "Preempted by pod u-high on node n1")]


@virtual_time
async def test_a_victim_that_terminates_slowly(clock: VirtualClock) -> None:
    """While the victim terminates it has the condition, and the preemptor is nominated and not retried."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.api.deletion_takes = 30
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(20)
        condition = here.condition("low", "DisruptionTarget")
        assert condition is not None
        assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
        assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
        assert here.pod("high").nominated_node_name == "n1"
        assert here.attempts("high") == 1
        await here.settle(11)
        assert here.node_of("high") == "n1"


@virtual_time
async def test_freed_resources_are_kept_for_the_preemptor(clock: VirtualClock) -> None:
    """A lower-priority pod does not get the resources that were freed for the preemptor."""
    async with world(clock, node("n1", cpu="2"), pod("low", node="n1", cpu="2", priority=0)) as here:
        here.api.deletion_takes = 30
        here.create(pod("high", cpu="1500m", priority=10))
        await here.settle(1)
        here.create(pod("middle", cpu="1", priority=5), pod("small", cpu="500m", priority=5))
        await here.settle(60)
        assert here.node_of("high") == "n1"
        assert here.node_of("small") == "n1"
        assert here.node_of("middle") == ""


@virtual_time
async def test_the_preemptor_is_blocked_while_its_victims_are_deleted(clock: VirtualClock) -> None:
    """An event does not retry the preemptor while its victims are being deleted."""
    victims = [pod("a", node="n1", cpu="500m", priority=0), pod("b", node="n1", cpu="500m", priority=0)]
    async with world(clock, node("n1", cpu="1"), *victims) as here:
        here.api.delay("delete_pod", 20)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(1)
        here.create(pod("elsewhere", node="n1", cpu="1m"))
        await here.settle(1)
        here.api.delete(here.pod("elsewhere"))
        await here.settle(10)
        assert here.attempts("high") == 1
        await here.settle(60)
        assert here.node_of("high") == "n1"


@virtual_time
async def test_a_watch_that_is_behind_leads_to_no_second_preemption(clock: VirtualClock) -> None:
    """The preemptor is retried when the watch has shown that all victims are gone, not when they are deleted."""
    low = [pod(f"{each}-{number}", node=each, cpu="500m", priority=0) for each in ("n1", "n2") for number in (1, 2)]
    async with world(clock, node("n1", cpu="1"), node("n2", cpu="1"), *low) as here:
        here.api.delay("watch_event", 3, when=lambda call: call.args[1].change is WatchType.DELETED)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(2)
        assert len(here.api.objects(api.Pod)) == 3
        await here.settle(60)
        assert here.node_of("high")
        assert len(here.api.objects(api.Pod)) == 3
        assert here.attempts("high") == 2


@virtual_time
async def test_a_victim_that_comes_back(clock: VirtualClock) -> None:
    """If the API server has lost a deletion, no event follows. The preemptor waits for a while and preempts again."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.api.fail("delete_pod", ApiError(404, "NotFound", "not here"), times=1)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(20)
        assert here.attempts("high") == 1
        await here.settle(PATIENCE)
        assert here.node_of("high") == "n1"


@virtual_time
async def test_victims_that_different_plugins_wait_for(clock: VirtualClock) -> None:
    """The preemptor is retried although the plugin that rejected it ignores the deletion of the last victim."""
    port = pod("port", node="n1", cpu="1m", priority=1, host_ports=[80])
    large = pod("large", node="n1", cpu="900m", priority=0)
    async with world(clock, node("n1", cpu="1"), port, large) as here:
        here.api.delay("watch_event", 1, when=lambda call: call.args[1].change is WatchType.DELETED)
        here.create(pod("high", cpu="900m", priority=10, host_ports=[80]))
        await here.settle(20)
        assert here.node_of("high") == "n1"
        assert here.attempts("high") == 2


@virtual_time
async def test_a_victim_with_a_finalizer_and_no_grace_period(clock: VirtualClock) -> None:
    """The preemptor takes another node while the victim waits for its finalizer."""
    low = pod("low", node="n1", cpu="1", priority=0)
    low = replace(
        low,
        metadata=replace(low.metadata, finalizers=("example.com/wait",)),
        spec=replace(low.spec, termination_grace_period_seconds=0),
    )
    async with world(clock, node("n1", cpu="1"), low) as here:
        here.api.deletion_takes = math.inf
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(5)
        here.create(node("n2", cpu="1"))
        await here.settle(5)
        assert here.node_of("high") == "n2"


@virtual_time
async def test_events_wait_for_deletions_of_victims(clock: VirtualClock) -> None:
    """A deletion that was not answered yet counts as urgent, so that no event is written before it."""
    calls = UrgentCalls()
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1"), urgent_calls=calls) as here:
        here.api.delay("delete_pod", 20)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(1)
        assert calls.pending == 1
        await here.settle(60)
        assert calls.pending == 0


@virtual_time
async def test_a_preemption_that_fails_is_tried_again(clock: VirtualClock) -> None:
    """If a victim cannot be deleted, the preemptor is retried."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.api.fail("delete_pod", ApiError(500, "InternalError", "not now"), times=2)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(60)
        assert here.node_of("high") == "n1"
        assert here.api.calls["delete_pod"] == 3


@virtual_time
async def test_a_preemption_that_keeps_failing_is_tried_now_and_then(clock: VirtualClock) -> None:
    """An API server that refuses deletions at once is not asked without a pause."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.api.fail("delete_pod", ApiError(500, "InternalError", "not now"), times=1000)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(1)
        assert 1 < here.api.calls["delete_pod"] < 15


@virtual_time
async def test_a_victim_that_is_gone_already_is_no_failure(clock: VirtualClock) -> None:
    """A 404 for a victim counts as success."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.api.delay("patch_pod_status", 5)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(1)
        here.api.delete(here.pod("low"))
        await here.settle(30)
        assert here.node_of("high") == "n1"
        assert here.events.of("Preempted") == []


# --- SchedulerAsyncPreemption off -------------------------------------------------------------------------------------

SYNC = Features(scheduler_async_preemption=False)


@virtual_time
async def test_without_the_gate_a_cycle_waits_for_its_victims(clock: VirtualClock) -> None:
    """With the gate off, no other pod is tried while victims are deleted, and the preemptor is not blocked later."""
    victims = [pod(name, node="n1", cpu="500m", priority=0) for name in ("a", "b")]
    async with world(clock, node("n1", cpu="1"), node("n2", cpu="100m"), *victims, features=SYNC) as here:
        here.api.delay("delete_pod", 20)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(1)
        here.create(pod("other", cpu="50m"))
        await here.settle(10)
        assert here.attempts("high") == 1
        assert here.attempts("other") == 0
        await here.settle(60)
        assert here.node_of("high") == "n1"
        assert here.node_of("other") == "n2"
        assert sorted(here.events.of("Preempted"))[0][0] == "a"
        assert "Start the preemption asynchronously" not in here.log.about("high")


@virtual_time
async def test_with_the_gate_other_pods_go_on(clock: VirtualClock) -> None:
    """By default another pod is bound while victims are being deleted."""
    victim = pod("low", node="n1", cpu="1", priority=0)
    async with world(clock, node("n1", cpu="1"), node("n2", cpu="100m"), victim) as here:
        here.api.delay("delete_pod", 20)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(1)
        here.create(pod("other", cpu="50m"))
        await here.settle(10)
        assert here.node_of("other") == "n2"
        await here.settle(60)
        assert here.node_of("high") == "n1"


@virtual_time
async def test_without_the_gate_a_failed_preemption_nominates_no_node(clock: VirtualClock) -> None:
    """With the gate off, an error while deleting a victim is PostFilter's result and appears in the pod's message."""
    victim = pod("low", node="n1", cpu="1", priority=0)
    async with world(clock, node("n1", cpu="1"), victim, features=SYNC) as here:
        here.api.fail("delete_pod", ApiError(500, "InternalError", "not now"), times=1)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(0.5)
        assert here.pod("high").nominated_node_name == ""
        assert "preemption: not now" in here.message("high")
        await here.settle(400)
        assert here.node_of("high") == "n1"


class Waiting(Plugin):
    """Makes pods called "low" wait on Permit for an hour."""

    name = "Waiting"

    def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | tuple[Status, float] | None:
        return (Status(Code.WAIT), 3600.0) if pod.name == "low" else None


@virtual_time
async def test_a_victim_that_waits_on_permit_is_sent_back(clock: VirtualClock) -> None:
    """A victim that waits on Permit is not deleted; it returns to the queue with an event."""
    async with world(clock, node("n1", cpu="1"), plugins=[Waiting]) as here:
        here.create(pod("low", cpu="1", priority=0))
        await here.settle(1)
        here.create(pod("high", uid="u-high", cpu="1", priority=10))
        await here.settle(5)
        assert here.node_of("high") == "n1"
        assert here.api.calls["delete_pod"] == 0
        note = "Preempted by pod u-high on node n1 (in kube-scheduler memory)."
        assert here.events.of("Preempted") == [("low", note)]
        await here.settle(60)
        assert "Insufficient cpu" in here.message("low")


class SlowPreBind(Plugin):
    """Takes an hour in PreBind for pods called "low"."""

    name = "SlowPreBind"

    async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        if pod.name == "low":
            await asyncio.sleep(3600)
        return None


@virtual_time
async def test_a_victim_in_pre_bind_is_called_off(clock: VirtualClock) -> None:
    """A victim in PreBind is cancelled and retried later."""
    async with world(clock, node("n1", cpu="1"), plugins=[SlowPreBind]) as here:
        here.create(pod("low", cpu="1", priority=0))
        await here.settle(1)
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(5)
        assert here.node_of("high") == "n1"
        assert here.api.calls["delete_pod"] == 0
        why = 'running PreBind plugin "SlowPreBind": preempted by DefaultPreemption'
        assert ("low", why) in here.events.of("FailedScheduling")


@virtual_time
async def test_nominations_of_lower_priority_are_cleared(clock: VirtualClock) -> None:
    """A lower-priority pod that was nominated to the node loses its nomination."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.api.deletion_takes = math.inf
        here.create(pod("middle", cpu="1", priority=5))
        await here.settle(5)
        assert here.pod("middle").nominated_node_name == "n1"
        low = here.pod("low")
        here.create(pod("high", cpu="1", priority=10))
        await here.settle(5)
        # All victims are terminating already, so the pod only has to wait.
        assert here.pod("high").nominated_node_name == "n1"
        here.api.finish_deletion(low)
        await here.settle(10)
        assert here.node_of("high") == "n1"


@virtual_time
async def test_the_policy_never_prevents_preemption(clock: VirtualClock) -> None:
    """A pod with preemptionPolicy Never does not preempt."""
    async with world(clock, node("n1", cpu="1"), pod("low", node="n1", cpu="1", priority=0)) as here:
        here.create(pod("high", cpu="1", priority=10, preemption_policy="Never"))
        await here.settle(10)
        assert here.node_of("high") == ""
        assert "not eligible due to preemptionPolicy=Never." in here.message("high")
