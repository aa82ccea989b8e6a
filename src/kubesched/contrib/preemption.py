"""Preemption with rules of its own about which pods may be evicted. The rest is DefaultPreemption."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Sequence

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Ints
from kubesched.config.args import DefaultPreemptionArgs
from kubesched.framework.plugin import Handle
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, unresolvable
from kubesched.framework.what_if import WhatIf
from kubesched.plugins.default_preemption.dry_run import NO_VICTIMS, ManyRowsProbe, OneRowProbe, Trial, dry_run
from kubesched.plugins.default_preemption.plugin import DefaultPreemption
from kubesched.plugins.default_preemption.search import Candidates, CandidateSearch

TryRow = Callable[[CycleState, api.Pod, Sequence[int]], list[Trial]]


class VictimsUnknownError(Exception):
    """Who may be evicted on a node cannot be told. Other nodes are tried."""


class SelectivePreemption(DefaultPreemption):
    """The base of plugins that choose victims by other rules than priority alone."""

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._search: CandidateSearch = SelectiveSearch(handle, self._try)

    @abstractmethod
    def evictable(self, state: CycleState, pod: api.Pod, infos: Collection[PodInfo]) -> list[PodInfo]:
        """The pods of one node that the pod may evict. `VictimsUnknownError` if that cannot be told."""

    def probe(self, state: CycleState, pod: api.Pod) -> OneRowProbe:
        """What a row is tried with, if rows are tried one by one."""
        return OneRowProbe(self.handle.what_if, state, pod)

    def _objection_of_group(self, pod: api.Pod) -> str:
        """These plugins know nothing of pod groups, as upstream's."""
        return ""

    def _try(self, state: CycleState, pod: api.Pod, rows: Sequence[int]) -> list[Trial]:
        """Try rows: all at once if what is supposed on one does not matter on another."""
        what_if, table, budgets = self.handle.what_if, self.handle.cluster.nodes, self._search.budgets

        problems: list[Status | None] = []
        """Why it is not known who may be evicted, row by row."""

        def evictable(pod: api.Pod, infos: Collection[PodInfo]) -> list[PodInfo]:
            try:
                found = self.evictable(state, pod, infos)
            except VictimsUnknownError as problem:
                problems.append(Status(Code.ERROR, str(problem)))
                return []
            problems.append(None)
            return found

        if what_if.is_row_local(state):
            probe = ManyRowsProbe(what_if, table, state, pod, None)
            trials = dry_run(what_if, table, probe, pod, rows, budgets, evictable)
        else:
            trials = [
                trial
                for row in rows
                for trial in dry_run(what_if, table, self.probe(state, pod), pod, [row], budgets, evictable)
            ]
        for trial, problem in zip(trials, problems, strict=True):
            trial.failure = problem or trial.failure
        return trials


class SelectiveSearch(CandidateSearch):
    """Tries nodes until there are enough candidates. Nothing is cached: the rules may depend on time, for example."""

    def __init__(self, handle: Handle, try_rows: TryRow) -> None:
        def what_if() -> WhatIf:
            return handle.what_if

        super().__init__(handle.cluster, what_if)
        self._names = handle.cluster.nodes.names
        self._try_rows = try_rows

    def search(self, state: CycleState, pod: api.Pod, rows: Ints, wanted: int) -> Candidates:
        found = Candidates()
        for start in range(0, len(rows), max(wanted, 1)):
            for trial in self._try_rows(state, pod, rows[start : start + wanted].tolist()):
                self._count(found, trial, pod)
                if found.clean and len(found.candidates) >= wanted:
                    return found
        return found

    def _count(self, found: Candidates, trial: Trial, pod: api.Pod) -> None:
        node = self._names[trial.row]
        if trial.failure is NO_VICTIMS:
            found.failures[unresolvable(f"No victims found on node {node} for preemptor pod {pod.name}")] += 1
        elif trial.failure is not None:
            found.failures[trial.failure] += 1
        elif not trial.victims:
            found.failures[Status(Code.ERROR, f'expected at least one victim pod on node "{node}"')] += 1
        else:
            found.candidates.append(trial)
            found.clean += not trial.violations
