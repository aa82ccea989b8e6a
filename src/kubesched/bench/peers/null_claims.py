"""What the null binder writes to resource claims: the least that a pod with claims needs before its binding."""

from __future__ import annotations

import msgspec

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.types import JSON


def claim_names(pod: api.Pod) -> list[str] | None:
    """The names of a pod's claims, or None if some are not made yet."""
    made = {status.name: status.resource_claim_name for status in pod.status.resource_claim_statuses}
    names = [each.resource_claim_name or made.get(each.name) for each in pod.spec.resource_claims]
    return None if None in names else [name for name in names if name]


def protected(claim: dra.ResourceClaim) -> JSON:
    """A claim with the finalizer of claims that are in use."""
    return {**_whole(claim), "metadata": {**_metadata(claim), "finalizers": [dra.FINALIZER]}}


def allocated(claim: dra.ResourceClaim, pod: api.Pod, node: str) -> JSON:
    """A claim with a made-up device of a node for each request, reserved for a pod."""
    results = [
        {"request": request.name, "driver": "null.kubesched.io", "pool": node, "device": f"device-{pod.uid}"}
        for request in claim.spec.devices.requests
    ]
    fields = [{"key": "metadata.name", "operator": "In", "values": [node]}]
    allocation = {
        "devices": {"results": results},
        "nodeSelector": {"nodeSelectorTerms": [{"matchFields": fields}]},
    }
    users = [{"resource": "pods", "name": pod.name, "uid": pod.uid}]
    status = {"allocation": allocation, "reservedFor": users}
    return {**_whole(claim), "metadata": _metadata(claim), "status": status}


def _whole(claim: dra.ResourceClaim) -> JSON:
    return {"apiVersion": claim.api_version, "kind": claim.kind, "spec": msgspec.to_builtins(claim.spec)}


def _metadata(claim: dra.ResourceClaim) -> JSON:
    """Without a version: nobody else writes these claims."""
    return {"name": claim.name, "namespace": claim.namespace, "uid": claim.uid}
