"""TopologyPlacementGenerator and PodGroupPodsCount: a pod group goes to the nodes of one topology domain."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.api import objects as api
from kubesched.framework.placements import Assignments, Placement
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin
from kubesched.framework.status import Status, error


class TopologyPlacementGenerator(Plugin):
    """One placement per value of the label that the group's topology constraint names.

    If pods of the group have nodes already, only their domain is left.
    """

    name = "TopologyPlacementGenerator"

    def generate_placements(self, group: api.PodGroup, parent: Placement) -> Sequence[Placement] | Status:
        key = group.topology_key
        if not key:
            return [parent]
        domains = self._domains_of_pods(group, key)
        if isinstance(domains, Status):
            return domains
        column = self.handle.cluster.nodes.label(key)
        ids = column.ids[: len(parent.rows)]
        present = np.unique(ids[parent.rows & (ids >= 0)]).tolist()
        names = {column.values[each]: each for each in present}
        return [
            Placement(name, parent.rows & (ids == names[name]))
            for name in sorted(names)
            if domains is None or name == domains
        ]

    def _domains_of_pods(self, group: api.PodGroup, key: str) -> str | Status | None:
        """The domain that the group's scheduled pods are in; None if there are no such pods."""
        cluster = self.handle.cluster
        start = "cannot determine domain for already scheduled pods"
        found: str | None = None
        for uid in sorted(cluster.pod_groups.get(group.key).scheduled):
            info = cluster.pods[uid]
            node = cluster.nodes.nodes[info.row]
            if node is None:
                name = cluster.nodes.names[info.row]
                return error(f'{start}: getting node for pod {info.pod.key}: nodeinfo not found for node name "{name}"')
            domain = node.labels.get(key)
            if domain is None:
                return error(f"{start}: no topology domain found for pod {info.pod.key}")
            if found not in (None, domain):
                return error(f"{start}: more than 1 domain found for pod group: {found}, {domain}")
            found = domain
        return found


class PodGroupPodsCount(Plugin):
    """Prefers placements where more pods of the group fit. Pods that have a node already count too."""

    name = "PodGroupPodsCount"

    def score_placement(self, group: api.PodGroup, assignments: Assignments) -> int:
        return len(self.handle.cluster.pod_groups.get(group.key).scheduled) + len(assignments.pods)

    def normalize_placements(self, scores: list[int]) -> list[int]:
        highest = max(scores)
        if not highest:
            raise ValueError("no pods from pod group are assigned to any of the candidate placements")
        return [score * MAX_NODE_SCORE // highest for score in scores]
