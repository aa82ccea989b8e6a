"""An anonymised cluster has none of its names, and scheduling decides about it as before."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kubesched import Cluster
from kubesched.snapshots.anonymise import Anonymiser
from kubesched.snapshots.cleaning import Cleaner

MARK = "acme"


def node(name: str, cpu: str, **labels: str) -> dict[str, Any]:
    """A node with an image, as kubelets report it, and a role of the user's."""
    own = {"kubernetes.io/hostname": name, f"node-role.kubernetes.io/{MARK}-batch": "", **labels}
    images = [{"names": [f"{MARK}/db@sha256:0123", f"{MARK}/db:latest"], "sizeBytes": 900_000_000}]
    status = {
        "allocatable": {"cpu": cpu, "memory": "64Gi", "pods": "110"},
        "images": images if name.endswith("b") else [],
        "conditions": [{"type": "Ready", "status": "True"}],
    }
    return {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": own}, "status": status}


def pod(name: str, **spec: Any) -> dict[str, Any]:
    container = {
        "name": f"{MARK}-main",
        "image": spec.pop("image", f"{MARK}/app:1"),
        "env": [{"name": "TOKEN", "value": f"{MARK}-secret"}],
        "resources": {"requests": {"cpu": "1", "memory": "1Gi"}},
    }
    labels = {f"{MARK}.example/tier": f"{MARK}-gold", "App": name}
    meta = {"name": name, "namespace": MARK, "labels": labels, "annotations": {f"{MARK}.example/note": f"by {MARK}"}}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": {"containers": [container], **spec}}


def devices() -> list[dict[str, Any]]:
    """A node's GPU, and a class that takes it by its driver, an attribute, and one of another domain."""
    driver, other = f"gpu.{MARK}.example", f"{MARK}.example"
    attributes = {
        "model": {"string": f"{MARK}-x100"},
        f"{other}/rack": {"string": f"{MARK}-r7"},
        "resource.kubernetes.io/numaNode": {"int": 3},
    }
    slice_spec = {
        "driver": driver,
        "nodeName": f"{MARK}-b",
        "pool": {"name": f"{MARK}-b", "generation": 1, "resourceSliceCount": 1},
        "devices": [{"name": "gpu-0", "attributes": attributes, "capacity": {f"{other}/vram": {"value": "80Gi"}}}],
    }
    expression = (
        f'device.driver == "{driver}" && device.attributes["{driver}"].model == "{MARK}-x100"'
        f" && device.attributes['{other}'].rack == '{MARK}-r7'"
        ' && device.attributes["resource.kubernetes.io"].numaNode == 3'
        f' && device.capacity["{other}"].vram.compareTo(quantity("80Gi")) == 0'
    )
    group = {"apiVersion": "resource.k8s.io/v1"}
    exactly = {"deviceClassName": f"{MARK}-gpus", "allocationMode": "ExactCount", "count": 1}
    request = {"name": "gpu", "exactly": exactly}
    constraint = {"requests": ["gpu"], "matchAttribute": f"{other}/rack"}
    claim_spec = {"devices": {"requests": [request], "constraints": [constraint]}}
    return [
        {**group, "kind": "ResourceSlice", "metadata": {"name": f"{MARK}-slice"}, "spec": slice_spec},
        {
            **group,
            "kind": "DeviceClass",
            "metadata": {"name": f"{MARK}-gpus"},
            "spec": {"selectors": [{"cel": {"expression": expression}}]},
        },
        {
            **group,
            "kind": "ResourceClaim",
            "metadata": {"name": f"{MARK}-claim", "namespace": MARK, "uid": "6f1f5d3c-0000-4000-8000-000000000000"},
            "spec": claim_spec,
        },
    ]


CLUSTER = [
    node(f"{MARK}-a", "64", Rack="Left", **{f"{MARK}.dotted.key": "Yes"}),
    node(f"{MARK}-b", "32", Rack="Right", **{f"{MARK}.dotted.key": "No"}),
    node(f"{MARK}-c", "48", Rack="Right", **{f"{MARK}.dotted.key": "Yes"}),
    *devices(),
]
SPREAD = {
    "maxSkew": 1,
    "topologyKey": "Rack",
    "whenUnsatisfiable": "DoNotSchedule",
    "labelSelector": {"matchLabels": {f"{MARK}.example/tier": f"{MARK}-gold"}},
    "matchLabelKeys": ["App"],
}
TERM = {"matchExpressions": [{"key": f"{MARK}.dotted.key", "operator": "In", "values": ["No"]}]}
REQUIRED = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [TERM]}}


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (pod("plain"), "a"),
        (pod("image", image=f"{MARK}/db"), "b"),
        (pod("role", nodeSelector={f"node-role.kubernetes.io/{MARK}-batch": "", "Rack": "Right"}), "c"),
        (pod("spread", topologySpreadConstraints=[SPREAD]), "a"),
        (pod("dotted", affinity={"nodeAffinity": REQUIRED}), "b"),
        (pod("device", resourceClaims=[{"name": "g", "resourceClaimName": f"{MARK}-claim"}]), "b"),
    ],
    ids=lambda each: each["metadata"]["name"] if isinstance(each, dict) else each,
)
def test_decisions_stay_the_same(asked: dict[str, Any], expected: str) -> None:
    """Images without tags, labels that look like enumerations or fields, roles, and expressions about devices."""
    rename = Anonymiser("key")
    before = Cluster(*CLUSTER).schedule(asked)
    after = Cluster(*map(rename, CLUSTER)).schedule(rename(asked))
    assert before.node == f"{MARK}-{expected}"
    assert after.node == rename.name(before.node)


