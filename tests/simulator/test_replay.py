"""Replays of recordings that have workloads and no pods, as simkube writes them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import yaml
from click.testing import CliRunner

from kubesched.cli.main import main

CLUSTER = """
{apiVersion: v1, kind: Node, metadata: {name: n1}}
---
apiVersion: v1
kind: Pod
metadata: {name: old, namespace: default, uid: u, resourceVersion: "1"}
spec: {nodeName: n1, containers: [{name: m, image: x}]}
"""


def deployment(replicas: int) -> dict[str, Any]:
    """A Deployment as it was applied."""
    labels = {"app": "web"}
    template = {"metadata": {"labels": labels}, "spec": {"containers": [{"name": "m", "image": "x"}]}}
    spec = {"replicas": replicas, "selector": {"matchLabels": labels}, "template": template}
    meta = {"name": "web", "namespace": "default"}
    return {"apiVersion": "apps/v1", "kind": "Deployment", "metadata": meta, "spec": spec}


def test_controllers_make_the_pods_of_a_trace_without_pods(tmp_path: Path) -> None:
    """Applied, scaled down and watched until the end; nodes come from another file, which may have pods."""
    events = [
        {"ts": 100, "applied_objs": [], "deleted_objs": []},
        {"ts": 160, "applied_objs": [deployment(3)], "deleted_objs": []},
        {"ts": 220, "applied_objs": [deployment(1)], "deleted_objs": []},
        {"ts": 280, "applied_objs": [], "deleted_objs": []},
    ]
    trace = {"version": 2, "config": {}, "events": events, "index": {}, "pod_lifecycles": {}}
    (tmp_path / "t.sktrace").write_bytes(msgspec.msgpack.encode(trace))
    (tmp_path / "n.yaml").write_text(CLUSTER)
    arguments = ["simulate", "--from", str(tmp_path / "t.sktrace"), "--from", str(tmp_path / "n.yaml"), "-o", "json"]
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    created = [each["time"] for each in report["timeline"] if each["what"] == "created" and each["kind"] == "Pod"]
    assert [round(each) for each in created] == [0, 60, 60, 60]
    deleted = [each["time"] for each in report["timeline"] if each["what"] == "deleted" and each["kind"] == "Pod"]
    assert [120 <= each < 125 for each in deleted] == [True, True]
    assert report["virtualSeconds"] == 180


def test_objects_that_a_replay_cannot_create_are_named(tmp_path: Path) -> None:
    """A node called n is a node called false in YAML; without a word about it, all pods are pending for no reason."""
    patch = {
        "apiVersion": "action.kwok.x-k8s.io/v1alpha1",
        "kind": "ResourcePatch",
        "resource": {"group": "", "version": "v1", "resource": "pods"},
        "target": {"name": "p", "namespace": "default"},
        "durationNanosecond": 10**9,
        "method": "create",
        "template": {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {"name": "p", "namespace": "default"},
            "spec": {"containers": [{"name": "m", "image": "x"}]},
        },
    }
    file = tmp_path / "record.yaml"
    file.write_text("apiVersion: v1\nkind: Node\nmetadata: {name: n}\n---\n" + yaml.safe_dump(patch))
    result = CliRunner().invoke(main, ["simulate", str(file), "-o", "json"])
    assert result.exit_code == 0, result.output
    notes = [each["text"] for each in json.loads(result.stdout)["timeline"] if each["what"] == "note"]
    assert [each.partition(":")[0] for each in notes] == ["not created"]
    assert "metadata.name" in notes[0]
