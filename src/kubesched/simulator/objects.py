"""Nodes and pods in one line, because a scenario is about what happens to them and not about how they are written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from kubesched.base.types import JSON
from kubesched.reconcile.annotations import RUN_TIME

PAUSE = "registry.k8s.io/pause:3.10"


def node(
    name: str,
    *,
    cpu: str | int = "",
    memory: str = "",
    pods: int = 0,
    labels: Mapping[str, str] | None = None,
    images: Sequence[str] = (),
    **spec: Any,
) -> JSON:
    """A node; what is not given is up to its simulated kubelet. Further arguments are fields of its spec.

    `images` it has from the start: a kubelet need not pull them, which would be a change to the node.
    """
    given = {"cpu": str(cpu), "memory": memory, "pods": str(pods or "")}
    capacity = {resource: amount for resource, amount in given.items() if amount}
    body: JSON = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}, "spec": spec}
    if labels:
        body["metadata"]["labels"] = dict(labels)
    if capacity:
        body["status"] = {"capacity": capacity, "allocatable": dict(capacity)}
    if images:
        body.setdefault("status", {})["images"] = [{"names": [image], "sizeBytes": 1_000_000} for image in images]
    return body


def pod(
    name: str,
    *,
    cpu: str | int = "",
    memory: str = "",
    labels: Mapping[str, str] | None = None,
    namespace: str = "default",
    run_time: str = "",
    **spec: Any,
) -> JSON:
    """A pod with one container. With a `run_time` such as ``90s`` it ends after that. Further arguments are fields of
    its spec."""
    requests = {resource: str(amount) for resource, amount in (("cpu", cpu), ("memory", memory)) if amount}
    container: JSON = {"name": "main", "image": PAUSE}
    if requests:
        container["resources"] = {"requests": requests}
    metadata: JSON = {"name": name, "namespace": namespace}
    if labels:
        metadata["labels"] = dict(labels)
    if run_time:
        metadata["annotations"] = {RUN_TIME: run_time}
        spec = {"restartPolicy": "Never", **spec}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [container], **spec}}
