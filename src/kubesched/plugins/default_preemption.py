"""DefaultPreemption: when no node fits, find one where removing pods of lower priority would make room.

Nodes are tried if they rejected the pod for a reason that removing pods could resolve. On each of them all pods of
lower priority are removed tentatively. If the pod then fits, they are added back one by one as long as the pod still
fits: first those that a disruption budget protects, then the rest, the most important first. Pods that cannot be added
back are the victims. Of all such nodes the one with the least important victims is nominated.

Where every active Filter reads its own row alone, all nodes are tried at once: each step is one vectorised call.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from kubesched.api import objects as api
from kubesched.api.selectors import Selector, SelectorError, label_selector
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Ints
from kubesched.config.args import DefaultPreemptionArgs
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.events import Action, EventHint, Hint, Resource, on
from kubesched.framework.plugin import Handle, PostFilterResult
from kubesched.framework.preemption_contract import PostFilterAnswer, PreemptionPlugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error, unresolvable, unschedulable
from kubesched.framework.verdicts import fit_message
from kubesched.framework.what_if import attributed
from kubesched.plugins.group_preemption import Schedulable, victims_for_group

NO_VICTIMS = unresolvable("No preemption victims found for incoming pod")
WAITING = unresolvable("waiting for the preemption for this pod to be finished")
GROUP_WAITING = unresolvable("waiting for the preemption for this pod group to be finished")
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(slots=True)
class Trial:
    """A node that is tried."""

    row: int
    state: CycleState
    order: list[PodInfo] = field(default_factory=list)
    """Pods of lower priority in the order in which they are added back."""
    protected: int = 0
    """How many of them, first in the order, a disruption budget protects."""
    victims: list[PodInfo] = field(default_factory=list)
    violations: int = 0
    failure: Status | None = None


class DefaultPreemption(PreemptionPlugin):
    """PostFilter by preemption."""

    name = "DefaultPreemption"
    args_type = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._preempting: set[str] = set()
        """UIDs of pods whose victims are being deleted."""

    def begin_preemption(self, uid: str) -> None:
        self._preempting.add(uid)

    def end_preemption(self, uid: str) -> None:
        self._preempting.discard(uid)

    def events_to_register(self) -> list[EventHint]:
        if not self.handle.features.scheduler_async_preemption:
            return []  # PreEnqueue then holds no pod back
        # A pod that waits for its victims is woken when they are gone, by the scheduler itself.
        return [on(Resource.POD, Action.DELETE, lambda pod, old, new: Hint.SKIP)]

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        if pod.spec.scheduling_group is not None and self.handle.features.workload_aware_preemption:
            group = self.handle.cluster.get(api.PodGroup, pod.pod_group)
            return GROUP_WAITING if group is not None and group.uid in self._preempting else None
        return WAITING if pod.uid in self._preempting else None

    def post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        result, status = self._preempt(state, pod, diagnosis)
        return result, worded(status)

    def _preempt(self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis) -> tuple[PostFilterResult | None, Status]:
        found = self._candidates(state, pod, diagnosis)
        if isinstance(found, tuple):
            return found
        # Extenders may change the choice afterwards.
        state.write(self.name, found)
        return self._chosen(found)

    def _candidates(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> list[Trial] | tuple[PostFilterResult | None, Status]:
        """The nodes where room can be made; or the result, if there are none or the pod may not preempt."""
        objection = self._objection(pod, diagnosis)
        if objection:
            return None, unschedulable(objection)
        trials = self._dry_run(state, pod, diagnosis.rows_with(Code.UNSCHEDULABLE))
        found = [trial for trial in trials if trial.victims]
        if not found and (errors := _errors(trials)):
            return None, error(errors)
        if not found:
            return PostFilterResult(""), unschedulable(self._unhelpful(diagnosis.nodes, trials))
        return found

    def candidates(self, state: CycleState) -> Sequence[Trial]:
        return state.read(self.name, list) if self.name in state else ()

    def choose(self, state: CycleState, victims: Sequence[tuple[int, Sequence[PodInfo], int]]) -> PostFilterAnswer:
        return self._chosen([Trial(row, state, victims=list(pods), violations=count) for row, pods, count in victims])

    def _chosen(self, candidates: Sequence[Trial]) -> PostFilterAnswer:
        """The candidate with the least important victims."""
        best = self._pick(candidates)
        return PostFilterResult(self.handle.cluster.nodes.names[best.row], best.victims), Status(Code.SUCCESS)

    def _objection(self, pod: api.Pod, diagnosis: Diagnosis) -> str:
        """Why the pod may not preempt; empty if it may."""
        if pod.spec.scheduling_group is not None and (objection := self._objection_of_group(pod)):
            return objection
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = pod.nominated_node_name
        if not nominated or diagnosis.code_of(nominated) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        table = self.handle.cluster.nodes
        row = table.row_of.get(nominated)
        leaving = row is not None and any(
            info.pod.priority < pod.priority and _leaving_by_preemption(info.pod) for info in table.pods[row].values()
        )
        return "not eligible due to a terminating pod on the nominated node." if leaving else ""

    def _objection_of_group(self, pod: api.Pod) -> str:
        """Why a pod of a group may not preempt by itself: with placements it would do so for each of them."""
        features = self.handle.features
        if features.topology_aware_workload_scheduling:
            group = self.handle.cluster.get(api.PodGroup, pod.pod_group)
            if group is None:
                return "pod group for pod not found"
            if group.spec.scheduling_constraints is not None:
                return "not eligible due to placement-based pod group scheduling limitation"
        return "not eligible due to workload aware preemption enabled" if features.workload_aware_preemption else ""

    async def victims_for_group(
        self, group: api.PodGroup, pods: Sequence[api.Pod], schedulable: Schedulable
    ) -> list[PodInfo] | Status:
        """The pods to evict for a pod group to be schedulable, or why that would not help."""
        budgets = self._budgets()
        return await victims_for_group(
            self.handle.cluster, group, pods, lambda infos: _violating(infos, budgets), schedulable
        )

    def _unhelpful(self, nodes: int, trials: Iterable[Trial]) -> str:
        reasons: Counter[str] = Counter()
        tried = 0
        for trial in trials:
            tried += 1
            reasons.update(trial.failure.reasons if trial.failure is not None else ())
        if tried < nodes:
            reasons[_NOT_HELPFUL] += nodes - tried
        return fit_message(nodes, reasons)

    # Trying nodes out

    def _dry_run(self, state: CycleState, pod: api.Pod, rows: Ints) -> list[Trial]:
        """Try nodes, starting at a random one, until there are enough candidates to choose from."""
        if not len(rows):
            return []
        wanted = self._enough(len(rows))
        order = np.roll(rows, -self.handle.random.randrange(len(rows))).tolist()
        at_once = wanted if self.handle.what_if.are_independent(state, pod) else 1
        budgets = self._budgets()
        trials: list[Trial] = []
        clean = found = 0
        for start in range(0, len(order), at_once):
            batch = self._try(state, pod, order[start : start + at_once], budgets, share=at_once > 1)
            trials += batch
            found += sum(bool(trial.victims) for trial in batch)
            clean += sum(bool(trial.victims) and not trial.violations for trial in batch)
            if clean and found >= wanted:
                break
        return trials

    def _enough(self, nodes: int) -> int:
        args: DefaultPreemptionArgs = self.args
        share = nodes * args.min_candidate_nodes_percentage // 100
        return min(max(share, args.min_candidate_nodes_absolute), nodes)

    def _try(
        self, state: CycleState, pod: api.Pod, rows: Sequence[int], budgets: Sequence[Budget], *, share: bool
    ) -> list[Trial]:
        table = self.handle.cluster.nodes
        with self.handle.what_if.on_rows(rows):
            trials = [Trial(row, state if share else state.clone()) for row in rows]
            for trial in trials:
                trial.order = [i for i in table.pods[trial.row].values() if i.pod.priority < pod.priority]
            self._empty(trials, pod)
            open_ = [trial for trial in trials if trial.order]
            self._ask(open_, pod)
            open_ = [trial for trial in open_ if trial.failure is None]
            for trial in open_:
                self._rank(trial, budgets)
            self._let_back(open_, pod)
        return trials

    def _empty(self, trials: Sequence[Trial], pod: api.Pod) -> None:
        """Remove all pods of lower priority tentatively."""
        for step in range(max(len(trial.order) for trial in trials)):
            moves = [(trial.state, trial.order[step], trial.row) for trial in trials if step < len(trial.order)]
            self.handle.what_if.remove_pods(pod, moves)
        for trial in trials:
            if not trial.order:
                trial.failure = NO_VICTIMS

    def _rank(self, trial: Trial, budgets: Sequence[Budget]) -> None:
        trial.order = _most_important_first(trial.order)
        violating = _violating(trial.order, budgets)
        trial.protected = len(violating)
        trial.order = violating + [info for info in trial.order if info not in violating]

    def _let_back(self, trials: Sequence[Trial], pod: api.Pod) -> None:
        """Add pods back one by one, on all nodes in step."""
        what_if = self.handle.what_if
        for step in range(max((len(trial.order) for trial in trials), default=0)):
            active = [trial for trial in trials if step < len(trial.order)]
            what_if.add_pods(pod, [(trial.state, trial.order[step], trial.row) for trial in active])
            self._ask(active, pod)
            failed = [trial for trial in active if trial.failure is not None]
            if failed:
                what_if.remove_pods(pod, [(trial.state, trial.order[step], trial.row) for trial in failed])
            for trial in failed:
                trial.failure = None
                trial.victims.append(trial.order[step])
                trial.violations += step < trial.protected
        for trial in trials:
            if 0 < trial.protected < len(trial.order):
                trial.victims = _most_important_first(trial.victims)
            if not trial.victims:
                name = self.handle.cluster.nodes.names[trial.row]
                trial.failure = Status(Code.ERROR, f'expected at least one victim pod on node "{name}"')

    def _ask(self, trials: Sequence[Trial], pod: api.Pod) -> None:
        """Check whether the pod now fits on the node of each trial; `failure` says why not."""
        what_if = self.handle.what_if
        if len(trials) == 1:
            trials[0].failure = what_if.status_on(trials[0].state, pod, trials[0].row)
        elif trials:
            rejections = what_if.rejections_on(trials[0].state, pod, np.array([trial.row for trial in trials]))
            for status, positions in rejections.groups(np.ones(len(trials), dtype=np.bool_)):
                for position in positions.tolist():
                    trials[position].failure = attributed(status)

    # Choosing

    def _pick(self, candidates: Sequence[Trial]) -> Trial:
        """The node with the least important victims, by upstream's criteria in their order."""
        left = list(candidates)
        for badness in (_violations, _highest_priority, _priority_sum, _count, _earliest_start):
            scores = [badness(trial) for trial in left]
            lowest = min(scores)
            left = [trial for trial, score in zip(left, scores, strict=True) if score == lowest]
            if len(left) == 1:
                break
        return min(left, key=lambda trial: self.handle.cluster.nodes.names[trial.row])

    def _budgets(self) -> list[Budget]:
        budgets = []
        for budget in self.handle.cluster.all(api.PodDisruptionBudget):
            try:
                selector = label_selector(budget.spec.selector)
            except SelectorError:
                continue  # upstream ignores a budget with an invalid selector
            if not selector.is_empty:
                budgets.append(Budget(budget.namespace, selector, budget.status))
        return budgets


