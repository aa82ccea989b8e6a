"""NUMA zones of all nodes in columns, from NodeResourceTopology objects.

A column of a resource has an array per NUMA id, with an entry per row of the node table: what is available there, or
`ABSENT`. CPU is in thousandths, everything else in units.
"""

from __future__ import annotations

import re
from collections.abc import Container
from typing import Any, ClassVar, Final, Literal

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.api.meta import Part
from kubesched.api.quantity import milli, value
from kubesched.api.resources import is_hugepage, is_native
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints, Mask
from kubesched.contrib.qos_sort import GUARANTEED, qos_class

ABSENT: Final = -1
ForeignPods = Literal["None", "All", "OnlyExclusiveResources"]
UNKNOWN_DISTANCE: Final = 255
MAX_NUMA_ID: Final = 64
DEFAULT_MAX_NUMA_NODES: Final = 8
MOST_NUMA_NODES: Final = 1024
_ZONE_NAME: Final = re.compile(r"(?:.*?-)?([0-9]+)")
POLICIES: Final = {
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "RestrictedContainerLevel": ("restricted", "container"),
}
"""Deprecated names of the kubelet's policy and scope."""


class NamedValue(Part, frozen=True):
    name: str = ""
    value: str = ""


class ZoneCost(Part, frozen=True):
    name: str = ""
    value: int = 0


class ZoneResource(Part, frozen=True):
    name: str = ""
    available: api.Quantity = "0"


class Zone(Part, frozen=True):
    name: str = ""
    type: str = ""
    costs: tuple[ZoneCost, ...] = ()
    resources: tuple[ZoneResource, ...] = ()


class NodeResourceTopology(api.Object, frozen=True):
    """The zones of the node of the same name, as an agent on the node reports them."""

    api_version: ClassVar[str] = "topology.node.k8s.io/v1alpha2"
    kind: ClassVar[str] = "NodeResourceTopology"
    plural: ClassVar[str] = "noderesourcetopologies"
    namespaced: ClassVar[bool] = False

    topology_policies: tuple[str, ...] = ()
    attributes: tuple[NamedValue, ...] = ()
    zones: tuple[Zone, ...] = ()


