"""What the loop needs of others, in their smallest form: a log, an event recorder, metrics, extenders.

Whoever implements one of these imports nothing of the loop, and the loop runs with the silent ones below.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.queue.hooks import NoMetrics, QueueMetrics

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class Recorder(Protocol):
    """Makes events.k8s.io Events of what happens to pods. Never waits and never raises."""

    def event(
        self,
        profile: str,
        regarding: api.Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: api.Pod | None = None,
    ) -> None:
        """Record that `action` ended in `reason`, as the scheduler called `profile`; `kind` is Normal or Warning."""
        ...


@dataclass(slots=True)
class Evaluations:
    """How many decisions there were in which these plugins had a say, and about how many nodes."""

    profile: str
    pre_filter: Sequence[str]
    filter: Sequence[str]
    pre_score: Sequence[str]
    score: Sequence[str]
    decisions: int = 0
    nodes: int = 0
    """Nodes looked at, over all decisions."""
    feasible: int = 0
    """Nodes found feasible, over all decisions."""


class Metrics(QueueMetrics, Protocol):
    """Told of everything that kube-scheduler's metrics count. Durations are seconds by the scheduler's clock."""

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended: "scheduled" (counted once bound), "unschedulable" or "error"."""
        ...

    def algorithm(self, seconds: float) -> None:
        """How long finding a node took, PostFilter included."""
        ...

    def scheduled(self, attempts: int, sli_seconds: float | None, *, after_flush: bool) -> None:
        """A pod is bound, after so many attempts and so long after it first became active."""
        ...

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of a point ("PreFilter", "Bind", …) have run, with this outcome ("Success", …)."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin has run; told of one cycle in ten, as upstream does."""
        ...

    def evaluations(self, evaluations: Evaluations) -> None:
        """Show these from now on; they go on counting."""
        ...

    def permit_wait(self, result: str, seconds: float) -> None:
        """A pod has waited on Permit."""
        ...

    def event_handled(self, event: str, seconds: float) -> None:
        """A cluster event, by its label, was taken in."""
        ...

    def preemption_attempted(self) -> None:
        """PostFilter looked for victims for a pod, whether it found any or not."""
        ...

    def preemption(self, victims: int) -> None:
        """A pod preempts others."""
        ...

    def preemption_executed(self, result: str, seconds: float) -> None:
        """All victims of a preemption are dealt with: "success" or "error"."""
        ...

    def goroutines(self, operation: str, change: int) -> None:
        """More, or fewer, tasks of a kind ("binding", "preemption") are under way."""
        ...

    def cache_size(self, kind: str, number: int) -> None:
        """How many "nodes", "pods" or "assumed_pods" the scheduler knows."""
        ...


class ExtenderError(Exception):
    """An extender could not be asked, or did not answer sensibly."""


@dataclass(slots=True)
class ExtenderFilterResult:
    """An extender's word on nodes. Those neither passed nor failed are taken as failed without a reason."""

    nodes: Sequence[str]
    failed: Mapping[str, str] = field(default_factory=dict)
    unresolvable: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class ExtenderVictims:
    """Pods to remove from a node, and how many of them a disruption budget protects."""

    pods: Sequence[PodInfo]
    violations: int = 0


class Extender(Protocol):
    """A scheduler extender. Its calls raise `ExtenderError`, and nothing else, when they fail."""

    name: str
    weight: int
    ignorable: bool
    is_filter: bool
    is_prioritizer: bool
    is_binder: bool
    supports_preemption: bool

    def is_interested(self, pod: api.Pod) -> bool:
        """Whether the pod asks for a resource this extender manages, or it manages none in particular."""
        ...

    async def filter(self, pod: api.Pod, nodes: Sequence[api.Node]) -> ExtenderFilterResult:
        """Which of these nodes will do."""
        ...

    async def prioritize(self, pod: api.Pod, nodes: Sequence[api.Node]) -> Mapping[str, int]:
        """Scores from 0 to 10, not yet weighted, by node; nodes may be missing."""
        ...

    async def process_preemption(
        self, pod: api.Pod, victims: Mapping[str, ExtenderVictims]
    ) -> Mapping[str, ExtenderVictims]:
        """Which of these nodes to preempt on, and whom."""
        ...

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Bind the pod in the scheduler's stead."""
        ...


class Unrecorded:
    """A recorder that forgets."""

    def event(
        self,
        profile: str,
        regarding: api.Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: api.Pod | None = None,
    ) -> None: ...


class Uncounted(NoMetrics):
    """Metrics that nobody counts."""

    def attempt(self, result: str, profile: str, seconds: float) -> None: ...
    def algorithm(self, seconds: float) -> None: ...
    def scheduled(self, attempts: int, sli_seconds: float | None, *, after_flush: bool) -> None: ...
    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None: ...
    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None: ...
    def evaluations(self, evaluations: Evaluations) -> None: ...
    def permit_wait(self, result: str, seconds: float) -> None: ...
    def event_handled(self, event: str, seconds: float) -> None: ...
    def preemption_attempted(self) -> None: ...
    def preemption(self, victims: int) -> None: ...
    def preemption_executed(self, result: str, seconds: float) -> None: ...
    def goroutines(self, operation: str, change: int) -> None: ...
    def cache_size(self, kind: str, number: int) -> None: ...
