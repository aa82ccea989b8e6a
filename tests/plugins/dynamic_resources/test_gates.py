"""Feature gates of devices, set to other values than their defaults."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.builders import node, pod
from tests.harness import default_engine, filtered, make, schedule
from tests.plugins.dynamic_resources.support import (
    Allocator,
    claim,
    device,
    device_class,
    distinct,
    exactly,
    first_of,
    resource_slice,
)

from kubesched.api import objects as api
from kubesched.base.features import DEFAULT_FEATURES
from kubesched.cluster.state import ClusterState
from kubesched.plugins.dynamic_resources import DynamicResources
from kubesched.plugins.dynamic_resources.requests import AllocationError

N = node("n")
ONE = claim("c", exactly())


def allocator(gate: str, *objects: api.Object) -> Allocator:
    """An allocator with one gate off."""
    return Allocator.of(N, *objects, features=replace(DEFAULT_FEATURES, **{gate: False}))


def test_without_consumable_capacity_devices_are_not_shared() -> None:
    """With dra_consumable_capacity off, a device that allows sharing goes to one claim, and capacity is an error."""
    shared = device("d", capacity={"memory": {"value": "8Gi"}}, allowMultipleAllocations=True)
    here = allocator("dra_consumable_capacity", resource_slice("s", shared, node="n"))
    assert here.devices("n", ONE, claim("e", exactly())) is None
    wanted = exactly("r", 1, capacity={"requests": {"memory": "1Gi"}})
    with pytest.raises(
        AllocationError, match="request r: has capacity requests, but the DRAConsumableCapacity feature"
    ):
        here.devices("n", claim("c", wanted))
    with pytest.raises(AllocationError, match="subrequest r: has capacity requests, but the DRAConsumableCapacity"):
        here.devices("n", claim("c", first_of("list", wanted)))


def test_upstreams_oldest_allocator_ignores_what_it_does_not_know() -> None:
    """With dra_consumable_capacity and binding conditions off, capacities do not count and distinct is an error."""
    off = replace(DEFAULT_FEATURES, dra_consumable_capacity=False, dra_device_binding_conditions=False)
    here = Allocator.of(N, resource_slice("s", device("d"), node="n"), features=off)
    assert here.devices("n", claim("c", exactly("r", 1, capacity={"requests": {"memory": "1Gi"}}))) == [["d"]]
    with pytest.raises(AllocationError, match="constraint #0: empty constraint"):
        here.devices("n", claim("c", exactly(), constraints=[distinct("model")]))


@pytest.mark.parametrize("gate", ["dra_device_binding_conditions", "dra_resource_claim_device_status"])
def test_without_binding_conditions_their_devices_are_not_used(gate: str) -> None:
    """Devices that have to be prepared need both gates."""
    slices = resource_slice("s", device("waits", bindingConditions=["Ready"]), device("plain"), node="n")
    assert allocator(gate, slices).devices("n", ONE) == [["plain"]]


def test_without_taints_devices_are_not_kept_away() -> None:
    """With dra_device_taints off, taints are ignored."""
    tainted = device("d", taints=[{"key": "bad", "effect": "NoSchedule"}])
    assert allocator("dra_device_taints", resource_slice("s", tainted, node="n")).devices("n", ONE) == [["d"]]


def test_without_partitions_devices_with_counters_are_not_used() -> None:
    """With dra_partitionable_devices off, slices with counters and devices that consume them are passed over."""
    consumes = [{"counterSet": "set", "counters": {"units": {"value": "1"}}}]
    parts = resource_slice("s", device("part", consumesCounters=consumes), device("plain"), node="n")
    assert allocator("dra_partitionable_devices", parts).devices("n", ONE) == [["plain"]]


def test_without_prioritized_lists_alternatives_are_refused() -> None:
    """With dra_prioritized_list off, a pod with alternatives stays pending."""
    made = ClusterState(replace(DEFAULT_FEATURES, dra_prioritized_list=False))
    for obj in (N, device_class(), claim("c", first_of("r", exactly("a")))):
        made.set(obj)
    found = filtered(make(DynamicResources, made), made, pod("p", resource_claims=["c"]))
    reason = "resource claim default/c, request r: has subrequests, but the DRAPrioritizedList feature is disabled"
    assert found == {"n": ("UnschedulableAndUnresolvable", reason)}


def test_without_extended_resources_classes_serve_claims_only() -> None:
    """With dra_extended_resource off, a class does not stand behind an extended resource."""
    made = ClusterState(replace(DEFAULT_FEATURES, dra_extended_resource=False))
    for obj in (N, device_class("gpu", extendedResourceName="a.b/gpu"), resource_slice("s", device("d"), node="n")):
        made.set(obj)
    decision = schedule(default_engine(made), pod("p", requests={"a.b/gpu": "1"}))
    assert "1 Insufficient a.b/gpu" in decision.message
