"""The stages of an attempt, and how subscribers are notified of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Any

from kubesched.api import objects as api
from kubesched.base.log import ERROR, Log
from kubesched.scheduler.attempt import Attempt, Dropped, Skipped


class Subscriber:
    """Is notified of what happens to attempts. Override the stages that matter; do not change the attempt.

    An attempt goes through `started`, `decided`, `binding_started`, perhaps `waiting`, and `bound`. At any time it may
    fail instead: `failed`, then `requeued` or `dropped`. `finished` always comes last. A pod that is not tried at all
    is `skipped`, and nothing follows.
    """

    def skipped(self, pod: api.Pod, profile: str, reason: Skipped) -> None:
        """A pod left the queue and is not tried."""

    def started(self, attempt: Attempt) -> None:
        """A pod is about to be tried."""

    def searched(self, attempt: Attempt) -> None:
        """The engine has decided, and its columns are as they were for the decision. In the cycle of a pod group this
        comes before `started`, and `decided` may never come: placements are tried and given up."""

    def decided(self, attempt: Attempt) -> None:
        """The engine has chosen a node, or found none, or failed. Reserve and Permit have not run yet."""

    def binding_started(self, attempt: Attempt) -> None:
        """The pod is assumed on its node; Reserve and Permit have succeeded."""

    def waiting(self, attempt: Attempt) -> None:
        """The pod waits on Permit."""

    def bound(self, attempt: Attempt) -> None:
        """The pod is bound; PostBind has not run yet."""

    def failed(self, attempt: Attempt) -> None:
        """The attempt has failed, see `attempt.failure`. The pod is not back in the queue yet."""

    def requeued(self, attempt: Attempt, pod: api.Pod) -> None:
        """After a failure the pod, as it is now, is back in the queue."""

    def dropped(self, attempt: Attempt, reason: Dropped, known: api.Pod | None) -> None:
        """After a failure the pod is not requeued; `known` is the pod that now has its name."""

    def finished(self, attempt: Attempt) -> None:
        """Nothing more will happen in this attempt."""


class OnDecision(Subscriber):
    """Calls a function with every attempt that the engine has decided. The attempt continues, and its record is
    updated.
    """

    def __init__(self, callback: Callable[[Attempt], object]) -> None:
        self._callback = callback

    def decided(self, attempt: Attempt) -> None:
        self._callback(attempt)


Handlers = Sequence[Callable[..., None]]


class Publisher:
    """Notifies subscribers in order. An exception is logged and does not affect the other subscribers."""

    def __init__(self, subscribers: Iterable[Subscriber], log: Log) -> None:
        self._subscribers = list(subscribers)
        self._log = log
        # The stages that most attempts go through. Their handlers are looked up once.
        self.started = partial(self._stage, self._overriding("started"))
        self.searched = partial(self._stage, self._overriding("searched"))
        self.decided = partial(self._stage, self._overriding("decided"))
        self.binding_started = partial(self._stage, self._overriding("binding_started"))
        self.bound = partial(self._stage, self._overriding("bound"))
        self._finished = self._overriding("finished")

    def _overriding(self, stage: str) -> Handlers:
        """The handlers of a stage, without those that do nothing."""
        nothing = getattr(Subscriber, stage)
        return [getattr(each, stage) for each in self._subscribers if getattr(type(each), stage) is not nothing]

    def _notify(self, handlers: Handlers, pod: api.Pod, *args: Any) -> None:
        for handler in handlers:
            try:
                handler(*args)
            except Exception as problem:
                self._failed(handler, pod, problem)

    def _stage(self, handlers: Handlers, attempt: Attempt) -> None:
        """Notify them of a stage that most attempts go through."""
        for handler in handlers:
            try:
                handler(attempt)
            except Exception as problem:
                self._failed(handler, attempt.pod, problem)

    def _failed(self, handler: Callable[..., None], pod: api.Pod, problem: Exception) -> None:
        message = "Unexpected error while an attempt was reported"
        self._log(ERROR, message, pod=pod, subscriber=handler.__qualname__, err=problem)

    def skipped(self, pod: api.Pod, profile: str, reason: Skipped) -> None:
        self._notify(self._overriding("skipped"), pod, pod, profile, reason)

    def waiting(self, attempt: Attempt) -> None:
        self._notify(self._overriding("waiting"), attempt.pod, attempt)

    def failed(self, attempt: Attempt) -> None:
        self._notify(self._overriding("failed"), attempt.pod, attempt)

    def requeued(self, attempt: Attempt, pod: api.Pod) -> None:
        self._notify(self._overriding("requeued"), pod, attempt, pod)

    def dropped(self, attempt: Attempt, reason: Dropped, known: api.Pod | None) -> None:
        self._notify(self._overriding("dropped"), attempt.pod, attempt, reason, known)

    def finished(self, attempt: Attempt) -> None:
        self._stage(self._finished, attempt)
        attempt.close()
