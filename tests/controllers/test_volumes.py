"""Volumes: binding, provisioning, reclaiming and protection."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from tests.controllers.world import World, world

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.controllers.volumes import OLD_PROVISIONER, PROVISIONER
from kubesched.reconcile.access import CLAIMS, CLASSES, EVENTS, NODES, PODS, VOLUMES, Access


def _claim(size: str = "1Gi", **spec: Any) -> JSON:
    return {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}, **spec}


def _volume(size: str = "1Gi", **spec: Any) -> JSON:
    source = {"hostPath": {"path": "/data"}}
    return {"capacity": {"storage": size}, "accessModes": ["ReadWriteOnce"], **source, **spec}


def _label(node: JSON, zone: str) -> None:
    node["metadata"]["labels"]["topology.kubernetes.io/zone"] = zone


def _phase(w: World, storage: str, name: str) -> str:
    return str(w.get(storage, name)["status"]["phase"])


def _user(w: World, claim: str, name: str = "user") -> None:
    volumes = [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]
    w.create(PODS, name, {"containers": [{"name": "main", "image": "nginx"}], "volumes": volumes})


@virtual_time
async def test_the_smallest_volume_that_will_do_is_taken(clock: VirtualClock) -> None:
    """A claim without a class gets the smallest classless volume that fits."""
    async with world(clock) as w:
        for name, size in (("large", "10Gi"), ("fitting", "2Gi"), ("small", "500Mi")):
            w.create(VOLUMES, name, _volume(size))
        w.create(CLAIMS, "data", _claim("1Gi", storageClassName=""))
        await clock.settle()
        assert w.get(CLAIMS, "data")["spec"]["volumeName"] == "fitting"
        assert [_phase(w, VOLUMES, name) for name in ("fitting", "large", "small")] == [
            "Bound",
            "Available",
            "Available",
        ]
        assert w.get(CLAIMS, "data")["status"]["capacity"] == {"storage": "2Gi"}


@virtual_time
async def test_a_claim_waits_for_a_volume_that_fits(clock: VirtualClock) -> None:
    """A claim without a class waits for a volume, and none is provisioned."""
    async with world(clock) as w:
        w.create(CLAIMS, "data", _claim(storageClassName=""))
        await clock.advance(10)
        assert _phase(w, CLAIMS, "data") == "Pending"
        w.create(VOLUMES, "late", _volume())
        await clock.settle()
        assert _phase(w, CLAIMS, "data") == "Bound"


@virtual_time
async def test_an_immediate_class_makes_a_volume_at_once(clock: VirtualClock) -> None:
    """A provisioned volume belongs to its claim and is deleted with it."""
    async with world(clock) as w:
        w.create(CLAIMS, "data", _claim("3Gi", storageClassName="immediate"))
        await clock.settle()
        name = w.get(CLAIMS, "data")["spec"]["volumeName"]
        assert _phase(w, CLAIMS, "data") == "Bound"
        assert w.get(VOLUMES, name)["spec"]["capacity"] == {"storage": "3Gi"}
        w.delete(CLAIMS, "data")
        await clock.advance(1)
        assert (w.names(CLAIMS), w.names(VOLUMES)) == ([], [])


@virtual_time
async def test_the_default_class_waits_for_the_scheduler(clock: VirtualClock) -> None:
    """A claim of the default class is bound when a pod that uses it gets its node, in that node's zone."""
    async with world(clock) as w:
        for name in ("node-1", "node-2", "node-3"):
            w.access.edit(NODES, name, partial(_label, zone=f"zone-{name[-1]}"))
        w.create(CLAIMS, "data", _claim())
        await clock.advance(5)
        assert _phase(w, CLAIMS, "data") == "Pending"
        assert "WaitForFirstConsumer" in w.reasons("data")
        _user(w, "data")
        await w.until(lambda: _phase(w, PODS, "user") == "Running")
        volume = w.get(VOLUMES, w.get(CLAIMS, "data")["spec"]["volumeName"])
        (term,) = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
        node = w.get(PODS, "user")["spec"]["nodeName"]
        assert term["matchExpressions"][0]["values"] == [f"zone-{node[-1]}"]


@virtual_time
async def test_a_claim_in_use_stays_until_its_pod_is_gone(clock: VirtualClock) -> None:
    """A deleted claim stays until the pod that uses it has ended."""
    async with world(clock) as w:
        w.create(CLAIMS, "data", _claim())
        _user(w, "data")
        await w.until(lambda: _phase(w, PODS, "user") == "Running")
        w.delete(CLAIMS, "data")
        await clock.advance(10)
        assert "deletionTimestamp" in w.get(CLAIMS, "data")["metadata"]
        w.delete(PODS, "user")
        await clock.advance(1)
        assert w.names(CLAIMS) == []


@virtual_time
async def test_a_claim_of_a_pending_pod_can_be_deleted(clock: VirtualClock) -> None:
    """A pod without a node does not protect its claim."""
    async with world(clock) as w:
        w.create(CLAIMS, "data", {**_claim(), "storageClassName": "missing"})
        _user(w, "data")
        await clock.advance(5)
        w.delete(CLAIMS, "data")
        await clock.advance(1)
        assert w.names(CLAIMS) == []


