"""Trying nodes: which pods would have to go for the pod to fit there.

All pods of lower priority are removed tentatively. If the pod then fits, they are added back one by one as long as it
still fits: first those that a disruption budget protects, then the rest, the most important first. Pods that cannot be
added back are the victims.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import NodeTable
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unresolvable
from kubesched.framework.what_if import WhatIf, attributed
from kubesched.plugins.default_preemption.victims import Badness, Budget, badness, most_important_first, violating

Evictable = Callable[[api.Pod, Collection[PodInfo]], list[PodInfo]]
"""Which of the pods on a node a pod may evict."""
NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")


@dataclass(slots=True)
class Trial:
    """A node that is tried, and the result: victims, or why removing pods does not help."""

    row: int
    order: list[PodInfo] = field(default_factory=list)
    """Pods of lower priority in the order in which they are added back."""
    protected: int = 0
    """How many of them, first in the order, a disruption budget protects."""
    victims: list[PodInfo] = field(default_factory=list)
    violations: int = 0
    failure: Status | None = None
    _badness: Badness | None = None

    @property
    def badness(self) -> Badness:
        """What candidates are compared by; the lowest is the best."""
        if self._badness is None:
            self._badness = badness(self.victims, self.violations)
        return self._badness


class TrialProbe(ABC):
    """Supposes pods on rows, and asks Filter plugins about the result."""

    @abstractmethod
    def add(self, pods: Sequence[tuple[PodInfo, int]]) -> None:
        """Suppose each of these pods were on its row."""

    @abstractmethod
    def remove(self, pods: Sequence[tuple[PodInfo, int]]) -> None:
        """Suppose each of these pods were not on its row."""

    @abstractmethod
    def statuses(self, rows: Sequence[int]) -> list[Status | None]:
        """Why the pod does not fit on each of these rows; None if it does."""


class ManyRowsProbe(TrialProbe):
    """Asks plugins that answer for a row from that row alone, about many rows at once."""

    def __init__(
        self, what_if: WhatIf, table: NodeTable, state: CycleState, pod: api.Pod, plugins: Sequence[FilterPlugin] | None
    ) -> None:
        self._what_if = what_if
        self._table = table
        self._state = state
        self._pod = pod
        self._plugins = plugins

    def add(self, pods: Sequence[tuple[PodInfo, int]]) -> None:
        self._table.place_each(pods)

    def remove(self, pods: Sequence[tuple[PodInfo, int]]) -> None:
        self._table.take_off_each(pods)

    def statuses(self, rows: Sequence[int]) -> list[Status | None]:
        """The pod must fit with the pods nominated to a row, and without them."""
        nominated = [(info, row) for row in rows for info in self._what_if.nominated_on(self._pod, row)]
        if not nominated:
            return self._ask(rows)
        self.add(nominated)
        found = self._ask(rows)
        self.remove(nominated)
        beside = {row for _, row in nominated}
        again = [position for position, row in enumerate(rows) if row in beside and found[position] is None]
        for position, status in zip(again, self._ask([rows[position] for position in again]), strict=True):
            found[position] = status
        return found

    def _ask(self, rows: Sequence[int]) -> list[Status | None]:
        found: list[Status | None] = [None] * len(rows)
        if rows:
            rejections = self._what_if.rejections_on(self._state, self._pod, np.array(rows), self._plugins)
            for status, positions in rejections.groups(np.ones(len(rows), dtype=np.bool_)):
                for position in positions.tolist():
                    found[position] = attributed(status)
        return found


class OneRowProbe(TrialProbe):
    """Asks every active plugin about one row."""

    def __init__(self, what_if: WhatIf, state: CycleState, pod: api.Pod) -> None:
        self._what_if = what_if
        self._state = state.clone()
        self._pod = pod

    def add(self, pods: Sequence[tuple[PodInfo, int]]) -> None:
        self._what_if.add_pods(self._pod, [(self._state, info, row) for info, row in pods])

    def remove(self, pods: Sequence[tuple[PodInfo, int]]) -> None:
        self._what_if.remove_pods(self._pod, [(self._state, info, row) for info, row in pods])

    def statuses(self, rows: Sequence[int]) -> list[Status | None]:
        return [self._what_if.status_on(self._state, self._pod, row) for row in rows]


def lower_priority(pod: api.Pod, infos: Collection[PodInfo]) -> list[PodInfo]:
    """The pods of a node that a pod may evict."""
    return [info for info in infos if info.pod.priority < pod.priority]


def dry_run(
    what_if: WhatIf,
    table: NodeTable,
    probe: TrialProbe,
    pod: api.Pod,
    rows: Sequence[int],
    budgets: Sequence[Budget],
    evictable: Evictable = lower_priority,
) -> list[Trial]:
    """Try rows, all of them in step."""
    trials = [Trial(row) for row in rows]
    for trial in trials:
        trial.order = evictable(pod, table.pods[trial.row].values())
        if not trial.order:
            trial.failure = NO_VICTIMS
    open_ = [trial for trial in trials if trial.order]
    with what_if.on_rows(rows):
        _remove_all(open_, probe)
        _ask(open_, probe)
        open_ = [trial for trial in open_ if trial.failure is None]
        for trial in open_:
            _rank(trial, budgets)
        _add_back(open_, probe)
    for trial in open_:
        if 0 < trial.protected < len(trial.order):
            trial.victims = most_important_first(trial.victims)
    return trials


def _remove_all(trials: Sequence[Trial], probe: TrialProbe) -> None:
    probe.remove([(info, trial.row) for trial in trials for info in trial.order])


def _rank(trial: Trial, budgets: Sequence[Budget]) -> None:
    trial.order = most_important_first(trial.order)
    protected = violating(trial.order, budgets)
    trial.protected = len(protected)
    if protected:
        trial.order = protected + [info for info in trial.order if info not in protected]


def _add_back(trials: Sequence[Trial], probe: TrialProbe) -> None:
    """Add pods back one by one, on all rows in step."""
    for step in range(max((len(trial.order) for trial in trials), default=0)):
        active = [trial for trial in trials if step < len(trial.order)]
        probe.add([(trial.order[step], trial.row) for trial in active])
        _ask(active, probe)
        failed = [trial for trial in active if trial.failure is not None]
        if failed:
            probe.remove([(trial.order[step], trial.row) for trial in failed])
        for trial in failed:
            trial.failure = None
            trial.victims.append(trial.order[step])
            trial.violations += step < trial.protected


def _ask(trials: Sequence[Trial], probe: TrialProbe) -> None:
    """Check whether the pod now fits on the row of each trial; `failure` says why not."""
    statuses = probe.statuses([trial.row for trial in trials])
    for trial, status in zip(trials, statuses, strict=True):
        trial.failure = status
