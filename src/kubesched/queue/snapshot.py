"""All pods of the queue at one moment, for debugging."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from kubesched.api import objects as api
from kubesched.queue.inflight import Flight
from kubesched.queue.pods import QueuedPodInfo


@dataclass(frozen=True, slots=True)
class PodLists:
    """Pods by where they are."""

    active: list[api.Pod]
    backoff: list[api.Pod]
    unschedulable: list[api.Pod]
    gated: list[api.Pod]
    in_flight: list[api.Pod]

    @classmethod
    def of(
        cls,
        active: Iterable[QueuedPodInfo],
        backoff: Iterable[QueuedPodInfo],
        unschedulable: Iterable[QueuedPodInfo],
        in_flight: Iterable[Flight],
    ) -> PodLists:
        """List the pods of each subqueue, with gated pods apart from other unschedulable ones."""
        waiting = list(unschedulable)
        return cls(
            [queued.pod for queued in active],
            [queued.pod for queued in backoff],
            [queued.pod for queued in waiting if not queued.gated],
            [queued.pod for queued in waiting if queued.gated],
            [flight.pod for flight in in_flight],
        )

    def pending(self) -> tuple[list[api.Pod], str]:
        """All that wait, and how many where, as kube-scheduler's dump words it."""
        unschedulable = self.unschedulable + self.gated
        summary = f"activeQ:{len(self.active)}; backoffQ:{len(self.backoff)}; unschedulablePods:{len(unschedulable)}"
        return self.active + self.backoff + unschedulable, summary


class WakeUp(NamedTuple):
    """An event that moved a pod out of the unschedulable ones."""

    time: float
    """By the queue's clock."""
    pod: str
    event: str
    queue: str
    """Where it went: Active or Backoff."""


@dataclass(frozen=True, slots=True)
class WaitingState:
    """One pod of the queue: where it is, and what it waits for. Times are those of the queue's clock."""

    pod: api.Pod
    place: str
    """Active, Backoff, Unschedulable, Gated or InFlight."""
    position: int | None = None
    """Its turn among the active pods: 0 is next. Not known for other pods."""
    attempts: int = 0
    since: float | None = None
    """When it came into the queue, or was put back after its last attempt."""
    backoff_until: float | None = None
    retried_at: float | None = None
    """When it is tried again even if nothing happens."""
    unschedulable_plugins: tuple[str, ...] = ()
    pending_plugins: tuple[str, ...] = ()
    gating_plugin: str = ""
