"""Playing a scenario on an API server, step by step, so that two schedulers see the same."""

from __future__ import annotations

import time

from tests.e2e.api import JSON, condition, node_of, path_of, pod_path
from tests.e2e.control_plane import ControlPlane
from tests.e2e.waiting import until

SEEN_SECONDS = 0.2
BUSY_SECONDS = 10.0
QUIET_LOOKS = 5
"""So often in a row, no process may have anything to do."""


class Stage:
    """Makes objects and waits for what a scheduler makes of them."""

    def __init__(self, plane: ControlPlane) -> None:
        self.api = plane.admin
        self._plane = plane

    def put(self, *objects: JSON) -> None:
        """Create objects that nobody answers to. A scheduler has one watch for each kind, so it gets some time to see
        them before pods that need them: on a busy machine, until it has done what it has to do."""
        self.api.create(*objects)
        time.sleep(SEEN_SECONDS)
        quiet = 0
        deadline = time.monotonic() + BUSY_SECONDS
        while quiet < QUIET_LOOKS and time.monotonic() < deadline:
            quiet = 0 if any(child.is_busy() for child in self._plane.children) else quiet + 1
            time.sleep(0.01)

    def bound(self, *pods: JSON) -> None:
        """Create pods, one after the other, each of which gets bound."""
        for pod in pods:
            self.api.create(pod)
            self.becomes_bound(pod["metadata"]["name"])

    def refused(self, *pods: JSON) -> None:
        """Create pods, one after the other, none of which finds a place."""
        for pod in pods:
            self.api.create(pod)
            self.becomes_refused(pod["metadata"]["name"])

    def becomes_bound(self, *names: str) -> None:
        """Wait until pods are bound, and the world has been told."""
        for name in names:
            until(lambda name=name: node_of(self.api.pod(name)), f"pod {name} is bound")  # type: ignore[misc]
        for name in names:
            self.told(name, "Scheduled")

    def becomes_refused(self, name: str, saying: str = "") -> None:
        """Wait until a pod was turned down, for a reason with these words if any, and the world has been told."""

        def turned_down() -> JSON:
            return condition(self.api.pod(name))

        def enough(seen: JSON) -> bool:
            said = str(seen.get("message", ""))
            return seen.get("reason") in ("Unschedulable", "SchedulerError") and saying in said

        until(turned_down, f"pod {name} is turned down {saying}", enough=enough)
        self.told(name, "FailedScheduling", saying)

    def told(self, name: str, reason: str, saying: str = "") -> None:
        """Wait for an event about a pod."""

        def events() -> list[str]:
            found = self.api.items("/apis/events.k8s.io/v1/events", fieldSelector=f"regarding.name={name}")
            return [f"{each['reason']}: {each.get('note', '')}" for each in found]

        until(events, f"event {reason} of {name}", enough=lambda all: any(reason in e and saying in e for e in all))

    def change(self, obj: JSON, body: JSON) -> None:
        """Merge something into an object."""
        self.api.patch(path_of(obj), body)

    def gone(self, *names: str) -> None:
        """Remove pods at once, as a kubelet does that is through with them."""
        for name in names:
            self.api.delete(pod_path(name), now=True)
