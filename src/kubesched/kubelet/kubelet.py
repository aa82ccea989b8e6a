"""Simulated kubelets, one object for all nodes: pods that are bound start, run, end and go, without any container.

Everything is a timer in the event loop, so on virtual time a day passes in seconds, and five thousand idle nodes cost
no more than their heartbeats. A kubelet that is told to stop, by an annotation on its node, falls silent like a machine
that lost its power: its pods stay as they are and the rest of the cluster has to notice.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from kubesched.apiserver.meta import parse_timestamp
from kubesched.base.annotations import EXIT_CODE, RUN_TIME
from kubesched.base.types import JSON
from kubesched.config.duration import Duration
from kubesched.kubelet import status as steps
from kubesched.kubelet.nodes import Nodes, NodeSettings
from kubesched.reconcile.access import PODS
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.views import Container, Node, Pod

FIRST_RESTART, LAST_RESTART = 10, 300


@dataclass(frozen=True, slots=True)
class KubeletSettings:
    """How fast simulated kubelets are."""

    start_delay: float = 0.5
    """Seconds from the binding of a pod to its running."""
    stop_delay: float = 0.2
    """Seconds from the deletion of a pod to its being gone; never longer than its grace."""
    run_time: float = 5.0
    """Seconds that a pod runs which ends and does not say after how long."""
    every_step: bool = True
    """Write each step of starting, as kubelets do, and not only the last; a large simulation can do without."""


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
        self._settings = settings or KubeletSettings()
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._step: dict[str, str] = {}
        """What is being done with each pod, by UID: starting, running or stopping."""
        self.nodes = Nodes(context, node_settings or NodeSettings())
        self.nodes.on_change = self._on_node
        context.pods.watch(self._on_pod)

    async def run(self) -> None:
        """Send heartbeats until cancelled; then let all pods be."""
        try:
            await self.nodes.run()
        finally:
            for timer in self._timers.values():
                timer.cancel()
            self._timers.clear()

    # --- what has to be done ------------------------------------------------------------------------------------------

    def _on_node(self, node: Node) -> None:
        for pod in self._context.pods_by_node.get(node.metadata.name):
            self._consider(pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.metadata.uid != old.metadata.uid):
            self._forget(old.metadata.uid)
            self.nodes.addresses.free(old)
        if new is not None and new.spec.node_name:
            if new.has_ended:
                self.nodes.addresses.free(new)
            self._consider(new)

    def _consider(self, pod: Pod) -> None:
        """Begin what a pod needs next, unless that is under way."""
        uid = pod.metadata.uid
        if not self.nodes.is_up(pod.spec.node_name):
            self._forget(uid)
            return
        wanted = self._wanted(pod)
        if pod.status.phase == "Running" and wanted != "stopping":
            self._keep_up(pod)
        if self._step.get(uid) == wanted:
            return
        self._forget(uid)
        if not wanted:
            return
        self._step[uid] = wanted
        if wanted == "stopping":
            delay = min(self._settings.stop_delay, float(pod.metadata.deletion_grace_period_seconds))
            self._tell_killing(pod)
            self._after(delay, uid, self._gone, pod)
        elif wanted == "starting":
            # Not at once: whoever bound the pod is to hear of that before it hears of this.
            self._after(0.0 if self._settings.every_step else self._settings.start_delay, uid, self._start, pod)
        else:
            self._plan_end(pod)

    def _wanted(self, pod: Pod) -> str:
        if pod.metadata.being_deleted:
            return "stopping"
        if pod.has_ended:
            return ""
        if pod.status.phase == "Running":
            return "running" if pod.spec.restart_policy != "Always" or pod.spec.active_deadline_seconds else ""
        return "starting"

    def _keep_up(self, pod: Pod) -> None:
        """What may be added to a pod that runs already: containers for debugging, and others' word on its readiness."""
        if len(pod.spec.ephemeral_containers) > len(pod.status.ephemeral_container_statuses):
            self._soon(pod, steps.debugged(self._access.now(), self._container_id))
        if pod.spec.readiness_gates and pod.is_ready is not pod.passes_gates:
            self._soon(pod, steps.gated(self._access.now()))

    def _soon(self, pod: Pod, edit: Callable[[JSON], None]) -> None:
        """Write after whoever made the change is done with it."""
        asyncio.get_running_loop().call_soon(self._write, pod, edit)

    def _after(self, seconds: float, uid: str, act: Callable[[Pod], None], pod: Pod) -> None:
        if (timer := self._timers.pop(uid, None)) is not None:
            timer.cancel()
        self._timers[uid] = asyncio.get_running_loop().call_later(seconds, self._act, uid, act, pod)

    def _act(self, uid: str, act: Callable[[Pod], None], pod: Pod) -> None:
        self._timers.pop(uid, None)
        current = self._context.pods.get(pod.key)
        if current is not None and current.metadata.uid == uid and self.nodes.is_up(current.spec.node_name):
            act(current)

    def _forget(self, uid: str) -> None:
        self._step.pop(uid, None)
        if (timer := self._timers.pop(uid, None)) is not None:
            timer.cancel()

    def _write(self, pod: Pod, edit: Callable[[JSON], None]) -> None:
        self._access.edit_status(PODS, pod.key, edit, pod.metadata.uid)

    # --- starting -----------------------------------------------------------------------------------------------------

    def _start(self, pod: Pod) -> None:
        if missing := self._missing_claim(pod):
            self._tell(pod, "Warning", "FailedMount", missing)
            self._after(2.0, pod.metadata.uid, self._start, pod)
            return
        if not self._settings.every_step:
            self._run_at_once(pod)
            return
        delay, uid = self._settings.start_delay, pod.metadata.uid
        self._write(pod, steps.starting(self.nodes.addresses.node(pod.spec.node_name), self._access.now()))
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            if self._must_pull(pod, container):
                self._tell(pod, "Normal", "Pulling", f'Pulling image "{container.image}"', container)
        self._after(delay / 2, uid, self._connect, pod)

    def _connect(self, pod: Pod) -> None:
        self._write(pod, steps.networked(self.nodes.addresses.pod(pod), self._access.now()))
        self._after(self._settings.start_delay / 2, pod.metadata.uid, self._run, pod)

    def _run_at_once(self, pod: Pod) -> None:
        now = self._access.now()
        begin = steps.starting(self.nodes.addresses.node(pod.spec.node_name), now)
        connect = steps.networked(self.nodes.addresses.pod(pod), now)
        run = steps.running(now, self._container_id)

        def edit(obj: JSON) -> None:
            begin(obj)
            connect(obj)
            run(obj)

        self.nodes.pulled(pod)
        self._write(pod, edit)

    def _run(self, pod: Pod) -> None:
        for container in (*pod.spec.init_containers, *pod.spec.containers):
            image = container.image
            if self._must_pull(pod, container):
                self._tell(pod, "Normal", "Pulled", f'Successfully pulled image "{image}"', container)
            else:
                message = f'Container image "{image}" already present on machine'
                self._tell(pod, "Normal", "Pulled", message, container)
            self._tell(pod, "Normal", "Created", f"Created container {container.name}", container)
            self._tell(pod, "Normal", "Started", f"Started container {container.name}", container)
        self.nodes.pulled(pod)
        self._write(pod, steps.running(self._access.now(), self._container_id))

    def _must_pull(self, pod: Pod, container: Container) -> bool:
        policy = container.image_pull_policy
        return policy == "Always" or (
            policy != "Never" and not self.nodes.has_image(pod.spec.node_name, container.image)
        )

    def _missing_claim(self, pod: Pod) -> str:
        """Why the volumes of a pod cannot be mounted, if they cannot: it was bound past the scheduler, most likely."""
        for claim in pod.claims:
            found = self._access.get("/persistentvolumeclaims", f"{pod.metadata.namespace}/{claim}")
            if found is None:
                return f'persistentvolumeclaim "{claim}" not found'
            if (found.get("status") or {}).get("phase") != "Bound":
                return f'persistentvolumeclaim "{claim}" is not bound'
        return ""

    def _container_id(self) -> str:
        return f"containerd://{self._context.random.getrandbits(256):064x}"

    # --- ending -------------------------------------------------------------------------------------------------------

    def _plan_end(self, pod: Pod) -> None:
        since = parse_timestamp(pod.ready_since) if pod.ready_since else self._access.clock.now()
        passed = self._access.clock.now() - since
        if passed < 1.0:
            # It has just begun: dates are in whole seconds. Otherwise it ran already when this process started.
            passed = 0.0
        runs = run_time(pod, self._settings.run_time)
        deadline = pod.spec.active_deadline_seconds
        if deadline is not None and (pod.spec.restart_policy == "Always" or deadline < runs):
            self._after(max(0.0, deadline - passed), pod.metadata.uid, self._too_long, pod)
        elif pod.spec.restart_policy != "Always":
            self._after(max(0.0, runs - passed), pod.metadata.uid, self._end, pod)

    def _end(self, pod: Pod) -> None:
        code = exit_code(pod)
        if code and pod.spec.restart_policy == "OnFailure":
            self._crash(pod, code)
            return
        self._write(pod, steps.ended(code, self._access.now()))

    def _crash(self, pod: Pod, code: int) -> None:
        wait = min(FIRST_RESTART * 2**pod.restarts, LAST_RESTART)
        self._write(pod, steps.waiting_to_restart(code, self._access.now(), wait))
        self._tell(pod, "Warning", "BackOff", f"Back-off restarting failed container in pod {pod.metadata.name}")
        self._step[pod.metadata.uid] = "running"
        self._after(float(wait), pod.metadata.uid, self._restart, pod)

    def _restart(self, pod: Pod) -> None:
        self._write(pod, steps.running(self._access.now(), self._container_id))
        self._after(run_time(pod, self._settings.run_time), pod.metadata.uid, self._end, pod)

    def _too_long(self, pod: Pod) -> None:
        message = "Pod was active on the node longer than the specified deadline"
        self._tell(pod, "Normal", "DeadlineExceeded", message)
        self._write(pod, steps.ended(137, self._access.now(), reason="DeadlineExceeded", message=message))

    def _tell_killing(self, pod: Pod) -> None:
        if pod.status.phase == "Running":
            for container in pod.spec.containers:
                self._tell(pod, "Normal", "Killing", f"Stopping container {container.name}", container)

    def _gone(self, pod: Pod) -> None:
        """The containers have ended, and with that the pod may go; finalizers may still hold it."""
        if pod.status.phase == "Running" and pod.metadata.finalizers:
            self._write(pod, steps.ended(0, self._access.now()))
        self._access.remove(PODS, pod.key, pod.metadata.uid)

    # --- telling ------------------------------------------------------------------------------------------------------

    def _tell(self, pod: Pod, kind: str, reason: str, message: str, container: Container | None = None) -> None:
        meta = pod.metadata
        about = {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "apiVersion": "v1"}
        field = f"spec.containers{{{container.name}}}" if container is not None else ""
        node = pod.spec.node_name
        self._context.events.record("kubelet", about, kind, reason, message, host=node, field=field)


def run_time(pod: Pod, default: float) -> float:
    """How long a pod runs that ends: what its annotation says, or a command ``sleep N``, or the default."""
    if text := pod.metadata.annotations.get(RUN_TIME):
        try:
            return float(text) if text.replace(".", "", 1).isdecimal() else Duration.parse(text).seconds
        except ValueError:
            return default
    for container in pod.spec.containers:
        words = (*container.command, *container.args)
        if len(words) == 2 and words[0] == "sleep" and words[1].replace(".", "", 1).isdecimal():
            return float(words[1])
    return default


def exit_code(pod: Pod) -> int:
    """How a pod ends: what its annotation says, or with 1 if its command is ``false``."""
    text = pod.metadata.annotations.get(EXIT_CODE, "")
    if text.isdecimal():
        return int(text)
    return int(any((*each.command, *each.args)[:1] == ("false",) for each in pod.spec.containers))
