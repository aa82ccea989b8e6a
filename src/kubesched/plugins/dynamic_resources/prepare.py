"""PreFilter: what has to be done about each claim of a pod."""

from __future__ import annotations

from collections.abc import Collection

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.selectors import node_selector
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable
from kubesched.plugins.dynamic_resources import extended
from kubesched.plugins.dynamic_resources.claims import BindingFailed, ClaimError, claims_of, consumer_of, is_ready
from kubesched.plugins.dynamic_resources.context import ClaimContext, group_state
from kubesched.plugins.dynamic_resources.cycle import Cycle
from kubesched.plugins.dynamic_resources.messages import PointLog


class Preparation:
    """Collects a pod's claims, and says early what cannot work on any node."""

    def __init__(self, context: ClaimContext) -> None:
        self._context = context

    def prepare(self, state: CycleState, pod: api.Pod) -> Cycle | Status:
        """The pod's claims and what is to be done about them; SKIP if it has none."""
        try:
            found = list(claims_of(pod, self._context.ledger, of_groups=self._context.of_groups))
            group = self._context.group_of(pod)
        except ClaimError as problem:
            return unresolvable(str(problem))
        claims = [claim for _, claim in found]
        say = PointLog(self._context.handle.log, "PreFilter", pod)
        if say.enabled:
            say("pod resource claims", resourceclaims=list(claims))
        scalar = state.pod_class.requests.scalar
        special = self._special_claim(pod, scalar)
        if not claims and special is None:
            return SKIP
        cycle = Cycle(claims, special, [consumer_of(pod, reference, group) for reference, _ in found])
        if special is not None:
            for name in extended.resources_of(scalar):
                backed = self._context.resolver.class_of(name) is not None
                (cycle.backed if backed else cycle.unbacked).append(name)
        of_cycle = group_state(state).pending_claims
        for index, claim in enumerate(cycle.claims):
            status = self._inspect(cycle, index, claim, of_cycle, say)
            if status is not None:
                return status
        if cycle.allocates:
            if say.enabled:
                listed = [cycle.claims[index] for index in cycle.to_allocate()]
                say("Preparing allocation with structured parameters", resourceclaims=listed)
            self._context.inventory.sync()
        return cycle

    def _special_claim(self, pod: api.Pod, scalar: dict[str, int]) -> dra.ResourceClaim | None:
        """The claim for extended resources that device classes stand behind: an earlier one, or a new one."""
        if not any(self._context.resolver.class_of(name) is not None for name in extended.resources_of(scalar)):
            return None
        return self._context.ledger.made_for(pod) or extended.claim_in_memory(pod, self._context.new_uid())

    def _inspect(
        self, cycle: Cycle, index: int, claim: dra.ResourceClaim, of_cycle: Collection[str], say: PointLog
    ) -> Status | None:
        """See what has to be done about a claim; a status if nothing can be. The pods of a group share claims to which
        their cycle has allocated devices: those in `of_cycle`."""
        allocation = claim.status.allocation
        pending = self._context.ledger.pending(claim.uid)
        if allocation is None:
            cycle.allocates = True
            if pending is not None and claim.uid in of_cycle:
                say("reusing pending allocation", resourceclaim=claim, uid=claim.uid, allocation=pending)
                allocation = cycle.shared[index] = pending
        if allocation is not None:
            if allocation.node_selector is not None:
                place = node_selector(allocation.node_selector)
                if place.error:
                    return error(place.error)
                cycle.places[index] = place
            if self._context.conditions and index not in cycle.shared and self._has_failed(claim):
                cycle.unready.add(index)
            return None
        if pending is not None:
            return unresolvable(f"resource claim {claim.key} is in the process of being allocated")
        return None if index >= cycle.user_claims else self._check_classes(claim)

    def _check_classes(self, claim: dra.ResourceClaim) -> Status | None:
        for request in claim.spec.devices.requests:
            if request.exactly is not None:
                named = [(request.exactly.device_class_name, request.name)]
            elif request.first_available:
                if not self._context.features.dra_prioritized_list:
                    what = "has subrequests, but the DRAPrioritizedList feature is disabled"
                    return unresolvable(f"resource claim {claim.key}, request {request.name}: {what}")
                named = [(sub.device_class_name, f"{request.name}/{sub.name}") for sub in request.first_available]
            else:
                return unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
            for class_name, request_name in named:
                if not class_name:
                    return error(f"request {request_name}: unsupported request type")
                if self._context.handle.cluster.get(api.DeviceClass, class_name) is None:
                    return unresolvable(f"request {request_name}: device class {class_name} does not exist")
        return None

    def _has_failed(self, claim: dra.ResourceClaim) -> bool:
        """Whether the devices of an allocated claim cannot be made ready, or not in time."""
        try:
            return not is_ready(claim) and self._context.is_late(claim)
        except BindingFailed:
            return True
