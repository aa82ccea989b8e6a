"""The subscriber that records attempts and hands them on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesched.base.clock import Clock
from kubesched.history.capture import MOST_MESSAGE, Capture
from kubesched.history.record import AttemptRecord
from kubesched.history.store import History
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.subscribers.publisher import Subscriber

Sink = Callable[[AttemptRecord, Attempt], object]
"""Gets every attempt that has ended. It must not wait, and not change the record."""


FRESH = 64
"""Attempts after which the time of day is read again."""


class HistoryRecorder(Subscriber):
    """Records every attempt when it is decided, and completes the record when it has ended."""

    def __init__(self, clock: Clock, history: History | None = None, sinks: Sequence[Sink] = ()) -> None:
        self.history = history
        self._clock = clock
        self._sinks = sinks
        self._capture = Capture()
        self._count = 0
        self._offset = 0.0
        """From the clock that runs evenly to the time of day."""

    def runner_up(self, attempt: Attempt) -> str:
        """How close the decision was, in words to add to an event."""
        record = attempt.kept
        if not isinstance(record, AttemptRecord):
            return ""
        fit = f"{record.feasible} of {record.evaluated} nodes fit"
        best = record.best(2)
        if len(best) < 2:
            return f" ({fit})"
        gap = best[0].total - best[1].total
        words = "same score" if not gap else f"{gap} point{'s' * (gap != 1)} behind"
        return f" (runner-up {best[1].node}, {words}; {fit})"

    def searched(self, attempt: Attempt) -> None:
        record = attempt.kept = self._new(attempt)
        self._capture.fill(record, attempt)

    def decided(self, attempt: Attempt) -> None:
        if self.history is not None and isinstance(attempt.kept, AttemptRecord):
            self.history.add(attempt.kept)

    def finished(self, attempt: Attempt) -> None:
        record = attempt.kept
        if not isinstance(record, AttemptRecord):
            # Something failed before there was a decision.
            record = self._new(attempt)
            if self.history is not None:
                self.history.add(record)
        record.outcome = attempt.outcome.value
        record.binding = attempt.binding.value
        record.seconds = attempt.ended - attempt.started
        record.points = attempt.points
        if attempt.failure is not None:
            record.message = attempt.failure.message[:MOST_MESSAGE]
        record.finished = True
        for sink in self._sinks:
            sink(record, attempt)

    def _new(self, attempt: Attempt) -> AttemptRecord:
        if not self._count % FRESH:
            self._offset = self._clock.now() - self._clock.monotonic()
        self._count += 1
        pod = attempt.pod
        return AttemptRecord(
            number=self._count,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            profile=attempt.profile.name,
            attempt=attempt.queued.attempts,
            started=attempt.started + self._offset,
            names=self._capture.names(attempt.profile.engine.cluster.nodes),
        )
