"""What the parts of the loop have in common, and the record of one attempt that passes between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.client.protocol import Client
from kubesched.cluster.cluster import Cluster
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.framework.state import CycleState, PodsToActivate
from kubesched.queue.pods import QueuedPodInfo
from kubesched.queue.scheduling_queue import SchedulingQueue
from kubesched.scheduler.evaluations import EvaluationCounter
from kubesched.scheduler.inbox import Inbox
from kubesched.scheduler.points import Points
from kubesched.scheduler.ports import Extender, Metrics, Recorder
from kubesched.scheduler.tasks import Tasks
from kubesched.scheduler.waiting import PreBinding, WaitingPods


@dataclass(slots=True)
class Context:
    """Everything that there is one of."""

    cluster: Cluster
    queue: SchedulingQueue
    client: Client
    clock: Clock
    log: Log
    recorder: Recorder
    metrics: Metrics
    inbox: Inbox
    tasks: Tasks
    waiting: WaitingPods
    extenders: Sequence[Extender] = ()
    pods: dict[str, api.Pod] = field(default_factory=dict)
    """Every pod that has not ended, by key, as last heard of."""
    pre_binding: dict[str, PreBinding] = field(default_factory=dict)
    unsure: set[str] = field(default_factory=set)
    """UIDs of pods whose bind call failed in a way that leaves open whether it took effect."""

    def has(self, pod: api.Pod) -> api.Pod | None:
        """The newest state of this very pod, if it is still there."""
        known = self.pods.get(pod.key)
        return known if known is not None and known.uid == pod.uid else None


@dataclass(slots=True)
class Profile:
    """One profile: how it decides, and what happens after."""

    name: str
    engine: Engine
    points: Points
    evaluations: EvaluationCounter


NO_POD = api.Pod()


@dataclass(slots=True)
class Attempt:
    """One pod on its way from the queue to a node."""

    queued: QueuedPodInfo
    profile: Profile
    state: CycleState
    started: float
    to_activate: PodsToActivate
    decision: Decision | None = None
    node: str = ""
    assumed: api.Pod = NO_POD
    """The pod as if it were on its node."""
    scores_told: bool = False
    """Whether the log wants to know what each node was given."""

    @property
    def pod(self) -> api.Pod:
        return self.queued.info.pod


def on_node(pod: api.Pod, node_name: str) -> api.Pod:
    """The pod as it will be once bound."""
    return replace(pod, spec=replace(pod.spec, node_name=node_name))
