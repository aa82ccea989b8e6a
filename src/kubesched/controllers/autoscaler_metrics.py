"""How many replicas a metric of an autoscaler asks for, from what pods use."""

from __future__ import annotations

import math
from dataclasses import dataclass

from kubesched.api.quantity import NANO, nanos
from kubesched.base.types import JSON
from kubesched.controllers.metrics import cpu_text
from kubesched.reconcile.usage import PodUsage, requested

TOLERANCE = 0.1
"""A ratio of usage to target this close to 1 changes nothing."""
_FAILURES = {
    "Pods": ("FailedGetPodsMetric", "unable to fetch metrics from custom metrics API: none is served in this cluster"),
    "Object": (
        "FailedGetObjectMetric",
        "unable to fetch metrics from custom metrics API: none is served in this cluster",
    ),
    "External": (
        "FailedGetExternalMetric",
        "unable to fetch metrics from external metrics API: none is served in this cluster",
    ),
}


class MetricError(Exception):
    """A metric that cannot be computed: the reason for a condition, and why."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Recommendation:
    """The replicas that a metric asks for, what the metric is called, and its status."""

    replicas: int
    name: str
    status: JSON


def recommend(metric: JSON, current: int, running: list[PodUsage], starting: int) -> Recommendation:
    """Compute one metric. `starting` pods do not run yet. Raises `MetricError`."""
    kind = metric.get("type")
    field = {"Resource": "resource", "ContainerResource": "containerResource"}.get(str(kind))
    if field is None:
        raise MetricError(
            *_FAILURES.get(str(kind), ("InvalidMetricSourceType", f'"{kind}" is not a known metric source'))
        )
    source = metric[field]
    resource, container, target = source["name"], source.get("container", ""), source["target"]
    label = f"{resource} container resource" if container else f"{resource} resource"
    if not running:
        raise MetricError(
            "FailedGetResourceMetric", f"failed to get {resource} usage: no metrics returned from resource metrics API"
        )
    used = [_used(each, resource, container) for each in running]
    if target.get("averageUtilization") is not None:
        requests = [_requests(each, resource, container) for each in running]
        total = sum(requests)
        percent = sum(used) * 100 // total if total else 0
        ratio = percent / target["averageUtilization"]
        value = {"averageUtilization": percent, "averageValue": _shown(resource, sum(used) // len(used))}
        label += " utilization (percentage of request)"
    else:
        average = sum(used) // len(used)
        ratio = average / max(nanos(target["averageValue"]), 1)
        value = {"averageValue": _shown(resource, average)}
    status = {"name": resource, **({"container": container} if container else {}), "current": value}
    replicas = _replicas(ratio, current, sum(each.is_ready for each in running), len(running) + starting)
    return Recommendation(replicas, label, {"type": kind, field: status})


def _replicas(ratio: float, current: int, ready: int, everybody: int) -> int:
    """Upstream's rule: pods that are not ready count as idle when that would scale up, and not at all otherwise."""
    if abs(ratio - 1) <= TOLERANCE:
        return current
    if ratio > 1 and everybody > ready:
        damped = ratio * ready / everybody
        if damped < 1 or damped - 1 <= TOLERANCE:
            return current
        return max(math.ceil(damped * everybody), current)
    return math.ceil(ratio * max(ready, 1))


def _used(usage: PodUsage, resource: str, container: str) -> int:
    return sum(amounts.get(resource, 0) for name, amounts in usage.containers.items() if container in ("", name))


def _requests(usage: PodUsage, resource: str, container: str) -> int:
    pod, total = usage.pod, 0
    for each in (*pod["spec"].get("initContainers", ()), *pod["spec"]["containers"]):
        if each["name"] not in usage.containers or container not in ("", each["name"]):
            continue
        amount = requested(each, resource)
        if not amount:
            why = f"missing request for {resource} in container {each['name']} of Pod {pod['metadata']['name']}"
            raise MetricError("FailedGetResourceMetric", f"failed to get {resource} utilization: {why}")
        total += amount
    return total


def _shown(resource: str, amount: int) -> str:
    return cpu_text(amount) if resource == "cpu" else str(amount // NANO)