def test_nothing_of_the_users_words_is_left() -> None:
    """Names, labels, images, environment and annotations of all objects, and names in keys and expressions."""
    others: list[dict[str, Any]] = [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": MARK, "namespace": MARK},
            "spec": {"hard": {f"{MARK}.storageclass.storage.k8s.io/requests.storage": "1Gi", "pods": "4"}},
        },
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": MARK, "namespace": MARK},
            "status": {"disruptedPods": {f"{MARK}-0": "2026-01-01T00:00:00Z"}},
        },
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": MARK},
            "provisioner": f"csi.{MARK}.example",
            "parameters": {"pool": MARK},
            "allowedTopologies": [{"matchLabelExpressions": [{"key": "Rack", "values": ["Acme"]}]}],
        },
    ]
    rename, clean = Anonymiser("key"), Cleaner()
    objects = [*CLUSTER, pod("p", topologySpreadConstraints=[SPREAD], affinity={"nodeAffinity": REQUIRED}), *others]
    text = json.dumps([rename(clean(each)) for each in objects])
    assert MARK not in text.lower()
    quota = rename(others[0])["spec"]["hard"]
    assert list(quota) == [f"{rename.name(MARK)}.storageclass.storage.k8s.io/requests.storage", "pods"]


def test_schedules_and_indexes_are_not_names() -> None:
    """A CronJob goes on as it did, and so does a Job with indexes."""
    rename = Anonymiser("key")
    cron = rename({"kind": "CronJob", "spec": {"schedule": "*/5 8-18 * * 1-5", "timeZone": "Europe/Berlin"}})
    assert cron["spec"] == {"schedule": "*/5 8-18 * * 1-5", "timeZone": "Europe/Berlin"}
    job = rename({"kind": "Job", "status": {"completedIndexes": "0-1500,1600", "failedIndexes": "1700"}})
    assert job["status"] == {"completedIndexes": "0-1500,1600", "failedIndexes": "1700"}


def test_annotations_that_decide_stay() -> None:
    """A claim without a class still gets the default one, and a pod that must not be moved still says so."""
    kept = {"storageclass.kubernetes.io/is-default-class": "true", "karpenter.sh/do-not-disrupt": "true"}
    body = {"kind": "StorageClass", "metadata": {"name": "fast", "annotations": {**kept, "team": "red"}}}
    assert Anonymiser()(body)["metadata"]["annotations"] == kept
