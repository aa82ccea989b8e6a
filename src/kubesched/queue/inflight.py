"""Pods being scheduled or bound, and the events since.

An event that would help a pod may arrive while the pod is still being scheduled, and must not be missed. So events are
kept while any pod is in flight, and a pod that is requeued is checked against the events since it was popped.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Iterator

import msgspec

from kubesched.api import objects as api
from kubesched.framework.events import ClusterEvent
from kubesched.queue.hooks import QueueMetrics

POD_POPPED = "PodPopped"


class ObservedEvent(msgspec.Struct, frozen=True, gc=False):
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
        """Whether it changed after it was popped."""
        self.start = start
        """The number of the first event after it was popped."""
        self.own: list[ObservedEvent] = []
        """Events that concern only this pod."""
        self.gone = False
        """Whether it was deleted, or bound by another scheduler."""


class InFlight:
    """Pods in flight, in the order in which they were popped, and the events since the first of them was."""

    LIMIT = 10_000
    """Events kept. A pod that waits on Permit for minutes would make them pile up in a busy cluster, and its return
    take seconds. A pod that has missed some is retried, as if one of them had helped."""

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
        """A pod was popped."""
        self._flights[pod.metadata.uid] = Flight(pod, self._base + len(self._events))
        self._metrics.in_flight(POD_POPPED, 1)

    def finish(self, uid: str) -> None:
        """A pod was requeued or is finished; events that no other pod needs are dropped."""
        flight = self._flights.pop(uid, None)
        if flight is None:
            return
        self._metrics.in_flight(POD_POPPED, -1)
        if flight.own:
            self._count(flight.own, -1)
        if self._events:
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
        """The events since a pod was popped; None if some of them were dropped."""
        if flight.start < self._base:
            return None
        return flight.own + self._events[flight.start - self._base :]

    def _trim(self) -> None:
        oldest = next(iter(self._flights.values()), None)
        if oldest is None:
            self._drop(len(self._events))
        elif (unused := oldest.start - self._base) > len(self._events) // 2:
            # Deleting from the head of a list moves the rest: do it once the rest is the smaller part.
            self._drop(unused)

    def _drop(self, number: int) -> None:
        self._count(self._events[:number], -1)
        del self._events[:number]
        self._base += number

    def _count(self, events: list[ObservedEvent], sign: int) -> None:
        if len(events) < 2:  # most are none or one
            for observed in events:
                self._metrics.in_flight(observed.event.label, sign)
            return
        for label, number in Counter(observed.event.label for observed in events).items():
            self._metrics.in_flight(label, sign * number)
