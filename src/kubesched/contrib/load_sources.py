"""Where measured loads of nodes come from: load-watcher, Prometheus, or the metrics API."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Final, Literal, Self

import msgspec

from kubesched.api import objects as api
from kubesched.api.quantity import milli, value
from kubesched.framework.handle import Handle

AVERAGE, DEVIATION, LATEST = "AVG", "STD", "Latest"
CPU, MEMORY = "CPU", "Memory"
TIMEOUT_SECONDS: Final = 10.0
PROMETHEUS: Final = "http://prometheus-k8s:9090"
WATCHER: Final = "http://load-watcher:2020"
WINDOW: Final = "15m"
SERIES: Final = {CPU: "instance:node_cpu:ratio", MEMORY: "instance:node_memory_utilisation:ratio"}
FUNCTIONS: Final = {AVERAGE: "avg_over_time", DEVIATION: "stddev_over_time"}


class LoadMetric(msgspec.Struct, frozen=True, gc=False):
    """A measured value of a node, in percent, as load-watcher writes it."""

    type: str = ""
    operator: str = ""
    value: float = 0.0


class NodeLoads(msgspec.Struct, frozen=True):
    """Measured values by node, and when the time over which they were measured ended, in seconds."""

    end: float
    nodes: Mapping[str, Sequence[LoadMetric]]


class MetricProvider(msgspec.Struct, frozen=True, rename="camel"):
    """A source of measurements."""

    type: Literal["", "KubernetesMetricsServer", "Prometheus", "SignalFx"] = ""
    address: str = ""
    token: str = ""
    insecure_skip_verify: bool | None = None

    def __post_init__(self) -> None:
        if self.type == "Prometheus" and self.address:
            check_url("address", self.address, PROMETHEUS)


class LoadSourceError(Exception):
    """Loads cannot be read from this source at all."""


def check_url(field: str, address: str, example: str) -> None:
    """Raises ValueError unless an address can be one of an HTTP server."""
    if not address.startswith(("http://", "https://")):
        raise ValueError(f"{field} must begin with http:// or https://, such as {example}; got {address!r}")


class LoadSource(msgspec.Struct, frozen=True):
    """Where to read: a load-watcher if there is an address, else a provider."""

    watcher_address: str = ""
    provider: MetricProvider = MetricProvider()

    async def read(self, handle: Handle) -> NodeLoads:
        """The newest measurements. Raises what the calls raise."""
        if self.watcher_address:
            return await self._load_watcher()
        if self.provider.type == "SignalFx":
            raise LoadSourceError("kubesched does not read SignalFx itself")
        now = handle.clock.now()
        if self.provider.type == "Prometheus":
            return NodeLoads(now, await self._prometheus())
        return NodeLoads(now, await _metrics_api(handle))

    @property
    def advice(self) -> str:
        """What to do if loads cannot be read."""
        if self.watcher_address:
            return f"check that a load-watcher serves {self.watcher_address.rstrip('/')}/watcher"
        if self.provider.type == "SignalFx":
            return "run a load-watcher that reads SignalFx, and give its address as watcherAddress"
        if self.provider.type == "Prometheus":
            address = self.provider.address or PROMETHEUS
            return f"check that Prometheus serves {address}, and metricProvider.token if it needs one"
        return "install metrics-server, and let the scheduler list nodes of metrics.k8s.io, as deploy/contrib does"

    async def _load_watcher(self) -> NodeLoads:
        found = msgspec.convert(await self._get(f"{self.watcher_address.rstrip('/')}/watcher"), _WatcherAnswer)
        nodes = {name: each.metrics for name, each in found.data.NodeMetricsMap.items()}
        return NodeLoads(found.window.end, nodes)

    async def _prometheus(self) -> dict[str, list[LoadMetric]]:
        address = (self.provider.address or PROMETHEUS).rstrip("/")
        nodes: dict[str, list[LoadMetric]] = {}
        for operator, function in FUNCTIONS.items():
            for kind, series in SERIES.items():
                query = {"query": f"{function}({series}[{WINDOW}])"}
                found = msgspec.convert(await self._get(f"{address}/api/v1/query", query), _PrometheusAnswer)
                for each in found.data.result:
                    metric = LoadMetric(kind, operator, 100 * float(each.value[1]))
                    nodes.setdefault(each.metric.get("instance", ""), []).append(metric)
        return nodes

    async def _get(self, url: str, query: Mapping[str, str] | None = None) -> Any:
        import aiohttp  # needed by these two sources alone

        headers = {"Authorization": f"Bearer {self.provider.token}"} if self.provider.token else {}
        skip = self.provider.insecure_skip_verify
        verify = not (self.provider.type == "Prometheus" if skip is None else skip)  # upstream's default
        timeout = aiohttp.ClientTimeout(total=TIMEOUT_SECONDS)
        async with (
            aiohttp.ClientSession(timeout=timeout, headers=headers, raise_for_status=True, trust_env=True) as session,
            session.get(url, params=query, ssl=verify) as answer,
        ):
            return msgspec.json.decode(await answer.read())


class LoadAwareArgs(msgspec.Struct, frozen=True, rename="camel", kw_only=True):
    """The arguments that load-aware plugins have in common."""

    metric_provider: MetricProvider = MetricProvider()
    watcher_address: str = ""

    def __post_init__(self) -> None:
        if self.watcher_address:
            check_url("watcherAddress", self.watcher_address, WATCHER)

    @property
    def source(self) -> LoadSource:
        """Where loads are read."""
        return LoadSource(self.watcher_address, self.metric_provider)

    def without_secrets(self) -> Self:
        """The arguments as they may be logged."""
        hidden = msgspec.structs.replace(self.metric_provider, token="-- REDACTED --")  # noqa: S106 - no token
        return msgspec.structs.replace(self, metric_provider=hidden) if self.metric_provider.token else self


class MeasuredNode(api.Object, frozen=True):
    """A NodeMetrics object of the metrics API."""

    api_version: ClassVar[str] = "metrics.k8s.io/v1beta1"
    kind: ClassVar[str] = "NodeMetrics"
    plural: ClassVar[str] = "nodes"
    namespaced: ClassVar[bool] = False

    usage: api.ResourceList = msgspec.field(default_factory=dict)


async def _metrics_api(handle: Handle) -> dict[str, list[LoadMetric]]:
    found: dict[str, list[LoadMetric]] = {}
    for each in await handle.client.list(MeasuredNode):
        node = handle.cluster.get(api.Node, each.name)
        if node is not None:
            found[each.name] = [
                LoadMetric(kind, LATEST, 100 * _whole(each.usage[name], name) / whole)
                for kind, name in ((CPU, "cpu"), (MEMORY, "memory"))
                if name in each.usage and (whole := capacity(node, name))
            ]
    return found


def capacity(node: api.Node, resource: str) -> int:
    """What a node has of a resource; what it offers, if it does not say."""
    given = node.status.capacity.get(resource, node.status.allocatable.get(resource))
    return 0 if given is None else _whole(given, resource)


def _whole(quantity: api.Quantity, resource: str) -> int:
    """In thousandths of a CPU, or in bytes, rounded up as load-watcher does: usage is measured more finely."""
    return milli(quantity) if resource == "cpu" else value(quantity)


class _Window(msgspec.Struct):
    end: float = 0.0


class _Metrics(msgspec.Struct):
    metrics: list[LoadMetric] = []


class _Data(msgspec.Struct):
    NodeMetricsMap: dict[str, _Metrics] = {}


class _WatcherAnswer(msgspec.Struct):
    window: _Window = msgspec.field(default_factory=_Window)
    data: _Data = msgspec.field(default_factory=_Data)


class _Sample(msgspec.Struct):
    metric: dict[str, str]
    value: tuple[float, str]


class _Vector(msgspec.Struct):
    result: list[_Sample] = []


class _PrometheusAnswer(msgspec.Struct):
    data: _Vector = msgspec.field(default_factory=_Vector)
