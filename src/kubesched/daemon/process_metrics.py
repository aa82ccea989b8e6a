"""Metrics about the process, not about scheduling: requests to the API server, leadership, the build."""

from __future__ import annotations

import platform
import resource
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from kubesched.client.transport import RequestDone
from kubesched.daemon.version import KUBERNETES_MAJOR, KUBERNETES_MINOR, short_version
from kubesched.scheduler.metric_types import BETA, Allowed, CounterFamily, Gauge, Histogram
from kubesched.scheduler.metrics import Metrics

SIZES = [64.0, 256.0, 512.0, *(1024.0 * 4**power for power in range(8))]
LATENCIES = [0.005, 0.025, 0.1, 0.25, 0.5, 1.0, 2.0, 4.0, 8.0, 15.0, 30.0, 60.0]


class ProcessMetrics:
    """Registers the process's metrics with the scheduler's."""

    def __init__(self, metrics: Metrics) -> None:
        self.request = metrics.backlog(self._count_requests).add
        """Count a finished request to the API server."""
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
        self._sent, self._received = (
            metrics.add(
                Histogram(
                    f"rest_client_{name.lower()}_size_bytes",
                    f"{name} size in bytes. Broken down by verb and host.",
                    SIZES,
                    ("verb", "host"),
                )
            )
            for name in ("Request", "Response")
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
        versions = Gauge(
            "version_info",
            "Provides the compatibility version info of the component. The component label is the name of the "
            "component, usually kube, but is relevant for aggregated-apiservers.",
            ("component", "binary", "emulation", "min_compat"),
        )
        minor = int(KUBERNETES_MINOR)
        compatible = f"{KUBERNETES_MAJOR}.{minor}", f"{KUBERNETES_MAJOR}.{minor - 1}"
        versions.set(("kube", short_version().removeprefix("v"), *compatible), 1)
        metrics.add(versions)
        metrics.add(_RegisteredMetrics(metrics))
        metrics.add(CounterFamily("hidden_metrics_total", "The count of hidden metrics.", (), BETA))
        disabled = metrics.add(CounterFamily("disabled_metrics_total", "The count of disabled metrics.", (), BETA))
        disabled.add((), len(metrics.disabled))
        metrics.registry.register(_Kernel())

    def _count_requests(self, requests: list[RequestDone]) -> None:
        """Count finished requests to the API server. Most are alike: their numbers are columns of a table."""
        tables: defaultdict[tuple[str, str, int], list[RequestDone]] = defaultdict(list)
        for done in requests:
            tables[done.verb, done.host, done.code].append(done)
        for (verb, host, code), table in tables.items():
            place = (verb, host)
            self._requests.add((str(code) if code else "<error>", *place), len(table))
            self._seconds.observe_all(place, [done.seconds for done in table])
            self._waits.observe_all(place, [done.waited for done in table])
            self._sent.observe_all(place, [done.sent for done in table])
            self._received.observe_all(place, [done.received for done in table if done.received is not None])

    def leads(self, leads: bool) -> None:
        """Record whether this process is the leader."""
        self._leader.set(("kube-scheduler",), int(leads))


class _RegisteredMetrics(CounterFamily):
    """How many metrics there are, counted on every scrape."""

    def __init__(self, metrics: Metrics) -> None:
        text = "The count of registered metrics broken by stability level and deprecation version."
        super().__init__("registered_metrics_total", text, ("stability_level", "deprecated_version"), BETA)
        self._metrics = metrics

    def metric(self, allowed: Allowed) -> Metric | None:
        self.values.clear()
        for family in self._metrics.families:
            self.values[family.stability, ""] += 1
        return super().metric(allowed)


class _Kernel(Collector):
    """What Go's process metrics have and Python's lack."""

    def collect(self) -> Iterator[Metric]:
        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        most = GaugeMetricFamily(
            "process_virtual_memory_max_bytes", "Maximum amount of virtual memory available in bytes."
        )
        most.add_metric((), float(limit if limit != resource.RLIM_INFINITY else 2**64))
        yield most
        traffic = _network_traffic()
        for name, done, column in (("receive", "received", "InOctets"), ("transmit", "sent", "OutOctets")):
            if column in traffic:
                text = f"Number of bytes {done} by the process over the network."
                yield CounterMetricFamily(f"process_network_{name}_bytes_total", text, value=traffic[column])

    def describe(self) -> Iterator[Metric]:
        return iter(())


def _network_traffic(path: Path = Path("/proc/self/net/netstat")) -> dict[str, int]:
    """The IP counters of the network namespace, which is what Go's client reports for the process; empty where the
    kernel has none."""
    try:
        lines = [line.split() for line in path.read_text("ascii").splitlines() if line.startswith("IpExt:")]
        names, values = lines
    except (OSError, ValueError):
        return {}
    return dict(zip(names[1:], map(int, values[1:]), strict=False))
