"""Pod groups and gangs from end to end: pods that are bound together or not at all."""

from __future__ import annotations

from collections.abc import Iterable

from tests.builders import budget, node, pod, pod_group
from tests.scheduler.world import World, world

from kubesched.api import objects as api
from kubesched.api.workloads import Condition
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, error
from kubesched.scheduler.metrics import Metrics

GANGS = Features(generic_workload=True, gang_scheduling=True)
WAITS = (
    "pod group is unschedulable, waiting for minCount pods from a gang to be scheduled, "
    "one or more plugins asked to wait and no plugin rejected pod"
)


def gang(name: str, count: int, *, cpu: str = "1", priority: int | None = None) -> list[api.Pod]:
    """Pods of one group."""
    return [pod(f"{name}-{number}", cpu=cpu, group=name, priority=priority) for number in range(count)]


def nodes_of(here: World, pods: Iterable[api.Pod]) -> list[str]:
    """The nodes of the pods that are bound."""
    return sorted(filter(None, (here.node_of(each.name) for each in pods)))


def condition(here: World, group: str) -> Condition:
    """The only condition of a group; an empty one if it has none."""
    found = here.api.get(api.PodGroup, f"default/{group}")
    assert found is not None
    return found.status.conditions[0] if found.status.conditions else Condition()


@virtual_time
async def test_a_gang_that_fits_is_bound(clock: VirtualClock) -> None:
    """All pods are bound in one cycle, and the group's condition says so."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="2"), node("n2", cpu="1"), features=GANGS) as here:
        here.create(pod_group("g", 3), *pods)
        await here.settle()
        assert nodes_of(here, pods) == ["n1", "n1", "n2"]
        found = condition(here, "g")
        assert (found.type, found.status, found.reason) == ("PodGroupScheduled", "True", "Scheduled")
        assert found.observed_generation == 1
        done = [fields for _, text, fields in here.log if text == "Successfully scheduled a pod group"]
        assert [(each["scheduledPods"], each["unschedulablePods"]) for each in done] == [(3, 0)]


@virtual_time
async def test_a_gang_that_fits_only_partly_gets_nothing(clock: VirtualClock) -> None:
    """No pod is bound, each condition has the reason, and another pod gets the resources."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="2"), features=GANGS) as here:
        here.create(pod_group("g", 3), *pods)
        await here.settle(3)
        assert nodes_of(here, pods) == []
        messages = sorted(here.message(each.name) for each in pods)
        assert messages[0].startswith("0/1 nodes are available: 1 Insufficient cpu. ")
        assert messages[1:] == [WAITS, WAITS]
        found = condition(here, "g")
        assert (found.status, found.reason, found.message) == ("False", "Unschedulable", "pod group is unschedulable")
        here.create(pod("alone", cpu="2"))
        await here.settle()
        assert here.node_of("alone") == "n1"


@virtual_time
async def test_a_gang_is_tried_again_after_its_backoff(clock: VirtualClock) -> None:
    """A gang that did not fit backs off, and is bound once there is room."""
    pods = gang("g", 2)
    async with world(clock, node("n1", cpu="1"), features=GANGS) as here:
        here.create(pod_group("g", 2), *pods)
        await here.settle(60)
        assert 4 <= sum(text == "Unable to schedule a pod group" for _, text, _ in here.log) <= 12
        here.create(node("n2", cpu="1"))
        await here.settle(12)
        assert nodes_of(here, pods) == ["n1", "n2"]
        assert condition(here, "g").status == "True"


@virtual_time
async def test_more_pods_than_the_gang_needs(clock: VirtualClock) -> None:
    """Pods beyond minCount are bound as far as they fit; the group stays scheduled if the rest fails."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="2"), features=GANGS) as here:
        here.create(pod_group("g", 2), *pods)
        await here.settle(20)
        assert nodes_of(here, pods) == ["n1", "n1"]
        assert condition(here, "g").status == "True"
        here.create(node("n2", cpu="1"))
        await here.settle(12)
        assert nodes_of(here, pods) == ["n1", "n1", "n2"]


@virtual_time
async def test_a_gang_waits_until_it_is_complete(clock: VirtualClock) -> None:
    """PreEnqueue blocks the pods until the group exists and has enough of them; nothing is tried before."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="4"), features=GANGS) as here:
        here.create(*pods[:2])
        await here.settle(5)
        assert "Attempting to schedule pod group" not in [text for _, text, _ in here.log]
        here.create(pod_group("g", 3))
        await here.settle(5)
        assert nodes_of(here, pods[:2]) == []
        statuses = [
            fields["status"] for _, text, fields in here.log if text == "Status after running PreEnqueue plugin"
        ]
        reasons = {status.message for status in statuses if isinstance(status, Status)}
        assert reasons == {
            'waiting for pods\'s pod group "g" to appear in scheduling queue',
            "waiting for minCount pods from a gang to appear in scheduling queue",
        }
        here.create(pods[2])
        await here.settle()
        assert nodes_of(here, pods) == ["n1", "n1", "n1"]


