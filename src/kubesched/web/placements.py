"""Which pod was on which node, from when to when, so that the page can show the cluster at an earlier time."""

from __future__ import annotations

from typing import Any

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.state import ClusterState
from kubesched.explain.amounts import requested
from kubesched.web.columns import packed

MOST = 100_000
"""PlacementLog that are kept; of those that have ended, the older half goes first."""


class PlacementLog:
    """Pods on nodes over time."""

    def __init__(self) -> None:
        self._rows: list[int] = []
        self._classes: list[int] = []
        self._from: list[float] = []
        self._until: list[float] = []
        self._numbers: dict[PodClass, int] = {}
        self._current: dict[str, int] = {}

    def placed(self, pod: api.Pod, state: ClusterState, when: float) -> None:
        """A pod got its node."""
        if len(self._rows) >= MOST:
            self._drop_ended()
        row = state.nodes.row_for_pod(pod.node_name)
        pod_class = state.classes.info(pod).pod_class
        self._current[pod.uid] = len(self._rows)
        self._rows.append(row)
        self._classes.append(self._numbers.setdefault(pod_class, len(self._numbers)))
        self._from.append(when)
        self._until.append(0.0)

    def ended(self, uid: str, when: float) -> None:
        """A pod has left its node."""
        index = self._current.pop(uid, None)
        if index is not None:
            self._until[index] = when

    def columns(self, resources: tuple[str, ...]) -> dict[str, Any]:
        """All placements: a node, a class of pods, and a time span each; and what the classes request."""
        requests = []
        for pod_class in self._numbers:
            wanted = {**requested(pod_class.node_requests), "pods": 1}
            requests.append([float(wanted.get(name, 0)) for name in resources])
        return {
            "rows": packed(self._rows, "u4"),
            "classes": packed(self._classes, "u4"),
            "from": packed(self._from, "f8"),
            "until": packed(self._until, "f8"),
            "requests": requests,
        }

    def _drop_ended(self) -> None:
        ended = sorted((until, index) for index, until in enumerate(self._until) if until)
        dropped = {index for _, index in ended[: len(ended) // 2 + 1]}
        kept = [index for index in range(len(self._rows)) if index not in dropped]
        place = {old: new for new, old in enumerate(kept)}
        self._rows = [self._rows[index] for index in kept]
        self._classes = [self._classes[index] for index in kept]
        self._from = [self._from[index] for index in kept]
        self._until = [self._until[index] for index in kept]
        self._current = {uid: place[index] for uid, index in self._current.items()}