def worded(status: Status) -> Status:
    """A status as PostFilter returns it, with a prefix that mentions preemption."""
    return Status(status.code, f"preemption: {status.message}") if status.reasons else status


@dataclass(frozen=True, slots=True)
class Budget:
    """A disruption budget with its selector compiled."""

    namespace: str
    selector: Selector
    status: api.PodDisruptionBudgetStatus

    def covers(self, pod: api.Pod) -> bool:
        """Whether evicting the pod counts against the budget."""
        if pod.namespace != self.namespace or not self.selector.matches(pod.labels):
            return False
        return pod.name not in self.status.disrupted_pods


def _errors(trials: Iterable[Trial]) -> str:
    """The errors of all nodes, each once, joined as Go joins them."""
    failures = (trial.failure for trial in trials)
    messages = list(dict.fromkeys(f.message for f in failures if f is not None and f.code is Code.ERROR))
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]" if messages else ""


def _violating(pods: Sequence[PodInfo], budgets: Sequence[Budget]) -> list[PodInfo]:
    """The pods whose eviction would violate a budget, counted in this order."""
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    violating = []
    for info in pods:
        violated = False
        for index, budget in enumerate(budgets):
            if info.pod.labels and budget.covers(info.pod):
                allowed[index] -= 1
                violated = violated or allowed[index] < 0
        if violated:
            violating.append(info)
    return violating


