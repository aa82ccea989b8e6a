"""A pod of the queue, and the history of its attempts."""

from __future__ import annotations

from collections.abc import Iterable
from math import inf

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo


class QueuedPodInfo:
    """One pod from its arrival until it is bound or gone: the same record through all queues and attempts.

    Times are the queue's clock's, which is monotonic.
    """

    __slots__ = (
        "attempts",
        "backoff_expiration",
        "consecutive_errors_count",
        "flush_timestamp",
        "gating_plugin",
        "in_group",
        "info",
        "initial_attempt_timestamp",
        "pending_plugins",
        "timestamp",
        "unschedulable_count",
        "unschedulable_plugins",
        "was_flushed",
    )

    def __init__(self, info: PodInfo, timestamp: float, *, in_group: bool = False) -> None:
        self.info = info
        self.in_group = in_group
        """Whether the pod is scheduled together with the rest of its pod group."""
        self.timestamp = timestamp
        """When the pod entered the queue: the first time, or after its last attempt."""
        self.initial_attempt_timestamp: float | None = None
        """When the pod first became active; time behind a gate does not count as scheduling it."""
        self.attempts = 0
        self.unschedulable_count = 0
        """Attempts that plugins rejected. The backoff grows with it."""
        self.consecutive_errors_count = 0
        """Consecutive attempts that failed with an error. They have a count of their own, so that errors of the API
        server do not lengthen later backoffs."""
        self.backoff_expiration: float | None = None
        """Start of the second in which the backoff ends; None until it is first needed."""
        self.unschedulable_plugins: set[str] = set()
        self.pending_plugins: set[str] = set()
        """Plugins that only wait for something. When it comes, the pod skips its backoff."""
        self.gating_plugin = ""
        """The PreEnqueue plugin that keeps the pod out of the active queue."""
        self.was_flushed = False
        """Whether the pod was requeued because it had waited too long, not because of an event."""
        self.flush_timestamp = -inf

    @property
    def pod(self) -> api.Pod:
        return self.info.pod

    @property
    def uid(self) -> str:
        return self.info.pod.metadata.uid

    @property
    def profile(self) -> str:
        return self.info.pod.scheduler_name

    @property
    def gated(self) -> bool:
        return self.gating_plugin != ""

    @property
    def rejectors(self) -> set[str]:
        """All plugins that rejected the pod or wait for something."""
        return self.unschedulable_plugins | self.pending_plugins

    def rejected_by(self, unschedulable: Iterable[str] = (), pending: Iterable[str] = ()) -> None:
        """Record the plugins that rejected the attempt that just ended; none if it failed with an error."""
        self.unschedulable_plugins = set(unschedulable)
        self.pending_plugins = set(pending)
        self.gating_plugin = ""

    def failed(self, now: float) -> None:
        """Record the end of an attempt, after `rejected_by`. The backoff starts now."""
        if self.rejectors:
            self.unschedulable_count += 1
            self.consecutive_errors_count = 0
        else:
            self.consecutive_errors_count += 1
        self.timestamp = now
        self.backoff_expiration = None
        self.was_flushed = False
        self.flush_timestamp = -inf

    def __repr__(self) -> str:
        return f"QueuedPodInfo({self.pod.key}, attempts={self.attempts})"
