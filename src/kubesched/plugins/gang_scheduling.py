"""GangScheduling: the pods of a group with a gang policy go to nodes together, or not at all.

PreEnqueue holds pods back until `minCount` of them exist. Permit holds them back until `minCount` of them have a node.
It also runs in the trial of a pod group's cycle, where its answer tells whether the group is schedulable.
"""

from __future__ import annotations

from typing import Final

from kubesched.api import objects as api
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error, unresolvable

PERMIT_SECONDS: Final = 5 * 60.0
TOO_FEW: Final = unresolvable("waiting for minCount pods from a gang to appear in scheduling queue")
WAIT: Final = Status(Code.WAIT, "waiting for minCount pods from a gang to be scheduled")


class GangScheduling(Plugin):
    """PreEnqueue and Permit for gangs."""

    name = "GangScheduling"

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.ADD, self._after_pod_added, by_class=True),
            on(Resource.POD_GROUP, Action.ADD, self._after_group_added, by_class=True),
        ]

    def _after_pod_added(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        """Upstream queues the gang for each new member. A gang that is still too small would only be held back again,
        so it waits here for the member that completes it."""
        if not isinstance(new, api.Pod):
            return Hint.SKIP
        log, about = self.handle.log, {"addedPod": new, "addedPodSchedulingGroup": _printed(new)}
        if not pod.pod_group or new.pod_group != pod.pod_group:
            why = "another pod was added but it doesn't match the target pod's scheduling group"
            return skip_because(log, 5, why, pod=pod, schedulingGroup=_printed(pod), **about)
        why = (
            "another pod was added and it matches the target pod's scheduling group, which may make the pod schedulable"
        )
        hint = queue_because(log, 5, why, pod=pod, schedulingGroup=_printed(pod), **about)
        return Hint.SKIP if self._is_too_small(pod.pod_group) else hint

    def _after_group_added(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log, about = self.handle.log, {"schedulingGroup": _printed(pod), "addedPodGroup": new}
        if new is None or pod.pod_group != new.key:
            why = "pod group was added but it doesn't match the target pod's scheduling group"
            return skip_because(log, 5, why, pod=pod, **about)
        why = "pod group was added and it matches the target pod's scheduling group, which may make the pod schedulable"
        return queue_because(log, 5, why, pod=pod, **about)

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        key = pod.pod_group
        if not key:
            return None
        if self._group(key) is None:
            name = key.rpartition("/")[2]
            return unresolvable(f'waiting for pods\'s pod group "{name}" to appear in scheduling queue')
        return TOO_FEW if self._is_too_small(key) else None

    def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | tuple[Status, float] | None:
        key = pod.pod_group
        if not key:
            return None
        group = self._group(key)
        if group is None:
            name = key.rpartition("/")[2]
            return error(f'failed to get podGroup {key}: podgroup.scheduling.k8s.io "{name}" not found')
        if group.min_count is None:
            return None
        known = self.handle.cluster.pod_groups.get(key)
        if len(known.scheduled) < group.min_count:
            # Upstream activates the rest of the gang, but that is in this cycle too.
            left = len(known.pods) - len(known.scheduled)
            message = "Quorum is not met for a gang. Waiting for another pod to allow"
            self._log_quorum(message, pod, node_name, activatedPods=left)
            return WAIT, PERMIT_SECONDS
        message = "Quorum is met for a gang. Allowing other pods from a gang waiting on permit"
        self._log_quorum(message, pod, node_name, allowedPods=len(known.scheduled))
        self._allow(known.scheduled)
        return None

    def _log_quorum(self, message: str, pod: api.Pod, node_name: str, **count: int) -> None:
        point = "Permit.GangScheduling"
        self.handle.log(4, message, logger=point, pod=pod, node=node_name, schedulingGroup=_printed(pod), **count)

    def _allow(self, uids: set[str]) -> None:
        """Let all members go that wait."""
        waiting_pods = self.handle.waiting_pods
        if not len(waiting_pods):
            return
        for uid in uids:
            waiting = waiting_pods.get(uid)
            if waiting is not None:
                waiting.allow(self.name)

    def _group(self, key: str) -> api.PodGroup | None:
        return self.handle.cluster.get(api.PodGroup, key)

    def _is_too_small(self, key: str) -> bool:
        group = self._group(key)
        needed = None if group is None else group.min_count
        return needed is not None and len(self.handle.cluster.pod_groups.get(key).pods) < needed


def _printed(pod: api.Pod) -> str | None:
    """A pod's scheduling group as Go prints it."""
    return None if not pod.pod_group else f"&PodSchedulingGroup{{PodGroupName:*{pod.pod_group.rpartition('/')[2]},}}"
