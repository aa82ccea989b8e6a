"""The binding cycle: from a decision to a pod that the API server has on its node. Many run at once."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.client.protocol import ApiError
from kubesched.framework.events import ASSIGNED_POD_DELETE
from kubesched.framework.status import Code, Status, error
from kubesched.scheduler.context import Attempt, Context
from kubesched.scheduler.failure import Failure, FailureHandler
from kubesched.scheduler.ports import NORMAL, ExtenderError
from kubesched.scheduler.statuses import StatusWriter
from kubesched.scheduler.waiting import PreBinding

PAUSES_AFTER_LOST_ANSWER = (0.0, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 5.0, 5.0, 5.0)
"""Seconds before each look at what became of a binding. An API server that is being restarted is back by then."""


class BindingCycle:
    """Binds pods that have been assumed, reserved and permitted."""

    def __init__(self, context: Context, failures: FailureHandler, statuses: StatusWriter) -> None:
        self._context = context
        self._failures = failures
        self._statuses = statuses
        self.calls = 0
        """Bind calls that have yet to be answered."""

    def start(self, attempt: Attempt) -> None:
        """Begin a binding."""
        self._context.tasks.spawn(self._run(attempt))

    async def _run(self, attempt: Attempt) -> None:
        context = self._context
        context.metrics.goroutines("binding", 1)
        try:
            failure = await self._steps(attempt)
        except Exception as problem:
            context.log(ERROR, "Unexpected error in binding cycle", pod=attempt.assumed, err=problem)
            failure = Failure(f"binding: {type(problem).__name__}: {problem}")
        finally:
            context.metrics.goroutines("binding", -1)
            context.unsure.discard(attempt.assumed.uid)
            context.waiting.remove(attempt.assumed.uid)
        if failure is not None:
            context.inbox.put(self._failed, attempt, failure)

    async def _steps(self, attempt: Attempt) -> Failure | None:
        context, points, pod = self._context, attempt.profile.points, attempt.assumed
        needed, status = points.needing_pre_bind(attempt.state, pod, attempt.node)
        if status is not None:
            return Failure.of_status(status)
        if needed or context.waiting.get(pod.uid) is not None:
            await self._announce(attempt)
            status = await self._wait_on_permit(attempt)
            if status is not None:
                return Failure.of_refusal(status)
        # From here on nothing makes the pod unschedulable, so events need no longer be kept for it.
        context.inbox.put(context.queue.done, pod.uid)
        status = await self._pre_bind(attempt, needed)
        if status is not None:
            return Failure.of_status(status)
        await self._statuses.written(pod.uid)
        status = await self._bind(attempt)
        if status is not None:
            return replace(Failure.of_status(status), maybe_bound=True)
        await self._succeeded(attempt)
        return None

    async def _announce(self, attempt: Attempt) -> None:
        """Before a wait, tell others, the autoscaler above all, where the pod is going to be."""
        message = "Failed to update the nominated node name in the binding cycle"
        task = self._statuses.update(attempt.pod, nominated=attempt.node, on_error=message)
        if task is not None:
            await asyncio.wait((task,))

    async def _wait_on_permit(self, attempt: Attempt) -> Status | None:
        context, pod = self._context, attempt.assumed
        waiting = context.waiting.get(pod.uid)
        if waiting is None:
            return None
        context.log(4, "Pod waiting on permit", pod=pod)
        started = context.clock.monotonic()
        status = await waiting.verdict()
        context.waiting.remove(pod.uid)
        code = Code.SUCCESS if status is None else status.code
        context.metrics.permit_wait(code.upstream, context.clock.monotonic() - started)
        if status is None:
            return None
        if status.is_rejected:
            context.log(4, "Pod rejected while waiting on permit", pod=pod, status=status.message)
            return status
        context.log(ERROR, "Failed waiting on permit for pod", pod=pod, err=status.message)
        return Status(Code.ERROR, f"waiting on permit for pod: {status.message}", plugin=status.plugin)

    async def _pre_bind(self, attempt: Attempt, plugins: Sequence[Any]) -> Status | None:
        """Run PreBind in such a way that a preemption can call it off."""
        state, pod, points = attempt.state, attempt.assumed, attempt.profile.points
        if not plugins:
            return await points.pre_bind(plugins, state, pod, attempt.node)
        stage = self._context.pre_binding[pod.uid] = PreBinding()
        try:
            status = await points.pre_bind(plugins, state, pod, attempt.node, stage)
            return status if status is not None or stage.finish() else error(stage.message)
        finally:
            del self._context.pre_binding[pod.uid]

    async def _bind(self, attempt: Attempt) -> Status | None:
        context, pod = self._context, attempt.assumed
        status = await self._bind_by_extender(attempt) if context.extenders else NOBODY
        if status is NOBODY:
            self.calls += 1
            try:
                status = await attempt.profile.points.bind(attempt.state, pod, attempt.node)
            finally:
                self.calls -= 1
        if status is not None and pod.uid in context.unsure and await self._turns_out_bound(attempt):
            status = None
        if status is not None:
            context.log(1, "Failed to bind pod", pod=pod)
            return status
        note = f"Successfully assigned {pod.namespace}/{pod.name} to {attempt.node}"
        context.recorder.event(attempt.profile.name, pod, NORMAL, "Scheduled", "Binding", note)
        return None

    async def _bind_by_extender(self, attempt: Attempt) -> Status | None:
        context, pod = self._context, attempt.assumed
        for extender in context.extenders:
            if not extender.is_binder or not extender.is_interested(pod):
                continue
            try:
                await extender.bind(pod, attempt.node)
            except ExtenderError as problem:
                if extender.ignorable:
                    message = "Skipping extender in bind as it returned error and has ignorable flag set"
                    context.log(0, message, extender=extender.name, err=problem)
                    continue
                context.unsure.add(pod.uid)
                return error(str(problem))
            return None
        return NOBODY

    async def _turns_out_bound(self, attempt: Attempt) -> bool:
        """When a bind call may have taken effect although it failed, ask the API server what became of the pod, until
        it answers or the watch does.

        Meanwhile the pod stays assumed: giving its place to another would overfill the node.
        """
        context, pod = self._context, attempt.assumed
        for seconds in PAUSES_AFTER_LOST_ANSWER:
            if seconds:
                await context.clock.sleep(seconds)
            known = context.has(pod)
            if known is None or known.node_name:
                return known is not None and known.node_name == attempt.node
            try:
                found = await context.client.read(api.Pod, pod.name, pod.namespace)
            except (ApiError, OSError) as problem:
                if isinstance(problem, ApiError) and problem.code == 404:
                    return False
                continue
            return found.uid == pod.uid and found.node_name == attempt.node
        return False

    async def _succeeded(self, attempt: Attempt) -> None:
        context, pod, queued, decision = self._context, attempt.assumed, attempt.queued, attempt.decision
        log, now = context.log, context.clock.monotonic()
        log(5, "Finished binding for pod, can be expired", podKey=pod.uid, pod=pod)
        if log.verbosity >= 2 and decision is not None:
            fields = {"evaluatedNodes": decision.evaluated, "feasibleNodes": decision.feasible}
            log(2, "Successfully bound pod to node", pod=pod, node=attempt.node, **fields)
        context.metrics.attempt("scheduled", attempt.profile.name, now - attempt.started)
        first = queued.initial_attempt_timestamp
        context.metrics.scheduled(
            queued.attempts, None if first is None else now - first, after_flush=queued.was_flushed
        )
        if queued.was_flushed:
            plugins = {"unschedulablePlugins": queued.unschedulable_plugins, "pendingPlugins": queued.pending_plugins}
            log(4, "Pod scheduled after flush from unschedulablePods", pod=pod, **plugins)
        await attempt.profile.points.post_bind(attempt.state, pod, attempt.node)
        if attempt.to_activate:
            context.inbox.put(context.queue.activate, list(attempt.to_activate.values()))

    def _failed(self, attempt: Attempt, failure: Failure) -> None:
        try:
            self._give_back(attempt, failure)
        except Exception as problem:
            # What can fail has been seen to; this is for what cannot. The pod must not be lost for it.
            self._context.log(ERROR, "Unexpected error after a binding failed", pod=attempt.assumed, err=problem)
            self._context.queue.add_unschedulable_if_not_present(attempt.queued)

    def _give_back(self, attempt: Attempt, failure: Failure) -> None:
        """Give everything back that the pod held, and the pod to the queue."""
        context, pod = self._context, attempt.assumed
        attempt.profile.points.unreserve(attempt.state, pod, attempt.node)
        held = pod.uid in context.cluster.assumed
        context.cluster.forget(pod.uid)
        if held and not failure.rejected:
            context.queue.move_all(ASSIGNED_POD_DELETE, pod, None)
        self._failures.handle(attempt, failure)
        if held and failure.rejected:
            # After it is back, lest the pod itself takes its own leaving for a reason to be tried again.
            context.queue.move_all(ASSIGNED_POD_DELETE, pod, None, check=lambda other: other.uid != pod.uid)


NOBODY = Status(Code.SKIP)
"""No extender binds this pod."""
