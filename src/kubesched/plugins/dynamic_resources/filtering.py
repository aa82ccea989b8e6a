"""Filter: nodes where all claims of a pod can be allocated, or are allocated already."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.matching import node_selector_mask
from kubesched.cluster.table import Ints, Mask, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.framework.plugin import Verdicts
from kubesched.framework.status import Status, error, unresolvable
from kubesched.plugins.dynamic_resources import node_allocatable
from kubesched.plugins.dynamic_resources.context import ClaimContext
from kubesched.plugins.dynamic_resources.cycle import Cycle, NodeClaims
from kubesched.plugins.dynamic_resources.groups import NodeGroups, rows_of
from kubesched.plugins.dynamic_resources.messages import DETAILS, FilterLog
from kubesched.plugins.dynamic_resources.plan import (
    FIRST_ERROR,
    FITS,
    IMPOSSIBLE,
    INVALID_POOL,
    AllocationPlan,
    FilterTimeout,
)
from kubesched.plugins.dynamic_resources.requests import AllocationError

NOT_AVAILABLE, STALE_CLAIM, NO_RESOURCE = 3, 4, 5
_FIRST_ERROR = 16
STATUSES = {
    IMPOSSIBLE: unresolvable("cannot allocate all claims"),
    INVALID_POOL: unresolvable("invalid resource pools were encountered"),
    NOT_AVAILABLE: unresolvable("resourceclaim not available on the node"),
    STALE_CLAIM: unresolvable("cannot schedule extended resource claim"),
    NO_RESOURCE: unresolvable("cannot fit resource"),
}

Errors = list[tuple[AllocationError, NodeClaims, int] | Status]
"""What went wrong with which claims, and the first row where it did; or a status that is ready to report."""


class ClaimFilter:
    """Answers for all nodes at once."""

    def __init__(self, context: ClaimContext, groups: NodeGroups) -> None:
        self._context = context
        self._groups = groups
        self._without: dict[str, tuple[int, Mask | None]] = {}

    def verdicts(self, cycle: Cycle, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        """Which nodes are rejected, and why."""
        codes = np.zeros(len(nodes), dtype=np.int64)
        errors: Errors = []
        special = cycle.special
        if special is not None and special.spec.devices.requests:
            # From an attempt that failed: PostFilter deletes it, and the pod is tried anew.
            codes[:] = STALE_CLAIM
            return Verdicts(codes, STATUSES.__getitem__)
        for group, positions in self._groups.of(cycle, pod, nodes):
            codes[positions] = self._allocate(group, nodes, positions, errors)
            if self._context.features.dra_node_allocatable_resources:
                self._check_room(group, pod, nodes, positions[codes[positions] == FITS], codes, errors)
        if self._context.features.dra_node_allocatable_resources:
            self._check_sharing(cycle, pod, nodes, codes, errors)
        searched = codes.copy() if self._context.handle.log.verbosity >= DETAILS else None
        self._reject_unfit(cycle, nodes, codes)
        self._check_places(cycle, nodes, codes)
        if searched is not None:
            self._log_filter(cycle, pod, nodes, searched, codes, errors)
        if not codes.any():
            return None
        return Verdicts(codes, lambda code: STATUSES.get(code) or self._status(errors, code))

    def _log_filter(
        self, cycle: Cycle, pod: api.Pod, nodes: Nodes, searched: Ints, codes: Ints, errors: Errors
    ) -> None:
        """Log the search on each node, then why the node is rejected."""
        log = FilterLog(self._context.handle.log, pod, self._context.handle.cluster)
        claims = [cycle.claims[index] for index in cycle.to_allocate()]
        for position, row in enumerate(rows_of(nodes).tolist()):
            name, code, found = nodes.table.names[row], int(codes[position]), int(searched[position])
            if cycle.allocates and code != NO_RESOURCE:
                problem = self._status(errors, found).message if found >= _FIRST_ERROR else ""
                pools = len(self._context.inventory.view(row).pools)
                log.allocation(name, len(claims), pools, fits=found == FITS, problem=problem)
            if code == NOT_AVAILABLE:
                for index, claim in enumerate(cycle.claims):
                    place = cycle.places[index]
                    if place is not None and not node_selector_mask(Nodes(nodes.table, np.array([row])), place).all():
                        log.unreachable(name, claim)
            if code in STATUSES:
                log.rejected(name, STATUSES[code], claims)

    def _status(self, errors: Errors, code: int) -> Status:
        found = errors[code - _FIRST_ERROR]
        return found if isinstance(found, Status) else self._error(*found)

    def _allocate(self, group: NodeClaims, nodes: Nodes, positions: Ints, errors: Errors) -> Ints:
        """Codes for nodes with the same claims to allocate."""
        codes = np.zeros(len(positions), dtype=np.int64)
        plan = group.plan
        if plan is None or not len(positions):
            return codes
        rows = rows_of(nodes)[positions]
        if isinstance(plan, AllocationError):
            errors.append((plan, group, int(rows[0])))
            return codes + (_FIRST_ERROR + len(errors) - 1)
        numbers = self._context.inventory.state_numbers(rows)
        try:
            codes = plan.codes(numbers, self._context.inventory.states.nodes, self._context.timer)
        except FilterTimeout as timeout:
            problem = AllocationError("node {node}: timed out trying to allocate devices")
            errors.append((problem, group, int(rows[numbers == timeout.number][0])))
            return codes + (_FIRST_ERROR + len(errors) - 1)
        result = codes.copy()
        for code in np.unique(codes[codes >= FIRST_ERROR]).tolist():
            result[codes == code] = _FIRST_ERROR + len(errors)
            errors.append((plan.errors[code - FIRST_ERROR], group, int(rows[codes == code][0])))
        for row, text in self._context.inventory.problems.items():
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
        rows = rows_of(nodes)[positions]
        numbers = self._context.inventory.state_numbers(rows)
        for number in np.unique(numbers).tolist():
            here = numbers == number
            try:
                statuses = self._groups.claim_statuses(group, pod, number)
            except AllocationError as problem:
                codes[positions[here]] = _FIRST_ERROR + len(errors)
                errors.append((problem, group, int(rows[here][0])))
                continue
            if not statuses:
                continue
            status = node_allocatable.rejection(pod, statuses, self._context.features)
            if status is not None:
                codes[positions[here]] = _FIRST_ERROR + len(errors)
                errors.append(status)
                continue
            room = node_allocatable.Room(pod, statuses, self._context.features, nodes.table)
            missing = room.codes(nodes.table, rows[here])
            for code in np.unique(missing[missing > 0]).tolist():
                codes[positions[here][missing == code]] = _FIRST_ERROR + len(errors)
                errors.append(room.status(code))

    def _check_sharing(self, cycle: Cycle, pod: api.Pod, nodes: Nodes, codes: Ints, errors: Errors) -> None:
        """Reject nodes where another pod takes the node's resources by a claim of this pod."""
        for claim in cycle.claims:
            if claim.status.allocation is None:
                continue
            rows = rows_of(nodes)
            for row, users in node_allocatable.users_of(claim, pod, self._context.handle.cluster).items():
                codes[rows == row] = _FIRST_ERROR + len(errors)
                errors.append(node_allocatable.sharing_status(claim, users))

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
        view = self._context.inventory.view(row)
        pool = "/".join(view.pools[what.pool].pool) if what.pool >= 0 else ""
        device = view.pools[what.pool].devices[what.device][1].name if what.device >= 0 else ""
        names = {
            "claim": group.claims[what.claim].key if what.claim >= 0 else "",
            "pool": pool,
            "device": f"{pool}/{device}",
            "name": device,
            "node": self._context.handle.cluster.nodes.names[row],
        }
        return error(what.text.format(**names))
