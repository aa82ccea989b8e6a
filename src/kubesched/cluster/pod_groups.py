"""Which pods belong to which pod group, and which of them have a node."""

from __future__ import annotations

from kubesched.api import objects as api


class PodGroupState:
    """The pods of one group that this scheduler knows."""

    __slots__ = ("pods", "scheduled")

    def __init__(self) -> None:
        self.pods: dict[str, api.Pod] = {}
        """All of them by UID, in the order in which they appeared."""
        self.scheduled: set[str] = set()
        """UIDs of those that are assumed on a node or bound."""

    @property
    def unscheduled(self) -> list[api.Pod]:
        """The pods that have no node."""
        return [pod for uid, pod in self.pods.items() if uid not in self.scheduled]


NO_PODS = PodGroupState()


class PodGroups:
    """All groups by key, whether or not their PodGroup object exists. A group without pods is dropped."""

    def __init__(self) -> None:
        self._groups: dict[str, PodGroupState] = {}

    def __len__(self) -> int:
        return len(self._groups)

    def get(self, key: str) -> PodGroupState:
        """The state of a group; an empty one if no pod belongs to it."""
        return self._groups.get(key, NO_PODS)

    def set(self, pod: api.Pod) -> None:
        """Store a pod's newest state, if it belongs to a group."""
        key = pod.pod_group
        if key:
            self._groups.setdefault(key, PodGroupState()).pods[pod.uid] = pod

    def remove(self, pod: api.Pod) -> None:
        """A pod is gone."""
        group = self._groups.get(pod.pod_group)
        if group is not None:
            group.pods.pop(pod.uid, None)
            group.scheduled.discard(pod.uid)
            if not group.pods:
                del self._groups[pod.pod_group]

    def placed(self, pod: api.Pod) -> None:
        """A pod is on a node. One that was deleted meanwhile does not count."""
        group = self._groups.get(pod.pod_group)
        if group is not None and pod.uid in group.pods:
            group.scheduled.add(pod.uid)

    def taken_off(self, pod: api.Pod) -> None:
        """A pod is on no node any more."""
        group = self._groups.get(pod.pod_group)
        if group is not None:
            group.scheduled.discard(pod.uid)
