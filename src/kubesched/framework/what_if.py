"""What if pods were elsewhere: asking Filter plugins about nodes with other pods on them.

No copy of the cluster is made. Pods come and go on the live rows of the node table, and afterwards the rows are
restored.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.errors import PluginError
from kubesched.framework.plugin import Reads
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status
from kubesched.framework.verdicts import Rejections

if TYPE_CHECKING:
    from kubesched.framework.runtime import Framework

Move = tuple[CycleState, PodInfo, int]
"""A pod, the row that it is added to or removed from, and the cycle state that has to follow."""


class WhatIf:
    """Lets a plugin suppose changes to the pods on nodes, and ask the profile's Filter plugins about the result."""

    def __init__(self, framework: Framework) -> None:
        self._framework = framework
        self._cluster = framework.cluster
        self._extensions = [plugin for plugin in framework.pre_filter if hasattr(plugin, "add_pod")]
        self._order = {plugin.name: position for position, plugin in enumerate(framework.filters)}

    # Supposing

    @contextmanager
    def on_rows(self, rows: Sequence[int]) -> Iterator[None]:
        """A block in which pods may be added to and removed from these rows; they are restored at its end."""
        table = self._cluster.nodes
        pods = {row: dict(table.pods[row]) for row in rows}
        used, stamps = table.used[:, list(rows)], table.stamps[list(rows)]
        try:
            yield
        finally:
            table.restore(pods, used, stamps)

    def add_pods(self, pod: api.Pod, moves: Sequence[Move]) -> None:
        """Suppose each of these pods were on its row too."""
        self._cluster.nodes.place_each([(info, row) for _, info, row in moves])
        self._update_states(moves, "PreFilter AddPod", "add_pod", pod)

    def remove_pods(self, pod: api.Pod, moves: Sequence[Move]) -> None:
        """Suppose each of these pods were not on its row."""
        self._cluster.nodes.take_off_each([(info, row) for _, info, row in moves])
        self._update_states(moves, "PreFilter RemovePod", "remove_pod", pod)

    def _update_states(self, moves: Sequence[Move], point: str, method: str, pod: api.Pod) -> None:
        for plugin in self._extensions:
            for state, info, row in moves:
                if plugin.name not in state.skip_filter:
                    self._framework.call(state.record, plugin, point, getattr(plugin, method), state, pod, info, row)

    @contextmanager
    def with_nominated(self, state: CycleState, pod: api.Pod, row: int) -> Iterator[tuple[CycleState, bool]]:
        """Suppose the pods nominated to a row were on it, those of at least this pod's priority; whether any are."""
        pods = self.nominated_on(pod, row)
        if not pods:
            yield state, False
            return
        state = state.clone()
        with self.on_rows([row]):
            self.add_pods(pod, [(state, info, row) for info in pods])
            yield state, True

    def can_be_asked_at_once(self, plugins: Iterable[FilterPlugin]) -> bool:
        """Whether these plugins look at nothing but the row in question, not even at a cycle state that follows."""
        following = {plugin.name for plugin in self._extensions}
        return all(each.reads.is_cacheable and each.name not in following for each in plugins)

    @contextmanager
    def with_all_nominated(self, pod: api.Pod, rows: Sequence[int]) -> Iterator[None]:
        """Suppose for many rows at once that the pods nominated to them were on them, those of at least this pod's
        priority. Cycle states do not follow."""
        with self.on_rows(rows):
            self._cluster.nodes.place_each([(info, row) for row in rows for info in self.nominated_on(pod, row)])
            yield

    # Asking

    def status_on(self, state: CycleState, pod: api.Pod, row: int) -> Status | None:
        """Why the pod does not fit on a row; None if it does. It must fit with the pods nominated to the row, and
        without them."""
        window = Nodes(self._cluster.nodes, slice(row, row + 1))
        with self.with_nominated(state, pod, row) as (supposed, added):
            status = attributed(self._framework.run_filters(supposed, pod, window).status(0))
        if status is None and added:
            status = attributed(self._framework.run_filters(state, pod, window).status(0))
        return status

    def rejections_on(
        self, state: CycleState, pod: api.Pod, rows: Ints, plugins: Sequence[FilterPlugin] | None = None
    ) -> Rejections:
        """The results of Filter plugins, by default of every active one, for several rows at once. Nominated pods are
        not added. A plugin that reads the whole cluster sees what is supposed on all the rows."""
        return self._framework.run_filters(state, pod, Nodes(self._cluster.nodes, rows), plugins)

    def filters_by_validity(self, state: CycleState) -> tuple[list[FilterPlugin], list[FilterPlugin]]:
        """The active Filter plugins: those whose answer for a row is valid as long as the row does not change, and
        the others."""
        lasting: list[FilterPlugin] = []
        others: list[FilterPlugin] = []
        for plugin in self._framework.active_filters(state):
            (lasting if plugin.reads.is_cacheable else others).append(plugin)
        return lasting, others

    def cache_class(self, state: CycleState) -> PodClass:
        """The class that answers of the first kind are valid for."""
        return self._framework.cache_class(state.pod_class)

    def is_row_local(self, state: CycleState) -> bool:
        """Whether what is supposed on one row cannot matter on another, so that many rows can be tried at once."""
        extended = any(plugin.name not in state.skip_filter for plugin in self._extensions)
        return not extended and all(each.reads is not Reads.CLUSTER for each in self._framework.active_filters(state))

    def order_of(self, plugin: str) -> int:
        """The position of a Filter plugin among those of the profile. The first one that rejects a row decides."""
        return self._order[plugin]

    def nominated_rows(self, pod: api.Pod) -> list[int]:
        """Rows that pods of at least this pod's priority are nominated to."""
        nominations, row_of = self._cluster.nominations, self._cluster.nodes.row_of
        rows = [row_of[name] for name in nominations.nodes_with(pod.priority) if name in row_of]
        own = row_of.get(nominations.node_of(pod.uid) or "")
        if own is not None and not self.nominated_on(pod, own):
            rows = [row for row in rows if row != own]
        return rows

    def nominated_on(self, pod: api.Pod, row: int) -> list[PodInfo]:
        """The pods of at least this pod's priority that are nominated to a row."""
        return [info for info in self._cluster.nominations.on(self._cluster.nodes.names[row]) if _outranks(info, pod)]