class ZoneColumns:
    """The zones of all nodes. All profiles share one."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._table = cluster.nodes
        self._versions = (-1, -1)
        self._row_of: dict[str, int] = {}
        self.version = 0
        """A number that grows when topologies or nodes change."""
        self.width = 1
        """How many NUMA ids there are."""
        self.reported: Mask = np.zeros(0, dtype=np.bool_)
        """Which rows have a topology."""
        self.zones: npt.NDArray[np.bool_] = np.zeros((1, 0), dtype=np.bool_)
        """Which NUMA ids a row has, by NUMA id and row."""
        self.single: Mask = np.zeros(0, dtype=np.bool_)
        """Where the kubelet's policy is single-numa-node."""
        self.by_pod: Mask = np.zeros(0, dtype=np.bool_)
        """Where the policy's scope is the pod, not the container."""
        self.max_nodes: Ints = np.zeros(0, dtype=np.int64)
        self.distances: npt.NDArray[np.int64] = np.zeros((1, 1, 0), dtype=np.int64)
        self._available: dict[str, Ints] = {}
        self.changes: dict[int, int] = {}
        """How often the topology of a row has changed."""

    def refresh(self) -> None:
        """Take over what has changed."""
        if len(self.reported) < len(self._table.valid):
            self._grow(len(self._table.valid))
            self.version += 1
        now = (self._cluster.version(NodeResourceTopology), self._table.node_version)
        if now == self._versions:
            return
        before, self._versions = self._versions, now
        self.version += 1
        changed = None if before[0] < 0 else self._cluster.changed_since(NodeResourceTopology, before[0])
        known = {each.name: each for each in self._cluster.all(NodeResourceTopology)}
        for name in [name for name, row in self._row_of.items() if name not in known or self._moved(name, row)]:
            self._clear(self._row_of.pop(name))
        for name in known if changed is None else {*changed, *(known.keys() - self._row_of.keys())}:
            row = self._table.row_of.get(name)
            if row is not None and name in known:
                self._row_of[name] = row
                self._set(row, known[name])

    def _moved(self, name: str, row: int) -> bool:
        return self._table.row_of.get(name) != row

    def available(self, resource: str) -> Ints:
        """What is available of a resource, by NUMA id and row."""
        found = self._available.get(resource)
        return np.full(self.zones.shape, ABSENT, dtype=np.int64) if found is None else found

    def resources(self, row: int) -> set[str]:
        """The resources that the zones of a row have."""
        return {name for name, column in self._available.items() if (column[:, row] != ABSENT).any()}

    def _grow(self, rows: int, width: int = 0) -> None:
        rows, width = max(rows, len(self.reported)), max(width, self.width)
        if (width, rows) == self.zones.shape:
            return
        self.width = width
        flags = (self.reported, self.single, self.by_pod)
        self.reported, self.single, self.by_pod = (_grown(each, (rows,)) for each in flags)
        self.max_nodes = _grown(self.max_nodes, (rows,), DEFAULT_MAX_NUMA_NODES)
        self.zones = _grown(self.zones, (width, rows))
        self.distances = _grown(self.distances, (width, width, rows), UNKNOWN_DISTANCE)
        self._available = {name: _grown(each, (width, rows), ABSENT) for name, each in self._available.items()}

    def _clear(self, row: int) -> None:
        self.reported[row] = self.single[row] = self.by_pod[row] = False
        self.zones[:, row] = False
        self.distances[:, :, row] = UNKNOWN_DISTANCE
        for each in self._available.values():
            each[:, row] = ABSENT

    def _set(self, row: int, topology: NodeResourceTopology) -> None:
        zones = {number: zone for zone in topology.zones if zone.type == "Node" and (number := numa_id(zone.name)) >= 0}
        self._grow(0, max(zones, default=0) + 1)
        self._clear(row)
        policy, scope, self.max_nodes[row] = kubelet_settings(topology)
        self.reported[row], self.single[row], self.by_pod[row] = True, policy == "single-numa-node", scope == "pod"
        self.changes[row] = self.changes.get(row, 0) + 1
        for number, zone in zones.items():
            self.zones[number, row] = True
            for cost in zone.costs:
                if 0 <= (other := numa_id(cost.name)) < self.width:
                    self.distances[number, other, row] = cost.value
            for resource in zone.resources:
                if resource.name not in self._available:
                    self._available[resource.name] = self.available(resource.name)
                self._available[resource.name][number, row] = amount(resource.name, resource.available)


def amount(resource: str, quantity: api.Quantity) -> int:
    """A quantity as columns have it."""
    return milli(quantity) if resource == "cpu" else value(quantity)


def numa_id(name: str) -> int:
    """The number in a zone's name, such as node-0; -1 if there is none, or if it is too large."""
    match = _ZONE_NAME.fullmatch(name)
    return int(match[1]) if match and int(match[1]) < MAX_NUMA_ID else -1


def kubelet_settings(topology: NodeResourceTopology) -> tuple[str, str, int]:
    """The kubelet's policy, its scope, and how many NUMA nodes it supports. Attributes have precedence."""
    policy, scope = POLICIES.get(next(iter(topology.topology_policies), ""), ("none", "container"))
    most = DEFAULT_MAX_NUMA_NODES
    for each in topology.attributes:
        if each.name == "topologyManagerScope" and each.value in ("container", "pod"):
            scope = each.value
        elif each.name == "topologyManagerPolicy" and each.value in (
            "none",
            "best-effort",
            "restricted",
            "single-numa-node",
        ):
            policy = each.value
        elif each.name == "topologyManagerMaxNUMANodes" and each.value.isdecimal() and int(each.value) > 1:
            most = min(int(each.value), MOST_NUMA_NODES)
    return policy, scope, most


