"""The life of one pod on its node: images, init containers, probes, restarts, the end.

A worker holds one timer, for the next moment at which something about the pod changes. At that moment `_advance` brings
all containers up to date and writes the status once.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass

from kubesched.apiserver.meta import parse_timestamp
from kubesched.base.types import JSON
from kubesched.kubelet import status
from kubesched.kubelet.behavior import DEFAULT, behavior_of
from kubesched.kubelet.container_state import FIRST_BACK_OFF, MAX_BACK_OFF, Role, SimulatedContainer, waiting
from kubesched.kubelet.images import does_not_exist
from kubesched.kubelet.nodes import SimulatedNodes
from kubesched.kubelet.preparation import has_port_conflict, missing_objects, refusal
from kubesched.kubelet.settings import KubeletSettings
from kubesched.kubelet.timeline import KILLED, ContainerRun, ProgramHealth, timeline
from kubesched.reconcile.access import CLAIMS, PODS
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.views import Container, Pod, Probe

MOUNT_RETRY = 2.0
_PORTS = "Predicate NodePorts failed: node(s) didn't have free ports for the requested pod ports"
_ROUNDING = 1e-6


def no_program(_pod: Pod, _container: Container) -> ProgramHealth | None:
    """Nothing runs in any container."""
    return None


@dataclass(slots=True)
class Host:
    """What all workers share."""

    context: ControllerContext
    settings: KubeletSettings
    nodes: SimulatedNodes
    health_of: Callable[[Pod, Container], ProgramHealth | None] = no_program
    """The health of the program that runs for a container; None if it is only simulated."""


class PodWorker:
    """Runs one pod."""

    def __init__(self, host: Host, pod: Pod) -> None:
        self._host = host
        self._access = host.context.access
        self._now = self._access.clock.monotonic
        self._pod = pod
        self._behavior = behavior_of(pod.metadata.annotations)
        self._init = [SimulatedContainer(each, _init_role(each)) for each in pod.spec.init_containers]
        self._main = [SimulatedContainer(each, Role.MAIN) for each in pod.spec.containers]
        self._containers = [*self._init, *self._main]
        self._stage = ""
        self._closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._initialized = False
        self._pulling: set[str] = set()
        self._told: tuple[str, ...] = ()
        """What is wrong with the annotations and has been told."""
        self._exits: dict[str, int] = {}
        """Exit codes of containers whose program has ended, until their run ends."""
        self._failed_pulls = 0
        self._retry: Callable[[], None] = self._begin
        """What to do at once when annotations change."""
        self._active_since = self._stopping_since = self._now()

    def update(self, pod: Pod, stage: str) -> None:
        """React to a change of the pod, given what there is to do with it now."""
        before, self._pod = self._pod, pod
        if stage != self._stage:
            self._enter(stage)
        elif stage == "active" and before.metadata.annotations != pod.metadata.annotations:
            self._behavior = behavior_of(pod.metadata.annotations)
            self._tell_problems()
            self._after(0.0, self._retry)
        elif stage == "stopping" and before.metadata != pod.metadata:
            self._plan_stop()

    def _tell_problems(self) -> None:
        for problem in self._behavior.problems:
            if problem not in self._told:
                self._record("Warning", "InvalidAnnotation", problem)
        self._told = self._behavior.problems

    def exited(self, container: str, exit_code: int) -> None:
        """End the current run of a container: a program that ran for it has ended."""
        self._exits[container] = exit_code
        self.check()

    def restart(self, container: str) -> None:
        """Restart a container at once: it is resized and cannot be while it runs."""
        for each in self._containers:
            if each.spec.name == container:
                each.crashes = 0
        self.exited(container, KILLED)

    def check(self) -> None:
        """Bring the containers up to date: the health of a program has changed."""
        if self._stage == "active":
            self._after(0.0, self._retry)

    def close(self) -> None:
        """Do nothing more, even if a write in progress has led to this call."""
        self._closed = True
        self._cancel()

    def _cancel(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _enter(self, stage: str) -> None:
        self._cancel()
        self._stage = stage
        if stage == "stopping":
            self._stopping_since = self._now()
            if self._pod.status.phase == "Running":
                for each in self._pod.spec.containers:
                    self._record("Normal", "Killing", f"Stopping container {each.name}", each)
            self._plan_stop()
        elif stage == "active" and self._pod.status.phase == "Running":
            self._resume()
        elif stage == "active":
            # Not at once: the client that bound the pod should learn of the binding first.
            self._after(0.0 if self._host.settings.every_step else self._host.settings.start_delay, self._begin)

    # --- starting -----------------------------------------------------------------------------------------------------

    def _begin(self) -> None:
        self._tell_problems()
        if has_port_conflict(self._pod, self._host.context.pods_by_node):
            self._record("Warning", "NodePorts", _PORTS)
            self._write(status.rejected("NodePorts", f"Pod was rejected: {_PORTS}"))
            return
        if missing := self._missing_claim():
            self._record("Warning", "FailedMount", missing)
            self._after(MOUNT_RETRY, self._begin)
            return
        if refused := refusal(self._access, self._pod):
            self._record("Warning", "FailedPrepareDynamicResources", f"Failed to prepare dynamic resources: {refused}")
            self._after(MOUNT_RETRY, self._begin)
            return
        self._tell_missing()
        self._active_since = self._now()
        reason = "PodInitializing" if self._pod.spec.init_containers else "ContainerCreating"
        for each in self._containers:
            each.state = waiting(reason)
        host_ip, now = self._host.nodes.addresses.node(self._pod.spec.node_name), self._access.now()
        wanted = self._wanted_images()
        if self._host.settings.every_step:
            self._write(status.accepted(host_ip, now), self._statuses())
            self._pull()
        elif any(self._pull_fails(each.spec) for each in wanted):
            self._write(status.accepted(host_ip, now))
            self._pull()
        else:
            self._announce_pulls(wanted)
            self._launch(status.launched(host_ip, self._host.nodes.addresses.pod(self._pod), now))

    def _tell_missing(self) -> None:
        if self._host.context.events.enabled:
            for missing in missing_objects(self._access, self._pod):
                self._record("Warning", "MissingObject", f"{missing}: a real kubelet would wait for it")

    def _pull(self) -> None:
        """Pull the images. If that fails, try again later."""
        wanted = self._wanted_images()
        self._announce_pulls(wanted)
        if failing := [each for each in wanted if self._pull_fails(each.spec)]:
            self._fail_pull(failing)
        else:
            self._after(self._host.settings.start_delay / 2, self._connect)

    def _wanted_images(self) -> list[SimulatedContainer]:
        """The containers whose image must be pulled."""
        return [each for each in self._containers if self._must_pull(each.spec)]

    def _announce_pulls(self, wanted: list[SimulatedContainer]) -> None:
        for each in wanted:
            self._record("Normal", "Pulling", f'Pulling image "{each.spec.image}"', each.spec)
        self._pulling = {each.spec.name for each in wanted}

    def _fail_pull(self, wanted: list[SimulatedContainer]) -> None:
        seconds = min(FIRST_BACK_OFF * 2.0 ** min(self._failed_pulls, 10), MAX_BACK_OFF)
        for each in wanted:
            image = each.spec.image
            message = f'failed to pull and unpack image "{image}": simulated failure'
            if self._failed_pulls == 0:
                each.state = waiting("ErrImagePull", message)
            else:
                each.state = waiting("ImagePullBackOff", f'Back-off pulling image "{image}": {message}')
            self._record("Warning", "Failed", f'Failed to pull image "{image}": {message}', each.spec)
            self._record("Warning", "Failed", "Error: ErrImagePull", each.spec)
            self._record("Normal", "BackOff", f'Back-off pulling image "{image}"', each.spec)
        self._failed_pulls += 1
        self._write(self._statuses())
        self._retry = self._pull
        self._after(seconds, self._pull)

    def _connect(self) -> None:
        for each in self._containers:
            each.state = waiting("PodInitializing" if self._pod.spec.init_containers else "ContainerCreating")
        self._write(self._network(), self._statuses())
        self._after(self._host.settings.start_delay / 2, self._launch)

    def _network(self) -> status.Edit:
        return status.networked(self._host.nodes.addresses.pod(self._pod), self._access.now())

    def _launch(self, *edits: status.Edit) -> None:
        self._retry = self._advance
        self._advance(*edits)
        self._host.nodes.pulled(self._pod)

    def _pull_fails(self, container: Container) -> bool:
        return self._behavior.image_pull_fails or does_not_exist(container.image)

    def _must_pull(self, container: Container) -> bool:
        policy = container.image_pull_policy
        present = self._host.nodes.has_image(self._pod.spec.node_name, container.image)
        return policy == "Always" or (policy != "Never" and not present)

    def _missing_claim(self) -> str:
        """Say why volumes cannot be mounted, if so. The scheduler checks claims; a pod bound by hand may lack one."""
        for claim in self._pod.claims:
            found = self._access.get(CLAIMS, f"{self._pod.metadata.namespace}/{claim}")
            if found is None:
                return f'persistentvolumeclaim "{claim}" not found'
            if (found.get("status") or {}).get("phase") != "Bound":
                return f'persistentvolumeclaim "{claim}" is not bound'
        return ""

    # --- running ------------------------------------------------------------------------------------------------------

    def _resume(self) -> None:
        """Continue with a pod that ran before this worker existed."""
        found = (self._access.get(PODS, self._pod.key) or {}).get("status") or {}
        stored = {
            each.get("name"): each
            for each in (*(found.get("initContainerStatuses") or ()), *(found.get("containerStatuses") or ()))
        }
        now, date = self._now(), self._access.clock.now()
        for each in self._containers:
            each.resume(stored.get(each.spec.name) or {}, now, date)
            each.timeline = self._timeline(each)
        if start := found.get("startTime"):
            self._active_since = now - max(0.0, date - parse_timestamp(start))
        self._initialized, self._retry = True, self._advance
        self._after(0.0, self._advance)

    def _advance(self, *edits: status.Edit) -> None:
        """Bring all containers up to date, write the status, and plan the next change."""
        now, deadline = self._now(), self._pod.spec.active_deadline_seconds
        if deadline is not None and now >= self._active_since + deadline - _ROUNDING:
            self._exceed_deadline()
            return
        failed = self._advance_init(now)
        if self._initialized:
            for each in self._main:
                self._step(each, now)
        if failed or all(each.is_terminated for each in self._main):
            self._end(failed or any(each.exit_code for each in self._main), *edits)
            return
        self._write(*edits, self._statuses())
        self._plan(now)

    def _advance_init(self, now: float) -> bool:
        """Run init containers in order; a sidecar only has to have started. Returns whether one failed for good."""
        for each in self._init:
            if self._initialized and each.role is Role.INIT:
                continue
            self._step(each, now)
            if self._initialized or (each.role is Role.SIDECAR and each.started):
                continue
            if not each.is_terminated:
                return False
            if each.exit_code:
                return True
        self._initialized = True
        return False

    def _step(self, each: SimulatedContainer, now: float) -> None:
        """Bring one container up to date."""
        if each.is_terminated:
            return
        if not each.is_running and (each.retry_at is None or now >= each.retry_at - _ROUNDING):
            self._start(each, now)
        if not each.is_running:
            return
        each.timeline = self._timeline(each)
        elapsed = now - each.began + _ROUNDING
        if elapsed >= each.timeline.ends:
            self._exit(each, now)
            return
        was_ready = each.ready
        each.observe(elapsed)
        if was_ready and not each.ready and elapsed >= each.timeline.unready:
            self._record("Warning", "Unhealthy", "Readiness probe failed: simulated failure", each.spec)

    def _start(self, each: SimulatedContainer, now: float) -> None:
        if self._host.context.events.enabled:
            self._record_start(each)
        self._pulling.discard(each.spec.name)
        each.start(now, self._access.now(), self._new_id())

    def _record_start(self, each: SimulatedContainer) -> None:
        image, name = each.spec.image, each.spec.name
        if name in self._pulling:
            self._record("Normal", "Pulled", f'Successfully pulled image "{image}"', each.spec)
        else:
            self._record("Normal", "Pulled", f'Container image "{image}" already present on machine', each.spec)
        self._record("Normal", "Created", f"Created container {name}", each.spec)
        self._record("Normal", "Started", f"Started container {name}", each.spec)

    def _exit(self, each: SimulatedContainer, now: float) -> None:
        """End a run, and restart the container if its policy says so."""
        run, name = each.timeline, each.spec.name
        if run.failed_probe:
            probe = run.failed_probe
            checks: Probe | None = getattr(each.spec, f"{probe}_probe")
            for _ in range(1 if checks is None else checks.failure_threshold):
                self._record("Warning", "Unhealthy", f"{probe.title()} probe failed: simulated failure", each.spec)
            self._record("Normal", "Killing", f"Container {name} failed {probe} probe, will be restarted", each.spec)
        self._exits.pop(name, None)
        each.end(run.exit_code, self._access.now())
        if not self._restarts(each, run.exit_code):
            return
        seconds = each.next_back_off(now - each.began)
        if seconds:
            pod = f"{self._pod.metadata.name}_{self._pod.metadata.namespace}({self._pod.metadata.uid})"
            each.back_off(now, seconds, pod)
            message = f"Back-off restarting failed container {name} in pod {pod}"
            self._record("Warning", "BackOff", message, each.spec)
        else:
            each.last_state = each.state
            self._start(each, now)
            each.timeline = self._timeline(each)
            each.observe(0.0)

    def _restarts(self, each: SimulatedContainer, exit_code: int) -> bool:
        policy = self._pod.spec.restart_policy
        if each.role is Role.SIDECAR:
            return True
        if each.role is Role.INIT:
            return policy != "Never" and exit_code != 0
        return policy == "Always" or (policy == "OnFailure" and exit_code != 0)

    def _timeline(self, each: SimulatedContainer) -> ContainerRun:
        """Plan the current run of a container."""
        if each.spec.name in self._exits:
            return ContainerRun(ends=0.0, exit_code=self._exits[each.spec.name])
        behavior, command = self._behavior, each.spec.command_line
        code = int(command[:1] == ("false",))
        seconds = sleep_seconds(command)
        if each.role is Role.INIT:
            given = behavior.init_run_time
            return timeline(each.spec, DEFAULT, (seconds or 0.0) if given is None else given, code)
        if each.role is Role.SIDECAR:
            return timeline(each.spec, behavior, math.inf, 0)
        code = code if behavior.exit_code is None else behavior.exit_code
        health = self._host.health_of(self._pod, each.spec)
        if behavior.run_time is not None:
            seconds = behavior.run_time
        elif health is not None:
            seconds = math.inf
        elif seconds is None:
            goes_on = self._pod.spec.restart_policy == "Always" and not code
            seconds = math.inf if goes_on else self._host.settings.run_time
        run = timeline(each.spec, behavior, seconds, code)
        return run if health is None else run.limited(health)

    def _plan(self, now: float) -> None:
        """Set the timer for the next change after `now`, the time of the last one, if there is one."""
        due = math.inf
        for each in self._containers:
            if each.is_running:
                due = min(due, each.began + each.timeline.next_change(now - each.began + _ROUNDING))
            elif each.retry_at is not None:
                due = min(due, each.retry_at)
        if (deadline := self._pod.spec.active_deadline_seconds) is not None:
            due = min(due, self._active_since + deadline)
        if due < math.inf:
            self._after(max(0.0, due - self._now()), self._advance)

    # --- the end ------------------------------------------------------------------------------------------------------

    def _end(self, failed: bool, *edits: status.Edit) -> None:
        now = self._access.now()
        for each in self._init:
            if each.role is Role.SIDECAR and each.is_running:
                each.end(0, now)
        self._write(*edits, status.ended(self._containers, now, failed=failed))

    def _exceed_deadline(self) -> None:
        message = "Pod was active on the node longer than the specified deadline"
        self._record("Normal", "DeadlineExceeded", message)
        self._kill_all(KILLED)
        reason = "DeadlineExceeded"
        now = self._access.now()
        self._write(status.ended(self._containers, now, failed=True, reason=reason, message=message))

    def _kill_all(self, exit_code: int) -> None:
        for each in self._containers:
            if each.is_running:
                each.end(exit_code, self._access.now())

    def _plan_stop(self) -> None:
        grace = float(self._pod.metadata.deletion_grace_period_seconds)
        due = self._stopping_since + min(self._stop_seconds(), grace)
        self._after(max(0.0, due - self._now()), self._remove)

    def _stop_seconds(self) -> float:
        """How long the containers take to stop: preStop hooks, then the stop itself."""
        stop = self._behavior.stop_time
        seconds = self._host.settings.stop_delay if stop is None else stop
        if self._pod.status.phase != "Running":
            return seconds
        return seconds + max(pre_stop_seconds(each.spec) for each in self._containers)

    def _remove(self) -> None:
        """The containers have stopped, so the pod may go. Finalizers may still hold it."""
        if self._pod.status.phase == "Running" and self._pod.metadata.finalizers:
            self._stop_with_finalizers()
        self._access.remove(PODS, self._pod.key, self._pod.metadata.uid)

    def _stop_with_finalizers(self) -> None:
        killed = self._stop_seconds() > self._pod.metadata.deletion_grace_period_seconds
        if not any(each.is_running for each in self._containers):
            self._resume()
            self._cancel()
        self._kill_all(KILLED if killed else 0)
        self._write(status.ended(self._containers, self._access.now(), failed=killed))

    # --- tools --------------------------------------------------------------------------------------------------------

    def _statuses(self) -> status.Edit:
        gates = self._pod.spec.readiness_gates
        return status.containers(self._containers, gates, self._access.now(), running=self._initialized)

    def _new_id(self) -> str:
        return new_container_id(self._host.context)

    def _after(self, seconds: float, act: Callable[[], None]) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if not self._closed:
            self._timer = asyncio.get_running_loop().call_later(seconds, self._act, act)

    def _act(self, act: Callable[[], None]) -> None:
        self._timer = None
        act()

    def _write(self, *edits: status.Edit) -> None:
        def edit(pod: JSON) -> None:
            for each in edits:
                each(pod)
            status.order_conditions(pod)

        self._access.edit_status(PODS, self._pod.key, edit, self._pod.metadata.uid, only_status=True)

    def _record(self, kind: str, reason: str, message: str, container: Container | None = None) -> None:
        if not self._host.context.events.enabled:
            return
        meta = self._pod.metadata
        about = {"kind": "Pod", "namespace": meta.namespace, "name": meta.name, "uid": meta.uid, "apiVersion": "v1"}
        field = f"spec.containers{{{container.name}}}" if container is not None else ""
        host = self._pod.spec.node_name
        self._host.context.events.record("kubelet", about, kind, reason, message, host=host, field=field)


def stage_of(pod: Pod) -> str:
    """What a kubelet has to do with a pod: run it, stop it, or nothing."""
    if pod.metadata.being_deleted:
        return "stopping"
    return "" if pod.has_ended else "active"


def is_settled(pod: Pod) -> bool:
    """Whether a pod runs and, as far as its spec and annotations say, will go on without any change."""
    spec = pod.spec
    if pod.status.phase != "Running" or pod.metadata.being_deleted:
        return False
    if spec.restart_policy != "Always" or spec.active_deadline_seconds is not None or not pod.containers_ready:
        return False
    return behavior_of(pod.metadata.annotations) is DEFAULT and not any(map(_has_plans, spec.containers))


def _has_plans(container: Container) -> bool:
    command = container.command_line
    return sleep_seconds(command) is not None or command[:1] == ("false",)


def sleep_seconds(command: tuple[str, ...]) -> float | None:
    """Return the seconds of a command ``sleep N``."""
    if len(command) == 2 and command[0].rpartition("/")[2] == "sleep" and command[1].replace(".", "", 1).isdecimal():
        return float(command[1])
    return None


def pre_stop_seconds(container: Container) -> float:
    """Return how long the preStop hook of a container takes: a sleep action, or a command ``sleep N``."""
    hook = container.lifecycle.pre_stop if container.lifecycle is not None else None
    if hook is None:
        return 0.0
    if hook.sleep is not None:
        return float(hook.sleep.seconds)
    return sleep_seconds(hook.exec.command) or 0.0 if hook.exec is not None else 0.0


def new_container_id(context: ControllerContext) -> str:
    """Make up a container ID."""
    return f"containerd://{context.random.getrandbits(256):064x}"


def _init_role(container: Container) -> Role:
    return Role.SIDECAR if container.restart_policy == "Always" else Role.INIT
