"""The extension points after the decision: Reserve, Permit, PreBind, Bind, PostBind.

They are run as upstream's framework runs them and answer with a status in upstream's words. A plugin that raises has
answered with an error that names it and the point.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import ERROR, Log
from kubesched.framework.answers import permit_answer, status_answer
from kubesched.framework.plugin import is_built_in
from kubesched.framework.runtime import Framework, described, place_in
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error
from kubesched.scheduler.ports import Metrics
from kubesched.scheduler.waiting import PreBinding

LONGEST_PERMIT = 15 * 60.0
"""Seconds that a pod waits on Permit at most, whatever a plugin asks for."""
NO_BINDER = Status(Code.SKIP, "no Bind plugin took the pod")
NOTHING_TO_DO = Status(Code.SKIP)
PLUGINS_TIMED = "kubesched/plugins-timed"
"""Under this key of the CycleState is something if each plugin of this cycle is to be timed."""
REJECTED = {"PreBind": "Pod rejected by PreBind plugin", "Bind": "Pod rejected by Bind plugin"}
FAILED = {"Bind": "Plugin Failed"}
"""Upstream's words where they differ from those at other points."""
METHODS = {
    "Reserve": "reserve",
    "Unreserve": "unreserve",
    "PreBind": "pre_bind",
    "Bind": "bind",
    "PostBind": "post_bind",
}
NAMES = {
    "NormalizeScore": "ScoreExtensionNormalize",
    "PreFilter AddPod": "PreFilterExtensionAddPod",
    "PreFilter RemovePod": "PreFilterExtensionRemovePod",
}
"""What metrics call some of the things that plugins do."""


