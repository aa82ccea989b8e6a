"""IndexScheduling: a pod goes to the node whose name ends in the number that the pod's own name ends in."""

from __future__ import annotations

import re

from kubesched import Action, CycleState, EventHint, NodeInfo, Plugin, Pod, Reads, Resource, Status, on, unresolvable

NUMBER = re.compile(r"[0-9]+$")


def mismatch(pod_name: str, node_name: str) -> str:
    """Why the pod does not belong on the node; empty if it does.

    Numbers are compared as numbers, so sample-1 belongs on worker01; and of worker01.home.local only the host part
    counts. The extender beside this file asks the same question.
    """
    wanted = NUMBER.search(pod_name)
    found = NUMBER.search(node_name.partition(".")[0])
    if wanted is None:
        return "pod's name does not end with number"
    if found is None:
        return "node's name does not end with number"
    return "" if int(wanted[0]) == int(found[0]) else "number does not match"


class IndexScheduling(Plugin):
    """Sends pods to the node of their number."""

    name = "IndexScheduling"
    reads = Reads.ROW  # the pod's name counts, and that differs among pods of one template

    def events_to_register(self) -> list[EventHint]:
        """Names never change, so only a new node can help a rejected pod."""
        return [on(Resource.NODE, Action.ADD)]

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Unresolvable, not just unschedulable: evicting pods does not change a name, so preemption need not try."""
        reason = mismatch(pod.name, node.name)
        return unresolvable("Failed to schedule.", reason) if reason else None
