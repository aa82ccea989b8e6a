"""Resource claims through the whole loop: devices are allocated, written to the claim, and released."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import node, pod
from tests.plugins.dynamic_resources.support import claim, device, device_class, exactly, resource_slice
from tests.scheduler.world import World, world

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.client.faults import ClientCall
from kubesched.client.protocol import ApiError
from kubesched.framework.status import Status
from kubesched.plugins.dynamic_resources import DynamicResources, hints
from kubesched.plugins.dynamic_resources.claims import refers_to


def gpus(node_name: str, count: int, **fields: Any) -> api.ResourceSlice:
    """The devices of a node."""
    return resource_slice(f"{node_name}-gpus", *(device(f"gpu-{n}", **fields) for n in range(count)), node=node_name)


def claim_of(here: World, name: str) -> api.ResourceClaim:
    found = here.api.get(api.ResourceClaim, f"default/{name}")
    assert found is not None
    return found


def devices_of(found: api.ResourceClaim) -> list[tuple[str, str]]:
    allocation = found.status.allocation
    return [] if allocation is None else [(each.pool, each.device) for each in allocation.devices.results]


@virtual_time
async def test_a_claim_is_allocated_and_reserved_for_its_pod(clock: VirtualClock) -> None:
    """The pod goes to the node with its devices; the claim gets the allocation, the reservation and the finalizer."""
    async with world(clock) as here:
        here.create(node("n1"), node("n2"), device_class(), gpus("n2", 2), claim("c", exactly()))
        here.create(pod("p", resource_claims=["c"]))
        await here.settle(1)
        assert here.node_of("p") == "n2"
        found = claim_of(here, "c")
        assert devices_of(found) == [("n2", "gpu-0")]
        assert [each.name for each in found.status.reserved_for] == ["p"]
        assert found.metadata.finalizers == (dra.FINALIZER,)
        assert found.status.allocation is not None
        assert found.status.allocation.allocation_timestamp is not None
        # Two writes to the claim, one binding: nothing waits, so that the node is not announced in the pod's status.
        assert (here.api.calls["merge_patch"], here.api.calls["patch_pod_status"], here.api.calls["bind"]) == (2, 0, 1)


@virtual_time
async def test_pods_wait_for_devices_and_get_those_that_become_free(clock: VirtualClock) -> None:
    """While all devices are in use a pod waits, and a deallocated claim wakes it."""
    async with world(clock) as here:
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), claim("d", exactly()))
        here.create(pod("first", resource_claims=["c"]))
        await here.settle(1)
        here.create(pod("second", resource_claims=["d"]))
        await here.settle(1)
        assert "1 cannot allocate all claims" in here.message("second")
        here.api.delete(here.pod("first"))
        here.api.update(replace(claim_of(here, "c"), status=dra.ResourceClaimStatus()))
        await here.settle(20)
        assert here.node_of("second") == "n1"
        assert devices_of(claim_of(here, "d")) == [("n1", "gpu-0")]


@virtual_time
async def test_a_burst_of_pods_gets_one_device_each(clock: VirtualClock) -> None:
    """Devices of pods whose claims are still being written are not allocated to the next pod."""
    async with world(clock) as here:
        here.create(device_class(), *(node(f"n{n}") for n in range(4)), *(gpus(f"n{n}", 2) for n in range(4)))
        for number in range(8):
            here.create(claim(f"c{number}", exactly()), pod(f"p{number}", resource_claims=[f"c{number}"]))
        await here.settle(30)
        taken = [each for number in range(8) for each in devices_of(claim_of(here, f"c{number}"))]
        assert len(taken) == len(set(taken)) == 8
        assert all(here.node_of(f"p{number}") for number in range(8))


@virtual_time
async def test_pods_share_a_claim(clock: VirtualClock) -> None:
    """A second pod with the same claim uses the same devices and is added to the reservation."""
    async with world(clock) as here:
        here.create(node("n1"), node("n2"), device_class(), gpus("n1", 1), claim("c", exactly()))
        here.create(pod("p", resource_claims=["c"]), pod("q", resource_claims=["c"]))
        await here.settle(30)
        assert here.node_of("p") == here.node_of("q") == "n1"
        assert {each.name for each in claim_of(here, "c").status.reserved_for} == {"p", "q"}


@virtual_time
async def test_pods_that_reserve_a_claim_at_the_same_time(clock: VirtualClock) -> None:
    """Pods that add their reservations at the same time write one after another, so that no write conflicts."""
    async with world(clock) as here:
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), pod("p", resource_claims=["c"]))
        await here.settle(1)
        here.api.delay("merge_patch", 0.1)
        names = [f"q{number}" for number in range(8)]
        here.create(*(pod(name, resource_claims=["c"]) for name in names))
        await here.settle(30)
        assert {each.name for each in claim_of(here, "c").status.reserved_for} == {"p", *names}
        assert {here.attempts(name) for name in names} == {1}
        assert here.api.calls["merge_patch"] == 2 + len(names)
        assert here.api.calls["read"] == 0


@virtual_time
async def test_a_pod_waits_for_its_claim(clock: VirtualClock) -> None:
    """A pod is not tried before its claim exists."""
    async with world(clock) as here:
        here.create(node("n1"), device_class(), gpus("n1", 1), pod("p", resource_claims=["c"]))
        await here.settle(1)
        assert here.attempts("p") == 0
        here.create(claim("c", exactly()))
        await here.settle(1)
        assert here.node_of("p") == "n1"


@virtual_time
async def test_an_extended_resource_is_served_by_devices(clock: VirtualClock) -> None:
    """A device class with an extended resource name provides devices to pods without a claim."""
    async with world(clock) as here:
        here.create(node("n1"), device_class("gpu", extendedResourceName="example.com/gpu"), gpus("n1", 2))
        here.create(pod("p", requests={"example.com/gpu": "2"}))
        await here.settle(5)
        assert here.node_of("p") == "n1"
        (found,) = here.api.objects(api.ResourceClaim)
        assert found.name.startswith("p-extended-resources-")
        assert found.annotations[dra.EXTENDED_RESOURCE_CLAIM] == "true"
        assert devices_of(found) == [("n1", "gpu-0"), ("n1", "gpu-1")]
        assert found.metadata.finalizers == (dra.FINALIZER,)
        assert (here.api.calls["create_object"], here.api.calls["merge_patch"]) == (1, 1)
        here.create(pod("q", requests={"example.com/gpu": "1"}))
        await here.settle(5)
        assert "1 cannot allocate all claims" in here.message("q")


@virtual_time
async def test_a_failed_write_gives_the_devices_back(clock: VirtualClock) -> None:
    """If writing the claim fails, the attempt fails, the devices are released, and the next attempt succeeds."""
    async with world(clock) as here:
        here.api.fail("merge_patch", ApiError(500, "InternalError", "no"), times=1)
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), pod("p", resource_claims=["c"]))
        await here.settle(30)
        assert here.node_of("p") == "n1"
        assert here.attempts("p") == 2
        assert any("add finalizer to claim default/c: no" in each for each in here.log.errors())


def allocates(call: ClientCall) -> bool:
    """Whether a call writes an allocation."""
    return "allocation" in (call.args[2].get("status") or {})


@virtual_time
async def test_devices_stay_taken_after_a_lost_answer(clock: VirtualClock) -> None:
    """A write fails after it took effect, and the watch is late. Meanwhile no other claim gets the same device."""
    async with world(clock) as here:
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), claim("d", exactly()))
        await here.settle(1)
        here.api.fail("merge_patch", lambda: TimeoutError("no answer"), times=1, answer_lost=True, when=allocates)
        here.api.delay("watch_event", 5, when=lambda call: call.args[0] is api.ResourceClaim)
        here.create(pod("p", resource_claims=["c"]))
        await here.settle(0.2)
        here.create(pod("q", resource_claims=["d"]))
        await here.settle(60)
        assert here.node_of("p") == "n1"
        assert claim_of(here, "d").status.allocation is None
        assert any("add allocation and reservation to claim default/c: no answer" in each for each in here.log.errors())


@virtual_time
async def test_a_claim_that_is_gone_gives_its_devices_back(clock: VirtualClock) -> None:
    """A claim is deleted, and the watch does not show that it was deallocated first. Pods that wait for its devices are
    tried again."""
    async with world(clock) as here:
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), claim("d", exactly()))
        here.create(pod("p", resource_claims=["c"]))
        await here.settle(5)
        here.create(pod("q", resource_claims=["d"]))
        await here.settle(5)
        assert (here.node_of("p"), here.node_of("q")) == ("n1", "")
        here.api.delete(claim_of(here, "c"))
        await here.settle(30)
        assert here.node_of("q") == "n1"


def removes(call: ClientCall) -> bool:
    """Whether a call removes the last reservation of a claim."""
    return "reservedFor" in (call.args[2].get("status") or {}) and not call.args[2]["status"]["reservedFor"]


@virtual_time
async def test_a_late_removal_does_not_undo_the_next_reservation(clock: VirtualClock) -> None:
    """A binding fails, and its reservation is removed slowly. The next attempt reserves the claim meanwhile, and hears
    of it only after the removal has been refused and could be tried again.
    """
    async with world(clock) as here:
        here.api.fail("bind", ApiError(500, "InternalError", "no"), times=1)
        here.api.delay("merge_patch", 3, when=removes)
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), pod("p", resource_claims=["c"]))
        await here.settle(0.5)
        here.api.delay("merge_patch", 10, answer=True, when=lambda call: not removes(call))
        await here.settle(60)
        assert here.node_of("p") == "n1"
        assert [each.name for each in claim_of(here, "c").status.reserved_for] == ["p"]


@virtual_time
async def test_a_doubtful_reservation_gets_a_new_version(clock: VirtualClock) -> None:
    """A removal that is under way names the version it knows. An API server keeps it if what is written is the same."""
    async with world(clock) as here:
        here.api.fail("bind", ApiError(500, "InternalError", "no"), times=1)
        here.api.fail("merge_patch", ApiError(500, "InternalError", "no"), when=removes)
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), pod("p", resource_claims=["c"]))
        await here.settle(30)
        assert here.node_of("p") == "n1"
        # Finalizer and reservation; the removal, which fails; the reservation, removed and made anew.
        assert here.api.calls["merge_patch"] == 5
        assert [each.name for each in claim_of(here, "c").status.reserved_for] == ["p"]


def reported(found: api.ResourceClaim, **conditions: str) -> api.ResourceClaim:
    """A claim whose driver reports conditions for its first device."""
    assert found.status.allocation is not None
    (result,) = found.status.allocation.devices.results
    listed = tuple(dra.DeviceCondition(type=name, status=status, reason="R") for name, status in conditions.items())
    status = dra.AllocatedDeviceStatus(result.driver, result.pool, result.device, conditions=listed)
    return replace(found, status=replace(found.status, devices=(status,)))


@virtual_time
async def test_a_pod_is_bound_when_its_device_is_ready(clock: VirtualClock) -> None:
    """A device with binding conditions is prepared first, and the pod is bound once the driver reports it ready."""
    async with world(clock) as here:
        fields = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
        here.create(node("n1"), device_class(), gpus("n1", 1, **fields), claim("c", exactly()))
        here.create(pod("p", resource_claims=["c"]))
        await here.settle(12)
        assert here.node_of("p") == ""
        assert here.events.of("BindingConditionsPending") == [
            ("p", "waiting for binding conditions for device on node n1")
        ]
        assert here.pod("p").nominated_node_name == "n1"
        here.api.update(reported(claim_of(here, "c"), Ready="True"))
        await here.settle(6)
        assert here.node_of("p") == "n1"


@virtual_time
async def test_a_broken_device_is_given_back(clock: VirtualClock) -> None:
    """If a device reports a binding failure, the claim is deallocated and another device is tried."""
    async with world(clock) as here:
        broken = {"bindingConditions": ["Ready"], "bindingFailureConditions": ["Broken"]}
        here.create(node("n1"), device_class(), gpus("n1", 1, **broken), claim("c", exactly()))
        here.create(pod("p", resource_claims=["c"]))
        await here.settle(1)
        here.api.update(reported(claim_of(here, "c"), Broken="True"))
        here.create(node("n2"), gpus("n2", 1))
        await here.settle(60)
        assert here.node_of("p") == "n2"
        assert devices_of(claim_of(here, "c")) == [("n2", "gpu-0")]


def templated(name: str, claim_name: str) -> api.Pod:
    """A pod whose claim comes from a template."""
    made = pod(name)
    reference = api.PodResourceClaim("gpu", resource_claim_template_name="template")
    status = api.PodStatus(resource_claim_statuses=(api.PodResourceClaimStatus("gpu", claim_name),))
    return replace(made, spec=replace(made.spec, resource_claims=(reference,)), status=status)


def made_for(owner: api.Pod, name: str) -> api.ResourceClaim:
    """A claim that a controller generated for a pod."""
    owners = [{"apiVersion": "v1", "kind": "Pod", "name": owner.name, "uid": owner.uid, "controller": True}]
    return claim(name, exactly(), metadata={"ownerReferences": owners})


@virtual_time
async def test_a_generated_claim_wakes_its_pod_and_others_that_name_it(clock: VirtualClock) -> None:
    """A claim generated for one pod wakes that pod and any other pod that references it by name."""
    async with world(clock) as here:
        here.create(node("n1"), device_class(), gpus("n1", 2))
        owner = here.api.create(templated("owner", "generated"))
        here.create(pod("friend", resource_claims=["generated"]))
        await here.settle(1)
        assert here.node_of("owner") == here.node_of("friend") == ""
        here.create(made_for(owner, "generated"))
        await here.settle(30)
        assert here.node_of("owner") == here.node_of("friend") == "n1"
        assert {each.name for each in claim_of(here, "generated").status.reserved_for} == {"owner", "friend"}


@pytest.mark.parametrize("seed", range(6))
def test_failing_writes_never_give_a_device_twice(seed: int) -> None:
    """Whichever writes fail, with or without taking effect, no device is allocated twice, and in the end every pod has
    one.
    """

    @virtual_time
    async def run(clock: VirtualClock) -> None:
        random = Random(seed)
        async with world(clock) as here:
            here.create(device_class(), *(node(f"n{n}") for n in range(3)), *(gpus(f"n{n}", 3) for n in range(3)))
            for number in range(9):
                for call in ("merge_patch", "bind"):
                    if random.random() < 0.4:
                        problem = random.choice((ApiError(500, "InternalError", "no"), TimeoutError("no answer")))
                        here.api.fail(call, problem, answer_lost=random.random() < 0.5)
                here.create(claim(f"c{number}", exactly()), pod(f"p{number}", resource_claims=[f"c{number}"]))
                await here.settle(random.choice((0, 0.01, 2)))
            await here.settle(900)
            taken = [each for number in range(9) for each in devices_of(claim_of(here, f"c{number}"))]
            assert len(taken) == len(set(taken)) == 9
            assert all(here.node_of(f"p{number}") for number in range(9))

    run()


@virtual_time
async def test_nodes_and_devices_cost_nothing_for_pods_without_claims(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pods that PreEnqueue holds back are checked once, and not again when nodes, slices or classes change."""
    checked: list[str] = []
    pre_enqueue = DynamicResources.pre_enqueue

    def counted(self: DynamicResources, waiting: api.Pod) -> Status | None:
        checked.append(waiting.name)
        return pre_enqueue(self, waiting)

    monkeypatch.setattr(DynamicResources, "pre_enqueue", counted)
    async with world(clock) as here:
        for number in range(20):
            here.create(pod(f"p{number}", resource_claims=[f"c{number}"]))
        await here.settle(1)
        here.create(*(node(f"n{number}") for number in range(20)), device_class())
        here.create(*(gpus(f"n{number}", 1) for number in range(20)))
        await here.settle(1)
        assert len(checked) == 20
        here.create(claim("c3", exactly()))
        await here.settle(5)
        assert here.node_of("p3")
        assert set(checked[20:]) == {"p3"}


