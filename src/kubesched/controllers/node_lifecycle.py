"""Node conditions: detects nodes that stopped reporting, and taints nodes by their conditions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from kubesched.api.taints import NO_EXECUTE, NO_SCHEDULE, TAINT_NODE_UNSCHEDULABLE
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.access import LEASES, NODES, PODS
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Node, Taint

_LEASES_IN = "kube-node-lease/"
_UNKNOWN = ("NodeStatusUnknown", "Kubelet stopped posting node status.")
TAINT_NODE_NOT_READY = "node.kubernetes.io/not-ready"
TAINT_NODE_UNREACHABLE = "node.kubernetes.io/unreachable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
    "NetworkUnavailable": "node.kubernetes.io/network-unavailable",
}
_MANAGED = frozenset((*_PRESSURES.values(), TAINT_NODE_NOT_READY, TAINT_NODE_UNREACHABLE, TAINT_NODE_UNSCHEDULABLE))


@dataclass(frozen=True, slots=True)
class LifecycleSettings:
    """When a node counts as lost."""

    grace: float = 50.0
    """Seconds without a heartbeat, as upstream's --node-monitor-grace-period."""


class NodeLifecycleController(Controller):
    """Taints nodes by their conditions, and marks silent nodes as unknown."""

    name = "node-lifecycle-controller"

    def __init__(
        self,
        context: ControllerContext,
        settings: LifecycleSettings | None = None,
        heartbeat: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._settings = settings or LifecycleSettings()
        self._heartbeat = heartbeat or (lambda: 10.0)
        self._last_seen: dict[str, float] = {}
        context.nodes.watch(self._on_node)
        shelf = self._access.store.shelf(LEASES)
        shelf.observers.append(self._on_lease)

    @property
    def _grace(self) -> float:
        """The grace period. It is longer with very many nodes, because their simulated kubelets report less often."""
        return max(self._settings.grace, 4 * self._heartbeat())

    def _on_lease(self, event: StoreEvent) -> None:
        if event.record.key.startswith(_LEASES_IN):
            self._last_seen[event.record.name] = self._access.clock.monotonic()

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is None:
            assert old is not None
            self._last_seen.pop(old.metadata.name, None)
        elif old is None or (old.spec, old.status.conditions) != (new.spec, new.status.conditions):
            if old is None or old.status.conditions != new.status.conditions:
                self._last_seen[new.metadata.name] = self._access.clock.monotonic()
            self.enqueue(new.metadata.name)
        elif old.kubelet_stopped is not new.kubelet_stopped:
            self._last_seen[new.metadata.name] = self._access.clock.monotonic()
            self.enqueue(new.metadata.name)

    def sync(self, key: str) -> None:
        node = self._context.nodes.get(key)
        if node is None:
            return
        self._check_silence(node)
        self._set_taints(self._context.nodes.objects[key])

    def _check_silence(self, node: Node) -> None:
        if not self._heartbeat() and not node.kubelet_stopped:
            return
        name = node.metadata.name
        silent = self._access.clock.monotonic() - self._last_seen.get(name, 0.0)
        if silent < self._grace:
            self.enqueue(name, self._grace - silent + 0.001)
        elif node.readiness != "Unknown":
            self.declare_unknown(name)
            self._last_seen[name] = self._access.clock.monotonic() - self._grace

    def declare_unknown(self, name: str) -> None:
        """Set the conditions of a silent node to Unknown."""
        now = self._access.now()
        reason, message = _UNKNOWN

        def edit(node: JSON) -> None:
            conditions = list(node["status"].get("conditions") or [])
            for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure"):
                before: JSON = next((each for each in conditions if each.get("type") == kind), {})
                new = {**before, "type": kind, "status": "Unknown", "reason": reason, "message": message}
                conditions = set_condition(conditions, new, now)
            node["status"]["conditions"] = conditions

        self._access.edit_status(NODES, name, edit)
        for pod in self._context.pods_by_node.get(name):
            self._access.edit_status(PODS, pod.key, _unready(now), pod.metadata.uid)
        found = self._access.get(NODES, name)
        if found is not None:
            about = {"kind": "Node", "name": name, "uid": name, "apiVersion": "v1"}
            text = f"Node {name} status is now: NodeNotReady"
            self._context.events.record("node-controller", about, "Normal", "NodeNotReady", text)

    def _set_taints(self, node: Node) -> None:
        wanted = self._wanted(node)
        kept = [each for each in node.spec.taints if each.key not in _MANAGED]
        found = {(each.key, each.effect) for each in node.spec.taints if each.key in _MANAGED}
        if found == set(wanted):
            return
        now = self._access.now()
        times = {(each.key, each.effect): each.time_added for each in node.spec.taints}

        def edit(obj: JSON) -> None:
            others = [_taint_json(each) for each in kept]
            own = [
                {"key": key, "effect": effect, "timeAdded": times.get((key, effect)) or now} for key, effect in wanted
            ]
            obj["spec"]["taints"] = [*others, *own]
            if not obj["spec"]["taints"]:
                del obj["spec"]["taints"]

        self._access.edit(NODES, node.key, edit)

    def _wanted(self, node: Node) -> list[tuple[str, str]]:
        taints: list[tuple[str, str]] = []
        if node.spec.unschedulable:
            taints.append((TAINT_NODE_UNSCHEDULABLE, NO_SCHEDULE))
        readiness = node.readiness
        if readiness == "False" or not readiness:
            taints.append((TAINT_NODE_NOT_READY, NO_SCHEDULE))
        if readiness == "False":
            taints.append((TAINT_NODE_NOT_READY, NO_EXECUTE))
        elif readiness == "Unknown":
            taints += [(TAINT_NODE_UNREACHABLE, NO_SCHEDULE), (TAINT_NODE_UNREACHABLE, NO_EXECUTE)]
        for condition in node.status.conditions:
            if condition.type in _PRESSURES and condition.status == "True":
                taints.append((_PRESSURES[condition.type], NO_SCHEDULE))
        return taints


def _unready(now: str) -> Callable[[JSON], None]:
    def edit(pod: JSON) -> None:
        conditions = pod["status"].get("conditions") or []
        ready = next((each for each in conditions if each.get("type") == "Ready"), None)
        if ready is not None and ready.get("status") == "True":
            pod["status"]["conditions"] = set_condition(conditions, {**ready, "status": "False"}, now)

    return edit


def _taint_json(taint: Taint) -> JSON:
    parts = {"key": taint.key, "value": taint.value, "effect": taint.effect, "timeAdded": taint.time_added}
    return {name: value for name, value in parts.items() if value}
