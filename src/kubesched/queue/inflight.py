"""Pods being scheduled or bound, and what happened meanwhile.

A pod that is turned down after the very event that would have helped it has been seen must not wait for the next one.
So while any pod is in flight, events are kept; a pod that comes back looks through those that came after it left.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator
from typing import NamedTuple

from kubesched.api import objects as api
from kubesched.framework.events import ClusterEvent
from kubesched.queue.hooks import QueueMetrics

POD_POPPED = "PodPopped"


class ObservedEvent(NamedTuple):
    """An event, with the object before and after."""

    event: ClusterEvent
    old: api.Object | None
    new: api.Object | None


class Flight:
    """One pod in flight."""

    __slots__ = ("gone", "own", "pod", "start", "updated")

    def __init__(self, pod: api.Pod, start: int) -> None:
        self.pod = pod
        """Its newest state."""
        self.updated = False
        """Whether that is news to whoever schedules it."""
        self.start = start
        """The number of the first event that came after it left."""
        self.own: list[ObservedEvent] = []
        """Events that concern only this pod."""
        self.gone = False
        """Whether it was deleted, or bound by somebody else."""


class InFlight:
    """Pods in flight in the order they left, and the events since the first of them did."""

    LIMIT = 10_000
    """Events kept. A pod that waits on Permit for minutes would make them pile up in a busy cluster, and its return
    take seconds. Who has missed some is tried again, as if one of them had helped."""

    def __init__(self, metrics: QueueMetrics) -> None:
        self._metrics = metrics
        self._flights: OrderedDict[str, Flight] = OrderedDict()
        self._events: list[ObservedEvent] = []
        self._base = 0
        """The number of the first event kept."""

    def __len__(self) -> int:
        return len(self._flights)

    def __contains__(self, uid: str) -> bool:
        return uid in self._flights

    def __iter__(self) -> Iterator[Flight]:
        return iter(self._flights.values())

    @property
    def event_count(self) -> int:
        return len(self._events)

    def get(self, uid: str) -> Flight | None:
        return self._flights.get(uid)

    def start(self, pod: api.Pod) -> None:
        """A pod leaves the queue."""
        self._flights[pod.uid] = Flight(pod, self._base + len(self._events))
        self._metrics.in_flight(POD_POPPED, 1)

    def finish(self, uid: str) -> None:
        """A pod is back in the queue, or through; events that only it could have asked about are dropped."""
        flight = self._flights.pop(uid, None)
        if flight is None:
            return
        self._metrics.in_flight(POD_POPPED, -1)
        self._count(flight.own, -1)
        self._trim()

    def record(self, observed: ObservedEvent) -> bool:
        """Keep an event, if any pod is in flight."""
        if not self._flights:
            return False
        self._events.append(observed)
        self._metrics.in_flight(observed.event.label, 1)
        if len(self._events) > self.LIMIT:
            self._drop(self.LIMIT // 2)
        return True

    def record_for(self, flight: Flight, observed: ObservedEvent) -> None:
        """Keep an event that concerns one pod in flight."""
        flight.own.append(observed)
        self._metrics.in_flight(observed.event.label, 1)

    def events_of(self, flight: Flight) -> list[ObservedEvent] | None:
        """What has happened since a pod left; None if that was too long ago to tell."""
        if flight.start < self._base:
            return None
        return flight.own + self._events[flight.start - self._base :]

    def _trim(self) -> None:
        oldest = next(iter(self._flights.values()), None)
        if oldest is None:
            self._drop(len(self._events))
        elif (unused := oldest.start - self._base) > len(self._events) // 2:
            # Dropping from a list's head moves the rest, which pays once that is less than what goes.
            self._drop(unused)

    def _drop(self, number: int) -> None:
        self._count(self._events[:number], -1)
        del self._events[:number]
        self._base += number

    def _count(self, events: list[ObservedEvent], sign: int) -> None:
        for label, number in Counter(observed.event.label for observed in events).items():
            self._metrics.in_flight(label, sign * number)
