"""DynamicResources: a pod goes where its claimed devices are, or can be allocated."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from datetime import datetime
from itertools import chain
from uuid import UUID

import numpy as np

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.selectors import node_selector
from kubesched.cluster.matching import node_selector_mask
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, Mask, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.config.args import BINDING_TIMEOUT, DynamicResourcesArgs
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.events import Action, EventHint, Hint, Resource, on
from kubesched.framework.plugin import Handle, Plugin, PostFilterResult, Reads, Verdicts, default_normalize
from kubesched.framework.signatures import Signature
from kubesched.framework.state import POD_GROUP_CYCLE, CycleState, GroupCycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.dynamic_resources import extended, node_allocatable
from kubesched.plugins.dynamic_resources.binding import ClaimBinder, ClaimBindingError
from kubesched.plugins.dynamic_resources.claims import (
    BindingFailed,
    ClaimError,
    claims_of,
    claims_of_group,
    consumer_of,
    is_ready,
    is_reserved_for,
    refers_to,
)
from kubesched.plugins.dynamic_resources.cycle import NO_CLAIMS, Cycle, NodeClaims
from kubesched.plugins.dynamic_resources.devices import Devices
from kubesched.plugins.dynamic_resources.messages import DETAILS, FilterLog, PointLog
from kubesched.plugins.dynamic_resources.plan import (
    FIRST_ERROR,
    FITS,
    IMPOSSIBLE,
    INVALID_POOL,
    AllocationPlan,
    FilterTimeout,
)
from kubesched.plugins.dynamic_resources.requests import AllocationError
from kubesched.plugins.dynamic_resources.results import allocations

NOT_PREPARED = error("not found")
"""What upstream says when a profile has this plugin at a later point but not at PreFilter."""
NOTHING_TO_DEALLOCATE = unschedulable("no new claims to deallocate")

NOT_AVAILABLE, STALE_CLAIM, NO_RESOURCE = 3, 4, 5
_FIRST_ERROR = 16
MOST_NAMES = 100_000
"""Claims to remember. With more, every claim event is checked against every waiting pod."""
_STATUSES = {
    IMPOSSIBLE: unresolvable("cannot allocate all claims"),
    INVALID_POOL: unresolvable("invalid resource pools were encountered"),
    NOT_AVAILABLE: unresolvable("resourceclaim not available on the node"),
    STALE_CLAIM: unresolvable("cannot schedule extended resource claim"),
    NO_RESOURCE: unresolvable("cannot fit resource"),
}

Errors = list[tuple[AllocationError, NodeClaims, int] | Status]
"""What went wrong with which claims, and the first row where it did; or a status that is ready to report."""


class DynamicResources(Plugin):
    """All points at which claims matter, from PreEnqueue to PreBind."""

    name = "DynamicResources"
    reads = Reads.ROW
    args_type = DynamicResourcesArgs
    pre_bind_in_parallel = True

    def __init__(self, args: DynamicResourcesArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._features = handle.features
        self._conditions = handle.features.binding_conditions
        self._binding_timeout = (args.binding_timeout or BINDING_TIMEOUT).seconds
        self._of_groups = handle.features.dra_workload_resource_claims
        devices = handle.cluster.share(Devices)
        self._resolver = devices.resolver
        self._ledger = devices.ledger
        self._inventory = devices.inventory
        self._plans = devices.plans
        self._named: dict[str, set[str]] = {}
        """Claims by key, and the UIDs of pods that mention them and are not bound yet."""
        self._without: dict[str, tuple[int, Mask | None]] = {}

    def sign(self, pod: api.Pod) -> Signature | Status:
        return unschedulable("pods with dra resource claims are not signable") if pod.spec.resource_claims else {}

    def events_to_register(self) -> list[EventHint]:
        change = Action.ADD | Action.UPDATE
        return [
            # PreEnqueue looks for claims alone: neither nodes nor devices open it.
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_ALLOCATABLE, gated=False),
            on(Resource.RESOURCE_CLAIM, change, self._after_claim_change, only=self._pods_helped),
            on(Resource.POD, Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM, self._after_pod_change),
            on(Resource.DEVICE_CLASS, change, gated=False),
            on(Resource.RESOURCE_SLICE, change, gated=False),
        ]

    # PreEnqueue and hints

    def pre_enqueue(self, pod: api.Pod) -> Status | None:
        self._note_names(pod)
        problem = self._problem(pod) if pod.spec.resource_claims else None
        return None if problem is None else unresolvable(problem)

    def _problem(self, pod: api.Pod) -> str | None:
        """Why a pod's claims cannot be used now."""
        try:
            for _ in claims_of(pod, self._ledger, of_groups=self._of_groups):
                pass
        except ClaimError as problem:
            return str(problem)
        return None

    def _pods_helped(self, old: api.Object | None, new: api.Object | None) -> Collection[str] | None:
        """A claim helps the pods that mention it. One that is deallocated may help any pod."""
        before = old.status.allocation if isinstance(old, dra.ResourceClaim) else None
        if not isinstance(new, dra.ResourceClaim) or (before is not None and new.status.allocation is None):
            return None
        if len(self._named) > MOST_NAMES:
            return None
        owners = (owner.uid for owner in new.metadata.owner_references if owner.controller)
        return {*owners, *self._named.get(new.key, ())}

    def _note_names(self, pod: api.Pod) -> None:
        if len(self._named) <= MOST_NAMES:
            for key in _mentioned(pod):
                self._named.setdefault(key, set()).add(pod.uid)

    def _forget_names(self, pod: api.Pod) -> None:
        for key in _mentioned(pod):
            users = self._named.get(key)
            if users is not None:
                users.discard(pod.uid)
                if not users:
                    del self._named[key]

    def _after_claim_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(new, dra.ResourceClaim):
            return Hint.QUEUE
        before = old if isinstance(old, dra.ResourceClaim) else None
        freed = before is not None and before.status.allocation is not None and new.status.allocation is None
        if not freed and not refers_to(pod, new):
            return Hint.SKIP  # most claims belong to other pods, so this is checked first
        if self._problem(pod) is not None:
            return Hint.SKIP
        if freed:
            return Hint.QUEUE  # its devices are there for others
        if before is not None and before.status == new.status:
            return Hint.SKIP
        message = "claim for pod got created" if before is None else "status of claim for pod got updated"
        self.handle.log(DETAILS, message, pod=pod, claim=new)
        return Hint.QUEUE

    def _after_pod_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(new, api.Pod):
            return Hint.QUEUE
        if new.uid != pod.uid:
            return Hint.SKIP
        self._note_names(new)
        if self._problem(new) is not None:
            return Hint.SKIP
        self.handle.log(DETAILS, "pod got updated and is schedulable", pod=pod)
        return Hint.QUEUE

    # PreFilter

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        state.write(self.name, NO_CLAIMS)
        scalar = state.pod_class.requests.scalar
        if not pod.spec.resource_claims and not scalar:
            state.skip_score.add(self.name)
            return SKIP
        self._note_names(pod)
        try:
            found = list(claims_of(pod, self._ledger, of_groups=self._of_groups))
            group = self._group_of(pod)
        except ClaimError as problem:
            return unresolvable(str(problem))
        claims = [claim for _, claim in found]
        say = PointLog(self.handle.log, "PreFilter", pod)
        if say.enabled:
            say("pod resource claims", resourceclaims=list(claims))
        special = self._special_claim(pod, scalar)
        if not claims and special is None:
            state.skip_score.add(self.name)
            return SKIP
        cycle = Cycle(claims, special, [consumer_of(pod, reference, group) for reference, _ in found])
        if special is not None:
            resources = extended.resources_of(scalar)
            cycle.backed = [name for name in resources if self._resolver.class_of(name) is not None]
            cycle.unbacked = [name for name in resources if self._resolver.class_of(name) is None]
        for index, claim in enumerate(cycle.claims):
            status = self._inspect(cycle, index, claim, _group_state(state).pending_claims, say)
            if status is not None:
                return status
        if cycle.allocates:
            if say.enabled:
                listed = [cycle.claims[index] for index in cycle.to_allocate()]
                say("Preparing allocation with structured parameters", resourceclaims=listed)
            self._inventory.sync()
        state.write(self.name, cycle)
        return None

    def _special_claim(self, pod: api.Pod, scalar: dict[str, int]) -> dra.ResourceClaim | None:
        """The claim for extended resources that device classes stand behind: an earlier one, or a new one."""
        if not any(self._resolver.class_of(name) is not None for name in extended.resources_of(scalar)):
            return None
        return self._ledger.made_for(pod) or extended.claim_in_memory(pod, self._new_uid())

    def _group_of(self, pod: api.Pod) -> api.PodGroup | None:
        """The pod's group, if groups may have claims."""
        if not self._of_groups or not pod.pod_group:
            return None
        group = self.handle.cluster.get(api.PodGroup, pod.pod_group)
        if group is None:
            raise ClaimError(f'podgroup.scheduling.k8s.io "{pod.pod_group.rpartition("/")[2]}" not found')
        return group

    def _inspect(
        self, cycle: Cycle, index: int, claim: dra.ResourceClaim, of_cycle: Collection[str], say: PointLog
    ) -> Status | None:
        """See what has to be done about a claim; a status if nothing can be. The pods of a group share claims to which
        their cycle has allocated devices: those in `of_cycle`."""
        allocation = claim.status.allocation
        pending = self._ledger.pending(claim.uid)
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
            if self._conditions and index not in cycle.shared and self._has_failed(claim):
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
                if not self._features.dra_prioritized_list:
                    what = "has subrequests, but the DRAPrioritizedList feature is disabled"
                    return unresolvable(f"resource claim {claim.key}, request {request.name}: {what}")
                named = [(sub.device_class_name, f"{request.name}/{sub.name}") for sub in request.first_available]
            else:
                return unresolvable(f"resource claim {claim.key}, request {request.name}: unknown request type")
            for class_name, request_name in named:
                if not class_name:
                    return error(f"request {request_name}: unsupported request type")
                if self.handle.cluster.get(api.DeviceClass, class_name) is None:
                    return unresolvable(f"request {request_name}: device class {class_name} does not exist")
        return None

    def _has_failed(self, claim: dra.ResourceClaim) -> bool:
        """Whether the devices of an allocated claim cannot be made ready, or not in time."""
        try:
            return not is_ready(claim) and self._is_late(claim)
        except BindingFailed:
            return True

    def _is_late(self, claim: dra.ResourceClaim) -> bool:
        allocation = claim.status.allocation
        clock = getattr(self.handle, "clock", None)
        if clock is None or allocation is None or allocation.allocation_timestamp is None:
            return False
        if not any(result.binding_conditions for result in allocation.devices.results):
            return False
        allocated = datetime.fromisoformat(allocation.allocation_timestamp).timestamp()
        return bool(clock.now() > allocated + self._binding_timeout)

    def _new_uid(self) -> str:
        return str(UUID(int=self.handle.random.getrandbits(128), version=4))

    # Filter

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return self._features.dra_node_allocatable_resources

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        if self.name not in state:
            return Verdicts(np.ones(len(nodes), dtype=np.int64), lambda _: NOT_PREPARED)
        cycle = state.read(self.name, Cycle)
        if not cycle.claims:
            return None
        codes = np.zeros(len(nodes), dtype=np.int64)
        errors: Errors = []
        special = cycle.special
        if special is not None and special.spec.devices.requests:
            # From an attempt that failed: PostFilter deletes it, and the pod is tried anew.
            codes[:] = STALE_CLAIM
            return Verdicts(codes, _STATUSES.__getitem__)
        for group, positions in self._groups(cycle, pod, nodes):
            codes[positions] = self._allocate(group, nodes, positions, errors)
            if self._features.dra_node_allocatable_resources:
                self._check_room(group, pod, nodes, positions[codes[positions] == FITS], codes, errors)
        if self._features.dra_node_allocatable_resources:
            self._check_sharing(cycle, pod, nodes, codes, errors)
        searched = codes.copy() if self.handle.log.verbosity >= DETAILS else None
        self._reject_unfit(cycle, nodes, codes)
        self._check_places(cycle, nodes, codes)
        if searched is not None:
            self._log_filter(cycle, pod, nodes, searched, codes, errors)
        if not codes.any():
            return None
        return Verdicts(codes, lambda code: _STATUSES.get(code) or self._status(errors, code))

    def _log_filter(
        self, cycle: Cycle, pod: api.Pod, nodes: Nodes, searched: Ints, codes: Ints, errors: Errors
    ) -> None:
        """Log the search on each node, then why the node is rejected."""
        log = FilterLog(self.handle.log, pod, self.handle.cluster)
        claims = [cycle.claims[index] for index in cycle.to_allocate()]
        for position, row in enumerate(self._rows(nodes).tolist()):
            name, code, found = nodes.table.names[row], int(codes[position]), int(searched[position])
            if cycle.allocates and code != NO_RESOURCE:
                problem = self._status(errors, found).message if found >= _FIRST_ERROR else ""
                pools = len(self._inventory.view(row).pools)
                log.allocation(name, len(claims), pools, fits=found == FITS, problem=problem)
            if code == NOT_AVAILABLE:
                for index, claim in enumerate(cycle.claims):
                    place = cycle.places[index]
                    if place is not None and not node_selector_mask(Nodes(nodes.table, np.array([row])), place).all():
                        log.unreachable(name, claim)
            if code in _STATUSES:
                log.rejected(name, _STATUSES[code], claims)

    def _status(self, errors: Errors, code: int) -> Status:
        found = errors[code - _FIRST_ERROR]
        return found if isinstance(found, Status) else self._error(*found)

    def _groups(self, cycle: Cycle, pod: api.Pod, nodes: Nodes) -> list[tuple[NodeClaims, Ints]]:
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
            claims[-1], mappings = extended.claim_on_node(special, pod, resources, self._resolver)
        return NodeClaims(claims, mappings, self._plans.plan_for(claims))

    def _allocate(self, group: NodeClaims, nodes: Nodes, positions: Ints, errors: Errors) -> Ints:
        """Codes for nodes with the same claims to allocate."""
        codes = np.zeros(len(positions), dtype=np.int64)
        plan = group.plan
        if plan is None or not len(positions):
            return codes
        rows = self._rows(nodes)[positions]
        if isinstance(plan, AllocationError):
            errors.append((plan, group, int(rows[0])))
            return codes + (_FIRST_ERROR + len(errors) - 1)
        numbers = self._inventory.state_numbers(rows)
        try:
            codes = plan.codes(numbers, self._inventory.states.nodes, self._timer)
        except FilterTimeout as timeout:
            problem = AllocationError("node {node}: timed out trying to allocate devices")
            errors.append((problem, group, int(rows[numbers == timeout.number][0])))
            return codes + (_FIRST_ERROR + len(errors) - 1)
        result = codes.copy()
        for code in np.unique(codes[codes >= FIRST_ERROR]).tolist():
            result[codes == code] = _FIRST_ERROR + len(errors)
            errors.append((plan.errors[code - FIRST_ERROR], group, int(rows[codes == code][0])))
        for row, text in self._inventory.problems.items():
            if (rows == row).any():
                result[rows == row] = _FIRST_ERROR + len(errors)
                errors.append((AllocationError(text.replace("{", "{{").replace("}", "}}")), group, row))
        return result

    def _check_room(
        self, group: NodeClaims, pod: api.Pod, nodes: Nodes, positions: Ints, codes: Ints, errors: Errors
    ) -> None:
        """Reject nodes that lack room for those of their own resources that the found devices stand for."""
        if not isinstance(group.plan, AllocationPlan) or not len(positions):
            return
        rows = self._rows(nodes)[positions]
        numbers = self._inventory.state_numbers(rows)
        for number in np.unique(numbers).tolist():
            here = numbers == number
            try:
                statuses = self._claim_statuses(group, pod, number)
            except AllocationError as problem:
                codes[positions[here]] = _FIRST_ERROR + len(errors)
                errors.append((problem, group, int(rows[here][0])))
                continue
            if not statuses:
                continue
            status = node_allocatable.rejection(pod, statuses, self._features)
            if status is not None:
                codes[positions[here]] = _FIRST_ERROR + len(errors)
                errors.append(status)
                continue
            room = node_allocatable.Room(pod, statuses, self._features, nodes.table)
            missing = room.codes(nodes.table, rows[here])
            for code in np.unique(missing[missing > 0]).tolist():
                codes[positions[here][missing == code]] = _FIRST_ERROR + len(errors)
                errors.append(room.status(code))

    def _claim_statuses(self, group: NodeClaims, pod: api.Pod, number: int) -> node_allocatable.ClaimStatuses:
        """What the claims take of a node's own resources, on nodes in the state with this number."""
        plan = group.plan
        assert isinstance(plan, AllocationPlan)
        found = claims_of(pod, self._ledger, of_groups=self._of_groups)
        names = {reference.name: claim.uid for reference, claim in found}
        state = self._inventory.states.nodes[number]
        return node_allocatable.claim_statuses(pod, group.claims, names, plan.solution(number), state)

    def _check_sharing(self, cycle: Cycle, pod: api.Pod, nodes: Nodes, codes: Ints, errors: Errors) -> None:
        """Reject nodes where another pod takes the node's resources by a claim of this pod."""
        for claim in cycle.claims:
            if claim.status.allocation is None:
                continue
            rows = self._rows(nodes)
            for row, users in node_allocatable.users_of(claim, pod, self.handle.cluster).items():
                codes[rows == row] = _FIRST_ERROR + len(errors)
                errors.append(node_allocatable.sharing_status(claim, users))

    def _rows(self, nodes: Nodes) -> Ints:
        rows = nodes.rows
        return np.arange(rows.start, rows.stop, dtype=np.int64) if isinstance(rows, slice) else rows

    def _timer(self, number: int) -> Callable[[], None] | None:
        """Raises FilterTimeout once the search in a state has taken longer than the configuration allows."""
        clock = getattr(self.handle, "clock", None)
        limit = self.args.filter_timeout
        if clock is None or not self._features.dra_scheduler_filter_timeout or limit is None or limit <= 0:
            return None
        deadline = clock.monotonic() + limit.seconds

        def check() -> None:
            if clock.monotonic() > deadline:
                raise FilterTimeout(number)

        return check

    def _reject_unfit(self, cycle: Cycle, nodes: Nodes, codes: Ints) -> None:
        """Nodes that lack an extended resource which no device class stands behind."""
        for resource in cycle.unbacked:
            codes[self._lacking(resource, nodes.table)[nodes.rows]] = NO_RESOURCE

    def _lacking(self, resource: str, table: NodeTable) -> Mask:
        """Where a resource is not even listed; looked up again only when a node has changed."""
        version, mask = self._without.get(resource, (-1, None))
        if mask is None or version != table.node_version or len(mask) != table.size:
            listed = (node is not None and resource in node.status.allocatable for node in table.nodes[: table.size])
            mask = ~np.fromiter(listed, dtype=np.bool_, count=table.size)
            self._without[resource] = (table.node_version, mask)
        return mask

    def _check_places(self, cycle: Cycle, nodes: Nodes, codes: Ints) -> None:
        """Nodes from which devices that are allocated already cannot be reached, or are not to be waited for."""
        fits = codes == FITS
        for index, place in enumerate(cycle.places):
            if index in cycle.unready:
                codes[fits] = NOT_AVAILABLE
            elif place is not None:
                codes[fits & ~node_selector_mask(nodes, place)] = NOT_AVAILABLE

    def _error(self, what: AllocationError, group: NodeClaims, row: int) -> Status:
        """An error with the names of the claim, and of the node's pool or device, in it."""
        view = self._inventory.view(row)
        pool = "/".join(view.pools[what.pool].pool) if what.pool >= 0 else ""
        device = view.pools[what.pool].devices[what.device][1].name if what.device >= 0 else ""
        names = {
            "claim": group.claims[what.claim].key if what.claim >= 0 else "",
            "pool": pool,
            "device": f"{pool}/{device}",
            "name": device,
            "node": self.handle.cluster.nodes.names[row],
        }
        return error(what.text.format(**names))

    # PostFilter

    def post_filter(
        self, state: CycleState, pod: api.Pod, diagnosis: Diagnosis
    ) -> tuple[PostFilterResult | None, Status]:
        if self.name not in state:
            # Another plugin's PreFilter ended the attempt first; upstream stops here too, before preemption.
            return None, NOT_PREPARED
        cycle = state.read(self.name, Cycle)
        if not cycle.claims:
            return None, NOTHING_TO_DEALLOCATE
        index = self._deallocatable(cycle, pod, diagnosis)
        if index is not None:
            self.handle.spawn(self._binder().deallocate(cycle.claims[index], pod))
            return None, unschedulable("deallocation of ResourceClaim completed")
        special = cycle.special
        if special is not None and special.name != extended.IN_MEMORY:
            self.handle.spawn(self._binder().delete(special))
            return None, unschedulable("deletion of ResourceClaim completed")
        if self._of_groups and pod.pod_group:
            status = self._unreserve_group(state, pod)
            if status is not None:
                return None, status
        return None, unschedulable("still not schedulable")

    def _unreserve_group(self, state: CycleState, pod: api.Pod) -> Status | None:
        """Release a claim that an earlier cycle has reserved for the pod's group, so that other devices can be tried.
        This is safe while no pod of the group has a node, except for trial."""
        if self.handle.cluster.pod_groups.get(pod.pod_group).scheduled - _group_state(state).placed:
            return None
        try:
            group = self._group_of(pod)
            assert group is not None
            claims = list(claims_of_group(group, self._ledger))
        except ClaimError as problem:
            return error(str(problem))
        for claim in claims:
            if claim.status.allocation is not None and is_reserved_for(claim, pod, of_groups=True):
                self.handle.spawn(self._binder().unreserve(claim, pod, group))
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
        return self.handle.random.choice(keeping) if keeping else None

    def _unavailable_rows(self, diagnosis: Diagnosis) -> Ints:
        wanted = _STATUSES[NOT_AVAILABLE].by(self.name)
        found = [rows for status, rows in diagnosis.statuses() if status == wanted]
        return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)

    def _keeps_away(self, cycle: Cycle, index: int, nodes: Nodes) -> bool:
        place = cycle.places[index]
        return index in cycle.unready or (place is not None and not node_selector_mask(nodes, place).all())

    # Score

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        if self.name not in state or not self._features.dra_prioritized_list:
            return 0
        cycle = state.read(self.name, Cycle)
        if not cycle.allocates:
            return 0
        scores = np.zeros(len(nodes), dtype=np.int64)
        allocated = sum(
            _score(claim, claim.status.allocation or cycle.shared.get(index))
            for index, claim in enumerate(cycle.claims)
        )
        for group, positions in self._groups(cycle, pod, nodes):
            if group.plan is not None and not isinstance(group.plan, AllocationError):
                numbers = self._inventory.state_numbers(self._rows(nodes)[positions])
                scores[positions] = group.plan.scores(numbers) + allocated
        return scores

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return default_normalize(scores)

    # Reserve

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        if self.name not in state:
            return NOT_PREPARED
        cycle = state.read(self.name, Cycle)
        if POD_GROUP_CYCLE in state:
            # The pod is placed a second time after the trial of its group, when devices have been given back.
            self._inventory.sync()
            cycle.on_nodes.clear()
        say = PointLog(self.handle.log, "Reserve", pod, node_name)
        status = self._reserve(cycle, pod, node_name, say)
        if status is None:
            self._share(cycle, _group_state(state), say)
        counted = pod.status.node_allocatable_resource_claim_statuses
        if self._features.dra_node_allocatable_resources and cycle.node_allocatable != counted:
            # What an earlier attempt has left in the pod's status no longer counts.
            self.handle.cluster.revise(node_allocatable.with_statuses(pod, cycle.node_allocatable))
        return status

    def _share(self, cycle: Cycle, group: GroupCycleState, say: PointLog) -> None:
        """Count the pod among those that wait for allocations of its group, and let the next pods share its own."""
        for index, allocation in cycle.shared.items():
            uid = cycle.claims[index].uid
            self._ledger.add_pending(uid, allocation)
            say.added(cycle.claims[index], self._ledger)
            # After the trial, the pod in front of this one has been given its devices anew.
            cycle.allocations[index] = self._ledger.pending(uid)
        made = zip(cycle.claims, cycle.allocations, strict=True)
        group.pending_claims.update(claim.uid for claim, allocation in made if allocation is not None)

    def _reserve(self, cycle: Cycle, pod: api.Pod, node_name: str, say: PointLog) -> Status | None:
        if not cycle.allocates:
            return None
        row = self.handle.cluster.nodes.row_of[node_name]
        nodes = Nodes(self.handle.cluster.nodes, np.array([row], dtype=np.int64))
        ((group, _),) = self._groups(cycle, pod, nodes)
        if group.plan is None:
            return None  # a device plugin provides everything
        if isinstance(group.plan, AllocationError):
            return error("claim allocation not found for node")
        numbers = self._inventory.state_numbers(nodes.rows)
        number = int(numbers[0])
        if group.plan.codes(numbers, self._inventory.states.nodes, self._timer)[0] != FITS:
            return error("claim allocation not found for node")
        solution = group.plan.solution(number)
        if self._features.dra_node_allocatable_resources:
            cycle.node_allocatable = self._claim_statuses(group, pod, number)
        view = self._inventory.view(row)
        try:
            made = allocations(group.plan.claims, solution, view, node_name, self._features, self._new_uid)
        except AllocationError as problem:
            return error(f"create NodeSelector for claim: {problem}")
        cycle.chosen = group
        for index, allocation in zip(cycle.to_allocate(), made, strict=True):
            cycle.allocations[index] = allocation
            claim = cycle.claims[index]
            self._ledger.add_pending(claim.uid, allocation)
            if say.enabled:
                say.added(claim, self._ledger)
                say.claim("Reserved resource in allocation result", claim, allocation)
        return None

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        if self.name not in state:
            return
        cycle = state.read(self.name, Cycle)
        say = PointLog(self.handle.log, "Unreserve", pod, node_name)
        for index, claim in enumerate(cycle.claims[: cycle.user_claims]):
            removed = cycle.allocations[index] is not None and self._ledger.drop_pending(claim.uid)
            if cycle.allocations[index] is not None:
                say.dropped(claim, self._ledger, removed=removed)
            if removed:
                _group_state(state).pending_claims.discard(claim.uid)
                say.claim("Released resource in allocation result", claim, claim.status.allocation)
                self._ledger.restore(claim.key)
                say.restored(claim)
            cycle.allocations[index] = None
            if claim.status.allocation is not None and is_reserved_for(claim, pod):
                self.handle.spawn(self._binder().unreserve(claim, pod))
        cycle.node_allocatable = ()
        if cycle.in_pod_status:
            cycle.in_pod_status = False
            self.handle.spawn(self._binder().clear_node_allocatable(pod))
        special = cycle.special
        if special is None:
            return
        if self._ledger.drop_pending(cycle.special_uid):
            self._ledger.restore(special.key)
        if special.name != extended.IN_MEMORY:
            self.handle.spawn(self._binder().delete(special))

    # PreBind

    def pre_bind_needed(self, state: CycleState, pod: api.Pod, node_name: str) -> bool:
        return bool(state.read(self.name, Cycle).claims)

    async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """Write allocations and reservations, and wait for devices that have to be made ready."""
        if self.name not in state:
            return NOT_PREPARED
        cycle = state.read(self.name, Cycle)
        try:
            await self._binder().bind(cycle, pod, node_name)
        except ClaimBindingError as problem:
            return error(str(problem))
        self._forget_names(pod)
        return None

    def _binder(self) -> ClaimBinder:
        return ClaimBinder(self.handle, self._ledger, self._features, self._binding_timeout, self._is_late)


def _mentioned(pod: api.Pod) -> Iterator[str]:
    """The claims that a pod mentions, in its spec or in its status."""
    named = (reference.resource_claim_name for reference in pod.spec.resource_claims)
    made = (status.resource_claim_name for status in pod.status.resource_claim_statuses)
    return (f"{pod.namespace}/{name}" for name in chain(named, made) if name is not None)


def _group_state(state: CycleState) -> GroupCycleState:
    """What the cycle of the pod's group knows; nothing for a pod that is tried by itself."""
    return state.read(POD_GROUP_CYCLE, GroupCycleState) if POD_GROUP_CYCLE in state else GroupCycleState()


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
