"""Copies what the engine knows about an attempt, before the next decision changes it.

Columns that plugins computed from nodes alone are copied once, for all attempts that refer to them. Those that follow
the pods on nodes are copied each time, as small integers: some microseconds on 5,000 nodes.
"""

from __future__ import annotations

from weakref import ref

import numpy as np

from kubesched.cluster.table import NodeTable
from kubesched.engine.decision import Decision
from kubesched.engine.filtering import Feasible
from kubesched.framework.adapters import ScorePlugin
from kubesched.framework.plugin import Reads, Verdicts
from kubesched.framework.status import Status
from kubesched.framework.verdicts import Rejections
from kubesched.history.columns import Column, distinct, packed, small
from kubesched.history.record import AttemptRecord, FilterColumn, Names, RecordedVerdict, ScoreColumn

MOST_VERDICTS = 256
"""Distinct statuses of one plugin that are kept. A plugin of its own may have another text for each node."""
MOST_MESSAGE = 2000
MOST_NARROWED = 20
"""Nodes that are kept of those that a PreFilter plugin limited a pod to."""
OTHER = RecordedVerdict("Unschedulable", ("(more reasons than are kept)",))
MOST_TEXT = 1024
"""Characters of a reason that are kept."""


class Capture:
    """Fills in records. Remembers the small copies of columns that several attempts refer to."""

    def __init__(self) -> None:
        self._names = Names((), 0)
        self._topology = -1
        self._shared: dict[int, tuple[ref[Column], object]] = {}
        """The small copies of the engine's columns. One goes when the engine drops the column."""

    def names(self, table: NodeTable) -> Names:
        """The names of all rows. The same object until nodes come or go."""
        if self._topology != table.topology_version or len(self._names.names) != table.size:
            self._topology = table.topology_version
            names = tuple(table.names[: table.size])
            if names != self._names.names:
                self._names = Names(names, sum(map(len, names)) + 64 * len(names))
        return self._names

    def fill(self, record: AttemptRecord, decision: Decision) -> None:
        """Copy the decision."""
        record.outcome = decision.outcome.value
        record.node = decision.chosen
        record.message = decision.message[:MOST_MESSAGE]
        record.evaluated, record.feasible = decision.evaluated, decision.feasible
        found, diagnosis = decision.found, decision.diagnosis
        if found is not None:
            self._fill_feasible(record, decision, found)
        elif diagnosis is not None:
            if diagnosis.pre_filter is not None:
                record.pre_filter = (diagnosis.pre_filter.plugin, _verdict(diagnosis.pre_filter))
            record.unschedulable_plugins = tuple(sorted(diagnosis.unschedulable_plugins | diagnosis.pending_plugins))
            record.looked_at = packed(diagnosis.looked_at)
            if diagnosis.rejections is not None:
                self._fill_rejections(record, diagnosis.rejections, frozenset())
        made = decision.post_filter
        if made is not None:
            record.nominated_node = made.nominated_node_name
            record.victims = tuple(info.pod.key for info in made.victims)

    def _fill_feasible(self, record: AttemptRecord, decision: Decision, found: Feasible) -> None:
        if found.size < record.size:
            record.mask = packed(found.mask)
            record.looked_at = packed(found.looked_at)
            if record.looked_at is not None:
                record.narrowed = _narrowed(found)
            if found.size < record.evaluated:
                lasting = frozenset(f.plugin.name for f in found.cached.filters if f.plugin.reads is Reads.NODE)
                self._fill_rejections(record, found.rejections, lasting)
        if decision.skip_score is not None or decision.parts:
            record.scores = self._scores(decision, found)

    def _fill_rejections(self, record: AttemptRecord, rejections: Rejections, lasting: frozenset[str]) -> None:
        record.filters = tuple(
            self._lasting(plugin, verdicts) if plugin in lasting else _filter_column(plugin, verdicts)
            for plugin, verdicts in rejections.entries
            if verdicts.codes.any()
        )
        if rejections.overruled:
            record.overruled = {row: (each.plugin, _verdict(each)) for row, each in rejections.overruled.items()}

    def _lasting(self, plugin: str, verdicts: Verdicts) -> FilterColumn:
        known = self._remembered(verdicts.codes)
        if not isinstance(known, FilterColumn):
            known = _filter_column(plugin, verdicts, shared=True)
            self._remember(verdicts.codes, known)
        return known

    def _scores(self, decision: Decision, found: Feasible) -> list[ScoreColumn]:
        columns = []
        for scored in found.cached.scores if decision.skip_score is not None else ():
            plugin, raw = scored.plugin, scored.raw
            if plugin.normalize is not None:
                continue
            if isinstance(raw, int):
                columns.append(ScoreColumn(plugin.name, plugin.weight, raw))
            elif plugin.reads is Reads.PODS:
                # Scores of rows that are not feasible may be out of range, and are never read.
                columns.append(ScoreColumn(plugin.name, plugin.weight, raw.astype(np.uint8), whole=True))
            else:
                columns.append(self._lasting_score(plugin, raw))
        for part in decision.parts:
            raw = part.raw if isinstance(part.raw, int) else small(part.raw)
            weighted = part.weighted if isinstance(part.weighted, int) else small(part.weighted)
            columns.append(ScoreColumn(part.plugin, part.weight, raw, weighted))
        return columns

    def _lasting_score(self, plugin: ScorePlugin, raw: Column) -> ScoreColumn:
        known = self._remembered(raw)
        if not isinstance(known, ScoreColumn):
            known = ScoreColumn(plugin.name, plugin.weight, raw.astype(np.uint8), whole=True, shared=True)
            self._remember(raw, known)
        return known

    def _remembered(self, column: Column) -> object:
        found = self._shared.get(id(column))
        return found[1] if found is not None and found[0]() is column else None

    def _remember(self, column: Column, copy: object) -> None:
        key = id(column)
        self._shared[key] = (ref(column, lambda _: self._shared.pop(key, None)), copy)


def _narrowed(found: Feasible) -> dict[str, list[str]]:
    answers = found.cached.answers.items()
    sets = {name: answer for name, answer in answers if isinstance(answer, set | frozenset)}
    return {name: sorted(answer)[:MOST_NARROWED] for name, answer in sets.items()}


def _filter_column(plugin: str, verdicts: Verdicts, *, shared: bool = False) -> FilterColumn:
    codes = small(verdicts.codes)
    found: dict[int, RecordedVerdict] = {}
    for code in distinct(codes):
        found[code] = _meaning(verdicts, code) if len(found) < MOST_VERDICTS else OTHER
    return FilterColumn(plugin, codes, found, shared)


def _meaning(verdicts: Verdicts, code: int) -> RecordedVerdict:
    try:
        return _verdict(verdicts.status_of(code))
    except Exception:
        # The code of a row without a node need not mean anything.
        return OTHER


def _verdict(status: Status) -> RecordedVerdict:
    return RecordedVerdict(status.code.upstream, tuple(reason[:MOST_TEXT] for reason in status.reasons))
