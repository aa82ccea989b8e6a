"""Score: nodes where a pod gets more of what it lists first."""

from __future__ import annotations

import numpy as np

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.plugins.dynamic_resources.context import ClaimContext
from kubesched.plugins.dynamic_resources.cycle import Cycle
from kubesched.plugins.dynamic_resources.groups import NodeGroups, rows_of
from kubesched.plugins.dynamic_resources.requests import AllocationError


class ClaimScores:
    """Scores what was found for each node."""

    def __init__(self, context: ClaimContext, groups: NodeGroups) -> None:
        self._context = context
        self._groups = groups

    def scores(self, cycle: Cycle, pod: api.Pod, nodes: Nodes) -> Ints:
        """The scores of some nodes, not normalized."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        allocated = sum(
            _score(claim, claim.status.allocation or cycle.shared.get(index))
            for index, claim in enumerate(cycle.claims)
        )
        for group, positions in self._groups.of(cycle, pod, nodes):
            if group.plan is not None and not isinstance(group.plan, AllocationError):
                numbers = self._context.inventory.state_numbers(rows_of(nodes)[positions])
                scores[positions] = group.plan.scores(numbers) + allocated
        return scores


def _score(claim: dra.ResourceClaim, allocation: dra.AllocationResult | None) -> int:
    """How high in the lists of alternatives an allocated claim's devices are."""
    if allocation is None:
        return 0
    names = {result.request for result in allocation.devices.results}
    return sum(
        dra.MAX_SUBREQUESTS - index
        for request in claim.spec.devices.requests
        if request.exactly is None
        for index, sub in enumerate(request.first_available)
        if f"{request.name}/{sub.name}" in names
    )
