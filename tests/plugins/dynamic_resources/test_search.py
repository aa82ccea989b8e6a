"""Which devices claims get, and that it is what trying everything in order finds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.dynamic_resources.support import (
    Allocator,
    claim,
    device,
    device_class,
    distinct,
    every,
    exactly,
    first_of,
    matching,
    resource_slice,
)

from kubesched.api import builders
from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.base.features import DEFAULT_FEATURES
from kubesched.plugins.dynamic_resources import search
from kubesched.plugins.dynamic_resources.requests import AllocationError

N = builders.node("n")


def gpus(*models: str, **fields: Any) -> list[dict[str, Any]]:
    return [device(f"gpu-{index}", attributes={"model": model}, **fields) for index, model in enumerate(models)]


def test_devices_are_taken_in_order() -> None:
    """The first devices that match are taken."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a", "b", "a", "a"), node="n"))
    of_model_a = 'device.attributes["gpu.example.com"].model == "a"'
    assert allocator.devices("n", claim("c", exactly("r", 2, of_model_a))) == [["gpu-0", "gpu-2"]]


def test_claims_of_one_pod_do_not_share_devices() -> None:
    """What one claim gets, the next one does not."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a", "a", "a"), node="n"))
    assert allocator.devices("n", claim("c", exactly()), claim("d", exactly("r", 2))) == [["gpu-0"], ["gpu-1", "gpu-2"]]
    assert allocator.devices("n", claim("c", exactly("r", 2)), claim("d", exactly("r", 2))) is None


def test_a_request_steps_back_for_another() -> None:
    """A device that a later request needs is left to it."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a", "b"), node="n"))
    only_a = 'device.attributes["gpu.example.com"].model == "a"'
    assert allocator.devices("n", claim("c", exactly("any"), exactly("a", 1, only_a))) == [["gpu-1", "gpu-0"]]


def test_all_devices_means_all_that_match() -> None:
    """A request for all devices gets every one that is selected, or none at all."""
    slices = resource_slice("s", *gpus("a", "b", "a"), node="n")
    only_a = 'device.attributes["gpu.example.com"].model == "a"'
    assert Allocator.of(N, slices).devices("n", claim("c", every("r", only_a))) == [["gpu-0", "gpu-2"]]
    taken = claim("t", exactly(), status={"allocation": {"devices": {"results": [_result("gpu-2")]}}})
    assert Allocator.of(N, slices, taken).devices("n", claim("c", every("r", only_a))) is None


def _result(name: str, **fields: Any) -> dict[str, Any]:
    return {"request": "r", "driver": "gpu.example.com", "pool": "n", "device": name, **fields}


def test_the_first_alternative_that_can_be_had_is_taken() -> None:
    """Alternatives are tried in order."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a", "b"), node="n"))
    wanted = first_of("r", exactly("three", 3), exactly("two", 2), exactly("one", 1))
    results = allocator.allocate("n", claim("c", wanted))
    assert results is not None
    assert [each.request for each in results[0].devices.results] == ["r/two", "r/two"]


def test_a_shared_attribute_is_shared() -> None:
    """With a match constraint all devices have one value."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a", "b", "b"), node="n"))
    wanted = claim("c", exactly("r", 2), constraints=[matching("model")])
    assert allocator.devices("n", wanted) == [["gpu-1", "gpu-2"]]


def test_a_distinct_attribute_differs_between_requests() -> None:
    """With a distinct constraint devices of two requests differ."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a", "a", "b"), node="n"))
    wanted = claim("c", exactly("x"), exactly("y"), constraints=[distinct("model")])
    assert allocator.devices("n", wanted) == [["gpu-0", "gpu-2"]]


def test_lists_of_values_match_in_one_value() -> None:
    """With list-type attributes, devices match if they have a value in common."""
    features = replace(DEFAULT_FEATURES, dra_list_type_attributes=True)
    devices = [
        device("gpu-0", attributes={"zones": ["a", "b"]}),
        device("gpu-1", attributes={"zones": ["c"]}),
        device("gpu-2", attributes={"zones": ["b", "c"]}),
    ]
    allocator = Allocator.of(N, resource_slice("s", *devices, node="n"), features=features)
    wanted = claim("c", exactly("r", 2), constraints=[matching("zones")])
    assert allocator.devices("n", wanted) == [["gpu-0", "gpu-2"]]
    apart = claim("c", exactly("x"), exactly("y"), constraints=[distinct("zones")])
    assert allocator.devices("n", apart) == [["gpu-0", "gpu-1"]]


def test_all_devices_against_a_constraint_is_an_error() -> None:
    """A claim for all devices that a constraint forbids can never be allocated: that fails the attempt."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a", "b"), node="n"))
    with pytest.raises(AllocationError, match="because a claim constraint would not be satisfied"):
        allocator.devices("n", claim("c", every(), constraints=[matching("model")]))


