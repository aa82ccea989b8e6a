"""The contents of a `ClusterState` by name instead of by row: two clusters agree if their contents are equal.

Rows, ids and the order of events must not show. It also checks the invariants of a single cluster: unused rows are
blank, and the indexes are consistent.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.counters import DomainCounts, RowCounter
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import NONZERO_CPU, NONZERO_MEMORY, NOTHING, NodeTable

Content = dict[Any, Any]
"""Nested dictionaries, for comparing and printing."""


def content(cluster: ClusterState, label_keys: tuple[str, ...] = ()) -> Content:
    """Everything that plugins can see, with `label_keys` as columns."""
    table = cluster.nodes
    check_table(table)
    return {
        "nodes": {name: _row(table, row, label_keys) for name, row in table.row_of.items()},
        "images": {name: _names(table, state.rows) for name, state in table.images.items()},
        "tagged": {tag: _by_name(table, rows) for tag, rows in table.tagged.items()},
        "terms": _terms(cluster),
        "nominations": {name: _pods(cluster.nominations.on(name)) for name in cluster.nominations.nodes},
        "assumed": set(cluster.assumed),
        "pods": {uid: (info.pod, table.names[info.row], info.terminating) for uid, info in cluster.pods.items()},
        "classes": _classes(cluster),
    }


def counted(table: NodeTable, counter: RowCounter) -> dict[str, int]:
    """A row counter by node name."""
    rows = counter.on(table.size)
    counts = {name: int(rows[row]) for name, row in table.row_of.items() if rows[row]}
    assert counter.total == sum(counts.values()) == int(rows.sum())
    return counts


def domains(counts: DomainCounts) -> dict[str, int]:
    """Counts of the domains that have an eligible node; the others must be empty."""
    present = counts.present
    assert len(present) == len(counts.counts) == len(counts.column.values)
    assert not counts.counts[~present].any()
    return {counts.column.values[i]: int(counts.counts[i]) for i in np.flatnonzero(present).tolist()}


def check_table(table: NodeTable) -> None:
    """Check the invariants of a table."""
    owned = set(table.row_of.values())
    assert len(owned) == len(table.row_of)
    assert owned <= set(range(table.size))
    blank = [row for row in range(table.capacity) if row not in owned]
    assert not table.valid[blank].any()
    assert not table.unschedulable[blank].any()
    assert not table.taint_set[blank].any()
    assert not table.allocatable[:, blank].any()
    assert not table.used[:, blank].any()
    assert not table.used[NOTHING].any()
    assert not table.allocatable[NOTHING].any()
    assert table.label_columns.keys() <= {key for node in table.nodes if node is not None for key in node.labels}
    for column in table.label_columns.values():
        assert len(column.ids) == table.capacity
        assert (column.ids[blank] == -1).all()
    assert table.valid_count == int(np.count_nonzero(table.valid))
    for name, row in table.row_of.items():
        assert table.names[row] == name
        assert bool(table.valid[row]) == (table.nodes[row] is not None)
        assert table.nodes[row] is not None or table.pods[row], f"row of {name} is kept for nothing"
    assert all(rows and all(count > 0 for count in rows.values()) for rows in table.tagged.values())
    assert all(state.rows for state in table.images.values())


def _row(table: NodeTable, row: int, label_keys: tuple[str, ...]) -> Content:
    return {
        "node": table.nodes[row],
        "valid": bool(table.valid[row]),
        "unschedulable": bool(table.unschedulable[row]),
        "taints": table.taint_sets[table.taint_set[row]],
        "allocatable": _amounts(table, table.allocatable[:, row].tolist()),
        "used": _amounts(table, table.used[:, row].tolist()) | _uncounted(table, row),
        "labels": {key: _label(table, key, row) for key in label_keys},
        "pods": _pods(table.pods[row].values()),
    }


def _pods(infos: Iterable[PodInfo]) -> dict[str, api.Pod]:
    return {info.pod.uid: info.pod for info in infos}


def _amounts(table: NodeTable, cells: list[int]) -> dict[str, int]:
    amounts = {name: cells[column] for name, column in table.resource_columns.items()}
    amounts |= {"non-zero cpu": cells[NONZERO_CPU], "non-zero memory": cells[NONZERO_MEMORY]}
    return {name: amount for name, amount in amounts.items() if amount}


def _uncounted(table: NodeTable, row: int) -> dict[str, int]:
    """What pods use of resources that have no column, because no node has offered them yet."""
    names = {name for info in table.pods[row].values() for name in info.pod_class.node_requests.scalar}
    return {name: table.requested_on(row, name) for name in names - table.resource_columns.keys()}


def _label(table: NodeTable, key: str, row: int) -> str | None:
    column = table.label(key)
    return None if column.ids[row] < 0 else column.values[column.ids[row]]


def _names(table: NodeTable, rows: set[int]) -> set[str]:
    return {table.names[row] for row in rows}


def _by_name(table: NodeTable, rows: Mapping[int, int]) -> dict[str, int]:
    return {table.names[row]: count for row, count in rows.items()}


def _terms(cluster: ClusterState) -> Content:
    listed = {(t.kind, t.weight, t.term): t for t in cluster.counts.term_list}
    assert len(listed) == len(cluster.counts.term_list)
    return {key: counted(cluster.nodes, t) for key, t in listed.items() if t.total}


def _classes(cluster: ClusterState) -> Content:
    """Where the pods of each class are, counted from the pods and checked against the counts of the classes."""
    found: Content = {}
    idle = {c for c in cluster.classes._by_key.values() if not c.pods}
    assert not any(c.rows or c.terminating_rows for c in idle)
    for pod_class in {info.pod_class for info in cluster.pods.values()}:
        infos = [info for info in cluster.pods.values() if info.pod_class is pod_class]
        assert pod_class.pods == len(infos)
        for rows, own in (
            (pod_class.rows, infos),
            (pod_class.terminating_rows, [info for info in infos if info.terminating]),
        ):
            assert rows == {row: sum(i.row == row for i in own) for row in {i.row for i in own}}
        key = (pod_class.namespace, tuple(sorted(pod_class.labels.items())), pod_class.spec, pod_class.node_requests)
        found[repr(key)] = _by_name(cluster.nodes, pod_class.rows)
    return found
