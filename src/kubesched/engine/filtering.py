"""Which nodes fit a pod: PreFilter, then Filter over cached answers and over the plugins that must run every time."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any
from weakref import WeakValueDictionary, ref

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.engine.batching import Batching
from kubesched.engine.cache import CachedAnswers
from kubesched.engine.columns import has_errors
from kubesched.engine.decision import Decision
from kubesched.engine.nominated import NominatedRows
from kubesched.engine.search import PartialFilter, search
from kubesched.engine.shared_answers import Shapes
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.plugin import Verdicts
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unresolvable
from kubesched.framework.verdicts import Rejections
from kubesched.framework.what_if import checked

EXTENDER = "Extender"
"""The name under which extenders reject pods."""
MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENTAGE = 5
CACHE_BYTES = 60_000_000
"""How much may be cached over all pod classes before the least recently used class is dropped, by this estimate:"""
CLASS_BYTES, ROW_BYTES = 12_000, 80


class Feasible:
    """The result of Filter: where the pod fits, and why not elsewhere."""

    __slots__ = ("cached", "looked_at", "looked_everywhere", "mask", "nominated", "rejections", "size")

    def __init__(
        self, mask: Mask, rejections: Rejections, cached: CachedAnswers, looked_at: Mask, *, nominated: bool = False
    ) -> None:
        self.mask = mask
        self.looked_at = looked_at
        self.looked_everywhere = False
        """Whether that is certainly every node."""
        self.rejections = rejections
        self.cached = cached
        self.nominated = nominated
        """Whether only the pod's nominated node was filtered."""
        self.size = cached.passing() if mask is cached.mask else int(np.count_nonzero(mask))


