"""Carrying out a preemption: victims are deleted in the background, and meanwhile the preemptor waits.

With the feature gate SchedulerAsyncPreemption off, the scheduling cycle waits instead until all are deleted.

A victim that is not bound yet is not deleted: it goes back to the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.client.protocol import ApiError
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.preemption_contract import PreemptionPlugin
from kubesched.scheduler.attempt import Profile
from kubesched.scheduler.ports import NORMAL
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.statuses import DISRUPTION_TARGET, StatusWriter

PREEMPTED = "PreemptionByScheduler"
SUCCESS = "success"
FAILED = "error"


class Preemptor:
    """Removes victims."""

    def __init__(self, shared: Shared, statuses: StatusWriter) -> None:
        self._shared = shared
        self._statuses = statuses

    def start(self, profile: Profile, pod: api.Pod, result: PostFilterResult) -> None:
        """Begin to remove the victims; until that is done, PreEnqueue keeps the pod back."""
        victims = self._to_delete(pod, result)
        if not victims:
            return
        framework = profile.engine.framework
        plugin = framework.preemption
        if plugin is not None:
            plugin.begin_preemption(pod.uid)
        self._shared.metrics.preemption(len(result.victims))
        message = "Start the preemption asynchronously"
        numbers = {"numVictims": len(result.victims), "numVictimsToDelete": len(victims)}
        self._shared.log(2, message, preemptor=pod, node=result.nominated_node_name, **numbers)
        name = _plugin_name(profile)
        self._shared.tasks.spawn(self._run(profile, plugin, name, pod, result.nominated_node_name, victims))

    async def run(self, profile: Profile, pod: api.Pod, result: PostFilterResult) -> BaseException | None:
        """Remove all victims and wait for it; returns the first error."""
        node, name = result.nominated_node_name, _plugin_name(profile)
        self._shared.metrics.preemption(len(result.victims))
        calls = [self._remove_one(profile, name, pod, node, each) for each in self._to_delete(pod, result)]
        outcomes: list[BaseException | None] = list(await asyncio.gather(*calls, return_exceptions=True))
        problem = next((outcome for outcome in outcomes if outcome is not None), None)
        if problem is None:
            self._clear_nominations(pod, node)
        return problem

    def _to_delete(self, pod: api.Pod, result: PostFilterResult) -> list[api.Pod]:
        victims = []
        for info in result.victims:
            if info.terminating:
                message = "Victim Pod is already being deleted, skipping the API call for it"
                who = {"preemptor": pod, "node": result.nominated_node_name, "victim": info.pod}
                self._shared.log(2, message, **who)
            else:
                victims.append(info.pod)
        return victims

    async def _run(
        self,
        profile: Profile,
        plugin: PreemptionPlugin | None,
        name: str,
        pod: api.Pod,
        node: str,
        victims: Sequence[api.Pod],
    ) -> None:
        shared = self._shared
        shared.metrics.goroutines("preemption", 1)
        started = shared.clock.monotonic()
        outcome = SUCCESS
        try:
            self._clear_nominations(pod, node)
            problems = await self._remove(profile, name, pod, node, victims)
            for problem in problems:
                shared.log(ERROR, "Error occurred during async preemption", preemptor=pod, err=problem)
            outcome = FAILED if problems else SUCCESS
        finally:
            shared.metrics.goroutines("preemption", -1)
            shared.metrics.preemption_executed(outcome, shared.clock.monotonic() - started)
            shared.log(2, "Async Preemption finished completely", preemptor=pod, node=node, result=outcome)
            shared.inbox.put(self._finish, plugin, pod, victims, outcome)

    def _finish(self, plugin: PreemptionPlugin | None, pod: api.Pod, victims: Sequence[api.Pod], outcome: str) -> None:
        """Let the pod be tried again: at once if the preemption failed, or if PreEnqueue held it back when a victim
        left.

        PreEnqueue always holds back a pod of a group. If all victims still end, the pod waits for them.
        """
        if plugin is not None:
            plugin.end_preemption(pod.uid)
        queued = self._shared.queue.get(pod.uid)
        held_back = plugin is not None and queued is not None and queued.gating_plugin == plugin.name
        if outcome == SUCCESS and held_back and queued is not None and queued.in_group:
            held_back = any(self._shared.newest(victim) is None for victim in victims)
            self._shared.queue.ungate(pod.uid)
        if outcome == FAILED or held_back:
            self._shared.queue.activate([pod])

    def _clear_nominations(self, pod: api.Pod, node: str) -> None:
        """Pods of lower priority that are nominated to this node will hardly fit any more."""
        for info in list(self._shared.cluster.nominations.on(node)):
            if info.pod.priority < pod.priority and info.pod.nominated_node_name:
                message = "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
                self._statuses.update(info.pod, nominated="", on_error=message)

    async def _remove(
        self, profile: Profile, plugin: str, pod: api.Pod, node: str, victims: Sequence[api.Pod]
    ) -> list[BaseException]:
        """Remove all victims, the last only when all others went well; returns what went wrong."""
        *others, last = victims
        calls = (self._remove_one(profile, plugin, pod, node, victim) for victim in others)
        outcomes: list[BaseException | None] = list(await asyncio.gather(*calls, return_exceptions=True))
        problems = [outcome for outcome in outcomes if outcome is not None]
        if not problems:
            try:
                await self._remove_one(profile, plugin, pod, node, last)
            except Exception as problem:
                problems.append(problem)
        return problems

    async def _remove_one(self, profile: Profile, plugin: str, pod: api.Pod, node: str, victim: api.Pod) -> None:
        shared = self._shared
        note = f"Preempted by pod {pod.uid} on node {node}"
        if self._cancelled(plugin, pod, node, victim):
            note += " (in kube-scheduler memory)."
        elif not await self._deleted(pod, victim):
            shared.log(2, "Victim Pod is already deleted", preemptor=pod, victim=victim, node=node)
            return
        else:
            shared.log(2, "Preemptor Pod preempted victim Pod", preemptor=pod, victim=victim, node=node)
        # Upstream means to name the preemptor as the related object too, but in 1.36 that is lost on the way.
        shared.recorder.event(profile.name, victim, NORMAL, "Preempted", "Preempting", note)

    def _cancelled(self, plugin: str, pod: api.Pod, node: str, victim: api.Pod) -> bool:
        """Cancel the binding of a victim that is not bound yet; False if it is bound."""
        shared = self._shared
        waiting, pre_binding = shared.waiting.get(victim.uid), shared.pre_binding.get(victim.uid)
        who: dict[str, object] = {"preemptorType": "pod", "preemptor": pod, "node": node}
        if waiting is not None and waiting.preempt(plugin, "preempted"):
            shared.log(2, "Preemptor preempted a waiting pod", waitingPod=victim, **who)
            return True
        if pre_binding is not None and pre_binding.cancel(f"preempted by {plugin}"):
            shared.log(2, "Preemptor rejected a pod in preBind", podInPreBind=victim, **who)
            return True
        return False

    async def _deleted(self, pod: api.Pod, victim: api.Pod) -> bool:
        """Mark and delete a victim; False if it was gone already."""
        condition = api.PodCondition(
            type=DISRUPTION_TARGET,
            status="True",
            reason=PREEMPTED,
            message=f"{pod.scheduler_name}: preempting to accommodate a higher priority pod",
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
