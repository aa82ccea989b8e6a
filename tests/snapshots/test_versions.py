"""Objects of older versions count as their successors; early forms and other kinds of the same names are ignored."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from kubesched import Cluster, ManifestError
from kubesched.cli.main import main
from kubesched.snapshots.contents import Contents
from kubesched.snapshots.reader import load
from kubesched.snapshots.recording import RecordingWriter

CONTAINER = {"name": "c", "image": "x", "resources": {"requests": {"cpu": "1"}}}
TEMPLATE = {"metadata": {"labels": {"app": "web"}}, "spec": {"containers": [CONTAINER]}}

SCALED = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "x"}


def of(version: str, kind: str, name: str = "x", namespace: str = "default", **fields: Any) -> dict[str, Any]:
    """An object."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name, "namespace": namespace}, **fields}


def cluster_wide(version: str, kind: str, name: str = "x", **fields: Any) -> dict[str, Any]:
    """An object without a namespace."""
    return {"apiVersion": version, "kind": kind, "metadata": {"name": name}, **fields}


def node() -> dict[str, Any]:
    """A node for four of the pods."""
    return cluster_wide("v1", "Node", "n1", status={"allocatable": {"cpu": "4", "memory": "8Gi", "pods": "110"}})


def read(objects: list[dict[str, Any]], folder: Path) -> Contents:
    """What a file with these objects has."""
    path = folder / "old.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": objects}))
    return load(path)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (
            of("extensions/v1beta1", "Deployment", spec={"template": TEMPLATE}),
            of("apps/v1", "Deployment", spec={"template": TEMPLATE, "selector": {"matchLabels": {"app": "web"}}}),
        ),
        (
            of("policy/v1beta1", "PodDisruptionBudget", spec={"minAvailable": 1, "selector": {}}),
            of("policy/v1", "PodDisruptionBudget", spec={"minAvailable": 1}),
        ),
        (
            of("policy/v1beta1", "PodDisruptionBudget", spec={"selector": {"matchLabels": {"a": "b"}}}),
            of("policy/v1", "PodDisruptionBudget", spec={"selector": {"matchLabels": {"a": "b"}}}),
        ),
        (
            of(
                "resource.k8s.io/v1beta1",
                "ResourceClaim",
                spec={
                    "devices": {
                        "requests": [
                            {"name": "a", "deviceClassName": "gpu", "count": 2},
                            {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "gpu"}]},
                        ]
                    }
                },
            ),
            of(
                "resource.k8s.io/v1",
                "ResourceClaim",
                spec={
                    "devices": {
                        "requests": [
                            {"name": "a", "exactly": {"deviceClassName": "gpu", "count": 2}},
                            {"name": "b", "firstAvailable": [{"name": "c", "deviceClassName": "gpu"}]},
                        ]
                    }
                },
            ),
        ),
        (
            of(
                "resource.k8s.io/v1beta1",
                "ResourceClaimTemplate",
                spec={"spec": {"devices": {"requests": [{"name": "a", "deviceClassName": "gpu"}]}}},
            ),
            of(
                "resource.k8s.io/v1",
                "ResourceClaimTemplate",
                spec={"spec": {"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "gpu"}}]}}},
            ),
        ),
        (
            cluster_wide(
                "resource.k8s.io/v1beta1",
                "ResourceSlice",
                spec={"devices": [{"name": "gpu-0", "basic": {"capacity": {"memory": {"value": "1Gi"}}}}]},
            ),
            cluster_wide(
                "resource.k8s.io/v1",
                "ResourceSlice",
                spec={"devices": [{"name": "gpu-0", "capacity": {"memory": {"value": "1Gi"}}}]},
            ),
        ),
        (
            of("batch/v1beta1", "CronJob", spec={"schedule": "@daily"}),
            of("batch/v1", "CronJob", spec={"schedule": "@daily"}),
        ),
        (
            cluster_wide("storage.k8s.io/v1beta1", "StorageClass", provisioner="a"),
            cluster_wide("storage.k8s.io/v1", "StorageClass", provisioner="a"),
        ),
        # Nothing can be read in these, and their readers say so.
        (of("policy/v1beta1", "PodDisruptionBudget", spec=[]), of("policy/v1", "PodDisruptionBudget", spec=[])),
        (
            of("resource.k8s.io/v1beta1", "ResourceClaim", spec={"devices": 1}),
            of("resource.k8s.io/v1", "ResourceClaim", spec={"devices": 1}),
        ),
    ],
)
def test_an_older_version_is_read_as_its_successor(old: Any, new: Any, tmp_path: Path) -> None:
    """The body is that of today's version, in files and in recordings."""
    assert [each.body() for each in read([old], tmp_path).items] == [new]
    writer = RecordingWriter(tmp_path / "r.jsonl", lambda: 0.0)
    writer.initial(old)
    writer.close()
    assert [each.body() for each in load(tmp_path / "r.jsonl").items] == [new]


