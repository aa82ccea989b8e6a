"""Unschedulable pods: conditions, backoff, hints, and pods that must not be requeued."""

from __future__ import annotations

from msgspec.structs import replace
from tests.builders import node, pod
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import PODS_TO_ACTIVATE, CycleState, PodsToActivate
from kubesched.framework.status import Status, error, unschedulable
from kubesched.scheduler.statuses import StatusWriter


@virtual_time
async def test_the_condition_says_why(clock: VirtualClock) -> None:
    """A pod that fits nowhere gets a condition and an event with the reason."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="2"))
        await here.settle()
        condition = here.condition("big")
        assert condition is not None
        assert (condition.status, condition.reason) == ("False", "Unschedulable")
        assert here.events.of("FailedScheduling") == [("big", condition.message)]


@virtual_time
async def test_a_condition_goes_behind_the_others(clock: VirtualClock) -> None:
    """A patch contains the observed generation of the pod and keeps the order of its conditions."""
    async with world(clock) as here:
        ready = api.PodCondition(type="Ready", status="True")
        bare = pod("web")
        seen = replace(bare, metadata=replace(bare.metadata, generation=3), status=api.PodStatus(conditions=(ready,)))
        new = api.PodCondition(type="PodScheduled", status="False", reason="Unschedulable")
        patch = StatusWriter(here.scheduler.shared).patch(seen, new)
        assert patch is not None
        assert patch["status"]["conditions"][0]["observedGeneration"] == 3
        assert patch["status"]["$setElementOrder/conditions"] == [{"type": "Ready"}, {"type": "PodScheduled"}]


@virtual_time
async def test_the_condition_is_written_only_when_it_changes(clock: VirtualClock) -> None:
    """A retry with the same result causes no second patch."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="3"))
        await here.settle(30)
        here.api.update(node("n1", cpu="2"))
        await here.settle(30)
        assert here.attempts("big") == 1, "two cpus are still too few, which the hint knows"
        here.scheduler.queue.activate([here.pod("big")])
        await here.settle()
        assert here.attempts("big") == 2
        assert here.api.calls["patch_pod_status"] == 1


@virtual_time
async def test_few_conditions_are_written_at_a_time(clock: VirtualClock) -> None:
    """When many pods fail at once, their patches are sent a few at a time, and a pod that is bound in the meantime
    needs none.
    """
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.delay("patch_pod_status", 10)
        here.create(*(pod(f"big-{number}", cpu="2") for number in range(20)))
        await here.settle(1)
        assert here.api.calls["patch_pod_status"] == 8
        here.api.update(node("n1", cpu="100"))
        await here.settle(60)
        assert {here.node_of(f"big-{number}") for number in range(20)} == {"n1"}
        assert here.api.calls["patch_pod_status"] == 8


@virtual_time
async def test_conditions_that_have_to_wait_are_written(clock: VirtualClock) -> None:
    """Patches that waited for their turn are sent in the end."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.delay("patch_pod_status", 1)
        here.create(*(pod(f"big-{number}", cpu="2") for number in range(20)))
        await here.settle(10)
        assert all(here.condition(f"big-{number}") is not None for number in range(20))
        assert here.api.calls["patch_pod_status"] == 20


@virtual_time
async def test_events_that_cannot_help_wake_no_pods(clock: VirtualClock) -> None:
    """A pod that lacks cpu is not retried when a node gets a label or another pod is created."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="2"))
        await here.settle()
        here.api.update(node("n1", cpu="1", labels={"new": "yes"}))
        here.create(pod("small", cpu="100m"))
        await here.settle(60)
        assert here.attempts("big") == 1


