"""Scenarios whose initial objects were read from a cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kubesched.simulator import ScenarioClient, node, pod
from kubesched.simulator.loading import load
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Scenario

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
