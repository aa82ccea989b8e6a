"""Metrics: upstream's names, help texts, labels and buckets, with the right values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prometheus_client.core import Metric
from prometheus_client.parser import text_string_to_metric_families
from tests.builders import pod

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClasses
from kubesched.queue.hooks import QueueMetrics
from kubesched.scheduler import ports
from kubesched.scheduler.metric_types import MOST_WAITING, Histogram, go_float
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.resource_metrics import resource_metrics

UPSTREAM = json.loads(Path(__file__).with_name("upstream_metrics.json").read_text("utf-8"))
"""The metrics of v1.36.4."""

LEFT_OUT = "scheduler_volume_binder_cache_requests_total"
"""The only metric that is missing here. Upstream defines it but never updates it."""


def every_metric() -> Metrics:
    """Metrics with one sample of everything."""
    metrics = Metrics(process=False, pod_groups=True)
    metrics.group_attempt("scheduled", "default-scheduler", 0.003)
    metrics.group_algorithm(0.002)
    metrics.attempt("scheduled", "default-scheduler", 0.003)
    metrics.algorithm(0.002)
    metrics.scheduled(1, 0.5, after_flush=True)
    metrics.extension_points("default-scheduler", [("Filter", "Success", 0.0002)])
    metrics.plugin("NodeName", "Filter", "Success", 0.00002)
    metrics.evaluations(ports.Evaluations("default-scheduler", [], ["NodeName"], [], [], decisions=1, nodes=5000))
    metrics.batch("default-scheduler", ["no_hint"], ["empty_list"])
    metrics.node_hint("no_hint", "default-scheduler", 0.00002)
    metrics.batch_stored("default-scheduler", 0.00002)
    metrics.api_call("pod_binding", "success", 0.01)
    metrics.api_calls_pending("pod_binding", 1)
    metrics.volume_error("bind")
    metrics.permit_wait("Success", 1.0)
    metrics.event_handled("NodeAdd", 0.001)
    metrics.preemption_attempted()
    metrics.preemption(3)
    metrics.preemption_executed("success", 0.1)
    metrics.goroutines("binding", 1)
    metrics.cache_size("nodes", 5000)
    metrics.claim_created("success")
    metrics.device_awaited("default-scheduler", "gpu.example.com", "success", 5.0)
    metrics.conditions_used("default-scheduler", "gpu.example.com", "success")
    metrics.feature("SchedulerQueueingHints", "", True)
    metrics.incoming("active", "PodAdd")
    metrics.pending("active", 1)
    metrics.in_flight("PodPopped", 1)
    metrics.hint("NodeAffinity", "NodeAdd", "Queue", 0.00001)
    metrics.unschedulable("NodeResourcesFit", "default-scheduler", 1)
    return metrics


def families(metrics: Metrics) -> dict[str, Metric]:
    text = metrics.render()[0].decode()
    found = {family.name: family for family in text_string_to_metric_families(text)}
    return {name + ("_total" if family.type == "counter" else ""): family for name, family in found.items()}


def value(metrics: Metrics, sample: str, **labels: str) -> float | None:
    return metrics.registry.get_sample_value(sample, labels)


# --- definitions ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("upstream", UPSTREAM, ids=lambda metric: metric["name"])
def test_definitions(upstream: dict[str, object]) -> None:
    """Type, help text with stability, labels and buckets match upstream's; all STABLE and BETA metrics exist."""
    name = str(upstream["name"])
    family = families(every_metric()).get(name)
    if family is None:
        assert upstream["stability"] == "ALPHA"
        assert name == LEFT_OUT
        return
    assert family.type == upstream["type"]
    assert family.documentation == f"[{upstream['stability']}] {upstream['help']}"
    sample = family.samples[0]
    assert set(sample.labels) - {"le"} == set(upstream["labels"])  # type: ignore[call-overload]  # JSON
    bounds = [float(each.labels["le"]) for each in family.samples if each.name.endswith("_bucket")]
    assert bounds[:-1] == upstream["bounds"]


def test_nothing_else_is_shown() -> None:
    """There is no metric that upstream lacks."""
    known = {metric["name"] for metric in UPSTREAM} | {"kubernetes_feature_enabled"}
    assert set(families(every_metric())) <= known