def test_more_devices_than_a_claim_may_have_is_an_error() -> None:
    """A claim has room for 32 devices."""
    allocator = Allocator.of(N, resource_slice("s", *gpus("a"), node="n"))
    with pytest.raises(AllocationError, match="number of requested devices 33 exceeds the claim limit of 32"):
        allocator.devices("n", claim("c", exactly("r", 33)))


def test_admin_access_uses_devices_of_others() -> None:
    """With admin access a device may be in use; afterwards it still belongs to its claim."""
    taken = claim("t", exactly(), status={"allocation": {"devices": {"results": [_result("gpu-0")]}}})
    allocator = Allocator.of(N, resource_slice("s", *gpus("a"), node="n"), taken)
    assert allocator.devices("n", claim("c", exactly())) is None
    results = allocator.allocate("n", claim("c", exactly("r", 1, adminAccess=True)))
    assert results is not None
    assert results[0].devices.results[0].admin_access is True


def test_taints_need_tolerations() -> None:
    """A tainted device is taken only by a request that tolerates the taint."""
    tainted = gpus("a", taints=[{"key": "bad", "effect": "NoSchedule"}])
    allocator = Allocator.of(N, resource_slice("s", *tainted, node="n"))
    tolerations = [{"key": "bad", "operator": "Exists"}]
    assert allocator.devices("n", claim("c", exactly())) is None
    assert allocator.devices("n", claim("c", exactly("r", 1, tolerations=tolerations))) == [["gpu-0"]]


def test_rules_taint_devices() -> None:
    """With the gate on, a DeviceTaintRule taints the devices that it selects."""
    rule = api.decode_as(
        api.DeviceTaintRule,
        {"metadata": {"name": "r"}, "spec": {"deviceSelector": {"device": "gpu-0"}, "taint": {"effect": "NoExecute"}}},
    )
    slices = resource_slice("s", *gpus("a", "a"), node="n")
    features = replace(DEFAULT_FEATURES, dra_device_taint_rules=True)
    assert Allocator.of(N, slices, rule, features=features).devices("n", claim("c", exactly())) == [["gpu-1"]]
    assert Allocator.of(N, slices, rule).devices("n", claim("c", exactly())) == [["gpu-0"]]


def partitions(*sizes: int) -> list[dict[str, Any]]:
    return [
        device(
            f"part-{index}", consumesCounters=[{"counterSet": "gpu", "counters": {"memory": {"value": f"{size}Gi"}}}]
        )
        for index, size in enumerate(sizes)
    ]


def counters(memory: str) -> dict[str, Any]:
    return {"sharedCounters": [{"name": "gpu", "counters": {"memory": {"value": memory}}}]}


def test_partitions_share_counters() -> None:
    """Devices that consume the same counters are given out only while enough is left of them."""
    allocator = Allocator.of(
        N,
        resource_slice("counters", pool="n", count=2, **counters("8Gi")),
        resource_slice("devices", *partitions(4, 4, 8), node="n", count=2),
    )
    assert allocator.devices("n", claim("c", exactly("r", 2))) == [["part-0", "part-1"]]
    assert allocator.devices("n", claim("c", exactly("r", 3))) is None


def test_shared_devices_give_out_capacity() -> None:
    """A device that allows it serves several claims until its capacity is used up."""
    shared = device("gpu-0", capacity={"memory": {"value": "8Gi"}}, allowMultipleAllocations=True)
    allocator = Allocator.of(N, resource_slice("s", shared, node="n"))
    part = exactly("r", 1, capacity={"requests": {"memory": "3Gi"}})
    results = allocator.allocate("n", claim("c", part), claim("d", part)) or ()
    assert [each.devices.results[0].consumed_capacity for each in results] == [{"memory": "3Gi"}] * 2
    assert {each.devices.results[0].share_id for each in results} == {"share-0", "share-1"}
    assert allocator.devices("n", *(claim(name, part) for name in "cde")) is None


def test_hopeless_combinations_are_not_all_tried() -> None:
    """Ten of thirty different partitions that need more than there is: found out in steps, not in millions of them."""

    def partition(number: int) -> dict[str, Any]:
        consumes = [{"counterSet": "gpu", "counters": {"memory": {"value": "3Gi"}}}]
        return device(f"part-{number}", attributes={"number": number}, consumesCounters=consumes)

    allocator = Allocator.of(
        N,
        resource_slice("counters", pool="n", count=2, **counters("29Gi")),
        resource_slice("devices", *map(partition, range(30)), node="n", count=2),
    )
    assert allocator.devices("n", claim("c", exactly("r", 10))) is None
    assert allocator.devices("n", claim("c", exactly("r", 9))) is not None


