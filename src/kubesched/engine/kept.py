"""What plugins said about all nodes for one class of pods, kept and brought up to date for the next pod of it.

A plugin that declares what it reads (see `Reads`) is asked again only about rows that changed: about all of them when a
node changed, about those whose pods changed otherwise. Most of the time that is the one row where the last pod went.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, Codes, Reads, Verdicts
from kubesched.framework.runtime import FilterPlugin, Framework, ScorePlugin
from kubesched.framework.state import CycleState


class KeptFilter:
    """One Filter plugin's codes for every row."""

    __slots__ = ("codes", "plugin", "status_of")

    def __init__(self, plugin: FilterPlugin, size: int, verdicts: Verdicts | None) -> None:
        self.plugin = plugin
        self.status_of = verdicts.status_of if verdicts is not None else None
        # Codes that stand as long as the nodes do stay as small as they came; those to come may need more room.
        dtype = np.int64 if plugin.reads is Reads.PODS else None
        self.codes: Codes = np.zeros(size, dtype=dtype) if verdicts is None else np.array(verdicts.codes, dtype=dtype)


class KeptScore:
    """One Score plugin's raw scores for every row, or the one number they all are."""

    __slots__ = ("plugin", "raw")

    def __init__(self, plugin: ScorePlugin, raw: Ints | int) -> None:
        self.plugin = plugin
        self.raw = raw