@virtual_time
async def test_two_gangs_do_not_block_one_another(clock: VirtualClock) -> None:
    """Of two gangs that do not fit together, one is bound whole, and the other follows when the first is gone."""
    first, second = gang("a", 2), gang("b", 2)
    async with world(clock, node("n1", cpu="1"), node("n2", cpu="1"), features=GANGS) as here:
        mixed = [each for pair in zip(first, second, strict=True) for each in pair]
        here.create(pod_group("a", 2), pod_group("b", 2), *mixed)
        await here.settle(30)
        assert (nodes_of(here, first), nodes_of(here, second)) == (["n1", "n2"], [])
        for each in first:
            here.api.delete(here.pod(each.name))
        await here.settle(12)
        assert nodes_of(here, second) == ["n1", "n2"]


@virtual_time
async def test_a_gang_that_preempts(clock: VirtualClock) -> None:
    """Without workload-aware preemption each pod preempts separately; the gang is bound when the victims are gone."""
    pods = gang("g", 2, priority=10)
    low = [pod(f"low-{each}", node=each, cpu="1", priority=0) for each in ("n1", "n2")]
    async with world(clock, node("n1", cpu="1"), node("n2", cpu="1"), *low, features=GANGS) as here:
        here.api.deletion_takes = 5
        here.create(pod_group("g", 2), *pods)
        await here.settle()
        found = condition(here, "g")
        waits = "pod group is unschedulable, pod group is waiting for preemption to complete"
        assert (found.status, found.reason, found.message) == ("False", "Unschedulable", waits)
        await here.settle(12)
        assert nodes_of(here, pods) == ["n1", "n2"]
        assert sorted(name for name, _ in here.events.of("Preempted")) == ["low-n1", "low-n2"]


@virtual_time
async def test_a_member_that_disappears(clock: VirtualClock) -> None:
    """A gang that lost a pod waits; once the pod is replaced, the gang is bound."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="2"), features=GANGS) as here:
        here.create(pod_group("g", 3), *pods)
        await here.settle(3)
        here.api.delete(here.pod("g-1"))
        here.create(node("n2", cpu="4"))
        await here.settle(30)
        assert nodes_of(here, [pods[0], pods[2]]) == []
        here.create(pod("g-3", cpu="1", group="g"))
        await here.settle(12)
        assert len(nodes_of(here, [pods[0], pods[2], here.pod("g-3")])) == 3


@virtual_time
async def test_a_group_without_a_gang(clock: VirtualClock) -> None:
    """Pods of a group with the basic policy are bound as far as they fit."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="2"), features=GANGS) as here:
        here.create(pod_group("g"), *pods)
        await here.settle()
        assert nodes_of(here, pods) == ["n1", "n1"]
        assert condition(here, "g").status == "True"


class BreaksOn(Plugin):
    """Fails to reserve one pod."""

    name = "BreaksOn"

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        return error("out of order") if pod.name == "g-1" else None


