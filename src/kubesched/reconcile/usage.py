"""What pods use, as annotations say: the source of the metrics API and of autoscalers.

A pod's own annotations say what it uses. An annotation on its workload is a load that the ready pods share, so that
more pods means less for each. Without annotations a pod uses nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from kubesched.api.quantity import QuantityError, nanos
from kubesched.base.annotations import CPU_LOAD, CPU_USAGE, MEMORY_LOAD, MEMORY_USAGE
from kubesched.base.types import JSON
from kubesched.reconcile.access import (
    CONTROLLERS,
    DAEMON_SETS,
    DEPLOYMENTS,
    JOBS,
    PODS,
    REPLICA_SETS,
    STATEFUL_SETS,
    Access,
)

RESOURCES = {"cpu": (CPU_USAGE, CPU_LOAD), "memory": (MEMORY_USAGE, MEMORY_LOAD)}
_STORAGES = {
    "DaemonSet": DAEMON_SETS,
    "Deployment": DEPLOYMENTS,
    "Job": JOBS,
    "ReplicaSet": REPLICA_SETS,
    "ReplicationController": CONTROLLERS,
    "StatefulSet": STATEFUL_SETS,
}

Amounts = dict[str, int]
"""Amounts of resources in billionths."""


@dataclass(frozen=True, slots=True)
class PodUsage:
    """A running pod and what its containers use."""

    pod: JSON
    containers: dict[str, Amounts]

    @property
    def is_ready(self) -> bool:
        return _is_ready(self.pod)


def read_usage(text: str) -> tuple[int, bool]:
    """Read an annotation: an amount in billionths, or a number of percent and True. Raises ValueError."""
    try:
        if text.endswith("%"):
            percent = int(text[:-1])
            if percent >= 0:
                return percent, True
        elif (amount := nanos(text)) >= 0:
            return amount, False
    except (ValueError, QuantityError):
        pass
    raise ValueError(f'expected an amount such as 250m or 100Mi, or 80% of the requests, got "{text}"')


class UsageReader:
    """Reads what running pods use."""

    def __init__(self, access: Access, report: Callable[[JSON, str], None] | None = None) -> None:
        """`report` is called with a workload and what is wrong with its annotation, once for each wrong value."""
        self._access = access
        self._report = report
        self._reported: set[tuple[str, str]] = set()

    def read(self, namespace: str = "") -> Iterator[PodUsage]:
        """The usage of all running pods, or of those in a namespace."""
        pods = [pod for pod in self._access.list(PODS, namespace) if _runs(pod)]
        workloads: dict[str, JSON] = {}
        owners = [self._workload(pod, workloads) for pod in pods]
        sharing = Counter(
            owner["metadata"]["uid"] for pod, owner in zip(pods, owners, strict=True) if owner and _is_ready(pod)
        )
        for pod, owner in zip(pods, owners, strict=True):
            number = sharing[owner["metadata"]["uid"]] if owner and _is_ready(pod) else 0
            yield PodUsage(pod, _usage(pod, owner, number))

    def _workload(self, obj: JSON, known: dict[str, JSON]) -> JSON | None:
        """The workload that a pod belongs to: a Deployment rather than its ReplicaSet."""
        metadata = obj["metadata"]
        owner = next((each for each in metadata.get("ownerReferences") or () if each.get("controller")), None)
        if owner is None or owner["kind"] not in _STORAGES:
            return None
        if owner["uid"] not in known:
            found = self._access.get(_STORAGES[owner["kind"]], f"{metadata['namespace']}/{owner['name']}")
            known[owner["uid"]] = (found and self._workload(found, known)) or found or {}
            self._check(known[owner["uid"]])
        return known[owner["uid"]] or None

    def _check(self, workload: JSON) -> None:
        for name in (CPU_LOAD, MEMORY_LOAD):
            text = ((workload.get("metadata") or {}).get("annotations") or {}).get(name)
            if text is None or self._report is None or (workload["metadata"]["uid"], text) in self._reported:
                continue
            try:
                _amount(text)
            except ValueError as error:
                self._reported.add((workload["metadata"]["uid"], text))
                self._report(workload, f"annotation {name}: {error}")


def _usage(pod: JSON, owner: JSON | None, sharing: int) -> dict[str, Amounts]:
    containers = [*_sidecars(pod), *pod["spec"]["containers"]]
    result: dict[str, Amounts] = {each["name"]: {} for each in containers}
    for resource, (own, load) in RESOURCES.items():
        amount, percent = _read(pod, own)
        if owner is not None and sharing:
            amount += _load(owner, load) // sharing if not percent else 0
        for each in containers:
            part = requested(each, resource) * amount // 100 if percent else amount // len(containers)
            result[each["name"]][resource] = part
    return result


def _read(obj: JSON, name: str) -> tuple[int, bool]:
    text = (obj["metadata"].get("annotations") or {}).get(name)
    try:
        return read_usage(text) if text else (0, False)
    except ValueError:
        return 0, False


def _amount(text: str) -> int:
    amount, percent = read_usage(text)
    if percent:
        raise ValueError(f'expected an amount such as 2 or 500Mi, got "{text}"')
    return amount


def _load(workload: JSON, name: str) -> int:
    text = (workload["metadata"].get("annotations") or {}).get(name)
    try:
        return _amount(text) if text else 0
    except ValueError:
        return 0


def requested(container: JSON, resource: str) -> int:
    """What a container requests of a resource, in billionths."""
    return nanos(((container.get("resources") or {}).get("requests") or {}).get(resource, "0"))


def _sidecars(pod: JSON) -> list[JSON]:
    return [each for each in pod["spec"].get("initContainers") or () if each.get("restartPolicy") == "Always"]


def _runs(pod: JSON) -> bool:
    return bool(pod["status"].get("phase") == "Running")


def _is_ready(pod: JSON) -> bool:
    conditions = pod["status"].get("conditions") or ()
    return any(each.get("type") == "Ready" and each.get("status") == "True" for each in conditions)
