"""Carrying out a preemption: the victims go, beside the scheduling cycles, and meanwhile the preemptor waits.

A victim that is not bound yet need not be deleted: it is sent back to the queue.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.client.protocol import ApiError
from kubesched.framework.plugin import PostFilterResult
from kubesched.scheduler.context import Context, Profile
from kubesched.scheduler.ports import NORMAL
from kubesched.scheduler.statuses import DISRUPTION_TARGET, StatusWriter

PREEMPTED = "PreemptionByScheduler"
SUCCESS = "success"
FAILED = "error"


class Preemptor:
    """Removes victims."""

    def __init__(self, context: Context, statuses: StatusWriter) -> None:
        self._context = context
        self._statuses = statuses

    def start(self, profile: Profile, pod: api.Pod, result: PostFilterResult) -> None:
        """Begin to remove the victims; until that is done, PreEnqueue keeps the pod back."""
        victims = []
        for info in result.victims:
            if info.terminating:
                message = "Victim Pod is already being deleted, skipping the API call for it"
                who = {"preemptor": pod, "node": result.nominated_node_name, "victim": info.pod}
                self._context.log(2, message, **who)
            else:
                victims.append(info.pod)
        if not victims:
            return
        plugin = _who_preempts(profile)
        plugin.preempting.add(pod.uid)
        self._context.metrics.preemption(len(result.victims))
        message = "Start the preemption asynchronously"
        numbers = {"numVictims": len(result.victims), "numVictimsToDelete": len(victims)}
        self._context.log(2, message, preemptor=pod, node=result.nominated_node_name, **numbers)
        self._context.tasks.spawn(self._run(profile, plugin, pod, result.nominated_node_name, victims))

    async def _run(self, profile: Profile, plugin: Any, pod: api.Pod, node: str, victims: Sequence[api.Pod]) -> None:
        context = self._context
        context.metrics.goroutines("preemption", 1)
        started = context.clock.monotonic()
        outcome = SUCCESS
        try:
            self._clear_nominations(pod, node)
            problems = await self._remove(profile, plugin.name, pod, node, victims)
            for problem in problems:
                context.log(ERROR, "Error occurred during async preemption", preemptor=pod, err=problem)
            outcome = FAILED if problems else SUCCESS
        finally:
            context.metrics.goroutines("preemption", -1)
            context.metrics.preemption_executed(outcome, context.clock.monotonic() - started)
            context.log(2, "Async Preemption finished completely", preemptor=pod, node=node, result=outcome)
            context.inbox.put(self._finish, plugin, pod, outcome)

    def _finish(self, plugin: Any, pod: api.Pod, outcome: str) -> None:
        """Let the pod be tried again: at once if the preemption failed, or if a victim's leaving found it kept back."""
        plugin.preempting.discard(pod.uid)
        queued = self._context.queue.get(pod.uid)
        if outcome == FAILED or (queued is not None and queued.gating_plugin == plugin.name):
            self._context.queue.activate([pod])

    def _clear_nominations(self, pod: api.Pod, node: str) -> None:
        """Pods of lower priority that were promised this node will hardly fit any more."""
        for info in list(self._context.cluster.nominations.on(node)):
            if info.pod.priority < pod.priority and info.pod.nominated_node_name:
                message = "Cannot clear 'NominatedNodeName' field from lower priority pods on the same target node"
                self._statuses.update(info.pod, nominated="", on_error=message)

    async def _remove(
        self, profile: Profile, plugin: str, pod: api.Pod, node: str, victims: Sequence[api.Pod]
    ) -> list[BaseException]:
        """Remove all victims, the last only when all others went well; answers with what went wrong."""
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
        context = self._context
        note = f"Preempted by pod {pod.uid} on node {node}"
        if self._called_off(plugin, pod, node, victim):
            note += " (in kube-scheduler memory)."
        elif not await self._deleted(pod, victim):
            context.log(2, "Victim Pod is already deleted", preemptor=pod, victim=victim, node=node)
            return
        else:
            context.log(2, "Preemptor Pod preempted victim Pod", preemptor=pod, victim=victim, node=node)
        # Upstream means to name the preemptor as the related object too, but in 1.36 that is lost on the way.
        context.recorder.event(profile.name, victim, NORMAL, "Preempted", "Preempting", note)

    def _called_off(self, plugin: str, pod: api.Pod, node: str, victim: api.Pod) -> bool:
        """Whether the victim was still on its way to the node and has been sent back."""
        context = self._context
        waiting, pre_binding = context.waiting.get(victim.uid), context.pre_binding.get(victim.uid)
        who: dict[str, object] = {"preemptorType": "pod", "preemptor": pod, "node": node}
        if waiting is not None and waiting.preempt(plugin, "preempted"):
            context.log(2, "Preemptor preempted a waiting pod", waitingPod=victim, **who)
            return True
        if pre_binding is not None and pre_binding.cancel(f"preempted by {plugin}"):
            context.log(2, "Preemptor rejected a pod in preBind", podInPreBind=victim, **who)
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
        client = self._context.client
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


def _who_preempts(profile: Profile) -> Any:
    """The PostFilter plugin that can be told that a preemption is under way; one that cannot need not care."""
    for plugin in profile.engine.framework.post_filter:
        if hasattr(plugin, "preempting"):
            return plugin
    return _Unaware(profile)


class _Unaware:
    """Stands in for a plugin that makes victims but keeps no record of preemptions."""

    def __init__(self, profile: Profile) -> None:
        plugins = profile.engine.framework.post_filter
        self.name = plugins[0].name if plugins else ""
        self.preempting: set[str] = set()