@virtual_time
async def test_a_volume_to_be_retained_is_released(clock: VirtualClock) -> None:
    """A retained volume keeps its claim reference, so no other claim gets it."""
    async with world(clock) as w:
        w.create(VOLUMES, "kept", _volume(persistentVolumeReclaimPolicy="Retain"))
        w.create(CLAIMS, "data", _claim(storageClassName=""))
        await clock.settle()
        w.delete(CLAIMS, "data")
        await clock.settle()
        assert _phase(w, VOLUMES, "kept") == "Released"
        w.create(CLAIMS, "data", _claim(storageClassName=""))
        await clock.advance(5)
        assert _phase(w, CLAIMS, "data") == "Pending"


@virtual_time
async def test_a_claim_whose_volume_is_gone_is_lost(clock: VirtualClock) -> None:
    """A claim whose volume was removed is Lost, and no new volume is provisioned."""
    async with world(clock) as w:
        w.create(CLAIMS, "data", _claim(storageClassName="immediate"))
        await clock.advance(1)
        volume = w.get(CLAIMS, "data")["spec"]["volumeName"]
        w.delete(VOLUMES, volume)
        w.access.edit(VOLUMES, volume, lambda obj: obj["metadata"].pop("finalizers"))
        await clock.advance(1)
        assert (w.names(VOLUMES), _phase(w, CLAIMS, "data")) == ([], "Lost")
        assert "ClaimLost" in {each["reason"] for each in w.access.list(EVENTS)}


@virtual_time
async def test_an_ephemeral_volume_has_a_claim_that_goes_with_its_pod(clock: VirtualClock) -> None:
    """The claim of an ephemeral volume is named after pod and volume, and the pod owns it."""
    async with world(clock) as w:
        volume = {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": _claim()}}}
        w.create(PODS, "user", {"containers": [{"name": "main", "image": "nginx"}], "volumes": [volume]})
        await w.until(lambda: _phase(w, PODS, "user") == "Running")
        assert w.names(CLAIMS) == ["user-scratch"]
        w.delete(PODS, "user")
        await clock.advance(2)
        assert (w.names(CLAIMS), w.names(VOLUMES)) == ([], [])


@virtual_time
async def test_what_a_claim_waits_for_is_said_once(clock: VirtualClock) -> None:
    """A waiting claim gets one event, even if other volumes are added meanwhile."""
    async with world(clock) as w:
        w.create(CLAIMS, "data", _claim())
        await clock.settle()
        for number in range(3):
            w.create(VOLUMES, f"v{number}", _volume(storageClassName="other"))
            await clock.settle()
        (event,) = (each for each in w.access.list(EVENTS) if each["involvedObject"]["name"] == "data")
        assert (event["reason"], event["count"]) == ("WaitForFirstConsumer", 1)


@virtual_time
async def test_a_claim_grows_where_its_class_lets_it(clock: VirtualClock) -> None:
    """A claim can grow only if its class allows it, and it never shrinks."""
    async with world(clock) as w:
        w.create(CLAIMS, "data", _claim(storageClassName="immediate"))
        await clock.settle()
        more, less = ({"requests": {"storage": size}} for size in ("2Gi", "512Mi"))
        with pytest.raises(StatusError, match="the storageclass that provisions the pvc must support resize"):
            w.edit(CLAIMS, "data", resources=more)
        w.access.edit(CLASSES, "immediate", lambda obj: obj.update(allowVolumeExpansion=True))
        w.edit(CLAIMS, "data", resources=more)
        await clock.settle()
        assert w.get(CLAIMS, "data")["status"]["capacity"] == {"storage": "2Gi"}
        assert w.get(VOLUMES, w.get(CLAIMS, "data")["spec"]["volumeName"])["spec"]["capacity"]["storage"] == "2Gi"
        with pytest.raises(StatusError, match="field can not be less than"):
            w.edit(CLAIMS, "data", resources=less)


@virtual_time
async def test_the_provisioner_of_earlier_builds_is_this_one(clock: VirtualClock) -> None:
    """A class and a volume with the provisioner's old name get its new one at start, so claims are provisioned."""
    api = ApiServer(clock=clock)
    access = Access(api)
    access.create(
        CLASSES, {"metadata": {"name": "old"}, "provisioner": OLD_PROVISIONER, "volumeBindingMode": "Immediate"}
    )
    source = {"csi": {"driver": PROVISIONER, "volumeHandle": "h"}}
    body = {"capacity": {"storage": "1Gi"}, "accessModes": ["ReadWriteOnce"], **source}
    made = access.create(VOLUMES, {"metadata": {"name": "v"}, "spec": {**body, "storageClassName": "none"}})
    made["spec"]["csi"]["driver"] = OLD_PROVISIONER
    access.put(VOLUMES, "v", made)
    async with world(clock, api=api) as w:
        w.create(CLAIMS, "data", _claim(storageClassName="old"))
        await clock.settle()
        assert _phase(w, CLAIMS, "data") == "Bound"
        assert w.get(VOLUMES, "v")["spec"]["csi"]["driver"] == PROVISIONER
