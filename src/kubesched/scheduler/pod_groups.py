"""The scheduling cycle of a pod group: its pods are tried together, and bound only if the group is schedulable.

The trial places the pods one after the other, and each sees the earlier ones on their nodes. The group is
schedulable if Permit allows any of them: GangScheduling does so once enough pods have a node. Then the trial is
undone. If the group is schedulable, the pods with a node are placed and bound; otherwise all return to the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Final

from kubesched.api import objects as api
from kubesched.base.log import ERROR, POD_GROUP
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.table import Mask
from kubesched.engine.failure import Failure
from kubesched.engine.outcome import Outcome
from kubesched.framework.placements import Assignments, Placement, run_placement_generate, run_placement_score
from kubesched.framework.record import SUCCESS
from kubesched.framework.state import POD_GROUP_CYCLE, GroupCycleState
from kubesched.framework.status import Code, Status, error, unschedulable
from kubesched.queue.pods import QueuedPodInfo
from kubesched.scheduler.attempt import Attempt, Profile
from kubesched.scheduler.cycle import SchedulingCycle
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.subscribers.pod_groups import PodGroupReport
from kubesched.scheduler.subscribers.publisher import Publisher
from kubesched.scheduler.victims import Preemptor

SLICE: Final = 32
"""The cycle yields to the event loop after this many pods of a group."""
GROUP_UNSCHEDULABLE: Final = "pod group is unschedulable"
UNSCHEDULABLE: Final = unschedulable(GROUP_UNSCHEDULABLE)
WAITS_FOR_VICTIMS: Final = "pod group is waiting for preemption to complete"
NO_PREEMPTION: Final = "default preemption plugin is not registered, workload aware preemption is disabled"
NOT_WITH_CONSTRAINTS: Final = "workload aware preemption is not supported for pod groups with scheduling constraints"
Choose = Callable[
    [api.PodGroup, Sequence[api.Pod], Callable[[], Awaitable[Status | None]]], Awaitable[list[PodInfo] | Status]
]
ASKED_TO_WAIT: Final = "one or more plugins asked to wait and no plugin rejected pod"


@dataclass(slots=True)
class Member:
    """A pod of a group in a trial."""

    attempt: Attempt
    fits: bool = False
    """Whether it has a node, perhaps one with victims to delete first."""
    preempts: bool = False


@dataclass(slots=True)
class GroupTrial:
    """The result of a trial of all pods of a group."""

    members: list[Member] = field(default_factory=list)
    """Fewer than the group's pods after an error."""
    status: Status | None = UNSCHEDULABLE
    """None if the group is schedulable."""
    waits_for_victims: bool = False

    @property
    def placed(self) -> list[PodInfo]:
        """The pods that have a node."""
        return [member.attempt.info for member in self.members if member.fits]


