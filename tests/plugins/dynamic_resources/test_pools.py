"""Pools: which slices count, what a node sees of them, and that changes reach the nodes concerned."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.plugins.dynamic_resources.support import Allocator, claim, device, every, exactly, resource_slice

from kubesched.api import builders
from kubesched.api import objects as api
from kubesched.api.devices import AllocationResult
from kubesched.base.features import DEFAULT_FEATURES
from kubesched.plugins.dynamic_resources.requests import AllocationError

N, M = builders.node("n", labels={"zone": "a"}), builders.node("m", labels={"zone": "b"})
ONE = claim("c", exactly())


def in_zone(zone: str) -> dict[str, Any]:
    terms = [{"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}]
    return {"nodeSelector": {"nodeSelectorTerms": terms}}


def allocated(allocator: Allocator, node: str) -> AllocationResult:
    """The allocation of one device on a node."""
    found = allocator.allocate(node, ONE)
    assert found is not None
    return found[0]


def test_old_generations_do_not_count() -> None:
    """Only slices of the newest generation are allocated from."""
    allocator = Allocator.of(
        N,
        resource_slice("old", device("old"), node="n", generation=1),
        resource_slice("new", device("new"), node="n", generation=2),
    )
    assert allocator.devices("n", ONE) == [["new"]]


def test_incomplete_pools_are_not_used() -> None:
    """A pool that lacks a slice gives no devices, and makes a request for all devices unanswerable."""
    allocator = Allocator.of(N, resource_slice("s", device("d"), node="n", count=2))
    assert allocator.devices("n", ONE) is None
    with pytest.raises(AllocationError, match="asks for all devices, but resource pool"):
        allocator.devices("n", claim("c", every()))
    allocator.cluster.set(resource_slice("t", device("e"), node="n", count=2))
    assert allocator.devices("n", ONE) == [["d"]]


def test_a_slice_for_the_node_says_how_many_there_are() -> None:
    """If slices of a pool disagree about their number, one that is for the node itself counts."""
    allocator = Allocator.of(
        N,
        resource_slice("a", device("d"), pool="p", count=1),
        resource_slice("b", device("e"), pool="p", count=2, node="n"),
    )
    assert allocator.devices("n", ONE) == [["d"]]


def test_a_repeated_name_makes_a_pool_invalid() -> None:
    """A pool with two devices of the same name is not used at all."""
    allocator = Allocator.of(N, resource_slice("s", device("d"), device("d"), node="n"))
    assert allocator.devices("n", ONE) is None


def test_unknown_counters_make_a_pool_invalid() -> None:
    """A device that consumes counters which the pool does not have spoils the pool."""
    consumes = [{"counterSet": "none", "counters": {}}]
    assert (
        Allocator.of(N, resource_slice("s", device("d", consumesCounters=consumes), node="n")).devices("n", ONE) is None
    )


def test_pools_are_tried_by_driver_and_name() -> None:
    """Devices come from the first pool by driver and name; pools with binding conditions come last."""
    allocator = Allocator.of(
        N,
        resource_slice("s1", device("waits", bindingConditions=["Ready"]), pool="a", node="n"),
        resource_slice("s2", device("third"), pool="z", node="n"),
        resource_slice("s3", device("second"), pool="b", node="n"),
        resource_slice("s4", device("first"), pool="y", node="n", driver="a.example.com"),
    )
    assert allocator.devices("n", claim("c", exactly("r", 4))) == [["first", "second", "third", "waits"]]


def test_slices_choose_nodes_by_label() -> None:
    """A slice with a node selector is for the nodes that it selects; so is its allocation."""
    allocator = Allocator.of(N, M, resource_slice("s", device("d"), **in_zone("a")))
    assert allocator.devices("m", ONE) is None
    result = allocated(allocator, "n")
    assert result.node_selector is not None
    assert result.node_selector.node_selector_terms[0].match_expressions[0].key == "zone"
    allocator.cluster.set(builders.node("m", labels={"zone": "a"}))
    assert allocator.devices("m", ONE) == [["d"]]


def test_devices_choose_nodes_one_by_one() -> None:
    """With per-device selection each device is for its own nodes."""
    devices = [device("for-m", nodeName="m"), device("zone-a", **in_zone("a")), device("all", allNodes=True)]
    allocator = Allocator.of(N, M, resource_slice("s", *devices, perDeviceNodeSelection=True))
    assert allocator.devices("n", claim("c", exactly("r", 2))) == [["zone-a", "all"]]
    assert allocator.devices("m", claim("c", exactly("r", 2))) == [["for-m", "all"]]
    without = replace(DEFAULT_FEATURES, dra_partitionable_devices=False)
    objects = (N, resource_slice("s", *devices, perDeviceNodeSelection=True))
    assert Allocator.of(*objects, features=without).devices("n", ONE) is None


def test_a_device_that_is_everywhere_needs_no_node_selector() -> None:
    """An allocation that every node can use has no node selector, unless the device says that it binds to the node."""
    allocator = Allocator.of(N, resource_slice("s", device("d")))
    result = allocated(allocator, "n")
    assert result.node_selector is None
    bound = Allocator.of(N, resource_slice("s", device("d", bindsToNode=True)))
    result = allocated(bound, "n")
    assert result.node_selector is not None


def test_equal_nodes_are_in_one_state() -> None:
    """Nodes with equal devices, and equally many taken, share a state: a search serves them all."""
    allocator = Allocator.of(
        *(builders.node(f"n{number}") for number in range(5)),
        *(resource_slice(f"s{number}", device("a"), device("b"), node=f"n{number}") for number in range(5)),
    )
    allocator.inventory.sync()
    assert len(set(allocator.inventory.state_numbers(slice(0, 5)).tolist())) == 1
    result = allocated(allocator, "n3")
    allocator.ledger.add_pending("c", result)
    allocator.inventory.sync()
    assert len(set(allocator.inventory.state_numbers(slice(0, 5)).tolist())) == 2
    allocator.ledger.drop_pending("c")
    allocator.inventory.sync()
    assert len(set(allocator.inventory.state_numbers(slice(0, 5)).tolist())) == 1


@st.composite
def steps(draw: st.DrawFn) -> list[tuple[str, api.Object]]:
    """Slices and nodes that come, change and go."""
    found = []
    for _ in range(draw(st.integers(1, 12))):
        if draw(st.booleans()):
            name = draw(st.sampled_from(("n", "m")))
            obj: api.Object = builders.node(name, labels={"zone": draw(st.sampled_from("ab"))})
        else:
            fields: dict[str, Any] = draw(
                st.sampled_from(({"node": "n"}, {"node": "m"}, {}, in_zone("a"), {"perDeviceNodeSelection": True}))
            )
            devices = [device(f"d{index}", allNodes=True) for index in range(draw(st.integers(0, 2)))]
            number = draw(st.integers(0, 3))
            generation, count = draw(st.integers(1, 2)), draw(st.integers(1, 2))
            pool = draw(st.sampled_from(("p", "q")))
            obj = resource_slice(f"s{number}", *devices, pool=pool, generation=generation, count=count, **fields)
        found.append((draw(st.sampled_from(("set", "set", "set", "remove"))), obj))
    return found


@settings(max_examples=150, deadline=None)
@given(steps())
def test_following_changes_is_the_same_as_starting_anew(changes: list[tuple[str, api.Object]]) -> None:
    """However slices and nodes change, every node sees what a fresh start sees."""
    followed = Allocator.of()
    for action, obj in changes:
        getattr(followed.cluster, action)(obj)
        followed.inventory.sync()
    fresh = Allocator(followed.cluster, followed.ledger, Allocator.of().inventory, DEFAULT_FEATURES)
    fresh.inventory = type(followed.inventory)(followed.cluster, followed.ledger, DEFAULT_FEATURES)
    fresh.inventory.sync()
    for name, row in followed.cluster.nodes.row_of.items():
        seen = [(view.pool, view.devices, view.visible, view.incomplete) for view in followed.inventory.view(row).pools]
        anew = [(view.pool, view.devices, view.visible, view.incomplete) for view in fresh.inventory.view(row).pools]
        assert seen == anew, name