def test_what_is_there_from_the_start() -> None:
    """Metrics without labels and the four queues are exported from the start, others once they have samples."""
    shown = families(Metrics(process=False))
    assert {sample.labels["queue"]: sample.value for sample in shown["scheduler_pending_pods"].samples} == {
        "active": 0,
        "backoff": 0,
        "unschedulable": 0,
        "gated": 0,
    }
    assert "scheduler_preemption_attempts_total" in shown
    assert "scheduler_schedule_attempts_total" not in shown


def test_the_process_is_shown_too() -> None:
    """Process memory and CPU are exported under Go's names."""
    assert "process_resident_memory_bytes" in families(Metrics())


def test_two_schedulers_do_not_add_up() -> None:
    """Each scheduler has its own registry."""
    one, other = Metrics(process=False), Metrics(process=False)
    one.preemption_attempted()
    assert value(one, "scheduler_preemption_attempts_total") == 1
    assert value(other, "scheduler_preemption_attempts_total") == 0


def test_the_protocols() -> None:
    """Metrics implements the protocols of the loop and the queue."""
    metrics = Metrics(process=False)
    for_the_loop: ports.MetricsSink = metrics
    for_the_queue: QueueMetrics = metrics
    assert for_the_loop is for_the_queue


# --- numbers ----------------------------------------------------------------------------------------------------------


def test_an_attempt_counts_twice() -> None:
    """An attempt updates a counter and a histogram."""
    metrics = every_metric()
    labels = {"result": "scheduled", "profile": "default-scheduler"}
    assert value(metrics, "scheduler_schedule_attempts_total", **labels) == 1
    name = "scheduler_scheduling_attempt_duration_seconds"
    assert value(metrics, f"{name}_sum", **labels) == 0.003
    assert value(metrics, f"{name}_bucket", le="0.002", **labels) == 0
    assert value(metrics, f"{name}_bucket", le="0.004", **labels) == 1


def test_many_attempts_share_a_label() -> None:
    """From fifteen attempts on the label is "15+", which limits the number of series."""
    metrics = Metrics(process=False)
    for attempts in (1, 14, 15, 200):
        metrics.scheduled(attempts, 1.0, after_flush=False)
    metrics.scheduled(3, None, after_flush=False)
    name = "scheduler_pod_scheduling_sli_duration_seconds_count"
    assert [value(metrics, name, attempts=label) for label in ("1", "3", "14", "15+")] == [1, None, 1, 2]
    assert value(metrics, "scheduler_pod_scheduling_attempts_count") == 5
    assert value(metrics, "scheduler_pod_scheduled_after_flush_total") == 0


def test_gauges_go_up_and_down() -> None:
    """Gauges return to zero when all pods are gone."""
    metrics = Metrics(process=False)
    for change in (1, 1, -1, -1):
        metrics.pending("backoff", change)
        metrics.unschedulable("NodePorts", "a", change)
    metrics.cache_size("pods", 7)
    metrics.cache_size("pods", 3)
    assert value(metrics, "scheduler_pending_pods", queue="backoff") == 0
    assert value(metrics, "scheduler_unschedulable_pods", plugin="NodePorts", profile="a") == 0
    assert value(metrics, "scheduler_cache_size", type="pods") == 3


def test_what_waits_to_be_counted_is_bounded() -> None:
    """Without a scrape, `tidy` counts what has been collected, and nothing is lost or counted twice."""
    metrics = Metrics(process=False)
    counted: list[int] = []
    backlog = metrics.backlog(counted.extend)
    for number in range(MOST_WAITING):
        backlog.add(number)
        metrics.algorithm(0.001)
        metrics.extension_points("a", [("Filter", "Success", 0.001), ("NormalizeScore", "Success", 0.001)])
        metrics.tidy()
    assert counted == list(range(MOST_WAITING))
    backlog.add(-1)
    for point in ("Filter", "Score"):
        labels = {"extension_point": point, "status": "Success", "profile": "a"}
        name = "scheduler_framework_extension_point_duration_seconds_count"
        assert value(metrics, name, **labels) == MOST_WAITING
    assert value(metrics, "scheduler_scheduling_algorithm_duration_seconds_count") == MOST_WAITING
    assert counted[-1] == -1


