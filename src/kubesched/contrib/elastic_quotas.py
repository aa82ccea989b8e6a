"""ElasticQuotas: what each namespace is guaranteed, what it may borrow, and what it uses.

Amounts are in the scheduler's units: thousandths of a CPU, bytes, pieces.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import ClassVar, Final

from kubesched.api import objects as api
from kubesched.api.meta import Part
from kubesched.api.quantity import milli, value
from kubesched.api.resources import Requests
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState

NATIVE: Final = ("cpu", "memory", "ephemeral-storage")
Amounts = Mapping[str, int]


class QuotaSpec(Part, frozen=True):
    """A guaranteed amount, and the most that a namespace may use."""

    min: api.ResourceList | None = None
    max: api.ResourceList | None = None


class ElasticQuota(api.Object, frozen=True):
    """The quota of a namespace."""

    api_version: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"
    kind: ClassVar[str] = "ElasticQuota"
    plural: ClassVar[str] = "elasticquotas"

    spec: QuotaSpec = QuotaSpec()


@dataclass(frozen=True, slots=True)
class Bounds:
    """A quota in numbers. `max` is None if there is no limit."""

    min: Amounts
    max: Amounts | None


class QuotaUsage:
    """What the pods of each namespace use, assumed ones included. All profiles share one."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._used: dict[str, Counter[str]] = {}
        self._bounds: dict[str, Bounds] = {}
        self._version = -1
        for info in cluster.pods.values():
            self._observe(info, 1)
        cluster.placement_observers.append(self._observe)

    def _observe(self, info: PodInfo, sign: int) -> None:
        used = self._used.setdefault(info.pod.namespace, Counter())
        for name, amount in amounts(info.pod_class.requests).items():
            used[name] += sign * amount

    @property
    def bounds(self) -> dict[str, Bounds]:
        """The quotas by namespace. Of several in a namespace, the first by name counts."""
        version = self._cluster.version(ElasticQuota)
        if version != self._version:
            self._version = version
            quotas = sorted(self._cluster.all(ElasticQuota), key=lambda each: each.key, reverse=True)
            self._bounds = {each.namespace: _bounds(each.spec) for each in quotas}
        return self._bounds

    def snapshot(self) -> QuotaSnapshot:
        """The usage now, to suppose changes on."""
        bounds = self.bounds
        return QuotaSnapshot(bounds, {namespace: self._used.get(namespace, Counter()) for namespace in bounds})


class QuotaSnapshot:
    """Quotas and their usage within one cycle. A clone may be changed."""

    def __init__(self, bounds: Mapping[str, Bounds], used: dict[str, Counter[str]]) -> None:
        self.bounds = bounds
        self._used = used

    def clone(self) -> QuotaSnapshot:
        """A copy for a what-if."""
        return QuotaSnapshot(self.bounds, {namespace: Counter(used) for namespace, used in self._used.items()})

    def __contains__(self, namespace: str) -> bool:
        return namespace in self.bounds

    def add(self, info: PodInfo, sign: int = 1) -> None:
        """Suppose a pod were there, or with -1 that it were not."""
        used = self._used.get(info.pod.namespace)
        if used is not None:
            for name, amount in amounts(info.pod_class.requests).items():
                used[name] += sign * amount

    def over_min(self, namespace: str, request: Amounts | None = None) -> bool:
        """Whether a namespace uses more than it is guaranteed, perhaps with a request more. Without a request, all that
        it uses counts; with one, of extended resources only those that are requested."""
        used = self._used[namespace]
        if request is None:
            return exceeds(used, {}, self.bounds[namespace].min, 0)
        return exceeds(request, used, self.bounds[namespace].min, 0)

    def over_max(self, namespace: str, request: Amounts) -> bool:
        """Whether a namespace would use more than it may."""
        limit = self.bounds[namespace].max
        return limit is not None and exceeds(request, self._used[namespace], limit, None)

    def total_over_min(self, request: Amounts) -> bool:
        """Whether all namespaces together would use more than all are guaranteed."""
        used = total([*self._used.values(), request])
        return exceeds(used, {}, total(each.min for each in self.bounds.values()), 0)


def total(parts: Iterable[Amounts]) -> Counter[str]:
    """The sum of amounts."""
    found: Counter[str] = Counter()
    for each in parts:
        for name, amount in each.items():
            found[name] += amount
    return found


def exceeds(request: Amounts, used: Amounts, bound: Amounts, unbound: int | None) -> bool:
    """Whether request and usage together are more than a bound.

    A native resource that the bound does not name is bounded by 0, as upstream has it. `unbound` is the bound of other
    resources that it does not name; None for no bound.
    """
    for name in (*NATIVE, *(each for each in request if each not in NATIVE)):
        limit = bound.get(name, 0 if name in NATIVE else unbound)
        if limit is not None and request.get(name, 0) + used.get(name, 0) > limit:
            return True
    return False


def amounts(requests: Requests) -> Amounts:
    """A pod's requests by name."""
    native = {"cpu": requests.milli_cpu, "memory": requests.memory, "ephemeral-storage": requests.ephemeral_storage}
    return {name: amount for name, amount in (native | requests.scalar).items() if amount}


def _bounds(spec: QuotaSpec) -> Bounds:
    return Bounds(_amounts(spec.min or {}), None if spec.max is None else _amounts(spec.max))


def _amounts(given: api.ResourceList) -> Amounts:
    return {name: milli(each) if name == "cpu" else value(each) for name, each in given.items()}
