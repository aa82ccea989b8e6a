"""Coscheduling: the pods of a PodGroup start together or not at all.

Each pod of a group is scheduled as usual and then waits on Permit, its place held, until `minMember` of them have a
node. If one of them finds no node, or waits too long, the whole group gives up its places.
"""

from __future__ import annotations

from typing import Final, Protocol

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import milli, value
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.contrib.gangs import Gang, GangMembers, gang_key
from kubesched.contrib.go_time import parse_time
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.events import Action, EventHint, Hint, Resource, on
from kubesched.framework.plugin import Handle, Plugin, PostFilterResult
from kubesched.framework.state import PODS_TO_ACTIVATE, CycleState, PodsToActivate
from kubesched.framework.status import Code, Status, unresolvable, unschedulable

DEFAULT_WAIT: Final = 60.0
LONGEST_REST: Final = 10.0
PERMITTED_SECONDS: Final = 3.0
"""How long a passed check of minResources counts if permitWaitingTimeSeconds is 0."""


class CoschedulingArgs(msgspec.Struct, frozen=True, rename="camel"):
    """How long pods wait for the rest of their group, and how quickly a group gives up."""

    permit_waiting_time_seconds: int = 60
    pod_group_backoff_seconds: int = 0
    pod_group_reject_percentage: int = 10

    def __post_init__(self) -> None:
        for name in ("permit_waiting_time_seconds", "pod_group_backoff_seconds"):
            if getattr(self, name) < 0:
                raise ValueError(f"{_camel(name)} must not be negative, got {getattr(self, name)}")
        if not 0 <= self.pod_group_reject_percentage <= 100:
            raise ValueError(f"podGroupRejectPercentage must be from 0 to 100, got {self.pod_group_reject_percentage}")


class PodInQueue(Protocol):
    """A pod in the queue."""

    @property
    def pod(self) -> api.Pod: ...

    timestamp: float
    initial_attempt_timestamp: float | None


