"""Status patches and bindings as background calls, with the gate SchedulerAsyncAPICalls.

At most one call of a pod is in progress, and at most one waits behind it. A newer status patch is merged with a
waiting one, a binding replaces a waiting patch, and a patch that comes after a binding is dropped.
"""

from __future__ import annotations

import asyncio
from typing import ClassVar

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.client.protocol import Client
from kubesched.scheduler.ports import MetricsSink
from kubesched.scheduler.tasks import Tasks


class ApiCall:
    """One call about one pod."""

    call_type: ClassVar[str]
    """Its name in metrics."""
    relevance: ClassVar[int]
    """A call replaces those of lower relevance."""

    def __init__(self, uid: str) -> None:
        self.uid = uid
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the call was made, dropped or replaced."""

    def merge(self, older: ApiCall) -> None:
        """Take over the changes of an older call of the same type."""

    def has_effect(self) -> bool:
        """Whether the call would change anything."""
        return True

    async def execute(self) -> None:
        """Make the call."""
        raise NotImplementedError

    def finish(self, problem: Exception | None = None) -> None:
        """The call has ended."""
        if not self.done.done():
            self.done.set_result(None)


class BindingCall(ApiCall):
    """Binds a pod. The caller waits for it."""

    call_type = "pod_binding"
    relevance = 2

    def __init__(self, client: Client, pod: api.Pod, node_name: str) -> None:
        super().__init__(pod.uid)
        self._client, self._pod, self._node_name = client, pod, node_name

    async def execute(self) -> None:
        await self._client.bind(self._pod, self._node_name)

    def finish(self, problem: Exception | None = None) -> None:
        if problem is not None and not self.done.done():
            self.done.set_exception(problem)
        else:
            super().finish()


class Dispatcher:
    """Makes calls; those of one pod one at a time."""

    def __init__(self, tasks: Tasks, metrics: MetricsSink, clock: Clock) -> None:
        self._tasks = tasks
        self._metrics = metrics
        self._clock = clock
        self._newest: dict[str, ApiCall] = {}
        """The last call of each pod, in progress or waiting."""
        self._under_way: dict[str, ApiCall] = {}
        self._started: set[str] = set()
        """Pods that have a task."""

    def add(self, call: ApiCall) -> asyncio.Future[None]:
        """Make a call as soon as the pod's earlier calls allow it, unless it is unnecessary."""
        uid, current, older = call.uid, self._under_way.get(call.uid), self._newest.get(call.uid)
        if older is not None and call.relevance < older.relevance:
            call.finish()
            return call.done
        if older is not None:
            self._replace(older, call, current)
        if current is None and not call.has_effect():
            self._newest.pop(uid, None)
            call.finish()
            return call.done
        self._newest[uid] = call
        if current is None:  # a call that waits for another one is not counted yet
            self._metrics.api_calls_pending(call.call_type, 1)
        if uid not in self._started:
            self._started.add(uid)
            self._tasks.spawn(self._run(uid))
        return call.done

    def _replace(self, older: ApiCall, call: ApiCall, current: ApiCall | None) -> None:
        if type(older) is type(call):
            call.merge(older)
        if older is not current:
            older.finish()
        if current is None:
            self._metrics.api_calls_pending(older.call_type, -1)

    async def _run(self, uid: str) -> None:
        """Make a pod's calls until none is left."""
        try:
            while (call := self._newest.get(uid)) is not None:
                self._metrics.api_calls_pending(call.call_type, -1)
                self._under_way[uid] = call
                await self._execute(call)
                del self._under_way[uid]
                newer = self._newest[uid]
                if newer is call:
                    del self._newest[uid]
                else:
                    self._metrics.api_calls_pending(newer.call_type, 1)
        finally:
            self._started.discard(uid)

    async def _execute(self, call: ApiCall) -> None:
        started = self._clock.monotonic()
        problem: Exception | None = None
        try:
            await call.execute()
        except asyncio.CancelledError:
            call.done.cancel()
            raise
        except Exception as caught:
            problem = caught
        result = "success" if problem is None else "error"
        self._metrics.api_call(call.call_type, result, self._clock.monotonic() - started)
        call.finish(problem)
