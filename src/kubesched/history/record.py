"""One attempt as it is remembered: numbers in columns, one entry per row of the node table, and few words.

On 5,000 nodes that is some kilobytes. Columns that depend on nodes alone are shared by all attempts of a pod class, and
the names of the nodes by all attempts. Everything is worked out when it is read, not when it is recorded.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import msgspec
import numpy as np
import numpy.typing as npt

from kubesched.framework.record import PointRun
from kubesched.history.columns import Column, unpacked

FIXED_BYTES = 8192
"""What a record needs beside its columns and reasons: at most this, with its message and the objects that hold it
together."""
_OBJECT = 64
"""The size of a Python string or array without its content, and a little more."""

Ints = npt.NDArray[np.int64]
ALL = slice(None)
NOTHING: Mapping[Any, Any] = MappingProxyType({})
"""Shared by all records that have no entries, so that they need no dict each."""


class RecordedVerdict(msgspec.Struct, frozen=True, gc=False):
    """What a code of a Filter plugin means."""

    code: str
    """kube-scheduler's name of the status code."""
    reasons: tuple[str, ...]


class FilterColumn(msgspec.Struct, frozen=True, gc=False):
    """One Filter plugin's codes for all rows; 0 where the pod fits."""

    plugin: str
    codes: Column
    verdicts: Mapping[int, RecordedVerdict]
    shared: bool = False
    """Whether other records may refer to it, too."""

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        texts = (len(reason) + _OBJECT for each in self.verdicts.values() for reason in each.reasons)
        return self.codes.nbytes + sum(texts) + 4 * _OBJECT


class ScoreColumn(msgspec.Struct, frozen=True, gc=False):
    """One Score plugin's scores, for all rows or for the feasible ones. An int stands for the same score everywhere."""

    plugin: str
    weight: int
    raw: Column | int
    weighted: Column | int | None = None
    """Normalised and weighted, where that is not the raw score times the weight."""
    whole: bool = False
    """Whether the columns have an entry for every row, not only for the feasible ones."""
    shared: bool = False

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        size = 0
        for column in (self.raw, self.weighted):
            if isinstance(column, np.ndarray):
                size += column.nbytes
        return size

    def final(self, rows: Ints, at: Ints | slice = ALL) -> Ints:
        """The weighted scores of the feasible rows, or of those at some positions."""
        if self.weighted is None:
            return self.given(rows, at) * self.weight
        return self._pick(self.weighted, rows, at)

    def given(self, rows: Ints, at: Ints | slice = ALL) -> Ints:
        """The raw scores of the feasible rows, or of those at some positions."""
        return self._pick(self.raw, rows, at)

    def _pick(self, column: Column | int, rows: Ints, at: Ints | slice) -> Ints:
        if isinstance(column, int):
            return np.full(len(rows[at]), column, dtype=np.int64)
        return column[rows[at] if self.whole else at].astype(np.int64)


class Names(msgspec.Struct, frozen=True, gc=False):
    """The names of all rows at some time, and what they take in memory."""

    names: tuple[str, ...]
    nbytes: int


@dataclass(slots=True)
class Rejection:
    """Nodes that one plugin rejected for the same reasons. Each node counts where it was first rejected."""

    plugin: str
    code: str
    reasons: tuple[str, ...]
    nodes: list[str]


@dataclass(slots=True)
class NodeScore:
    """A feasible node, its total, and what each plugin gave it: (as given, normalised and weighted)."""

    node: str
    total: int
    plugins: dict[str, tuple[int, int]]