class Coscheduling(Plugin):
    """Binds the pods of a PodGroup together."""

    name = "Coscheduling"
    args_type = CoschedulingArgs

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._members = handle.cluster.share(GangMembers)
        self._has_time = hasattr(handle, "clock")
        """False where decisions are made without a scheduler, as in a what-if."""
        self._permitted: dict[str, float] = {}
        """Groups whose minResources were found recently, and until when that counts."""
        self._resting: dict[str, dict[str, api.Pod]] = {}
        """Groups that failed recently, with the pods that came meanwhile, by UID."""
        self._failures: dict[str, int] = {}
        """How often a group has failed since it last succeeded."""

    def events_to_register(self) -> list[EventHint]:
        """Upstream has the first and the last. With those alone, a group that was rejected as a whole would not notice
        that there is room again."""
        room = Action.ADD | Action.UPDATE_NODE_ALLOCATABLE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return [
            on(Resource.POD, Action.ADD, self._after_pod_added, by_class=True),
            on(Resource.NODE, room),
            on(Resource.ASSIGNED_POD, Action.DELETE, self._after_pod_deleted, by_class=True),
            on(Gang, Action.ADD | Action.UPDATE, self._after_group_changed, by_class=True),
        ]

    def _after_pod_added(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        same = isinstance(new, api.Pod) and bool(gang_key(new)) and gang_key(new) == gang_key(pod)
        return Hint.QUEUE if same else Hint.SKIP

    def _after_pod_deleted(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        """Places that the group itself gives up do not help it."""
        same = isinstance(old, api.Pod) and gang_key(old) == gang_key(pod)
        return Hint.SKIP if same else Hint.QUEUE

    def _after_group_changed(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        return Hint.QUEUE if new is not None and new.key == gang_key(pod) else Hint.SKIP

    # QueueSort

    def less(self, a: PodInQueue, b: PodInQueue) -> bool:
        """By priority, then by the age of group or pod, then by name, so that a group stays together."""
        return self._rank(a) < self._rank(b)

    def _rank(self, queued: PodInQueue) -> tuple[int, float, str]:
        return -queued.pod.priority, self._age(queued), queued.pod.key

    def _age(self, queued: PodInQueue) -> float:
        """When the pod's group last failed, else when the group was created, else when the pod was first tried."""
        key = gang_key(queued.pod)
        failed = self._members.failed.get(key)
        if failed is not None:
            return failed
        group = self._group(key)
        if group is not None and group.metadata.creation_timestamp:
            return parse_time(group.metadata.creation_timestamp)
        first = queued.initial_attempt_timestamp
        tried = queued.timestamp if first is None else first
        return tried - self.handle.clock.monotonic() + self._now() if self._has_time else tried

    # PreFilter

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        """Reject a pod of a group that cannot start now: too few pods, too little room, or a recent failure."""
        key = gang_key(pod)
        group = self._group(key)
        if group is None:
            return None
        if key in self._resting:
            self._resting[key][pod.uid] = pod
            return unresolvable(f"podGroup {key} failed recently")
        known = self._members.of(key)
        members, needed = len(known) + (pod.uid not in known), group.spec.min_member
        if members < needed:
            return unresolvable(
                f"pre-filter pod {pod.name} cannot find enough sibling pods, "
                f"current pods number: {members}, minMember of group: {needed}"
            )
        if members - self._members.gated(key) < needed:
            return unresolvable(f"pre-filter pod {pod.name} cannot proceed due to gated pods in the same PodGroup")
        return self._check_resources(key, group)

    def _check_resources(self, key: str, group: Gang) -> Status | None:
        if group.spec.min_resources is None or self._permitted.get(key, 0.0) > self._now():
            return None
        gap = self._gap(key, {**group.spec.min_resources, "pods": group.spec.min_member})
        if gap:
            return unresolvable(f"resource gap: {', '.join(f'{name}: {amount}' for name, amount in gap.items())}")
        self._permitted[key] = self._now() + (self.args.permit_waiting_time_seconds or PERMITTED_SECONDS)
        return None

    def _gap(self, key: str, wanted: api.ResourceList) -> dict[str, int]:
        """What all nodes together lack. The group's own pods count as room."""
        table = self.handle.cluster.nodes
        infos = [
            self.handle.cluster.pods[uid] for uid in self._members.assigned(key) if uid in self.handle.cluster.pods
        ]
        gap: dict[str, int] = {}
        for name, quantity in wanted.items():
            column = table.column_of(name)
            free: Ints = (table.allocatable[column] - table.used[column])[: table.size]
            for info in infos:
                free[info.row] += table.usage(info.pod_class)[column]
            amount = milli(quantity) if name == "cpu" else value(quantity)
            # Upstream goes from node to node and stops when it has enough, whatever nodes with too many pods follow.
            most = int(np.cumsum(free[table.valid[: table.size]]).max(initial=0))
            if most < amount:
                gap[name] = amount - most
        return gap

    # PostFilter

    def post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        """Reject the pods of the group that wait, unless few enough are missing."""
        key = gang_key(pod)
        group = self._group(key)
        if group is None:
            return None, unschedulable("can not find pod group")
        missing = group.spec.min_member - len(self._members.assigned(key))
        if missing <= 0 or 100 * missing <= self.args.pod_group_reject_percentage * group.spec.min_member:
            return None, Status(Code.UNSCHEDULABLE)
        self._reject_waiting(key, "optimistic rejection in PostFilter")
        if self._has_time and key not in self._resting and len(self._members.of(key)) >= group.spec.min_member:
            self._resting[key] = {}
            self.handle.spawn(self._rest(key))
        self._give_up(key)
        return None, unschedulable(
            f"PodGroup {key} gets rejected due to Pod {pod.name} is unschedulable even after PostFilter"
        )

    async def _rest(self, key: str) -> None:
        """Reject the group's pods for a while, then retry those that came meanwhile.

        Upstream does so only if podGroupBackoffSeconds is set. Otherwise it retries a group at once, over and over,
        since the places that the group has just given up look like room.
        """
        self._failures[key] = failures = self._failures.get(key, 0) + 1
        await self.handle.clock.sleep(self.args.pod_group_backoff_seconds or min(2.0 ** (failures - 1), LONGEST_REST))
        self.handle.activate(list(self._resting.pop(key).values()))
        if not self._members.of(key):
            self._failures.pop(key, None)

    # Reserve, Permit

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """There is nothing to reserve; the plugin needs `unreserve`, which belongs to this point."""
        return None

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        """A pod lost its node: reject the pods of its group that wait."""
        key = gang_key(pod)
        if not key:
            return
        self._members.unassign(key, pod.uid)
        if self._group(key) is not None:
            self._reject_waiting(key, "rejection in Unreserve")
            self._give_up(key)

    def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | tuple[Status, float] | None:
        """Wait for the others, or allow all of them if this pod completes the group."""
        key = gang_key(pod)
        if not key:
            return None
        group = self._group(key)
        if group is None:
            return unschedulable("PodGroup not found")
        self._members.assign(key, pod.uid)
        assigned = self._members.assigned(key)
        if len(assigned) >= group.spec.min_member:
            self._members.failed.pop(key, None)
            self._failures.pop(key, None)
            for uid in assigned if len(self.handle.waiting_pods) else ():
                waiting = self.handle.waiting_pods.get(uid)
                if waiting is not None:
                    waiting.allow(self.name)
            return None
        if len(assigned) == 1:
            others = [each for each in self._members.of(key).values() if each.uid != pod.uid]
            state.read(PODS_TO_ACTIVATE, PodsToActivate).add(others)
        return Status(Code.WAIT), self._waiting_time(group)

    def _waiting_time(self, group: Gang) -> float:
        given = group.spec.schedule_timeout_seconds
        return float(given or self.args.permit_waiting_time_seconds or DEFAULT_WAIT)

    # --- inside

    def _group(self, key: str) -> Gang | None:
        return self.handle.cluster.get(Gang, key) if key else None

    def _reject_waiting(self, key: str, message: str) -> None:
        for uid in self._members.of(key):
            waiting = self.handle.waiting_pods.get(uid)
            if waiting is not None:
                waiting.reject(self.name, message)

    def _give_up(self, key: str) -> None:
        self._permitted.pop(key, None)
        self._members.failed[key] = self._now()

    def _now(self) -> float:
        return self.handle.clock.now() if self._has_time else 0.0


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(map(str.capitalize, rest))