def _most_important_first(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """By priority, then by age. Of pods that have not started, upstream takes the later one as the older."""
    if all(info.pod.status.start_time is not None for info in pods):
        return sorted(pods, key=lambda info: (-info.pod.priority, info.pod.status.start_time))
    ordered: list[PodInfo] = []
    for info in pods:
        position = len(ordered)
        while position and _more_important(info.pod, ordered[position - 1].pod):
            position -= 1
        ordered.insert(position, info)
    return ordered


def _more_important(one: api.Pod, other: api.Pod) -> bool:
    if one.priority != other.priority:
        return one.priority > other.priority
    if other.status.start_time is None:
        return True  # upstream reads the clock for each in turn, so the first one read is earlier
    return one.status.start_time is not None and one.status.start_time < other.status.start_time


def _leaving_by_preemption(pod: api.Pod) -> bool:
    if not pod.is_terminating:
        return False
    condition = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"


def _violations(trial: Trial) -> int:
    return trial.violations


def _highest_priority(trial: Trial) -> int:
    return trial.victims[0].pod.priority


def _priority_sum(trial: Trial) -> int:
    return sum(info.pod.priority + 2**31 for info in trial.victims)


def _count(trial: Trial) -> int:
    return len(trial.victims)


def _earliest_start(trial: Trial) -> tuple[int, ...]:
    """Later starts are better; a pod that has not started counts as starting now."""
    highest = max(info.pod.priority for info in trial.victims)
    starts = [info.pod.status.start_time for info in trial.victims if info.pod.priority == highest]
    started = [start for start in starts if start is not None]
    return tuple(-ord(character) for character in min(started)) if started else (-(2**31),)
