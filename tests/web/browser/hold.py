"""A plugin for the cluster of the browser tests."""

from __future__ import annotations

from kubesched import Code, CycleState, Plugin, Status
from kubesched.api.objects import Pod


class Hold(Plugin):
    """Lets pods with the label hold wait on Permit, or fail there: after an error a pod backs off at any rate."""

    name = "Hold"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float] | None:
        match pod.labels.get("hold"):
            case None:
                return None
            case "broken":
                return Status(Code.ERROR, "broken"), 0.0
            case _:
                return Status(Code.WAIT), 300.0
