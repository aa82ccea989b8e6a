"""Claims on devices: made from templates, reserved, released and deleted with their pods."""

from __future__ import annotations

from typing import Any

from tests.controllers.world import World, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.types import JSON
from kubesched.controllers.resource_claims import FINALIZER, POD_CLAIM_NAME
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.nodes import NodeSettings
from kubesched.reconcile.access import CLAIM_TEMPLATES, DEVICE_CLAIMS, EVENTS, PODS

DRIVER = "gpu.example.com"
ONE: JSON = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}


def _gpus(count: int = 1) -> ClusterSettings:
    return ClusterSettings(seed=1, node=NodeSettings(devices=f"{DRIVER}={count}:memory=80Gi"))


def _pod(w: World, name: str, run_time: str = "", **more: Any) -> None:
    claim = {"name": "gpu", **(more.pop("claim", None) or {"resourceClaimTemplateName": "one"})}
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    spec = {"containers": [container], "resourceClaims": [claim], "restartPolicy": "Never", **more}
    w.create(PODS, name, spec, annotations={"kubesched.io/run-time": run_time or "1h"})


def _phase(w: World, name: str) -> str:
    return str(w.get(PODS, name)["status"]["phase"])


def _claim_of(w: World, pod: str) -> JSON:
    (status,) = w.get(PODS, pod)["status"]["resourceClaimStatuses"]
    return w.get(DEVICE_CLAIMS, status["resourceClaimName"])


@virtual_time
async def test_a_claim_is_made_from_its_template(clock: VirtualClock) -> None:
    """The claim has a generated name, the pod as its owner, and what the template says."""
    async with world(clock, nodes=1, settings=_gpus()) as w:
        w.create(CLAIM_TEMPLATES, "one", {"metadata": {"labels": {"team": "a"}}, "spec": ONE})
        _pod(w, "train")
        await w.until(lambda: _phase(w, "train") == "Running")
        claim = _claim_of(w, "train")
        meta = claim["metadata"]
        assert meta["name"].startswith("train-gpu-")
        assert meta["annotations"] == {POD_CLAIM_NAME: "gpu"}
        assert meta["labels"] == {"team": "a"}
        assert [(each["kind"], each["name"]) for each in meta["ownerReferences"]] == [("Pod", "train")]
        assert meta["finalizers"] == [FINALIZER]
        (result,) = claim["status"]["allocation"]["devices"]["results"]
        assert (result["driver"], result["pool"], result["device"]) == (DRIVER, "node-1", "gpu-0")


@virtual_time
async def test_a_pod_waits_until_the_device_is_free(clock: VirtualClock) -> None:
    """With one device, the second pod runs after the first has ended, and the first one's claim is deleted."""
    async with world(clock, nodes=1, settings=_gpus()) as w:
        w.create(CLAIM_TEMPLATES, "one", {"spec": ONE})
        _pod(w, "first", "60s")
        await w.until(lambda: _phase(w, "first") == "Running")
        _pod(w, "second")
        await clock.sleep(10)
        assert _phase(w, "second") == "Pending"
        await w.until(lambda: _phase(w, "second") == "Running")
        assert _phase(w, "first") == "Succeeded"
        assert w.names(DEVICE_CLAIMS) == [_claim_of(w, "second")["metadata"]["name"]]


@virtual_time
async def test_a_claim_of_the_user_is_deallocated_and_stays(clock: VirtualClock) -> None:
    """A claim that a user has created loses allocation, reservation and finalizer, but is not deleted."""
    async with world(clock, nodes=1, settings=_gpus()) as w:
        w.create(DEVICE_CLAIMS, "mine", ONE)
        _pod(w, "user", claim={"resourceClaimName": "mine"})
        await w.until(lambda: _phase(w, "user") == "Running")
        assert len(w.get(DEVICE_CLAIMS, "mine")["status"]["reservedFor"]) == 1
        w.delete(PODS, "user")
        await w.until(lambda: not w.names(PODS))
        await clock.settle()
        claim = w.get(DEVICE_CLAIMS, "mine")
        assert claim.get("status", {}) == {}
        assert not claim["metadata"].get("finalizers")


@virtual_time
async def test_a_claim_in_use_is_protected(clock: VirtualClock) -> None:
    """A deleted claim stays until its pod is gone."""
    async with world(clock, nodes=1, settings=_gpus()) as w:
        w.create(DEVICE_CLAIMS, "mine", ONE)
        _pod(w, "user", claim={"resourceClaimName": "mine"})
        await w.until(lambda: _phase(w, "user") == "Running")
        w.delete(DEVICE_CLAIMS, "mine")
        await clock.sleep(5)
        assert "deletionTimestamp" in w.get(DEVICE_CLAIMS, "mine")["metadata"]
        w.delete(PODS, "user")
        await w.until(lambda: not w.names(DEVICE_CLAIMS))


@virtual_time
async def test_a_missing_template_is_reported_and_awaited(clock: VirtualClock) -> None:
    """The pod gets upstream's event, and its claim as soon as the template exists."""
    async with world(clock, nodes=1, settings=_gpus()) as w:
        _pod(w, "early")
        await w.until(lambda: "FailedResourceClaimCreation" in w.reasons("early"))
        (message,) = {each["message"] for each in w.access.list(EVENTS) if each["reason"].startswith("FailedRes")}
        assert message == (
            'PodResourceClaim gpu: resource claim template "one": resourceclaimtemplate.resource.k8s.io "one" not found'
        )
        w.create(CLAIM_TEMPLATES, "one", {"spec": ONE})
        await w.until(lambda: _phase(w, "early") == "Running")


@virtual_time
async def test_a_lost_claim_is_created_again(clock: VirtualClock) -> None:
    """A pending pod whose claim was deleted gets another one."""
    async with world(clock, nodes=0, settings=_gpus()) as w:
        w.create(CLAIM_TEMPLATES, "one", {"spec": ONE})
        _pod(w, "waits")
        await w.until(lambda: bool(w.names(DEVICE_CLAIMS)))
        (before,) = w.names(DEVICE_CLAIMS)
        w.delete(DEVICE_CLAIMS, before)
        await w.until(lambda: w.names(DEVICE_CLAIMS) not in ([], [before]))
        assert w.names(DEVICE_CLAIMS) == [_claim_of(w, "waits")["metadata"]["name"]]


@virtual_time
async def test_a_pod_bound_by_hand_gets_its_reservation(clock: VirtualClock) -> None:
    """A second pod on the node, bound without the scheduler, is added to the claim's users."""
    async with world(clock, nodes=1, settings=_gpus()) as w:
        w.create(DEVICE_CLAIMS, "mine", ONE)
        _pod(w, "first", claim={"resourceClaimName": "mine"})
        await w.until(lambda: _phase(w, "first") == "Running")
        _pod(w, "second", claim={"resourceClaimName": "mine"}, nodeName="node-1")
        await w.until(lambda: _phase(w, "second") == "Running")
        users = w.get(DEVICE_CLAIMS, "mine")["status"]["reservedFor"]
        assert [each["name"] for each in users] == ["first", "second"]
