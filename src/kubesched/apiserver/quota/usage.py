"""What one object counts for in a quota, as a JSON resource list."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from kubesched.api.resources import is_extended, is_hugepage
from kubesched.apiserver.pod_resources import add, containers_of, pod_total
from kubesched.base.types import JSON

PODS, SERVICES, CLAIMS = "/pods", "/services", "/persistentvolumeclaims"
DEVICE_CLAIMS = "resource.k8s.io/resourceclaims"
_COMPUTE = ("cpu", "memory", "ephemeral-storage")
_BY_NAME = ("/configmaps", "/replicationcontrollers", "/resourcequotas", "/secrets")
"""Kinds that old quotas count by their plain name."""
_MAX_DEVICES = 32
"""What a claim for all devices counts for: the most that one may get."""
_REQUIRED = ("cpu", "memory", "requests.cpu", "requests.memory", "limits.cpu", "limits.memory")


def count_name(storage: str) -> str:
    """The name of a kind's number of objects: ``count/pods``, ``count/deployments.apps``."""
    group, _, plural = storage.rpartition("/")
    return f"count/{plural}.{group}" if group else f"count/{plural}"


def usage(storage: str, obj: JSON) -> JSON:
    """Everything that an object counts for."""
    found: JSON = {count_name(storage): "1"}
    if storage in _BY_NAME:
        found[storage[1:]] = "1"
    if (more := _USAGE.get(storage)) is not None:
        add(found, more(obj))
    return found


def _pod(pod: JSON) -> JSON:
    """A pod that has ended counts as an object only."""
    if (pod.get("status") or {}).get("phase") in ("Failed", "Succeeded"):
        return {}
    spec = pod["spec"]
    requests, limits = pod_total(spec, "requests"), pod_total(spec, "limits")
    for total in (requests, limits):
        add(total, {name: amount for name, amount in (spec.get("overhead") or {}).items() if name in total})
    return {"pods": "1", **_compute(requests, limits)}


def _compute(requests: JSON, limits: JSON) -> JSON:
    found: JSON = {}
    for name, amount in requests.items():
        if name in _COMPUTE or is_hugepage(name):
            found[name] = amount
        if name in found or is_extended(name):
            found[f"requests.{name}"] = amount
    for name in _COMPUTE:
        if name in limits:
            found[f"limits.{name}"] = limits[name]
    return found


def _service(service: JSON) -> JSON:
    spec = service.get("spec") or {}
    ports = spec.get("ports") or []
    nodes, balancers = 0, 0
    if spec.get("type") == "NodePort":
        nodes = len(ports)
    elif spec.get("type") == "LoadBalancer":
        balancers = 1
        allocates = spec.get("allocateLoadBalancerNodePorts") is not False
        nodes = len(ports) if allocates else sum(1 for port in ports if port.get("nodePort"))
    return {"services": "1", "services.nodeports": str(nodes), "services.loadbalancers": str(balancers)}


def _claim(claim: JSON) -> JSON:
    spec = claim.get("spec") or {}
    storage = ((spec.get("resources") or {}).get("requests") or {}).get("storage")
    found: JSON = {"persistentvolumeclaims": "1"}
    if storage is not None:
        found["requests.storage"] = storage
    if name := spec.get("storageClassName"):
        found |= {f"{name}.storageclass.storage.k8s.io/{key}": amount for key, amount in found.items()}
    return found


def _device_claim(claim: JSON) -> JSON:
    found: JSON = {}
    for request in ((claim.get("spec") or {}).get("devices") or {}).get("requests") or []:
        most: dict[str, int] = {}
        for each in request.get("firstAvailable") or [request.get("exactly") or {}]:
            name = f"{each.get('deviceClassName', '')}.deviceclass.resource.k8s.io/devices"
            count = _MAX_DEVICES if each.get("allocationMode") == "All" else int(each.get("count") or 0)
            most[name] = max(most.get(name, 0), count)
        add(found, {name: str(count) for name, count in most.items()})
    return found


_USAGE: dict[str, Callable[[JSON], JSON]] = {
    PODS: _pod,
    SERVICES: _service,
    CLAIMS: _claim,
    DEVICE_CLAIMS: _device_claim,
}


def missing(pod: JSON, hard: JSON) -> str:
    """The quota's CPU and memory that containers of a pod do not specify, in upstream's words."""
    required = [name for name in sorted(hard) if name in _REQUIRED]
    if not required or (pod["spec"].get("resources") or {}):
        return ""
    return "; ".join(f"{name} for: {','.join(sorted(lacking))}" for name, lacking in _lacking(pod, required))


def _lacking(pod: JSON, required: list[str]) -> Iterator[tuple[str, list[str]]]:
    has = {}
    for _, container in containers_of(pod["spec"]):
        resources = container.get("resources") or {}
        has[container.get("name", "")] = _compute(resources.get("requests") or {}, resources.get("limits") or {})
    for name in required:
        if lacking := [container for container, given in has.items() if name not in given]:
            yield name, lacking
