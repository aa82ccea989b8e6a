"""Measured loads of nodes in columns, read every half minute.

An annotation of a node replaces what is measured: `kubesched.io/node-load: cpu=45:10,memory=30` says that its CPU is
busy to 45% on average, with a standard deviation of 10%, and its memory to 30%. Simulations use it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.base.annotations import NODE_LOAD
from kubesched.base.load_text import load_parts
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Mask
from kubesched.contrib.load_sources import (
    AVERAGE,
    CPU,
    DEVIATION,
    LATEST,
    MEMORY,
    LoadMetric,
    LoadSource,
    NodeLoads,
    capacity,
)
from kubesched.framework.handle import Handle

Floats = npt.NDArray[np.float64]

UPDATE_SECONDS: Final = 30.0
AT_ONCE: Final = 500
"""How many nodes are updated before others get their turn."""
_TYPES: Final = {"cpu": CPU, "memory": MEMORY}
COLUMNS: Final = 7
LAST_CPU, FIRST_CPU, CPU_MEAN, CPU_DEVIATION, MEMORY_MEAN, MEMORY_DEVIATION, CPU_CAPACITY = range(COLUMNS)


class NodeLoadColumns:
    """The loads of all nodes from one source. A value that was not measured is NaN."""

    def __init__(self, source: LoadSource, handle: Handle) -> None:
        self._source = source
        self._handle = handle
        self._table = handle.cluster.nodes
        self._loads = NodeLoads(0.0, {})
        self._values: Floats = np.full((COLUMNS, 0), np.nan)
        self._seen: list[api.Node | None] = []
        self._node_version = -1
        self._failed = ""
        self.version = 0
        """A number that grows when a value changes."""
        if hasattr(handle, "spawn"):
            handle.spawn(self._follow())

    @property
    def end(self) -> float:
        """When the time over which the loads were measured ended."""
        return self._loads.end

    def values(self) -> Floats:
        """The columns, for all rows of the node table."""
        if self._node_version != self._table.node_version or self._values.shape[1] < self._table.size:
            self._node_version = self._table.node_version
            self._grow()
            nodes = self._table.nodes
            self._refresh(row for row in range(self._table.size) if nodes[row] is not self._seen[row])
        return self._values

    async def _follow(self) -> None:
        while not self._table.valid_count:
            await self._handle.clock.sleep(1)
        while True:
            try:
                loads = await self._source.read(self._handle)
                self._failed = ""
            except Exception as problem:  # whatever a source raises, the plugin goes on with what it has
                # What was measured gets old: pods placed since stay missing. Loads by annotation alone do not.
                loads = self._loads if self._loads.nodes else NodeLoads(self._handle.clock.now(), {})
                self._report(problem)
            self._loads = loads
            self._grow()
            for start in range(0, self._table.size, AT_ONCE):
                self._refresh(range(start, min(start + AT_ONCE, self._table.size)))
                await self._handle.clock.sleep(0)
            await self._handle.clock.sleep(UPDATE_SECONDS)

    def _report(self, problem: Exception) -> None:
        """Log a failure once, not every half minute."""
        text = f"{type(problem).__name__}: {problem}"
        if text != self._failed:
            self._failed = text
            self._handle.log(0, "Unable to update metrics", err=text, advice=self._source.advice)

    def _grow(self) -> None:
        size = self._table.size
        if self._values.shape[1] < size:
            more = np.full((COLUMNS, self._table.capacity - self._values.shape[1]), np.nan)
            self._values = np.concatenate((self._values, more), axis=1)
        self._seen += [None] * (size - len(self._seen))

    def _refresh(self, rows: Iterable[int]) -> None:
        for row in rows:
            self._seen[row] = node = self._table.nodes[row]
            self._values[:, row] = np.nan if node is None else self._of(node)
        self.version += 1

    def _of(self, node: api.Node) -> list[float]:
        text = node.annotations.get(NODE_LOAD)
        metrics = self._loads.nodes.get(node.name, ()) if text is None else simulated(text)
        last, first = _cpu(metrics)
        return [last, first, *_moments(metrics, CPU), *_moments(metrics, MEMORY), float(capacity(node, "cpu"))]


class NodeLoadSources:
    """The columns of each source, shared by all plugins and profiles that read it."""

    def __init__(self, cluster: ClusterState) -> None:
        self._columns: dict[LoadSource, NodeLoadColumns] = {}

    def of(self, source: LoadSource, handle: Handle) -> NodeLoadColumns:
        """The columns of a source, read from now on."""
        if source not in self._columns:
            self._columns[source] = NodeLoadColumns(source, handle)
        return self._columns[source]


def node_loads(handle: Handle, source: LoadSource) -> NodeLoadColumns:
    """The loads from a source."""
    return handle.cluster.share(NodeLoadSources).of(source, handle)


def simulated(text: str) -> list[LoadMetric]:
    """The metrics that an annotation stands for; parts that cannot be read are ignored. Kubelets report them."""
    found = []
    for match in load_parts(text):
        if match is not None:
            kind = _TYPES[match[1]]
            found.append(LoadMetric(kind, AVERAGE, float(match[2])))
            found.append(LoadMetric(kind, DEVIATION, float(match[3] or 0)))
    return found


def _cpu(metrics: Sequence[LoadMetric]) -> tuple[float, float]:
    """The last and the first CPU load that is an average or the latest value."""
    found = [each.value for each in metrics if each.type == CPU and each.operator in (AVERAGE, LATEST)]
    return (found[-1], found[0]) if found else (np.nan, np.nan)


def _moments(metrics: Sequence[LoadMetric], kind: str) -> tuple[float, float]:
    """Mean and deviation. The latest value stands in for a mean that was not measured."""
    own = [each for each in metrics if each.type == kind]
    if not own:
        return np.nan, np.nan
    means = [each.value for each in own if each.operator == AVERAGE]
    others = [each.value for each in own if each.operator in ("", LATEST)]
    deviations = [each.value for each in own if each.operator == DEVIATION]
    return (means or others or [0.0])[-1], (deviations or [0.0])[-1]


def known(values: Floats) -> Mask:
    """Where a value was measured."""
    return np.logical_not(np.isnan(values))


def rounded(scores: Floats) -> npt.NDArray[np.int64]:
    """To whole numbers, halves up, as Go's math.Round does for numbers that are not negative."""
    return np.floor(scores + 0.5).astype(np.int64)
