"""Pods that must wait before they are retried.

Upstream counts backoff in whole seconds: pods whose backoff ends within the same second leave together, in the order
of the active queue, once that second is over. The same is done here, on the clock the queue is given.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import floor, inf

from kubesched.base.clock import Clock
from kubesched.queue.heap import PodHeap
from kubesched.queue.ordering import Order
from kubesched.queue.pods import QueuedPodInfo

_NEVER_BEGAN = -inf
_MOST_DOUBLINGS = 62


class BackoffQueue:
    """Two heaps. Pods that plugins rejected may be popped early when no pod is active. Pods whose attempt failed with
    an error may not: an overloaded API server must not get more calls."""

    def __init__(self, clock: Clock, order: Order, *, initial: float, longest: float, pops_early: bool = True) -> None:
        self.pops_early = pops_early
        """The feature gate SchedulerPopFromBackoffQ. Without it pods wait for the exact end of their backoff."""
        self._clock = clock
        self._initial = initial
        self._longest = longest
        by_second = lambda queued: (self.expiration(queued), order(queued))  # noqa: E731
        self._rejected = PodHeap(by_second if pops_early else self.expiration)
        self._failed = PodHeap(self.expiration)

    @property
    def heaps(self) -> tuple[PodHeap, PodHeap]:
        """What the pods are in."""
        return self._rejected, self._failed

    def __len__(self) -> int:
        return len(self._rejected) + len(self._failed)

    def __contains__(self, uid: str) -> bool:
        return uid in self._rejected or uid in self._failed

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        yield from self._rejected
        yield from self._failed

    @property
    def has_early(self) -> bool:
        """Whether a pod may be popped before its backoff has passed."""
        return self.pops_early and len(self._rejected) > 0

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self._rejected.get(uid) or self._failed.get(uid)

    def put(self, queued: QueuedPodInfo) -> None:
        """Add a pod; which heap depends on how its attempt ended. No event brings back a pod of a group, so it waits
        for the end of its backoff: an idle scheduler would try it again and again."""
        (self._rejected if queued.rejectors and not queued.in_group else self._failed).put(queued)

    def reorder(self, queued: QueuedPodInfo) -> None:
        """Reorder a pod after an update."""
        (self._rejected if queued.uid in self._rejected else self._failed).put(queued)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        return self._rejected.remove(uid) or self._failed.remove(uid)

    def pop_early(self) -> QueuedPodInfo | None:
        """Pop the pod whose backoff ends first, of those that plugins rejected."""
        return self._rejected.pop() if self.pops_early else None

    def pop_completed(self) -> list[QueuedPodInfo]:
        """Pop all pods whose backoff has passed."""
        completed = []
        for heap in (self._rejected, self._failed):
            while (queued := heap.first()) is not None and not self.is_backing_off(queued):
                heap.pop()
                completed.append(queued)
        return completed

    def is_backing_off(self, queued: QueuedPodInfo) -> bool:
        """Whether a pod is still backing off. It is until the end of the second in which its backoff ends."""
        return self.expiration(queued) >= self._aligned(self._clock.monotonic())

    def until(self, queued: QueuedPodInfo) -> float | None:
        """When a pod's backoff is over; None if it has none, or if it is over."""
        if not self.is_backing_off(queued):
            return None
        return self.expiration(queued) + (1 if self.pops_early else 0)

    def expiration(self, queued: QueuedPodInfo) -> float:
        """The second in which a pod's backoff ends; a pod that never failed has none."""
        failures = queued.consecutive_errors_count or queued.unschedulable_count
        if not failures or not self._longest:
            return _NEVER_BEGAN
        if queued.backoff_expiration is None:
            queued.backoff_expiration = self._aligned(queued.timestamp + self.duration(failures))
        return queued.backoff_expiration

    def _aligned(self, time: float) -> float:
        return floor(time) if self.pops_early else time

    def duration(self, failures: int) -> float:
        """Seconds of backoff after that many failures: twice as long each time, up to a limit."""
        doublings = min(failures - 1, _MOST_DOUBLINGS)
        return min(self._initial * 2.0**doublings, self._longest)