# --- against trying everything ----------------------------------------------------------------------------------------

MODELS = ("a", "b")
SELECTORS = {"": "true", "a": 'device.attributes["gpu.example.com"].model == "a"'}


@st.composite
def pools(draw: st.DrawFn) -> list[api.Object]:
    """One or two pools on the node, with plain, tainted, partitioned and shared devices."""
    objects: list[api.Object] = [N, device_class()]
    for pool in range(draw(st.integers(1, 2))):
        devices = []
        for index in range(draw(st.integers(1, 3))):
            fields: dict[str, Any] = {"attributes": {"model": draw(st.sampled_from(MODELS))}}
            kind = draw(st.sampled_from(("plain", "plain", "tainted", "partition", "shared")))
            if kind == "tainted":
                fields["taints"] = [{"key": "bad", "effect": "NoSchedule"}]
            if kind == "partition":
                amount = {"value": str(draw(st.integers(1, 3)))}
                fields["consumesCounters"] = [{"counterSet": "set", "counters": {"units": amount}}]
            if kind == "shared":
                fields |= {"allowMultipleAllocations": True, "capacity": {"units": {"value": "4"}}}
            devices.append(device(f"d{index}", **fields))
        name = f"pool-{pool}"
        available = {"value": str(draw(st.integers(1, 4)))}
        sets = [{"name": "set", "counters": {"units": available}}]
        objects.append(resource_slice(f"{name}-counters", pool=name, count=2, sharedCounters=sets))
        objects.append(resource_slice(f"{name}-devices", *devices, pool=name, node="n", count=2))
    return objects


@st.composite
def claims(draw: st.DrawFn) -> list[api.ResourceClaim]:
    """Up to two claims of up to two requests; constraints that hold for several devices of one request."""
    made = []
    for number in range(draw(st.integers(1, 2))):
        single = draw(st.booleans())
        requests = [draw(one_request(f"r{index}", single)) for index in range(draw(st.integers(1, 2)))]
        kind = draw(st.sampled_from(("none", "match", "distinct" if single else "match")))
        constraint = {"match": [matching("model")], "distinct": [distinct("model")], "none": []}[kind]
        made.append(claim(f"c{number}", *requests, constraints=constraint))
    return made


@st.composite
def one_request(draw: st.DrawFn, name: str, single: bool) -> dict[str, Any]:
    """A request, for one device only if a distinct constraint may come."""

    def alternative(sub: str) -> dict[str, Any]:
        fields: dict[str, Any] = {}
        if draw(st.booleans()):
            fields["tolerations"] = [{"operator": "Exists"}]
        if draw(st.integers(0, 3)) == 0:
            fields["capacity"] = {"requests": {"units": str(draw(st.integers(1, 3)))}}
        count = 1 if single else draw(st.integers(1, 2))
        return exactly(sub, count, SELECTORS[draw(st.sampled_from(sorted(SELECTORS)))], **fields)

    return first_of(name, alternative("x"), alternative("y")) if draw(st.booleans()) else alternative(name)


Placed = tuple[int, str, dra.ExactDeviceRequest | dra.DeviceSubRequest, int]
"""A claim, the name of a request, what it asks for, and the number of a device."""


