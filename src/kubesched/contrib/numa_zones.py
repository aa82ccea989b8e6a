"""NUMA zones of all nodes in columns, from NodeResourceTopology objects.

A column of a resource has an array per NUMA id, with an entry per row of the node table: what is available there, or
`ABSENT`. CPU is in thousandths, everything else in units.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt

from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints, Mask
from kubesched.contrib.numa_reports import (
    DEFAULT_MAX_NUMA_NODES,
    NodeResourceTopology,
    amount,
    kubelet_settings,
    numa_id,
)

ABSENT: Final = -1
UNKNOWN_DISTANCE: Final = 255
MAX_COST: Final = 1 << 31


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
        if changed is None or before[1] != now[1]:
            reports = {each.name for each in self._cluster.all(NodeResourceTopology)}
            moved = {name for name, row in self._row_of.items() if self._table.row_of.get(name) != row}
            for name in moved:
                self._lose(self._row_of.pop(name))
            changed = [*(reports if changed is None else changed), *(reports ^ self._row_of.keys())]
        for name in set(changed):
            self._update(name)

    def _update(self, name: str) -> None:
        """Take over the report of a node, or that it is gone."""
        report, row = self._cluster.get(NodeResourceTopology, name), self._table.row_of.get(name)
        if report is not None and row is not None:
            self._row_of[name] = row
            self._receive(row, report)
        elif name in self._row_of:
            self._lose(self._row_of.pop(name))

    def _receive(self, row: int, report: NodeResourceTopology) -> None:
        """Take over a new report."""
        self._set(row, report)

    def _lose(self, row: int) -> None:
        """A node or its report is gone."""
        self._clear(row)

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
        self.reported, self.single, self.by_pod = (grown(each, (rows,)) for each in flags)
        self.max_nodes = grown(self.max_nodes, (rows,), DEFAULT_MAX_NUMA_NODES)
        self.zones = grown(self.zones, (width, rows))
        self.distances = grown(self.distances, (width, width, rows), UNKNOWN_DISTANCE)
        self._available = {name: grown(each, (width, rows), ABSENT) for name, each in self._available.items()}

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
        for number, zone in zones.items():
            self.zones[number, row] = True
            for cost in zone.costs:
                if 0 <= (other := numa_id(cost.name)) < self.width:
                    self.distances[number, other, row] = max(-MAX_COST, min(cost.value, MAX_COST))
            for resource in zone.resources:
                if resource.name not in self._available:
                    self._available[resource.name] = self.available(resource.name)
                self._available[resource.name][number, row] = amount(resource.name, resource.available)


def grown(values: npt.NDArray[Any], shape: tuple[int, ...], fill: int = 0) -> npt.NDArray[Any]:
    """A larger array with the same values."""
    grown = np.full(shape, fill, dtype=values.dtype)
    grown[tuple(slice(0, length) for length in values.shape)] = values
    return grown
