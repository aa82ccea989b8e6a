"""The columns of `kubectl get` for pods and workloads."""

from __future__ import annotations

from typing import Any

from kubesched.apiserver.meta import parse_timestamp
from kubesched.apiserver.printing.table import (
    NONE,
    UNKNOWN,
    Cell,
    Columns,
    age,
    columns,
    human_duration,
    labels_text,
    selector_text,
    since,
)
from kubesched.base.types import JSON

_FINISHED = ("Succeeded", "Failed")


def _list(obj: JSON | None, key: str) -> list[Any]:
    return (obj or {}).get(key) or []


def _condition(status: JSON, type_: str) -> JSON:
    return next((c for c in _list(status, "conditions") if c.get("type") == type_), {})


# --- pods -------------------------------------------------------------------------------------------------------------


class _PodSummary:
    """A pod's ready containers, state and restarts."""

    def __init__(self, pod: JSON, now: float) -> None:
        self._pod, self._now = pod, now
        self._spec: JSON = pod.get("spec") or {}
        self._status: JSON = pod.get("status") or {}
        self._ready = 0
        self._restarts = 0
        self._restarted_at = 0.0
        self.state = self._state()

    @property
    def ready(self) -> str:
        sidecars = sum(1 for c in _list(self._spec, "initContainers") if c.get("restartPolicy") == "Always")
        return f"{self._ready}/{len(_list(self._spec, 'containers')) + sidecars}"

    @property
    def restarts(self) -> str:
        if self._restarts and self._restarted_at:
            return f"{self._restarts} ({human_duration(self._now - self._restarted_at)} ago)"
        return str(self._restarts)

    def _state(self) -> str:
        state = self._status.get("reason") or self._status.get("phase") or "Unknown"
        if _condition(self._status, "PodScheduled").get("reason") == "SchedulingGated":
            state = "SchedulingGated"
        initializing = self._init_state()
        state = initializing or self._container_state(state)
        return self._deletion_state(state)

    def _deletion_state(self, state: str) -> str:
        if not self._pod["metadata"].get("deletionTimestamp"):
            return state
        if self._status.get("reason") == "NodeLost":
            return "Unknown"
        return state if self._status.get("phase") in _FINISHED else "Terminating"

    def _init_state(self) -> str:
        """The state of a pod whose init containers are not done, or an empty string."""
        sidecars = {c.get("name") for c in _list(self._spec, "initContainers") if c.get("restartPolicy") == "Always"}
        total = len(_list(self._spec, "initContainers"))
        for index, status in enumerate(_list(self._status, "initContainerStatuses")):
            self._count_restarts(status)
            state = status.get("state") or {}
            terminated = state.get("terminated")
            if terminated is not None and not terminated.get("exitCode"):
                continue
            if status.get("name") in sidecars and status.get("started"):
                self._ready += bool(status.get("ready"))
                continue
            return _init_word(state, f"{index}/{total}")
        return ""

    def _container_state(self, state: str) -> str:
        self._restarts, running = 0, False
        for status in reversed(_list(self._status, "containerStatuses")):
            self._count_restarts(status)
            current = status.get("state") or {}
            waiting, terminated = current.get("waiting"), current.get("terminated")
            if waiting and waiting.get("reason"):
                state = waiting["reason"]
            elif terminated is not None:
                state = _terminated_word(terminated)
            elif status.get("ready") and "running" in current:
                running = True
                self._ready += 1
        if state == "Completed" and running:
            return "Running" if _condition(self._status, "Ready").get("status") == "True" else "NotReady"
        return state

    def _count_restarts(self, status: JSON) -> None:
        self._restarts += status.get("restartCount") or 0
        finished = ((status.get("lastState") or {}).get("terminated") or {}).get("finishedAt")
        if finished:
            self._restarted_at = max(self._restarted_at, parse_timestamp(finished))


