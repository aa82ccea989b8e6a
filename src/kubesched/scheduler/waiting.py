"""Pods between their decision and their binding: those waiting on Permit, and those whose PreBind plugins are running.

Both can still be cancelled without an API call, so a preemption can free their resources at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping

from kubesched.api import objects as api
from kubesched.config.duration import Duration
from kubesched.framework.status import Code, Status


class WaitingPod:
    """A pod that waits for Permit plugins, for at most the shortest of their timeouts."""

    def __init__(self, pod: api.Pod, timeouts: Mapping[str, float]) -> None:
        loop = asyncio.get_running_loop()
        self._pod = pod
        self._verdict: asyncio.Future[Status | None] = loop.create_future()
        self._timers = {
            plugin: loop.call_later(seconds, self._time_out, plugin, seconds) for plugin, seconds in timeouts.items()
        }

    @property
    def pod(self) -> api.Pod:
        return self._pod

    @property
    def pending_plugins(self) -> Collection[str]:
        return list(self._timers)

    def allow(self, plugin: str) -> None:
        """Allow the pod on behalf of a plugin. Once every plugin has allowed it, the pod continues."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(None)

    def reject(self, plugin: str, message: str = "") -> bool:
        """Reject the pod as unschedulable; False if it was already allowed or rejected."""
        return self._decide(Status(Code.UNSCHEDULABLE, message, plugin=plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Return the pod to the queue for a quick retry, because it was preempted and did not fail."""
        return self._decide(Status(Code.ERROR, message, plugin=plugin))

    async def verdict(self) -> Status | None:
        """Wait for the plugins' verdict; None means continue."""
        return await self._verdict

    def _time_out(self, plugin: str, seconds: float) -> None:
        waited = Duration(round(seconds * 1e9))
        self.reject(plugin, f"rejected due to timeout after waiting {waited} at plugin {plugin}")

    def _decide(self, verdict: Status | None) -> bool:
        if self._verdict.done():
            return False
        for timer in self._timers.values():
            timer.cancel()
        self._verdict.set_result(verdict)
        return True


class WaitingPods:
    """All waiting pods, by UID."""

    def __init__(self) -> None:
        self._pods: dict[str, WaitingPod] = {}

    def __iter__(self) -> Iterator[WaitingPod]:
        return iter(list(self._pods.values()))

    def __len__(self) -> int:
        return len(self._pods)

    def get(self, uid: str) -> WaitingPod | None:
        return self._pods.get(uid)

    def add(self, waiting: WaitingPod) -> None:
        """Register a pod that starts to wait."""
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        """Remove a pod that no longer waits, whatever the verdict."""
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            waiting.reject("", "given up")

    def reject(self, uid: str) -> bool:
        """Reject a pod that is about to be deleted; False if it is not waiting."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")


class PreBinding:
    """A pod whose PreBind plugins run in the current task. It can be cancelled until they have finished."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._finished = False
        self.message = ""
        """Why it was called off, if it was."""

    def cancel(self, message: str) -> bool:
        """Cancel the binding; False if it is too late."""
        if self._finished:
            return False
        if not self.message and self._task is not None:
            self.message = message
            self._task.cancel()
        return True

    def finish(self) -> bool:
        """Mark PreBind as finished, after which the pod cannot be cancelled; False if it was cancelled before."""
        self._finished = not self.message
        return self._finished

    def take_back_cancellation(self) -> None:
        """Undo the cancellation of the task, so that the binding can clean up and end by itself."""
        if self._task is not None:
            self._task.uncancel()
