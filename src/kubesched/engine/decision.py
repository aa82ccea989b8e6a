"""The record of one attempt to schedule one pod: what ran, what each plugin said, what was decided, how it ended.

The engine fills it in during the scheduling cycle, the scheduler during the binding cycle. Logs, metrics, events,
status writes and explanations are made from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Ints, Mask, NodeTable
from kubesched.engine.explain import explain
from kubesched.engine.failure import Failure
from kubesched.engine.outcome import BindingState, Outcome
from kubesched.engine.tie_breaking import Best
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.errors import PluginError
from kubesched.framework.extender import ExtenderCall
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.record import ERROR, CycleRecord, no_time
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable

if TYPE_CHECKING:
    from kubesched.engine.filtering import Feasible

CLOSED = CycleRecord()
NO_REASON = unschedulable()
"""An extender may leave a node out of its answer without a reason."""
NO_NODES = "no nodes available to schedule pods"
NO_POD = api.Pod()


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


class PluginScores(NamedTuple):
    """One plugin's scores of the feasible nodes: as it gave them, and normalised and weighted. An int stands for the
    same score on every node."""

    plugin: str
    weight: int
    raw: Ints | int
    weighted: Ints | int


class BatchReport(msgspec.Struct, eq=False):
    """What batching did in one attempt (see `engine.batching`), in the words of kube-scheduler's metrics."""

    signature: bytes | None = None
    failed_signer: str = ""
    sign_error: str = ""
    refusal: tuple[str, str] = ("", "")
    """The plugin that cannot sign the pod, and why."""
    hint: str = ""
    """The node that the pod was to try first."""
    hint_seconds: float | None = None
    totals: Ints | None = None
    """The scores of all rows; -1 where the pod does not fit. Only of pods with a signature."""
    store_seconds: float | None = None
    results: list[str] = []
    flushes: list[str] = []
    lines: list[tuple[int, str, dict[str, object]]] = []
    """Verbosity, message and fields, for the log."""


class Decision(CycleRecord):
    """One attempt to schedule one pod."""

    __slots__ = (
        "assumed",
        "batch",
        "best_rows",
        "binding",
        "chosen",
        "cycle",
        "detailed",
        "diagnosis",
        "evaluated",
        "extender_calls",
        "failure",
        "feasible",
        "feasible_rows",
        "found",
        "info",
        "message",
        "outcome",
        "parts",
        "permit_timeouts",
        "plugin",
        "post_filter",
        "post_filter_status",
        "refused_by",
        "scores",
        "skip_score",
        "skips_post_filter",
        "started",
        "state",
        "where",
        "within",
    )

    def __init__(
        self,
        info: PodInfo,
        *,
        detailed: bool = False,
        timer: Callable[[], float] = no_time,
        times_plugins: bool = False,
    ) -> None:
        super().__init__(timer, times_plugins=times_plugins)
        self.info = info
        self.started = timer()
        self.detailed = detailed
        """Whether every score and every rejection is kept, for explanations."""
        self.state = CycleState(info.pod_class, self)
        self.outcome = Outcome.UNDECIDED
        self.message = ""
        self.cycle = 0
        """The number of the scheduling cycle in the loop; 0 outside of it."""
        self.batch: BatchReport | None = None
        self.chosen = ""
        """The node that the engine selected, also if something after that failed."""
        self.evaluated = 0
        """How many nodes were filtered."""
        self.feasible = 0
        """How many nodes passed Filter."""
        self.plugin = ""
        """The plugin that failed, if the outcome is an error."""
        self.where = ""
        """File and line in that plugin, for its author."""
        self.diagnosis: Diagnosis | None = None
        self.post_filter: PostFilterResult | None = None
        self.post_filter_status: Status | None = None
        self.skip_score: frozenset[str] | None = None
        """Plugins whose PreScore skipped Score; None if no node was scored."""
        self.feasible_rows: Ints | None = None
        """Recorded in detail only, like the scores and the rejections of other nodes."""
        self.found: Feasible | None = None
        """Where the pod fits. Its arrays are the engine's and change with the next decision: copy what is to last."""
        self.parts: list[PluginScores] = []
        """Scores that are not in the cached sum: those that were normalised, and those of this cycle alone."""
        self.best_rows: Best | None = None
        self.scores: Scores | None = None
        self.within: Mask | None = None
        """The only rows to look at, in the trial of a placement of a pod group; None for all."""
        self.skips_post_filter = False
        """Whether to leave out PostFilter, because this is only a trial."""
        self.refused_by: Mapping[str, str] = {}
        """Nodes that passed all plugins and not an extender, each with that extender."""
        self.extender_calls: list[ExtenderCall] = []
        self.assumed = NO_POD
        """The pod as it will be once bound."""
        self.permit_timeouts: Mapping[str, float] = {}
        """How many seconds the pod has to wait for each Permit plugin."""
        self.binding = BindingState.NOT_STARTED
        self.failure: Failure | None = None
        """How the attempt failed, if it did."""

    @property
    def pod(self) -> api.Pod:
        return self.info.pod

    @property
    def node(self) -> str:
        """The node that the pod goes to; empty if it goes nowhere."""
        return self.chosen if self.outcome is Outcome.SCHEDULED else ""

    # Ending the scheduling cycle

    def has_no_nodes(self) -> None:
        """There is no node at all."""
        self.outcome = Outcome.NO_NODES
        self.message = NO_NODES

    def found_none(self, diagnosis: Diagnosis) -> None:
        """No node fits."""
        self.outcome = Outcome.UNSCHEDULABLE
        self.diagnosis = diagnosis
        self.evaluated = diagnosis.evaluated

    def has_failed(self, problem: Exception) -> None:
        """A plugin or an extender has failed."""
        self.outcome = Outcome.ERROR
        self.message = str(problem)
        if isinstance(problem, PluginError):
            self.plugin = problem.plugin
            self.where = problem.place
            self.end_point(problem.point, ERROR)

    def refused(self, failure: Failure) -> None:
        """The attempt has ended: Reserve, Permit, PreBind or Bind refused the pod, or an unexpected error came."""
        self.failure = failure
        self.message = failure.message
        self.outcome = Outcome.UNSCHEDULABLE if failure.rejected else Outcome.ERROR

    def release(self) -> None:
        """Drop what only `decided` needs: a pod may wait on Permit for long, and these hold whole columns."""
        self.found = None
        self.parts = []
        if self.batch is not None:
            self.batch.totals = None

    def close(self) -> None:
        """Nothing is recorded from here on. Otherwise record and state would refer to each other, so that every attempt
        would wait for the garbage collector and make it run more often."""
        self.state.record = CLOSED

    def reopen(self) -> None:
        """Record again what runs."""
        self.state.record = self

    # Reading it

    @property
    def rejections(self) -> dict[str, Status]:
        """The nodes that were rejected, each with the status of the plugin or extender that rejected it."""
        if self.diagnosis is None:
            return {}
        names = self.diagnosis.table.names
        found = {names[row]: status for status, rows in self.diagnosis.statuses() for row in rows.tolist()}
        for name, extender in self.refused_by.items():
            found[name] = found.get(name, NO_REASON).by(extender)
        return found

    @property
    def node_scores(self) -> dict[str, dict[str, int]]:
        """What each plugin and extender gave each feasible node, after weighting. Empty if there was no choice, or if
        the attempt was not recorded in detail."""
        return {} if self.scores is None else {node: plugins for node, plugins, _ in self.scores.by_node()}

    def explain(self) -> str:
        """The decision in words, for people."""
        return explain(self)
