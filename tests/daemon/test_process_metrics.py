"""Metrics of the process."""

from __future__ import annotations

from kubesched.client.transport import RequestDone
from kubesched.daemon.process_metrics import ProcessMetrics
from kubesched.scheduler.metrics import Metrics


def shown(metrics: Metrics) -> str:
    """The page, without comments."""
    lines = metrics.render()[0].decode().splitlines()
    return "\n".join(line for line in lines if not line.startswith("#"))


def test_flags_count_for_them_too() -> None:
    """Disabled metrics are hidden, label values that are not allowed become one, and a reset clears everything."""
    metrics = Metrics(
        disabled=["rest_client_request_duration_seconds"], allowed_labels={"rest_client_requests_total,code": "200"}
    )
    process = ProcessMetrics(metrics)
    process.request(RequestDone("GET", "a:1", 500, 0.2, 0.01, 0, 300))
    page = shown(metrics)
    assert 'rest_client_request_size_bytes_bucket{host="a:1",le="64",verb="GET"} 1' in page
    assert 'rest_client_response_size_bytes_bucket{host="a:1",le="256",verb="GET"} 0' in page
    assert 'rest_client_response_size_bytes_sum{host="a:1",verb="GET"} 300' in page
    assert 'rest_client_requests_total{code="unexpected",host="a:1",method="GET"} 1' in page
    assert 'rest_client_rate_limiter_duration_seconds_bucket{host="a:1",le="0.025",verb="GET"} 1' in page
    assert "rest_client_request_duration_seconds" not in page
    metrics.reset()
    assert "rest_client_requests_total{" not in shown(metrics)


def test_only_candidates_say_whether_they_lead() -> None:
    """Without leader election there is no lease to be master of."""
    metrics = Metrics()
    process = ProcessMetrics(metrics)
    assert "leader_election_master_status" not in shown(metrics)
    process.leads(False)
    assert 'leader_election_master_status{name="kube-scheduler"} 0' in shown(metrics)


def test_what_go_programs_say_of_themselves() -> None:
    """The version, the number of metrics, and what the kernel knows of memory and network."""
    metrics = Metrics(disabled=["scheduler_pending_pods"])
    ProcessMetrics(metrics)
    page = shown(metrics)
    assert 'component="kube",emulation="1.36",min_compat="1.35"} 1' in page
    assert 'registered_metrics_total{deprecated_version="",stability_level="STABLE"}' in page
    assert "disabled_metrics_total 1.0" in page
    assert "hidden_metrics_total 0.0" in page
    assert "process_virtual_memory_max_bytes " in page
    assert "process_network_receive_bytes_total " in page
