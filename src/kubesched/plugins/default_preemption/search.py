"""Which nodes are candidates for preemption.

Most Filter plugins answer for a row from its node and its pods alone. What they say in a dry run is valid until the row
changes, so it is cached per pod class, and the next pod of the class tries again only the rows that have changed. The
other plugins are asked every time. As long as the pods that were moved on a row do not matter to them, their answer for
the row as it is decides. Only where they do matter is the row tried again with all plugins.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from weakref import ref

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints, Mask
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status
from kubesched.framework.what_if import PodDependence, WhatIf, attributed
from kubesched.plugins.default_preemption.dry_run import NO_VICTIMS, ManyRowsProbe, OneRowProbe, Trial, dry_run
from kubesched.plugins.default_preemption.victims import Budget, compiled

MOST_SETS = 1000
"""How many sets of classes are remembered at most besides one for each row."""
CACHE_BYTES = 50_000_000
"""How much may be cached over all pod classes before the least recently used class is dropped, by this estimate:"""
CLASS_BYTES, SET_BYTES, TRIAL_BYTES, ROW_BYTES = 10_000, 4_000, 500, 25
"""For a class with what was compiled for it, a set of classes that victims are of, a trial, and a row."""
CANDIDATE, NOTHING_TO_EVICT = 0, 1
"""Codes of rows. A larger one stands for a cached failure, a negative one for a failure in this search alone."""
ClassRefs = frozenset[ref[PodClass]]
"""Classes of pods, which they outlive: a nominated pod may be of the class that its own trials are cached for."""


class CachedTrials:
    """The results for one pod class, as far as plugins are concerned whose answers last until the row changes."""

    def __init__(self) -> None:
        self.trials: dict[int, Trial] = {}
        """The rows that these plugins accept once pods are removed."""
        self.codes: Ints = np.zeros(0, dtype=np.int64)
        self.violating: Mask = np.zeros(0, dtype=np.bool_)
        """Candidates whose victims a disruption budget protects."""
        self.failures: list[Status] = []
        self.moved: Ints = np.zeros(0, dtype=np.int64)
        """Which set of `moved_classes` a row's trial moves pods of."""
        self.moved_classes: list[ClassRefs] = []
        self.counted = 0
        """The size when it was last looked at."""
        self._stamps: Ints = np.zeros(0, dtype=np.int64)
        self._codes: dict[Status, int] = {}
        self._moved_numbers: dict[ClassRefs, int] = {}

    @property
    def size(self) -> int:
        """About how many bytes this and its class take."""
        sets, trials, rows = len(self.moved_classes), len(self.trials), len(self.codes)
        return CLASS_BYTES + SET_BYTES * sets + TRIAL_BYTES * trials + ROW_BYTES * rows

    def stale(self, rows: Ints, stamps: Ints) -> Ints:
        """The rows that have changed since they were tried, or never were tried."""
        if len(self._stamps) < len(stamps):
            more = len(stamps) - len(self._stamps)
            self._stamps = np.concatenate((self._stamps, np.full(more, -1, dtype=np.int64)))
            self.codes = np.concatenate((self.codes, np.zeros(more, dtype=np.int64)))
            self.moved = np.concatenate((self.moved, np.zeros(more, dtype=np.int64)))
            self.violating = np.concatenate((self.violating, np.zeros(more, dtype=np.bool_)))
        if len(self.moved_classes) > len(stamps) + MOST_SETS:
            self._stamps[:] = -1
            self.moved_classes.clear()
            self._moved_numbers.clear()
        changed: Mask = self._stamps[rows] != stamps[rows]
        return rows[changed]

    def store(self, trial: Trial, moved: ClassRefs, stamp: int) -> None:
        """Keep a result, and the classes of the pods that were moved."""
        row = trial.row
        self._stamps[row] = stamp
        number = self._moved_numbers.setdefault(moved, len(self.moved_classes))
        if number == len(self.moved_classes):
            self.moved_classes.append(moved)
        self.moved[row] = number
        self.violating[row] = trial.violations > 0
        if trial.failure is None:
            self.trials[row] = trial
            self.codes[row] = CANDIDATE if trial.victims else NOTHING_TO_EVICT
        else:
            self.trials.pop(row, None)
            self.codes[row] = self.code_of(trial.failure)

    def forget(self, row: int) -> None:
        """Try a row again next time."""
        if row < len(self._stamps):
            self._stamps[row] = -1

    def failure(self, code: int) -> Status:
        """The failure that a code stands for."""
        return self.failures[code - NOTHING_TO_EVICT - 1]

    def code_of(self, failure: Status) -> int:
        """The code of a failure."""
        code = self._codes.get(failure)
        if code is None:
            self.failures.append(failure)
            code = self._codes[failure] = NOTHING_TO_EVICT + len(self.failures)
        return code


