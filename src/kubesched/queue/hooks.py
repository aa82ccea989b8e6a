"""The metrics interface of the queue. By default nothing is counted."""

from __future__ import annotations

from enum import Enum
from typing import Protocol


class Subqueue(Enum):
    """The subqueue of a waiting pod; the values are the names in logs."""

    ACTIVE = "Active"
    BACKOFF = "Backoff"
    UNSCHEDULABLE = "Unschedulable"


class QueueMetrics(Protocol):
    """Receives everything that kube-scheduler's queue metrics count."""

    def incoming(self, queue: str, event: str) -> None:
        """A pod came into a queue ("active", "backoff", "unschedulable") because of an event."""
        ...

    def pending(self, queue: str, change: int) -> None:
        """The number of pods in a queue changed; "gated" is a queue of its own here."""
        ...

    def in_flight(self, event: str, change: int) -> None:
        """Events kept for the sake of pods in flight; a pod in flight counts as "PodPopped"."""
        ...

    def hint(self, plugin: str, event: str, outcome: str, seconds: float) -> None:
        """A hint function answered "Queue" or "QueueSkip", or failed: "Error"."""
        ...

    def unschedulable(self, plugin: str, profile: str, change: int) -> None:
        """The number of pods that wait because of a plugin changed."""
        ...


class NoMetrics:
    """Counts nothing."""

    def incoming(self, queue: str, event: str) -> None: ...
    def pending(self, queue: str, change: int) -> None: ...
    def in_flight(self, event: str, change: int) -> None: ...
    def hint(self, plugin: str, event: str, outcome: str, seconds: float) -> None: ...
    def unschedulable(self, plugin: str, profile: str, change: int) -> None: ...
