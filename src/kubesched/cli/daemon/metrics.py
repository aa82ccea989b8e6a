"""Metrics of the process rather than of scheduling: requests to the API server, leadership, the build."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator

from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from kubesched.cli.daemon.version import KUBERNETES_MAJOR, KUBERNETES_MINOR, short_version
from kubesched.client.transport import RequestDone
from kubesched.scheduler.metric_families import ALPHA, Counter, Family, Gauge, Histogram
from kubesched.scheduler.metrics import Metrics

LATENCIES = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]


class ProcessMetrics(Collector):
    """Adds itself to the scheduler's metrics."""

    def __init__(self, metrics: Metrics, is_leader: Callable[[], bool]) -> None:
        self._is_leader = is_leader
        self._requests = Counter(
            "rest_client_requests_total",
            "Number of HTTP requests, partitioned by status code, method, and host.",
            ("code", "method", "host"),
            ALPHA,
        )
        self._seconds = Histogram(
            "rest_client_request_duration_seconds",
            "Request latency in seconds. Broken down by verb, and host.",
            LATENCIES,
            ("verb", "host"),
            ALPHA,
        )
        self._leader = Gauge(
            "leader_election_master_status",
            "Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. "
            "'name' is the string used to identify the lease. Please make sure to group by name.",
            ("name",),
            ALPHA,
        )
        self._build = Gauge(
            "kubernetes_build_info",
            "A metric with a constant '1' value labeled by major, minor, git version, git commit, git tree state, "
            "build date, Go version, and compiler from which Kubernetes was built, and platform on which it runs.",
            ("major", "minor", "git_version", "go_version", "compiler", "platform"),
            ALPHA,
        )
        python = f"python{platform.python_version()}"
        compiler = platform.python_implementation().lower()
        where = f"{platform.system().lower()}/{platform.machine()}"
        self._build.set((KUBERNETES_MAJOR, KUBERNETES_MINOR, short_version(), python, compiler, where), 1)
        metrics.registry.register(self)

    def request(self, done: RequestDone) -> None:
        """A request to the API server has ended."""
        code = str(done.code) if done.code else "<error>"
        self._requests.add((code, done.verb, done.host))
        self._seconds.observe((done.verb, done.host), done.seconds)

    def reset(self) -> None:
        """Begin to count anew."""
        self._requests.reset()
        self._seconds.reset()

    def collect(self) -> Iterator[Metric]:
        self._leader.set(("kube-scheduler",), int(self._is_leader()))
        families: tuple[Family, ...] = (self._requests, self._seconds, self._leader, self._build)
        for family in families:
            if (metric := family.metric({})) is not None:
                yield metric

    def describe(self) -> Iterator[Metric]:
        return iter(())