@virtual_time
async def test_no_pod_waits_for_ever(clock: VirtualClock) -> None:
    """A pod without any event is retried after five minutes."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="2"))
        await here.settle(290)
        assert here.attempts("big") == 1
        await here.settle(60)
        assert here.attempts("big") == 2


@virtual_time
async def test_an_error_backs_off_longer_each_time(clock: VirtualClock) -> None:
    """A pod whose attempts end in errors is retried after one, two, four and then ten seconds."""

    class Broken(Plugin):
        name = "Broken"

        def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            return error("no luck")

    async with world(clock, node("n1"), plugins=[Broken]) as here:
        here.create(pod("web"))
        counts = []
        for _ in range(4):
            await here.settle(8)
            counts.append(here.attempts("web"))
        assert counts == [3, 4, 5, 6] or counts == [3, 4, 5, 5], counts
        assert here.message("web") == 'running Reserve plugin "Broken": no luck'
        condition = here.condition("web")
        assert condition is not None
        assert condition.reason == "SchedulerError"


@virtual_time
async def test_a_pod_recreated_meanwhile_is_not_confused_with_the_old_one(clock: VirtualClock) -> None:
    """When a pod is deleted and recreated while its binding fails, the new pod is scheduled and the old one is
    dropped.
    """
    async with world(clock, node("n1")) as here:
        here.api.delay("bind", 5)
        here.create(pod("web", uid="first"))
        await here.settle(1)
        here.api.delete(here.pod("web"))
        here.create(pod("web", uid="second"))
        await here.settle(30)
        assert [uid for _, uid, _ in here.api.bindings] == ["second"]


@virtual_time
async def test_a_pod_bound_meanwhile_is_not_taken_back(clock: VirtualClock) -> None:
    """If another scheduler binds the pod during our binding, the pod stays where it is."""
    async with world(clock, node("n1"), node("n2")) as here:
        here.api.delay("bind", 5)
        here.create(pod("web", node_selector={"kubernetes.io/hostname": "n1"}))
        await here.settle(1)
        await here.api.memory.bind(here.pod("web"), "n2")
        await here.settle(30)
        assert here.node_of("web") == "n2"
        assert any("different node than it was assumed" in line for line in here.log.errors())
        assert "Pod has been assigned to node. Abort adding it back to queue." in here.log.about("web")


@virtual_time
async def test_a_place_freed_by_another_scheduler_is_given_away(clock: VirtualClock) -> None:
    """If another scheduler binds an assumed pod to another node, pods that its place was too small for are retried."""
    async with world(clock, node("n1", cpu="1"), node("n2", cpu="1")) as here:
        here.api.delay("bind", 5)
        here.create(pod("web", cpu="1", node_selector={"kubernetes.io/hostname": "n1"}))
        await here.settle(1)
        here.create(pod("next", cpu="1", node_selector={"kubernetes.io/hostname": "n1"}))
        await here.settle(1)
        assert here.attempts("next") == 1
        await here.api.memory.bind(here.pod("web"), "n2")
        await here.settle(30)
        assert here.node_of("next") == "n1"


@virtual_time
async def test_a_label_lost_while_assumed_wakes_the_pods_that_it_kept_away(clock: VirtualClock) -> None:
    """The binding arrives together with the new label: the old one was counted until then."""
    async with world(clock, node("n1")) as here:
        here.api.delay("bind", 5)
        here.create(pod("first", labels={"app": "db"}))
        await here.settle(1)
        term = api.PodAffinityTerm(
            topology_key="kubernetes.io/hostname", label_selector=api.LabelSelector({"app": "db"})
        )
        away = api.PodAntiAffinity(required_during_scheduling_ignored_during_execution=(term,))
        here.create(pod("next", affinity=api.Affinity(pod_anti_affinity=away)))
        await here.settle(1)
        assert here.attempts("next") == 1
        first = here.pod("first")
        here.api.update(replace(first, metadata=replace(first.metadata, labels={"app": "web"})))
        await here.settle(30)
        assert here.node_of("next") == "n1"


@virtual_time
async def test_a_nomination_ended_by_another_scheduler_frees_its_place(clock: VirtualClock) -> None:
    """If another scheduler binds a nominated pod to another node, pods that counted it are retried."""
    on_n1 = {"kubernetes.io/hostname": "n1"}
    async with world(clock, node("n1", cpu="2"), node("n2", cpu="2"), pod("low", node="n1", cpu="1")) as here:
        here.api.deletion_takes = 1000
        here.create(pod("high", cpu="2", priority=10, node_selector=on_n1))
        await here.settle(1)
        here.create(pod("next", cpu="1", node_selector=on_n1))
        await here.settle(1)
        assert here.pod("high").nominated_node_name == "n1"
        assert here.node_of("next") == ""
        await here.api.memory.bind(here.pod("high"), "n2")
        await here.settle(30)
        assert here.node_of("next") == "n1"


@virtual_time
async def test_pods_to_activate_are_tried_after_the_cycle(clock: VirtualClock) -> None:
    """A plugin that schedules one pod can activate others that wait for something only it knows about."""
    waiting: list[api.Pod] = []

    class Pairs(Plugin):
        name = "Pairs"

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: object) -> Status | None:
            if pod.name == "second" and not waiting:
                waiting.append(pod)
                return unschedulable("the first is not there yet")
            return None

        def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            if pod.name == "first":
                state.read(PODS_TO_ACTIVATE, PodsToActivate).add(waiting)
            return None

        def events_to_register(self) -> list[object]:  # type: ignore[override]  # no events at all
            return []

    async with world(clock, node("n1"), plugins=[Pairs]) as here:
        here.create(pod("second"))
        await here.settle(60)
        assert here.attempts("second") == 1
        here.create(pod("first"))
        await here.settle()
        assert here.node_of("second") == "n1"


@virtual_time
async def test_an_update_of_a_waiting_pod_may_free_it(clock: VirtualClock) -> None:
    """A new toleration lets a pod onto a node that rejected it."""
    async with world(clock, node("n1", taints=["a=b:NoSchedule"])) as here:
        here.create(pod("web"))
        await here.settle(30)
        old = here.pod("web")
        tolerating = replace(old.spec, tolerations=(api.Toleration(key="a", operator="Exists"),))
        here.api.update(replace(old, spec=tolerating))
        await here.settle()
        assert here.node_of("web") == "n1"


@virtual_time
async def test_no_condition_comes_after_the_binding(clock: VirtualClock) -> None:
    """A pod is bound only after the condition of its last failure has been written."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.api.delay("patch_pod_status", 10)
        here.create(pod("big", cpu="2"))
        await here.settle(1)
        here.api.update(node("n1", cpu="2"))
        await here.settle(5)
        assert not here.pod("big").node_name
        await here.settle(10)
        assert here.pod("big").node_name == "n1"
        condition = here.condition("big")
        assert condition is not None
        assert condition.status == "True"