OLD = [
    node(),
    of("policy/v1beta1", "PodDisruptionBudget", spec={"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}),
    of("extensions/v1beta1", "Deployment", spec={"replicas": 2, "template": TEMPLATE}),
    cluster_wide("scheduling.k8s.io/v1beta1", "PriorityClass", "high", value=7),
    of("autoscaling/v2beta2", "HorizontalPodAutoscaler", spec={"scaleTargetRef": SCALED, "maxReplicas": 2}),
]
OTHERS = [
    cluster_wide("policy/v1beta1", "PodSecurityPolicy", spec={"privileged": False}),
    of("networking.k8s.io/v1beta1", "Ingress", spec={"backend": {"serviceName": "x", "servicePort": 80}}),
    of("serving.knative.dev/v1", "Service", spec={"template": {"spec": {"containers": []}}}),
    of("kueue.x-k8s.io/v1beta1", "Workload", spec={"podSets": []}),
    of("scheduling.volcano.sh/v1beta1", "PodGroup", spec={"minMember": 3}),
    of("batch.volcano.sh/v1alpha1", "Job", spec={"minAvailable": 3}),
    of("resource.k8s.io/v1alpha2", "ResourceClaim", spec={"resourceClassName": "gpu"}),
    of("scheduling.k8s.io/v1alpha1", "Workload", spec={"podGroups": [{"policy": 1}]}),
]


def test_every_reader_takes_a_cluster_of_the_past(tmp_path: Path) -> None:
    """explain, whatif, capacity, compare and simulate count what is known and ignore the rest."""
    path, pod = tmp_path / "old.json", tmp_path / "pod.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [*OLD, *OTHERS]}))
    pod.write_text(json.dumps(of("v1", "Pod", "p", spec={"containers": [CONTAINER], "priorityClassName": "high"})))

    def run(*args: str) -> Any:
        result = CliRunner().invoke(main, [*args, "-o", "json"])
        assert result.exit_code in (0, 3), result.output
        return json.loads(result.stdout)

    assert len(run("explain", "--from", str(path))["pods"]) == 2
    assert run("capacity", "-f", str(pod), "--from", str(path))["total"] == 4
    assert run("whatif", "cordon n1", "--from", str(path))["budgets"][0]["budget"] == "default/x"
    assert run("compare", "default", "default", "--from", str(path))["variants"][0]["runs"][0]["measures"]["bound"] == 2
    assert run("simulate", str(path))["bindings"] == 2


def test_a_mistaken_version_is_an_error() -> None:
    """A version that a kind of Kubernetes never had is no other kind; the message says which one it has."""
    for version in ("v1", "apps/v2", ""):
        with pytest.raises(ManifestError, match=r"use 'apps/v1'"):
            Cluster().add(of(version, "ReplicaSet", spec={}))
    cluster = Cluster()
    cluster.add(*OTHERS)
    assert cluster.ignored == {
        "PodSecurityPolicy": 1,
        "Ingress": 1,
        "Service": 1,
        "Workload": 2,
        "PodGroup": 1,
        "Job": 1,
        "ResourceClaim": 1,
    }


def test_objects_written_by_hand_get_what_the_server_fills_in() -> None:
    """A claim asks for one device, a storage class binds at once, and pods of workloads have no age."""
    cluster = Cluster()
    cluster.add(
        node(),
        of("apps/v1beta2", "ReplicaSet", spec={"selector": {"matchLabels": {"app": "web"}}, "template": TEMPLATE}),
        cluster_wide("resource.k8s.io/v1", "DeviceClass", "gpu", spec={}),
        cluster_wide(
            "resource.k8s.io/v1",
            "ResourceSlice",
            spec={
                "driver": "d",
                "nodeName": "n1",
                "pool": {"name": "n1", "generation": 1, "resourceSliceCount": 1},
                "devices": [{"name": "g"}],
            },
        ),
        of(
            "resource.k8s.io/v1",
            "ResourceClaim",
            "one",
            spec={"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "gpu"}}]}},
        ),
        cluster_wide("storage.k8s.io/v1", "StorageClass", "slow", provisioner="p"),
        of(
            "v1",
            "PersistentVolumeClaim",
            "data",
            spec={"storageClassName": "slow", "resources": {"requests": {"storage": "1Gi"}}},
        ),
    )
    assert [each.metadata.creation_timestamp for each in cluster.pending] == [None]
    spec = {
        "containers": [{**CONTAINER, "resources": {"claims": [{"name": "g"}]}}],
        "resourceClaims": [{"name": "g", "resourceClaimName": "one"}],
    }
    assert cluster.schedule(of("v1", "Pod", "p", spec=spec)).node == "n1"
    volumes = [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]
    decision = cluster.schedule(of("v1", "Pod", "q", spec={"containers": [CONTAINER], "volumes": volumes}))
    assert "pod has unbound immediate PersistentVolumeClaims" in decision.message
