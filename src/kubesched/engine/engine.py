"""One scheduling cycle's thinking: which nodes fit, which is best, and if none fits, what would make room."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from random import Random
from typing import Any

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.engine.decision import Decision, Outcome, Scores
from kubesched.engine.kept import Kept
from kubesched.engine.search import Asked, search
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.plugin import PostFilterResult, Verdicts
from kubesched.framework.runtime import FilterPlugin, Framework, PluginError, checked
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unresolvable
from kubesched.framework.verdicts import Rejections

NO_NODES = "no nodes available to schedule pods"
EXTENDER = "Extender"
"""The name under which extenders reject pods."""
MIN_FEASIBLE_NODES = 100
MIN_FEASIBLE_PERCENTAGE = 5
NOBODY_ELSE: Mapping[str, Ints] = {}
_KEPT_ROWS = 2_000_000
"""Rows kept over all pod classes before the least recently used class is forgotten: some 50 bytes each."""


class Feasible:
    """The outcome of Filter: where the pod fits, and why not elsewhere."""

    __slots__ = ("kept", "looked_at", "mask", "nominated", "rejections", "size")

    def __init__(
        self, mask: Mask, rejections: Rejections, kept: Kept, looked_at: Mask, *, nominated: bool = False
    ) -> None:
        self.mask = mask
        self.looked_at = looked_at
        self.rejections = rejections
        self.kept = kept
        self.nominated = nominated
        self.size = int(np.count_nonzero(mask))


class Engine:
    """Decides for the pods of one profile."""

    def __init__(
        self,
        framework: Framework,
        random: Random,
        *,
        percentage_of_nodes_to_score: int = 0,
        choose: Callable[[Sequence[int]], int] | None = None,
    ) -> None:
        self.framework = framework
        self.cluster = framework.cluster
        self._choose = choose
        self._random = random
        self._percentage = percentage_of_nodes_to_score
        self._next_start = 0
        self.extended = False
        """Whether extenders will look at feasible nodes, so that one is not enough."""
        self.record = False
        """Whether to keep everything that is said in every decision, for whoever wants to explain them all."""
        self.timer: Callable[[], float] | None = None
        """With a clock to read, `laps` says how long each extension point of the last decision took."""
        self.laps: list[tuple[str, float]] = []
        self._lap_began = 0.0
        self.unscored: frozenset[str] | None = None
        """Plugins whose PreScore skipped Score in the last decision; None if nobody was asked to score."""
        self._kept: OrderedDict[PodClass, Kept] = OrderedDict()
        self._lifted = [f for f in framework.filters if f.lifted]
        self._pre_filters = [(p, p.reads.is_kept) for p in framework.pre_filter]
        self._order = {f.name: index for index, f in enumerate(framework.filters)}
        self._cluster_filters = [f for f in framework.filters if not f.reads.is_kept and not f.lifted]
        self._cluster_pre_scores = [p for p in framework.pre_score if not p.reads.is_kept]
        self._cluster_scores = [s for s in framework.scores if not s.reads.is_kept]

    def schedule(self, info: PodInfo, *, record: bool = False, state: CycleState | None = None) -> Decision:
        """Choose a node for a pod, or say why there is none. With `record`, everything that was said is kept."""
        if state is None:
            state = CycleState(info.pod_class)
        try:
            return self._schedule(info, state, record or self.record)
        except PluginError as problem:
            return self.failed(info, state, problem)

    def failed(self, info: PodInfo, state: CycleState, problem: PluginError) -> Decision:
        """The record of an attempt that a plugin failed."""
        self.lap(problem.point)
        return Decision(info, Outcome.ERROR, state, message=str(problem), plugin=problem.plugin, where=problem.place)

    def _schedule(self, info: PodInfo, state: CycleState, record: bool) -> Decision:
        self.start_laps()
        if not self.cluster.nodes.valid_count:
            return Decision(info, Outcome.ERROR, state, message=NO_NODES)
        found = self.find_feasible(info, state)
        if isinstance(found, Diagnosis):
            decision = self._give_up(info, state, found)
            if record:
                found.freeze()
            return decision
        decision = self.decision_for(info, state, found, record=record)
        if found.size == 1:
            best: Ints = np.flatnonzero(found.mask)
        else:
            best = self.prioritize(info, state, found, decision if record else None)
            self.lap("Score")
        self.choose(decision, best)
        return decision

    def start_laps(self) -> None:
        """A decision begins."""
        self.unscored = None
        self.laps.clear()
        self.resume_laps()

    def resume_laps(self) -> None:
        """The next extension point begins; what was in between is no plugin's."""
        if self.timer is not None:
            self._lap_began = self.timer()

    def lap(self, point: str) -> None:
        """An extension point is through."""
        if self.timer is not None:
            now = self.timer()
            self.laps.append((point, now - self._lap_began))
            self._lap_began = now

    def decision_for(self, info: PodInfo, state: CycleState, found: Feasible, *, record: bool) -> Decision:
        """The record of an attempt that will end on one of the nodes found."""
        decision = Decision(info, Outcome.SCHEDULED, state, feasible=found.size)
        decision.evaluated = int(np.count_nonzero(found.looked_at))
        if record:
            decision.feasible_rows = np.flatnonzero(found.mask)
            decision.diagnosis = self._diagnose(found)
        return decision

    def choose(self, decision: Decision, best: Ints) -> None:
        """Take one of the best nodes."""
        decision.best_rows = best
        if len(best) == 1:
            row = int(best[0])
        elif self._choose is None:
            row = int(best[self._random.randrange(len(best))])
        else:
            row = self._choose(best.tolist())
        decision.node = self.cluster.nodes.names[row]

    def _give_up(self, info: PodInfo, state: CycleState, diagnosis: Diagnosis) -> Decision:
        """Nothing fits: see whether PostFilter can make room, and word the message."""
        if not self.framework.post_filter:
            return self.unschedulable(info, state, diagnosis)
        made = self.framework.run_post_filter(state, info.pod, diagnosis)
        self.lap("PostFilter")
        return self.unschedulable(info, state, diagnosis, made)

    def unschedulable(
        self,
        info: PodInfo,
        state: CycleState,
        diagnosis: Diagnosis,
        post_filter: tuple[PostFilterResult | None, Status] | None = None,
    ) -> Decision:
        """The record of an attempt that found no node, with what PostFilter made of that."""
        decision = Decision(info, Outcome.UNSCHEDULABLE, state, diagnosis=diagnosis)
        decision.evaluated = diagnosis.evaluated
        if post_filter is not None:
            decision.post_filter, decision.post_filter_status = post_filter
            diagnosis.post_filter_message = post_filter[1].message
        decision.message = diagnosis.message()
        return decision

    # Filter

    def find_feasible(self, info: PodInfo, state: CycleState, *, try_nominated: bool = True) -> Feasible | Diagnosis:
        """Where the pod fits, or the diagnosis if that is nowhere. By default a nominated node will do."""
        table, pod = self.cluster.nodes, info.pod
        kept = self._keep(info)
        state.adopt(kept.state)
        outcome = self.framework.run_pre_filter(self._pre_filter_answers(kept, state, pod), state)
        self.lap("PreFilter")
        if outcome.status is not None:
            return Diagnosis(table, others=outcome.status, pre_filter=outcome.status, plugins=outcome.plugins)
        if try_nominated and pod.status.nominated_node_name:
            fits = self._nominated_fits(pod, state, kept)
            if fits is not None:
                self.lap("Filter")
                return fits
        mask = kept.mask
        looked_at = table.valid[: table.size]
        others: Status | None = None
        if outcome.node_names is not None:
            looked_at = self._only(outcome.node_names)
            mask = mask & looked_at
            others = unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(outcome.plugins))}]")
        found = self._filter(pod, state, kept, mask, looked_at)
        self.lap("Filter")
        if found.size == 0:
            return Diagnosis(
                table, looked_at=looked_at, rejections=found.rejections, others=others, plugins=outcome.plugins
            )
        return found

    def _keep(self, info: PodInfo) -> Kept:
        kept = self._kept.get(info.pod_class)
        if kept is None:
            kept = self._kept[info.pod_class] = Kept(self.framework, info.pod_class)
            while len(self._kept) * self.cluster.nodes.size > _KEPT_ROWS and len(self._kept) > 2:
                self._kept.popitem(last=False)
        else:
            self._kept.move_to_end(info.pod_class)
        kept.refresh(info.pod)
        return kept

    def _pre_filter_answers(self, kept: Kept, state: CycleState, pod: api.Pod) -> Iterator[tuple[str, Any]]:
        nodes = Nodes(self.cluster.nodes)
        for plugin, is_kept in self._pre_filters:
            if is_kept:
                yield plugin.name, kept.answers[plugin.name]
            else:
                yield plugin.name, self.framework.ask_pre_filter(plugin, state, pod, nodes)

    def _filter(self, pod: api.Pod, state: CycleState, kept: Kept, mask: Mask, looked_at: Mask) -> Feasible:
        """The kept answers, those of plugins that look at the whole cluster, and pods nominated to nodes."""
        entries: list[tuple[str, Verdicts]] = [
            (k.plugin.name, Verdicts(k.codes, k.status_of)) for k in kept.filters if k.status_of is not None
        ]
        whole = Nodes(self.cluster.nodes)
        in_order = len(entries)
        for plugin in self._cluster_filters:
            if plugin.name in state.skip_filter:
                continue
            if mask.any() or self._alive(plugin, entries, looked_at).any():
                verdicts = self.framework.ask_filter(plugin, state, pod, whole)
                if verdicts is not None:
                    entries.append((plugin.name, verdicts))
                    mask = mask & (verdicts.codes == 0)
        rejections = Rejections(len(mask), entries)
        if len(self.cluster.nominations):
            mask = self._with_nominated(pod, state, mask, looked_at, rejections)
        one_by_one = [plugin for plugin in self._lifted if plugin.name not in state.skip_filter]
        if one_by_one:
            mask, looked_at = self._one_by_one(one_by_one, state, pod, entries, mask, looked_at)
        elif self._percentage or self._lifted or not self.framework.scores:
            mask = self._sample(mask, int(np.count_nonzero(looked_at)))
        if len(entries) > in_order:
            entries.sort(key=lambda entry: self._order[entry[0]])
        self._refuse_errors(rejections, looked_at)
        return Feasible(mask, rejections, kept, looked_at)

    def narrowed(self, found: Feasible, names: Collection[str], refused: Mapping[str, Status]) -> Feasible | Diagnosis:
        """What is left when somebody else, an extender, has looked at the feasible nodes too."""
        table = self.cluster.nodes
        mask = found.mask & self._only(frozenset(names))
        lost = found.mask & ~mask
        for name, status in refused.items():
            row = table.row_of.get(name)
            if row is not None and lost[row]:
                found.rejections.overruled[row] = status
        left = Feasible(mask, found.rejections, found.kept, found.looked_at, nominated=found.nominated)
        if left.size:
            return left
        return Diagnosis(table, looked_at=found.looked_at, rejections=found.rejections, plugins=frozenset((EXTENDER,)))

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
        """Ask plugins node by node until enough are found. Answers with these nodes, and with all that were looked at;
        what was said is added to the entries."""
        rows = self._from_last_stop(np.flatnonzero(looked_at))
        asked = [Asked(plugin, self._alive(plugin, entries, looked_at)) for plugin in plugins]
        found, done = search(self.framework, asked, state, pod, rows, mask, self._wanted(len(rows)))
        entries += [(each.plugin.name, each.verdicts) for each in asked if each.statuses]
        if done < len(rows):
            self._next_start = int(rows[done - 1]) + 1
            looked_at = _marked(rows[:done], len(mask))
        return _marked(found, len(mask)), looked_at

    def _with_nominated(
        self, pod: api.Pod, state: CycleState, mask: Mask, looked_at: Mask, rejections: Rejections
    ) -> Mask:
        """Rows that pods are nominated to must fit with those pods on them too."""
        rows = self.framework.nominated_rows(pod)
        if not rows:
            return mask
        mask = mask.copy()
        table = self.cluster.nodes
        for row in rows:
            if looked_at[row]:
                window = Nodes(table, slice(row, row + 1))
                with self.framework.nominated_added(state, pod, row) as (what_if, _):
                    status = checked(self.framework.run_filters(what_if, pod, window).status(0))
                if status is not None:
                    rejections.overruled[row] = status
                    mask[row] = False
        return mask

    def _refuse_errors(self, rejections: Rejections, looked_at: Mask) -> None:
        """A plugin that could not answer for some node fails the attempt."""
        for _, verdicts in rejections.entries:
            codes = verdicts.codes
            if not codes.any():
                continue
            for code in np.unique(codes).tolist():
                if code and not verdicts.status_of(int(code)).is_rejected:
                    for status, _ in rejections.groups(looked_at):
                        checked(status)

    def _nominated_fits(self, pod: api.Pod, state: CycleState, kept: Kept) -> Feasible | None:
        """A pod that was promised a node goes there if it fits; others are not even looked at."""
        table = self.cluster.nodes
        row = table.row_of.get(pod.status.nominated_node_name)
        if row is None or not table.valid[row] or self.framework.filter_row(state, pod, row) is not None:
            return None
        mask = np.zeros(table.size, dtype=np.bool_)
        mask[row] = True
        return Feasible(mask, Rejections(table.size, []), kept, mask, nominated=True)

    def _only(self, names: frozenset[str]) -> Mask:
        table = self.cluster.nodes
        rows = np.array([table.row_of[name] for name in names if name in table.row_of], dtype=np.int64)
        return _marked(rows, table.size) & table.valid[: table.size]

    def _sample(self, mask: Mask, nodes: int) -> Mask:
        """Keep only as many feasible nodes as the percentage asks for, starting where the last search stopped."""
        wanted = self._wanted(nodes)
        rows = np.flatnonzero(mask)
        if len(rows) <= wanted:
            return mask
        taken = self._from_last_stop(rows)[:wanted]
        self._next_start = int(taken[-1]) + 1
        return _marked(taken, len(mask))

    def _from_last_stop(self, rows: Ints) -> Ints:
        start = self._next_start % max(1, self.cluster.nodes.size)
        return np.roll(rows, -int(np.searchsorted(rows, start)))

    def _wanted(self, nodes: int) -> int:
        if not self.framework.scores and not self.extended:
            return 1  # nobody will tell feasible nodes apart
        if nodes < MIN_FEASIBLE_NODES:
            return nodes
        percentage = self._percentage or max(50 - nodes // 125, MIN_FEASIBLE_PERCENTAGE)
        return max(nodes * percentage // 100, MIN_FEASIBLE_NODES)

    def _diagnose(self, found: Feasible) -> Diagnosis:
        looked_at = found.looked_at & ~found.mask
        return Diagnosis(self.cluster.nodes, looked_at=looked_at, rejections=found.rejections.copy())

    # Score

    def prioritize(
        self,
        info: PodInfo,
        state: CycleState,
        found: Feasible,
        record: Decision | None,
        extra: Mapping[str, Ints] = NOBODY_ELSE,
    ) -> Ints:
        """The rows with the highest total score; `extra` is what others than plugins add to it, for every row."""
        pod, kept, framework = info.pod, found.kept, self.framework
        nodes = Nodes(self.cluster.nodes, mask=found.mask)
        for name, scores in extra.items():
            self._record(record, name, scores[nodes.rows], nodes)
        if not framework.scores:
            ranked = np.where(found.mask, sum(extra.values()), -1)
            return np.flatnonzero(ranked == ranked.max())
        kept.score(pod)
        state.adopt(kept.state)
        for scored in kept.suspects:
            framework.check_range(scored.plugin, scored.raw if isinstance(scored.raw, int) else scored.raw[nodes.rows])
        skipped = {
            plugin.name for plugin in self._cluster_pre_scores if not framework.ask_pre_score(plugin, state, pod, nodes)
        }
        self.unscored = kept.skipped.union(skipped)
        self.lap("PreScore")
        parts: list[Ints] = [scores[nodes.rows] for scores in extra.values()]
        for scored in kept.scores:
            if scored.plugin.normalize is not None:
                raw = scored.raw if isinstance(scored.raw, int) else scored.raw[nodes.rows]
                part = framework.ask_normalize(scored.plugin, kept.state, pod, raw)
                self._record(record, scored.plugin.name, part, nodes)
                if not isinstance(part, int):
                    parts.append(part)
            elif record is not None:
                weighted = scored.raw * scored.plugin.weight
                self._record(
                    record, scored.plugin.name, weighted if isinstance(weighted, int) else weighted[nodes.rows], nodes
                )
        for plugin in self._cluster_scores:
            if plugin.name not in skipped and plugin.name not in kept.skipped:
                raw = framework.ask_score(plugin, state, pod, nodes)
                part = framework.ask_normalize(plugin, state, pod, raw)
                self._record(record, plugin.name, part, nodes)
                if not isinstance(part, int):
                    parts.append(part)
        if not parts:
            ranked = kept.ranked if found.mask is kept.mask else np.where(found.mask, kept.base, -1)
            return np.flatnonzero(ranked == ranked.max())
        totals = kept.base[nodes.rows] + parts[0]
        for part in parts[1:]:
            totals += part
        best = np.flatnonzero(totals == totals.max())
        rows = nodes.rows
        return best if isinstance(rows, slice) else rows[best]

    def _record(self, record: Decision | None, plugin: str, part: Ints | int, nodes: Nodes) -> None:
        if record is None:
            return
        if record.scores is None:
            rows = np.array(nodes.row_numbers(), dtype=np.int64)
            record.scores = Scores(self.cluster.nodes, rows, {}, np.zeros(len(rows), dtype=np.int64))
        scores = record.scores
        column = np.full(len(scores.rows), part, dtype=np.int64) if isinstance(part, int) else part.copy()
        scores.plugins[plugin] = column
        scores.totals = scores.totals + column


def _marked(rows: Ints, size: int) -> Mask:
    mask = np.zeros(size, dtype=np.bool_)
    mask[rows] = True
    return mask
