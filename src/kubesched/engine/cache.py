"""Cached answers of plugins about all nodes, per pod class, updated for the next pod of the class.

A plugin that declares what it reads (see `Reads`) is called again only for rows that changed. Usually that is the one
row that the last pod went to. After a change of a node, all plugins are called for its row; only if there are others
than ours, which may compare nodes with each other, or if nodes came or went, they are called for all rows.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any
from weakref import ref

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.engine.columns import CachedFilter, CachedScore
from kubesched.engine.nominated import BesideNominated
from kubesched.engine.ranking import BestList, BlockMaxima
from kubesched.engine.shared_answers import Shapes, SharedAnswers, derived_by, shape
from kubesched.engine.tie_breaking import Best
from kubesched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, Reads
from kubesched.framework.record import CycleRecord
from kubesched.framework.runtime import NOT_RECORDED, Framework
from kubesched.framework.state import CycleState

LARGE = 16_384
"""How many nodes are so many that the best one is searched for in blocks."""


class _State(CycleState):
    """The state of cached answers. The class holds these, so they must not hold the class."""

    __slots__ = ("_pod_class",)

    @property
    def pod_class(self) -> PodClass:
        pod_class = self._pod_class()
        assert pod_class is not None  # a pod of the class is being scheduled
        return pod_class

    @pod_class.setter
    def pod_class(self, pod_class: PodClass) -> None:
        self._pod_class = ref(pod_class)


class CachedAnswers:
    """A profile's cached answers for one pod class."""

    def __init__(self, framework: Framework, pod_class: PodClass, shapes: Shapes | None = None) -> None:
        """With `shapes`, answers that do not depend on requests are shared by the classes of a shape."""
        self._framework = framework
        self._shapes = shapes if framework.caches_only_built_in else None
        self._shared: SharedAnswers | None = None
        self._key: bytes | None = None
        self._table = framework.cluster.nodes
        self._node_version = -1
        self._position = -1
        self.state: CycleState = _State(pod_class)
        self.answers: dict[str, Any] = {}
        """PreFilter results of the plugins that are called once for the class."""
        self.asked_pre_filters: list[Any] = []
        self.asked_pre_scores: list[Any] = []
        """The plugins that are called for every pod."""
        self._written: dict[str, set[Hashable]] = {}
        """The keys of the state that each plugin in `answers` has written."""
        self.skipped_filters: frozenset[str] | None = None
        """The plugins whose PreFilter skips Filter; None if one of them rejects the pod or narrows the nodes."""
        self.filters: list[CachedFilter] = []
        self.scores: list[CachedScore] = []
        self.mask: Mask = np.zeros(0, dtype=np.bool_)
        """Rows that pass the cached Filters."""
        self.base: Ints = np.zeros(0, dtype=np.int64)
        """The sum of the weighted scores that need no normalising."""
        self.ranked: Ints = np.zeros(0, dtype=np.int64)
        """The same, with -1 where the mask is false: its maximum is the best node when nothing else scores."""
        self.skipped: frozenset[str] = frozenset()
        """Plugins whose cached PreScore skips Score."""
        self.suspects: list[CachedScore] = []
        """Scores out of range on some row; an error only if that row is feasible."""
        self.beside_nominated: BesideNominated = {}
        self._static: Ints = self.base
        self._maxima: BestList | BlockMaxima | None = None
        self._was_ranked = False
        self._scored = False
        self._window: Nodes | None = None
        self._passing: int | None = None
        self._moving_filters: list[CachedFilter] = []
        self._moving_scores: list[CachedScore] = []

    def refresh(self, pod: api.Pod, record: CycleRecord) -> None:
        """Bring the answers up to date. Plugin calls go to the record."""
        self.state.record = record
        try:
            self._refresh(pod)
        finally:  # also when a plugin raises: the answers must not hold the attempt
            self.state.record = NOT_RECORDED

    def _refresh(self, pod: api.Pod) -> None:
        table = self._table
        changed: Sequence[int] | None = ()
        if self._position != table.log_end:
            changed = table.changed_since(self._position)
        if self._node_version != table.node_version or len(self.mask) != table.size:
            moved = self._follow_nodes(pod)
            changed = None if changed is None or moved is None else [*changed, *moved]
        if changed is None or len(changed) > table.size:
            self._rebuild(pod)
        elif changed:
            self._update(pod, changed)
        self._position = table.log_end

    def withdraw_after(self, plugin: str, state: CycleState) -> None:
        """PreFilter stopped at this plugin: a pod's state must not have what the plugins after it would write."""
        names = [each.name for each in self._framework.pre_filter]
        for name in names[names.index(plugin) + 1 :]:
            for key in self._written.get(name, ()):
                state.delete(key)

    def _follow_nodes(self, pod: api.Pod) -> Sequence[int] | None:
        """Take over what plugins that read only nodes answer now; returns the rows whose nodes have changed. None if
        the answers have to be made anew."""
        table, shared, key = self._table, self._shared, self._key
        moved = table.nodes_changed_since(self._node_version) if len(self.mask) == table.size else None
        if moved is None or shared is None or key is None or self._shapes is None:
            return None
        found = self._shapes.get(key)
        if found is None or not found.is_current(table.node_version, table.size):
            found = self._shapes[key] = self._changed_at(shared, np.array(sorted(set(moved)), dtype=np.int64), pod)
        if self._scored:
            if found.scores is None:
                return None
            self.scores = [found.scores.get(each.plugin.name, each) for each in self.scores]
            self._static = found.static
        self._shared = found
        known = found.filters | {each.plugin.name: each for each in self._moving_filters}
        self.filters = [known[f.name] for f in self._framework.cacheable_filters if f.name in known]
        self._node_version = table.node_version
        return moved

    def _changed_at(self, shared: SharedAnswers, rows: Ints, pod: api.Pod) -> SharedAnswers:
        """Shared answers after some nodes have changed. They are copied: other classes may still use the old ones."""
        nodes, version = Nodes(self._table, rows), self._table.node_version
        mask, filters = self._filters_changed_at(shared, rows, pod, nodes)
        copied = shared.with_filters(version, mask, filters)
        if shared.scores is None:
            return copied
        copied.scores, copied.static = {}, shared.static.copy()
        copied.static[rows] = 0
        for name, scored in shared.scores.items():
            raw = self._framework.ask_score(scored.plugin, self.state, pod, nodes)
            copied.scores[name] = scored.changed_at(rows, raw, len(mask))
            if scored.plugin.normalize is None:
                copied.static[rows] += raw * scored.plugin.weight
        return copied

    def _filters_changed_at(
        self, shared: SharedAnswers, rows: Ints, pod: api.Pod, nodes: Nodes
    ) -> tuple[Mask, dict[str, CachedFilter]]:
        filters: dict[str, CachedFilter] = {}
        passes = nodes.valid.copy()
        skipped = _skipping(shared.answers)
        for plugin in self._framework.cacheable_filters:
            if plugin.reads is not Reads.NODE or plugin.name in skipped:
                continue
            verdicts = self._framework.ask_filter(plugin, self.state, pod, nodes)
            known = shared.filters.get(plugin.name)
            if known is not None or verdicts is not None:
                known = known or CachedFilter(plugin, len(shared.mask), None)
                filters[plugin.name] = known.changed_at(rows, verdicts)
                passes &= filters[plugin.name].codes[rows] == 0
        mask = shared.mask.copy()
        mask[rows] = passes
        return mask, filters

    def _update(self, pod: api.Pod, changed: Sequence[int]) -> None:
        try:
            if len(changed) == 1:
                self._update_row(pod, changed[0])
            else:
                self._update_rows(pod, np.array(sorted(set(changed)), dtype=np.int64))
        except KeyboardInterrupt:
            raise
        except BaseException:
            # A rebuild finds out which plugin failed, if it fails again.
            self._node_version = -1
            self._rebuild(pod)

    def _rebuild(self, pod: api.Pod) -> None:
        table = self._table
        # The old state may be shared with other classes: it must not hold the attempt.
        record, self.state.record = self.state.record, NOT_RECORDED
        self.state = _State(self.state.pod_class, record)
        self._window = self._passing = None
        key = self._key = None if self._shapes is None else shape(self.state.pod_class)
        found = None if key is None or self._shapes is None else self._shapes.get(key)
        if found is not None and found.is_current(table.node_version, table.size):
            self._take_over(found, pod)
        else:
            found = self._ask_all(pod)
            if key is not None and self._shapes is not None:
                self._shapes[key] = found
        self._shared = None if key is None else found
        self._moving_filters = [f for f in self.filters if f.plugin.reads is Reads.PODS]
        self._moving_scores = []
        self._scored = False
        self._node_version = table.node_version

    def _ask_all(self, pod: api.Pod) -> SharedAnswers:
        """Call every plugin; returns what does not depend on requests."""
        framework, table, state = self._framework, self._table, self.state
        once = {id(p) for p in framework.plugins if framework.is_asked_once(p, state.pod_class)}
        self.asked_pre_filters = [p for p in framework.pre_filter if id(p) not in once]
        self.asked_pre_scores = [p for p in framework.pre_score if id(p) not in once]
        self.answers, self._written = {}, {}
        nodes = Nodes(table)
        skipped = self._ask_pre_filters((p for p in framework.pre_filter if id(p) in once), pod, nodes)
        asked = (
            CachedFilter(f, table.size, framework.ask_filter(f, state, pod, nodes))
            for f in framework.cacheable_filters
            if f.name not in skipped
        )
        # A plugin that rejects no node, and reads only nodes, is not needed until a node changes.
        self.filters = [f for f in asked if f.status_of is not None or f.plugin.reads is Reads.PODS]
        lasting = [f for f in self.filters if f.plugin.reads is Reads.NODE]
        shared = SharedAnswers(
            table.node_version,
            _passing(table.valid[: table.size], lasting),
            {f.plugin.name: f for f in lasting},
            state,
        )
        shared.answers, shared.written = self.answers, self._written
        shared.asked_pre_filters, shared.asked_pre_scores = self.asked_pre_filters, self.asked_pre_scores
        shared.memo = self._derived_from_spec()
        self.mask = _passing(shared.mask, (f for f in self.filters if f.plugin.reads is Reads.PODS))
        return shared

    def _take_over(self, shared: SharedAnswers, pod: api.Pod) -> None:
        """Use what another class has, and call the plugins that read pods on nodes."""
        framework, table, state = self._framework, self._table, self.state
        state.adopt(shared.state)
        state.skip_score |= shared.state.skip_score
        state.pod_class.memo.update(shared.memo)
        self.asked_pre_filters, self.asked_pre_scores = shared.asked_pre_filters, shared.asked_pre_scores
        self.answers, self._written = dict(shared.answers), dict(shared.written)
        nodes = Nodes(table)
        skipped = self._ask_pre_filters((p for p in framework.pre_filter if p.reads is Reads.PODS), pod, nodes)
        moving = {
            f.name: CachedFilter(f, table.size, framework.ask_filter(f, state, pod, nodes))
            for f in framework.cacheable_filters
            if f.reads is Reads.PODS and f.name not in skipped
        }
        known = shared.filters | moving
        self.filters = [known[f.name] for f in framework.cacheable_filters if f.name in known]
        self.mask = _passing(shared.mask, moving.values())

    def _ask_pre_filters(self, plugins: Iterable[Any], pod: api.Pod, nodes: Nodes) -> set[str]:
        """Call PreFilter of some plugins; returns those, of all, that skip Filter."""
        state = self.state
        for plugin in plugins:
            before = list(state.keys())
            self.answers[plugin.name] = self._framework.ask_pre_filter(plugin, state, pod, nodes)
            if len(state.keys()) != len(before):
                self._written[plugin.name] = set(state.keys()).difference(before)
        skipped = _skipping(self.answers)
        decided = any(answer is not None and name not in skipped for name, answer in self.answers.items())
        self.skipped_filters = None if decided else frozenset(skipped)
        return skipped

    def _derived_from_spec(self) -> dict[Hashable, object]:
        """What plugins that do not read requests have derived from the pod."""
        return derived_by({p for p in self._framework.plugins if p.reads is Reads.NODE}, self.state.pod_class.memo)

    def score(self, pod: api.Pod, record: CycleRecord) -> None:
        """Compute the scores when they are first needed: a pod with one feasible node needs none."""
        if not self._scored:
            self.state.record = record
            try:
                self._rebuild_scores(pod, Nodes(self._table), self.state)
            finally:
                self.state.record = NOT_RECORDED
            self._scored = True

    def _rebuild_scores(self, pod: api.Pod, nodes: Nodes, state: CycleState) -> None:
        framework, table, shared = self._framework, self._table, self._shared
        known: Mapping[str, CachedScore] = {}
        if shared is None or shared.scores is None:
            asked = [p for p in framework.pre_score if p not in self.asked_pre_scores]
            skipped = frozenset(state.skip_score)
        else:
            known, skipped = shared.scores, shared.skipped_scores
            asked = [p for p in framework.pre_score if p.reads is Reads.PODS]
            state.adopt(shared.state)
            state.pod_class.memo.update(shared.memo)
        self.skipped = skipped.union(p.name for p in asked if not framework.ask_pre_score(p, state, pod, nodes))
        self.scores = [
            known.get(s.name) or CachedScore(s, framework.ask_score(s, state, pod, nodes))
            for s in framework.cacheable_scores
            if s.name not in self.skipped
        ]
        self._moving_scores = [s for s in self.scores if s.plugin.reads is Reads.PODS]
        for cached in self._moving_scores:
            if isinstance(cached.raw, int):  # the same everywhere now, but that may change
                cached.raw = np.full(table.size, cached.raw, dtype=np.int64)
        if shared is None or shared.scores is None:
            self._sum_lasting_scores()
        else:
            self._static, self.suspects = shared.static, list(shared.suspects)
        self.base = self._static.copy()
        for cached in self._moving_scores:
            if cached.plugin.normalize is None:
                self.base += cached.raw if cached.plugin.weight == 1 else cached.raw * cached.plugin.weight
                if not cached.is_built_in and not _in_range(cached.raw):
                    self._suspect(cached)
        self.ranked = self.base.copy() if self.mask.all() else np.where(self.mask, self.base, -1)
        self._maxima, self._was_ranked = None, False

    def passing(self) -> int:
        """How many rows pass. They are counted once, until the mask changes."""
        if self._passing is None:
            self._passing = int(np.count_nonzero(self.mask))
        return self._passing

    def window(self) -> Nodes:
        """The rows that pass. It is the same window until the mask changes, so that its row numbers are found once."""
        if self._window is None:
            self._window = Nodes(self._table, mask=self.mask)
        return self._window

    def best(self) -> Best:
        """The best rows, where nothing else scores. They are followed only from the second pod of a class on."""
        if self._maxima is None and self._was_ranked:
            self._maxima = (BlockMaxima if len(self.ranked) >= LARGE else BestList)(self.ranked)
        self._was_ranked = True
        if self._maxima is not None:
            return self._maxima.best()
        # Without NumPy's wrappers in Python, which take longer than the search.
        is_best: Mask = self.ranked == np.maximum.reduce(self.ranked)
        return is_best.nonzero()[0]

    def _sum_lasting_scores(self) -> None:
        """Add up the scores that depend on nodes only, and share them."""
        lasting = [s for s in self.scores if s.plugin.reads is not Reads.PODS]
        plain = [s for s in lasting if s.plugin.normalize is None]
        self.suspects = [s for s in plain if not _in_range(s.raw)]
        self._static = np.zeros(self._table.size, dtype=np.int64)
        for cached in plain:
            self._static += cached.raw * cached.plugin.weight
        shared = self._shared
        if shared is not None:
            moving = {p.name for p in self._framework.pre_score if p.reads is Reads.PODS}
            shared.scores = {s.plugin.name: s for s in lasting}
            shared.skipped_scores = self.skipped - moving
            shared.static, shared.suspects = self._static, tuple(self.suspects)
            shared.state, shared.memo = self.state, self._derived_from_spec()

    def _update_row(self, pod: api.Pod, row: int) -> None:
        nodes = Nodes.on(self._table, row)
        for cached in self._moving_filters:
            verdicts = cached.plugin.filter_all(self.state, pod, nodes)
            cached.codes[row] = 0 if verdicts is None else verdicts.codes[0]
            if verdicts is not None:
                cached.status_of = verdicts.status_of
        # `item` gives Python's numbers: a few operations on NumPy's take ten times as long.
        passes = self._table.valid.item(row)
        for cached in self.filters:
            passes = passes and not cached.codes.item(row)
        if self.mask.item(row) is not passes:
            self.mask[row] = passes
            self._window = self._passing = None
        if not self._scored:
            return
        total = self._static.item(row)
        for scored in self._moving_scores:
            answer = scored.plugin.score_all(self.state, pod, nodes)
            raw = answer if isinstance(answer, int) else scored.fitting(answer).item(0)
            scored.raw[row] = raw  # type: ignore[index]  # what moves is an array
            if scored.plugin.normalize is None:
                total += raw * scored.plugin.weight
                if not MIN_NODE_SCORE <= raw <= MAX_NODE_SCORE:
                    self._suspect(scored)
        self.base[row] = total
        self.ranked[row] = total if passes else -1
        if self._maxima is not None:
            self._maxima.update((row,))

    def _update_rows(self, pod: api.Pod, rows: Ints) -> None:
        nodes = Nodes.at(self._table, rows)
        passes = self._table.valid.take(rows)
        for cached in self.filters:
            if cached.plugin.reads is Reads.PODS:
                verdicts = cached.plugin.filter_all(self.state, pod, nodes)
                cached.codes[rows] = 0 if verdicts is None else verdicts.codes
                if verdicts is None:
                    continue
                cached.status_of = verdicts.status_of
            passes &= cached.codes[rows] == 0
        self.mask[rows] = passes
        self._window = self._passing = None
        if not self._scored:
            return
        total = self._static.take(rows)
        for scored in self._moving_scores:
            answer = scored.plugin.score_all(self.state, pod, nodes)
            raw = answer if isinstance(answer, int) else scored.fitting(answer)
            scored.raw[rows] = raw  # type: ignore[index]  # what moves is an array
            if scored.plugin.normalize is None:
                total += raw if scored.plugin.weight == 1 else raw * scored.plugin.weight
                if not scored.is_built_in and not _in_range(raw):
                    self._suspect(scored)
        self.base[rows] = total
        total[~passes] = -1
        self.ranked[rows] = total
        if self._maxima is not None:
            self._maxima.update(rows.tolist())

    def _suspect(self, scored: CachedScore) -> None:
        if scored not in self.suspects:
            self.suspects.append(scored)


def _skipping(answers: Mapping[str, Any]) -> set[str]:
    """The plugins whose PreFilter results skip Filter."""
    return {name for name, answer in answers.items() if getattr(answer, "is_skip", False)}


def _passing(mask: Mask, filters: Iterable[CachedFilter]) -> Mask:
    """The rows of a mask that pass some Filters, as a new mask."""
    passing = mask.copy()
    for cached in filters:
        if cached.status_of is not None:
            passing &= cached.codes == 0
    return passing


def _in_range(scores: Ints | int) -> bool:
    if isinstance(scores, int):
        return MIN_NODE_SCORE <= scores <= MAX_NODE_SCORE
    return bool(scores.min(initial=0) >= MIN_NODE_SCORE and scores.max(initial=0) <= MAX_NODE_SCORE)
