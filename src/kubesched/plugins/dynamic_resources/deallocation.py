"""PostFilter: free what keeps a pod from being scheduled."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.matching import node_selector_mask
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.plugin import PostFilterResult
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, error, unresolvable, unschedulable
from kubesched.plugins.dynamic_resources import extended
from kubesched.plugins.dynamic_resources.claims import ClaimError, claims_of_group, is_reserved_for
from kubesched.plugins.dynamic_resources.context import NAME, NOT_PREPARED, ClaimContext, group_state
from kubesched.plugins.dynamic_resources.cycle import Cycle
from kubesched.plugins.dynamic_resources.filtering import NOT_AVAILABLE, STATUSES

NOTHING_TO_DEALLOCATE = unschedulable("no new claims to deallocate")


class Deallocation:
    """Takes one claim's devices, or its reservation, away from a pod that does not fit."""

    def __init__(self, context: ClaimContext) -> None:
        self._context = context

    def post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        if NAME not in state:
            # Another plugin's PreFilter ended the attempt first; upstream stops here too, before preemption.
            return None, NOT_PREPARED
        cycle = state.read(NAME, Cycle)
        if not cycle.claims:
            return None, NOTHING_TO_DEALLOCATE
        index = self._deallocatable(cycle, pod, diagnosis)
        if index is not None:
            self._context.handle.spawn(self._context.binder.deallocate(cycle.claims[index], pod))
            return None, unschedulable("deallocation of ResourceClaim completed")
        special = cycle.special
        if special is not None and special.name != extended.IN_MEMORY:
            self._context.handle.spawn(self._context.binder.delete(special))
            return None, unschedulable("deletion of ResourceClaim completed")
        if self._context.of_groups and pod.pod_group:
            status = self._unreserve_group(state, pod)
            if status is not None:
                return None, status
        return None, unschedulable("still not schedulable")

    def _unreserve_group(self, state: CycleState, pod: api.Pod) -> Status | None:
        """Release a claim that an earlier cycle has reserved for the pod's group, so that other devices can be tried.
        This is safe while no pod of the group has a node, except for trial."""
        if self._context.handle.cluster.pod_groups.get(pod.pod_group).scheduled - group_state(state).placed:
            return None
        try:
            group = self._context.group_of(pod)
            assert group is not None
            claims = list(claims_of_group(group, self._context.ledger))
        except ClaimError as problem:
            return error(str(problem))
        for claim in claims:
            if claim.status.allocation is not None and is_reserved_for(claim, pod, of_groups=True):
                self._context.handle.spawn(self._context.binder.unreserve(claim, pod, group))
                return unresolvable("ResourceClaim unreserved for PodGroup")
        return None

    def _deallocatable(self, cycle: Cycle, pod: api.Pod, diagnosis: Diagnosis) -> int | None:
        """A claim that keeps the pod off a node and is reserved for no other pod. Upstream picks one at random too."""
        candidates = [
            index
            for index, claim in enumerate(cycle.claims[: cycle.user_claims])
            if claim.status.allocation is not None
            and all(consumer.uid == pod.uid for consumer in claim.status.reserved_for)
            and len(claim.status.reserved_for) <= 1
        ]
        rows = self._unavailable_rows(diagnosis) if candidates else np.zeros(0, dtype=np.int64)
        if not len(rows):
            return None
        nodes = Nodes(diagnosis.table, rows)
        keeping = [index for index in candidates if self._keeps_away(cycle, index, nodes)]
        return self._context.handle.random.choice(keeping) if keeping else None

    def _unavailable_rows(self, diagnosis: Diagnosis) -> Ints:
        wanted = STATUSES[NOT_AVAILABLE].by(NAME)
        found = [rows for status, rows in diagnosis.statuses() if status == wanted]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _keeps_away(self, cycle: Cycle, index: int, nodes: Nodes) -> bool:
        place = cycle.places[index]
        return index in cycle.unready or (place is not None and not node_selector_mask(nodes, place).all())