@given(st.lists(st.floats(0, 100)))
def test_histograms_count_right(values: list[float]) -> None:
    """A bucket counts the values up to its bound; the last one counts all."""
    histogram = Histogram("x", "y", [0.5, 1, 50])
    for each in values:
        histogram.observe((), each)
    metric = histogram.metric({})
    assert metric is not None
    buckets = {s.labels["le"]: s.value for s in metric.samples if s.name == "x_bucket"}
    assert buckets == {
        "0.5": sum(each <= 0.5 for each in values),
        "1": sum(each <= 1 for each in values),
        "50": sum(each <= 50 for each in values),
        "+Inf": len(values),
    }


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (1, "1"),
        (0, "0"),
        (0.001, "0.001"),
        (16.384, "16.384"),
        (0.0001, "0.0001"),
        (0.00001, "1e-05"),
        (0.000015, "1.5e-05"),
        (134217728, "1.34217728e+08"),
        (1000000, "1e+06"),
        (999999, "999999"),
        (-2.5e7, "-2.5e+07"),
        (5242.88, "5242.88"),
    ],
)
def test_numbers_as_go_writes_them(number: float, text: str) -> None:
    """Bucket bounds are formatted as Go does, because queries compare them as text."""
    assert go_float(number) == text


# --- flags ------------------------------------------------------------------------------------------------------------


def test_disabled_metrics() -> None:
    """`--disabled-metrics` hides metrics."""
    metrics = Metrics(disabled=["scheduler_pending_pods", "lost_total"], process=False)
    metrics.count_from("lost_total", "Lost", lambda: 1)
    assert not {"scheduler_pending_pods", "lost_total"} & set(families(metrics))


def test_allowed_labels() -> None:
    """`--allow-metric-labels` merges all other label values."""
    metrics = Metrics(
        allowed_labels={
            "scheduler_queue_incoming_pods_total,event": "PodAdd,NodeAdd",
            "scheduler_plugin_execution_duration_seconds,plugin": "NodeName",
        },
        process=False,
    )
    for event in ("PodAdd", "NodeUpdate", "PodUpdate"):
        metrics.incoming("active", event)
    for plugin in ("NodeName", "Mine", "Yours"):
        metrics.plugin(plugin, "Filter", "Success", 0.001)
    name = "scheduler_queue_incoming_pods_total"
    assert value(metrics, name, queue="active", event="PodAdd") == 1
    assert value(metrics, name, queue="active", event="unexpected") == 2
    labels = {"plugin": "unexpected", "extension_point": "Filter", "status": "Success"}
    assert value(metrics, "scheduler_plugin_execution_duration_seconds_count", **labels) == 2
    with pytest.raises(ValueError, match="names no label"):
        Metrics(allowed_labels={"metric": "x"})


def test_reset() -> None:
    """A reset clears labelled counters and histograms, including those computed from evaluations. Gauges and, as
    upstream, metrics without labels are not reset.
    """
    metrics = every_metric()
    metrics.reset()
    shown = families(metrics)
    assert not {name for name, family in shown.items() if family.type in ("counter", "histogram")} - {
        "scheduler_pod_scheduled_after_flush_total",
        "scheduler_pod_scheduling_attempts",
        "scheduler_podgroup_scheduling_algorithm_duration_seconds",
        "scheduler_preemption_attempts_total",
        "scheduler_preemption_victims",
        "scheduler_scheduling_algorithm_duration_seconds",
    }
    assert value(metrics, "scheduler_preemption_attempts_total") == 1
    assert value(metrics, "scheduler_pending_pods", queue="active") == 1
    metrics.attempt("scheduled", "default-scheduler", 0.1)
    labels = {"result": "scheduled", "profile": "default-scheduler"}
    assert value(metrics, "scheduler_schedule_attempts_total", **labels) == 1


def test_numbers_of_others() -> None:
    """A number counted elsewhere, such as dropped events, is read on each scrape."""
    metrics = Metrics(process=False)
    lost = [0]
    metrics.count_from("kubesched_events_dropped_total", "Events lost because the queue was full.", lambda: lost[0])
    lost[0] = 4
    assert value(metrics, "kubesched_events_dropped_total") == 4


def test_formats() -> None:
    """A scraper that requests OpenMetrics gets it; others get plain text."""
    body, content_type = every_metric().render("application/openmetrics-text; version=1.0.0")
    assert content_type.startswith("application/openmetrics-text")
    assert body.endswith(b"# EOF\n")
    assert every_metric().render()[1].startswith("text/plain")