def _terminated_word(terminated: JSON) -> str:
    if terminated.get("reason"):
        return str(terminated["reason"])
    if terminated.get("signal"):
        return f"Signal:{terminated['signal']}"
    return f"ExitCode:{terminated.get('exitCode', 0)}"


def _init_word(state: JSON, progress: str) -> str:
    if state.get("terminated") is not None:
        return f"Init:{_terminated_word(state['terminated'])}"
    reason = (state.get("waiting") or {}).get("reason")
    return f"Init:{reason}" if reason and reason != "PodInitializing" else f"Init:{progress}"


def _pod(pod: JSON, now: float) -> list[Cell]:
    spec, status = pod.get("spec") or {}, pod.get("status") or {}
    summary = _PodSummary(pod, now)
    ips = _list(status, "podIPs")
    ip = ips[0].get("ip") if ips else status.get("podIP")
    return [
        summary.ready,
        summary.state,
        summary.restarts,
        age(pod, now),
        ip or NONE,
        spec.get("nodeName") or NONE,
        status.get("nominatedNodeName") or NONE,
        _readiness_gates(spec, status),
    ]


def _readiness_gates(spec: JSON, status: JSON) -> str:
    gates = _list(spec, "readinessGates")
    passed = sum(_condition(status, gate.get("conditionType", "")).get("status") == "True" for gate in gates)
    return f"{passed}/{len(gates)}" if gates else NONE


# --- what makes pods --------------------------------------------------------------------------------------------------


def _containers(template: JSON | None) -> list[Cell]:
    containers = _list((template or {}).get("spec"), "containers")
    return [",".join(c.get("name", "") for c in containers), ",".join(c.get("image", "") for c in containers)]


def _workload(obj: JSON) -> tuple[JSON, JSON]:
    return obj.get("spec") or {}, obj.get("status") or {}


