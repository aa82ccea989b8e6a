"""kube-scheduler's metrics: its names, labels, buckets and help texts, so that its dashboards and alerts keep working.

All STABLE and BETA metrics are here, and the ALPHA ones that make sense for this scheduler. The metric of the volume
binder's cache is omitted, because kube-scheduler no longer updates it either.

The queue and the loop call `Metrics`, which renders its families on request.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from prometheus_client import CollectorRegistry, ProcessCollector
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from kubesched.scheduler import metric_protobuf
from kubesched.scheduler.metric_types import (
    ALPHA,
    BETA,
    STABLE,
    Backlog,
    CounterFamily,
    Family,
    Gauge,
    Histogram,
    Labels,
    exponential,
)
from kubesched.scheduler.ports import Evaluations

QUEUES: Final = ("active", "backoff", "unschedulable", "gated")
PART_OF: Final = {"NormalizeScore": "Score", "PreFilter AddPod": "Filter", "PreFilter RemovePod": "PostFilter"}
"""What a plugin does, and the extension point that it is counted under."""
MOST_ATTEMPTS_WAITING: Final = 250
"""How many attempts wait to be put into the histogram of extension points at most."""
MOST_ATTEMPTS: Final = 15

F = TypeVar("F", bound=Family)
T = TypeVar("T")
Runs = Sequence[tuple[str, str, float]]
"""Extension points with the result and the duration of each."""

_MILLISECONDS: Final = exponential(0.001, 2, 15)
_TENTHS: Final = exponential(0.0001, 2, 12)
_FINE: Final = exponential(0.00001, 1.5, 20)
_LONG: Final = exponential(0.01, 2, 20)
_HINTS: Final = exponential(0.00001, 2, 12)


class Metrics:
    """The callbacks for everything that is counted; see `kubesched.scheduler.ports` and `kubesched.queue.hooks`.

    `disabled` lists metrics to hide and `allowed_labels` limits the values of a label. Both hold the values of the
    flags of the same names; the latter has the form ``{"metric,label": "value,value"}``. With `native_histograms`,
    histograms in the protobuf format have exponential buckets too.
    """

    is_sampled = True

    def __init__(
        self,
        *,
        disabled: Collection[str] = (),
        allowed_labels: Mapping[str, str] | None = None,
        process: bool = True,
        pod_groups: bool = False,
        native_histograms: bool = False,
    ) -> None:
        self.families: list[Family] = []
        self._native_histograms = native_histograms
        self._reads: dict[str, tuple[str, Callable[[], float]]] = {}
        self._tallies: list[Evaluations] = []
        self._runs: list[tuple[str, Runs]] = []
        self._backlogs: list[Backlog[Any]] = []
        self.disabled = frozenset(disabled)
        self._allowed = _allowed(allowed_labels or {})
        self.registry = CollectorRegistry()
        """Ours alone: two schedulers in one process do not add up."""
        self.registry.register(_Collected(self))
        if process:
            ProcessCollector(registry=self.registry)
        self._define_attempts()
        self._define_framework()
        self._define_queue()
        self._define_batching()
        self._define_api_calls()
        self._define_volumes()
        self._define_rest()
        if pod_groups:
            self._define_pod_groups()
        for queue in QUEUES:
            self._pending.set((queue,), 0)

    # --- definitions --------------------------------------------------------------------------------------------------

    def _define_attempts(self) -> None:
        self._attempts = self._counter(
            "schedule_attempts_total",
            "Number of attempts to schedule pods, by the result. 'unschedulable' means a pod could not be scheduled, "
            "while 'error' means an internal scheduler problem.",
            ("result", "profile"),
            STABLE,
        )
        self._attempt_seconds = self._histogram(
            "scheduling_attempt_duration_seconds",
            "Scheduling attempt latency in seconds (scheduling algorithm + binding)",
            _MILLISECONDS,
            ("result", "profile"),
            STABLE,
        )
        self._algorithm_seconds = self._histogram(
            "scheduling_algorithm_duration_seconds", "Scheduling algorithm latency in seconds", _MILLISECONDS
        )
        self._sli_seconds = self._histogram(
            "pod_scheduling_sli_duration_seconds",
            "E2e latency for a pod being scheduled, from the time the pod enters the scheduling queue and might "
            "involve multiple scheduling attempts.",
            _LONG,
            ("attempts",),
            BETA,
        )
        self._pod_attempts = self._histogram(
            "pod_scheduling_attempts",
            "Number of attempts to successfully schedule a pod.",
            exponential(1, 2, 5),
            stability=STABLE,
        )
        self._after_flush = self._counter(
            "pod_scheduled_after_flush_total",
            "Number of pods that were successfully scheduled after being flushed from unschedulablePods due to "
            "timeout. This metric helps detect potential queueing hint misconfigurations or event handling issues.",
        )

    def _define_pod_groups(self) -> None:
        self._group_attempts = self._counter(
            "podgroup_schedule_attempts_total",
            "Number of attempts to schedule pod group, by the result. 'unschedulable' means a pod group could not be "
            "scheduled, while 'error' means an internal scheduler problem.",
            ("result", "profile"),
        )
        self._group_attempt_seconds = self._histogram(
            "podgroup_scheduling_attempt_duration_seconds",
            "Pod group scheduling attempt latency in seconds (scheduling algorithm + binding)",
            _MILLISECONDS,
            ("result", "profile"),
        )
        self._group_algorithm_seconds = self._histogram(
            "podgroup_scheduling_algorithm_duration_seconds",
            "Pod group scheduling algorithm latency in seconds",
            _MILLISECONDS,
        )

    def _define_framework(self) -> None:
        self._point_seconds = self._histogram(
            "framework_extension_point_duration_seconds",
            "Latency for running all plugins of a specific extension point.",
            _TENTHS,
            ("extension_point", "status", "profile"),
            STABLE,
        )
        self._plugin_seconds = self._histogram(
            "plugin_execution_duration_seconds",
            "Duration for running a plugin at a specific extension point.",
            _FINE,
            ("plugin", "extension_point", "status"),
        )
        self._evaluations = self._counter(
            "plugin_evaluation_total",
            "Number of attempts to schedule pods by each plugin and the extension point (available only in PreFilter, "
            "Filter, PreScore, and Score).",
            ("plugin", "extension_point", "profile"),
            BETA,
        )
        self._permit_seconds = self._histogram(
            "permit_wait_duration_seconds", "Duration of waiting on permit.", _MILLISECONDS, ("result",), BETA
        )
        self._victims = self._histogram(
            "preemption_victims",
            "Number of selected preemption victims",
            exponential(1, 2, 7),
            stability=STABLE,
        )
        self._preemptions = self._counter(
            "preemption_attempts_total", "Total preemption attempts in the cluster till now", stability=STABLE
        )
        self._preemption_seconds = self._histogram(
            "preemption_goroutines_duration_seconds",
            "Duration in seconds for running goroutines for the preemption.",
            _LONG,
            ("result",),
        )
        self._preemption_runs = self._counter(
            "preemption_goroutines_execution_total", "Number of preemption goroutines executed.", ("result",)
        )

    def _define_queue(self) -> None:
        self._pending = self._gauge(
            "pending_pods",
            "Number of pending pods, by the queue type. 'active' means number of pods in activeQ; 'backoff' means "
            "number of pods in backoffQ; 'unschedulable' means number of pods in unschedulablePods that the scheduler "
            "attempted to schedule and failed; 'gated' is the number of unschedulable pods that the scheduler never "
            "attempted to schedule because they are gated.",
            ("queue",),
            STABLE,
        )
        self._incoming = self._counter(
            "queue_incoming_pods_total",
            "Number of pods added to scheduling queues by event and queue type.",
            ("queue", "event"),
            STABLE,
        )
        self._in_flight = self._gauge(
            "inflight_events", "Number of events currently tracked in the scheduling queue.", ("event",)
        )
        self._hint_seconds = self._histogram(
            "queueing_hint_execution_duration_seconds",
            "Duration for running a queueing hint function of a plugin.",
            _FINE,
            ("plugin", "event", "hint"),
        )
        self._unschedulable = self._gauge(
            "unschedulable_pods",
            "The number of unschedulable pods broken down by plugin name. A pod will increment the gauge for all "
            "plugins that caused it to not schedule and so this metric have meaning only when broken down by plugin.",
            ("plugin", "profile"),
            BETA,
        )

    def _define_batching(self) -> None:
        self._batch_results = self._counter(
            "batch_attempts_total", "Counts of results when we attempt to use batching.", ("profile", "result")
        )
        self._batch_flushes = self._counter(
            "batch_cache_flushed_total", "Counts of cache flushes by reason.", ("profile", "reason")
        )
        self._get_hint_seconds = self._histogram(
            "get_node_hint_duration_seconds", "Latency for getting a node hint.", _HINTS, ("hinted", "profile")
        )
        self._store_seconds = self._histogram(
            "store_schedule_results_duration_seconds", "Latency for getting a no.", _HINTS, ("profile",)
        )

    def _define_api_calls(self) -> None:
        self._api_calls = self._counter(
            "async_api_call_execution_total",
            "Total number of API calls executed by the async dispatcher.",
            ("call_type", "result"),
        )
        self._api_call_seconds = self._histogram(
            "async_api_call_execution_duration_seconds",
            "Duration in seconds for executing API call in the async dispatcher.",
            _MILLISECONDS,
            ("call_type", "result"),
        )
        self._pending_api_calls = self._gauge(
            "pending_async_api_calls", "Number of API calls currently pending in the async queue.", ("call_type",)
        )

    def _define_volumes(self) -> None:
        self._volume_errors = self._counter(
            "volume_scheduling_stage_error_total", "Volume scheduling stage error count", ("operation",)
        )

    def _define_rest(self) -> None:
        self._event_seconds = self._histogram(
            "event_handling_duration_seconds", "Event handling latency in seconds.", _TENTHS, ("event",)
        )
        self._goroutines = self._gauge(
            "goroutines",
            "Number of running goroutines split by the work they do such as binding.",
            ("operation",),
            BETA,
        )
        self._cache_size = self._gauge(
            "cache_size", "Number of nodes, pods, and assumed (bound) pods in the scheduler cache.", ("type",)
        )
        self._claims = self._counter(
            "resourceclaim_creates_total", "Number of ResourceClaims creation requests within scheduler", ("status",)
        )
        self._conditions = self._counter(
            "dra_bindingconditions_allocations_total",
            "Number of allocations using devices with BindingConditions, counted per driver per scheduling attempt",
            ("profile", "driver", "status"),
        )
        self._conditions_seconds = self._histogram(
            "dra_bindingconditions_wait_duration_seconds",
            "Time in seconds spent waiting for BindingConditions to be satisfied during PreBind.",
            exponential(0.1, 2, 14),
            ("profile", "driver", "status"),
        )
        self._features = self.add(
            Gauge(
                "kubernetes_feature_enabled",
                "This metric records the data about the stage and enablement of a k8s feature.",
                ("name", "stage"),
                BETA,
            )
        )

    def _counter(self, name: str, text: str, labels: Labels = (), stability: str = ALPHA) -> CounterFamily:
        return self.add(CounterFamily(f"scheduler_{name}", text, labels, stability))

    def _gauge(self, name: str, text: str, labels: Labels = (), stability: str = ALPHA) -> Gauge:
        return self.add(Gauge(f"scheduler_{name}", text, labels, stability))

    def _histogram(
        self, name: str, text: str, bounds: list[float], labels: Labels = (), stability: str = ALPHA
    ) -> Histogram:
        return self.add(Histogram(f"scheduler_{name}", text, bounds, labels, stability))

    def add(self, family: F) -> F:
        """Add a family, subject to the flags."""
        if self._native_histograms and isinstance(family, Histogram):
            family.keep_native()
        self.families.append(family)
        return family

    # --- called by the loop -------------------------------------------------------------------------------------------
    # What happens for every pod is added to a family's numbers directly: a call in between would show.

    def attempt(self, result: str, profile: str, seconds: float) -> None:
        """An attempt ended: "scheduled" (counted once the pod is bound), "unschedulable" or "error"."""
        labels = (result, profile)
        self._attempts.values[labels] += 1
        self._attempt_seconds.waiting[labels].append(seconds)

    def algorithm(self, seconds: float) -> None:
        """How long it took to find a node, including PostFilter."""
        self._algorithm_seconds.waiting[()].append(seconds)

    def group_attempt(self, result: str, profile: str, seconds: float) -> None:
        """The cycle of a pod group ended."""
        self._group_attempts.add((result, profile))
        self._group_attempt_seconds.observe((result, profile), seconds)

    def group_algorithm(self, seconds: float) -> None:
        """How long the algorithm took for a pod group."""
        self._group_algorithm_seconds.observe((), seconds)

    def scheduled(self, attempts: int, sli_seconds: float | None, *, after_flush: bool) -> None:
        """A pod was bound, after this many attempts and this long after it first became active."""
        self._pod_attempts.waiting[()].append(attempts)
        if sli_seconds is not None:
            label = str(attempts) if attempts < MOST_ATTEMPTS else f"{MOST_ATTEMPTS}+"
            self._sli_seconds.waiting[label,].append(sli_seconds)
        if after_flush:
            self._after_flush.add(())

    def extension_points(self, profile: str, runs: Runs) -> None:
        """All plugins of these extension points have run. The list must not change afterwards."""
        self._runs.append((profile, runs))
        if len(self._runs) >= MOST_ATTEMPTS_WAITING:
            self._fold_runs()

    def _fold_runs(self) -> None:
        """Most attempts go through the same points with the same results: their durations are columns of a table."""
        tables: defaultdict[tuple[str, Labels, Labels], list[tuple[float, ...]]] = defaultdict(list)
        for profile, runs in self._runs:
            points, statuses, seconds = zip(*runs, strict=True)
            tables[profile, points, statuses].append(seconds)
        self._runs.clear()
        for (profile, points, statuses), table in tables.items():
            for point, status, column in zip(points, statuses, zip(*table, strict=True), strict=True):
                self._point_seconds.observe_all((PART_OF.get(point, point), status, profile), column)

    def plugin(self, plugin: str, point: str, status: str, seconds: float) -> None:
        """One plugin has run; measured in one cycle out of ten, as upstream."""
        self._plugin_seconds.observe((plugin, point, status), seconds)

    def evaluations(self, evaluations: Evaluations) -> None:
        """Export these counters from now on; their owner continues to update them."""
        self._tallies.append(evaluations)

    def batch(self, profile: str, results: Iterable[str], flushes: Iterable[str]) -> None:
        """Whether a hint was available and used ("no_hint", "hint_used", …), and why batches were flushed."""
        for result in results:
            self._batch_results.values[profile, result] += 1
        for reason in flushes:
            self._batch_flushes.values[profile, reason] += 1

    def node_hint(self, hinted: str, profile: str, seconds: float) -> None:
        """A node hint was looked up: "hint" or "no_hint"."""
        self._get_hint_seconds.waiting[hinted, profile].append(seconds)

    def batch_stored(self, profile: str, seconds: float) -> None:
        """The scores of a pod were stored for the next one, or not."""
        self._store_seconds.waiting[profile,].append(seconds)

    def permit_wait(self, result: str, seconds: float) -> None:
        """A pod has finished waiting on Permit."""
        self._permit_seconds.observe((result,), seconds)

    def claim_created(self, status: str) -> None:
        """The scheduler tried to create a claim for extended resources."""
        self._claims.add((status,))

    def device_awaited(self, profile: str, driver: str, status: str, seconds: float) -> None:
        """A pod has finished waiting for the devices of a claim."""
        self._conditions_seconds.observe((profile, driver, status), seconds)

    def conditions_used(self, profile: str, driver: str, status: str) -> None:
        """An attempt used a device with binding conditions."""
        self._conditions.add((profile, driver, status))

    def event_handled(self, event: str, seconds: float) -> None:
        """A cluster event with this label was handled."""
        self._event_seconds.waiting[event,].append(seconds)

    def preemption_attempted(self) -> None:
        """Preemption was attempted for a pod, successfully or not."""
        self._preemptions.add(())

    def preemption(self, victims: int) -> None:
        """A pod preempts others."""
        self._victims.observe((), victims)

    def preemption_executed(self, result: str, seconds: float) -> None:
        """All victims of a preemption were processed: "success" or "error"."""
        self._preemption_seconds.observe((result,), seconds)
        self._preemption_runs.add((result,))

    def api_call(self, call_type: str, result: str, seconds: float) -> None:
        """A background API call ended: "success" or "error"."""
        self._api_calls.add((call_type, result))
        self._api_call_seconds.observe((call_type, result), seconds)

    def api_calls_pending(self, call_type: str, change: int) -> None:
        """The number of background API calls waiting to be sent changed."""
        self._pending_api_calls.add((call_type,), change)

    def volume_error(self, stage: str) -> None:
        """VolumeBinding failed in "predicate", "assume" or "bind"."""
        self._volume_errors.add((stage,))

    def goroutines(self, operation: str, change: int) -> None:
        """The number of running tasks of a kind changed."""
        self._goroutines.values[operation,] += change

    def cache_size(self, kind: str, number: int) -> None:
        """How many "nodes", "pods" or "assumed_pods" are in the scheduler's cache."""
        self._cache_size.set((kind,), number)

    def feature(self, name: str, stage: str, enabled: bool) -> None:
        """A feature gate; the stage is "ALPHA", "BETA" or empty."""
        self._features.set((name, stage), int(enabled))

    # --- called by the queue ------------------------------------------------------------------------------------------

    def incoming(self, queue: str, event: str) -> None:
        """An event added a pod to a queue."""
        self._incoming.values[queue, event] += 1

    def pending(self, queue: str, change: int) -> None:
        """The number of pods in a queue changed."""
        self._pending.values[queue,] += change

    def in_flight(self, event: str, change: int) -> None:
        """The number of events kept for in-flight pods changed."""
        self._in_flight.values[event,] += change

    def hint(self, plugin: str, event: str, outcome: str, seconds: float) -> None:
        """A queueing hint function returned."""
        self._hint_seconds.observe((plugin, event, outcome), seconds)

    def unschedulable(self, plugin: str, profile: str, change: int) -> None:
        """The number of pods that a plugin made unschedulable changed."""
        self._unschedulable.add((plugin, profile), change)

    # --- output -------------------------------------------------------------------------------------------------------

    def count_from(self, name: str, text: str, read: Callable[[], float]) -> None:
        """Export a number that is counted elsewhere and read on every scrape."""
        self._reads[name] = (text, read)

    def backlog(self, count: Callable[[list[T]], None]) -> Backlog[T]:
        """Records that `count` counts before metrics are read."""
        made = Backlog(count)
        self._backlogs.append(made)
        return made

    def tidy(self) -> None:
        """Count what waits to be counted, where it is much. Call this every second or so, since only reading the
        metrics counts everything."""
        for backlog in self._backlogs:
            backlog.tidy()
        for family in self.families:
            family.tidy()

    def _fold(self) -> None:
        self._fold_runs()
        for backlog in self._backlogs:
            backlog.fold()

    def reset(self) -> None:
        """Reset all counters, for measurements."""
        self._fold()
        for family in self.families:
            family.reset()
        for tally in self._tallies:
            tally.decisions = tally.nodes = tally.feasible = 0

    def collect(self) -> Iterator[Metric]:
        """All families with something to export."""
        self._fold()
        self._add_up_evaluations()
        for family in self.families:
            if family.name not in self.disabled:
                metric = family.metric(self._allowed)
                if metric is not None:
                    yield metric
        for name, (text, read) in self._reads.items():
            if name not in self.disabled:
                yield CounterMetricFamily(name, f"[{ALPHA}] {text}", value=read())

    def _add_up_evaluations(self) -> None:
        self._evaluations.values.clear()
        for tally in self._tallies:
            for point, plugins, times in (
                ("PreFilter", tally.pre_filter, tally.decisions),
                ("Filter", tally.filter, tally.nodes),
                ("PreScore", tally.pre_score, tally.decisions),
                ("Score", tally.score, tally.feasible),
            ):
                for plugin in plugins if times else ():
                    self._evaluations.add((plugin, point, tally.profile), times)

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The metrics page in the format that the Accept header requests, and its content type."""
        if metric_protobuf.is_wanted(accept):
            self._fold()
            histograms = (family for family in self.families if isinstance(family, Histogram))
            native = {family.name: family.native(self._allowed) for family in histograms}
            return metric_protobuf.render(self.registry.collect(), native), metric_protobuf.CONTENT_TYPE
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type


class _Collected(Collector):
    """Connects the registry to `Metrics`, which has too many other methods to be a collector itself."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def collect(self) -> Iterator[Metric]:
        return self._metrics.collect()

    def describe(self) -> Iterator[Metric]:
        """Return nothing: names need no check for duplicates, and may not be defined yet."""
        return iter(())


def _allowed(flags: Mapping[str, str]) -> dict[tuple[str, str], frozenset[str]]:
    found: dict[tuple[str, str], frozenset[str]] = {}
    for place, values in flags.items():
        metric, comma, label = place.partition(",")
        if not comma:
            raise ValueError(f'"{place}" names no label; write metric,label=value,value')
        found[metric, label] = frozenset(values.split(","))
    return found
