"""Coscheduling's groups: the PodGroup kind of scheduling.x-k8s.io, and which pods belong to which group."""

from __future__ import annotations

from typing import ClassVar, Final

from kubesched.api import objects as api
from kubesched.api.meta import Part
from kubesched.cluster.state import ClusterState

GROUP_LABEL: Final = "scheduling.x-k8s.io/pod-group"


class GangSpec(Part, frozen=True):
    """What a group needs before any of its pods may start."""

    min_member: int = 0
    min_resources: api.ResourceList | None = None
    schedule_timeout_seconds: int | None = None


class Gang(api.Object, frozen=True):
    """A PodGroup of scheduling.x-k8s.io. (Kubernetes' own PodGroup, of scheduling.k8s.io, is another kind.)"""

    api_version: ClassVar[str] = "scheduling.x-k8s.io/v1alpha1"
    kind: ClassVar[str] = "PodGroup"
    plural: ClassVar[str] = "podgroups"

    spec: GangSpec = GangSpec()


def gang_key(pod: api.Pod) -> str:
    """``namespace/name`` of the pod's group; empty if it has none."""
    name = pod.labels.get(GROUP_LABEL)
    return f"{pod.namespace}/{name}" if name else ""


class GangMembers:
    """All pods of every group, and those of them that have a node. All profiles share one."""

    def __init__(self, cluster: ClusterState) -> None:
        self._members: dict[str, dict[str, api.Pod]] = {}
        self._assigned: dict[str, set[str]] = {}
        self._gated: dict[str, set[str]] = {}
        self.failed: dict[str, float] = {}
        """When a group last failed: it goes behind the groups that have not been tried since."""
        for info in cluster.pods.values():
            self._observe(None, info.pod)
        cluster.pod_observers.append(self._observe)

    def of(self, key: str) -> dict[str, api.Pod]:
        """The pods of a group that have not ended, by UID."""
        return self._members.get(key, {})

    def gated(self, key: str) -> int:
        """How many pods of a group have scheduling gates."""
        return len(self._gated.get(key, ()))

    def assigned(self, key: str) -> set[str]:
        """UIDs of the pods of a group that have a node, or hold one while they wait on Permit."""
        return self._assigned.get(key, set())

    def assign(self, key: str, uid: str) -> None:
        """Count a pod as assigned."""
        self._assigned.setdefault(key, set()).add(uid)

    def unassign(self, key: str, uid: str) -> None:
        """Undo `assign`."""
        assigned = self._assigned.get(key)
        if assigned is not None:
            assigned.discard(uid)
            if not assigned:
                del self._assigned[key]

    def _observe(self, old: api.Pod | None, new: api.Pod | None) -> None:
        before = "" if old is None else gang_key(old)
        after = "" if new is None else gang_key(new)
        if before and old is not None and before != after:
            self._remove(before, old.uid)
        if after and new is not None:
            self._members.setdefault(after, {})[new.uid] = new
            if new.spec.scheduling_gates:
                self._gated.setdefault(after, set()).add(new.uid)
            else:
                self._gated.get(after, set()).discard(new.uid)
            if new.node_name:
                self.assign(after, new.uid)

    def _remove(self, key: str, uid: str) -> None:
        self.unassign(key, uid)
        members = self._members.get(key, {})
        members.pop(uid, None)
        self._gated.get(key, set()).discard(uid)
        if not members:
            self._members.pop(key, None)
            self._gated.pop(key, None)
            self.failed.pop(key, None)
