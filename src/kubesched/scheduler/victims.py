"""Carries out a preemption: victims are deleted in the background while the preemptor waits.

With the feature gate SchedulerAsyncPreemption off, the scheduling cycle waits until all victims are deleted.

A victim that is not bound yet is not deleted; it returns to the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from kubesched.api import objects as api
from kubesched.client.protocol import ApiError
from kubesched.cluster.pods import PodInfo
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.preemption_contract import PreemptionPlugin
from kubesched.scheduler.attempt import Profile
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.statuses import DISRUPTION_TARGET, StatusWriter
from kubesched.scheduler.subscribers.preemption import Claimant, PreemptionReport
from kubesched.scheduler.urgent_calls import UrgentCalls

PREEMPTED = "PreemptionByScheduler"
ANYWHERE = "cluster"
"""Upstream names the whole cluster where a single pod names its node."""
PAUSE_AFTER_FAILURE = 0.1
"""Seconds until a pod whose preemption failed is retried. An API server that refuses at once would be asked again and
again without a pause."""
PATIENCE = 30.0
"""Seconds to wait until the watch shows that victims are gone."""


@dataclass(eq=False, slots=True)
class _Waiting:
    """A preemption whose victims are deleted, while the watch still shows some of them."""

    unseen: set[str]
    """Their UIDs."""
    finish: Callable[[bool], None]
    """Gets whether it failed."""
    timer: asyncio.TimerHandle | None = None
    """Ends the wait if the watch never shows them."""


class Preemptor:
    """Removes victims."""

    def __init__(self, shared: Shared, statuses: StatusWriter, report: PreemptionReport, calls: UrgentCalls) -> None:
        self._shared = shared
        self._statuses = statuses
        self._report = report
        self._calls = calls
        self._waiting: dict[str, list[_Waiting]] = {}
        """Preemptions that wait for the watch to show the deletion of a victim, by its UID."""
        shared.cluster.pod_observers.append(self._observe)

    def start(self, profile: Profile, pod: api.Pod, result: PostFilterResult) -> None:
        """Start to remove the victims; until they are removed, PreEnqueue blocks the pod."""
        self._start(profile, Claimant(pod, (pod,), result.nominated_node_name), result.victims)

    def start_for_group(
        self, profile: Profile, group: api.PodGroup, pods: Sequence[api.Pod], victims: Sequence[PodInfo]
    ) -> None:
        """Start to remove the victims of a pod group, on all nodes."""
        self._start(profile, Claimant(group, pods, ANYWHERE), victims)

    async def run(self, profile: Profile, pod: api.Pod, result: PostFilterResult) -> BaseException | None:
        """Remove all victims and wait; returns the first error."""
        return await self._run_now(profile, Claimant(pod, (pod,), result.nominated_node_name), result.victims)

    async def run_for_group(
        self, profile: Profile, group: api.PodGroup, pods: Sequence[api.Pod], victims: Sequence[PodInfo]
    ) -> BaseException | None:
        """Remove all victims of a pod group and wait; returns the first error."""
        return await self._run_now(profile, Claimant(group, pods, ANYWHERE), victims)

    def _start(self, profile: Profile, by: Claimant, infos: Sequence[PodInfo]) -> None:
        victims = self._to_delete(by, infos)
        if not victims:
            return
        plugin = profile.engine.framework.preemption
        if plugin is not None:
            plugin.begin_preemption(by.obj.uid)
        self._report.began_in_background(by, len(infos), len(victims))
        self._shared.tasks.spawn(self._run(profile, plugin, by, victims))

    async def _run_now(self, profile: Profile, by: Claimant, infos: Sequence[PodInfo]) -> BaseException | None:
        self._report.began(len(infos))
        problems = await self._remove_all(profile, by, self._to_delete(by, infos))
        if not problems:
            self._clear_nominations(by)
        return next(iter(problems), None)

    def _to_delete(self, by: Claimant, infos: Sequence[PodInfo]) -> list[api.Pod]:
        for info in infos:
            if info.terminating:
                self._report.leaves_already(by, info.pod)
        return [info.pod for info in infos if not info.terminating]

    async def _run(
        self, profile: Profile, plugin: PreemptionPlugin | None, by: Claimant, victims: Sequence[api.Pod]
    ) -> None:
        started = self._shared.clock.monotonic()
        problems: Sequence[BaseException] = ()
        try:
            try:
                await self._shared.turns.take("preempt", by.obj.uid)
                self._clear_nominations(by)
                problems = await self._remove_last_alone(profile, by, victims)
                await self._shared.turns.take("preempted", by.obj.uid)
            finally:
                self._report.ended_in_background(by, problems, self._shared.clock.monotonic() - started)
            if problems:
                await self._shared.clock.sleep(PAUSE_AFTER_FAILURE)
        finally:
            self._shared.inbox.put(self._end, plugin, by, victims, bool(problems))

    def _end(self, plugin: PreemptionPlugin | None, by: Claimant, victims: Sequence[api.Pod], failed: bool) -> None:
        """Finish when the watch has shown every deletion. It may be behind the API server's responses, and a pod that
        is retried too early finds its node full and preempts again."""
        finish = partial(self._finish, plugin, by, victims)
        awaited = () if failed or isinstance(by.obj, api.PodGroup) else victims
        unseen = {each.uid for each in awaited if self._is_on_node(each) and not _terminates(self._shared.newest(each))}
        if not unseen:
            finish(failed)
            return
        waiting = _Waiting(unseen, finish)
        waiting.timer = asyncio.get_running_loop().call_later(PATIENCE, self._shared.inbox.put, self._expire, waiting)
        for uid in unseen:
            self._waiting.setdefault(uid, []).append(waiting)

    def _expire(self, waiting: _Waiting) -> None:
        """Finish although the watch still shows victims as before: it may be that the API server was restored. Then no
        event would follow, so that the pods are retried now."""
        for uid in waiting.unseen:
            self._waiting[uid].remove(waiting)
            if not self._waiting[uid]:
                del self._waiting[uid]
        if waiting.unseen:  # otherwise the last one was shown while this waited for the end of a cycle
            waiting.finish(True)

    def _is_on_node(self, victim: api.Pod) -> bool:
        """Whether a victim is on its node, as far as the watch has shown."""
        newest = self._shared.newest(victim)
        return newest is not None and bool(newest.node_name)

    def _observe(self, old: api.Pod | None, new: api.Pod | None) -> None:
        if old is None or old.uid not in self._waiting or (new is not None and not _terminates(new)):
            return
        for waiting in self._waiting.pop(old.uid):
            waiting.unseen.discard(old.uid)
            if not waiting.unseen:
                if waiting.timer is not None:
                    waiting.timer.cancel()
                waiting.finish(False)

    def _finish(self, plugin: PreemptionPlugin | None, by: Claimant, victims: Sequence[api.Pod], failed: bool) -> None:
        """Let the pods be retried: at once if the preemption failed, or if PreEnqueue was blocking a pod when a victim
        was deleted. The plugins that rejected the pod may not wait for the deletion of the other victims.

        Otherwise the pods wait for the deletion of victims, which take their time to terminate.
        """
        if plugin is not None:
            plugin.end_preemption(by.obj.uid)
        for pod in by.pods:
            queued = self._shared.queue.get(pod.uid)
            held_back = plugin is not None and queued is not None and queued.gating_plugin == plugin.name
            if not failed and held_back and queued is not None:
                held_back = not all(self._is_on_node(victim) for victim in victims)
                self._shared.queue.ungate(pod.uid)
            if failed or held_back:
                self._shared.queue.activate([pod])

    def _clear_nominations(self, by: Claimant) -> None:
        """Clear the nominations of lower-priority pods to this node: they are unlikely to fit any more."""
        for info in list(self._shared.cluster.nominations.on(by.node)):
            if info.pod.priority < by.obj.priority and info.pod.nominated_node_name:
                message = "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
                self._statuses.update(info.pod, nominated="", on_error=message)

    async def _remove_last_alone(
        self, profile: Profile, by: Claimant, victims: Sequence[api.Pod]
    ) -> Sequence[BaseException]:
        """Remove all victims, the last one only if all others succeeded; returns the errors."""
        return await self._remove_all(profile, by, victims[:-1]) or await self._remove_all(profile, by, victims[-1:])

    async def _remove_all(self, profile: Profile, by: Claimant, victims: Sequence[api.Pod]) -> list[BaseException]:
        """Remove victims at the same time; returns the errors."""
        calls = (self._remove(profile, by, victim) for victim in victims)
        outcomes: list[BaseException | None] = list(await asyncio.gather(*calls, return_exceptions=True))
        return [outcome for outcome in outcomes if outcome is not None]

    async def _remove(self, profile: Profile, by: Claimant, victim: api.Pod) -> None:
        plugin = _plugin_name(profile)
        await self._shared.turns.take("remove", f"{by.obj.uid}/{victim.uid}")
        waiting, binding = self._shared.waiting.get(victim.uid), self._shared.pre_binding.get(victim.uid)
        if waiting is not None and waiting.preempt(plugin, "preempted"):
            self._report.stopped_waiting(by, profile.name, victim)
        elif binding is not None and binding.cancel(f"preempted by {plugin}"):
            self._report.stopped_binding(by, profile.name, victim)
        elif await self._delete(by, victim):
            self._report.deleted(by, profile.name, victim)
        else:
            self._report.was_gone(by, victim)

    async def _delete(self, by: Claimant, victim: api.Pod) -> bool:
        """Mark and delete a victim; False if it no longer exists."""
        condition = api.PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED,
            message=f"{by.scheduler_name}: preempting to accommodate a higher priority {by.kind}",
        )
        client = self._shared.client
        patch = self._statuses.patch(self._statuses.newest(victim), condition)
        try:
            with self._calls:
                if patch is not None:
                    await client.patch_pod_status(victim, patch)
                await client.delete_pod(victim)
        except ApiError as problem:
            if problem.code != 404:
                raise
            return False
        return True


def _terminates(pod: api.Pod | None) -> bool:
    """Whether a pod is being deleted and may take its time for that: its containers end, or it has finalizers."""
    if pod is None or not pod.is_terminating:
        return False
    return pod.spec.termination_grace_period_seconds != 0 or bool(pod.metadata.finalizers)


def _plugin_name(profile: Profile) -> str:
    framework = profile.engine.framework
    plugin = framework.preemption
    return plugin.name if plugin is not None else framework.post_filter[0].name