class Everything:
    """Tries every choice of devices, in order, and checks complete choices only."""

    def __init__(self, objects: Sequence[api.Object], wanted: Sequence[api.ResourceClaim]) -> None:
        slices = [each for each in objects if isinstance(each, api.ResourceSlice)]
        self.wanted = wanted
        self.devices = [(each.spec.pool.name, one) for each in slices for one in each.spec.devices]
        self.available = {
            each.spec.pool.name: nanos(each.spec.shared_counters[0].counters["units"].value)
            for each in slices
            if each.spec.shared_counters
        }

    def first(self) -> list[Placed] | None:
        return next((choice for choice in self._choices(0, 0) if self._is_valid(choice)), None)

    def _choices(self, number: int, request: int) -> Iterator[list[Placed]]:
        if number == len(self.wanted):
            yield []
            return
        requests = self.wanted[number].spec.devices.requests
        if request == len(requests):
            yield from self._choices(number + 1, 0)
            return
        spec = requests[request]
        for ask in spec.first_available or (spec.exactly,):
            assert ask is not None
            name = f"{spec.name}/{ask.name}" if isinstance(ask, dra.DeviceSubRequest) else spec.name
            fitting = [index for index in range(len(self.devices)) if self._suits(ask, index)]
            for some in combinations(fitting, ask.count):
                for rest in self._choices(number, request + 1):
                    yield [(number, name, ask, index) for index in some] + rest

    def _suits(self, ask: dra.ExactDeviceRequest | dra.DeviceSubRequest, index: int) -> bool:
        one = self.devices[index][1]
        assert ask.selectors[0].cel is not None
        if ask.selectors[0].cel.expression != "true" and one.attributes["model"].string != "a":
            return False
        return not one.taints or bool(ask.tolerations)

    def _is_valid(self, choice: list[Placed]) -> bool:
        alone = [index for _, _, _, index in choice if not self.devices[index][1].allow_multiple_allocations]
        return len(alone) == len(set(alone)) and all(
            (self._counters_last(choice), self._capacity_lasts(choice), self._constraints_hold(choice))
        )

    def _counters_last(self, choice: list[Placed]) -> bool:
        left = dict(self.available)
        for _, _, _, index in choice:
            pool, one = self.devices[index]
            for consumed in one.consumes_counters:
                left[pool] -= nanos(consumed.counters["units"].value)
        return all(amount >= 0 for amount in left.values())

    def _capacity_lasts(self, choice: list[Placed]) -> bool:
        used = dict.fromkeys(range(len(self.devices)), 0)
        for _, _, ask, index in choice:
            asked = nanos(ask.capacity.requests["units"]) if ask.capacity is not None else None
            one = self.devices[index][1]
            if "units" not in one.capacity:
                if asked is not None:
                    return False
                continue
            used[index] += nanos(one.capacity["units"].value) if asked is None else asked
        return all(amount <= nanos("4") for amount in used.values())

    def _constraints_hold(self, choice: list[Placed]) -> bool:
        for number, wanted in enumerate(self.wanted):
            values = [self.devices[index][1].attributes["model"] for claim, _, _, index in choice if claim == number]
            for constraint in wanted.spec.devices.constraints:
                different = len({value.string for value in values})
                if constraint.match_attribute is not None and different > 1:
                    return False
                if constraint.distinct_attribute is not None and different < len(values):
                    return False
        return True


@pytest.mark.parametrize("remember_after", [0, search.REMEMBER_AFTER])
@settings(max_examples=200, deadline=None)
@given(objects=pools(), wanted=claims())
def test_the_result_is_the_first_one_of_all(
    remember_after: int, objects: list[api.Object], wanted: list[api.ResourceClaim]
) -> None:
    """The search finds a solution exactly if there is one, and it is the first that trying everything finds; whether
    failures are remembered or not."""
    everything = Everything(objects, wanted)
    expected = everything.first()
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "REMEMBER_AFTER", remember_after)
        found = Allocator.of(*objects).allocate("n", *wanted)
    if expected is None:
        assert found is None
        return
    assert found is not None
    names = [
        (number, each.request, each.pool, each.device)
        for number, result in enumerate(found)
        for each in result.devices.results
    ]
    assert names == [
        (number, name, everything.devices[index][0], everything.devices[index][1].name)
        for number, name, _, index in expected
    ]


@settings(max_examples=100, deadline=None)
@given(pools(), st.lists(claims(), min_size=1, max_size=4))
def test_nothing_is_given_out_twice(objects: list[api.Object], pods: list[list[api.ResourceClaim]]) -> None:
    """However many pods come, no device has two owners, and no counter or capacity is overdrawn."""
    allocator = Allocator.of(*objects)
    slices = {
        each.spec.pool.name: each for each in objects if isinstance(each, api.ResourceSlice) and each.spec.devices
    }
    owners: list[tuple[str, str]] = []
    consumed: dict[tuple[str, str], int] = {}
    for number, wanted in enumerate(pods):
        for index, result in enumerate(allocator.allocate("n", *wanted) or ()):
            allocator.ledger.add_pending(f"{number}-{index}", result)
            for each in result.devices.results:
                key = (each.pool, each.device)
                if each.share_id is None:
                    owners.append(key)
                for amount in each.consumed_capacity.values():
                    consumed[key] = consumed.get(key, 0) + nanos(amount)
    assert len(owners) == len(set(owners))
    assert all(amount <= nanos("4") for amount in consumed.values())
    for name, available in Everything(objects, ()).available.items():
        taken = [each for each in slices[name].spec.devices if (name, each.name) in owners]
        used = sum(nanos(consumed.counters["units"].value) for each in taken for consumed in each.consumes_counters)
        assert used <= available
