"""Simulated kubelets, one object for all nodes: bound pods start, run, end and disappear, without any real container.

Everything is a timer in the event loop. On virtual time a day passes in seconds, and five thousand idle nodes cost no
more than their heartbeats. An annotation on a node stops its kubelet: it falls silent like a machine without power, its
pods stay as they are, and the rest of the cluster has to notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import msgspec

from kubesched.base.types import JSON
from kubesched.kubelet import resizing, status
from kubesched.kubelet.container_state import Role, SimulatedContainer
from kubesched.kubelet.nodes import NodeSettings, SimulatedNodes
from kubesched.kubelet.pod_worker import Host, PodWorker, is_settled, new_container_id, stage_of
from kubesched.kubelet.settings import KubeletSettings
from kubesched.kubelet.timeline import ProgramHealth
from kubesched.reconcile.access import NODES, PODS
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.views import Container, Node, Pod

_RESIZE_RETRY = 5.0
"""How long a resize waits that its node has no room for."""


class Kubelets:
    """The kubelets of all nodes."""

    def __init__(
        self,
        context: ControllerContext,
        settings: KubeletSettings | None = None,
        node_settings: NodeSettings | None = None,
    ) -> None:
        self._context = context
        self._access = context.access
        self.nodes = SimulatedNodes(context, node_settings or NodeSettings())
        self._host = Host(context, settings or KubeletSettings(), self.nodes)
        self._workers: dict[str, PodWorker] = {}
        """By the pod's UID, for pods about which something is left to do."""
        self._stopped = False
        self.nodes.on_change = self._on_node
        context.pods.watch(self._on_pod)

    async def run(self) -> None:
        """Send heartbeats until cancelled; then leave all pods as they are."""
        try:
            await self.nodes.run()
        finally:
            self._stopped = True
            for worker in self._workers.values():
                worker.close()
            self._workers.clear()

    def _on_node(self, node: Node) -> None:
        for pod in self._context.pods_by_node.get(node.metadata.name):
            # While the kubelet was silent, the pod was marked as not ready.
            self._update(pod, recheck=not pod.is_ready)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._drop(old.metadata.uid)
            self.nodes.addresses.free(old)
        if new is not None and new.spec.node_name:
            if new.has_ended:
                self.nodes.addresses.free(new)
            self._update(new)

    def _update(self, pod: Pod, *, recheck: bool = False) -> None:
        """Give a pod a worker while there is something to do about it."""
        uid, stage = pod.metadata.uid, stage_of(pod)
        if self._stopped or not stage or not self.nodes.is_up(pod.spec.node_name):
            self._drop(uid)
            return
        if pod.status.phase == "Running" and stage == "active":
            self._follow_spec(pod)
        if is_settled(pod) and not recheck:
            self._drop(uid)
            return
        worker = self._workers.get(uid)
        if worker is None:
            worker = self._workers[uid] = PodWorker(self._host, pod)
        worker.update(pod, stage)

    def use_programs(self, health_of: Callable[[Pod, Container], ProgramHealth | None]) -> None:
        """Let containers be started and ready only if the programs that run for them are."""
        self._host.health_of = health_of

    def exited(self, pod: Pod, container: str, exit_code: int) -> None:
        """End a container whose program has ended by itself; the pod's restart policy decides what follows."""
        if (worker := self._worker(pod)) is not None:
            worker.exited(container, exit_code)

    def check(self, pod: Pod) -> None:
        """Bring a pod up to date: the health of a program has changed."""
        if (worker := self._worker(pod)) is not None:
            worker.check()

    def _worker(self, pod: Pod) -> PodWorker | None:
        """The worker of a pod, perhaps a new one; None if its kubelet has nothing to do with it."""
        current = self._context.pods.get(pod.key)
        if current is None or current.metadata.uid != pod.metadata.uid or not self.nodes.is_up(pod.spec.node_name):
            return None
        worker = self._workers.get(pod.metadata.uid)
        if worker is None:
            worker = self._workers[pod.metadata.uid] = PodWorker(self._host, current)
            worker.update(current, stage_of(current))
        return worker

    def _drop(self, uid: str) -> None:
        if (worker := self._workers.pop(uid, None)) is not None:
            worker.close()

    def _follow_spec(self, pod: Pod) -> None:
        """Handle what can change about a running pod: its size, containers for debugging, conditions for its gates."""
        if pod.metadata.generation > max(1, pod.status.observed_generation):
            asyncio.get_running_loop().call_soon(self._resize, pod)
        if len(pod.spec.ephemeral_containers) > len(pod.status.ephemeral_container_statuses):
            self._soon(pod, status.debugged(self._access.now(), lambda: new_container_id(self._context), _debugger))
        if pod.spec.readiness_gates and pod.containers_ready and pod.is_ready is not pod.passes_gates:
            self._soon(pod, status.gated(pod.spec.readiness_gates, self._access.now()))

    def _resize(self, pod: Pod, first: bool = True) -> None:
        """Give the containers of a pod what its spec says, if the node has it. If not, try again later."""
        found, node = self._access.get(PODS, pod.key), self._access.get(NODES, pod.spec.node_name)
        if found is None or node is None or found["metadata"]["uid"] != pod.metadata.uid or self._stopped:
            return
        meta, names = pod.metadata, resizing.changed_containers(found)
        beside = [each for each in self._context.pods_by_node.get(pod.spec.node_name) if not each.has_ended]
        others = (self._access.get(PODS, each.key) for each in beside if each.metadata.uid != meta.uid)
        why, message = resizing.obstacle(found, node, filter(None, others)) if names else ("", "")
        about = {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "apiVersion": "v1"}
        if why:
            if first:
                said = f"Pod resize {why.lower()}: {resizing.summary(found)}: {message}"
                self._context.events.record("kubelet", about, "Warning", f"Resize{why}", said, host=pod.spec.node_name)
            self._access.edit_status(PODS, pod.key, resizing.refused(why, message, self._access.now()), meta.uid)
            if why == "Deferred":
                asyncio.get_running_loop().call_later(_RESIZE_RETRY, self._resize, pod, False)
            return
        restarted = list(resizing.restarted(found, names))
        self._access.edit_status(PODS, pod.key, resizing.granted(), meta.uid)
        if names:
            said = f"Pod resize completed: {resizing.summary(found)}"
            self._context.events.record("kubelet", about, "Normal", "ResizeCompleted", said, host=pod.spec.node_name)
        for name in restarted if pod.spec.restart_policy == "Always" else ():
            if (worker := self._worker(pod)) is not None:
                worker.restart(name)

    def _soon(self, pod: Pod, edit: Callable[[JSON], None]) -> None:
        """Write after the current change is complete."""
        write = self._access.edit_status
        asyncio.get_running_loop().call_soon(write, PODS, pod.key, edit, pod.metadata.uid)


def _debugger(spec: JSON) -> SimulatedContainer:
    return SimulatedContainer(msgspec.convert(spec, Container), Role.MAIN)
