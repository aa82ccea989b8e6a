"""A queue on a manual clock, with its log and metrics recorded."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tests.builders import node, pod

from kubesched.api import objects as api
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.base.log import ERROR
from kubesched.cluster.state import ClusterState
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.status import Status, unresolvable
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.queue.gates import PreEnqueue
from kubesched.queue.hooks import Subqueue
from kubesched.queue.ordering import queue_order
from kubesched.queue.pods import QueuedPodInfo
from kubesched.queue.registrations import EventMap
from kubesched.queue.scheduling_queue import SchedulingQueue

PROFILE = api.DEFAULT_SCHEDULER_NAME
ON_NODE_ADD = (on(Resource.NODE, Action.ADD),)


class Clock:
    """A clock that only advances on request."""

    def __init__(self, time: float = 100.0) -> None:
        self.time = time

    def monotonic(self) -> float:
        return self.time

    def now(self) -> float:
        return self.time

    async def sleep(self, seconds: float) -> None:
        self.time += seconds


class Messages(list[tuple[int, str, dict[str, object]]]):
    """A log that keeps its messages."""

    verbosity = 10

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        self.append((level, message, fields))


class Recorder:
    """Metrics as plain counters."""

    def __init__(self) -> None:
        self.incomings: Counter[tuple[str, str]] = Counter()
        self.pendings: Counter[str] = Counter()
        self.in_flights: Counter[str] = Counter()
        self.reasons: Counter[tuple[str, str]] = Counter()
        self.hints: list[tuple[str, str, str, float]] = []

    def incoming(self, queue: str, event: str) -> None:
        self.incomings[queue, event] += 1

    def pending(self, queue: str, change: int) -> None:
        self.pendings[queue] += change

    def in_flight(self, event: str, change: int) -> None:
        self.in_flights[event] += change

    def hint(self, plugin: str, event: str, outcome: str, seconds: float) -> None:
        self.hints.append((plugin, event, outcome, seconds))

    def unschedulable(self, plugin: str, profile: str, change: int) -> None:
        self.reasons[plugin, profile] += change


def make_pod(name: str, *, uid: str = "", tolerations: int = 0, **fields: Any) -> api.Pod:
    """A pod with this many tolerations; its UID is its name unless one is given."""
    return pod(name, uid=uid or name, tolerations=[f"key-{number}" for number in range(tolerations)], **fields)


def make_node(name: str = "node", **labels: str) -> api.Node:
    """A node with these labels."""
    return node(name, labels=labels)


class Rig:
    """A queue with all its collaborators, for tests to use and inspect."""

    def __init__(
        self,
        registrations: Mapping[str, Sequence[EventHint]] | None = None,
        pre_enqueue: PreEnqueue | None = None,
        *,
        sort: object | None = None,
        initial_backoff: float = 1.0,
        max_backoff: float = 10.0,
        features: Features = DEFAULT_FEATURES,
        on_ready: Callable[[], None] | None = None,
    ) -> None:
        self.clock = Clock()
        self.cluster = ClusterState(features)
        self.metrics = Recorder()
        self.messages = self.log = Messages()
        self.wakeups = 0
        self.queue = SchedulingQueue(
            self.cluster,
            self.clock,
            queue_order(sort or PrioritySort(None, None), self.log),  # type: ignore[arg-type]  # it needs no handle
            EventMap({PROFILE: registrations or {}}),
            {} if pre_enqueue is None else {PROFILE: pre_enqueue},
            initial_backoff=initial_backoff,
            max_backoff=max_backoff,
            metrics=self.metrics,
            log=self.log,
            on_ready=on_ready or self.wake,
        )

    def wake(self) -> None:
        self.wakeups += 1

    def pop(self) -> QueuedPodInfo:
        """The next pod; there must be one."""
        queued = self.queue.pop()
        assert queued is not None
        return queued

    def pop_names(self) -> list[str]:
        """The names of all pods that can be popped, in order."""
        names = []
        while (queued := self.queue.pop()) is not None:
            names.append(queued.pod.name)
        return names

    def fail(self, queued: QueuedPodInfo, *plugins: str, pending: Iterable[str] = ()) -> Subqueue | None:
        """End an attempt: rejected by these plugins, or failed with an error if there are none."""
        queued.rejected_by(plugins, pending)
        return self.queue.add_unschedulable_if_not_present(queued)

    def reject(self, pod: api.Pod, *plugins: str, pending: Iterable[str] = ()) -> QueuedPodInfo:
        """Add a pod to an otherwise idle queue and reject its first attempt."""
        self.queue.add(pod)
        queued = self.pop()
        assert queued.pod.uid == pod.uid
        self.fail(queued, *plugins, pending=pending)
        return queued

    def subqueue(self, pod: api.Pod | str) -> Subqueue | None:
        return self.queue.subqueue_of(pod if isinstance(pod, str) else pod.uid)

    def errors(self) -> list[str]:
        return [message for level, message, _ in self.messages if level == ERROR]


def closed_gate(pod: api.Pod) -> Status | None:
    """PreEnqueue of a plugin `Gate` that admits pods without scheduling gates."""
    return unresolvable("gated").by("Gate") if pod.spec.scheduling_gates else None
