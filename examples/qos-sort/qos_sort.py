"""QOSSort: of pods with the same priority, Guaranteed ones are tried first, then Burstable, then BestEffort."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched import Plugin, Pod, Quantity, nanos

GUARANTEED, BURSTABLE, BEST_EFFORT = range(3)


class QOSSort(Plugin):
    """Sorts the queue by priority, then by quality of service."""

    name = "QOSSort"

    def sort_key(self, pod: Pod) -> tuple[int, int]:
        """Smaller keys come first; of equal keys, the pod that has waited longer. The key is computed once per pod and
        compared often, which is why this is faster than `less(a, b)`."""
        return -pod.priority, qos_class(pod)


def qos_class(pod: Pod) -> int:
    """The class that the API server would put into the pod's status.

    BestEffort asks for nothing; Guaranteed limits CPU and memory of every container to what it requests.
    """
    asks, guaranteed = False, True
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        requests, limits = _amounts(container.resources.requests), _amounts(container.resources.limits)
        asks = asks or bool(requests or limits)
        # A limit without a request is the request, too.
        guaranteed = guaranteed and len(limits) == 2 and limits | requests == limits
    if not asks:
        return BEST_EFFORT
    return GUARANTEED if guaranteed else BURSTABLE


def _amounts(given: Mapping[str, Quantity]) -> dict[str, int]:
    """CPU and memory in numbers, so that 500m equals 0.5; without zeros."""
    amounts = {name: nanos(given[name]) for name in ("cpu", "memory") if name in given}
    return {name: amount for name, amount in amounts.items() if amount}
