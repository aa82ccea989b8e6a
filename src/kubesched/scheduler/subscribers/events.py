"""Attempts as Events about pods."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api import objects as api
from kubesched.scheduler.attempt import Attempt, Skipped
from kubesched.scheduler.ports import NORMAL, WARNING, EventSink
from kubesched.scheduler.subscribers.publisher import Subscriber


class AttemptEvents(Subscriber):
    """Creates Scheduled and FailedScheduling events."""

    def __init__(self, recorder: EventSink, explain: Callable[[Attempt], str] | None = None) -> None:
        """What `explain` returns for a bound pod is added to its event."""
        self._recorder = recorder
        self._explain = explain

    def skipped(self, pod: api.Pod, profile: str, reason: Skipped) -> None:
        if reason is Skipped.DELETING:
            note = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
            self._recorder.event(profile, pod, WARNING, "FailedScheduling", "Scheduling", note)

    def bound(self, attempt: Attempt) -> None:
        pod = attempt.assumed
        note = f"Successfully assigned {pod.metadata.namespace}/{pod.metadata.name} to {attempt.chosen}"
        if self._explain is not None:
            note += self._explain(attempt)
        self._recorder.event(attempt.profile.name, pod, NORMAL, "Scheduled", "Binding", note)

    def requeued(self, attempt: Attempt, pod: api.Pod) -> None:
        assert attempt.failure is not None
        message = attempt.failure.message
        self._recorder.event(attempt.profile.name, pod, WARNING, "FailedScheduling", "Scheduling", message)
