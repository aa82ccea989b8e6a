"""Whether the pods that one process has bound to a node fit there together, whatever others have done to the node."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kubesched.api.quantity import nanos
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.base.types import JSON

UNITS = {"cpu": 10**6, "memory": 10**9, "pods": 10**9}
"""Nanos of one unit: thousandths of a CPU, bytes, pods."""


class _Bound(NamedTuple):
    key: str
    node: str
    owner: object
    amounts: Counter[str]
    ports: frozenset[int]
    claims: frozenset[str]


class ProcessRoom:
    """Counts what each process has bound to each node. A node has room for the most that it ever had: a process may
    have decided before it heard of a change."""

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report
        self._bound: dict[str, _Bound] = {}
        self._most: dict[str, Counter[str]] = {}
        self._volumes: dict[str, int] = {}

    def on_node(self, event: StoreEvent) -> None:
        """Follow the amounts of a node."""
        allocatable = (event.record.load().get("status") or {}).get("allocatable") or {}
        self._most[event.record.key] = self._most.get(event.record.key, Counter()) | _amounts(allocatable)

    def on_csi_node(self, event: StoreEvent) -> None:
        """Follow how many volumes a node takes."""
        for driver in (event.record.load().get("spec") or {}).get("drivers") or ():
            count = (driver.get("allocatable") or {}).get("count")
            if count is not None:
                self._volumes[event.record.key] = max(count, self._volumes.get(event.record.key, 0))

    def on_pod(self, event: StoreEvent, pod: JSON) -> None:
        """Forget pods that are gone or have ended."""
        ended = (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
        if ended or event.change is ChangeType.DELETED:
            self._bound.pop(pod["metadata"]["uid"], None)

    def check(self, pod: JSON, node: str, owner: object, *, limits_known: bool) -> None:
        """A process has bound a pod. Volumes count if the process knew the claims and the limit when it decided."""
        new = _bound(pod, node, owner)
        others = [each for each in self._bound.values() if each.node == node and each.owner is owner]
        self._bound[pod["metadata"]["uid"]] = new
        most = self._most.get(node, Counter())
        used = sum((each.amounts for each in (new, *others)), Counter())
        for name in UNITS:
            if used[name] > most[name]:
                self._over(new, f"{used[name]} of {name}, and the node has {most[name]}")
        for other in others:
            for port in new.ports & other.ports:
                self._over(new, f"host port {port} for {other.key} too")
        claims = frozenset().union(new.claims, *(each.claims for each in others))
        if new.claims and limits_known and len(claims) > self._volumes.get(node, len(claims)):
            self._over(new, f"{len(claims)} volumes, and the node takes {self._volumes[node]}")

    def _over(self, new: _Bound, what: str) -> None:
        self._report("over-allocated", f"with {new.key}, one process has bound to {new.node}: {what}")


def _amounts(quantities: JSON) -> Counter[str]:
    return Counter({name: int(nanos(quantities.get(name, "0")) // unit) for name, unit in UNITS.items()})


def _bound(pod: JSON, node: str, owner: object) -> _Bound:
    spec, meta = pod["spec"], pod["metadata"]
    requests = [(each.get("resources") or {}).get("requests") or {} for each in spec["containers"]]
    amounts = sum((_amounts({**each, "pods": "0"}) for each in requests), Counter({"pods": 1}))
    ports = [port["hostPort"] for each in spec["containers"] for port in each.get("ports") or () if "hostPort" in port]
    claims = [each["persistentVolumeClaim"]["claimName"] for each in spec.get("volumes") or () if _is_claim(each)]
    key = f"{meta['namespace']}/{meta['name']}"
    return _Bound(key, node, owner, amounts, frozenset(ports), frozenset(claims))


def _is_claim(volume: JSON) -> bool:
    return "persistentVolumeClaim" in volume
