"""Carries out a preemption: victims are deleted in the background while the preemptor waits.

With the feature gate SchedulerAsyncPreemption off, the scheduling cycle waits until all victims are deleted.

A victim that is not bound yet is not deleted; it returns to the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.client.protocol import ApiError
from kubesched.cluster.pods import PodInfo
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.preemption_contract import PreemptionPlugin
from kubesched.scheduler.attempt import Profile
from kubesched.scheduler.ports import NORMAL
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.statuses import DISRUPTION_TARGET, StatusWriter

PREEMPTED = "PreemptionByScheduler"
SUCCESS = "success"
FAILED = "error"
ANYWHERE = "cluster"
"""Upstream names the whole cluster where a single pod names its node."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """A pod or a pod group that preempts others."""

    obj: api.Pod | api.PodGroup
    pods: Sequence[api.Pod]

    @property
    def kind(self) -> str:
        return "pod" if isinstance(self.obj, api.Pod) else "podgroup"

    @property
    def scheduler_name(self) -> str:
        return self.pods[0].scheduler_name


class Preemptor:
    """Removes victims."""

    def __init__(self, shared: Shared, statuses: StatusWriter) -> None:
        self._shared = shared
        self._statuses = statuses

    def start(self, profile: Profile, pod: api.Pod, result: PostFilterResult) -> None:
        """Start to remove the victims; until they are removed, PreEnqueue blocks the pod."""
        self._start(profile, Claimant(pod, (pod,)), result)

    def start_for_group(
        self, profile: Profile, group: api.PodGroup, pods: Sequence[api.Pod], victims: Sequence[PodInfo]
    ) -> None:
        """Start to remove the victims of a pod group, on all nodes."""
        self._start(profile, Claimant(group, pods), PostFilterResult(ANYWHERE, victims))

    def _start(self, profile: Profile, by: Claimant, result: PostFilterResult) -> None:
        victims = self._to_delete(by, result)
        if not victims:
            return
        framework = profile.engine.framework
        plugin = framework.preemption
        if plugin is not None:
            plugin.begin_preemption(by.obj.uid)
        self._shared.metrics.preemption(len(result.victims))
        message = "Start the preemption asynchronously"
        numbers = {"numVictims": len(result.victims), "numVictimsToDelete": len(victims)}
        self._shared.log(2, message, preemptor=by.obj, node=result.nominated_node_name, **numbers)
        name = _plugin_name(profile)
        self._shared.tasks.spawn(self._run(profile, plugin, name, by, result.nominated_node_name, victims))

    async def run(self, profile: Profile, pod: api.Pod, result: PostFilterResult) -> BaseException | None:
        """Remove all victims and wait; returns the first error."""
        return await self._run_now(profile, Claimant(pod, (pod,)), result)

    async def run_for_group(
        self, profile: Profile, group: api.PodGroup, pods: Sequence[api.Pod], victims: Sequence[PodInfo]
    ) -> BaseException | None:
        """Remove all victims of a pod group and wait; returns the first error."""
        return await self._run_now(profile, Claimant(group, pods), PostFilterResult(ANYWHERE, victims))

    async def _run_now(self, profile: Profile, by: Claimant, result: PostFilterResult) -> BaseException | None:
        node, name = result.nominated_node_name, _plugin_name(profile)
        self._shared.metrics.preemption(len(result.victims))
        calls = [self._remove_one(profile, name, by, node, each) for each in self._to_delete(by, result)]
        outcomes: list[BaseException | None] = list(await asyncio.gather(*calls, return_exceptions=True))
        problem = next((outcome for outcome in outcomes if outcome is not None), None)
        if problem is None:
            self._clear_nominations(by, node)
        return problem

    def _to_delete(self, by: Claimant, result: PostFilterResult) -> list[api.Pod]:
        victims = []
        for info in result.victims:
            if info.terminating:
                message = "Victim Pod is already being deleted, skipping the API call for it"
                who = {"preemptor": by.obj, "node": result.nominated_node_name, "victim": info.pod}
                self._shared.log(2, message, **who)
            else:
                victims.append(info.pod)
        return victims

    async def _run(
        self,
        profile: Profile,
        plugin: PreemptionPlugin | None,
        name: str,
        by: Claimant,
        node: str,
        victims: Sequence[api.Pod],
    ) -> None:
        shared = self._shared
        shared.metrics.goroutines("preemption", 1)
        started = shared.clock.monotonic()
        outcome = SUCCESS
        try:
            self._clear_nominations(by, node)
            problems = await self._remove(profile, name, by, node, victims)
            for problem in problems:
                shared.log(ERROR, "Error occurred during async preemption", preemptor=by.obj, err=problem)
            outcome = FAILED if problems else SUCCESS
        finally:
            shared.metrics.goroutines("preemption", -1)
            shared.metrics.preemption_executed(outcome, shared.clock.monotonic() - started)
            shared.log(2, "Async Preemption finished completely", preemptor=by.obj, node=node, result=outcome)
            shared.inbox.put(self._finish, plugin, by, victims, outcome)

    def _finish(self, plugin: PreemptionPlugin | None, by: Claimant, victims: Sequence[api.Pod], outcome: str) -> None:
        """Let the pods be retried: at once if the preemption failed, or if PreEnqueue was blocking them when a victim
        was deleted.

        PreEnqueue always blocks pods of a group. If no victim is gone yet, these pods wait for the victims.
        """
        if plugin is not None:
            plugin.end_preemption(by.obj.uid)
        for pod in by.pods:
            queued = self._shared.queue.get(pod.uid)
            held_back = plugin is not None and queued is not None and queued.gating_plugin == plugin.name
            if outcome == SUCCESS and held_back and queued is not None and queued.in_group:
                held_back = any(self._shared.newest(victim) is None for victim in victims)
                self._shared.queue.ungate(pod.uid)
            if outcome == FAILED or held_back:
                self._shared.queue.activate([pod])

    def _clear_nominations(self, by: Claimant, node: str) -> None:
        """Clear the nominations of lower-priority pods to this node: they are unlikely to fit any more."""
        for info in list(self._shared.cluster.nominations.on(node)):
            if info.pod.priority < by.obj.priority and info.pod.nominated_node_name:
                message = "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
                self._statuses.update(info.pod, nominated="", on_error=message)

    async def _remove(
        self, profile: Profile, plugin: str, by: Claimant, node: str, victims: Sequence[api.Pod]
    ) -> list[BaseException]:
        """Remove all victims, the last one only if all others succeeded; returns the first error."""
        *others, last = victims
        calls = (self._remove_one(profile, plugin, by, node, victim) for victim in others)
        outcomes: list[BaseException | None] = list(await asyncio.gather(*calls, return_exceptions=True))
        problems = [outcome for outcome in outcomes if outcome is not None]
        if not problems:
            try:
                await self._remove_one(profile, plugin, by, node, last)
            except Exception as problem:
                problems.append(problem)
        return problems

    async def _remove_one(self, profile: Profile, plugin: str, by: Claimant, node: str, victim: api.Pod) -> None:
        shared = self._shared
        note = f"Preempted by {by.kind} {by.obj.uid} on node {node}"
        if self._cancelled(plugin, by, node, victim):
            note += " (in kube-scheduler memory)."
        elif not await self._deleted(by, victim):
            shared.log(2, "Victim Pod is already deleted", preemptor=by.obj, victim=victim, node=node)
            return
        else:
            shared.log(2, "Preemptor Pod preempted victim Pod", preemptor=by.obj, victim=victim, node=node)
        # Upstream intends to set the preemptor as the related object, but 1.36 loses it on the way.
        shared.recorder.event(profile.name, victim, NORMAL, "Preempted", "Preempting", note)

    def _cancelled(self, plugin: str, by: Claimant, node: str, victim: api.Pod) -> bool:
        """Cancel the binding of a victim that is not bound yet; False if it is bound."""
        shared = self._shared
        waiting, pre_binding = shared.waiting.get(victim.uid), shared.pre_binding.get(victim.uid)
        who: dict[str, object] = {"preemptorType": by.kind, "preemptor": by.obj, "node": node}
        if waiting is not None and waiting.preempt(plugin, "preempted"):
            shared.log(2, "Preemptor preempted a waiting pod", waitingPod=victim, **who)
            return True
        if pre_binding is not None and pre_binding.cancel(f"preempted by {plugin}"):
            shared.log(2, "Preemptor rejected a pod in preBind", podInPreBind=victim, **who)
            return True
        return False

    async def _deleted(self, by: Claimant, victim: api.Pod) -> bool:
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
            if patch is not None:
                await client.patch_pod_status(victim, patch)
            await client.delete_pod(victim)
        except ApiError as problem:
            if problem.code != 404:
                raise
            return False
        return True


def _plugin_name(profile: Profile) -> str:
    framework = profile.engine.framework
    plugin = framework.preemption
    return plugin.name if plugin is not None else framework.post_filter[0].name
