"""Nodes with the same claims to allocate. They differ only where extended resources are backed by device classes."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.plugins.dynamic_resources import extended, node_allocatable
from kubesched.plugins.dynamic_resources.claims import claims_of
from kubesched.plugins.dynamic_resources.context import ClaimContext
from kubesched.plugins.dynamic_resources.cycle import Cycle, NodeClaims
from kubesched.plugins.dynamic_resources.plan import AllocationPlan


class NodeGroups:
    """Finds those groups, with an allocation plan for each."""

    def __init__(self, context: ClaimContext) -> None:
        self._context = context

    def of(self, cycle: Cycle, pod: api.Pod, nodes: Nodes) -> list[tuple[NodeClaims, Ints]]:
        """Nodes with the same claims to allocate, as positions in the window."""
        everywhere = np.arange(len(nodes), dtype=np.int64)
        if not cycle.allocates or not cycle.backed:
            return [(self._claims_for(cycle, pod, ()), everywhere)]
        pattern = np.zeros(len(nodes), dtype=np.int64)
        for bit, resource in enumerate(cycle.backed):
            pattern |= (nodes.allocatable(resource) == 0).astype(np.int64) << bit
        groups = []
        for bits in np.unique(pattern).tolist():
            resources = tuple(name for bit, name in enumerate(cycle.backed) if bits >> bit & 1)
            groups.append((self._claims_for(cycle, pod, resources), everywhere[pattern == bits]))
        return groups

    def _claims_for(self, cycle: Cycle, pod: api.Pod, resources: tuple[str, ...]) -> NodeClaims:
        """The claims to allocate on nodes that provide these resources by devices."""
        found = cycle.on_nodes.get(resources)
        if found is None:
            found = cycle.on_nodes[resources] = self._make_claims(cycle, pod, resources)
        return found

    def _make_claims(self, cycle: Cycle, pod: api.Pod, resources: tuple[str, ...]) -> NodeClaims:
        claims = [cycle.claims[index] for index in cycle.to_allocate()]
        mappings: list[extended.Mapping] = []
        special = cycle.special
        if not claims or (special is not None and not resources and not cycle.user_claims):
            return NodeClaims(claims, mappings, None)
        if special is not None and claims[-1] is special:
            claims[-1], mappings = extended.claim_on_node(special, pod, resources, self._context.resolver)
        return NodeClaims(claims, mappings, self._context.plans.plan_for(claims))

    def claim_statuses(self, group: NodeClaims, pod: api.Pod, number: int) -> node_allocatable.ClaimStatuses:
        """What the claims take of a node's own resources, on nodes in the state with this number."""
        plan = group.plan
        assert isinstance(plan, AllocationPlan)
        found = claims_of(pod, self._context.ledger, of_groups=self._context.of_groups)
        names = {reference.name: claim.uid for reference, claim in found}
        state = self._context.inventory.states.nodes[number]
        return node_allocatable.claim_statuses(pod, group.claims, names, plan.solution(number), state)


def rows_of(nodes: Nodes) -> Ints:
    """The rows of a window, as an array."""
    rows = nodes.rows
    return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, slice) else rows
