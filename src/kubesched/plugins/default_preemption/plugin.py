"""DefaultPreemption: when no node fits, find one where removing pods of lower priority would make room.

Nodes are tried (see `dry_run`) if they rejected the pod for a reason that removing pods could resolve. Of the
candidates the one with the least important victims is nominated.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np

from kubesched.api import objects as api
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
from kubesched.plugins.default_preemption.dry_run import Trial
from kubesched.plugins.default_preemption.group import Schedulable, victims_for_group
from kubesched.plugins.default_preemption.search import Candidates, CandidateSearch
from kubesched.plugins.default_preemption.victims import violating

WAITING = unresolvable("waiting for the preemption for this pod to be finished")
GROUP_WAITING = unresolvable("waiting for the preemption for this pod group to be finished")
_NOT_HELPFUL = "Preemption is not helpful for scheduling"


class DefaultPreemption(PreemptionPlugin):
    """PostFilter by preemption."""

    name = "DefaultPreemption"
    args_type = DefaultPreemptionArgs

    def __init__(self, args: DefaultPreemptionArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._preempting: set[str] = set()
        """UIDs of pods whose victims are being deleted."""
        self._search = CandidateSearch(handle.cluster, lambda: handle.what_if)

    def begin_preemption(self, uid: str) -> None:
        self._preempting.add(uid)

    def end_preemption(self, uid: str) -> None:
        self._preempting.discard(uid)

    def events_to_register(self) -> list[EventHint]:
        if not self.handle.features.scheduler_async_preemption:
            return []  # PreEnqueue then holds no pod back
        # A pod that waits for its victims is woken when they are gone, by the scheduler itself. Until then no deletion
        # has to be compared with it: hundreds of pods may wait for thousands of victims.
        return [on(Resource.POD, Action.DELETE, lambda pod, old, new: Hint.SKIP, gated=False)]

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
        chosen = self._chosen(found)
        if chosen[0] is not None:
            message, node = "the target node for the preemption is determined", chosen[0].nominated_node_name
            self.handle.log(2, message, logger="PostFilter.DefaultPreemption", node=node, pod=pod)
        return chosen

    def _candidates(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> list[Trial] | tuple[PostFilterResult | None, Status]:
        """The nodes where room can be made; or the result, if there are none or the pod may not preempt."""
        objection = self._objection(pod, diagnosis)
        log = partial(self.handle.log, logger="PostFilter.DefaultPreemption", pod=pod)
        if objection:
            log(5, "Pod is not eligible for preemption", reason=objection)
            return None, unschedulable(objection)
        rows = diagnosis.rows_with(Code.UNSCHEDULABLE)
        if not len(rows):
            log(3, "Preemption will not help schedule pod on any node")
        offset = self._start(rows.tolist())
        order, wanted = np.roll(rows, -offset), self._enough(len(rows))
        found = self._search.search(state, pod, order, wanted)
        if len(rows) and self.handle.log.verbosity >= 5:
            counts = {"potentialNodesNumber": len(rows), "pdbsNumber": len(self._search.budgets), "offset": offset}
            log(5, "Dry run the preemption", **counts, candidatesNumber=wanted)
            self._log_dry_run(found, order, log)
        if found.candidates:
            return found.candidates
        if errors := _errors(found.failures):
            return None, error(errors)
        log(2, "No preemption candidate is found; preemption is not helpful for scheduling")
        return PostFilterResult(""), unschedulable(_unhelpful(diagnosis.nodes, found))

    def _log_dry_run(self, found: Candidates, order: Ints, log: Callable[..., None]) -> None:
        """Log the nodes that were tried, and the victims on those where room can be made."""
        names = self.handle.cluster.nodes.names
        for row in order[: found.tried].tolist():
            log(5, "Check the potential node for preemption", node=names[row])
        for trial in found.candidates:
            for victim in trial.victims:
                log(5, "Pod is a potential preemption victim on node", pod=victim.pod, node=names[trial.row])

    def _start(self, rows: list[int]) -> int:
        """Where the search begins: at a random node, as upstream, or where a replay wants to."""
        if self.handle.choose is not None and rows:
            return rows.index(self.handle.choose(rows))
        return self.handle.random.randrange(len(rows)) if rows else 0

    def candidates(self, state: CycleState) -> Sequence[Trial]:
        return state.read(self.name, list) if self.name in state else ()

    def choose(self, state: CycleState, victims: Sequence[tuple[int, Sequence[PodInfo], int]]) -> PostFilterAnswer:
        return self._chosen([Trial(row, victims=list(pods), violations=count) for row, pods, count in victims])

    def _chosen(self, candidates: Sequence[Trial]) -> PostFilterAnswer:
        """The candidate with the least important victims."""
        names = self.handle.cluster.nodes.names
        best = candidates[0]
        if len(candidates) > 1:
            best = min(candidates, key=lambda trial: (trial.badness, names[trial.row]))
            if self.handle.choose is not None:
                equal = {trial.row: trial for trial in candidates if trial.badness == best.badness}
                best = equal[self.handle.choose(list(equal))]
        return PostFilterResult(names[best.row], best.victims), Status(Code.SUCCESS)

    def _objection(self, pod: api.Pod, diagnosis: Diagnosis) -> str:
        """Why the pod may not preempt; empty if it may."""
        if pod.spec.scheduling_group is not None and (objection := self._objection_of_group(pod)):
            return objection
        if pod.spec.preemption_policy == "Never":
            return "not eligible due to preemptionPolicy=Never."
        nominated = pod.nominated_node_name
        if not nominated or diagnosis.code_of(nominated) is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        row = self.handle.cluster.nodes.row_of.get(nominated)
        infos = () if row is None else self.handle.cluster.nodes.pods[row].values()
        leaving = [info.pod for info in infos if info.pod.is_terminating]
        waits = leaving and self._waits_for(pod, leaving)
        return "not eligible due to a terminating pod on the nominated node." if waits else ""

    def _waits_for(self, pod: api.Pod, leaving: Sequence[api.Pod]) -> bool:
        """Whether one of these terminating pods on the nominated node makes room for the pod."""
        return any(each.priority < pod.priority and _leaving_by_preemption(each) for each in leaving)

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
        budgets = self._search.budgets
        return await victims_for_group(
            self.handle.cluster, group, pods, lambda infos: violating(infos, budgets), schedulable
        )

    def _enough(self, nodes: int) -> int:
        args: DefaultPreemptionArgs = self.args
        share = nodes * args.min_candidate_nodes_percentage // 100
        return min(max(share, args.min_candidate_nodes_absolute), nodes)


def worded(status: Status) -> Status:
    """A status as PostFilter returns it, with a prefix that mentions preemption."""
    return Status(status.code, f"preemption: {status.message}") if status.reasons else status


def _errors(failures: Iterable[Status]) -> str:
    """The errors of all nodes, each once, joined as Go joins them."""
    messages = list(dict.fromkeys(failure.message for failure in failures if failure.code is Code.ERROR))
    return messages[0] if len(messages) == 1 else f"[{', '.join(messages)}]" if messages else ""


def _unhelpful(nodes: int, found: Candidates) -> str:
    """Why preemption does not help, in upstream's words."""
    reasons: Counter[str] = Counter()
    for status, count in found.failures.items():
        for reason in status.reasons:
            reasons[reason] += count
    if found.tried < nodes:
        reasons[_NOT_HELPFUL] += nodes - found.tried
    return fit_message(nodes, reasons)


def _leaving_by_preemption(pod: api.Pod) -> bool:
    condition = next((c for c in pod.status.conditions if c.type == "DisruptionTarget"), None)
    return condition is not None and condition.status == "True" and condition.reason == "PreemptionByScheduler"
