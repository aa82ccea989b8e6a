"""Claims of pod groups: the pods of a group share devices, and with DRAWorkloadResourceClaims the group has them."""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace
from tests.builders import node, pod, pod_group
from tests.harness import make
from tests.plugins.dynamic_resources.support import claim, device, device_class, exactly, resource_slice
from tests.scheduler.world import World, world

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.workloads import PodGroupResourceClaim, PodGroupResourceClaimStatus, PodGroupStatus
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.plugins.dynamic_resources import DynamicResources

GANGS = Features(generic_workload=True, gang_scheduling=True)
ON = Features(generic_workload=True, gang_scheduling=True, dra_workload_resource_claims=True)
GROUP = ("scheduling.k8s.io", "podgroups", "g", "group.g")


def gpus(node_name: str, count: int) -> api.ResourceSlice:
    """A node's devices."""
    return resource_slice(f"{node_name}-gpus", *(device(f"gpu-{n}") for n in range(count)), node=node_name)


def member(name: str, *claims: str, **fields: Any) -> api.Pod:
    """A pod of the group g."""
    return pod(name, group="g", resource_claims=claims, **fields)


def group(count: int, *claims: str) -> api.PodGroup:
    """The group g, with claims by name."""
    made = pod_group("g", count)
    references = tuple(PodGroupResourceClaim(name, name) for name in claims)
    return replace(made, spec=replace(made.spec, resource_claims=references))


def claim_of(here: World, name: str) -> api.ResourceClaim:
    found = here.api.get(api.ResourceClaim, f"default/{name}")
    assert found is not None
    return found


def users(here: World, name: str) -> list[tuple[str, str, str, str]]:
    """For whom a claim is reserved."""
    return sorted((u.api_group, u.resource, u.name, u.uid) for u in claim_of(here, name).status.reserved_for)


@virtual_time
async def test_the_claim_of_a_group_is_reserved_for_the_group(clock: VirtualClock) -> None:
    """All pods go where the group's device is; the claim is reserved once, for the group."""
    async with world(clock, node("n1"), node("n2"), features=ON) as here:
        here.create(device_class(), gpus("n2", 1), claim("c", exactly()), group(3, "c"))
        here.create(*(member(f"p{n}", "c") for n in range(3)))
        await here.settle(30)
        assert {here.node_of(f"p{n}") for n in range(3)} == {"n2"}
        assert users(here, "c") == [GROUP]
        here.create(member("late", "c"))
        await here.settle(30)
        assert here.node_of("late") == "n2"
        assert users(here, "c") == [GROUP]


@virtual_time
async def test_without_the_gate_a_shared_claim_is_reserved_for_each_pod(clock: VirtualClock) -> None:
    """The pods of a gang share a claim that is allocated in their cycle; each pod has a reservation of its own."""
    async with world(clock, node("n1"), node("n2"), features=GANGS) as here:
        here.create(device_class(), gpus("n1", 1), claim("c", exactly()), group(2, "c"))
        here.create(member("p", "c"), member("q", "c"))
        await here.settle(30)
        assert here.node_of("p") == here.node_of("q") == "n1"
        assert [(resource, name) for _, resource, name, _ in users(here, "c")] == [("pods", "p"), ("pods", "q")]


@virtual_time
async def test_the_pods_of_a_gang_get_different_devices(clock: VirtualClock) -> None:
    """Each claim of its own gets a device of its own, although all pods are placed twice: for trial and for good."""
    async with world(clock, node("n1"), features=ON) as here:
        here.create(device_class(), gpus("n1", 3), group(3))
        for number in range(3):
            here.create(claim(f"c{number}", exactly()), member(f"p{number}", f"c{number}"))
        await here.settle(30)
        allocations = [claim_of(here, f"c{number}").status.allocation for number in range(3)]
        taken = [each.devices.results[0].device for each in allocations if each is not None]
        assert sorted(taken) == ["gpu-0", "gpu-1", "gpu-2"]


@virtual_time
async def test_a_claim_may_be_made_for_the_group(clock: VirtualClock) -> None:
    """A claim that was made from the group's template is used by the pods; one of another group is not."""
    owner = {"apiVersion": "scheduling.k8s.io/v1alpha2", "kind": "PodGroup", "controller": True}
    mine = claim("made", exactly(), metadata={"ownerReferences": [{**owner, "name": "g", "uid": "group.g"}]})
    other = claim("other", exactly(), metadata={"ownerReferences": [{**owner, "name": "h", "uid": "group.h"}]})
    reference = api.PodResourceClaim("gpu", resource_claim_template_name="t")

    def templated(name: str, claim_name: str) -> api.Pod:
        made = member(name)
        status = replace(made.status, resource_claim_statuses=(api.PodResourceClaimStatus("gpu", claim_name),))
        return replace(made, spec=replace(made.spec, resource_claims=(reference,)), status=status)

    made = pod_group("g", 1)
    spec = replace(made.spec, resource_claims=(PodGroupResourceClaim("gpu", None, "t"),))
    status = PodGroupStatus(resource_claim_statuses=(PodGroupResourceClaimStatus("gpu", "made"),))
    async with world(clock, node("n1"), features=ON) as here:
        here.create(device_class(), gpus("n1", 2), mine, other, replace(made, spec=spec, status=status))
        here.create(templated("p", "made"), templated("q", "other"))
        await here.settle(30)
        assert here.node_of("p") == "n1"
        assert users(here, "made") == [GROUP]
        assert not here.node_of("q")
        verdict = make(DynamicResources, here.scheduler.cluster).pre_enqueue(templated("q", "other"))
        assert verdict is not None
        owners = "(neither Pod nor PodGroup g is the owner)"
        assert verdict.reasons == (f"ResourceClaim default/other was not created for Pod default/q {owners}",)


@virtual_time
async def test_a_group_that_cannot_be_placed_gives_up_its_claim(clock: VirtualClock) -> None:
    """An allocation from an earlier cycle is released, while no pod of the group runs."""
    result = dra.DeviceRequestAllocationResult(request="r", driver="gpu.example.com", pool="n1", device="gpu-0")
    allocation = dra.AllocationResult(devices=dra.DeviceAllocationResult(results=(result,)))
    reserved = (dra.ResourceClaimConsumerReference(*GROUP),)
    held = replace(claim("c", exactly()), status=dra.ResourceClaimStatus(allocation=allocation, reserved_for=reserved))
    async with world(clock, node("n1", cpu="1"), features=ON) as here:
        here.create(device_class(), gpus("n1", 1), held, group(2, "c"))
        here.create(member("p", "c", cpu="1"), member("q", "c", cpu="1"))
        await here.settle(5)
        assert not here.node_of("p")
        assert users(here, "c") == []