@virtual_time
async def test_conditions_follow_each_other(clock: VirtualClock) -> None:
    """A condition is compared with pending writes and not only with the watch: no condition is written twice, and none
    is skipped that a pending write would overwrite.
    """
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="2"))
        await here.settle()
        before = here.message("big")
        assert here.api.calls["patch_pod_status"] == 1
        here.api.delay("patch_pod_status", 1)
        here.api.update(node("n1", cpu="1", taints=[api.Taint("a", "", "NoSchedule")]))
        here.scheduler.queue.activate([here.pod("big")])
        await here.settle(0.1)
        here.scheduler.queue.activate([here.pod("big")])
        await here.settle(0.1)
        here.api.update(node("n1", cpu="1"))
        here.scheduler.queue.activate([here.pod("big")])
        await here.settle(10)
        assert here.attempts("big") == 4
        assert here.api.calls["patch_pod_status"] == 3
        assert here.message("big") == before


@virtual_time
async def test_a_patch_starts_from_what_the_last_one_left(clock: VirtualClock) -> None:
    """A lagging watch does not cause the same condition to be written again."""
    async with world(clock, node("n1", cpu="1")) as here:
        here.create(pod("big", cpu="2"))
        await here.settle(0)
        here.api.pause("watch")
        here.api.cut_watches(api.Pod)
        here.api.update(node("n1", cpu="1", taints=[api.Taint("a", "", "NoSchedule")]))
        for _ in range(3):
            here.scheduler.queue.activate([here.pod("big")])
            await here.settle(1)
        assert here.attempts("big") == 4
        assert here.api.calls["patch_pod_status"] == 2
        here.api.resume("watch")
        await here.settle(60)
