"""The binding cycle: from a decision to a pod that is bound in the API server. Many run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import replace

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.client.protocol import ApiError
from kubesched.engine.failure import Failure
from kubesched.engine.outcome import BOUND, STARTED, BindingState
from kubesched.framework.events import ASSIGNED_POD_DELETE
from kubesched.framework.extender import Extender, ExtenderCall, ExtenderError
from kubesched.framework.status import Code, Status, error
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.pre_bind import run_pre_bind
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.statuses import StatusWriter
from kubesched.scheduler.subscribers.publisher import Publisher
from kubesched.scheduler.urgent_calls import UrgentCalls

PAUSES_AFTER_LOST_ANSWER = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0)
"""Seconds before each check of an unclear binding: long enough for an API server to restart."""
NOT_BOUND = Status(Code.SKIP)
"""No extender binds this pod."""


class UnclearBinds:
    """Finds the attempt of a pod whose bind call failed but may have taken effect."""

    def __init__(self) -> None:
        self._attempts: dict[str, Attempt] = {}

    def add(self, attempt: Attempt) -> None:
        """A binding begins."""
        self._attempts[attempt.assumed.metadata.uid] = attempt

    def remove(self, attempt: Attempt) -> None:
        """A binding has ended."""
        self._attempts.pop(attempt.assumed.metadata.uid, None)

    def note(self, pod: api.Pod) -> None:
        """A bind call for this pod may have taken effect although it failed."""
        attempt = self._attempts.get(pod.uid)
        if attempt is not None:
            attempt.unclear = True


class BindingCycle:
    """Binds pods that have been assumed, reserved and permitted."""

    def __init__(
        self,
        shared: Shared,
        extenders: Sequence[Extender],
        publisher: Publisher,
        failures: FailureHandler,
        statuses: StatusWriter,
        calls: UrgentCalls,
        unclear: UnclearBinds,
    ) -> None:
        self._shared = shared
        self._extenders = extenders
        self._publisher = publisher
        self._failures = failures
        self._statuses = statuses
        self._calls = calls
        self._unclear = unclear

    def start(self, attempt: Attempt) -> None:
        """Begin a binding."""
        attempt.binding = STARTED
        self._unclear.add(attempt)
        self._publisher.binding_started(attempt)
        self._shared.tasks.spawn(self.run(attempt))

    async def run(self, attempt: Attempt) -> None:
        """Bind a pod, or put it back into the queue."""
        shared = self._shared
        try:
            failure = await self._steps(attempt)
        except Exception as problem:
            shared.log(ERROR, "Unexpected error in binding cycle", pod=attempt.assumed, err=problem)
            failure = Failure(f"binding: {type(problem).__name__}: {problem}")
        finally:
            self._unclear.remove(attempt)
            shared.waiting.remove(attempt.assumed.metadata.uid)
        if failure is not None:
            attempt.binding = BindingState.FAILED
            await shared.turns.take("not bound", attempt.assumed.metadata.uid)
            shared.inbox.put(self._failed, attempt, failure)
        else:
            self._publisher.finished(attempt)

    async def _steps(self, attempt: Attempt) -> Failure | None:
        shared, framework, pod = self._shared, attempt.profile.engine.framework, attempt.assumed
        uid = pod.metadata.uid
        await shared.turns.take("bind", uid)
        announces = shared.cluster.features.nominated_node_name_for_expectation
        needed, status = list(framework.pre_bind), None
        if announces:
            needed, status = framework.plugins_to_pre_bind(attempt.state, pod, attempt.chosen)
        if status is not None:
            return Failure.of_status(status)
        waits = framework.pre_bind_waits(needed, attempt.state, pod, attempt.chosen)
        if needed or attempt.permit_timeouts:
            if announces and (waits or attempt.permit_timeouts):
                await self._announce(attempt)
            status = await self._wait_on_permit(attempt)
            if status is not None:
                return Failure.of_refusal(status)
        # From here on nothing makes the pod unschedulable, so the queue need not keep events for it.
        shared.inbox.put(shared.queue.done, uid)
        if needed:
            # A PreBind that only writes is part of the binding: events wait for it too.
            with nullcontext() if waits else self._calls:
                status = await run_pre_bind(shared, attempt, needed)
            if status is not None:
                return Failure.of_status(status)
        else:
            attempt.begin_point()
            attempt.end_point("PreBind")
        if not self._statuses.is_async and self._statuses.is_writing(uid):
            await self._statuses.written(uid)
        status = await self._bind(attempt)
        if status is not None:
            return replace(Failure.of_status(status), maybe_bound=not status.is_skip)
        await self._succeeded(attempt)
        return None

    async def _announce(self, attempt: Attempt) -> None:
        """Before a wait, publish the pod's future node, above all for the autoscaler.

        Upstream does so even where PreBind only writes. That call is saved here: the pod is bound soon anyway.
        """
        message = "Failed to update the nominated node name in the binding cycle"
        task = self._statuses.update(attempt.pod, nominated=attempt.chosen, on_error=message)
        if task is not None and not self._statuses.is_async:
            await asyncio.wait((task,))

    async def _wait_on_permit(self, attempt: Attempt) -> Status | None:
        shared, pod = self._shared, attempt.assumed
        waiting = shared.waiting.get(pod.uid)
        if waiting is None:
            return None
        self._publisher.waiting(attempt)
        started = shared.clock.monotonic()
        status = attempt.permit_result = await waiting.verdict()
        shared.waiting.remove(pod.uid)
        attempt.permit_seconds = shared.clock.monotonic() - started
        if status is None or status.is_rejected:
            return status
        return Status(Code.ERROR, f"waiting on permit for pod: {status.message}", plugin=status.plugin)

    async def _bind(self, attempt: Attempt) -> Status | None:
        status = await self._bind_by_extender(attempt) if self._extenders else NOT_BOUND
        if status is NOT_BOUND:
            framework = attempt.profile.engine.framework
            with self._calls:
                status = await framework.run_bind(attempt.state, attempt.assumed, attempt.chosen)
        if status is not None and attempt.unclear and await self._turns_out_bound(attempt):
            return None
        return status

    async def _bind_by_extender(self, attempt: Attempt) -> Status | None:
        pod = attempt.assumed
        for extender in self._extenders:
            if not extender.is_binder or not extender.is_interested(pod):
                continue
            try:
                await extender.bind(pod, attempt.chosen)
            except ExtenderError as problem:
                attempt.unclear = True
                if extender.ignorable:
                    attempt.extender_calls.append(ExtenderCall(extender.name, "bind", problem))
                    continue
                return error(str(problem))
            return None
        return NOT_BOUND

    async def _turns_out_bound(self, attempt: Attempt) -> bool:
        """When a failed bind call may have taken effect, ask the API server for the pod, until it responds or the
        watch delivers the pod.

        Meanwhile the pod stays assumed: freeing its resources could overcommit the node.
        """
        shared, pod = self._shared, attempt.assumed
        for seconds in PAUSES_AFTER_LOST_ANSWER:
            if seconds:
                await shared.clock.sleep(seconds)
            known = shared.newest(pod)
            if known is None or known.node_name:
                return known is not None and known.node_name == attempt.chosen
            try:
                found = await shared.client.read(api.Pod, pod.name, pod.namespace)
            except (ApiError, OSError) as problem:
                if isinstance(problem, ApiError) and problem.code == 404:
                    return False
                continue
            return found.uid == pod.uid and found.node_name == attempt.chosen
        return False

    async def _succeeded(self, attempt: Attempt) -> None:
        shared = self._shared
        attempt.binding = BOUND
        attempt.ended = shared.clock.monotonic()
        self._publisher.bound(attempt)
        framework = attempt.profile.engine.framework
        await framework.run_post_bind(attempt.state, attempt.assumed, attempt.chosen)
        if attempt.to_activate:
            shared.inbox.put(shared.queue.activate, list(attempt.to_activate.values()))

    def _failed(self, attempt: Attempt, failure: Failure) -> None:
        try:
            self._give_back(attempt, failure)
        except Exception as problem:
            # All expected failures are handled. After an unexpected one, the pod must still not be lost.
            self._shared.log(ERROR, "Unexpected error after a binding failed", pod=attempt.assumed, err=problem)
            attempt.queued.rejected_by()
            self._shared.queue.add_unschedulable_if_not_present(attempt.queued)
        self._publisher.finished(attempt)

    def _give_back(self, attempt: Attempt, failure: Failure) -> None:
        """Release everything that the pod holds, and requeue it."""
        cluster, queue, pod = self._shared.cluster, self._shared.queue, attempt.assumed
        held = pod.uid in cluster.assumed
        attempt.profile.engine.take_back(attempt)
        if held and not failure.rejected:
            queue.move_all(ASSIGNED_POD_DELETE, pod, None)
        attempt.refused(failure)
        self._failures.handle(attempt)
        if held and failure.rejected:
            # After the pod is back in the queue: it must not be woken by its own removal.
            queue.move_all(ASSIGNED_POD_DELETE, pod, None, check=lambda other: other.uid != pod.uid)
