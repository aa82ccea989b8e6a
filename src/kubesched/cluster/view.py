"""What plugins see of the node table: all rows, some rows, or one.

`Nodes` is a window on the table that a vectorised plugin answers for; `NodeInfo` is one node, for plugins that answer
one node at a time. A window's columns are NumPy arrays in its own row order; on the whole table they are views, not
copies, so they refuse to be written to. A window may hold rows without a node (see `NodeTable`); answers for them are
ignored.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import (
    CPU,
    EPHEMERAL_STORAGE,
    MEMORY,
    NONZERO_CPU,
    NONZERO_MEMORY,
    PODS,
    Ids,
    Ints,
    LabelColumn,
    Mask,
    NodeTable,
)

Rows = slice | Ints
N = TypeVar("N", bound=np.generic)


class ResourceView:
    """Amounts of one node, read from its row: allocatable, requested, or requested with defaults."""

    __slots__ = ("_cells", "_cpu", "_memory", "_row", "_table")

    def __init__(self, table: NodeTable, cells: Ints, row: int, cpu: int = CPU, memory: int = MEMORY) -> None:
        self._table = table
        self._cells = cells
        self._row = row
        self._cpu = cpu
        self._memory = memory

    @property
    def milli_cpu(self) -> int:
        return int(self._cells[self._cpu, self._row])

    @property
    def memory(self) -> int:
        return int(self._cells[self._memory, self._row])

    @property
    def ephemeral_storage(self) -> int:
        return int(self._cells[EPHEMERAL_STORAGE, self._row])

    @property
    def pods(self) -> int:
        return int(self._cells[PODS, self._row])

    def __getitem__(self, resource: str) -> int:
        table = self._table
        if resource not in table.resource_columns and self._cells is table.used:
            return table.requested_on(self._row, resource)
        return int(self._cells[table.column_of(resource), self._row])


class NodeInfo:
    """One node and the pods on it."""

    __slots__ = ("row", "table")

    def __init__(self, table: NodeTable, row: int) -> None:
        self.table = table
        self.row = row

    @property
    def node(self) -> api.Node:
        return self.table.node(self.row)

    @property
    def name(self) -> str:
        return self.table.names[self.row]

    @property
    def labels(self) -> Mapping[str, str]:
        return self.node.metadata.labels

    @property
    def taints(self) -> tuple[api.Taint, ...]:
        return self.node.spec.taints

    @property
    def pods(self) -> list[PodInfo]:
        """The pods on the node, assumed ones included."""
        return list(self.table.pods[self.row].values())

    @property
    def allocatable(self) -> ResourceView:
        return ResourceView(self.table, self.table.allocatable, self.row)

    @property
    def requested(self) -> ResourceView:
        return ResourceView(self.table, self.table.used, self.row)

    @property
    def nonzero_requested(self) -> ResourceView:
        """Requested, counting containers that ask for no cpu or memory with the defaults scoring assumes."""
        return ResourceView(self.table, self.table.used, self.row, NONZERO_CPU, NONZERO_MEMORY)

    def __repr__(self) -> str:
        return f"NodeInfo({self.name})"


def _read_only(part: npt.NDArray[N]) -> npt.NDArray[N]:
    """The same array. Whoever computed in place would change the table, or a window, for all pods."""
    part.flags.writeable = False
    return part


class Nodes:
    """A window on the node table."""

    __slots__ = ("_amounts", "_mask", "_rows", "cells", "table")

    def __init__(self, table: NodeTable, rows: Rows | None = None, *, mask: Mask | None = None) -> None:
        self.table = table
        self._mask = mask
        self._amounts: tuple[list[int], list[int]] | None = None
        self.cells: tuple[Ints, Ints] | None = None
        """(allocatable, used) of a window that was made for several plugins, by column; do not change them."""
        self._rows: Rows | None = slice(0, table.size) if rows is None and mask is None else rows

    @classmethod
    def on(cls, table: NodeTable, row: int) -> Nodes:
        """A window of one row, for several plugins that read its amounts before anything changes there."""
        window = cls(table, slice(row, row + 1))
        window._amounts = window.amounts()
        return window

    @classmethod
    def at(cls, table: NodeTable, rows: Ints) -> Nodes:
        """A window of some rows, for several plugins that read their amounts before anything changes there."""
        window = cls(table, rows)
        window.cells = table.allocatable.take(rows, axis=1), table.used.take(rows, axis=1)
        return window

    def amounts(self) -> tuple[list[int], list[int]] | None:
        """(allocatable, used) of a window of one row, by column: Python's numbers, with which a few operations take a
        tenth of the time of arrays. None for a larger window."""
        if self._amounts is not None:
            return self._amounts
        rows, table = self._rows, self.table
        if not isinstance(rows, slice) or rows.stop - rows.start != 1:
            return None
        return table.allocatable[:, rows.start].tolist(), table.used[:, rows.start].tolist()

    @property
    def rows(self) -> Rows:
        """The rows of the table that the window shows: a slice, or row numbers in order."""
        if self._rows is None:
            mask = self._mask
            assert mask is not None
            self._rows = slice(0, len(mask)) if mask.all() else _read_only(np.flatnonzero(mask))
        return self._rows

    def __len__(self) -> int:
        if self._rows is None and self._mask is not None:
            return int(np.count_nonzero(self._mask))
        rows = self.rows
        return rows.stop - rows.start if isinstance(rows, slice) else len(rows)

    def __iter__(self) -> Iterator[NodeInfo]:
        """The nodes of the window, one by one; rows without a node are left out."""
        return (NodeInfo(self.table, row) for row in self.row_numbers() if self.table.nodes[row] is not None)

    def row_numbers(self) -> list[int]:
        """Row numbers as plain integers."""
        rows = self.rows
        return list(range(rows.start, rows.stop)) if isinstance(rows, slice) else rows.tolist()

    @property
    def names(self) -> list[str]:
        return [self.table.names[row] for row in self.row_numbers()]

    @property
    def valid(self) -> Mask:
        """Where there is a node at all."""
        return _read_only(self.of_rows(self.table.valid))

    @property
    def unschedulable(self) -> Mask:
        return _read_only(self.of_rows(self.table.unschedulable))

    @property
    def pod_count(self) -> Ints:
        return _read_only(self.table.used[PODS, self.rows])

    def allocatable(self, resource: str) -> Ints:
        """What each node offers of a resource (cpu in thousandths, the rest in units)."""
        column = self.table.resource(resource)  # may add a column, so before the columns are read
        return _read_only(self.table.allocatable[column, self.rows])

    def requested(self, resource: str) -> Ints:
        """What the pods on each node request of a resource."""
        column = self.table.resource(resource)  # may add a column, so before the columns are read
        return _read_only(self.table.used[column, self.rows])

    def free(self, resource: str) -> Ints:
        """What is left of a resource on each node; negative where pods request more than there is."""
        column = self.table.resource(resource)  # may add a column, so before the columns are read
        return self.table.allocatable[column, self.rows] - self.table.used[column, self.rows]

    def label_values(self, key: str) -> npt.NDArray[np.object_]:
        """The label's value per node, None where it is absent."""
        column = self.table.label(key)
        return np.array([*column.values, None], dtype=np.object_)[self.of_rows(column.ids)]

    def by_label(self, key: str, worth: Callable[[str | None], float]) -> npt.NDArray[np.float64]:
        """A number per node that follows from a label's value, asked for once per distinct value."""
        column = self.table.label(key)
        ids = self.of_rows(column.ids)
        worths = np.zeros(len(column.values) + 1)
        for each in np.unique(ids).tolist():
            worths[each] = worth(column.values[each] if each >= 0 else None)
        return worths[ids]

    def by_taints(self, worth: Callable[[tuple[api.Taint, ...]], float]) -> npt.NDArray[np.float64]:
        """A number per node that follows from its taints, asked for once per distinct set of taints."""
        ids = self.of_rows(self.table.taint_set)
        worths = np.zeros(len(self.table.taint_sets))
        for each in np.unique(ids).tolist():
            worths[each] = worth(self.table.taint_sets[each])
        return worths[ids]

    def by_node(self, worth: Callable[[NodeInfo], float]) -> npt.NDArray[np.float64]:
        """A number per node for what columns do not have, asked for node by node; 0 for rows without a node."""
        worths = np.zeros(len(self))
        for position, row in enumerate(self.row_numbers()):
            if self.table.nodes[row] is not None:
                worths[position] = worth(NodeInfo(self.table, row))
        return worths

    def has_taint(self, key: str, value: str | None = None, effect: str | None = None) -> Mask:
        """Where there is such a taint, with any value and effect unless they are given."""

        def is_meant(taint: api.Taint) -> bool:
            return taint.key == key and value in (None, taint.value) and effect in (None, taint.effect)

        return self.by_taints(lambda taints: any(map(is_meant, taints))) > 0

    def label(self, key: str) -> Ids:
        """An id of the label's value per node, -1 where it is absent; `label_column(key).values` has the values."""
        return _read_only(self.of_rows(self.table.label(key).ids))

    def of_rows(self, column: npt.NDArray[N]) -> npt.NDArray[N]:
        """The window's part of a column of the whole table: a view where the window has all rows in order, else a copy,
        by `take`, which needs two thirds of the time of indexing."""
        rows = self.rows
        return column[rows] if isinstance(rows, slice) else column.take(rows)

    def of_label(self, column: LabelColumn, by_id: npt.NDArray[N]) -> npt.NDArray[N]:
        """For each node the element of `by_id` that belongs to its value in the column; where the label is absent, the
        last one. Where ids are row numbers, as those of host names usually are, it is a view."""
        return self.of_rows(by_id) if column.rows_by_id == self.table.size else by_id.take(self.of_rows(column.ids))

    def label_column(self, key: str) -> LabelColumn:
        """The values behind the ids that `label` gives."""
        return self.table.label(key)

    def label_in(self, key: str, *values: str) -> Mask:
        """Where the label has one of these values."""
        column = self.table.label(key)
        wanted = [column.index[value] for value in values if value in column.index]
        return np.isin(self.of_rows(column.ids), wanted)

    def declares(self, feature: str) -> Mask:
        """Where `status.declaredFeatures` has the feature."""
        return _read_only(self.of_rows(self.table.declares(feature)))

    def has_label(self, key: str) -> Mask:
        """Where the label is present."""
        return self.of_rows(self.table.label(key).ids) >= 0