@dataclass(slots=True)
class Candidates:
    """The result of a search."""

    candidates: list[Trial] = field(default_factory=list)
    failures: Counter[Status] = field(default_factory=Counter)
    """Why removing pods does not help, and on how many of the nodes that were tried."""
    clean: int = 0
    """How many candidates violate no disruption budget."""

    @property
    def tried(self) -> int:
        return len(self.candidates) + self.failures.total()


class CandidateSearch:
    """Tries nodes until there are enough candidates, and caches what can be cached."""

    def __init__(self, cluster: ClusterState, what_if: Callable[[], WhatIf]) -> None:
        self._cluster = cluster
        self._what_if = what_if
        self._cached: OrderedDict[ref[PodClass], CachedTrials] = OrderedDict()
        """The least recently used class first. A class goes with its last pod, and what is cached for it too."""
        self._bytes = 0
        self._budgets: list[Budget] = []
        self._budgets_version = -1

    @property
    def budgets(self) -> Sequence[Budget]:
        """The disruption budgets, compiled. Cached trials hold as long as these do."""
        version = self._cluster.version(api.PodDisruptionBudget)
        if version != self._budgets_version:
            self._budgets_version = version
            self._budgets = compiled(self._cluster.all(api.PodDisruptionBudget))
            self._cached.clear()
            self._bytes = 0
        return self._budgets

    def search(self, state: CycleState, pod: api.Pod, rows: Ints, wanted: int) -> Candidates:
        """Try rows in this order until so many are candidates, at least one of which violates no budget."""
        what_if, budgets = self._what_if(), self.budgets
        with self._cache_of(what_if.cache_class(state)) as cache:
            run = _Run(self._cluster, what_if, state, pod, budgets, cache)
            found = Candidates()
            for start in range(0, len(rows), max(wanted, 1)):
                if run.add(found, rows[start : start + wanted], wanted):
                    break
        return found

    @contextmanager
    def _cache_of(self, pod_class: PodClass) -> Iterator[CachedTrials]:
        """What is cached for a class. Afterwards, other classes make room for what was added."""
        cached, used = self._cached, ref(pod_class)
        cache = cached.get(used)
        if cache is None:
            cache = cached[ref(pod_class, self._forget)] = CachedTrials()
        else:
            cached.move_to_end(used)
        try:
            yield cache
        finally:
            self._bytes += cache.size - cache.counted
            cache.counted = cache.size
            while len(cached) > 1 and self._bytes > CACHE_BYTES:
                self._forget(next(iter(cached)))

    def _forget(self, pod_class: ref[PodClass]) -> None:
        dropped = self._cached.pop(pod_class, None)
        if dropped is not None:
            self._bytes -= dropped.counted


