"""Scenarios whose initial objects were read from a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from kubesched.simulator import ScenarioClient, node, pod, simulate
from kubesched.simulator.loading import load
from kubesched.simulator.replay import rescheduled
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Scenario
from kubesched.snapshots.anonymise import Anonymiser
from kubesched.snapshots.contents import of_objects

SNAPSHOT = (
    "Pod",
    "Service",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Deployment",
    "ReplicaSet",
    "Namespace",
    "Node",
)


@pytest.mark.parametrize("form", ["List", "lists of a kind"])
def test_what_kubectl_printed_is_a_manifest(tmp_path: Path, form: str) -> None:
    """Nodes, pods and owners are restored in any order; pods that have ended do not run again."""
    lists: list[dict[str, Any]] = []
    claim = {"accessModes": ["ReadWriteOnce"], "storageClassName": "", "resources": {"requests": {"storage": "1Gi"}}}
    volume = {"accessModes": ["ReadWriteOnce"], "capacity": {"storage": "1Gi"}, "hostPath": {"path": "/d"}}
    selector, container = {"app": "web"}, {"name": "main", "image": "nginx"}
    template = {"metadata": {"labels": selector}, "spec": {"containers": [container]}}
    deployment = {"replicas": 3, "selector": {"matchLabels": selector}, "template": template}

    async def before(client: ScenarioClient) -> None:
        await client.create({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "blue"}})
        for name in ("n1", "n2"):
            await client.create(node(name))
        blue = {"name": "web", "namespace": "blue"}
        await client.create(
            {"apiVersion": "v1", "kind": "Service", "metadata": blue, "spec": {"ports": [{"port": 80}]}}
        )
        await client.create({"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": "v"}, "spec": volume})
        await client.create({"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": blue, "spec": claim})
        await client.create({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": blue, "spec": deployment})
        await client.create(pod("ends", run_time="1s"))
        await client.sleep(10)
        for kind in SNAPSHOT:
            items = await client.list(kind, None)
            lists.append({"apiVersion": items[0]["apiVersion"], "kind": f"{kind}List", "items": items})

    first = run(Scenario("before", "before.py", before))
    assert first.error == ""
    file = tmp_path / "snapshot.json"
    if form == "List":
        everything = [item for each in lists for item in each["items"]]
        file.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": everything}), "utf-8")
    else:
        for each in lists:
            each["items"] = [
                {k: v for k, v in item.items() if k not in ("apiVersion", "kind")} for item in each["items"]
            ]
        file.write_text("\n---\n".join(json.dumps(each) for each in lists), "utf-8")
    path = tmp_path / "scenario.yaml"
    wait = "{kind: PersistentVolumeClaim, name: web, namespace: blue, phase: Bound}"
    path.write_text(f"manifests: [snapshot.json]\nsteps: [waitFor: {wait}]\nduration: 1m\n", "utf-8")
    again = run(load(path))
    assert (again.error, again.passed) == ("", True), again
    assert {each.phase for each in again.placements} == {"Running", "Succeeded"}
    before_and_after = [[(each.pod, each.node, each.phase) for each in report.placements] for report in (first, again)]
    assert before_and_after[0] == before_and_after[1]


@pytest.mark.parametrize("arrivals", [False, True])
def test_a_full_cluster_stays_as_it_is(tmp_path: Path, arrivals: bool) -> None:
    """The scheduler knows all pods and nodes of the start when it decides about a pod that waits, whatever its name."""
    capacity = {"cpu": "1", "memory": "1Gi", "pods": "9"}
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": "1"}}}
    objects: list[dict[str, Any]] = []
    for number in range(300):
        meta = {"name": f"n{number:03}"}
        spec: dict[str, Any] = {"unschedulable": not number}
        status: dict[str, Any] = {"allocatable": capacity, "capacity": capacity}
        objects.append({"apiVersion": "v1", "kind": "Node", "metadata": meta, "spec": spec, "status": status})
        meta = {"name": f"p{number:03}", "namespace": "default", "uid": f"u{number}", "resourceVersion": "1"}
        spec = {"containers": [container]} | ({"nodeName": f"n{number:03}"} if number else {})
        status = {"phase": "Running" if number else "Pending"}
        objects.append({"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec, "status": status})
    path = tmp_path / ("start.jsonl" if arrivals else "snapshot.json")
    if arrivals:
        times = [f"2026-01-01T00:0{minute}:00Z" for minute in (0, 1)]
        lines = [{"time": times[0], "event": "Add", "resource": each} for each in objects]
        lines.append({"time": times[1], "event": "Update", "resource": objects[-1]})
        path.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    else:
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    report = simulate(path, arrivals=arrivals)
    assert report.error == ""
    assert [each.pod for each in report.pending] == ["default/p000"]
    assert {each.cpu.peak for each in report.utilisation} == {0.0, 1.0}


def listed(path: Path, *objects: dict[str, Any]) -> Path:
    """Write objects as kubectl prints them."""
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}), "utf-8")
    return path


def of_kind(version: str, kind: str, name: str, **rest: Any) -> dict[str, Any]:
    """An object as it was read from a cluster."""
    meta = {"name": name, "uid": name, "resourceVersion": "1", **rest.pop("metadata", {})}
    return {"apiVersion": version, "kind": kind, "metadata": meta, **rest}


def test_nodes_keep_the_devices_that_a_flag_gave_them(tmp_path: Path) -> None:
    """The slices were published by ``up --devices``, which the simulation has not; one of a recording comes later."""
    capacity = {"cpu": "4", "memory": "8Gi", "pods": "9"}
    ready = [{"type": "Ready", "status": "True"}]
    described = {"annotations": {"kubesched.io/devices": "gpu.example.com=1"}}
    objects = [of_kind("resource.k8s.io/v1", "DeviceClass", "gpu.example.com", spec={})]
    slices = []
    for name, own in (("n1", {}), ("n2", described)):
        status = {"allocatable": capacity, "capacity": capacity, "conditions": ready}
        objects.append(of_kind("v1", "Node", name, metadata=own, spec={}, status=status))
        pool = {"name": name, "generation": 1, "resourceSliceCount": 1}
        spec = {"driver": "gpu.example.com", "nodeName": name, "pool": pool, "devices": [{"name": "gpu-0"}]}
        slices.append(of_kind("resource.k8s.io/v1", "ResourceSlice", f"s-{name}", metadata=described, spec=spec))
    for name in ("p1", "p2"):
        exactly = {"deviceClassName": "gpu.example.com", "allocationMode": "ExactCount", "count": 1}
        place = {"namespace": "default"}
        claim = {"devices": {"requests": [{"name": "r", "exactly": exactly}]}}
        objects.append(of_kind("resource.k8s.io/v1", "ResourceClaim", name, metadata=place, spec=claim))
        spec = {
            "containers": [{"name": "m", "image": "x"}],
            "resourceClaims": [{"name": "r", "resourceClaimName": name}],
        }
        objects.append(of_kind("v1", "Pod", name, metadata=place, spec=spec, status={"phase": "Pending"}))

    report = simulate(listed(tmp_path / "snapshot.json", *objects, *slices))
    assert {each.pod: each.phase for each in report.placements} == {"default/p1": "Running", "default/p2": "Running"}

    lines = [{"time": "2026-01-01T00:00:00Z", "event": "Add", "resource": each} for each in objects]
    lines += [{"time": "2026-01-01T00:01:00Z", "event": "Add", "resource": each} for each in slices]
    lines += [{"time": "2026-01-01T00:02:00Z", "event": "Update", "resource": slices[0]}]
    file = tmp_path / "recording.jsonl"
    file.write_text("\n".join(map(json.dumps, lines)), "utf-8")
    report = simulate(file, arrivals=True)
    assert {each.pod: each.phase for each in report.placements} == {"default/p1": "Running", "default/p2": "Running"}
    found = [each for each in map(msgspec.json.decode, report.objects) if each["kind"] == "ResourceSlice"]
    assert len(found) == 2


def test_an_anonymised_cluster_stays_as_it_is(tmp_path: Path) -> None:
    """No controller finds that its pods have an old template, and rolls them out anew."""
    found: list[dict[str, Any]] = []

    async def before(client: ScenarioClient) -> None:
        for name in ("n1", "n2"):
            await client.create(node(name))
        for kind, name, more in (("StatefulSet", "db", {"replicas": 2, "serviceName": "db"}), ("DaemonSet", "ds", {})):
            template = {"metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": name, "image": "x"}]}}
            spec = {"selector": {"matchLabels": {"app": name}}, "template": template, **more}
            meta = {"name": name, "namespace": "default"}
            await client.create({"apiVersion": "apps/v1", "kind": kind, "metadata": meta, "spec": spec})
        await client.sleep(10)
        for kind in ("Node", "Pod", "StatefulSet", "DaemonSet", "ControllerRevision"):
            found.extend(await client.list(kind, None))

    assert run(Scenario("before", "before.py", before)).error == ""
    hide = Anonymiser()
    report = simulate(listed(tmp_path / "snapshot.json", *map(hide, found)))
    assert len(report.placements) == 4
    assert {each.what for each in report.timeline if each.time > 0} == set()


def test_pods_that_are_scheduled_anew_leave_their_devices() -> None:
    """Otherwise they could only go where their devices are; pods of DaemonSets stay, and so do theirs."""
    objects = []
    for name, kind in (("web", "ReplicaSet"), ("agent", "DaemonSet")):
        place = {"namespace": "default"}
        owner = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": f"{name}-owner", "controller": True}
        spec: dict[str, Any] = {"nodeName": "n1", "containers": [{"name": "m", "image": "x"}]}
        meta = {**place, "ownerReferences": [owner]}
        objects.append(of_kind("v1", "Pod", name, metadata=meta, spec=spec, status={"phase": "Running"}))
        users = [{"resource": "pods", "name": name, "uid": name}]
        status = {"allocation": {"devices": {"results": []}}, "reservedFor": users}
        claim = of_kind("resource.k8s.io/v1", "ResourceClaim", f"{name}-claim", metadata=place, spec={}, status=status)
        objects.append(claim)
    found = [each.body() for each in rescheduled(of_objects(objects)).items]
    assert ["nodeName" in each["spec"] for each in found if each["kind"] == "Pod"] == [False, True]
    assert ["status" in each for each in found if each["kind"] == "ResourceClaim"] == [False, True]