# --- /metrics/resources -----------------------------------------------------------------------------------------------


def container(name: str, requests: dict[str, api.Quantity], limits: dict[str, api.Quantity]) -> api.Container:
    return api.Container(name=name, resources=api.ResourceRequirements(requests=requests, limits=limits))


def page(*pods: api.Pod) -> dict[tuple[str, str, str], tuple[float, str]]:
    """Value and unit by metric, pod and resource."""
    classes = PodClasses()
    text = resource_metrics(classes.info(each) for each in pods)
    return {
        (sample.name, sample.labels["pod"], sample.labels["resource"]): (sample.value, sample.labels["unit"])
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


REQUEST, LIMIT = "kube_pod_resource_request", "kube_pod_resource_limit"


def test_requests_and_limits() -> None:
    """Requests and limits of containers are summed, with their unit; zero is not exported."""
    main = container(
        "a", {"cpu": "500m", "memory": "1Gi", "example.com/gpu": "2"}, {"cpu": "1", "hugepages-2Mi": "4Mi"}
    )
    side = container("b", {"cpu": "250m", "attachable-volumes-x": "3"}, {"cpu": "0", "ephemeral-storage": "1M"})
    shown = page(pod("web", containers=[main, side]))
    assert shown == {
        (REQUEST, "web", "cpu"): (0.75, "cores"),
        (REQUEST, "web", "memory"): (2**30, "bytes"),
        (REQUEST, "web", "example.com/gpu"): (2, ""),
        (REQUEST, "web", "attachable-volumes-x"): (3, "integer"),
        (LIMIT, "web", "cpu"): (1, "cores"),
        (LIMIT, "web", "hugepages-2Mi"): (4 * 2**20, "bytes"),
        (LIMIT, "web", "ephemeral-storage"): (1e6, "bytes"),
    }


def test_overhead_is_on_top_of_limits_that_are_there() -> None:
    """A pod without a memory limit does not get one from its overhead."""
    one = container("a", {"cpu": "1"}, {"cpu": "2"})
    shown = page(pod("web", containers=[one], overhead={"cpu": "250m", "memory": "1Mi"}))
    assert shown[REQUEST, "web", "cpu"] == (1.25, "cores")
    assert shown[REQUEST, "web", "memory"] == (2**20, "bytes")
    assert shown[LIMIT, "web", "cpu"] == (2.25, "cores")
    assert (LIMIT, "web", "memory") not in shown


def test_limits_of_init_containers_and_of_the_pod() -> None:
    """Init containers count if they need more than the others; pod-level limits replace the sum."""
    init = container("i", {}, {"cpu": "5", "memory": "1Mi"})
    spec = api.PodSpec(
        containers=(container("a", {}, {"cpu": "1", "memory": "2Mi"}),),
        init_containers=(init,),
        resources=api.ResourceRequirements(limits={"memory": "8Mi", "example.com/gpu": "1"}),
    )
    shown = page(api.Pod(metadata=api.ObjectMeta(name="web"), spec=spec))
    assert shown == {(LIMIT, "web", "cpu"): (5, "cores"), (LIMIT, "web", "memory"): (8 * 2**20, "bytes")}


def test_labels_of_a_pod() -> None:
    """The labels are namespace, node, scheduler and priority; unusual names are escaped."""
    placed = pod("web", cpu="1", node="n1", priority=10)
    text = resource_metrics([PodClasses().info(placed)])
    assert text.splitlines()[0].startswith(f"# HELP {REQUEST} [STABLE] Resources requested by workloads")
    assert text.splitlines()[1:] == [
        f"# TYPE {REQUEST} gauge",
        f'{REQUEST}{{namespace="default",pod="web",node="n1",scheduler="",priority="10",'
        'resource="cpu",unit="cores"} 1',
    ]
    assert 'pod="a\\"b"' in resource_metrics([PodClasses().info(pod('a"b', cpu="1"))])


def test_pods_that_have_ended() -> None:
    """A pod that has ended on its node is skipped; one without a node cannot have ended."""
    ended = pod("ended", cpu="1", node="n1", phase="Succeeded")
    odd = pod("odd", cpu="1", phase="Failed")
    assert {name for _, name, _ in page(ended, odd)} == {"odd"}


def test_no_pods() -> None:
    """An empty cluster has an empty page."""
    assert resource_metrics([]) == ""