class Kept:
    """A profile's answers for one pod class."""

    def __init__(self, framework: Framework, pod_class: PodClass) -> None:
        self._framework = framework
        self._table = framework.cluster.nodes
        self._node_version = -1
        self._position = -1
        self.state = CycleState(pod_class)
        self.answers: dict[str, Any] = {}
        """PreFilter answers of the plugins whose answers are kept."""
        self.filters: list[KeptFilter] = []
        self.scores: list[KeptScore] = []
        self.mask: Mask = np.zeros(0, dtype=np.bool_)
        """Rows that the kept Filters let pass."""
        self.base: Ints = np.zeros(0, dtype=np.int64)
        """The sum of the weighted scores that need no normalising."""
        self.ranked: Ints = np.zeros(0, dtype=np.int64)
        """The same, with -1 where the mask is false: its maximum is the best node when nothing else scores."""
        self.skipped: frozenset[str] = frozenset()
        """Plugins whose kept PreScore wants no Score."""
        self.suspects: list[KeptScore] = []
        """Scores out of range on some row, which may be one where nobody looks."""
        self._static: Ints = self.base
        self._scored = False
        self._moving_filters: list[KeptFilter] = []
        self._moving_scores: list[KeptScore] = []

    def refresh(self, pod: api.Pod) -> None:
        """Ask again what has to be asked again."""
        table = self._table
        if self._node_version != table.node_version or len(self.mask) != table.size:
            self._rebuild(pod)
        elif self._position != table.log_end:
            changed = table.changed_since(self._position)
            if changed is None or len(changed) > table.size:
                self._rebuild(pod)
            else:
                self._update(pod, changed)
        self._position = table.log_end

    def _update(self, pod: api.Pod, changed: list[int]) -> None:
        try:
            if len(changed) == 1:
                self._update_row(pod, changed[0])
            else:
                self._update_rows(pod, np.array(sorted(set(changed)), dtype=np.int64))
        except Exception:
            # Asking for everything again says which plugin it was, or finds that all is well.
            self._node_version = -1
            self._rebuild(pod)

    def _rebuild(self, pod: api.Pod) -> None:
        framework, table = self._framework, self._table
        nodes = Nodes(table)
        state = self.state = CycleState(self.state.pod_class)
        self.answers = {
            p.name: framework.ask_pre_filter(p, state, pod, nodes) for p in framework.pre_filter if p.reads.is_kept
        }
        skipped = {name for name, answer in self.answers.items() if getattr(answer, "is_skip", False)}
        asked = (
            KeptFilter(f, table.size, framework.ask_filter(f, state, pod, nodes))
            for f in framework.filters
            if f.reads.is_kept and f.name not in skipped
        )
        # Who rejects no node, and reads nothing but nodes, has no say until a node changes.
        self.filters = [f for f in asked if f.status_of is not None or f.plugin.reads is Reads.PODS]
        self.mask = table.valid[: table.size].copy()
        for kept in self.filters:
            self.mask &= kept.codes == 0
        self._moving_filters = [f for f in self.filters if f.plugin.reads is Reads.PODS]
        self._moving_scores = []
        self._scored = False
        self._node_version = table.node_version

    def score(self, pod: api.Pod) -> None:
        """Ask for scores, the first time that they matter: a pod with one feasible node needs none."""
        if not self._scored:
            self._rebuild_scores(pod, Nodes(self._table), self.state)
            self._scored = True

    def _rebuild_scores(self, pod: api.Pod, nodes: Nodes, state: CycleState) -> None:
        framework, table = self._framework, self._table
        self.skipped = frozenset(
            p.name for p in framework.pre_score if p.reads.is_kept and not framework.ask_pre_score(p, state, pod, nodes)
        )
        self.scores = [
            KeptScore(s, framework.ask_score(s, state, pod, nodes))
            for s in framework.scores
            if s.reads.is_kept and s.name not in self.skipped
        ]
        self._moving_scores = [s for s in self.scores if s.plugin.reads is Reads.PODS]
        for kept in self._moving_scores:
            if isinstance(kept.raw, int):  # the same everywhere now, but not for ever
                kept.raw = np.full(table.size, kept.raw, dtype=np.int64)
        plain = [s for s in self.scores if s.plugin.normalize is None]
        self.suspects = [s for s in plain if not _in_range(s.raw)]
        self._static = np.zeros(table.size, dtype=np.int64)
        for kept in plain:
            if kept not in self._moving_scores:
                self._static += kept.raw * kept.plugin.weight
        self.base = self._static.copy()
        for kept in self._moving_scores:
            if kept.plugin.normalize is None:
                self.base += kept.raw * kept.plugin.weight
        self.ranked = np.where(self.mask, self.base, -1)

    def _update_row(self, pod: api.Pod, row: int) -> None:
        nodes = Nodes(self._table, slice(row, row + 1))
        for kept in self._moving_filters:
            verdicts = kept.plugin.filter_all(self.state, pod, nodes)
            kept.codes[row] = 0 if verdicts is None else verdicts.codes[0]
            if verdicts is not None:
                kept.status_of = verdicts.status_of
        passes = bool(self._table.valid[row]) and all(not kept.codes[row] for kept in self.filters)
        self.mask[row] = passes
        if not self._scored:
            return
        total = self._static[row]
        for scored in self._moving_scores:
            answer = scored.plugin.score_all(self.state, pod, nodes)
            raw = answer if isinstance(answer, int) else answer[0]
            scored.raw[row] = raw  # type: ignore[index]  # what moves is an array
            if scored.plugin.normalize is None:
                total += raw * scored.plugin.weight
                if not MIN_NODE_SCORE <= raw <= MAX_NODE_SCORE:
                    self._suspect(scored)
        self.base[row] = total
        self.ranked[row] = total if passes else -1

    def _update_rows(self, pod: api.Pod, rows: Ints) -> None:
        nodes = Nodes(self._table, rows)
        for kept in self._moving_filters:
            verdicts = kept.plugin.filter_all(self.state, pod, nodes)
            kept.codes[rows] = 0 if verdicts is None else verdicts.codes
            if verdicts is not None:
                kept.status_of = verdicts.status_of
        passes = self._table.valid[rows].copy()
        for kept in self.filters:
            passes &= kept.codes[rows] == 0
        self.mask[rows] = passes
        if not self._scored:
            return
        total = self._static[rows]
        for scored in self._moving_scores:
            raw = scored.plugin.score_all(self.state, pod, nodes)
            scored.raw[rows] = raw  # type: ignore[index]  # what moves is an array
            if scored.plugin.normalize is None:
                total = total + raw * scored.plugin.weight
                if not _in_range(raw):
                    self._suspect(scored)
        self.base[rows] = total
        self.ranked[rows] = np.where(passes, total, -1)

    def _suspect(self, scored: KeptScore) -> None:
        if scored not in self.suspects:
            self.suspects.append(scored)


def _in_range(scores: Ints | int) -> bool:
    if isinstance(scores, int):
        return MIN_NODE_SCORE <= scores <= MAX_NODE_SCORE
    return bool(scores.min(initial=0) >= MIN_NODE_SCORE and scores.max(initial=0) <= MAX_NODE_SCORE)
