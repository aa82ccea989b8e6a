"""Pods that are nominated to nodes: others must fit beside them.

What plugins say about a row with its nominated pods on it is valid until the row or its nominations change, if they
read only that row. So it is cached per pod class. The other plugins are asked again only if the nominated pods matter
to them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import compress

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Mask
from kubesched.cluster.view import Nodes
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.plugin import Verdicts
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.framework.verdicts import Rejections
from kubesched.framework.what_if import PodDependence, checked

BesideNominated = dict[int, tuple[int, Status | None]]
"""By row: its stamp, and the status of the cacheable plugins with the row's nominated pods on it."""
NEVER = (-1, None)
"""What is known of a row that was not asked about."""

MOST_STATUSES = 1000
"""How many distinct statuses are shared at most."""


class NominatedRows:
    """Checks that a pod fits beside the pods nominated to a node."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._what_if = framework.what_if
        self._cluster = framework.cluster
        self._statuses: dict[Status, Status] = {}

    def check(
        self, pod: api.Pod, state: CycleState, known: BesideNominated, looked_at: Mask, rejections: Rejections
    ) -> list[int]:
        """The rows where the pod does not fit beside the nominated pods. Their statuses go to the rejections."""
        rows = self._what_if.nominated_rows(pod)
        rows = list(compress(rows, looked_at[rows].tolist()))
        if not rows:
            return []
        lasting, others = self._what_if.filters_by_validity(state)
        self._refresh(pod, state, known, rows, lasting)
        question = _Question(self._framework, pod, state, others, rejections.entries)
        statuses = [known[row][1] for row in rows]
        earliest, order_of = question.earliest(), self._what_if.order_of
        if earliest != PodDependence.NONE:
            statuses = [
                question.status(row, status) if status is None or order_of(status.plugin) > earliest else status
                for row, status in zip(rows, statuses, strict=True)
            ]
        rejected = {row: status for row, status in zip(rows, statuses, strict=True) if status is not None}
        for status in {id(status): status for status in rejected.values()}.values():  # many rows share one
            checked(status)
        rejections.overruled |= rejected
        return list(rejected)

    def _refresh(
        self,
        pod: api.Pod,
        state: CycleState,
        known: BesideNominated,
        rows: Sequence[int],
        plugins: Sequence[FilterPlugin],
    ) -> None:
        """Ask the cacheable plugins about rows that have changed."""
        table = self._cluster.nodes
        own = table.row_of.get(self._cluster.nominations.node_of(pod.uid) or "", -1)
        known.pop(own, None)  # the pod's own nomination does not count, for this pod alone
        stamps = zip(rows, table.stamps[rows].tolist(), strict=True)
        stale = [row for row, stamp in stamps if known.get(row, NEVER)[0] != stamp]
        if not stale:
            return
        if self._what_if.can_be_asked_at_once(plugins):
            with self._what_if.with_all_nominated(pod, stale):
                found = self._framework.run_filters(state, pod, Nodes(table, np.array(stale)), plugins)
                statuses = [self._shared(found.status(position)) for position in range(len(stale))]
        else:
            statuses = [self._ask(pod, state, row, plugins) for row in stale]
        for row, status in zip(stale, statuses, strict=True):
            known[row] = (int(table.stamps[row]) if row != own else -1, status)

    def _ask(self, pod: api.Pod, state: CycleState, row: int, plugins: Sequence[FilterPlugin]) -> Status | None:
        """Ask about one row with its nominated pods on it."""
        with self._what_if.with_nominated(state, pod, row) as (supposed, _):
            window = Nodes(self._cluster.nodes, slice(row, row + 1))
            return self._shared(self._framework.run_filters(supposed, pod, window, plugins).status(0))

    def _shared(self, status: Status | None) -> Status | None:
        """The same object for equal statuses, so that rows can be grouped by it quickly."""
        if status is None:
            return None
        if len(self._statuses) > MOST_STATUSES:
            self._statuses.clear()
        return self._statuses.setdefault(status, status)


class _Question:
    """Whether one pod fits beside nominated pods, by all plugins."""

    def __init__(
        self,
        framework: Framework,
        pod: api.Pod,
        state: CycleState,
        others: Sequence[FilterPlugin],
        entries: Sequence[tuple[str, Verdicts]],
    ) -> None:
        self._framework = framework
        self._what_if = framework.what_if
        self._pod = pod
        self._state = state
        names = {each.name for each in others}
        self._rejecting = [(self._what_if.order_of(name), name, v) for name, v in entries if name in names]
        self._dependence = PodDependence(framework.what_if, state, pod, others)

    def earliest(self) -> int:
        """The position of the first plugin that is not cacheable and can make a difference on any row, or `NONE`. A
        cacheable one before it that rejects a row decides."""
        depending = self._dependence.first(self._framework.cluster.nominations.classes)
        return min((depending, *(order for order, _, _ in self._rejecting)))

    def status(self, row: int, lasting: Status | None) -> Status | None:
        """The status of the first plugin that rejects the row with its nominated pods. `lasting` is that of the
        cacheable plugins."""
        first = None if lasting is None else (self._what_if.order_of(lasting.plugin), lasting)
        nominated = self._what_if.nominated_on(self._pod, row)
        depending = self._dependence.first(info.pod_class for info in nominated)
        if depending != PodDependence.NONE and (first is None or depending < first[0]):
            window = Nodes(self._framework.cluster.nodes, slice(row, row + 1))
            with self._what_if.with_nominated(self._state, self._pod, row) as (supposed, _):
                return self._framework.run_filters(supposed, self._pod, window).status(0)
        for order, name, verdicts in self._rejecting:
            code = int(verdicts.codes[row])
            if code and (first is None or order < first[0]):
                first = (order, verdicts.status_of(code).by(name))
        return None if first is None else first[1]
