"""Reserve and Unreserve: devices that a pod gets, until they are written to its claims."""

from __future__ import annotations

import numpy as np
from msgspec.structs import replace

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.cluster.view import Nodes
from kubesched.framework.state import POD_GROUP_CYCLE, CycleState, GroupCycleState
from kubesched.framework.status import Status, error
from kubesched.plugins.dynamic_resources import extended, node_allocatable
from kubesched.plugins.dynamic_resources.claims import is_reserved_for
from kubesched.plugins.dynamic_resources.context import NAME, NOT_PREPARED, ClaimContext, group_state
from kubesched.plugins.dynamic_resources.cycle import Cycle
from kubesched.plugins.dynamic_resources.groups import NodeGroups
from kubesched.plugins.dynamic_resources.messages import PointLog
from kubesched.plugins.dynamic_resources.plan import FITS
from kubesched.plugins.dynamic_resources.requests import AllocationError
from kubesched.plugins.dynamic_resources.results import allocations


class DeviceReservation:
    """Holds devices for pods between the decision and the write."""

    def __init__(self, context: ClaimContext, groups: NodeGroups) -> None:
        self._context = context
        self._groups = groups

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        if NAME not in state:
            return NOT_PREPARED
        cycle = state.read(NAME, Cycle)
        if POD_GROUP_CYCLE in state:
            # The pod is placed a second time after the trial of its group, when devices have been given back.
            self._context.inventory.sync()
            cycle.on_nodes.clear()
        status = None
        if cycle.claims:
            say = PointLog(self._context.handle.log, "Reserve", pod, node_name)
            status = self._reserve(cycle, pod, node_name, say)
            if status is None:
                self._share(cycle, group_state(state), say)
        counted = pod.status.node_allocatable_resource_claim_statuses
        if self._context.features.dra_node_allocatable_resources and cycle.node_allocatable != counted:
            # What an earlier attempt has left in the pod's status no longer counts.
            self._context.handle.cluster.revise(node_allocatable.with_statuses(pod, cycle.node_allocatable))
        return status

    def _share(self, cycle: Cycle, group: GroupCycleState, say: PointLog) -> None:
        """Count the pod among those that wait for allocations of its group, and let the next pods share its own."""
        for index, allocation in cycle.shared.items():
            uid = cycle.claims[index].uid
            self._context.ledger.add_pending(uid, allocation)
            say.added(cycle.claims[index], self._context.ledger)
            # After the trial, the pod in front of this one has been given its devices anew.
            cycle.allocations[index] = self._context.ledger.pending(uid)
        made = zip(cycle.claims, cycle.allocations, strict=True)
        group.pending_claims.update(claim.uid for claim, allocation in made if allocation is not None)

    def _reserve(self, cycle: Cycle, pod: api.Pod, node_name: str, say: PointLog) -> Status | None:
        if not cycle.allocates:
            return None
        row = self._context.handle.cluster.nodes.row_of[node_name]
        nodes = Nodes(self._context.handle.cluster.nodes, np.array([row], dtype=np.int64))
        ((group, _),) = self._groups.of(cycle, pod, nodes)
        if group.plan is None:
            return None  # a device plugin provides everything
        if isinstance(group.plan, AllocationError):
            return error("claim allocation not found for node")
        numbers = self._context.inventory.state_numbers(nodes.rows)
        number = int(numbers[0])
        if group.plan.codes(numbers, self._context.inventory.states.nodes, self._context.timer)[0] != FITS:
            return error("claim allocation not found for node")
        solution = group.plan.solution(number)
        if self._context.features.dra_node_allocatable_resources:
            cycle.node_allocatable = self._groups.claim_statuses(group, pod, number)
        view = self._context.inventory.view(row)
        try:
            made = allocations(
                group.plan.claims, solution, view, node_name, self._context.features, self._context.new_uid
            )
        except AllocationError as problem:
            return error(f"create NodeSelector for claim: {problem}")
        cycle.chosen = group
        for index, allocation in zip(cycle.to_allocate(), made, strict=True):
            cycle.allocations[index] = allocation
            claim = cycle.claims[index]
            self._context.ledger.add_pending(claim.uid, allocation)
            if say.enabled:
                say.added(claim, self._context.ledger)
                say.claim("Reserved resource in allocation result", claim, allocation)
        return None

    def settle(self, cycle: Cycle) -> list[dra.ResourceClaim]:
        """The pod's claims with what was decided about them. It is up to the caller to record them from now on."""
        found = []
        for index, (claim, user) in enumerate(zip(cycle.claims, cycle.consumers, strict=False)):
            self._context.ledger.drop_pending(claim.uid, force=True)
            others = (each for each in claim.status.reserved_for if each.uid != user.uid)
            allocation = cycle.allocations[index] or claim.status.allocation
            found.append(
                replace(claim, status=replace(claim.status, allocation=allocation, reserved_for=(*others, user)))
            )
        return found

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        if NAME not in state:
            return
        cycle = state.read(NAME, Cycle)
        say = PointLog(self._context.handle.log, "Unreserve", pod, node_name)
        for index, claim in enumerate(cycle.claims[: cycle.user_claims]):
            removed = cycle.allocations[index] is not None and self._context.ledger.drop_pending(claim.uid)
            if cycle.allocations[index] is not None:
                say.dropped(claim, self._context.ledger, removed=removed)
            if removed:
                group_state(state).pending_claims.discard(claim.uid)
                say.claim("Released resource in allocation result", claim, claim.status.allocation)
                self._context.ledger.restore(claim.key)
                say.restored(claim)
            cycle.allocations[index] = None
            if claim.status.allocation is not None and is_reserved_for(claim, pod):
                self._context.handle.spawn(self._context.binder.unreserve(claim, pod))
        cycle.node_allocatable = ()
        if cycle.in_pod_status:
            cycle.in_pod_status = False
            self._context.handle.spawn(self._context.binder.clear_node_allocatable(pod))
        special = cycle.special
        if special is None:
            return
        if self._context.ledger.drop_pending(cycle.special_uid):
            self._context.ledger.restore(special.key)
        if special.name != extended.IN_MEMORY:
            self._context.handle.spawn(self._context.binder.delete(special))
