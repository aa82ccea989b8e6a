"""A pod's status at each step of its life on a node, as a kubelet writes it. Pure: each function edits an object."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from kubesched.base.types import JSON
from kubesched.reconcile.conditions import set_condition

Edit = Callable[[JSON], None]


def full_image(image: str) -> str:
    """An image's name with its tag, as a node lists it."""
    last = image.rpartition("/")[2]
    return image if ":" in last or "@" in last else f"{image}:latest"


@lru_cache(maxsize=1024)
def image_digest(image: str) -> str:
    return hashlib.sha256(full_image(image).encode()).hexdigest()


def image_size(image: str) -> int:
    """A size that is always the same for an image, between 20 and 200 MB."""
    return 20_000_000 + int(image_digest(image)[:8], 16) % 180_000_000


def starting(host_ip: str, now: str) -> Edit:
    """The kubelet has seen the pod; its containers wait."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status |= {"phase": "Pending", "hostIP": host_ip, "hostIPs": [{"ip": host_ip}], "startTime": now}
        names = ", ".join(each["name"] for each in pod["spec"]["containers"])
        unready = ("ContainersNotReady", f"containers with unready status: [{names}]")
        waits_for_init = bool(pod["spec"].get("initContainers"))
        _conditions(status, now, PodReadyToStartContainers="False", Initialized="False" if waits_for_init else "True")
        _conditions(status, now, *unready, Ready="False", ContainersReady="False")
        waiting = {"reason": "PodInitializing" if waits_for_init else "ContainerCreating"}
        status["containerStatuses"] = [_container(each, {"waiting": waiting}) for each in pod["spec"]["containers"]]
        if waits_for_init:
            status["initContainerStatuses"] = [
                _container(each, {"waiting": waiting}) for each in pod["spec"]["initContainers"]
            ]

    return edit


def networked(pod_ip: str, now: str) -> Edit:
    """The sandbox is there and has an address."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status["podIP"], status["podIPs"] = pod_ip, [{"ip": pod_ip}]
        _conditions(status, now, PodReadyToStartContainers="True")

    return edit


def running(now: str, new_id: Callable[[], str]) -> Edit:
    """The containers run and are ready."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        before = {each["name"]: each for each in status.get("containerStatuses") or []}
        status["phase"] = "Running"
        _conditions(status, now, PodReadyToStartContainers="True", Initialized="True")
        _ready(pod, now)
        _conditions(status, now, ContainersReady="True")
        status["containerStatuses"] = [
            _container(
                each,
                {"running": {"startedAt": now}},
                container_id=new_id(),
                previous=before.get(each["name"]),
                ready=True,
            )
            for each in pod["spec"]["containers"]
        ]
        done = _ended_state(0, now, now, new_id())
        if pod["spec"].get("initContainers"):
            status["initContainerStatuses"] = [
                _container(
                    each,
                    {"running": {"startedAt": now}} if each.get("restartPolicy") == "Always" else done,
                    container_id=new_id(),
                    ready=True,
                )
                for each in pod["spec"]["initContainers"]
            ]

    return edit


def gated(now: str) -> Edit:
    """What others say about a running pod decides whether it is ready."""
    return lambda pod: _ready(pod, now)


def _ready(pod: JSON, now: str) -> None:
    status = pod["status"]
    said = {each["type"]: each["status"] for each in status.get("conditions") or []}
    for gate in pod["spec"].get("readinessGates") or []:
        name = gate["conditionType"]
        if said.get(name) == "True":
            continue
        message = (
            f'the status of pod readiness gate "{name}" is not "True", but {said[name]}'
            if name in said
            else f'corresponding condition of pod readiness gate "{name}" does not exist.'
        )
        _conditions(status, now, "ReadinessGatesNotReady", message, Ready="False")
        return
    _conditions(status, now, Ready="True")


def debugged(now: str, new_id: Callable[[], str]) -> Edit:
    """Containers that were added for debugging run too."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        before = {each["name"]: each for each in status.get("ephemeralContainerStatuses") or []}
        status["ephemeralContainerStatuses"] = [
            before.get(each["name"]) or _container(each, {"running": {"startedAt": now}}, container_id=new_id())
            for each in pod["spec"].get("ephemeralContainers") or []
        ]

    return edit


def ended(exit_code: int, now: str, *, reason: str = "", message: str = "") -> Edit:
    """All containers have ended for good."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status["phase"] = "Failed" if exit_code or reason else "Succeeded"
        for field, text in (("reason", reason), ("message", message)):
            if text:
                status[field] = text
        why = "PodFailed" if status["phase"] == "Failed" else "PodCompleted"
        _conditions(status, now, PodReadyToStartContainers="False", Initialized="True")
        _conditions(status, now, why, "", Ready="False", ContainersReady="False")
        status["containerStatuses"] = [
            {**each, "ready": False, "started": False, "state": _after(each, exit_code, now)}
            for each in status.get("containerStatuses") or []
        ]
        for each in status.get("initContainerStatuses") or []:
            if "running" in each["state"]:
                each |= {"ready": False, "started": False, "state": _after(each, 0, now)}

    return edit


def waiting_to_restart(exit_code: int, now: str, seconds: int) -> Edit:
    """A container has failed and is started again after a while."""

    def edit(pod: JSON) -> None:
        status = pod["status"]
        status["containerStatuses"] = [
            {
                **each,
                "ready": False,
                "started": False,
                "restartCount": each.get("restartCount", 0) + 1,
                "lastState": _after(each, exit_code, now),
                "state": {"waiting": {"reason": "CrashLoopBackOff", "message": _back_off(seconds, each, pod)}},
            }
            for each in status.get("containerStatuses") or []
        ]
        _conditions(status, now, "ContainersNotReady", "", Ready="False", ContainersReady="False")

    return edit


def _back_off(seconds: int, container: JSON, pod: JSON) -> str:
    meta = pod["metadata"]
    place = f"{meta['name']}_{meta['namespace']}({meta['uid']})"
    return f"back-off {seconds}s restarting failed container={container['name']} pod={place}"


def _after(container: JSON, exit_code: int, now: str) -> JSON:
    started = ((container.get("state") or {}).get("running") or {}).get("startedAt", now)
    return _ended_state(exit_code, started, now, container.get("containerID", ""))


def _ended_state(exit_code: int, started: str, finished: str, container_id: str) -> JSON:
    reason = "Error" if exit_code else "Completed"
    times = {"startedAt": started, "finishedAt": finished}
    return {"terminated": {"exitCode": exit_code, "reason": reason, **times, "containerID": container_id}}


def _container(
    spec: JSON, state: JSON, *, container_id: str = "", previous: JSON | None = None, ready: bool = False
) -> JSON:
    image = spec.get("image", "")
    status: JSON = {
        "name": spec["name"],
        "state": state,
        "lastState": (previous or {}).get("lastState") or {},
        "ready": ready,
        "restartCount": (previous or {}).get("restartCount", 0),
        "image": image,
        "imageID": "",
        "started": ready and "running" in state,
    }
    if container_id:
        status["image"] = full_image(image)
        status["imageID"] = f"{image.partition('@')[0].rpartition(':')[0] or image}@sha256:{image_digest(image)}"
        status["containerID"] = container_id
    return status


def _conditions(status: JSON, now: str, reason: str = "", message: str = "", **values: str) -> None:
    conditions: list[Any] = list(status.get("conditions") or [])
    for name, value in values.items():
        new: JSON = {"type": name, "status": value, "lastProbeTime": None}
        if reason:
            new["reason"] = reason
        if message:
            new["message"] = message
        conditions = set_condition(conditions, new, now)
    status["conditions"] = conditions
