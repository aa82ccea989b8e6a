"""One simulated container: its current run, its restarts, and its status as a kubelet writes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum

from kubesched.apiserver.meta import parse_timestamp
from kubesched.base.types import JSON
from kubesched.kubelet.images import running_image
from kubesched.kubelet.timeline import ContainerRun
from kubesched.reconcile.views import Container

FIRST_BACK_OFF, MAX_BACK_OFF = 10.0, 300.0
STABLE_SECONDS = 600.0
"""A container that ran this long starts again without back-off."""


class Role(Enum):
    """What a container is for."""

    INIT = "init"
    SIDECAR = "sidecar"
    MAIN = "main"


@dataclass(slots=True)
class SimulatedContainer:
    """A container of a pod. It is waiting, running or terminated."""

    spec: Container
    role: Role
    state: JSON = field(default_factory=dict)
    """The `state` of its status: waiting, running or terminated."""
    last_state: JSON = field(default_factory=dict)
    timeline: ContainerRun = field(default_factory=ContainerRun)
    began: float = 0.0
    """On the monotonic clock, when it runs."""
    retry_at: float | None = None
    """On the monotonic clock, when it waits to be restarted."""
    restarts: int = 0
    crashes: int = 0
    """Restarts that count for the back-off."""
    container_id: str = ""
    started: bool = False
    ready: bool = False

    @property
    def is_running(self) -> bool:
        return "running" in self.state

    @property
    def is_terminated(self) -> bool:
        return "terminated" in self.state

    @property
    def exit_code(self) -> int:
        return int((self.state.get("terminated") or {}).get("exitCode", 0))

    def start(self, now: float, time: str, container_id: str) -> None:
        """Begin a run. If it is not the first, it is a restart."""
        if self.container_id:
            self.restarts += 1
        self.state, self.container_id = {"running": {"startedAt": time}}, container_id
        self.began, self.retry_at = now, None

    def observe(self, elapsed: float) -> None:
        """Set started and ready as they are at a time of the run."""
        self.started, self.ready = self.timeline.is_started(elapsed), self.timeline.is_ready(elapsed)

    def end(self, exit_code: int, time: str) -> None:
        """End the run. The container stays terminated unless `back_off` or `start` follows."""
        begun = (self.state.get("running") or {}).get("startedAt", time)
        self.state = terminated(exit_code, begun, time, self.container_id)
        self.started = self.ready = False

    def next_back_off(self, ran: float) -> float:
        """Return the seconds to wait before the next restart: none for the first, then 10, 20, 40, up to 300."""
        if ran >= STABLE_SECONDS:
            self.crashes = 0
        self.crashes += 1
        return 0.0 if self.crashes == 1 else min(FIRST_BACK_OFF * 2.0 ** min(self.crashes - 2, 10), MAX_BACK_OFF)

    def back_off(self, now: float, seconds: float, pod: str) -> None:
        """Wait before the next restart."""
        message = f"back-off {seconds:.0f}s restarting failed container={self.spec.name} pod={pod}"
        self.last_state, self.retry_at = self.state, now + seconds
        self.state = {"waiting": {"reason": "CrashLoopBackOff", "message": message}}

    def resume(self, status: JSON, now: float, seconds: float) -> None:
        """Continue from a stored status, after the kubelet was stopped. `now` is monotonic, `seconds` the date."""
        self.state, self.last_state = status.get("state") or {}, status.get("lastState") or {}
        self.restarts = self.crashes = status.get("restartCount", 0)
        self.container_id = status.get("containerID", "")
        if self.is_running:
            passed = seconds - parse_timestamp(self.state["running"]["startedAt"])
            self.began = now - (passed if passed >= 1.0 else 0.0)  # dates are in whole seconds
        elif "waiting" in self.state:
            self.retry_at = now if self.container_id else None

    def status(self) -> JSON:
        """Return the container status."""
        image = self.spec.image
        found: JSON = {
            "name": self.spec.name,
            "state": self.state,
            "lastState": self.last_state,
            "ready": self.ready or (self.role is Role.INIT and self.is_terminated and self.exit_code == 0),
            "restartCount": self.restarts,
            "image": image,
            "imageID": "",
            "started": self.started,
        }
        if self.container_id:
            found["image"], found["imageID"] = running_image(image)
            found["containerID"] = self.container_id
        return found


def waiting(reason: str, message: str = "") -> JSON:
    """The state of a container that does not run yet."""
    return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}


def terminated(exit_code: int, started: str, finished: str, container_id: str) -> JSON:
    """The state of a container that has ended."""
    reason = "Error" if exit_code else "Completed"
    times = {"startedAt": started, "finishedAt": finished}
    return {"terminated": {"exitCode": exit_code, "reason": reason, **times, "containerID": container_id}}