class Points:
    """One profile's plugins at these points."""

    def __init__(self, framework: Framework, clock: Clock, metrics: Metrics, log: Log) -> None:
        self.profile = framework.profile_name
        self._clock = clock
        self._metrics = metrics
        self._log = log
        points = framework.points
        self._reserve: Sequence[Any] = points.get("reserve", ())
        self._permit: Sequence[Any] = points.get("permit", ())
        self._pre_bind: Sequence[Any] = points.get("preBind", ())
        self._bind: Sequence[Any] = points.get("bind", ())
        self._post_bind: Sequence[Any] = points.get("postBind", ())

    # In the scheduling cycle

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Let plugins set things aside for the pod. If one refuses, the caller has to `unreserve`."""
        started = self._clock.monotonic()
        status: Status | None = None
        for plugin in self._reserve:
            status = self._call(plugin, "Reserve", plugin.reserve, state, pod, node_name)
            if status is not None:
                break
        return self._observed("Reserve", started, status)

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        """Give everything back, in reverse order; one plugin's failure must not keep the others from it."""
        started = self._clock.monotonic()
        for plugin in reversed(self._reserve):
            if hasattr(plugin, "unreserve"):
                self._call(plugin, "Unreserve", plugin.unreserve, state, pod, node_name)
        self._observed("Unreserve", started, None)

    def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> tuple[Status | None, dict[str, float]]:
        """Whether the pod may go there: a refusal, or how long each plugin wants it to wait for its word."""
        started = self._clock.monotonic()
        refusal: Status | None = None
        timeouts: dict[str, float] = {}
        for plugin in self._permit:
            seconds, refusal = self._ask_permit(plugin, state, pod, node_name)
            if refusal is not None:
                break
            if seconds is not None:
                timeouts[plugin.name] = min(seconds, LONGEST_PERMIT)
        waits = Status(Code.WAIT) if timeouts else None
        self._observed("Permit", started, refusal or waits)
        if timeouts and refusal is None:
            self._log(4, "One or more plugins asked to wait and no plugin rejected pod", pod=pod)
        return refusal, timeouts

    def _ask_permit(
        self, plugin: Any, state: CycleState, pod: api.Pod, node_name: str
    ) -> tuple[float | None, Status | None]:
        try:
            answer = self._answer(plugin, "Permit", plugin.permit, state, pod, node_name)
            status, seconds = permit_answer(plugin, answer)
        except Exception as problem:
            return None, self._raised(plugin, "Permit", pod, problem)
        if status is not None and status.code is Code.WAIT:
            return LONGEST_PERMIT if seconds is None else seconds, None
        return None, self._judged(plugin, "Permit", pod, status)

    # In the binding cycle

    def needing_pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> tuple[list[Any], Status | None]:
        """The PreBind plugins that have something to do; who does not say whether it has, does."""
        started = self._clock.monotonic()
        needed = []
        for plugin in self._pre_bind:
            ask = getattr(plugin, "pre_bind_needed", None)
            try:
                if ask is None or self._answer(plugin, "PreBindPreFlight", ask, state, pod, node_name):
                    needed.append(plugin)
            except Exception as problem:
                self._log(ERROR, "Plugin failed", plugin=plugin.name, pod=pod, node=node_name, err=problem)
                failed = error(f'running PreBindPreFlight "{plugin.name}": {described(problem)}')
                return [], self._observed("PreBindPreFlight", started, failed)
        self._observed("PreBindPreFlight", started, None if needed else NOTHING_TO_DO)
        return needed, None

    async def pre_bind(
        self, plugins: Sequence[Any], state: CycleState, pod: api.Pod, node_name: str, stage: PreBinding | None = None
    ) -> Status | None:
        """Let plugins do on the API server what has to be done before the pod is bound.

        Those that allow it (`pre_bind_in_parallel`) run beside their neighbours that do; the first that fails ends it.
        """
        started = self._clock.monotonic()
        status: Status | None = None
        for together, group in groupby(plugins, lambda plugin: getattr(plugin, "pre_bind_in_parallel", False)):
            for some in [list(group)] if together else [[plugin] for plugin in group]:
                status = await self._pre_bind_some(some, stage, state, pod, node_name)
                if status is not None:
                    return self._observed("PreBind", started, status)
        return self._observed("PreBind", started, status)

    async def _pre_bind_some(
        self, plugins: Sequence[Any], stage: PreBinding | None, state: CycleState, pod: api.Pod, node_name: str
    ) -> Status | None:
        """Run one plugin, or several at once."""
        calls = [self._acall(each, "PreBind", each.pre_bind, state, pod, node_name) for each in plugins]
        if len(calls) == 1:
            try:
                return await calls[0]
            except asyncio.CancelledError:
                return self._called_off(plugins[0], pod, stage)
        tasks = [asyncio.create_task(call) for call in calls]
        try:
            for task in asyncio.as_completed(tasks):
                if (status := await task) is not None:
                    return status
            return None
        except asyncio.CancelledError:
            unfinished = next((each for each, task in zip(plugins, tasks, strict=True) if not task.done()), plugins[-1])
            return self._called_off(unfinished, pod, stage)
        finally:
            for each in tasks:
                each.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def _called_off(self, plugin: Any, pod: api.Pod, stage: PreBinding | None) -> Status:
        """A plugin was cancelled: by a preemption, which ends the attempt, or because everything ends."""
        if stage is None or not stage.message:
            raise asyncio.CancelledError
        stage.take_back_cancellation()
        return self._failed(plugin, "PreBind", pod, stage.message)

    async def bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Let the first plugin bind the pod that does not pass."""
        started = self._clock.monotonic()
        status: Status | None = NO_BINDER
        for plugin in self._bind:
            status = await self._acall(plugin, "Bind", plugin.bind, state, pod, node_name)
            if status is None or not status.is_skip:
                break
        return self._observed("Bind", started, status)

    async def post_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        """Tell plugins that the pod is bound; it is, whatever they say."""
        started = self._clock.monotonic()
        for plugin in self._post_bind:
            await self._acall(plugin, "PostBind", plugin.post_bind, state, pod, node_name)
        self._observed("PostBind", started, None)

    # How a plugin is asked

    def _call(self, plugin: Any, point: str, method: Callable[..., Any], *args: Any) -> Status | None:
        pod = args[1]
        try:
            status = status_answer(plugin, METHODS[point], self._answer(plugin, point, method, *args))
        except Exception as problem:
            return self._raised(plugin, point, pod, problem)
        return self._judged(plugin, point, pod, status)

    async def _acall(self, plugin: Any, point: str, method: Callable[..., Any], *args: Any) -> Status | None:
        pod = args[1]
        try:
            status = status_answer(plugin, METHODS[point], await self._later(plugin, point, method, *args))
        except Exception as problem:
            return self._raised(plugin, point, pod, problem)
        return self._judged(plugin, point, pod, status)

    def _judged(self, plugin: Any, point: str, pod: api.Pod, status: Status | None) -> Status | None:
        if status is None or status.is_success:
            return None
        if status.is_skip:
            return status
        if status.is_rejected:
            message = REJECTED.get(point, "Pod rejected by plugin")
            self._log(4, message, pod=pod, plugin=plugin.name, status=status.message)
            return status.by(plugin.name)
        return self._failed(plugin, point, pod, status.message)

    def _raised(self, plugin: Any, point: str, pod: api.Pod, problem: Exception) -> Status:
        """A plugin of somebody else's is told where, too; in ours an exception is the API server's."""
        where = {} if is_built_in(type(plugin)) else {"where": place_in(plugin, problem)}
        return self._failed(plugin, point, pod, described(problem), **where)

    def _failed(self, plugin: Any, point: str, pod: api.Pod, why: str, **where: str) -> Status:
        self._log(ERROR, FAILED.get(point, "Plugin failed"), plugin=plugin.name, pod=pod, err=why, **where)
        return Status(Code.ERROR, f'running {point} plugin "{plugin.name}": {why}', plugin=plugin.name)

    def _observed(self, point: str, started: float, status: Status | None) -> Status | None:
        """Tell metrics of a point, whether it has plugins or not."""
        code = "Success" if status is None else status.code.upstream
        self._metrics.extension_point(point, code, self.profile, self._clock.monotonic() - started)
        return status

    # How a plugin is timed

    def watch(self, plugin: str, point: str, method: Callable[..., Any], args: Sequence[Any]) -> Any:
        """Ask a plugin, and tell metrics how long it took."""
        started, outcome = self._clock.monotonic(), "Error"
        try:
            answer = method(*args)
            outcome = _outcome(answer)
            return answer
        finally:
            self._metrics.plugin(plugin, NAMES.get(point, point), outcome, self._clock.monotonic() - started)

    def _answer(self, plugin: Any, point: str, method: Callable[..., Any], *args: Any) -> Any:
        return self.watch(plugin.name, point, method, args) if PLUGINS_TIMED in args[0] else method(*args)

    async def _later(self, plugin: Any, point: str, method: Callable[..., Any], *args: Any) -> Any:
        if PLUGINS_TIMED not in args[0]:
            return await method(*args)
        started, outcome = self._clock.monotonic(), "Error"
        try:
            answer = await method(*args)
            outcome = _outcome(answer)
            return answer
        finally:
            self._metrics.plugin(plugin.name, point, outcome, self._clock.monotonic() - started)


def _outcome(answer: Any) -> str:
    """What a plugin's answer comes to; PostFilter and Permit answer with two things, one of them a status."""
    found = (each for each in (answer if isinstance(answer, tuple) else (answer,)) if isinstance(each, Status))
    return next((status.code.upstream for status in found), "Success")
