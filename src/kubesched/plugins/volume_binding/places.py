"""Which nodes a volume, a pool of storage or a storage class can be reached from, as row numbers."""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache

import numpy as np

from kubesched.api import objects as api
from kubesched.api.selectors import (
    IN,
    CompiledNodeSelector,
    CompiledNodeTerm,
    Requirement,
    SelectorError,
    label_selector,
    node_selector,
)
from kubesched.cluster.matching import term_mask
from kubesched.cluster.table import Ids, Ints, Mask, NodeTable
from kubesched.cluster.view import Nodes

EVERYWHERE = CompiledNodeSelector((CompiledNodeTerm(),))
NOWHERE = CompiledNodeSelector()


@lru_cache(maxsize=1 << 16)
def selected_place(required: api.NodeSelector | None) -> CompiledNodeSelector:
    """The place that a volume's node affinity describes. As upstream, only labels count, not names."""
    if required is None:
        return EVERYWHERE
    compiled = node_selector(required)
    return CompiledNodeSelector(tuple(CompiledNodeTerm(term.labels) for term in compiled.terms), compiled.error)


def volume_place(volume: api.PersistentVolume) -> CompiledNodeSelector:
    """Where a volume can be reached."""
    affinity = volume.spec.node_affinity
    return selected_place(affinity.required if affinity is not None else None)


def class_place(storage_class: api.StorageClass) -> CompiledNodeSelector:
    """Where a class may provision: any of its topologies; everywhere if it has none."""
    topologies = storage_class.allowed_topologies
    if not topologies:
        return EVERYWHERE
    terms = (_topology_term(topology) for topology in topologies)
    return CompiledNodeSelector(tuple(term for term in terms if term is not None))


def pool_place(capacity: api.CSIStorageCapacity) -> CompiledNodeSelector:
    """Where a pool of storage can be reached; nowhere if its topology is missing or invalid."""
    if capacity.node_topology is None:
        return NOWHERE
    try:
        return CompiledNodeSelector((CompiledNodeTerm(label_selector(capacity.node_topology).requirements),))
    except SelectorError:
        return NOWHERE


def _topology_term(topology: api.TopologySelectorTerm) -> CompiledNodeTerm | None:
    """A term of allowed topologies; None for one that is empty or does not parse, which matches nothing."""
    expressions = tuple(api.LabelSelectorRequirement(e.key, IN, e.values) for e in topology.match_label_expressions)
    if not expressions:
        return None
    try:
        return CompiledNodeTerm(label_selector(api.LabelSelector(match_expressions=expressions)).requirements)
    except SelectorError:
        return None


class Places:
    """Rows per place, cached until node labels change."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._made_at: tuple[int, int] = (-1, -1)
        self._rows: dict[CompiledNodeSelector, Ints] = {}
        self._by_value: dict[str, tuple[Ints, Ids]] = {}

    def rows(self, place: CompiledNodeSelector) -> Ints:
        """The rows of a place, in order."""
        now = (self._table.topology_version, self._table.size)
        if now != self._made_at:
            self._made_at = now
            self._rows.clear()
            self._by_value.clear()
        rows = self._rows.get(place)
        if rows is None:
            rows = self._rows[place] = self._union(self._term_rows(term) for term in place.terms)
        return rows

    def mask(self, place: CompiledNodeSelector) -> Mask:
        """The rows of a place as a mask."""
        mask = np.zeros(self._table.size, dtype=np.bool_)
        mask[self.rows(place)] = True
        return mask

    def _union(self, parts: Iterable[Ints]) -> Ints:
        several = list(parts)
        if len(several) == 1:
            return several[0]
        return np.unique(np.concatenate(several)) if several else np.zeros(0, dtype=np.int64)

    def _term_rows(self, term: CompiledNodeTerm) -> Ints:
        """Start from the few rows that have a wanted value, and check the other requirements only there."""
        named = next((r for r in term.labels if r.operator == IN), None)
        rows = np.arange(self._table.size) if named is None else self._union(self._having(named))
        rest = tuple(r for r in term.labels if r is not named)
        return rows[term_mask(Nodes(self._table, rows), CompiledNodeTerm(rest))] if rest else rows

    def _having(self, requirement: Requirement) -> Iterable[Ints]:
        column = self._table.label(requirement.key)
        sorted_rows = self._by_value.get(requirement.key)
        if sorted_rows is None:
            ids = column.ids[: self._table.size]
            order = np.argsort(ids, kind="stable")
            sorted_rows = self._by_value[requirement.key] = order, ids[order]
        order, ids = sorted_rows
        for value in requirement.values:
            if value in column.index:
                first, last = np.searchsorted(ids, (column.index[value], column.index[value] + 1))
                yield order[first:last]
