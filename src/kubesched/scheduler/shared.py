"""What the parts of a scheduler share."""

from __future__ import annotations

from dataclasses import dataclass, field

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.client.protocol import Client
from kubesched.cluster.state import ClusterState
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.inbox import Inbox
from kubesched.scheduler.ports import EventSink, MetricsSink
from kubesched.scheduler.tasks import Tasks
from kubesched.scheduler.turns import FreeTurns, Turns
from kubesched.scheduler.waiting import PreBinding, WaitingPods


@dataclass(slots=True)
class Shared:
    """The state and the services that cycles, bindings and event handlers work with."""

    cluster: ClusterState
    queue: SchedulingQueue
    client: Client
    clock: Clock
    log: Log
    recorder: EventSink
    metrics: MetricsSink
    inbox: Inbox
    tasks: Tasks
    waiting: WaitingPods
    turns: Turns = field(default_factory=FreeTurns)
    pods: dict[str, api.Pod] = field(default_factory=dict)
    """Every pod that has not ended, by key, as last reported by the watch."""
    pre_binding: dict[str, PreBinding] = field(default_factory=dict)
    """Pods whose PreBind plugins are running, by UID."""

    def newest(self, pod: api.Pod) -> api.Pod | None:
        """The newest state of this pod; None if it is gone or was recreated."""
        known = self.pods.get(pod.key)
        return known if known is not None and known.uid == pod.uid else None
