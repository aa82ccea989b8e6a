"""Pods between their decision and their binding: those that wait on Permit, and those being prepared by PreBind.

Both can still be called off without the API server, which is how a preemption frees what they hold at once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterator, Mapping

from kubesched.api import objects as api
from kubesched.config.duration import Duration
from kubesched.framework.status import Code, Status


class WaitingPod:
    """A pod that waits for Permit plugins; the shortest of their patiences counts."""

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
        """Say yes for a plugin; the last yes lets the pod go on."""
        timer = self._timers.pop(plugin, None)
        if timer is not None:
            timer.cancel()
        if not self._timers:
            self._decide(None)

    def reject(self, plugin: str, message: str = "") -> bool:
        """Send the pod back as unschedulable; False if it has been decided already."""
        return self._decide(Status(Code.UNSCHEDULABLE, message, plugin=plugin))

    def preempt(self, plugin: str, message: str) -> bool:
        """Send the pod back to be tried again soon: it is not at fault."""
        return self._decide(Status(Code.ERROR, message, plugin=plugin))

    async def verdict(self) -> Status | None:
        """Wait for what the plugins say: None to go on."""
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
        """A pod begins to wait."""
        self._pods[waiting.pod.uid] = waiting

    def remove(self, uid: str) -> None:
        """A pod waits no longer, whether it was decided or not."""
        waiting = self._pods.pop(uid, None)
        if waiting is not None:
            waiting.reject("", "given up")

    def reject(self, uid: str) -> bool:
        """Send back a pod that is about to be deleted anyway; False if it does not wait."""
        waiting = self._pods.get(uid)
        return waiting is not None and waiting.reject("", "removed")


class PreBinding:
    """A pod whose PreBind plugins run, in the current task. It can be called off until they are through."""

    def __init__(self) -> None:
        self._task = asyncio.current_task()
        self._finished = False
        self.message = ""
        """Why it was called off, if it was."""

    def cancel(self, message: str) -> bool:
        """Call it off; False if it is too late."""
        if self._finished:
            return False
        if not self.message and self._task is not None:
            self.message = message
            self._task.cancel()
        return True

    def finish(self) -> bool:
        """PreBind is through, and nobody can call the pod off any more; False if somebody has."""
        self._finished = not self.message
        return self._finished

    def take_back_cancellation(self) -> None:
        """Let the task go on that `cancel` wanted to end: the binding ends in its own way."""
        if self._task is not None:
            self._task.uncancel()