class _Run:
    """One search."""

    def __init__(
        self,
        cluster: ClusterState,
        what_if: WhatIf,
        state: CycleState,
        pod: api.Pod,
        budgets: Sequence[Budget],
        cache: CachedTrials,
    ) -> None:
        self._cluster = cluster
        self._table = cluster.nodes
        self._what_if = what_if
        self._state = state
        self._pod = pod
        self._budgets = budgets
        self._cache = cache
        self._lasting, self._others = what_if.filters_by_validity(state)
        self._dependence = PodDependence(what_if, state, pod, self._others)
        self._failures: list[Status] = []

    def add(self, found: Candidates, rows: Ints, wanted: int) -> bool:
        """Try some rows and add the results; returns whether there are enough candidates now."""
        self._refresh(rows)
        codes, violating = self._cache.codes[rows], self._cache.violating[rows]
        fresh = self._ask_others(rows, codes, violating) if self._others else {}
        end = _enough(codes, violating, len(found.candidates), found.clean, wanted)
        rows, codes, violating = rows[:end], codes[:end], violating[:end]
        picked = codes == CANDIDATE
        found.candidates += [fresh.get(row) or self._cache.trials[row] for row in rows[picked].tolist()]
        found.clean += int(np.count_nonzero(picked & ~violating))
        self._count_failures(found, rows[~picked], codes[~picked])
        return found.clean > 0 and len(found.candidates) >= wanted

    def _count_failures(self, found: Candidates, rows: Ints, codes: Ints) -> None:
        for row in rows[codes == NOTHING_TO_EVICT].tolist():
            text = f'expected at least one victim pod on node "{self._table.names[row]}"'
            found.failures[Status(Code.ERROR, text)] += 1
        distinct, counts = np.unique(codes[codes != NOTHING_TO_EVICT], return_counts=True)
        for code, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            found.failures[self._failure(code)] += count

    def _refresh(self, rows: Ints) -> None:
        """Try the rows that have changed since the last time."""
        cache, table = self._cache, self._table
        own = table.row_of.get(self._cluster.nominations.node_of(self._pod.uid) or "")
        if own is not None:
            cache.forget(own)  # the pod's own nomination does not count, for this pod alone
        stale = cache.stale(rows, table.stamps).tolist()
        for trial in self._dry_run(stale, self._lasting) if stale else ():
            trial.order = []
            cache.store(trial, self._moved(trial.row), int(table.stamps[trial.row]))
        if own is not None:
            cache.forget(own)

    def _moved(self, row: int) -> ClassRefs:
        """The classes of the pods that a trial moves."""
        lower = (info for info in self._table.pods[row].values() if info.pod.priority < self._pod.priority)
        return frozenset(ref(info.pod_class) for info in (*lower, *self._what_if.nominated_on(self._pod, row)))

    def _dry_run(self, rows: Sequence[int], plugins: Sequence[FilterPlugin] | None = None) -> list[Trial]:
        """Try rows at once, with plugins that answer for a row from that row alone; by default with all."""
        probe = ManyRowsProbe(self._what_if, self._table, self._state, self._pod, plugins)
        return dry_run(self._what_if, self._table, probe, self._pod, rows, self._budgets)

    def _failure(self, code: int) -> Status:
        return self._cache.failure(code) if code > 0 else self._failures[-code - 1]

    # The plugins that are asked every time

    def _ask_others(self, rows: Ints, codes: Ints, violating: Mask) -> dict[int, Trial]:
        """Let the other plugins decide where they have a say; the codes are changed. Returns the trials that are not
        cached."""
        open_ = np.flatnonzero(codes != self._cache.code_of(NO_VICTIMS))
        matters = self._matters(rows[open_], codes[open_])
        self._as_they_are(rows, codes, open_[~matters])
        again = open_[matters]
        trials = self._again(rows[again].tolist())
        for position, trial in zip(again.tolist(), trials, strict=True):
            if trial.failure is not None:
                codes[position] = self._code(trial.failure)
            else:
                codes[position] = CANDIDATE if trial.victims else NOTHING_TO_EVICT
            violating[position] = trial.violations > 0
        return {trial.row: trial for trial in trials}

    def _matters(self, rows: Ints, codes: Ints) -> Mask:
        """Whether the pods that were moved on each row matter to a plugin that has a say about it: one that comes
        before the plugin that rejects the row."""
        found = np.zeros(len(rows), dtype=np.bool_)
        moved = self._cache.moved[rows]
        for number in set(moved.tolist()):
            first = self._dependence.first(_alive(self._cache.moved_classes[number]))
            if first != PodDependence.NONE:
                for code in set(codes.tolist()):
                    if first < self._position(code):
                        found |= (moved == number) & (codes == code)
        return found

    def _position(self, code: int) -> int:
        """The position of the plugin that a code is from; after all others if no plugin rejects the row."""
        if code in (CANDIDATE, NOTHING_TO_EVICT):
            return PodDependence.NONE
        return self._what_if.order_of(self._failure(code).plugin)

    def _as_they_are(self, rows: Ints, codes: Ints, positions: Ints) -> None:
        """The others reject rows as they are: that decides, unless a plugin before them has rejected the row, too."""
        if not len(positions):
            return
        rejections = self._what_if.rejections_on(self._state, self._pod, rows[positions], self._others)
        for status, rejected in rejections.groups(np.ones(len(positions), dtype=np.bool_)):
            order, code = self._what_if.order_of(status.plugin), self._code(attributed(status) or status)
            at = positions[rejected]
            for before in np.unique(codes[at]).tolist():
                if self._position(before) > order:
                    codes[at[codes[at] == before]] = code

    def _again(self, rows: Sequence[int]) -> list[Trial]:
        """Try rows with all plugins."""
        if rows and self._what_if.is_row_local(self._state):
            return self._dry_run(rows)
        return [trial for row in rows for trial in self._one(row)]

    def _one(self, row: int) -> list[Trial]:
        probe = OneRowProbe(self._what_if, self._state, self._pod)
        return dry_run(self._what_if, self._table, probe, self._pod, [row], self._budgets)

    def _code(self, failure: Status) -> int:
        self._failures.append(failure)
        return -len(self._failures)


def _alive(classes: ClassRefs) -> Iterable[PodClass]:
    """The classes. Of a row that has not changed since it was tried, all pods are there, and so are their classes."""
    return (found for each in classes if (found := each()) is not None)


def _enough(codes: Ints, violating: Mask, found: int, clean: int, wanted: int) -> int:
    """How many of the rows upstream would look at: it stops at the candidate that makes them enough."""
    picked = codes == CANDIDATE
    enough = (found + np.cumsum(picked) >= wanted) & (clean + np.cumsum(picked & ~violating) > 0)
    return int(np.argmax(enough)) + 1 if enough.any() else len(codes)
