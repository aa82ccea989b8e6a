"""A pod's status at each step of its life on a node, as a kubelet writes it. Pure: each function edits an object."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kubesched.base.types import JSON
from kubesched.kubelet.container_state import Role, SimulatedContainer
from kubesched.reconcile.views import Gate

Edit = Callable[[JSON], None]

_ORDER = {
    "PodReadyToStartContainers": 0,
    "Initialized": 1,
    "Ready": 2,
    "ContainersReady": 3,
    "PodScheduled": 4,
}


def accepted(host_ip: str, now: str) -> Edit:
    """The kubelet has seen the pod."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status |= {"phase": "Pending", "hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
        status["observedGeneration"] = pod["metadata"].get("generation", 1)
        status.setdefault("startTime", now)
        _conditions(status, now, PodReadyToStartContainers="False")

    return edit


def networked(pod_ip: str, now: str) -> Edit:
    """The sandbox exists and has an address."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status["podIP"], status["podIPs"] = pod_ip, [{"ip": pod_ip}]
        _conditions(status, now, PodReadyToStartContainers="True")

    return edit


def launched(host_ip: str, pod_ip: str, now: str) -> Edit:
    """Both at once, for a pod whose containers start in the same moment."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status |= {"phase": "Pending", "hostIP": host_ip, "hostIPs": [{"ip": host_ip}]}
        status["observedGeneration"] = pod["metadata"].get("generation", 1)
        status.setdefault("startTime", now)
        _conditions(status, now, PodReadyToStartContainers="True")
        status["podIP"], status["podIPs"] = pod_ip, [{"ip": pod_ip}]

    return edit


def containers(found: Sequence[SimulatedContainer], gates: Sequence[Gate], now: str, *, running: bool) -> Edit:
    """Write the statuses of all containers, and the phase and conditions that follow from them."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        _container_statuses(status, found)
        true: dict[str, str] = {}
        if running:
            status["phase"] = "Running"
            true["PodReadyToStartContainers"] = "True"
        incomplete = [each for each in found if each.role is not Role.MAIN and not each.status()["ready"]]
        if running or not incomplete:
            true["Initialized"] = "True"
        else:
            message = f"containers with incomplete status: [{_names(incomplete)}]"
            _conditions(status, now, "ContainersNotInitialized", message, Initialized="False")
        unready = [each for each in found if each.role is not Role.INIT and not each.ready]
        if unready:
            message = f"containers with unready status: [{_names(unready)}]"
            _conditions(status, now, "ContainersNotReady", message, Ready="False", ContainersReady="False")
        else:
            true["ContainersReady"] = "True"
            if gates:
                _ready(status, gates, now)
            else:
                true["Ready"] = "True"
        _conditions(status, now, **true)

    return edit


def gated(gates: Sequence[Gate], now: str) -> Edit:
    """Readiness gates decide whether a pod with ready containers is ready."""
    return lambda pod: _ready(pod["status"], gates, now)


def _ready(status: JSON, gates: Sequence[Gate], now: str) -> None:
    values = {each.get("type"): each.get("status") for each in status.get("conditions") or []}
    for gate in gates:
        name = gate.condition_type
        if values.get(name) == "True":
            continue
        message = (
            f'the status of pod readiness gate "{name}" is not "True", but {values[name]}'
            if name in values
            else f'corresponding condition of pod readiness gate "{name}" does not exist.'
        )
        _conditions(status, now, "ReadinessGatesNotReady", message, Ready="False")
        return
    _conditions(status, now, Ready="True")


def debugged(now: str, new_id: Callable[[], str], make: Callable[[JSON], SimulatedContainer]) -> Edit:
    """Containers that were added for debugging run too."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        known = {each.get("name"): each for each in status.get("ephemeralContainerStatuses") or []}
        for each in pod["spec"].get("ephemeralContainers") or []:
            if each["name"] not in known:
                container = make(each)
                container.start(0.0, now, new_id())
                known[each["name"]] = container.status()
        status["ephemeralContainerStatuses"] = list(known.values())

    return edit


def ended(found: Sequence[SimulatedContainer], now: str, *, failed: bool, reason: str = "", message: str = "") -> Edit:
    """All containers have ended for good."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status["phase"] = "Failed" if failed else "Succeeded"
        for field, text in (("reason", reason), ("message", message)):
            if text:
                status[field] = text
        why = "PodFailed" if failed else "PodCompleted"
        _conditions(status, now, PodReadyToStartContainers="False")
        _conditions(status, now, why, "", Ready="False", ContainersReady="False")
        _container_statuses(status, found)

    return edit


def _container_statuses(status: JSON, found: Sequence[SimulatedContainer]) -> None:
    old = (*(status.get("containerStatuses") or ()), *(status.get("initContainerStatuses") or ()))
    status["containerStatuses"] = [each.status() for each in found if each.role is Role.MAIN]
    if init := [each.status() for each in found if each.role is not Role.MAIN]:
        status["initContainerStatuses"] = init
    if sizes := {each.get("name"): each for each in old if "resources" in each}:
        for each in (*status["containerStatuses"], *init):
            if each["name"] in sizes:
                each |= {field: sizes[each["name"]][field] for field in ("allocatedResources", "resources")}


def _names(found: Sequence[SimulatedContainer]) -> str:
    return " ".join(each.spec.name for each in found)


def _conditions(status: JSON, now: str, reason: str = "", message: str = "", **values: str) -> None:
    """Set conditions, as `set_condition` does, but all of them in one pass: it is done for every pod."""
    why = {"reason": reason} if reason else {}
    if message:
        why["message"] = message
    conditions = []
    for old in status.get("conditions") or ():
        name = old.get("type")
        if name in values:
            value = values.pop(name)
            since = old.get("lastTransitionTime", now) if old.get("status") == value else now
            old = {"type": name, "status": value, "lastProbeTime": None, **why, "lastTransitionTime": since}
        conditions.append(old)
    for name, value in values.items():
        conditions.append({"type": name, "status": value, "lastProbeTime": None, **why, "lastTransitionTime": now})
    status["conditions"] = conditions


def order_conditions(pod: JSON) -> None:
    """Bring the conditions into the order in which a kubelet writes them."""
    status = pod["status"]
    conditions = status.get("conditions") or []
    places = [_ORDER.get(each.get("type", ""), 9) for each in conditions]
    if places != sorted(places):
        conditions = [conditions[at] for _, at in sorted(zip(places, range(len(places)), strict=True))]
    status["conditions"] = conditions


def rejected(reason: str, message: str) -> Edit:
    """The kubelet does not admit the pod."""

    def edit(pod: JSON) -> None:
        pod["status"].update(phase="Failed", reason=reason, message=message)

    return edit
