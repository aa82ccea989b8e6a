"""PodState: prefers nodes that are about to get room, and avoids nodes whose room is promised to others."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.contrib.scaling import min_max
from kubesched.framework.plugin import Plugin
from kubesched.framework.state import CycleState


class PodState(Plugin):
    """Scores a node by its terminating pods minus the pods that are nominated to it."""

    name = "PodState"

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        cluster = self.handle.cluster
        balance = np.zeros(cluster.nodes.size, dtype=np.int64)
        for info in cluster.terminating.values():
            balance[info.row] += 1
        nominations = cluster.nominations
        for name in nominations.nodes:
            row = cluster.nodes.row_of.get(name)
            if row is not None:
                balance[row] -= len(nominations.on(name))
        return balance[nodes.rows]

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return min_max(scores)
