"""Handles a failed attempt: the pod returns to the queue."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.scheduler.attempt import Attempt, Dropped
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.subscribers.publisher import Publisher


class FailureHandler:
    """Requeues pods."""

    def __init__(self, shared: Shared, publisher: Publisher) -> None:
        self._shared = shared
        self._publisher = publisher

    def handle(self, attempt: Attempt) -> None:
        """Requeue a pod, unless it was deleted, recreated or bound."""
        queue, queued, failure = self._shared.queue, attempt.queued, attempt.failure
        assert failure is not None
        attempt.ended = self._shared.clock.monotonic()
        self._publisher.failed(attempt)
        known = self._shared.pods.get(attempt.pod.key)
        reason = _reason_to_drop(attempt.pod, known)
        if known is None or reason is not None:
            self._publisher.dropped(attempt, reason or Dropped.GONE, known)
            queue.done(attempt.pod.uid)
            return
        queued.rejected_by(failure.unschedulable, failure.pending)
        queued.info = self._shared.cluster.classes.info(known)
        queue.add_unschedulable_if_not_present(queued)
        queue.nominate(queued.info, failure.nominate)
        self._publisher.requeued(attempt, known)


def _reason_to_drop(pod: api.Pod, known: api.Pod | None) -> Dropped | None:
    if known is None:
        return Dropped.GONE
    if known.uid != pod.uid:
        return Dropped.RECREATED
    return Dropped.ASSIGNED if known.node_name else None
