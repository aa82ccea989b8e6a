"""QOSSort: of pods with equal priority, Guaranteed ones are tried first, then Burstable, then BestEffort."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.framework.plugin import Plugin

GUARANTEED, BURSTABLE, BEST_EFFORT = range(3)
COUNTED = ("cpu", "memory")


class QOSSort(Plugin):
    """Sorts the queue by priority, then by quality of service, then by the time in the queue."""

    name = "QOSSort"

    def sort_key(self, pod: api.Pod) -> tuple[int, int]:
        return -pod.priority, qos_class(pod)


def qos_class(pod: api.Pod) -> int:
    """The pod's class, by the API server's rules: pod-level resources decide if there are any, else the containers."""
    own = pod.spec.resources
    if own is not None and (own.requests or own.limits):
        return _class([own])
    return _class([each.resources for each in (*pod.spec.containers, *pod.spec.init_containers)])


def _class(resources: list[api.ResourceRequirements]) -> int:
    asks, guaranteed = False, bool(resources)
    for each in resources:
        requests, limits = _amounts(each.requests), _amounts(each.limits)
        asks = asks or bool(requests or limits)
        # A limit without a request is the request, too.
        guaranteed = guaranteed and len(limits) == len(COUNTED) and limits | requests == limits
    if not asks:
        return BEST_EFFORT
    return GUARANTEED if guaranteed else BURSTABLE


def _amounts(given: api.ResourceList) -> dict[str, int]:
    """CPU and memory as numbers, so that 500m equals 0.5; without zeros."""
    amounts = {name: nanos(given[name]) for name in COUNTED if name in given}
    return {name: amount for name, amount in amounts.items() if amount}
