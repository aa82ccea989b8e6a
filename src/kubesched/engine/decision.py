"""The record of one scheduling attempt, which everything that reports or explains reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import Enum

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Ints, NodeTable
from kubesched.engine.explain import explain
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable

NO_REASON = unschedulable()
"""An extender may leave a node out of its answer without a word."""


class Outcome(Enum):
    """How an attempt ended."""

    SCHEDULED = "scheduled"
    UNSCHEDULABLE = "unschedulable"
    ERROR = "error"


@dataclass(slots=True)
class Scores:
    """What each plugin gave each feasible node, after normalising and weighting."""

    table: NodeTable
    rows: Ints
    plugins: dict[str, Ints]
    totals: Ints

    def by_node(self) -> Iterator[tuple[str, dict[str, int], int]]:
        """(node, plugin → score, total) for every feasible node."""
        columns = {plugin: scores.tolist() for plugin, scores in self.plugins.items()}
        totals = self.totals.tolist()
        for position, row in enumerate(self.rows.tolist()):
            yield (
                self.table.names[row],
                {plugin: scores[position] for plugin, scores in columns.items()},
                totals[position],
            )


@dataclass(slots=True)
class Decision:
    """One attempt to schedule one pod."""

    info: PodInfo
    outcome: Outcome
    state: CycleState
    node: str = ""
    feasible: int = 0
    evaluated: int = 0
    message: str = ""
    plugin: str = ""
    """The plugin that failed, when the outcome is an error."""
    where: str = ""
    """File and line in that plugin, for its author."""
    diagnosis: Diagnosis | None = None
    post_filter: PostFilterResult | None = None
    post_filter_status: Status | None = None
    feasible_rows: Ints | None = None
    """Kept, like the scores and the rejections of other nodes, when the attempt is recorded."""
    best_rows: Ints | None = None
    scores: Scores | None = None
    refused_by: Mapping[str, str] | None = None
    """Nodes that plugins let pass and an extender did not, each with that extender."""

    @property
    def pod(self) -> api.Pod:
        return self.info.pod

    @property
    def rejections(self) -> dict[str, Status]:
        """The nodes that were turned down, each with the status of the plugin, or extender, that did so."""
        if self.diagnosis is None:
            return {}
        names = self.diagnosis.table.names
        found = {names[row]: status for status, rows in self.diagnosis.statuses() for row in rows.tolist()}
        for name, extender in (self.refused_by or {}).items():
            found[name] = found.get(name, NO_REASON).by(extender)
        return found

    @property
    def node_scores(self) -> dict[str, dict[str, int]]:
        """What each plugin, and extender, gave each node that fits, after weighting. Empty if there was no choice, or
        the attempt was not recorded."""
        return {} if self.scores is None else {node: plugins for node, plugins, _ in self.scores.by_node()}

    def explain(self) -> str:
        """The decision in words, for people."""
        return explain(self)