@virtual_time
async def test_an_error_fails_the_whole_group(clock: VirtualClock) -> None:
    """If one pod fails with an error, the error appears on all pods and on the group."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="8"), plugins=[BreaksOn], features=GANGS) as here:
        here.create(pod_group("g", 2), *pods)
        await here.settle()
        own = 'running Reserve plugin "BreaksOn": out of order'
        others = f"failed to schedule other pod from a pod group: {own}"
        assert [here.message(each.name) for each in pods] == [others, own, others]
        assert (condition(here, "g").reason, condition(here, "g").message) == ("SchedulerError", others)


@virtual_time
async def test_pods_of_several_schedulers(clock: VirtualClock) -> None:
    """A group whose pods name different schedulers is rejected."""
    profiles = [{"schedulerName": "default-scheduler"}, {"schedulerName": "other"}]
    async with world(clock, node("n1", cpu="8"), profiles=profiles, features=GANGS) as here:
        here.create(pod_group("g", 2), pod("a", group="g"), pod("b", group="g", scheduler="other"))
        await here.settle()
        start = "all pods in a single pod group should have the same .spec.schedulerName set, got: "
        assert here.message("a").startswith(start)
        assert here.message("b") == here.message("a")


@virtual_time
async def test_without_the_gates_groups_are_ignored(clock: VirtualClock) -> None:
    """By default the field `schedulingGroup` has no effect, and PodGroups are not watched."""
    pods = gang("g", 3)
    async with world(clock, node("n1", cpu="2")) as here:
        here.create(pod_group("g", 3), *pods)
        await here.settle()
        assert nodes_of(here, pods) == ["n1", "n1"]
        assert condition(here, "g") == Condition()
        assert not len(here.scheduler.cluster.pod_groups)


def test_metrics_of_groups() -> None:
    """The metrics of pod groups are there only with the gate, by upstream's names."""
    metrics = Metrics(process=False, pod_groups=True)
    metrics.group_attempt("waiting_on_preemption", "default-scheduler", 0.5)
    metrics.group_algorithm(0.25)
    text = metrics.render()[0].decode()
    lines = [line for line in text.splitlines() if "podgroup" in line and not line.startswith("#")]
    assert any(
        line.startswith("scheduler_podgroup_schedule_attempts_total{") and line.endswith(" 1.0") for line in lines
    )
    assert "scheduler_podgroup_scheduling_algorithm_duration_seconds_sum 0.25" in lines
    assert any(line.startswith("scheduler_podgroup_scheduling_attempt_duration_seconds_bucket{") for line in lines)
    assert "podgroup" not in Metrics(process=False).render()[0].decode()


# --- topology ---------------------------------------------------------------------------------------------------------

TOPOLOGY = Features(generic_workload=True, gang_scheduling=True, topology_aware_workload_scheduling=True)


def rack(name: str, in_rack: str, cpu: str = "2") -> api.Node:
    """A node in a rack."""
    return node(name, cpu=cpu, labels={"rack": in_rack})


@virtual_time
async def test_a_group_goes_to_one_domain(clock: VirtualClock) -> None:
    """A gang goes to the only rack that has room for all of it, though other racks have emptier nodes."""
    pods = gang("g", 3)
    nodes = [rack("a1", "a", "2"), rack("b1", "b", "2"), rack("b2", "b", "1"), node("none", cpu="8")]
    async with world(clock, *nodes, features=TOPOLOGY) as here:
        here.create(pod_group("g", 3, topology="rack"), *pods)
        await here.settle()
        assert nodes_of(here, pods) == ["b1", "b1", "b2"]


@virtual_time
async def test_a_group_that_fits_into_no_domain(clock: VirtualClock) -> None:
    """Messages count the nodes of the first placement, and the condition counts the placements."""
    pods = gang("g", 3)
    async with world(clock, rack("a1", "a", "2"), rack("b1", "b", "2"), features=TOPOLOGY) as here:
        here.create(pod_group("g", 3, topology="rack"), *pods)
        await here.settle(3)
        assert nodes_of(here, pods) == []
        messages = sorted(here.message(each.name) for each in pods)
        refusal = "preemption: not eligible due to placement-based pod group scheduling limitation"
        assert messages[0].startswith("0/1 nodes are available: 1 Insufficient cpu. ")
        assert messages[0].endswith(refusal)
        first = "first placement status: pod group is unschedulable"
        assert condition(here, "g").message == f"0/2 placements are available, {first}"


@virtual_time
async def test_the_domain_with_more_pods_wins(clock: VirtualClock) -> None:
    """Of several racks with room for the gang, the one that fits more of its pods is chosen."""
    pods = gang("g", 3)
    async with world(clock, rack("a1", "a", "2"), rack("b1", "b", "3"), features=TOPOLOGY) as here:
        here.create(pod_group("g", 2, topology="rack"), *pods)
        await here.settle()
        assert nodes_of(here, pods) == ["b1", "b1", "b1"]


@virtual_time
async def test_the_domain_that_becomes_fuller_wins(clock: VirtualClock) -> None:
    """Of racks that fit all pods, the one with the highest utilisation afterwards is chosen."""
    pods = gang("g", 2)
    async with world(clock, rack("a1", "a", "8"), rack("b1", "b", "2"), features=TOPOLOGY) as here:
        here.create(pod_group("g", 2, topology="rack"), *pods)
        await here.settle()
        assert nodes_of(here, pods) == ["b1", "b1"]


@virtual_time
async def test_later_pods_follow_the_first(clock: VirtualClock) -> None:
    """Later pods go to the domain of those already placed, or nowhere."""
    pods = gang("g", 2)
    async with world(clock, rack("a1", "a", "2"), features=TOPOLOGY) as here:
        here.create(pod_group("g", 2, topology="rack"), *pods)
        await here.settle()
        here.create(rack("b1", "b"), pod("g-2", cpu="1", group="g"))
        await here.settle(3)
        assert here.node_of("g-2") == ""
        here.create(rack("a2", "a"))
        await here.settle(12)
        assert here.node_of("g-2") == "a2"