class AttemptRecord(msgspec.Struct, gc=False):
    """One attempt to schedule a pod."""

    number: int
    """Counts all attempts of this scheduler."""
    namespace: str
    name: str
    uid: str
    profile: str
    attempt: int
    """Counts the attempts of this pod."""
    started: float
    """Seconds since the epoch."""
    names: Names
    outcome: str = "undecided"
    binding: str = "not started"
    node: str = ""
    """The node that was chosen, also if the binding failed."""
    message: str = ""
    seconds: float = 0.0
    """From the start to the binding, or to the failure."""
    finished: bool = False
    evaluated: int = 0
    feasible: int = 0
    nominated_node: str = ""
    victims: tuple[str, ...] = ()
    pre_filter: tuple[str, RecordedVerdict] | None = None
    """The plugin that rejected the pod as a whole, and how."""
    unschedulable_plugins: tuple[str, ...] = ()
    mask: bytes | None = None
    """The feasible rows, in bits; None if all are feasible, or if none is."""
    looked_at: bytes | None = None
    """The rows that were filtered, in bits; None for all."""
    filters: Sequence[FilterColumn] = ()
    scores: Sequence[ScoreColumn] = ()
    overruled: Mapping[int, tuple[str, RecordedVerdict]] = NOTHING
    """Rows that were rejected by an extender, or because of pods that are nominated to them."""
    points: Sequence[PointRun] = ()
    """Extension points that ran."""
    counted: int = 0
    """The bytes that the history has counted for it."""
    narrowed: Mapping[str, Sequence[str]] = NOTHING
    """PreFilter plugins that limited the pod to some nodes, with these."""

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}"

    @property
    def size(self) -> int:
        """How many rows the node table had."""
        return len(self.names.names)

    def own_bytes(self) -> int:
        """What the record takes in memory, without what other records may share with it."""
        size = FIXED_BYTES + len(self.mask or b"") + len(self.looked_at or b"")
        for scored in self.scores:
            size += 0 if scored.shared else scored.nbytes
        for filtered in self.filters:
            size += 0 if filtered.shared else filtered.nbytes
        if self.victims or self.overruled or self.narrowed:
            size += sum(len(each) + _OBJECT for each in self.victims)
            size += sum(len(reason) + 4 * _OBJECT for _, each in self.overruled.values() for reason in each.reasons)
            size += sum(len(name) + _OBJECT for names in self.narrowed.values() for name in names)
        return size

    def shared_parts(self) -> list[Names | FilterColumn | ScoreColumn]:
        """What other records may share with it."""
        return [self.names, *(each for each in self.filters if each.shared), *(c for c in self.scores if c.shared)]

    # Reading it

    def feasible_rows(self) -> Ints:
        """The rows where the pod fits."""
        if not self.feasible:
            return np.zeros(0, dtype=np.int64)
        return np.flatnonzero(unpacked(self.mask, self.size))

    def totals(self) -> tuple[Ints, Ints]:
        """The feasible rows, and the total score of each; no totals if nothing was scored."""
        rows = self.feasible_rows()
        total = np.zeros(len(rows), dtype=np.int64)
        for column in self.scores:
            total += column.final(rows)
        return rows, total

    def best(self, most: int) -> list[NodeScore]:
        """The feasible nodes with the highest totals. The chosen one comes first, as it won any tie."""
        rows, totals = self.totals()
        if not len(rows) or not self.scores:
            return []
        names = self.names.names
        order = _highest(totals, max(most, 1))
        chosen = names.index(self.node) if self.node in names else -1
        where = np.flatnonzero(rows == chosen)
        if len(where):
            order = np.concatenate((where[:1], order[order != where[0]]))[: max(most, 1)]
        columns = [
            (each.plugin, each.given(rows, order).tolist(), each.final(rows, order).tolist()) for each in self.scores
        ]
        return [
            NodeScore(
                names[int(rows[position])],
                int(totals[position]),
                {plugin: (raw[index], final[index]) for plugin, raw, final in columns},
            )
            for index, position in enumerate(order.tolist())
        ]

    def rejections(self) -> list[Rejection]:
        """Why the other nodes were rejected, by plugin and reason."""
        names = self.names.names
        left = unpacked(self.looked_at, self.size)
        left[self.feasible_rows()] = False
        found: dict[tuple[str, RecordedVerdict], list[str]] = {}
        for row, said in self.overruled.items():
            if left[row]:
                left[row] = False
                found.setdefault(said, []).append(names[row])
        for column in self.filters:
            rows = np.flatnonzero(left & (column.codes != 0))
            for code in np.unique(column.codes[rows]).tolist():
                verdict = column.verdicts.get(code)
                if verdict is not None:
                    rejected = rows[column.codes[rows] == code].tolist()
                    found.setdefault((column.plugin, verdict), []).extend(names[row] for row in rejected)
            left[rows] = False
        return [Rejection(plugin, verdict.code, verdict.reasons, nodes) for (plugin, verdict), nodes in found.items()]

    def objections(self, node: str) -> list[tuple[str, RecordedVerdict]]:
        """Every plugin that rejects a node, in the profile's order, not only the first."""
        if node not in self.names.names:
            return []
        row = self.names.names.index(node)
        found = [self.overruled[row]] if row in self.overruled else []
        for column in self.filters:
            verdict = column.verdicts.get(int(column.codes[row]))
            if verdict is not None:
                found.append((column.plugin, verdict))
        return found


def _highest(totals: Ints, most: int) -> Ints:
    """The positions of the highest totals, the highest first."""
    if len(totals) <= 4 * most:
        return np.argsort(-totals, kind="stable")[:most]
    some = np.sort(np.argpartition(-totals, most)[:most])
    return some[np.argsort(-totals[some], kind="stable")]
