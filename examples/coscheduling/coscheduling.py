"""Coscheduling: the pods of a group start together or not at all.

Pods say with two labels which group they belong to and how many of it there must be. Each is scheduled as ever, and
then waits on Permit, its place held, until enough of the group have one. Who waits too long gives up its place, and all
the others of the group with it: half a job must not keep resources from one that fits.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched import (
    Action,
    Code,
    CycleState,
    EventHint,
    Handle,
    Nodes,
    Plugin,
    Pod,
    Resource,
    Status,
    WaitingPod,
    on,
    unresolvable,
)

GROUP = "scheduling.x-k8s.io/pod-group"
MIN_AVAILABLE = "scheduling.x-k8s.io/min-available"

Group = tuple[str, str]
"""Namespace and name."""


class CoschedulingArgs(msgspec.Struct, frozen=True, rename="camel"):
    """What `pluginConfig` may say; the name is upstream's."""

    permit_waiting_time_seconds: int = 60
    backoff_seconds: int = 20
    """Seconds that a group waits after giving up, before it is retried."""


def group_of(pod: Pod) -> Group | None:
    """The group of a pod, if it has one."""
    name = pod.labels.get(GROUP)
    return (pod.namespace, name) if name else None


def needed(pod: Pod) -> int | None:
    """The required size of the pod's group; None if the label is no number."""
    text = pod.labels.get(MIN_AVAILABLE, "")
    return int(text) if text.isascii() and text.isdigit() and int(text) > 0 else None


class Coscheduling(Plugin):
    """Binds the pods of a group together."""

    name = "Coscheduling"
    args_type = CoschedulingArgs

    def __init__(self, args: Any, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resting: dict[Group, dict[str, Pod]] = {}
        """Groups that gave up recently, with the members to retry, by UID. Without this backoff, members of one group
        would take turns in holding the room for ever."""

    def events_to_register(self) -> list[EventHint]:
        """Only other labels help a pod here: pods that gave up their place are activated when the others end."""
        return [on(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL)]

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Reject a group without a size, which would never start, and a group that backs off."""
        group = group_of(pod)
        if group is None:
            return None
        if needed(pod) is None:
            return unresolvable(f"label {MIN_AVAILABLE} of the pod must be a positive number")
        if group in self._resting:
            self._resting[group][pod.uid] = pod
            return unresolvable(f"group {group[1]} has just given up its places")
        return None

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Nothing to reserve; the plugin needs `unreserve`, which belongs to this point."""
        return None

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, float] | None:
        """Wait for the others, or allow all if this is the last one."""
        group, wanted = group_of(pod), needed(pod)
        if group is None or wanted is None:
            return None
        if self._placed(group, pod) < wanted:
            return Status(Code.WAIT), float(self.args.permit_waiting_time_seconds)
        for each in self._waiting(group):
            each.allow(self.name)
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """A member lost its node: reject those that still wait for it."""
        group = group_of(pod)
        if group is None:
            return
        if group not in self._resting:
            self._resting[group] = {}
            self.handle.spawn(self._rest(group))
        self._resting[group][pod.uid] = pod
        for each in self._waiting(group):
            each.reject(self.name, f"pod {pod.name} of group {group[1]} gave up its place")

    async def _rest(self, group: Group) -> None:
        await self.handle.clock.sleep(self.args.backoff_seconds)
        self.handle.activate(self._resting.pop(group).values())

    def _waiting(self, group: Group) -> list[WaitingPod]:
        return [each for each in self.handle.waiting_pods if group_of(each.pod) == group]

    def _placed(self, group: Group, pod: Pod) -> int:
        """The members that have a node: bound ones, waiting ones, and the pod itself."""
        infos = self.handle.cluster.pods.values()
        there = {each.pod.uid for each in infos if group_of(each.pod) == group and not each.pod.is_terminating}
        return len(there | {pod.uid})
