"""The metrics API (metrics.k8s.io), as metrics-server serves it, for `kubectl top` and autoscalers of other people."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from kubesched.api.quantity import NANO
from kubesched.apiserver.kinds.registry import NODE_METRICS, POD_METRICS
from kubesched.base.types import JSON
from kubesched.reconcile.access import NODES
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.usage import RESOURCES, Amounts, UsageReader

WINDOW = "15s"
_MILLI = NANO // 1000


class MetricsApi:
    """Computes metrics when they are read."""

    def __init__(self, context: ControllerContext) -> None:
        self._access = context.access
        self._events = context.events
        self._usage = UsageReader(context.access, self._report)

    def install(self) -> None:
        """Serve the metrics."""
        self._access.api.serve_computed(POD_METRICS, self._pods)
        self._access.api.serve_computed(NODE_METRICS, self._nodes)

    def _report(self, workload: JSON, problem: str) -> None:
        self._events.record("metrics-server", reference(workload), "Warning", "InvalidAnnotation", problem)

    def _pods(self, namespace: str) -> Iterator[JSON]:
        for each in self._usage.read(namespace):
            containers = [{"name": name, "usage": _shown(amounts)} for name, amounts in each.containers.items()]
            yield {**self._head(each.pod), "containers": containers}

    def _nodes(self, _namespace: str) -> Iterator[JSON]:
        totals: dict[str, Amounts] = defaultdict(lambda: dict.fromkeys(RESOURCES, 0))
        for each in self._usage.read():
            total = totals[each.pod["spec"]["nodeName"]]
            for amounts in each.containers.values():
                for resource, amount in amounts.items():
                    total[resource] += amount
        for node in self._access.list(NODES):
            yield {**self._head(node), "usage": _shown(totals[node["metadata"]["name"]])}

    def _head(self, obj: JSON) -> JSON:
        now = self._access.now()
        kept = {name: obj["metadata"][name] for name in ("name", "namespace", "labels") if name in obj["metadata"]}
        return {"metadata": {**kept, "creationTimestamp": now}, "timestamp": now, "window": WINDOW}


def _shown(amounts: Amounts) -> JSON:
    return {"cpu": cpu_text(amounts["cpu"]), "memory": f"{amounts['memory'] // NANO // 1024}Ki"}


def cpu_text(amount: int) -> str:
    """CPUs with the unit that metrics-server uses: thousandths if that is exact, else billionths."""
    return f"{amount // _MILLI}m" if amount % _MILLI == 0 else f"{amount}n"
