"""Simulated devices: how they are described, published, and needed for a pod to start."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.controllers.world import World, world

from kubesched.base.annotations import DEVICES
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.devices import DeviceTextError, parse_devices
from kubesched.kubelet.nodes import NodeSettings
from kubesched.reconcile.access import DEVICE_CLAIMS, DEVICE_CLASSES, EVENTS, NODES, PODS, SLICES

CLAIM: JSON = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": "gpu.example.com"}}]}}


def _with(devices: str) -> ClusterSettings:
    return ClusterSettings(seed=1, node=NodeSettings(devices=devices))


def _annotate(w: World, node: str, text: str) -> None:
    w.access.edit(NODES, node, lambda obj: obj["metadata"].setdefault("annotations", {}).update({DEVICES: text}))


def _slices(w: World) -> list[JSON]:
    return list(w.access.list(SLICES))


def test_values_have_types() -> None:
    """A size is a capacity; versions, numbers and truth values are attributes of their type, the rest are strings."""
    text = "gpu.example.com=1:memory=80Gi:model=a100:driver_version=1.2.3:index=-7:shared=true, nic.example.com=2"
    found = parse_devices(text)
    attributes = {"model": {"string": "a100"}, "driver_version": {"version": "1.2.3"}, "index": {"int": -7}}
    attributes["shared"] = {"bool": True}
    assert found["gpu.example.com"] == [
        {"name": "gpu-0", "attributes": attributes, "capacity": {"memory": {"value": "80Gi"}}}
    ]
    assert found["nic.example.com"] == [{"name": "nic-0"}, {"name": "nic-1"}]


def test_a_driver_can_have_different_devices() -> None:
    """Devices of one driver are numbered through."""
    found = parse_devices("gpu.example.com=1:model=a,gpu.example.com=1:model=b")["gpu.example.com"]
    assert [(each["name"], each["attributes"]["model"]["string"]) for each in found] == [("gpu-0", "a"), ("gpu-1", "b")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("gpu.example.com", '"gpu.example.com" needs a number of devices from 1 to 10000'),
        ("gpu.example.com=0", '"gpu.example.com=0" needs a number'),
        ("gpu.example.com=99999", "from 1 to 10000"),
        (f"gpu.example.com={'9' * 5000}", "from 1 to 10000"),
        ("gpu.example.com=6000,nic.example.com=6000", '"nic.example.com=6000" needs a number'),
        ("GPU=1", '"GPU" is not the name of a driver'),
        ("=1", '"" is not the name of a driver'),
        ("gpu.example.com=1:memory", '"memory" is not an attribute or a capacity'),
        ("gpu.example.com=1:a-b=1", '"a-b=1" is not an attribute or a capacity'),
    ],
)
def test_mistakes_are_explained(text: str, expected: str) -> None:
    """The message quotes the mistake and shows the right form."""
    with pytest.raises(DeviceTextError, match="write it as gpu") as caught:
        parse_devices(text)
    assert expected in str(caught.value)


@given(st.text(alphabet="ab1.=:,/ -Gi_", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    """No text raises anything but the error for it."""
    try:
        found = parse_devices(text)
    except DeviceTextError:
        return
    assert all(len({each["name"] for each in devices}) == len(devices) for devices in found.values())


@virtual_time
async def test_every_node_publishes_its_devices(clock: VirtualClock) -> None:
    """Each node has a pool of its own, and the driver has a class."""
    async with world(clock, nodes=2, settings=_with("gpu.example.com=200")) as w:
        assert sorted({each["spec"]["nodeName"] for each in _slices(w)}) == ["node-1", "node-2"]
        assert sorted(len(each["spec"]["devices"]) for each in _slices(w)) == [72, 72, 128, 128]
        assert {each["spec"]["pool"]["resourceSliceCount"] for each in _slices(w)} == {2}
        assert w.names(DEVICE_CLASSES) == ["gpu.example.com"]


@virtual_time
async def test_the_annotation_of_a_node_decides(clock: VirtualClock) -> None:
    """A changed annotation makes a new generation of the pool, an empty one ends it; a wrong one changes nothing."""
    async with world(clock, nodes=1, settings=_with("gpu.example.com=1")) as w:
        _annotate(w, "node-1", "gpu.example.com=2")
        await clock.settle()
        (found,) = _slices(w)
        assert (len(found["spec"]["devices"]), found["spec"]["pool"]["generation"]) == (2, 2)
        _annotate(w, "node-1", "nonsense")
        await clock.settle()
        assert _slices(w) == [found]
        (event,) = [each for each in w.access.list(EVENTS) if each["reason"] == "InvalidAnnotation"]
        assert event["message"].startswith('kubesched.io/devices: "nonsense" needs a number')
        _annotate(w, "node-1", "")
        await clock.settle()
        assert _slices(w) == []


@virtual_time
async def test_slices_come_back_and_go_with_their_node(clock: VirtualClock) -> None:
    """A deleted slice is published again; those of a deleted node are deleted; those of users are left alone."""
    async with world(clock, nodes=1, settings=_with("gpu.example.com=1")) as w:
        pool = {"name": "own", "generation": 1, "resourceSliceCount": 1}
        w.create(SLICES, "own", {"driver": "a.example.com", "nodeName": "node-1", "pool": pool})
        before = [name for name in w.names(SLICES) if name != "own"]
        w.delete(SLICES, before[0])
        await clock.settle()
        after = [name for name in w.names(SLICES) if name != "own"]
        assert len(after) == 1
        assert after != before
        w.delete(NODES, "node-1")
        await w.until(lambda: w.names(SLICES) == ["own"])


def _bound_pod(w: World, claim: JSON) -> None:
    spec: dict[str, Any] = {"containers": [{"name": "main", "image": "busybox"}], "nodeName": "node-1"}
    w.create(PODS, "user", {**spec, "resourceClaims": [{"name": "gpu", **claim}]})


def _complaints(w: World) -> set[str]:
    return {each["message"] for each in w.access.list(EVENTS) if each["reason"] == "FailedPrepareDynamicResources"}


@virtual_time
async def test_a_pod_without_its_devices_does_not_start(clock: VirtualClock) -> None:
    """A pod bound by hand stays pending while its claim is missing or not reserved for it."""
    async with world(clock, nodes=1) as w:
        _bound_pod(w, {"resourceClaimName": "mine"})
        await clock.sleep(10)
        assert w.get(PODS, "user")["status"]["phase"] == "Pending"
        start = "Failed to prepare dynamic resources: prepare dynamic resources: "
        assert _complaints(w) == {f'{start}fetch ResourceClaim mine: resourceclaims.resource.k8s.io "mine" not found'}
        claim = w.create(DEVICE_CLAIMS, "mine", CLAIM)["metadata"]["uid"]
        await clock.sleep(10)
        pod = w.get(PODS, "user")
        assert pod["status"]["phase"] == "Pending"
        uid = pod["metadata"]["uid"]
        assert f"{start}pod user ({uid}) is not allowed to use ResourceClaim mine ({claim})" in _complaints(w)


@virtual_time
async def test_devices_of_another_node_are_refused(clock: VirtualClock) -> None:
    """A claim allocated on one node cannot be used by a pod that was bound to another."""
    async with world(clock, nodes=2) as w:
        _annotate(w, "node-2", "gpu.example.com=1")
        w.create(DEVICE_CLAIMS, "mine", CLAIM)
        spec = {"containers": [{"name": "main", "image": "busybox"}]}
        w.create(PODS, "first", {**spec, "resourceClaims": [{"name": "gpu", "resourceClaimName": "mine"}]})
        await w.until(lambda: w.get(PODS, "first")["status"]["phase"] == "Running")
        _bound_pod(w, {"resourceClaimName": "mine"})
        await clock.sleep(10)
        assert w.get(PODS, "user")["status"]["phase"] == "Pending"
        assert any(each.endswith("its devices are not on node node-1") for each in _complaints(w))