def _deployment(obj: JSON, now: float) -> list[Cell]:
    spec, status = _workload(obj)
    return [
        f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}",
        status.get("updatedReplicas", 0),
        status.get("availableReplicas", 0),
        age(obj, now),
        *_containers(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _replica_set(obj: JSON, now: float) -> list[Cell]:
    spec, status = _workload(obj)
    selector = spec.get("selector")
    plain = obj.get("kind") == "ReplicationController"
    return [
        spec.get("replicas", 0),
        status.get("replicas", 0),
        status.get("readyReplicas", 0),
        age(obj, now),
        *_containers(spec.get("template")),
        labels_text(selector) if plain else selector_text(selector),
    ]


def _stateful_set(obj: JSON, now: float) -> list[Cell]:
    spec, status = _workload(obj)
    ready = f"{status.get('readyReplicas', 0)}/{spec.get('replicas', 0)}"
    return [ready, age(obj, now), *_containers(spec.get("template"))]


def _daemon_set(obj: JSON, now: float) -> list[Cell]:
    spec, status = _workload(obj)
    template = spec.get("template") or {}
    return [
        status.get("desiredNumberScheduled", 0),
        status.get("currentNumberScheduled", 0),
        status.get("numberReady", 0),
        status.get("updatedNumberScheduled", 0),
        status.get("numberAvailable", 0),
        labels_text((template.get("spec") or {}).get("nodeSelector")),
        age(obj, now),
        *_containers(template),
        selector_text(spec.get("selector")),
    ]


def _job(obj: JSON, now: float) -> list[Cell]:
    spec, status = _workload(obj)
    return [
        _job_state(obj, spec, status),
        _job_completions(spec, status),
        _job_duration(status, now),
        age(obj, now),
        *_containers(spec.get("template")),
        selector_text(spec.get("selector")),
    ]


def _job_state(obj: JSON, spec: JSON, status: JSON) -> str:
    for type_, word in (("Complete", "Complete"), ("Failed", "Failed")):
        if _condition(status, type_).get("status") == "True":
            return word
    if obj["metadata"].get("deletionTimestamp"):
        return "Terminating"
    for type_ in ("Suspended", "FailureTarget", "SuccessCriteriaMet"):
        if _condition(status, type_).get("status") == "True":
            return type_
    return "Running"


def _job_completions(spec: JSON, status: JSON) -> str:
    done = status.get("succeeded", 0)
    if spec.get("completions") is not None:
        return f"{done}/{spec['completions']}"
    parallelism = spec.get("parallelism", 0)
    return f"{done}/1 of {parallelism}" if parallelism > 1 else f"{done}/1"


def _job_duration(status: JSON, now: float) -> str:
    if not status.get("startTime"):
        return ""
    finished = status.get("completionTime") or _condition(status, "Failed").get("lastTransitionTime")
    end = parse_timestamp(finished) if finished else now
    return human_duration(end - parse_timestamp(status["startTime"]))


def _cron_job(obj: JSON, now: float) -> list[Cell]:
    spec, status = _workload(obj)
    last = status.get("lastScheduleTime")
    job = (spec.get("jobTemplate") or {}).get("spec") or {}
    return [
        spec.get("schedule", ""),
        spec.get("timeZone") or NONE,
        str(bool(spec.get("suspend"))),
        len(_list(status, "active")),
        since(last, now) if last else NONE,
        age(obj, now),
        *_containers(job.get("template")),
        selector_text(job.get("selector")),
    ]


def _pod_template(obj: JSON, _now: float) -> list[Cell]:
    template = obj.get("template") or {}
    return [*_containers(template), labels_text((template.get("metadata") or {}).get("labels"))]


def _disruption_budget(obj: JSON, now: float) -> list[Cell]:
    spec, status = _workload(obj)
    return [
        str(spec.get("minAvailable", "N/A")),
        str(spec.get("maxUnavailable", "N/A")),
        status.get("disruptionsAllowed", 0),
        age(obj, now),
    ]


def _controller_revision(obj: JSON, now: float) -> list[Cell]:
    owner = next((o for o in _list(obj["metadata"], "ownerReferences") if o.get("controller")), None)
    controller = NONE
    if owner is not None:
        group = owner.get("apiVersion", "").rpartition("/")[0]
        controller = f"{owner.get('kind', '').lower()}{'.' + group if group else ''}/{owner.get('name', UNKNOWN)}"
    return [controller, obj.get("revision", 0), age(obj, now)]


_SETS = "Desired:integer, Current:integer, Ready:integer, Age, +Containers, +Images, +Selector"

COLUMNS: dict[str, Columns] = {
    "/pods": columns("Ready, Status, Restarts, Age, +IP, +Node, +Nominated Node, +Readiness Gates", _pod),
    "/podtemplates": columns("Containers, Images, Pod Labels", _pod_template),
    "/replicationcontrollers": columns(_SETS, _replica_set),
    "apps/replicasets": columns(_SETS, _replica_set),
    "apps/deployments": columns("Ready, Up-to-date, Available, Age, +Containers, +Images, +Selector", _deployment),
    "apps/statefulsets": columns("Ready, Age, +Containers, +Images", _stateful_set),
    "apps/daemonsets": columns(
        "Desired:integer, Current:integer, Ready:integer, Up-to-date:integer, Available:integer, Node Selector, Age,"
        " +Containers, +Images, +Selector",
        _daemon_set,
    ),
    "apps/controllerrevisions": columns("Controller, Revision, Age", _controller_revision),
    "batch/jobs": columns("Status, Completions, Duration, Age, +Containers, +Images, +Selector", _job),
    "batch/cronjobs": columns(
        "Schedule, Timezone, Suspend:boolean, Active:integer, Last Schedule, Age, +Containers, +Images, +Selector",
        _cron_job,
    ),
    "policy/poddisruptionbudgets": columns(
        "Min Available, Max Unavailable, Allowed Disruptions:integer, Age", _disruption_budget
    ),
}
