"""The scheduling queue: every pod that waits, from its arrival until it is bound or gone.

A pod is in exactly one place: active (waiting for its turn), backoff (waiting for time to pass), unschedulable (waiting
for an event; gated pods too), or in flight (being scheduled or bound). Everything here is a change of place:

    add, update ───► active ──pop──► in flight ──done──► out
                       ▲ ▲               │
        flush_backoff  │ │ move_all      │ add_unschedulable_if_not_present
                       │ │               ▼
                    backoff ◄──── unschedulable ◄─── PreEnqueue says no, at any of these

The caller runs `flush_backoff` and `flush_unschedulable` periodically while pods wait for them (`follow_waiting`), and
waits for `on_ready` when `pop` returns None.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import chain, islice

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import ERROR, SILENT, Log
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    SCHEDULE_ATTEMPT_FAILURE,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    ClusterEvent,
)
from kubesched.queue.backoff import BackoffQueue
from kubesched.queue.changes import pod_changes
from kubesched.queue.gates import Gates, PreEnqueue
from kubesched.queue.hints import EventEvaluation, HintRunner, Strategy
from kubesched.queue.hooks import NoMetrics, QueueMetrics, Subqueue
from kubesched.queue.inflight import Flight, InFlight, ObservedEvent
from kubesched.queue.nominator import Nominator
from kubesched.queue.ordering import Order
from kubesched.queue.pods import QueuedPodInfo
from kubesched.queue.registrations import EventMap
from kubesched.queue.snapshot import PodLists, WaitingState, WakeUp
from kubesched.queue.subqueues import MOVED, Subqueues
from kubesched.queue.unschedulable import UnschedulablePods


class SchedulingQueue:
    """Pods waiting to be scheduled, by the profiles' QueueSort, PreEnqueue and queueing hints."""

    def __init__(
        self,
        cluster: ClusterState,
        clock: Clock,
        order: Order,
        events: EventMap,
        pre_enqueue: Mapping[str, PreEnqueue],
        *,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        max_in_unschedulable: float = 300.0,
        metrics: QueueMetrics | None = None,
        log: Log = SILENT,
        on_ready: Callable[[], None] = lambda: None,
    ) -> None:
        """`on_ready` is called whenever `pop` may return a pod."""
        self._on_ready = on_ready
        self.scheduling_cycle = 0
        """How many pods have been popped."""
        self._classes = cluster.classes
        self._features = cluster.features
        self._clock = clock
        self._log = log
        metrics = NoMetrics() if metrics is None else metrics
        self._hints = HintRunner(events, clock, metrics, log)
        self._unschedulable = UnschedulablePods(metrics, longest=max_in_unschedulable)
        self._subqueues = Subqueues(
            clock,
            order,
            Gates(pre_enqueue, metrics, log),
            BackoffQueue(
                clock,
                order,
                initial=initial_backoff,
                longest=max_backoff,
                pops_early=cluster.features.scheduler_pop_from_backoff_q,
            ),
            self._unschedulable,
            metrics,
            log,
        )
        self.wake_ups: deque[WakeUp] | None = None
        """The newest wake-ups, for those who set it to an empty deque with a limit."""
        self.woken = 0
        """How many pods were woken, while `wake_ups` was set."""
        self._in_flight = InFlight(metrics)
        self._nominator = Nominator(cluster, self._is_waiting)

    # Pods come, change and go

    def add(self, pod: api.Pod) -> None:
        """A pod that wants to be scheduled has appeared."""
        known = self._newest(pod.metadata.uid)
        if known is not None:
            # Delivered twice, for example after a watch broke.
            self.update(known, pod)
            return
        self._enter(pod, UNSCHEDULED_POD_ADD)

    def update(self, old: api.Pod, new: api.Pod) -> None:
        """A pod that is not bound has changed, which may be what it was waiting for."""
        if old.uid != new.uid:
            self.delete(old)
            self.add(new)
            return
        if self.update_in_flight(old, new):
            return
        queued = self.get(new.uid)
        if queued is None:
            self._enter(new, UNSCHEDULED_POD_UPDATE)
            return
        if new.spec.scheduling_gates and not old.spec.scheduling_gates:
            # Only a restored backup closes a gate again. The subqueues do not ask PreEnqueue about pods they have.
            self.delete(old)
            self._enter(new, UNSCHEDULED_POD_UPDATE)
            return
        queued.info = self._classes.info(new)
        self._nominator.update(old, queued.info)
        if queued.uid in self._unschedulable:
            self._update_unschedulable(queued, old, new)
        else:
            self._subqueues.reorder(queued)

    def update_in_flight(self, old: api.Pod, new: api.Pod) -> bool:
        """A pod has changed while it was in flight, which may help it once it is requeued; False if it is not in
        flight."""
        flight = self._in_flight.get(new.uid)
        if flight is None:
            return False
        flight.pod, flight.updated, flight.gone = new, True, False
        for event in pod_changes(old, new, self._features):
            self._in_flight.record_for(flight, ObservedEvent(event, old, new))
        message = (
            "The pod doesn't need to be queued for now because it's being scheduled and will be queued back if "
            "necessary"
        )
        self._log(6, message, pod=new)
        return True

    def delete(self, pod: api.Pod) -> None:
        """A pod was deleted, or bound by another scheduler. If it is in flight, it will not be requeued."""
        uid = pod.metadata.uid
        self._nominator.remove(uid)
        flight = self._in_flight.get(uid)
        if flight is not None:
            flight.gone = True
        self._subqueues.take_out(uid)

    def _enter(self, pod: api.Pod, event: ClusterEvent) -> None:
        in_group = self._features.generic_workload and pod.spec.scheduling_group is not None
        queued = QueuedPodInfo(self._classes.info(pod), self._clock.monotonic(), in_group=in_group)
        if self._subqueues.to_active(queued, event.label):
            self._nominator.add(queued.info)
            self._on_ready()

    def _update_unschedulable(self, queued: QueuedPodInfo, old: api.Pod, new: api.Pod) -> None:
        for event in pod_changes(old, new, self._features):
            strategy = self._hints.strategy(queued, ObservedEvent(event, old, new))
            subqueue = self._subqueues.requeue(queued, strategy, event.label)
            if subqueue is not Subqueue.UNSCHEDULABLE:
                message = "Pod moved to an internal scheduling queue because the Pod is updated"
                self._log(5, message, pod=new, event=event.label, queue=subqueue.value)
                self._note_wake_up(queued, event.label, subqueue)
                self._on_ready()
                return

    # Attempts

    def pop(self) -> QueuedPodInfo | None:
        """Return the next pod to schedule and mark it as in flight; None if there is none."""
        while (queued := self._subqueues.pop()) is not None:
            if self._depart(queued):
                return queued
        return None

    def pop_pod(self, uid: str) -> QueuedPodInfo | None:
        """This very pod, from now on in flight; None if it does not wait, or if PreEnqueue holds it back."""
        if uid in self._in_flight:
            return None
        self._activate(uid)
        queued = self._subqueues.take_active(uid)
        return queued if queued is not None and self._depart(queued) else None

    def _depart(self, queued: QueuedPodInfo) -> bool:
        pod = queued.info.pod
        if self._in_flight.get(pod.metadata.uid) is not None:
            self._log(ERROR, "Discarding the popped pod", pod=pod)
            return False
        queued.attempts += 1
        self.scheduling_cycle += 1
        self._in_flight.start(pod)
        return True

    def done(self, uid: str) -> None:
        """A popped pod is finished and will not be requeued."""
        self._in_flight.finish(uid)

    def add_unschedulable_if_not_present(self, queued: QueuedPodInfo) -> Subqueue | None:
        """Requeue a popped pod whose attempt has failed; returns the subqueue that it is in now.

        The caller must have called `queued.rejected_by`. Without rejecting plugins the failure was an error, and the
        pod is retried soon. Returns None if the pod was deleted or bound meanwhile, or is in the queue already.
        """
        flight = self._in_flight.get(queued.uid)
        try:
            return self._take_back(queued, flight)
        finally:
            self.done(queued.uid)

    def activate(self, pods: Iterable[api.Pod]) -> None:
        """Schedule these pods as soon as possible, whatever they wait for; a pod in flight, once it is requeued."""
        activated = False
        for pod in pods:
            flight = self._in_flight.get(pod.uid)
            if flight is not None:
                self._in_flight.record_for(flight, ObservedEvent(FORCE_ACTIVATE, None, pod))
                continue
            activated |= self._activate(pod.uid)
        if activated:
            self._on_ready()

    def ungate(self, uid: str) -> None:
        """PreEnqueue would let this pod pass now. It stays where it is, and events that its rejectors wait for can
        move it again."""
        queued = self._unschedulable.get(uid)
        if queued is not None and queued.gated:
            queued.gating_plugin = ""
            self._unschedulable.put(queued, FORCE_ACTIVATE.label)

    def _take_back(self, queued: QueuedPodInfo, flight: Flight | None) -> Subqueue | None:
        if self.get(queued.uid) is not None:
            self._log(ERROR, "Pod is already present in the scheduling queue", pod=queued.pod)
            return None
        if flight is not None and flight.gone:
            return None
        if flight is not None and flight.updated:
            queued.info = self._classes.info(flight.pod)
        queued.failed(self._clock.monotonic())
        self._subqueues.count_rejectors(queued, 1)
        strategy = self._strategy_after_flight(queued, flight)
        subqueue = self._subqueues.requeue(queued, strategy, SCHEDULE_ATTEMPT_FAILURE)
        self._log(
            3,
            MOVED,
            pod=queued.pod,
            event=SCHEDULE_ATTEMPT_FAILURE,
            queue=subqueue.value,
            schedulingCycle=self.scheduling_cycle,
            hint=int(strategy),
            **{"unschedulable plugins": queued.rejectors},
        )
        if subqueue is not Subqueue.UNSCHEDULABLE:
            self._on_ready()
        return subqueue

    def _strategy_after_flight(self, queued: QueuedPodInfo, flight: Flight | None) -> Strategy:
        if flight is None:
            return Strategy.AFTER_BACKOFF
        self._log(
            5,
            "Checking events for in-flight pod",
            pod=queued.pod,
            unschedulablePlugins=queued.unschedulable_plugins,
            inFlightEventsSize=self._in_flight.event_count,
            inFlightPodsSize=len(self._in_flight),
        )
        if not queued.rejectors or queued.in_group:
            return Strategy.AFTER_BACKOFF
        events = self._in_flight.events_of(flight)
        return Strategy.AFTER_BACKOFF if events is None else self._hints.strategy(queued, *events, in_flight=True)

    def _activate(self, uid: str) -> bool:
        queued = self._unschedulable.get(uid)
        if queued is not None:
            return self._subqueues.to_active(queued, FORCE_ACTIVATE.label)
        return self._subqueues.from_backoff(uid, FORCE_ACTIVATE.label)

    # Events

    @property
    def awaited_kinds(self) -> set[type[api.Object]]:
        """The kinds that plugins wait for beside those that every scheduler watches."""
        return self._hints.events.kinds()

    def move_all(
        self,
        event: ClusterEvent,
        old: api.Object | None,
        new: api.Object | None,
        *,
        check: Callable[[api.Pod], bool] | None = None,
    ) -> None:
        """Handle a cluster event: requeue the pods that it may help, of those that `check` accepts."""
        listeners = self._hints.events.listeners(event)
        if not listeners and not event.is_wildcard:
            self._log(6, "receive an event that isn't interested by any enabled plugins", event=event.label)
            return
        if not self._unschedulable:
            self._keep_for_flights(ObservedEvent(event, old, new))
            return
        evaluation = EventEvaluation(self._hints, ObservedEvent(event, old, new))
        if event.is_wildcard:
            waiting = list(self._unschedulable)
        else:
            waiting = self._unschedulable.listening(listeners, evaluation)
        if check is not None:
            waiting = [queued for queued in waiting if check(queued.pod)]
        if self._log.verbosity >= 5 and not event.is_wildcard:
            self._log_unaffected(waiting, event.label)
        self._move(waiting, evaluation)

    def _log_unaffected(self, waiting: Iterable[QueuedPodInfo], label: str) -> None:
        """Log the pods that the event cannot help. Upstream examines them all; the index has left them out."""
        examined = {queued.uid for queued in waiting}
        for queued in self._unschedulable:
            if queued.uid not in examined and not queued.gated:
                self._log(5, "Event is not making pod schedulable", pod=queued.pod, event=label)

    def assigned_pod_added(self, pod: api.Pod) -> None:
        """A pod has been bound, or a bound pod has appeared."""
        self.move_all(ASSIGNED_POD_ADD, None, pod)

    def assigned_pod_updated(self, old: api.Pod, new: api.Pod) -> list[ClusterEvent]:
        """A bound pod has changed; returns the events that the change consists of."""
        events = pod_changes(old, new, self._features)
        for event in events:
            self.move_all(event, old, new)
        return events

    def assigned_pod_deleted(self, pod: api.Pod) -> None:
        """A bound pod was deleted, or an assumed pod was forgotten."""
        self.move_all(ASSIGNED_POD_DELETE, pod, None)

    def follow_waiting(self, on_waiting: Callable[[], None]) -> None:
        """Call this whenever a pod begins to back off or becomes unschedulable: a flush may be due later."""
        self._subqueues.on_waiting = on_waiting

    @property
    def backing_off(self) -> int:
        """How many pods back off."""
        return len(self._subqueues.backoff)

    @property
    def unschedulable(self) -> int:
        """How many pods wait for an event, gated ones included."""
        return len(self._unschedulable)

    def flush_backoff(self) -> None:
        """Activate the pods whose backoff has passed. Upstream does so at the beginning of each second."""
        if self._subqueues.after_backoff():
            self._on_ready()

    def flush_unschedulable(self) -> None:
        """Requeue the pods that have waited too long for an event. Upstream does so every 30 seconds."""
        now = self._clock.monotonic()
        overdue = self._unschedulable.overdue(now)
        for queued in overdue:
            queued.was_flushed = True
            queued.flush_timestamp = now
        if overdue:
            self._move(overdue, EventEvaluation(self._hints, ObservedEvent(UNSCHEDULABLE_TIMEOUT, None, None)))

    def _move(self, waiting: Iterable[QueuedPodInfo], evaluation: EventEvaluation) -> None:
        label = evaluation.observed.event.label
        ready = False
        for queued in waiting:
            strategy = evaluation.strategy(queued)
            if strategy is Strategy.SKIP:
                self._log(5, "Event is not making pod schedulable", pod=queued.pod, event=label)
                continue
            self._unschedulable.remove(queued.uid)
            subqueue = self._subqueues.requeue(queued, strategy, label)
            if subqueue is not Subqueue.UNSCHEDULABLE:
                ready = True
                self._note_wake_up(queued, label, subqueue)
        self._keep_for_flights(evaluation.observed)
        if ready:
            self._on_ready()

    def _keep_for_flights(self, observed: ObservedEvent) -> None:
        if self._in_flight.record(observed) and self._log.verbosity >= 5:
            self._log(5, "Event received while pods are in flight", event=observed.event.label)

    def _note_wake_up(self, queued: QueuedPodInfo, event: str, subqueue: Subqueue) -> None:
        if self.wake_ups is not None:
            self.woken += 1
            self.wake_ups.append(WakeUp(self._clock.monotonic(), queued.pod.key, event, subqueue.value))

    # Nominated pods

    def nominate(self, info: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod to a node: the one in its status by default; an empty name withdraws the nomination."""
        self._nominator.add(info, node_name)

    # Inspection

    def __len__(self) -> int:
        return len(self._subqueues)

    @property
    def ready(self) -> bool:
        """Whether `pop` would return a pod."""
        return len(self._subqueues.active) > 0 or self._subqueues.backoff.has_early

    def get(self, uid: str) -> QueuedPodInfo | None:
        """A waiting pod; None for a pod in flight."""
        return self._subqueues.get(uid)

    def subqueue_of(self, uid: str) -> Subqueue | None:
        """Where a pod waits."""
        return self._subqueues.subqueue_of(uid)

    def pod_lists(self) -> PodLists:
        """All pods, by where they are."""
        subqueues = self._subqueues
        return PodLists.of(subqueues.active, subqueues.backoff, subqueues.unschedulable, self._in_flight)

    def counts(self) -> dict[str, int]:
        """How many pods are where."""
        subqueues = self._subqueues
        gated = subqueues.unschedulable.gated_count
        return {
            "active": len(subqueues.active),
            "backoff": len(subqueues.backoff),
            "unschedulable": len(subqueues.unschedulable) - gated,
            "gated": gated,
            "inFlight": len(self._in_flight),
        }

    def states(self, limit: int) -> list[WaitingState]:
        """The state of waiting pods, at most so many: in flight, active in their order, backoff, unschedulable."""
        subqueues = self._subqueues
        flights = (WaitingState(flight.pod, "InFlight") for flight in self._in_flight)
        active = (
            self._state(queued, Subqueue.ACTIVE, turn) for turn, queued in enumerate(subqueues.active.first_few(limit))
        )
        backoff = (self._state(queued, Subqueue.BACKOFF) for queued in subqueues.backoff)
        others = (self._state(queued, Subqueue.UNSCHEDULABLE) for queued in subqueues.unschedulable)
        return list(islice(chain(flights, active, backoff, others), limit))

    def state_of(self, uid: str) -> WaitingState | None:
        """The state of one pod; None if it is not here."""
        flight = self._in_flight.get(uid)
        if flight is not None:
            return WaitingState(flight.pod, "InFlight")
        queued, subqueue = self.get(uid), self.subqueue_of(uid)
        if queued is None or subqueue is None:
            return None
        return self._state(queued, subqueue, self._subqueues.active.turn(uid))

    def _state(self, queued: QueuedPodInfo, subqueue: Subqueue, turn: int | None = None) -> WaitingState:
        waits = subqueue is Subqueue.UNSCHEDULABLE
        return WaitingState(
            queued.pod,
            "Gated" if queued.gated else subqueue.value,
            turn if subqueue is Subqueue.ACTIVE else None,
            queued.attempts,
            queued.timestamp,
            self._subqueues.backoff.until(queued),
            self._unschedulable.retried_at(queued) if waits else None,
            tuple(sorted(queued.unschedulable_plugins)),
            tuple(sorted(queued.pending_plugins)),
            queued.gating_plugin,
        )

    def wakes(self, profile: str, plugin: str) -> Sequence[ClusterEvent]:
        """The events that a plugin registered for: what may help a pod that it rejected."""
        return self._hints.events.registered(profile, plugin)

    def pending_pods(self) -> tuple[list[api.Pod], str]:
        """All waiting pods, and a one-line summary of how many are in each subqueue."""
        return self.pod_lists().pending()

    def _newest(self, uid: str) -> api.Pod | None:
        flight = self._in_flight.get(uid)
        if flight is not None:
            return flight.pod
        queued = self.get(uid)
        return None if queued is None else queued.pod

    def _is_waiting(self, uid: str) -> bool:
        flight = self._in_flight.get(uid)
        return not flight.gone if flight is not None else self.get(uid) is not None