class PodDependence:
    """Which Filter plugins' results for a node may depend on the pods of a class being there."""

    NONE = sys.maxsize

    def __init__(self, what_if: WhatIf, state: CycleState, pod: api.Pod, plugins: Sequence[FilterPlugin]) -> None:
        self._state = state
        self._pod = pod
        self._plugins = [(what_if.order_of(each.name), each.plugin) for each in plugins]
        self._known: dict[PodClass, int] = {}

    def first(self, others: Iterable[PodClass]) -> int:
        """The position of the first plugin to which pods of one of these classes may matter, or `NONE`."""
        return min(map(self._first, others), default=self.NONE)

    def _first(self, other: PodClass) -> int:
        known = self._known.get(other)
        if known is None:
            depending = (
                order for order, each in self._plugins if each.filter_depends_on(self._state, self._pod, other)
            )
            known = self._known[other] = min(depending, default=self.NONE)
        return known


def attributed(status: Status | None) -> Status | None:
    """A Filter status; an error gets upstream's prefix, which names the plugin."""
    if status is None or status.is_rejected:
        return status
    return Status(Code.ERROR, f'running "{status.plugin}" filter plugin: {status.message}', plugin=status.plugin)


def checked(status: Status | None) -> Status | None:
    """A Filter status, unless it is an error: that is raised."""
    status = attributed(status)
    if status is not None and status.code is Code.ERROR:
        raise PluginError(status.plugin, "Filter", status.message)
    return status


def _outranks(info: PodInfo, pod: api.Pod) -> bool:
    return info.pod.priority >= pod.priority and info.pod.metadata.uid != pod.metadata.uid
