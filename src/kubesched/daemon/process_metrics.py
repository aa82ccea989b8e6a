"""Metrics about the process, not about scheduling: requests to the API server, leadership, the build."""

from __future__ import annotations

import platform

from kubesched.client.transport import RequestDone
from kubesched.daemon.version import KUBERNETES_MAJOR, KUBERNETES_MINOR, short_version
from kubesched.scheduler.metric_types import BETA, CounterFamily, Gauge, Histogram
from kubesched.scheduler.metrics import Metrics

LATENCIES = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]


class ProcessMetrics:
    """Registers the process's metrics with the scheduler's."""

    def __init__(self, metrics: Metrics) -> None:
        self._requests = metrics.add(
            CounterFamily(
                "rest_client_requests_total",
                "Number of HTTP requests, partitioned by status code, method, and host.",
                ("code", "method", "host"),
            )
        )
        self._seconds = metrics.add(
            Histogram(
                "rest_client_request_duration_seconds",
                "Request latency in seconds. Broken down by verb, and host.",
                LATENCIES,
                ("verb", "host"),
            )
        )
        self._waits = metrics.add(
            Histogram(
                "rest_client_rate_limiter_duration_seconds",
                "Client side rate limiter latency in seconds. Broken down by verb, and host.",
                LATENCIES,
                ("verb", "host"),
            )
        )
        self._leader = metrics.add(
            Gauge(
                "leader_election_master_status",
                "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates "
                "master. 'name' is the string used to identify the lease. Please make sure to group by name.",
                ("name",),
            )
        )
        build = Gauge(
            "kubernetes_build_info",
            "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree "
            "state, build date, Go version, and compiler from which Kubernetes was built, and platform "
            "on which it is running.",
            ("major", "minor", "git_version", "go_version", "compiler", "platform"),
            BETA,
        )
        python = f"python{platform.python_version()}"
        compiler = platform.python_implementation().lower()
        where = f"{platform.system().lower()}/{platform.machine()}"
        build.set((KUBERNETES_MAJOR, KUBERNETES_MINOR, short_version(), python, compiler, where), 1)
        metrics.add(build)

    def request(self, done: RequestDone) -> None:
        """Count a finished request to the API server."""
        code = str(done.code) if done.code else "<error>"
        self._requests.add((code, done.verb, done.host))
        self._seconds.observe((done.verb, done.host), done.seconds)
        self._waits.observe((done.verb, done.host), done.waited)

    def leads(self, leads: bool) -> None:
        """Record whether this process is the leader."""
        self._leader.set(("kube-scheduler",), int(leads))
