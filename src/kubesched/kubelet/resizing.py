"""Resizing pods in place: what a kubelet does when the requests or limits of a running pod change.

Until then the statuses of containers do not say what they have: it is what the spec says, for thousands of pods. The
API server writes it down when it accepts a resize (`rest/strategies.py`), so that the old amounts are not lost.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from kubesched.api.quantity import nanos
from kubesched.apiserver.pod_resources import add, pod_total
from kubesched.base.types import JSON
from kubesched.kubelet.status import Edit
from kubesched.reconcile.conditions import set_condition

PENDING = "PodResizePending"
_STATUSES = {"containers": "containerStatuses", "initContainers": "initContainerStatuses"}
_MILLI = 1_000_000


def changed_containers(pod: JSON) -> list[str]:
    """The names of the containers that have other amounts than the spec says."""
    return [
        spec["name"] for spec, status in _containers(pod) if status.get("resources", spec_of(spec)) != spec_of(spec)
    ]


def spec_of(container: JSON) -> JSON:
    """The requests and limits that a container should have."""
    return container.get("resources") or {}


def obstacle(pod: JSON, node: JSON, others: Iterable[JSON]) -> tuple[str, str]:
    """Why a node cannot grant what a pod asks for: reason and message, or nothing. `others` are the pods beside it."""
    wanted, used = pod_total(pod["spec"], "requests"), dict[str, Any]()
    for other in others:
        add(used, pod_total(_as_held(other), "requests"))
    capacity = (node.get("status") or {}).get("allocatable") or {}
    for name in ("cpu", "memory"):
        most, request = nanos(capacity.get(name, 0)), nanos(wanted.get(name, 0))
        if request > most:
            return (
                "Infeasible",
                f"Node didn't have enough capacity: {name}, {_shown(name, requested=request, capacity=most)}",
            )
    for name in ("cpu", "memory"):
        most, request, taken = (nanos(amounts.get(name, 0)) for amounts in (capacity, wanted, used))
        if request and request + taken > most:
            shown = _shown(name, requested=request, used=taken, capacity=most)
            return "Deferred", f"Node didn't have enough resource: {name}, {shown}"
    return "", ""


def _as_held(pod: JSON) -> JSON:
    """A pod's spec with what its containers have: a resize that waits or is refused takes no room."""
    held = dict(pod["spec"])
    for kind, field in _STATUSES.items():
        statuses = {each.get("name"): each for each in pod["status"].get(field) or []}
        held[kind] = [
            {**each, "resources": statuses.get(each["name"], {}).get("resources", spec_of(each))}
            for each in held.get(kind) or []
        ]
    return held


def _shown(name: str, **amounts: int) -> str:
    """Amounts in the units of kubelets: thousandths of processors, bytes of memory."""
    unit = _MILLI if name == "cpu" else 1_000_000_000
    return ", ".join(f"{word}: {amount // unit}" for word, amount in amounts.items())


def restarted(pod: JSON, names: Iterable[str]) -> Iterator[str]:
    """Those of the changed containers that must be restarted for it, by their resize policy."""
    for spec, status in _containers(pod):
        before, after = status.get("resources") or {}, spec_of(spec)
        for policy in spec.get("resizePolicy") or () if spec["name"] in names else ():
            if policy.get("restartPolicy") == "RestartContainer" and _amounts(before, policy) != _amounts(
                after, policy
            ):
                yield spec["name"]
                break


def _amounts(resources: JSON, policy: JSON) -> list[object]:
    return [(resources.get(field) or {}).get(policy.get("resourceName")) for field in ("requests", "limits")]


def granted() -> Edit:
    """The containers have what the spec says."""

    def edit(pod: JSON) -> None:
        for field in _STATUSES.values():
            if field in pod["status"]:
                pod["status"][field] = [dict(each) for each in pod["status"][field]]
        for spec, status in _containers(pod):
            if "resources" in status:
                status["resources"] = spec_of(spec)
                status["allocatedResources"] = spec_of(spec).get("requests") or {}
        conditions = pod["status"].get("conditions") or []
        pod["status"]["conditions"] = [each for each in conditions if each.get("type") != PENDING]
        pod["status"]["observedGeneration"] = pod["metadata"].get("generation", 1)

    return edit


def refused(reason: str, message: str, now: str) -> Edit:
    """The node cannot grant it, or not now."""

    def edit(pod: JSON) -> None:
        condition = {"type": PENDING, "status": "True", "reason": reason, "message": message, "lastProbeTime": None}
        pod["status"]["conditions"] = set_condition(pod["status"].get("conditions") or [], condition, now)
        pod["status"]["observedGeneration"] = pod["metadata"].get("generation", 1)

    return edit


def summary(pod: JSON) -> str:
    """The new amounts and the generation, as in the events of kubelets."""
    parts = [{"name": spec["name"], "resources": spec_of(spec)} for spec in pod["spec"]["containers"]]
    return json.dumps({"containers": parts, "generation": pod["metadata"].get("generation", 1)}, separators=(",", ":"))


def _containers(pod: JSON) -> Iterator[tuple[JSON, JSON]]:
    """The containers and their statuses."""
    for kind, field in _STATUSES.items():
        statuses = {each.get("name"): each for each in pod["status"].get(field) or []}
        for spec in pod["spec"].get(kind) or []:
            yield spec, statuses.get(spec["name"]) or {}
