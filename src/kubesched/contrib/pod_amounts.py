"""What load-aware plugins count a pod with: CPU in thousandths, memory in bytes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import milli, value
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints

REQUEST_CPU, REQUEST_MEMORY, LIMIT_CPU, LIMIT_MEMORY = range(4)


def _amounts(given: api.ResourceList) -> Ints:
    cpu = milli(given["cpu"]) if "cpu" in given else 0
    return np.array([cpu, value(given["memory"]) if "memory" in given else 0], dtype=np.int64)


def _effective(spec: api.PodSpec, of: Callable[[api.Container], api.ResourceList]) -> Ints:
    """The sum of the containers, or the largest init container if that is more, and the overhead."""
    total = sum((_amounts(of(each)) for each in spec.containers), np.zeros(2, dtype=np.int64))
    for each in spec.init_containers:
        total = np.maximum(total, _amounts(of(each)))
    return total + _amounts(spec.overhead)


def requests_and_limits(pod_class: PodClass) -> Ints:
    """Requests and limits of CPU and memory. A limit is at least the request."""

    def make() -> Ints:
        requests = _effective(pod_class.spec, lambda each: each.resources.requests)
        limits = _effective(pod_class.spec, lambda each: each.resources.limits)
        return np.concatenate((requests, np.maximum(requests, limits)))

    return pod_class.remember("contrib requests and limits", make)


class RequestAndLimitSums:
    """Requests and limits of the pods on each row, summed as pods come and go. All profiles share one."""

    def __init__(self, cluster: ClusterState) -> None:
        self._table = cluster.nodes
        self._sums: Ints = np.zeros((4, self._table.capacity), dtype=np.int64)
        self._changed: Ints = np.zeros(self._table.capacity, dtype=np.int64)
        """The version of each row's last change."""
        self.version = 0
        """A number that grows with every change."""
        for info in cluster.pods.values():
            self._observe(info, 1)
        cluster.placement_observers.append(self._observe)

    def _observe(self, info: PodInfo, sign: int) -> None:
        self.sums()[:, info.row] += sign * requests_and_limits(info.pod_class)
        self.version += 1
        self._changed[info.row] = self.version

    def sums(self) -> Ints:
        """The sums, for all rows of the node table."""
        missing = self._table.capacity - self._sums.shape[1]
        if missing > 0:
            self._sums = np.concatenate((self._sums, np.zeros((4, missing), dtype=np.int64)), axis=1)
            self._changed = np.concatenate((self._changed, np.zeros(missing, dtype=np.int64)))
        return self._sums

    def changed_since(self, version: int) -> Ints:
        """The rows that have changed after a version."""
        return np.flatnonzero(self._changed > version)