class PodGroupCycle:
    """Schedules one pod or one pod group at a time."""

    def __init__(
        self,
        shared: Shared,
        pods: SchedulingCycle,
        publisher: Publisher,
        report: PodGroupReport,
        preemptor: Preemptor,
        random: Random,
    ) -> None:
        """`random` chooses among placements with the same score."""
        self._shared = shared
        self._pods = pods
        self._publisher = publisher
        self._report = report
        self._preemptor = preemptor
        self._random = random
        self._state = GroupCycleState()

    @property
    def may_wait(self) -> bool:
        """Whether a cycle may wait, so that events have to be deferred: a large group yields to the event loop."""
        return True

    async def run(self, queued: QueuedPodInfo) -> None:
        """Try a popped pod, or the group that it belongs to. Nothing may change the cluster meanwhile."""
        if not queued.in_group:
            await self._pods.run(queued)
            return
        pods = self._popped(queued)
        context = POD_GROUP.set(queued.pod.pod_group)
        try:
            await self._run(queued.pod.pod_group, pods)
        except Exception as problem:
            # All expected failures are handled. After an unexpected one, no pod must be lost.
            self._shared.log(ERROR, "Unexpected error in pod group scheduling cycle", pod=queued.pod, err=problem)
            for each in pods:
                if each.uid not in self._shared.cluster.assumed:
                    self._shared.queue.add_unschedulable_if_not_present(each)
        finally:
            POD_GROUP.reset(context)

    def _popped(self, first: QueuedPodInfo) -> list[QueuedPodInfo]:
        """All waiting pods of the group, ordered by priority and then by arrival."""
        queue = self._shared.queue
        others = (pod.uid for pod in self._shared.cluster.pod_groups.get(first.pod.pod_group).unscheduled)
        found = [queue.pop_pod(uid) for uid in others if uid != first.uid]
        pods = [first, *(each for each in found if each is not None)]
        pods.sort(key=lambda each: (-each.pod.priority, each.initial_attempt_timestamp or 0.0))
        return pods

    async def _run(self, group: str, pods: Sequence[QueuedPodInfo]) -> None:
        names = list(dict.fromkeys(each.pod.scheduler_name for each in pods))
        if len(names) > 1:
            self._refuse(group, pods, names)
            return
        profiles = [(each, self._pods.profile_for(each)) for each in pods]
        ready = [each for each, profile in profiles if profile is not None]
        profile = next((profile for _, profile in profiles if profile is not None), None)
        if profile is None:
            return
        started = self._shared.clock.monotonic()
        self._state = GroupCycleState()
        self._report.started(group)
        trial = await self._search(group, ready, profile)
        self._report.tried(self._shared.clock.monotonic() - started)
        preempts = self._shared.cluster.features.workload_aware_preemption
        if preempts and trial.status is not None and trial.status.code is Code.UNSCHEDULABLE:
            await self._make_room(group, ready, profile, trial)
        bound = self._submit(group, ready, profile, trial)
        seconds = self._shared.clock.monotonic() - started
        self._report.finished(group, profile.name, trial.status, len(ready), bound, seconds, trial.waits_for_victims)

    def _refuse(self, group: str, pods: Sequence[QueuedPodInfo], names: Sequence[str]) -> None:
        """Reject the group: its pods name several schedulers, so none can place them together."""
        message = "all pods in a single pod group should have the same .spec.schedulerName set"
        failure = Failure(f'{message}, got: "{names[1]}" and "{names[0]}"')
        for each in pods:
            profile = self._pods.profile_for(each)
            if profile is not None:
                self._fail(self._attempt(group, each, profile), failure)

    # The trial

    async def _search(
        self, group: str, pods: Sequence[QueuedPodInfo], profile: Profile, *, post_filter: bool = True
    ) -> GroupTrial:
        """Try the group on all nodes; with topology-aware scheduling, try each placement and take the best."""
        if not self._shared.cluster.features.topology_aware_workload_scheduling:
            return await self._try(group, pods, profile, post_filter=post_filter)
        found = self._shared.cluster.get(api.PodGroup, group)
        if found is None:
            return GroupTrial(status=error(f'podgroup.scheduling.k8s.io "{group.rpartition("/")[2]}" not found'))
        began = self._shared.clock.monotonic()
        placements = run_placement_generate(profile.engine.framework, found)
        self._point_has_run("PlacementGenerate", profile, placements, began)
        if isinstance(placements, Status):
            return GroupTrial(status=placements)
        trials = []
        for placement in placements:
            self._shared.log(4, "Assuming placement in snapshot", placement=placement.name)
            trials.append(await self._try(group, pods, profile, placement.rows, post_filter=post_filter))
            status = trials[-1].status
            if status is not None and status.code is Code.ERROR:
                return trials[-1]
        return self._best(found, profile, placements, trials)

    def _best(
        self, group: api.PodGroup, profile: Profile, placements: Sequence[Placement], trials: Sequence[GroupTrial]
    ) -> GroupTrial:
        """The trial with the highest score among those in which the group is schedulable."""
        good = [
            (placement, trial)
            for placement, trial in zip(placements, trials, strict=True)
            if trial.status is None or trial.waits_for_victims
        ]
        if not good:
            first = f"first placement status: {GROUP_UNSCHEDULABLE}"
            trials[0].status = unschedulable(f"0/{len(placements)} placements are available, {first}")
            return trials[0]
        if len(good) == 1:
            return good[0][1]
        candidates = [Assignments(placement, trial.placed) for placement, trial in good]
        began = self._shared.clock.monotonic()
        scores = run_placement_score(profile.engine.framework, group, candidates)
        self._point_has_run("PlacementScore", profile, scores, began)
        if isinstance(scores, Status):
            return GroupTrial(status=scores)
        highest = [trial for (_, trial), score in zip(good, scores, strict=True) if score == max(scores)]
        return self._random.choice(highest)

    def _point_has_run(self, point: str, profile: Profile, result: object, began: float) -> None:
        code = result.code.upstream if isinstance(result, Status) else SUCCESS
        seconds = self._shared.clock.monotonic() - began
        self._shared.metrics.extension_points(profile.name, ((point, code, seconds),))

    async def _try(
        self,
        group: str,
        pods: Sequence[QueuedPodInfo],
        profile: Profile,
        within: Mask | None = None,
        *,
        post_filter: bool = True,
    ) -> GroupTrial:
        """Place all pods, check whether the group is schedulable, and undo the placement."""
        trial, placed, preempts = GroupTrial(), [], False
        self._shared.log(5, "Running a pod group scheduling algorithm", unscheduledPodsCount=len(pods))
        try:
            for number, queued in enumerate(pods, 1):
                if number % SLICE == 0:
                    await asyncio.sleep(0)
                attempt = self._attempt(group, queued, profile)
                attempt.within = within
                attempt.skips_post_filter = not post_filter
                member = await self._try_pod(attempt)
                trial.members.append(member)
                failure = member.attempt.failure
                if member.fits:
                    placed.append(member.attempt)
                    self._state.placed.add(queued.uid)
                    preempts = preempts or member.preempts
                    if not member.attempt.permit_timeouts:
                        self._permitted(trial, preempts=preempts)
                elif failure is not None and not failure.rejected:
                    trial.status = error(f"failed to schedule other pod from a pod group: {failure.message}")
                    trial.waits_for_victims = False
                    break
        finally:
            for attempt in reversed(placed):
                self._take_back(attempt)
        return trial

    def _permitted(self, trial: GroupTrial, *, preempts: bool) -> None:
        """Permit allowed a pod, so the group is schedulable, at once or after its victims are gone."""
        trial.waits_for_victims = preempts
        trial.status = unschedulable(GROUP_UNSCHEDULABLE, WAITS_FOR_VICTIMS) if preempts else None

    async def _try_pod(self, attempt: Attempt) -> Member:
        engine = attempt.profile.engine
        member = Member(attempt)
        await self._pods.search(attempt)
        if attempt.outcome is not Outcome.SCHEDULED:
            # Read it now: the data behind the diagnosis changes with the next pod.
            attempt.failure = Failure.of_decision(attempt, can_make_room=bool(engine.framework.post_filter))
            made = attempt.post_filter
            if made is None or not made.nominated_node_name:
                return member
            # Later pods must see this one on its future node.
            attempt.chosen = made.nominated_node_name
            member.preempts = True
        member.fits = engine.place(attempt)
        return member

    def _take_back(self, attempt: Attempt) -> None:
        attempt.profile.engine.take_back(attempt)
        self._state.placed.discard(attempt.pod.uid)
        if attempt.pod.nominated_node_name:
            self._shared.queue.nominate(attempt.info)  # placing it had removed the nomination

    def _attempt(self, group: str, queued: QueuedPodInfo, profile: Profile) -> Attempt:
        attempt = self._pods.attempt(queued, profile)
        attempt.group = group
        attempt.state.write(POD_GROUP_CYCLE, self._state)
        attempt.cycle = 0  # a trial shares no scores with other pods
        return attempt

    # Workload-aware preemption

    async def _make_room(self, group: str, pods: Sequence[QueuedPodInfo], profile: Profile, trial: GroupTrial) -> None:
        """Evict pods of lower priority if the group is schedulable without them, and record that in the trial."""
        members = [each.pod for each in pods]
        found = await self._victims(group, members, pods, profile)
        assert trial.status is not None
        if isinstance(found, Status):
            failed = not found.is_rejected
            trial.status = found if failed else unschedulable(*trial.status.reasons, found.message)
            return
        holder = self._shared.cluster.get(api.PodGroup, group)
        assert holder is not None
        if self._shared.cluster.features.scheduler_async_preemption:
            self._preemptor.start_for_group(profile, holder, members, found)
        elif problem := await self._preemptor.run_for_group(profile, holder, members, found):
            trial.status = error(str(problem))
            return
        trial.waits_for_victims = True

    async def _victims(
        self, group: str, members: Sequence[api.Pod], pods: Sequence[QueuedPodInfo], profile: Profile
    ) -> list[PodInfo] | Status:
        plugin = profile.engine.framework.preemption
        choose: Choose | None = getattr(plugin, "victims_for_group", None)
        if choose is None:
            return unschedulable(NO_PREEMPTION)
        found = self._shared.cluster.get(api.PodGroup, group)
        if found is None:
            name = group.rpartition("/")[2]
            return error(f'failed to get pod group object: podgroup.scheduling.k8s.io "{name}" not found')
        if found.topology_key:
            return unschedulable(NOT_WITH_CONSTRAINTS)

        async def schedulable() -> Status | None:
            return (await self._search(group, pods, profile, post_filter=False)).status

        return await choose(found, members, schedulable)

    # Its result

    def _submit(self, group: str, pods: Sequence[QueuedPodInfo], profile: Profile, trial: GroupTrial) -> int:
        """Bind the pods or requeue them; returns how many are being bound."""
        bound = 0
        for member in trial.members:
            attempt = member.attempt
            self._publisher.started(attempt)
            self._publisher.decided(attempt)
            try:
                self._pods.preempt(attempt)
                self._settle(member, trial)
            except Exception as problem:
                self._pods.unexpected(attempt, problem)
            if attempt.failure is not None:
                self._pods.fail(attempt)
            else:
                bound += 1
        for queued in pods[len(trial.members) :]:
            assert trial.status is not None
            failure = Failure(trial.status.message, rejected=trial.status.is_rejected)
            self._fail(self._attempt(group, queued, profile), failure)
        return bound

    def _settle(self, member: Member, trial: GroupTrial) -> None:
        """Bind a pod, or record why it is requeued."""
        attempt, failure = member.attempt, member.attempt.failure
        if trial.status is None:
            if failure is None and attempt.profile.engine.place(attempt):
                self._pods.start_binding(attempt)
        elif trial.status.code is Code.ERROR:
            if failure is None or failure.rejected:
                attempt.refused(Failure(trial.status.message))
        elif failure is None or (member.preempts and not trial.waits_for_victims):
            attempt.refused(self._failure_of_group(attempt, trial))

    def _failure_of_group(self, attempt: Attempt, trial: GroupTrial) -> Failure:
        """Why a pod that would fit has to wait."""
        if trial.waits_for_victims and trial.status is not None:
            return Failure(trial.status.message, rejected=True, nominate=attempt.chosen, of_group=True)
        reason = f"{GROUP_UNSCHEDULABLE}, {attempt.wait_reason}, {ASKED_TO_WAIT}"
        return Failure(reason, rejected=True, of_group=True)

    def _fail(self, attempt: Attempt, failure: Failure) -> None:
        attempt.refused(failure)
        self._pods.fail(attempt)
