"""Pods promised a node, kept in step with the queue.

A promise is made in memory first and reaches the pod's status later, by way of the API server. An update in between
that knows nothing of it must not undo it.
"""

from __future__ import annotations

from collections.abc import Callable

from kubesched.api import objects as api
from kubesched.cluster.nominations import Nominations
from kubesched.cluster.pods import PodInfo


class Nominator:
    """Changes the cluster's nominations as the queue learns of pods."""

    def __init__(self, nominations: Nominations, is_waiting: Callable[[str], bool]) -> None:
        self._nominations = nominations
        self._is_waiting = is_waiting

    def add(self, info: PodInfo, node_name: str | None = None) -> None:
        """Nominate a pod to a node: the one in its status by default; an empty name withdraws a nomination.

        A pod that no longer waits, because it was deleted or bound, is nominated nowhere.
        """
        if node_name is None:
            node_name = info.pod.nominated_node_name
        if node_name and self._is_waiting(info.pod.uid):
            self._nominations.add(info, node_name)
        else:
            self._nominations.remove(info.pod.uid)

    def update(self, old: api.Pod, info: PodInfo) -> None:
        """Follow an update. Only one that speaks of a nomination, before or after, changes it."""
        silent = not old.nominated_node_name and not info.pod.nominated_node_name
        self.add(info, self._nominations.node_of(old.uid) if silent else None)

    def remove(self, uid: str) -> None:
        """Withdraw a pod's nomination."""
        self._nominations.remove(uid)
