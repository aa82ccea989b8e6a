"""Devices that stand for a node's own resources: counted like requests, with the gate DRANodeAllocatableResources."""

from __future__ import annotations

from dataclasses import replace as with_fields
from typing import Any

import msgspec
from tests.builders import node, pod, pod_group
from tests.plugins.dynamic_resources.support import claim, device, device_class, exactly, resource_slice
from tests.scheduler.world import world

from kubesched.api import objects as api
from kubesched.api.workloads import PodGroupResourceClaim
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import DEFAULT_FEATURES

ON = with_fields(DEFAULT_FEATURES, dra_node_allocatable_resources=True)


def sockets(count: int, cpus: str = "4") -> api.ResourceSlice:
    """Devices of some CPUs each, on the node n."""
    mapping = {"nodeAllocatableResourceMappings": {"cpu": {"allocationMultiplier": cpus}}}
    return resource_slice("s", *(device(f"d{n}", **mapping) for n in range(count)), node="n")


def user(name: str, claim_name: str, *, refers: bool = True, **requests: str) -> api.Pod:
    """A pod whose container uses a claim."""
    made = pod(name, requests=requests, resource_claims=[claim_name])
    container = made.spec.containers[0]
    if refers:
        uses = msgspec.structs.replace(container.resources, claims=(api.ContainerClaim(claim_name),))
        container = msgspec.structs.replace(container, resources=uses)
    spec = msgspec.structs.replace(made.spec, containers=(container,))
    return msgspec.structs.replace(made, spec=spec)


@virtual_time
async def test_what_devices_stand_for_is_counted_and_recorded(clock: VirtualClock) -> None:
    """Two pods of 1 CPU and a socket of 4 do not fit on 8 CPUs; the first one's status says what its claim takes."""
    async with world(clock, features=ON) as here:
        here.create(
            node("n", cpu="8", memory="16Gi"), device_class(), sockets(3), claim("c", exactly()), claim("d", exactly())
        )
        here.create(user("p", "c", cpu="1"))
        await here.settle(1)
        assert here.node_of("p") == "n"
        (status,) = here.pod("p").status.node_allocatable_resource_claim_statuses
        assert status == api.NodeAllocatableResourceClaimStatus("c", ("main",), {"cpu": "4"})
        here.create(user("q", "d", cpu="1"), pod("plain", requests={"cpu": "4"}))
        await here.settle(1)
        assert "1 Insufficient cpu" in here.message("q")
        assert "1 Insufficient cpu" in here.message("plain")
        here.create(pod("fits", requests={"cpu": "3"}))
        await here.settle(1)
        assert here.node_of("fits") == "n"


@virtual_time
async def test_without_the_gate_nothing_is_counted(clock: VirtualClock) -> None:
    """The mappings of devices are ignored, and pods have no such status."""
    async with world(clock) as here:
        here.create(
            node("n", cpu="8", memory="16Gi"), device_class(), sockets(2), claim("c", exactly()), claim("d", exactly())
        )
        here.create(user("p", "c", cpu="4"), user("q", "d", cpu="4"))
        await here.settle(2)
        assert here.node_of("p") == here.node_of("q") == "n"
        assert not here.pod("p").status.node_allocatable_resource_claim_statuses


@virtual_time
async def test_consumed_capacity_is_what_counts(clock: VirtualClock) -> None:
    """A mapping with a capacity key multiplies what a claim has taken of a shared device."""
    mapping = {"memory": {"capacityKey": "memory", "allocationMultiplier": "2"}}
    fields: dict[str, Any] = {"capacity": {"memory": {"value": "8Gi"}}, "allowMultipleAllocations": True}
    shared = resource_slice("s", device("d", nodeAllocatableResourceMappings=mapping, **fields), node="n")
    wants = exactly("r", 1, capacity={"requests": {"memory": "3Gi"}})
    async with world(clock, features=ON) as here:
        here.create(node("n", cpu="8", memory="16Gi"), device_class(), shared, claim("c", wants))
        here.create(user("p", "c"))
        await here.settle(1)
        (status,) = here.pod("p").status.node_allocatable_resource_claim_statuses
        assert status.resources == {"memory": "6Gi"}


@virtual_time
async def test_a_capacity_key_needs_a_shared_device(clock: VirtualClock) -> None:
    """A device that nothing is consumed of has an error in its mapping; the error names claim and device."""
    mapping = {"memory": {"capacityKey": "memory"}}
    whole = resource_slice("s", device("d", nodeAllocatableResourceMappings=mapping), node="n")
    async with world(clock, features=ON) as here:
        here.create(node("n", cpu="8", memory="16Gi"), device_class(), whole, claim("c", exactly()), user("p", "c"))
        await here.settle(1)
        assert "claim default/c, device d: ConsumedCapacity is nil" in here.message("p")


@virtual_time
async def test_a_container_must_use_the_claim(clock: VirtualClock) -> None:
    """A claim that takes the node's resources is rejected unless a container refers to it."""
    async with world(clock, features=ON) as here:
        here.create(node("n", cpu="8", memory="16Gi"), device_class(), sockets(1), claim("c", exactly()))
        here.create(user("p", "c", refers=False))
        await here.settle(1)
        reason = "claim c: node-allocatable resource claim not referenced by any container within the pod"
        assert reason in here.message("p")


@virtual_time
async def test_such_a_claim_is_for_one_pod_of_a_node(clock: VirtualClock) -> None:
    """A second pod with the claim is turned away from the node of the first."""
    async with world(clock, features=ON) as here:
        here.create(
            node("n", cpu="8", memory="16Gi"), device_class(), sockets(1), claim("c", exactly()), user("p", "c")
        )
        await here.settle(1)
        here.create(user("q", "c"))
        await here.settle(1)
        assert "node allocatable resource claim c is already used by another pod" in here.message("q")


@virtual_time
async def test_pod_level_requests_must_cover_devices(clock: VirtualClock) -> None:
    """A pod that requests 2 CPUs as a whole cannot have a socket of 4."""
    async with world(clock, features=ON) as here:
        here.create(node("n", cpu="8", memory="16Gi"), device_class(), sockets(1), claim("c", exactly()))
        made = user("p", "c")
        whole = api.ResourceRequirements(requests={"cpu": "2"})
        here.create(msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, resources=whole)))
        await here.settle(1)
        assert "pod level request for cpu is insufficient to cover" in here.message("p")


@virtual_time
async def test_the_claim_of_a_group_is_for_one_pod_of_a_node_too(clock: VirtualClock) -> None:
    """A claim that is reserved for a pod group counts as used by the pods of the group."""
    both = with_fields(ON, generic_workload=True, gang_scheduling=True, dra_workload_resource_claims=True)
    group = pod_group("g", 1)
    spec = msgspec.structs.replace(group.spec, resource_claims=(PodGroupResourceClaim("c", "c"),))
    scheduling_group = pod("x", group="g").spec.scheduling_group

    def member(name: str) -> api.Pod:
        made = user(name, "c")
        return msgspec.structs.replace(made, spec=msgspec.structs.replace(made.spec, scheduling_group=scheduling_group))

    async with world(clock, features=both) as here:
        here.create(node("n", cpu="8"), device_class(), sockets(1), claim("c", exactly()))
        here.create(msgspec.structs.replace(group, spec=spec), member("p"))
        await here.settle(5)
        assert here.node_of("p") == "n"
        here.create(member("q"))
        await here.settle(5)
        assert "node allocatable resource claim c is already used by another pod" in here.message("q")
