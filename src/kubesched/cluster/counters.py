"""Counts of pods by row and by topology domain, kept up to date as pods come and go.

Spread constraints and inter-pod affinity ask "how many pods of this kind in that domain". A `RowCounter` counts one
kind of pod per row; a `DomainCounts` sums it over the domains of a topology key, perhaps over some nodes only. Both
are updated per pod in constant time, and a domain count is rebuilt, in one vectorised pass, only after a node's
labels or taints have changed.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable

import numpy as np

from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ids, Ints, LabelColumn, Mask, NodeTable

Eligible = Callable[[], Mask]


class DomainCounts:
    """A row counter summed per value of a topology key, over the eligible nodes."""

    __slots__ = (
        "_built_for",
        "_eligible",
        "_key",
        "_rows",
        "_table",
        "column",
        "counts",
        "eligible",
        "padded",
        "present",
        "total",
    )

    def __init__(self, table: NodeTable, rows: RowCounter, key: str, eligible: Eligible | None) -> None:
        self._table = table
        self._rows = rows
        self._key = key
        self._eligible = eligible
        self._built_for = -1
        self.column: LabelColumn = table.label(key)
        self.eligible: Mask | None = None
        self.padded: Ints = np.zeros(1, dtype=np.int64)
        """Matching pods per domain id, and a 0 at the end for nodes without the label, whose id is -1."""
        self.counts: Ints = self.padded[:-1]
        """The same without the 0."""
        self.total = 0
        self.present: Mask = np.zeros(0, dtype=np.bool_)
        """Which domains have an eligible node at all."""

    def refresh(self) -> DomainCounts:
        """Rebuild the counts if nodes have changed since."""
        if self._built_for != self._table.topology_version:
            self._rebuild()
        return self

    def add(self, row: int, delta: int) -> None:
        """Count a pod that came to (or left) a row."""
        if self._built_for != self._table.topology_version:
            return  # rebuilt from the rows when next read
        domain = self.column.ids[row]
        if domain >= 0 and (self.eligible is None or self.eligible[row]):
            self.counts[domain] += delta
            self.total += delta

    def _rebuild(self) -> None:
        self.column = self._table.label(self._key)
        ids: Ids = self.column.ids
        taken = ids >= 0
        if self._eligible is not None:
            self.eligible = self._eligible()
            taken[: len(self.eligible)] &= self.eligible
        domains = ids[taken]
        size = len(self.column.values)
        counted = np.bincount(domains, weights=self._rows.rows[: len(ids)][taken], minlength=size)
        self.padded = np.zeros(size + 1, dtype=np.int64)
        self.counts = self.padded[:-1]
        self.counts[:] = counted
        self.total = int(self.counts.sum())
        self.present = np.zeros(size, dtype=np.bool_)
        self.present[domains] = True
        self._built_for = self._table.topology_version


class RowCounter:
    """How many pods of one kind are on each row."""

    __slots__ = ("_domains", "_table", "matches", "rows", "skip_terminating", "total")

    MOST_DOMAINS = 64
    """Sums kept; beyond it the older ones are dropped and rebuilt on demand."""

    def __init__(self, table: NodeTable, matches: Callable[[PodClass], bool], skip_terminating: bool) -> None:
        self._table = table
        self._domains: dict[Hashable, DomainCounts] = {}
        self.matches = matches
        self.skip_terminating = skip_terminating
        self.rows: Ints = np.zeros(table.capacity, dtype=np.int64)
        self.total = 0

    def add(self, row: int, delta: int) -> None:
        """Count a pod that came to (delta 1) or left (delta -1) a row."""
        if row >= len(self.rows):
            more = np.zeros(self._table.capacity - len(self.rows), dtype=np.int64)
            self.rows = np.concatenate((self.rows, more))
        self.rows[row] += delta
        self.total += delta
        for domain in self._domains.values():
            domain.add(row, delta)

    def on(self, size: int) -> Ints:
        """Counts for the first `size` rows."""
        if size > len(self.rows):
            more = np.zeros(self._table.capacity - len(self.rows), dtype=np.int64)
            self.rows = np.concatenate((self.rows, more))
        return self.rows[:size]

    def by_domain(self, key: str, eligible: Eligible | None = None, eligible_key: Hashable = None) -> DomainCounts:
        """The counts per value of label `key`, over the nodes that `eligible` allows."""
        found = self._domains.get((key, eligible_key))
        if found is None:
            if len(self._domains) >= self.MOST_DOMAINS:
                self._domains = dict(list(self._domains.items())[self.MOST_DOMAINS // 2 :])
            found = DomainCounts(self._table, self, key, eligible)
            self._domains[key, eligible_key] = found
        self.on(self._table.capacity)
        return found.refresh()
