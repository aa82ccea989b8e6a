"""A copy of a cluster on which moves are tried and taken back."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.library.claims import claims_of
from kubesched.library.core import ClusterCore
from kubesched.library.results import Fate, Placement


class MoveTrial:
    """Changes a cluster of its own. Every change can be taken back, the newest first."""

    def __init__(self, cluster: ClusterCore) -> None:
        self.cluster = cluster.copy()
        self._undo: list[Callable[[], None]] = []

    def mark(self) -> int:
        """The present state, to return to."""
        return len(self._undo)

    def back_to(self, mark: int) -> None:
        """Take back everything since a mark."""
        while len(self._undo) > mark:
            self._undo.pop()()

    def cordon(self, name: str) -> None:
        """Let no new pods go to a node."""
        node = self.cluster.node(name)
        self.cluster.set(replace(node, spec=replace(node.spec, unschedulable=True)))
        self._undo.append(lambda: self.cluster.set(node))

    def displace(self, pod: api.Pod) -> api.Pod:
        """Take a pod from its node. Returns it as its controller would create it again."""
        before = (pod, *claims_of(self.cluster, pod))
        self.cluster.remove(pod)
        self._undo += [partial(self.cluster.set, each) for each in before]
        return fresh(pod)

    def place(self, pod: api.Pod) -> Placement:
        """Schedule a pod. One that has no place is not in the cluster afterwards."""
        (placement,) = self.cluster.play([pod])
        if placement.fate is Fate.PLACED:
            bound = replace(pod, spec=replace(pod.spec, node_name=placement.node))
            self._undo.append(lambda: self.cluster.remove(bound))
        return placement

    def place_all(self, pods: Iterable[api.Pod]) -> list[Placement] | None:
        """Schedule pods by priority; if one has no place, take all back and return None."""
        mark, placed = self.mark(), []
        for pod in by_priority(pods):
            placement = self.place(pod)
            if placement.fate is not Fate.PLACED:
                self.back_to(mark)
                return None
            placed.append(placement)
        return placed


def fresh(pod: api.Pod) -> api.Pod:
    """A pod as its controller would create it again, with the same identity and claims."""
    claims = pod.status.resource_claim_statuses
    return replace(pod, spec=replace(pod.spec, node_name=""), status=api.PodStatus(resource_claim_statuses=claims))


def by_priority(pods: Iterable[api.Pod]) -> list[api.Pod]:
    """Pods in the order in which the queue would try them."""
    return sorted(pods, key=lambda each: (-each.priority, each.key))
