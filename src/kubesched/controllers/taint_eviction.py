"""NoExecute taints: evicts pods that do not tolerate them, at once or after their toleration seconds."""

from __future__ import annotations

import math

from kubesched.api.taints import NO_EXECUTE, tolerates
from kubesched.apiserver.meta import parse_timestamp
from kubesched.base.types import JSON
from kubesched.reconcile.access import PODS
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import pod_reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Node, Pod, Taint


class TaintEvictionController(Controller):
    """Deletes pods from nodes whose taints they do not tolerate."""

    name = "taint-eviction-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._since: dict[tuple[str, str, str], float] = {}
        """When a taint without a timestamp was first seen on a node."""
        context.nodes.watch(self._on_node)
        context.pods.watch(self._on_pod, status=False)

    def _on_node(self, old: Node | None, new: Node | None) -> None:
        if new is not None and _evicting(new) != (_evicting(old) if old is not None else ()):
            for pod in self._context.pods_by_node.get(new.metadata.name):
                self.enqueue(pod.key)
        if new is None and old is not None:
            for key in [key for key in self._since if key[0] == old.metadata.name]:
                del self._since[key]

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or not new.spec.node_name or new.metadata.being_deleted:
            return
        if old is None or not old.spec.node_name or old.spec.tolerations != new.spec.tolerations:
            node = self._context.nodes.get(new.spec.node_name)
            if node is not None and _evicting(node):
                self.enqueue(new.key)

    def sync(self, key: str) -> None:
        pod = self._context.pods.get(key)
        node = self._context.nodes.get(pod.spec.node_name) if pod is not None else None
        if pod is None or node is None or pod.metadata.being_deleted:
            return
        left = self._seconds_left(pod, node)
        if left <= 0:
            self._evict(pod)
        elif left < math.inf:
            self.enqueue(key, left)

    def _seconds_left(self, pod: Pod, node: Node) -> float:
        """Return how long the pod may still stay; infinity for ever."""
        now = self._context.access.clock.now()
        left = math.inf
        for taint in _evicting(node):
            tolerating = [each for each in pod.spec.tolerations if tolerates(each, taint)]
            if not tolerating:
                return 0.0
            limits = [each.toleration_seconds for each in tolerating if each.toleration_seconds is not None]
            if limits:
                left = min(left, self._began(node, taint, now) + max(0, min(limits)) - now)
        return left

    def _began(self, node: Node, taint: Taint, now: float) -> float:
        if taint.time_added:
            return parse_timestamp(taint.time_added)
        return self._since.setdefault((node.metadata.name, taint.key, taint.value), now)

    def _evict(self, pod: Pod) -> None:
        text = f"Marking for deletion Pod {pod.key}"
        self._context.events.record(self.name, pod_reference(pod), "Normal", "TaintManagerEviction", text)
        evict(self._context, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")


def evict(context: ControllerContext, pod: Pod, reason: str, message: str) -> None:
    """Delete a pod, after setting the condition that says why."""
    access = context.access
    now = access.now()

    def edit(obj: JSON) -> None:
        new = {"type": "DisruptionTarget", "status": "True", "reason": reason, "message": message}
        obj["status"]["conditions"] = set_condition(obj["status"].get("conditions") or [], new, now)

    access.edit_status(PODS, pod.key, edit, pod.metadata.uid)
    access.delete(PODS, pod.key, uid=pod.metadata.uid)


def _evicting(node: Node) -> tuple[Taint, ...]:
    return tuple(taint for taint in node.spec.taints if taint.effect == NO_EXECUTE)