@virtual_time
async def test_no_node_has_the_label(clock: VirtualClock) -> None:
    """If no node has the topology label, the group is unschedulable."""
    pods = gang("g", 2)
    async with world(clock, node("n1", cpu="4"), features=TOPOLOGY) as here:
        here.create(pod_group("g", 2, topology="rack"), *pods)
        await here.settle()
        assert condition(here, "g").message == "no feasible placements found"
        assert here.message("g-0") == "no feasible placements found"


# --- workload-aware preemption ----------------------------------------------------------------------------------------

PREEMPTING = Features(generic_workload=True, gang_scheduling=True, workload_aware_preemption=True)


@virtual_time
async def test_a_group_preempts_as_a_whole(clock: VirtualClock) -> None:
    """Only as many victims as the gang needs are evicted, the least important first, and the gang gets their nodes."""
    pods = gang("g", 2)
    low = [pod(f"low-{number}", node=f"n{number}", cpu="1", priority=number) for number in (1, 2, 3)]
    nodes = [node(f"n{number}", cpu="1") for number in (1, 2, 3)]
    async with world(clock, *nodes, *low, features=PREEMPTING) as here:
        here.api.deletion_takes = 5
        here.create(pod_group("g", 2, priority=10), *pods)
        await here.settle()
        notes = here.events.of("Preempted")
        assert sorted(notes) == [(f"low-{each}", "Preempted by podgroup group.g on node cluster") for each in (1, 2)]
        marked = here.condition("low-1", "DisruptionTarget")
        assert marked is not None
        assert marked.message == "default-scheduler: preempting to accommodate a higher priority podgroup"
        assert [text for _, text, _ in here.log].count("Pod group is waiting for preemption") == 1
        await here.settle(20)
        assert nodes_of(here, pods) == ["n1", "n2"]
        assert here.node_of("low-3") == "n3"


@virtual_time
async def test_preemption_that_would_not_help_evicts_no_pods(clock: VirtualClock) -> None:
    """A gang evicts nothing if that would not make room, or if its priority is not higher."""
    low = pod("low", node="n1", cpu="1", priority=0)
    async with world(clock, node("n1", cpu="1"), low, features=PREEMPTING) as here:
        here.create(pod_group("big", 2, priority=10), *gang("big", 2), pod_group("equal", 1), *gang("equal", 1))
        await here.settle(20)
        assert here.node_of("low") == "n1"
        assert here.events.of("Preempted") == []
        own = "pod group is unschedulable"
        assert condition(here, "big").message == f"{own}, {own}"
        none = "No preemption victims found for incoming preemptor"
        assert condition(here, "equal").message == f"{own}, {none}"
        refusal = "preemption: not eligible due to workload aware preemption enabled"
        assert here.message("equal-0").endswith(refusal)


@virtual_time
async def test_a_group_that_goes_together(clock: VirtualClock) -> None:
    """A group with the disruption mode PodGroup loses all its pods, though one would be enough."""
    victims = [
        pod(f"v-{number}", node=f"n{number}", cpu="1", group="v", priority=0, uid=f"v{number}") for number in (1, 2)
    ]
    nodes = [node(f"n{number}", cpu="1") for number in (1, 2)]
    groups = [pod_group("v", 2, disrupted_together=True), pod_group("g", 1, priority=5)]
    async with world(clock, *nodes, *groups, *victims, features=PREEMPTING) as here:
        here.create(*gang("g", 1))
        await here.settle(20)
        assert sorted(name for name, _ in here.events.of("Preempted")) == ["v-1", "v-2"]
        assert here.node_of("g-0")


@virtual_time
async def test_budgets_are_spared_first(clock: VirtualClock) -> None:
    """Of two pods of equal priority, the one without a disruption budget is evicted."""
    guarded = pod("guarded", node="n1", cpu="1", priority=0, labels={"app": "a"})
    low = pod("low", node="n2", cpu="1", priority=0)
    nodes = [node("n1", cpu="1"), node("n2", cpu="1")]
    async with world(clock, *nodes, guarded, low, budget("b", {"app": "a"}, allowed=0), features=PREEMPTING) as here:
        here.create(pod_group("g", 1, priority=5), *gang("g", 1))
        await here.settle(20)
        assert [name for name, _ in here.events.of("Preempted")] == ["low"]
        assert here.node_of("g-0") == "n2"