class Filtering:
    """PreFilter and Filter for the pods of one profile."""

    def __init__(
        self, framework: Framework, percentage_of_nodes_to_score: int, batching: Batching, *, extended: bool
    ) -> None:
        self._framework = framework
        self._batching = batching
        self._cluster = framework.cluster
        self._percentage = percentage_of_nodes_to_score
        self._extended = extended
        self._nominated = NominatedRows(framework)
        self._next_start = 0
        self._cached_classes: OrderedDict[ref[PodClass], None] = OrderedDict()
        """Classes with cached answers, the least recently used first. The answers are in the class and go with it."""
        self._shapes: Shapes = WeakValueDictionary()
        self._lifted = [f for f in framework.filters if f.lifted]
        self._order = {f.name: index for index, f in enumerate(framework.filters)}
        self._cluster_filters = [f for f in framework.filters if not f.reads.is_cacheable and not f.lifted]
        self._cluster_filter_names = {f.name for f in self._cluster_filters}

    def find(self, decision: Decision, *, try_nominated: bool = True) -> Feasible | Diagnosis:
        """Where the pod fits, or the diagnosis if it fits nowhere. By default a nominated node that fits is enough."""
        table, pod, state = self._cluster.nodes, decision.pod, decision.state
        cached = self._cached(decision, pod)
        state.adopt(cached.state)
        outcome = self._framework.combine_pre_filter(self._pre_filter_answers(cached, state, pod), state)
        if outcome.stopped_at:
            cached.withdraw_after(outcome.stopped_at, state)
        if outcome.status is not None:
            decision.end_point("PreFilter", outcome.status.code.upstream)
            return Diagnosis(
                table,
                others=outcome.status,
                pre_filter=outcome.status,
                plugins=outcome.plugins,
                nodes=_count(decision.within),
            )
        decision.end_point("PreFilter")
        if try_nominated:
            hint = self._batching.hint(decision, cached)
            name = pod.status.nominated_node_name
            row = table.row_of.get(name) if name else hint
            if row is not None and decision.within is not None and not decision.within[row]:
                row = None
            fits = self._on_row(row, pod, state, cached)
            if fits is not None:
                decision.end_point("Filter")
                return fits
        mask = cached.mask
        looked_at = every_node = table.valid[: table.size]
        others: Status | None = None
        if decision.within is not None:
            looked_at = looked_at & decision.within
            mask = mask & decision.within
        if outcome.node_names is not None:
            looked_at = looked_at & self._only(outcome.node_names)
            mask = mask & looked_at
            others = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(outcome.plugins))}]")
        found = self._filter(pod, state, cached, mask, looked_at)
        decision.end_point("Filter")
        if found.size == 0:
            return Diagnosis(
                table,
                looked_at=looked_at,
                rejections=found.rejections,
                others=others,
                plugins=outcome.plugins,
                nodes=_count(decision.within),
            )
        found.looked_everywhere = found.looked_at is every_node
        return found

    def narrowed(self, found: Feasible, names: Collection[str], refused: Mapping[str, Status]) -> Feasible | Diagnosis:
        """The feasible nodes that an extender left."""
        table = self._cluster.nodes
        mask = found.mask & self._only(frozenset(names))
        lost = found.mask & ~mask
        for name, status in refused.items():
            row = table.row_of.get(name)
            if row is not None and lost[row]:
                found.rejections.overruled[row] = status
        left = Feasible(mask, found.rejections, found.cached, found.looked_at, nominated=found.nominated)
        if left.size:
            return left
        return Diagnosis(table, looked_at=found.looked_at, rejections=found.rejections, plugins=frozenset((EXTENDER,)))

    def rejected_elsewhere(self, found: Feasible) -> Diagnosis:
        """Why the nodes that are not feasible were rejected."""
        looked_at = found.looked_at & ~found.mask
        return Diagnosis(self._cluster.nodes, looked_at=looked_at, rejections=found.rejections.copy())

    # PreFilter

    def _cached(self, decision: Decision, pod: api.Pod) -> CachedAnswers:
        """The cached answers for the pod, up to date."""
        pod_class = self._framework.cache_class(decision.info.pod_class)
        cached = pod_class.remember(self, CachedAnswers, self._framework, pod_class, self._shapes)
        recency = self._cached_classes
        if (used := ref(pod_class)) in recency:
            recency.move_to_end(used)
        else:
            recency[ref(pod_class, lambda gone: recency.pop(gone, None))] = None
            each = CLASS_BYTES + ROW_BYTES * self._cluster.nodes.size
            while len(recency) * each > CACHE_BYTES and len(recency) > 2:
                self._drop(recency.popitem(last=False)[0]())
        cached.refresh(pod, decision)
        return cached

    def _drop(self, pod_class: PodClass | None) -> None:
        if pod_class is not None:
            pod_class.memo.pop(self, None)

    def _pre_filter_answers(self, cached: CachedAnswers, state: CycleState, pod: api.Pod) -> Iterator[tuple[str, Any]]:
        """The PreFilter results that count, in the plugins' order. Most cached ones only skip Filter, at any place."""
        nodes, ask = Nodes(self._cluster.nodes), self._framework.ask_pre_filter
        if cached.skipped_filters is not None:
            state.skip_filter |= cached.skipped_filters
            return ((plugin.name, ask(plugin, state, pod, nodes)) for plugin in cached.asked_pre_filters)
        answers = cached.answers
        return (
            (plugin.name, answers[plugin.name] if plugin.name in answers else ask(plugin, state, pod, nodes))
            for plugin in self._framework.pre_filter
        )

    # Filter

    def _filter(self, pod: api.Pod, state: CycleState, cached: CachedAnswers, mask: Mask, looked_at: Mask) -> Feasible:
        """Combine cached answers, plugins that read the whole cluster, nominated pods, and one-node plugins."""
        entries: list[tuple[str, Verdicts]] = [
            (each.plugin.name, Verdicts(each.codes, each.status_of))
            for each in cached.filters
            if each.status_of is not None
        ]
        in_order = len(entries)
        if not state.skip_filter.issuperset(self._cluster_filter_names):
            mask = self._by_whole_cluster(pod, state, cached, entries, mask, looked_at)
        rejections = Rejections(len(mask), entries)
        if len(self._cluster.nominations):
            lost = self._nominated.check(pod, state, cached.beside_nominated, looked_at, rejections)
            if lost:
                mask = mask.copy()
                mask[lost] = False
        one_by_one = self._lifted and [plugin for plugin in self._lifted if plugin.name not in state.skip_filter]
        if one_by_one:
            mask, looked_at = self._one_by_one(one_by_one, state, pod, entries, mask, looked_at)
        elif self._percentage or self._lifted or not self._framework.scores:
            mask = self._sample(mask, int(np.count_nonzero(looked_at)))
        if len(entries) > in_order:
            entries.sort(key=lambda entry: self._order[entry[0]])
        if entries:
            sound = {each.plugin.name for each in cached.filters if each.is_sound()}
            self._raise_errors(rejections, looked_at, sound)
        return Feasible(mask, rejections, cached, looked_at)

    def _by_whole_cluster(
        self,
        pod: api.Pod,
        state: CycleState,
        cached: CachedAnswers,
        entries: list[tuple[str, Verdicts]],
        mask: Mask,
        looked_at: Mask,
    ) -> Mask:
        """Run the plugins that read the whole cluster; returns the rows that pass them too. Their verdicts are added to
        the entries."""
        whole = Nodes(self._cluster.nodes)
        for plugin in self._cluster_filters:
            if plugin.name in state.skip_filter:
                continue
            is_any_left = cached.passing() if mask is cached.mask else mask.any()
            if is_any_left or self._alive(plugin, entries, looked_at).any():
                verdicts = self._framework.ask_filter(plugin, state, pod, whole)
                if verdicts is not None:
                    entries.append((plugin.name, verdicts))
                    mask = mask & (verdicts.codes == 0)
        return mask

    def _alive(self, plugin: FilterPlugin, entries: list[tuple[str, Verdicts]], looked_at: Mask) -> Mask:
        """The rows that no plugin before this one has rejected."""
        alive = looked_at.copy()
        for name, verdicts in entries:
            if self._order[name] < self._order[plugin.name]:
                alive &= verdicts.codes == 0
        return alive

    def _one_by_one(
        self,
        plugins: Sequence[FilterPlugin],
        state: CycleState,
        pod: api.Pod,
        entries: list[tuple[str, Verdicts]],
        mask: Mask,
        looked_at: Mask,
    ) -> tuple[Mask, Mask]:
        """Run one-node plugins until enough nodes are found; returns these nodes, and all that were looked at. Their
        verdicts are added to the entries."""
        rows = self._from_last_stop(np.flatnonzero(looked_at))
        partial = [PartialFilter(plugin, self._alive(plugin, entries, looked_at)) for plugin in plugins]
        found, done = search(self._framework, partial, state, pod, rows, mask, self._wanted(len(rows)))
        entries += [(each.plugin.name, each.verdicts) for each in partial if each.statuses]
        if done < len(rows):
            self._next_start = int(rows[done - 1]) + 1
            looked_at = _marked(rows[:done], len(mask))
        return _marked(found, len(mask)), looked_at

    def _raise_errors(self, rejections: Rejections, looked_at: Mask, sound: Collection[str]) -> None:
        """A plugin that failed for some node fails the attempt. Those in `sound` have not.

        Of several errors, that of the first node counts: the same one in every run, however plugins number theirs.
        """
        for plugin, verdicts in rejections.entries:
            if plugin not in sound and has_errors(verdicts):
                for status, _ in sorted(rejections.groups(looked_at), key=lambda group: group[1].min()):
                    checked(status)

    def _on_row(self, row: int | None, pod: api.Pod, state: CycleState, cached: CachedAnswers) -> Feasible | None:
        """A pod goes to its nominated or hinted node if it fits there; no other node is looked at."""
        table = self._cluster.nodes
        if row is None or not table.valid[row] or self._framework.what_if.status_on(state, pod, row) is not None:
            return None
        mask = np.zeros(table.size, dtype=np.bool_)
        mask[row] = True
        return Feasible(mask, Rejections(table.size, []), cached, mask, nominated=True)

    def _only(self, names: frozenset[str]) -> Mask:
        table = self._cluster.nodes
        rows = np.array([table.row_of[name] for name in names if name in table.row_of], dtype=np.int64)
        return _marked(rows, table.size) & table.valid[: table.size]

    # Sampling

    def _sample(self, mask: Mask, nodes: int) -> Mask:
        """Keep only as many feasible nodes as the percentage allows, starting where the last search stopped."""
        wanted = self._wanted(nodes)
        rows = np.flatnonzero(mask)
        if len(rows) <= wanted:
            return mask
        taken = self._from_last_stop(rows)[:wanted]
        self._next_start = int(taken[-1]) + 1
        return _marked(taken, len(mask))

    def _from_last_stop(self, rows: Ints) -> Ints:
        start = self._next_start % max(1, self._cluster.nodes.size)
        return np.roll(rows, -int(np.searchsorted(rows, start)))

    def _wanted(self, nodes: int) -> int:
        if not self._framework.scores and not self._extended:
            return 1  # without scores one feasible node is as good as another
        if nodes < MIN_FEASIBLE_NODES:
            return nodes
        percentage = self._percentage or max(50 - nodes // 125, MIN_FEASIBLE_PERCENTAGE)
        return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)


def _count(within: Mask | None) -> int | None:
    return None if within is None else int(np.count_nonzero(within))


def _marked(rows: Ints, size: int) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[rows] = True
    return mask