def has_exclusive_resources(pod: api.Pod, in_zones: Container[str]) -> bool:
    """Whether a container holds whole CPUs, memory or devices of zones for itself while the pod runs."""
    guaranteed = qos_class(pod) == GUARANTEED
    sidecars = (each for each in pod.spec.init_containers if each.restart_policy == "Always")
    return any(
        _is_exclusive(name, quantity, guaranteed, in_zones)
        for container in (*pod.spec.containers, *sidecars)
        for name, quantity in (container.resources.requests or container.resources.limits).items()
    )


def _is_exclusive(name: str, quantity: api.Quantity, guaranteed: bool, in_zones: Container[str]) -> bool:
    if not is_native(name):
        return name in in_zones
    if not guaranteed or milli(quantity) <= 0:
        return False
    return milli(quantity) % 1000 == 0 if name == "cpu" else name == "memory" or is_hugepage(name)


class PlacedSinceReport:
    """Pods that were placed on a node after its last report. What they request may come from any zone, so it counts as
    taken from each, until the next report."""

    def __init__(self, cluster: ClusterState, zones: ZoneColumns, foreign: ForeignPods) -> None:
        self._cluster = cluster
        self._zones = zones
        self._foreign = foreign
        """Which pods count that others have placed."""
        self._pods: dict[int, dict[str, tuple[PodClass, int]]] = {}
        """By row and UID: the pod's class, and the number of reports before it."""
        self._taken: dict[str, Ints] = {}
        """What these pods request, by resource and row."""
        self._version = -1
        cluster.placement_observers.append(self._observe)

    def _observe(self, info: PodInfo, sign: int) -> None:
        if sign < 0:
            self._forget(info.row, info.pod.uid)
            return
        self._zones.refresh()  # reports that have come before the pod
        if info.pod.uid in self._cluster.assumed or self._counts(info):
            seen = self._zones.changes.get(info.row, 0)
            self._pods.setdefault(info.row, {})[info.pod.uid] = (info.pod_class, seen)
            self._add(info.row, info.pod_class, 1)

    def _counts(self, info: PodInfo) -> bool:
        """Whether a pod counts that another scheduler has placed."""
        if self._foreign != "OnlyExclusiveResources":
            return self._foreign == "All"
        return has_exclusive_resources(info.pod, self._zones.resources(info.row))

    def _forget(self, row: int, uid: str) -> None:
        pods = self._pods.get(row, {})
        pod_class, _ = pods.pop(uid, (None, 0))
        if pod_class is not None:
            self._add(row, pod_class, -1)
        if not pods:
            self._pods.pop(row, None)

    def _add(self, row: int, pod_class: PodClass, sign: int) -> None:
        requests = pod_class.requests
        for name, wanted in {"cpu": requests.milli_cpu, "memory": requests.memory, **requests.scalar}.items():
            taken = self._taken.get(name, np.zeros(0, dtype=np.int64))
            if len(taken) <= row:
                taken = self._taken[name] = _grown(taken, (self._cluster.nodes.capacity,))
            taken[row] += sign * wanted

    def taken(self, resource: str, size: int) -> Ints | None:
        """What is taken of a resource on each row; None if nothing is."""
        found = self._taken.get(resource)
        if found is None or not self._pods:
            return None
        return found if len(found) == size else _grown(found[:size], (size,))

    def forget_reported(self) -> None:
        """Drop the pods that a report has come after, and those on nodes that report nothing."""
        if self._version == self._zones.version:
            return
        self._version = self._zones.version
        for row, pods in list(self._pods.items()):
            reports, reported = self._zones.changes.get(row, 0), self._zones.reported[row]
            for uid in [uid for uid, (_, before) in pods.items() if before != reports or not reported]:
                self._forget(row, uid)


def _grown(values: npt.NDArray[Any], shape: tuple[int, ...], fill: int = 0) -> npt.NDArray[Any]:
    grown = np.full(shape, fill, dtype=values.dtype)
    grown[tuple(slice(0, length) for length in values.shape)] = values
    return grown
