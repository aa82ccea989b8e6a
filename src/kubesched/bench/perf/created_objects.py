"""The objects that operations create: nodes, pods with their volumes and claims, and devices."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any

from kubesched.base.types import JSON
from kubesched.bench.perf.operations import CreateNodes
from kubesched.bench.perf.templates import load_template

_LETTERS = "bcdfghjklmnpqrstvwxz2456789"
"""Those of names that an API server generates."""
BIND_COMPLETED = "pv.kubernetes.io/bind-completed"
MIGRATED_PLUGINS = "storage.alpha.kubernetes.io/migrated-plugins"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"

DEFAULT_RESOURCES = {"pods": "110", "cpu": "4", "memory": "32Gi"}


def named(obj: JSON, random: Random) -> JSON:
    """Give an object with `generateName` its name here rather than in the server, so that it is known at once."""
    metadata = obj["metadata"] = dict(obj.get("metadata") or {})
    if not metadata.get("name"):
        metadata["name"] = f"{metadata.pop('generateName', '')}{''.join(random.choices(_LETTERS, k=8))}"
    return obj


def make_perf_node(operation: CreateNodes, folder: Path, index: int, position: int, random: Random) -> JSON:
    """The node number `index` of an operation, which is number `position` of the workload."""
    if operation.node_template_path is not None:
        node = load_template(folder / operation.node_template_path).render(index, operation.count)
    else:
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"generateName": f"node-{position}-"}}
        node["status"] = {
            "capacity": DEFAULT_RESOURCES,
            "allocatable": DEFAULT_RESOURCES,
            "conditions": [{"type": "Ready", "status": "True"}],
        }
    named(node, random)
    name = node["metadata"]["name"]
    labels = {**(node["metadata"].get("labels") or {}), "kubernetes.io/hostname": name}
    # Without an API server that fills it in, as kubelets do.
    status = node["status"] = dict(node.get("status") or {})
    status.setdefault("allocatable", status.get("capacity", {}))
    if operation.label_node_prepare_strategy is not None:
        strategy = operation.label_node_prepare_strategy
        labels[strategy.label_key] = strategy.label_values[index % len(strategy.label_values)]
    if operation.unique_node_label_strategy is not None:
        labels[operation.unique_node_label_strategy.label_key] = f"{name}-{random.getrandbits(64):x}"
    if operation.node_allocatable_strategy is not None:
        status["allocatable"] = {**status["allocatable"], **operation.node_allocatable_strategy.node_allocatable}
    node["metadata"]["labels"] = labels
    return node


def make_csi_node(operation: CreateNodes, name: str) -> JSON | None:
    """The CSINode that goes with a node, if the operation limits volumes."""
    strategy = operation.node_allocatable_strategy
    if strategy is None:
        return None
    drivers = [
        {"name": driver, "nodeID": name, "allocatable": allocatable}
        for driver, allocatable in strategy.csi_node_allocatable.items()
    ]
    annotations = {MIGRATED_PLUGINS: ",".join(strategy.migrated_plugins)}
    return {
        "apiVersion": "storage.k8s.io/v1",
        "kind": "CSINode",
        "metadata": {"name": name, "annotations": annotations},
        "spec": {"drivers": drivers},
    }


def make_volume_pair(volume: Path, claim: Path, namespace: str, index: int) -> tuple[JSON, JSON]:
    """A persistent volume and the claim that is bound to it."""
    made, bound = load_template(volume).render(index), load_template(claim).render(index)
    claim_name, volume_name = f"pvc-{index}", f"{namespace}-vol-{index}"
    made["metadata"]["name"] = volume_name
    spec = made["spec"]
    if "csi" in spec:
        spec["csi"] = {**spec["csi"], "volumeHandle": volume_name}
    elif "awsElasticBlockStore" in spec:
        spec["awsElasticBlockStore"] = {**spec["awsElasticBlockStore"], "volumeID": f"vol-{index}"}
    reference = {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": claim_name}
    spec["claimRef"] = reference
    bound["metadata"]["name"] = claim_name
    bound["metadata"]["annotations"] = {**(bound["metadata"].get("annotations") or {}), BIND_COMPLETED: "yes"}
    bound["spec"]["volumeName"] = volume_name
    return made, bound


def with_volume(pod: JSON, index: int) -> JSON:
    """The pod with the claim of this index as its only volume."""
    pod["spec"] = {**pod["spec"], "volumes": [{"name": "vol", "persistentVolumeClaim": {"claimName": f"pvc-{index}"}}]}
    return pod


def make_slice(driver: str, node: str, devices: int) -> JSON:
    """The devices of a node, as scheduler_perf's test driver publishes them."""
    spec: JSON = {
        "driver": driver,
        "nodeName": node,
        "pool": {"name": node, "generation": 0, "resourceSliceCount": 1},
        "devices": [_device(index) for index in range(devices)],
    }
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": node},
        "spec": spec,
    }


def _device(index: int) -> JSON:
    attributes = {
        "model": {"string": "A100"},
        "family": {"string": "GPU"},
        "driverVersion": {"version": "1.2.3"},
        "dra.example.com/numa": {"int": index},
    }
    return {"name": f"instance-{index}", "attributes": attributes, "capacity": {"memory": {"value": "1Gi"}}}


def make_pod_claims(pod: Mapping[str, Any], templates: Mapping[str, JSON], random: Random) -> dict[str, JSON]:
    """The claims that a pod gets from claim templates, by the pod's name for them."""
    owner = {
        "apiVersion": "v1",
        "kind": "Pod",
        "name": pod["metadata"]["name"],
        "uid": pod["metadata"]["uid"],
        "controller": True,
        "blockOwnerDeletion": True,
    }
    claims = {}
    for each in pod["spec"].get("resourceClaims") or ():
        template = templates.get(each.get("resourceClaimTemplateName", ""))
        if template is not None:
            inner = template["spec"]
            metadata = dict(inner.get("metadata") or {})
            metadata["annotations"] = {**(metadata.get("annotations") or {}), POD_CLAIM_NAME: each["name"]}
            metadata["generateName"] = f"{pod['metadata']['name']}-{each['name']}-"
            metadata["ownerReferences"] = [owner]
            claim = {"apiVersion": "resource.k8s.io/v1", "kind": "ResourceClaim", "metadata": metadata}
            claims[each["name"]] = named({**claim, "spec": inner["spec"]}, random)
    return claims
