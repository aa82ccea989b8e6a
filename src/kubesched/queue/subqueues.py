"""The subqueues in which pods wait, and the moves between them.

A waiting pod is in exactly one subqueue. PreEnqueue runs whenever a pod is about to become active or to back off, since
it may be popped from either. A pod that PreEnqueue rejects becomes unschedulable.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.framework.events import BACKOFF_COMPLETE, POP_FROM_BACKOFF
from kubesched.queue.backoff import BackoffQueue
from kubesched.queue.gates import Gates
from kubesched.queue.heap import PodHeap
from kubesched.queue.hints import Strategy
from kubesched.queue.hooks import QueueMetrics, Subqueue
from kubesched.queue.ordering import Order
from kubesched.queue.pods import QueuedPodInfo
from kubesched.queue.unschedulable import UnschedulablePods

MOVED = "Pod moved to an internal scheduling queue"
ACTIVE = Subqueue.ACTIVE  # slow to look up for each pod


def _nothing() -> None:
    pass


class Subqueues:
    """Active, backoff and unschedulable pods."""

    def __init__(
        self,
        clock: Clock,
        order: Order,
        gates: Gates,
        backoff: BackoffQueue,
        unschedulable: UnschedulablePods,
        metrics: QueueMetrics,
        log: Log,
    ) -> None:
        self.on_waiting: Callable[[], None] = _nothing
        """Called when a pod begins to wait for time to pass: it backs off or is unschedulable."""
        self.active = PodHeap(order)
        self.backoff = backoff
        self.unschedulable = unschedulable
        self._places = [heap.live for heap in (self.active, *backoff.heaps, unschedulable.heap)]
        """Where a waiting pod can be: looked through for every pod, mostly for one that is nowhere."""
        self._clock = clock
        self._gates = gates
        self._metrics = metrics
        self._log = log

    def __len__(self) -> int:
        return len(self.active) + len(self.backoff) + len(self.unschedulable)

    def get(self, uid: str) -> QueuedPodInfo | None:
        """A waiting pod."""
        for place in self._places:
            if uid in place:
                return place[uid][2]
        return None

    def subqueue_of(self, uid: str) -> Subqueue | None:
        """Where a pod waits."""
        if uid in self.active:
            return Subqueue.ACTIVE
        if uid in self.backoff:
            return Subqueue.BACKOFF
        return Subqueue.UNSCHEDULABLE if uid in self.unschedulable else None

    def requeue(self, queued: QueuedPodInfo, strategy: Strategy, event: str) -> Subqueue:
        """Move a pod to the right subqueue after an event or an attempt."""
        if strategy is Strategy.SKIP:
            self._put_unschedulable(queued, event)
            return Subqueue.UNSCHEDULABLE
        if strategy is Strategy.AFTER_BACKOFF and self.backoff.is_backing_off(queued):
            return Subqueue.BACKOFF if self._to_backoff(queued, event) else Subqueue.UNSCHEDULABLE
        return Subqueue.ACTIVE if self.to_active(queued, event) else Subqueue.UNSCHEDULABLE

    def to_active(self, queued: QueuedPodInfo, event: str) -> bool:
        """Make a pod active, unless PreEnqueue rejects it."""
        if not self._passes(queued, event):
            return False
        self.unschedulable.remove(queued.info.pod.metadata.uid)
        self._put_active(queued, event)
        return True

    def from_backoff(self, uid: str, event: str) -> bool:
        """Make a pod active before its backoff has passed."""
        queued = self.backoff.get(uid)
        if queued is None or not (self.backoff.pops_early or self._gates.let_through(queued)):
            return False
        self._out_of_backoff(uid)
        self._put_active(queued, event)
        return True

    def after_backoff(self) -> bool:
        """Activate the pods whose backoff has passed; False if there are none."""
        completed = self.backoff.pop_completed()
        for queued in completed:
            self._metrics.pending("backoff", -1)
            if self.backoff.pops_early:
                self._put_active(queued, BACKOFF_COMPLETE)
            else:
                self.to_active(queued, BACKOFF_COMPLETE)
        return bool(completed)

    def pop(self) -> QueuedPodInfo | None:
        """Pop the first active pod. If there is none, pop the first backing-off pod that plugins rejected."""
        queued = self._pop_active() or self._pop_backoff()
        if queued is not None:
            self.count_rejectors(queued, -1)
        return queued

    def take_active(self, uid: str) -> QueuedPodInfo | None:
        """This very pod, if it is active."""
        queued = self._out_of_active(uid)
        if queued is not None:
            self.count_rejectors(queued, -1)
        return queued

    def reorder(self, queued: QueuedPodInfo) -> None:
        """Reorder an active or backing-off pod that was updated."""
        if queued.uid in self.active:
            self.active.put(queued)
        else:
            self.backoff.reorder(queued)

    def take_out(self, uid: str) -> None:
        """Remove a pod from wherever it is."""
        if self.get(uid) is None:
            return
        queued = self._out_of_active(uid) or self._out_of_backoff(uid) or self.unschedulable.remove(uid)
        assert queued is not None
        self.count_rejectors(queued, -1)

    def count_rejectors(self, queued: QueuedPodInfo, change: int) -> None:
        """Update the number of pods that wait because of these plugins."""
        if not queued.unschedulable_plugins and not queued.pending_plugins:
            return
        for plugin in queued.rejectors:
            self._metrics.unschedulable(plugin, queued.profile, change)

    def _pop_active(self) -> QueuedPodInfo | None:
        queued = self.active.pop()
        if queued is not None:
            self._metrics.pending("active", -1)
        return queued

    def _pop_backoff(self) -> QueuedPodInfo | None:
        queued = self.backoff.pop_early()
        if queued is not None:
            self._metrics.pending("backoff", -1)
            self._metrics.incoming("active", POP_FROM_BACKOFF)
        return queued

    def _to_backoff(self, queued: QueuedPodInfo, event: str) -> bool:
        """If pods may be popped from here, PreEnqueue runs now; otherwise when they become active."""
        if self.backoff.pops_early and not self._passes(queued, event):
            return False
        self.unschedulable.remove(queued.uid)
        self.backoff.put(queued)
        self._note_arrival(queued, Subqueue.BACKOFF, event)
        self.on_waiting()
        return True

    def _put_unschedulable(self, queued: QueuedPodInfo, event: str) -> None:
        self.unschedulable.put(queued, event)
        self.on_waiting()

    def _put_active(self, queued: QueuedPodInfo, event: str) -> None:
        if queued.initial_attempt_timestamp is None:
            queued.initial_attempt_timestamp = self._clock.monotonic()
        self.active.put(queued)
        self._note_arrival(queued, ACTIVE, event)

    def _passes(self, queued: QueuedPodInfo, event: str) -> bool:
        if self._gates.let_through(queued):
            return True
        if queued.uid not in self.unschedulable:
            message = "Pod moved to an internal scheduling queue, because the pod is gated"
            self._log(5, message, pod=queued.pod, event=event, queue=Subqueue.UNSCHEDULABLE.value)
        self._put_unschedulable(queued, event)
        return False

    def _out_of_active(self, uid: str) -> QueuedPodInfo | None:
        queued = self.active.remove(uid)
        if queued is not None:
            self._metrics.pending("active", -1)
        return queued

    def _out_of_backoff(self, uid: str) -> QueuedPodInfo | None:
        queued = self.backoff.remove(uid)
        if queued is not None:
            self._metrics.pending("backoff", -1)
        return queued

    def _note_arrival(self, queued: QueuedPodInfo, subqueue: Subqueue, event: str) -> None:
        name = "active" if subqueue is ACTIVE else "backoff"
        self._metrics.incoming(name, event)
        self._metrics.pending(name, 1)
        if self._log.verbosity >= 5:
            self._log(5, MOVED, pod=queued.pod, event=event, queue=subqueue.value)
