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


class HistoryRecorder(Subscriber):
    """Records every attempt when it is decided, and completes the record when it has ended."""

    def __init__(self, clock: Clock, history: History | None = None, sinks: Sequence[Sink] = ()) -> None:
        self.history = history
        self._clock = clock
        self._sinks = sinks
        self._capture = Capture()
        self._open: dict[str, AttemptRecord] = {}
        self._count = 0

    def of(self, attempt: Attempt) -> AttemptRecord | None:
        """The record of an attempt that has not ended."""
        return self._open.get(attempt.pod.uid)

    def runner_up(self, attempt: Attempt) -> str:
        """How close the decision was, in words to add to an event."""
        record = self.of(attempt)
        if record is None:
            return ""
        fit = f"{record.feasible} of {record.evaluated} nodes fit"
        best = record.best(2)
        if len(best) < 2:
            return f" ({fit})"
        gap = best[0].total - best[1].total
        words = "same score" if not gap else f"{gap} point{'s' * (gap != 1)} behind"
        return f" (runner-up {best[1].node}, {words}; {fit})"

    def decided(self, attempt: Attempt) -> None:
        record = self._new(attempt)
        self._capture.fill(record, attempt)
        if self.history is not None:
            self.history.add(record)

    def finished(self, attempt: Attempt) -> None:
        record = self._open.pop(attempt.pod.uid, None)
        if record is None:
            # Something of ours failed before there was a decision.
            record = self._new(attempt)
            del self._open[attempt.pod.uid]
            if self.history is not None:
                self.history.add(record)
        record.outcome = attempt.outcome.value
        record.binding = attempt.binding.value
        record.seconds = attempt.ended - attempt.started
        record.points = tuple((run.point, run.status, run.seconds) for run in attempt.points)
        if attempt.failure is not None:
            record.message = attempt.failure.message[:MOST_MESSAGE]
        record.finished = True
        for sink in self._sinks:
            sink(record, attempt)

    def _new(self, attempt: Attempt) -> AttemptRecord:
        self._count += 1
        pod = attempt.pod
        record = AttemptRecord(
            number=self._count,
            namespace=pod.namespace,
            name=pod.name,
            uid=pod.uid,
            profile=attempt.profile.name,
            attempt=attempt.queued.attempts,
            started=self._clock.now() - (self._clock.monotonic() - attempt.started),
            names=self._capture.names(attempt.profile.engine.cluster.nodes),
        )
        self._open[pod.uid] = record
        return record
