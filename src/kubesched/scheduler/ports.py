"""The interfaces through which the loop reports events and metrics.

Implementations import nothing from the loop. The defaults below do nothing.
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
    """Creates events.k8s.io Events about pods. Never blocks and never raises."""

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
        """An attempt ended: "scheduled" (counted once the pod is bound), "unschedulable" or "error"."""
        ...

    def algorithm(self, seconds: float) -> None:
        """How long it took to find a node, including PostFilter."""
        ...

    def group_attempt(self, result: str, profile: str, seconds: float) -> None:
        """The cycle of a pod group ended: "scheduled", "unschedulable", "waiting_on_preemption" or "error"."""
        ...

    def group_algorithm(self, seconds: float) -> None:
        """How long the algorithm took for a pod group."""
        ...

    def scheduled(self, attempts: int, sli_seconds: float | None, *, after_flush: bool) -> None:
        """A pod was bound, after this many attempts and this long after it first became active."""
        ...

    def extension_points(self, profile: str, runs: Sequence[tuple[str, str, float]]) -> None:
        """All plugins of these extension points ("PreFilter", "Bind", …) have run, each with a result ("Success", …)
        and the seconds it took. The list does not change any more."""
        ...

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin has run; called in one cycle out of ten, as upstream."""
        ...

    def evaluations(self, evaluations: Evaluations) -> None:
        """Export these counters from now on; their owner continues to update them."""
        ...

    def batch(self, profile: str, results: Iterable[str], flushes: Iterable[str]) -> None:
        """Whether a hint was available and used ("no_hint", "hint_used", …), and why batches were flushed."""
        ...

    def node_hint(self, hinted: str, profile: str, seconds: float) -> None:
        """A node hint was looked up: "hint" or "no_hint"."""
        ...

    def batch_stored(self, profile: str, seconds: float) -> None:
        """The scores of a pod were stored for the next one, or not."""
        ...

    def permit_wait(self, result: str, seconds: float) -> None:
        """A pod has finished waiting on Permit."""
        ...

    def event_handled(self, event: str, seconds: float) -> None:
        """A cluster event with this label was handled."""
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
        """A background API call ended: "success" or "error"."""
        ...

    def api_calls_pending(self, call_type: str, change: int) -> None:
        """The number of background API calls waiting to be sent changed."""
        ...

    def volume_error(self, stage: str) -> None:
        """VolumeBinding failed in "predicate", "assume" or "bind"."""
        ...

    def goroutines(self, operation: str, change: int) -> None:
        """The number of running tasks of a kind ("binding", "preemption") changed."""
        ...

    def cache_size(self, kind: str, number: int) -> None:
        """How many "nodes", "pods" or "assumed_pods" are in the scheduler's cache."""
        ...

    @property
    def is_sampled(self) -> bool:
        """Whether `cache_size` and `tidy` must be called every second."""
        ...

    def tidy(self) -> None:
        """Called every second: count what was only collected so far, if it is much."""
        ...

    def claim_created(self, status: str) -> None:
        """The scheduler tried to create a claim for extended resources: "success" or "failure"."""
        ...

    def device_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """A pod has finished waiting for the devices of a claim, one of which belongs to this driver."""
        ...

    def conditions_used(self, profile: str, driver: str, status: str) -> None:
        """An attempt used a device with binding conditions."""
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

    is_sampled = False

    def attempt(self, result: str, profile: str, seconds: float) -> None: ...
    def algorithm(self, seconds: float) -> None: ...
    def group_attempt(self, result: str, profile: str, seconds: float) -> None: ...
    def group_algorithm(self, seconds: float) -> None: ...
    def scheduled(self, attempts: int, sli_seconds: float | None, *, after_flush: bool) -> None: ...
    def extension_points(self, profile: str, runs: Sequence[tuple[str, str, float]]) -> None: ...
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
    def tidy(self) -> None: ...
    def claim_created(self, status: str) -> None: ...
    def device_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None: ...
    def conditions_used(self, profile: str, driver: str, status: str) -> None: ...
