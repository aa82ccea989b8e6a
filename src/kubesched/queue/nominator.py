"""Nominations, kept in step with the queue.

A nomination is made in memory first and reaches the pod's status later, through the API server. An update in between
that does not mention it must not undo it.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState


class Nominator:
    """Changes the cluster's nominations as the queue learns of pods."""

    def __init__(self, cluster: ClusterState, is_waiting: Callable[[str], bool]) -> None:
        self._cluster = cluster
        self._is_waiting = is_waiting

    def add(self, info: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod to a node: the one in its status by default; an empty name withdraws a nomination.

        A pod that no longer waits, because it was deleted or bound, is nominated nowhere.
        """
        if node_name is None:
            node_name = info.pod.nominated_node_name
        self._cluster.nominate(info, node_name if node_name and self._is_waiting(info.pod.uid) else "")

    def update(self, old: api.Pod, info: PodInfo) -> None:
        """Follow an update. It changes the nomination only if the status had or has one."""
        unmentioned = not old.nominated_node_name and not info.pod.nominated_node_name
        self.add(info, self._cluster.nominations.node_of(old.uid) if unmentioned else None)

    def remove(self, uid: str) -> None:
        """Withdraw a pod's nomination."""
        self._cluster.nominations.remove(uid)
