"""Claims of pod groups (DRAWorkloadResourceClaims): made once per group, shared by its pods, released with it."""

from __future__ import annotations

from dataclasses import replace

from tests.controllers.world import World, world

from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.features import Features
from kubesched.base.types import JSON
from kubesched.controllers.resource_claims import POD_CLAIM_NAME
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.nodes import NodeSettings
from kubesched.reconcile.access import CLAIM_TEMPLATES, DEVICE_CLAIMS, POD_GROUPS, PODS

DRIVER = "gpu.example.com"
ONE: JSON = {"devices": {"requests": [{"name": "gpu", "exactly": {"deviceClassName": DRIVER}}]}}
GPU = {"name": "gpu", "resourceClaimTemplateName": "one"}
OFF = Features(generic_workload=True, gang_scheduling=True)
ON = replace(OFF, dra_workload_resource_claims=True)


def _settings(features: Features = ON) -> ClusterSettings:
    return ClusterSettings(seed=1, features=features, node=NodeSettings(devices=f"{DRIVER}=2:memory=80Gi"))


def _group(w: World, *claims: JSON) -> JSON:
    return w.create(POD_GROUPS, "g", {"schedulingPolicy": {"gang": {"minCount": 2}}, "resourceClaims": list(claims)})


def _pod(w: World, name: str, run_time: str = "1h", **spec: object) -> None:
    container = {"name": "main", "image": "busybox", "resources": {"claims": [{"name": "gpu"}]}}
    shape: JSON = {"containers": [container], "resourceClaims": [GPU], "restartPolicy": "Never", **spec}
    shape["schedulingGroup"] = {"podGroupName": "g"}
    w.create(PODS, name, shape, annotations={"kubesched.io/run-time": run_time})


def _running(w: World) -> int:
    return len(w.running())


@virtual_time
async def test_the_pods_of_a_group_share_its_claim(clock: VirtualClock) -> None:
    """One claim is made for the group, recorded in its status and those of its pods, and reserved for the group."""
    async with world(clock, nodes=2, settings=_settings()) as w:
        w.create(CLAIM_TEMPLATES, "one", {"spec": ONE})
        group = _group(w, GPU)
        for name in ("a", "b"):
            _pod(w, name)
        await w.until(lambda: _running(w) == 2)
        (name,) = w.names(DEVICE_CLAIMS)
        assert name.startswith("g-gpu-")
        claim, statuses = w.get(DEVICE_CLAIMS, name), [{"name": "gpu", "resourceClaimName": name}]
        (owner,) = claim["metadata"]["ownerReferences"]
        uid = group["metadata"]["uid"]
        assert (owner["kind"], owner["uid"], owner["controller"]) == ("PodGroup", uid, True)
        assert claim["metadata"]["annotations"] == {POD_CLAIM_NAME: "gpu"}
        user = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": "g", "uid": uid}
        assert claim["status"]["reservedFor"] == [user]
        assert w.get(POD_GROUPS, "g")["status"]["resourceClaimStatuses"] == statuses
        assert all(w.get(PODS, pod)["status"]["resourceClaimStatuses"] == statuses for pod in ("a", "b"))
        assert len(set(w.nodes_of())) == 1


@virtual_time
async def test_the_claim_is_released_with_the_group(clock: VirtualClock) -> None:
    """While the group exists its claim keeps the device, even without pods; then it is deallocated and deleted."""
    async with world(clock, nodes=1, settings=_settings()) as w:
        w.create(CLAIM_TEMPLATES, "one", {"spec": ONE})
        _group(w, GPU)
        for name in ("a", "b"):
            _pod(w, name, "5s")
        await w.until(lambda: all(pod["status"]["phase"] == "Succeeded" for pod in w.pods()))
        await clock.sleep(5)
        (name,) = w.names(DEVICE_CLAIMS)
        assert w.get(DEVICE_CLAIMS, name)["status"]["reservedFor"]
        w.delete(POD_GROUPS, "g")
        await w.until(lambda: not w.names(DEVICE_CLAIMS))


@virtual_time
async def test_a_claim_by_name_is_deallocated(clock: VirtualClock) -> None:
    """A claim that a user made for a group stays when the group goes, without devices."""
    async with world(clock, nodes=1, settings=_settings()) as w:
        w.create(DEVICE_CLAIMS, "mine", ONE)
        shared = {"name": "gpu", "resourceClaimName": "mine"}
        _group(w, shared)
        for name in ("a", "b"):
            _pod(w, name, "5s", resourceClaims=[shared])
        await w.until(lambda: _running(w) == 2)
        await w.until(lambda: all(pod["status"]["phase"] == "Succeeded" for pod in w.pods()))
        w.delete(POD_GROUPS, "g")
        await w.until(lambda: "reservedFor" not in (w.get(DEVICE_CLAIMS, "mine").get("status") or {}))
        assert "allocation" not in (w.get(DEVICE_CLAIMS, "mine").get("status") or {})


@virtual_time
async def test_a_missing_template_is_reported_and_awaited(clock: VirtualClock) -> None:
    """The group gets an event; with the template comes the claim."""
    async with world(clock, nodes=1, settings=_settings()) as w:
        _group(w, GPU)
        for name in ("a", "b"):
            _pod(w, name)
        await w.until(lambda: "FailedResourceClaimCreation" in w.reasons("g"))
        w.create(CLAIM_TEMPLATES, "one", {"spec": ONE})
        await w.until(lambda: _running(w) == 2)


@virtual_time
async def test_off(clock: VirtualClock) -> None:
    """Without the gate every pod has a claim of its own."""
    async with world(clock, nodes=1, settings=_settings(OFF)) as w:
        w.create(CLAIM_TEMPLATES, "one", {"spec": ONE})
        _group(w, GPU)
        for name in ("a", "b"):
            _pod(w, name)
        await w.until(lambda: _running(w) == 2)
        assert [name[:6] for name in w.names(DEVICE_CLAIMS)] == ["a-gpu-", "b-gpu-"]