@virtual_time
async def test_the_log_of_a_claim(clock: VirtualClock) -> None:
    """At verbosity 5, kube-scheduler's messages about claims, with the extension point, the pod and the node."""
    async with world(clock) as here:
        here.create(node("n1"), device_class(), gpus("n1", 1), claim("c", exactly()), claim("d", exactly()))
        here.create(pod("p", resource_claims=["c"]))
        await here.settle(1)
        here.create(pod("q", resource_claims=["d"]))
        await here.settle(1)
        lines = [(message, fields) for level, message, fields in here.log if level == 5]
    told = [message for message, fields in lines if "DynamicResources" in str(fields.get("logger"))]
    assert told[: told.index("reserved") + 1] == [
        "pod resource claims",
        "Preparing allocation with structured parameters",
        "Starting allocation",
        "Gathered pool information",
        "Done with allocation",
        "Reserved resource in allocation result",
        "preparing claim status update",
        "Claim stored in assume cache",
        "Removed claim from in-flight claims",
        "reserved",
    ]
    found = dict(lines)
    assert {"Added in-flight claim", "Assumed object", "Removed in-flight claim"} <= found.keys()
    rejected = found["pod unschedulable"]
    assert (rejected["logger"], rejected["node"]) == ("FilterWithNominatedPods.Filter.DynamicResources", "n1")
    assert rejected["reason"] == "cannot allocate all claims"


@virtual_time
async def test_a_claim_is_checked_for_the_pods_that_mention_it(
    clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A new or changed claim calls the hint for its own pods, not for every waiting pod."""
    asked: list[tuple[str, str]] = []

    def counted(waiting: api.Pod, changed: dra.ResourceClaim) -> bool:
        asked.append((waiting.name, changed.name))
        return refers_to(waiting, changed)

    monkeypatch.setattr(hints, "refers_to", counted)
    async with world(clock, node("n1"), device_class(), gpus("n1", 20)) as here:
        here.log.verbosity = 4
        for number in range(20):
            here.create(pod(f"p{number}", resource_claims=[f"c{number}"]))
        await here.settle(1)
        for number in range(20):
            here.create(claim(f"c{number}", exactly()))
        await here.settle(30)
        assert all(here.node_of(f"p{number}") for number in range(20))
        assert {(waiting[1:], changed[1:]) for waiting, changed in asked} == {(str(n), str(n)) for n in range(20)}
