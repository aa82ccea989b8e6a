"""Devices that stand for a node's own resources, such as CPUs or memory: what a pod's claims take of those.

The gate is DRANodeAllocatableResources. What the devices stand for is added to the pod's requests: the node must have
room for it, and the pod's status says how much it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.quantity import NANO, binary, canonical, nanos
from kubesched.api.resources import Requests, is_hugepage, pod_requests, requests_with_claims
from kubesched.base.features import Features
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import CPU, EPHEMERAL_STORAGE, MEMORY, Ints, NodeTable
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.plugins.dynamic_resources.capacity import Portion
from kubesched.plugins.dynamic_resources.requests import AllocationError
from kubesched.plugins.dynamic_resources.search import Pick, Solution
from kubesched.plugins.dynamic_resources.states import NodeState

ClaimStatuses = tuple[api.NodeAllocatableResourceClaimStatus, ...]


def claim_statuses(
    pod: api.Pod, claims: Sequence[dra.ResourceClaim], names: Mapping[str, str], solution: Solution, state: NodeState
) -> ClaimStatuses:
    """What each claim takes of the node's resources; `names` has the UIDs of claims by the pod's names for them."""
    found = []
    for index, (claim, picks) in enumerate(zip(claims, solution.picks, strict=True)):
        resources = _resources(index, picks, state)
        if resources:
            containers = (
                container.name
                for container in (*pod.spec.init_containers, *pod.spec.containers)
                for used in container.resources.claims
                if names.get(used.name) == claim.uid
            )
            found.append(api.NodeAllocatableResourceClaimStatus(claim.name, tuple(containers), resources))
    return tuple(sorted(found, key=lambda status: status.resource_claim_name))


def _resources(claim: int, picks: Sequence[Pick], state: NodeState) -> api.ResourceList:
    amounts: dict[str, int] = {}
    is_binary: dict[str, bool] = {}
    for pick in picks:
        mappings = state.pools[pick.pool].kinds[pick.device].device.node_allocatable_resource_mappings
        for resource, mapping in mappings.items():
            taken = _taken(claim, pick, resource, mapping)
            if taken is not None:
                amounts[resource] = amounts.get(resource, 0) + taken.nanos
                is_binary.setdefault(resource, taken.text.endswith("i"))
    return {name: binary(n) if is_binary[name] else canonical(f"{n}n") for name, n in amounts.items()}


def _taken(claim: int, pick: Pick, resource: str, mapping: dra.NodeAllocatableResourceMapping) -> Portion | None:
    """What a device takes of a resource; None if the mapping is for a capacity that it takes nothing of."""
    multiplier = mapping.allocation_multiplier
    if not mapping.capacity_key:
        return Portion(0, "0") if multiplier is None else Portion(nanos(multiplier), str(multiplier))
    if pick.taken is None:
        what = f"ConsumedCapacity is nil, but Capacity key '{mapping.capacity_key}' is set in"
        text = f"claim {{claim}}, device {{name}}: {what} NodeAllocatableResourceMappings for resource {resource}"
        raise AllocationError(text, claim=claim, pool=pick.pool, device=pick.device)
    consumed = pick.taken.get(mapping.capacity_key)
    if consumed is None or multiplier is None:
        return consumed
    return Portion(-(-consumed.nanos * nanos(multiplier) // NANO), consumed.text)


def with_statuses(pod: api.Pod, statuses: ClaimStatuses) -> api.Pod:
    """The pod as it is once its status says what its claims take."""
    status = msgspec.structs.replace(pod.status, node_allocatable_resource_claim_statuses=statuses)
    return msgspec.structs.replace(pod, status=status)


def rejection(pod: api.Pod, statuses: ClaimStatuses, features: Features) -> Status | None:
    """Why a pod cannot use claims with these statuses on any node."""
    for status in statuses:
        if not status.containers:
            problem = "node-allocatable resource claim not referenced by any container within the pod"
            return unresolvable(f"claim {status.resource_claim_name}: {problem}")
    if not features.pod_level_resources or pod.spec.resources is None or not pod.spec.resources.requests:
        return None
    counted = with_statuses(pod, statuses)
    whole = pod_requests(counted, use_status=False, by_claims=True)
    parts = pod_requests(counted, use_status=False, by_claims=True, pod_level=False)
    for name, amount in parts.items():
        if amount > whole.get(name, amount):
            problem = "is insufficient to cover the aggregated container and node-allocatable DRA requests"
            return unresolvable(f"pod level request for {name} {problem}")
    return None


class Room:
    """What a pod needs of a node with its claims: a column of the node table, an amount and a reason each."""

    def __init__(self, pod: api.Pod, statuses: ClaimStatuses, features: Features, table: NodeTable) -> None:
        wanted: Requests = requests_with_claims(with_statuses(pod, statuses), features)
        entries = [
            (CPU, wanted.milli_cpu, "cpu"),
            (MEMORY, wanted.memory, "memory"),
            (EPHEMERAL_STORAGE, wanted.ephemeral_storage, "ephemeral-storage"),
            *((table.column_of(name), amount, name) for name, amount in wanted.scalar.items() if is_hugepage(name)),
        ]
        self._entries = [entry for entry in entries if entry[1] > 0]

    def codes(self, table: NodeTable, rows: Ints) -> Ints:
        """0 where there is room; `status` explains the other codes."""
        codes = np.zeros(len(rows), dtype=np.int64)
        for bit, (column, amount, _) in enumerate(self._entries):
            offered = table.allocatable[column, rows]
            missing = amount > offered - table.used[column, rows]
            codes |= missing.astype(np.int64) << bit
            codes |= (missing & (amount > offered)).astype(np.int64) << len(self._entries)
        return codes

    def status(self, code: int) -> Status:
        """The highest bit means that the node is too small even when empty."""
        reasons = [f"Insufficient {name}" for bit, (_, _, name) in enumerate(self._entries) if code >> bit & 1]
        return unresolvable(*reasons) if code >> len(self._entries) else unschedulable(*reasons)


def users_of(claim: dra.ResourceClaim, pod: api.Pod, cluster: ClusterState) -> dict[int, int]:
    """Rows with other pods that take the node's resources by a claim, and how many of them."""
    rows: dict[int, int] = {}
    uids: set[str] = set()
    for consumer in claim.status.reserved_for:
        group = consumer.resource == "podgroups"
        uids |= cluster.pod_groups.get(f"{claim.namespace}/{consumer.name}").scheduled if group else {consumer.uid}
    for uid in uids:
        info = cluster.pods.get(uid)
        if info is None or info.pod.uid == pod.uid:
            continue
        statuses = info.pod.status.node_allocatable_resource_claim_statuses
        if any(status.resource_claim_name == claim.name for status in statuses):
            rows[info.row] = rows.get(info.row, 0) + 1
    return rows


def sharing_status(claim: dra.ResourceClaim, users: int) -> Status:
    """Such a claim is for one pod of a node."""
    problem = "shared by multiple pods" if users > 1 else "is already used by another pod"
    return unresolvable(f"node allocatable resource claim {claim.name} {problem}")
