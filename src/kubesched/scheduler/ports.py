"""The interfaces that the loop reports through: events and metrics.

Implementations import nothing of the loop. By default the ones below are used, which do nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from kubesched.api import objects as api
from kubesched.queue.hooks import NoMetrics, QueueMetrics

NORMAL: Final = "Normal"
WARNING: Final = "Warning"


class EventSink(Protocol):
    """Creates events.k8s.io Events about pods. Never waits and never raises."""

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
        """Record that `action` ended with `reason`, in the name of `profile`; `kind` is Normal or Warning."""
        ...


@dataclass(slots=True)
class Evaluations:
    """How many decisions these plugins took part in, and for how many nodes."""

    profile: str
    pre_filter: Sequence[str]
    filter: Sequence[str]
    pre_score: Sequence[str]
    score: Sequence[str]
    decisions: int = 0
    nodes: int = 0
    """Nodes filtered, over all decisions."""
    feasible: int = 0
    """Nodes found feasible, over all decisions."""


class MetricsSink(QueueMetrics, Protocol):
    """Counts what kube-scheduler's metrics count. Durations are seconds of the scheduler's clock."""

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended: "scheduled" (counted once bound), "unschedulable" or "error"."""
        ...

    def algorithm(self, seconds: float) -> None:
        """How long finding a node took, PostFilter included."""
        ...

    def group_attempt(self, result: str, profile: str, seconds: float) -> None:
        """The cycle of a pod group ended: "scheduled", "unschedulable", "waiting_on_preemption" or "error"."""
        ...

    def group_algorithm(self, seconds: float) -> None:
        """How long the trial of a pod group took."""
        ...

    def scheduled(self, attempts: int, sli_seconds: float | None, *, after_flush: bool) -> None:
        """A pod is bound, after so many attempts and so long after it first became active."""
        ...

    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None:
        """All plugins of a point ("PreFilter", "Bind", …) have run, with this outcome ("Success", …)."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin has run; called for one cycle in ten, as upstream does."""
        ...

    def evaluations(self, evaluations: Evaluations) -> None:
        """Report these from now on; they are still being counted."""
        ...

    def batch(self, profile: str, results: Iterable[str], flushes: Iterable[str]) -> None:
        """Whether a hint was given and used ("no_hint", "hint_used", …), and why batches were dropped."""
        ...

    def node_hint(self, hinted: str, profile: str, seconds: float) -> None:
        """A node hint was looked for: "hint" or "no_hint"."""
        ...

    def batch_stored(self, profile: str, seconds: float) -> None:
        """The scores of a pod were kept for the next one, or dropped."""
        ...

    def permit_wait(self, result: str, seconds: float) -> None:
        """A pod has waited on Permit."""
        ...

    def event_handled(self, event: str, seconds: float) -> None:
        """A cluster event, by its label, was handled."""
        ...

    def preemption_attempted(self) -> None:
        """PostFilter looked for victims for a pod, whether it found any or not."""
        ...

    def preemption(self, victims: int) -> None:
        """A pod preempts others."""
        ...

    def preemption_executed(self, result: str, seconds: float) -> None:
        """A preemption has ended: "success" or "error"."""
        ...

    def api_call(self, call_type: str, result: str, seconds: float) -> None:
        """A call was made in the background: "success" or "error"."""
        ...

    def api_calls_pending(self, call_type: str, change: int) -> None:
        """More, or fewer, calls wait to be made in the background."""
        ...

    def volume_error(self, stage: str) -> None:
        """VolumeBinding has failed: in "predicate", "assume" or "bind"."""
        ...

    def goroutines(self, operation: str, change: int) -> None:
        """The number of running tasks of a kind ("binding", "preemption") changed."""
        ...

    def cache_size(self, kind: str, number: int) -> None:
        """How many "nodes", "pods" or "assumed_pods" the scheduler knows."""
        ...

    def claim_created(self, status: str) -> None:
        """A claim for extended resources was to be created: "success" or "failure"."""
        ...

    def device_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """A pod has waited for the devices of a claim, one of which is this driver's."""
        ...

    def conditions_used(self, profile: str, driver: str, status: str) -> None:
        """A device with binding conditions was part of an attempt."""
        ...


class NoEvents:
    """Creates no events."""

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


class NoSchedulerMetrics(NoMetrics):
    """Counts nothing."""

    def attempt(self, result: str, profile: str, seconds: float) -> None: ...
    def algorithm(self, seconds: float) -> None: ...
    def group_attempt(self, result: str, profile: str, seconds: float) -> None: ...
    def group_algorithm(self, seconds: float) -> None: ...
    def scheduled(self, attempts: int, sli_seconds: float | None, *, after_flush: bool) -> None: ...
    def extension_point(self, point: str, status: str, profile: str, seconds: float) -> None: ...
    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None: ...
    def evaluations(self, evaluations: Evaluations) -> None: ...
    def batch(self, profile: str, results: Iterable[str], flushes: Iterable[str]) -> None: ...
    def node_hint(self, hinted: str, profile: str, seconds: float) -> None: ...
    def batch_stored(self, profile: str, seconds: float) -> None: ...
    def permit_wait(self, result: str, seconds: float) -> None: ...
    def event_handled(self, event: str, seconds: float) -> None: ...
    def preemption_attempted(self) -> None: ...
    def preemption(self, victims: int) -> None: ...
    def preemption_executed(self, result: str, seconds: float) -> None: ...
    def api_call(self, call_type: str, result: str, seconds: float) -> None: ...
    def api_calls_pending(self, call_type: str, change: int) -> None: ...
    def volume_error(self, stage: str) -> None: ...
    def goroutines(self, operation: str, change: int) -> None: ...
    def cache_size(self, kind: str, number: int) -> None: ...
    def claim_created(self, status: str) -> None: ...
    def device_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None: ...
    def conditions_used(self, profile: str, driver: str, status: str) -> None: ...
