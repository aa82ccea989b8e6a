"""The amounts that resource scoring compares: allocatable, in use, and in use with the pod, per resource and node."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.api.quantity import milli_of, value_of
from kubesched.api.resources import is_scalar, pod_requests, scheduling_requests
from kubesched.base.features import Features
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import (
    CPU,
    EPHEMERAL_STORAGE,
    HUGE_REQUEST,
    MEMORY,
    NONZERO_CPU,
    NONZERO_MEMORY,
    Ints,
    NodeTable,
)
from kubesched.cluster.view import Nodes
from kubesched.config.args import ResourceSpec
from kubesched.framework.plugin import Handle
from kubesched.framework.signatures import Signature
from kubesched.framework.status import Status, unschedulable
from kubesched.plugins.device_classes import DeviceClassResolver, may_be_devices
from kubesched.plugins.dynamic_resources.devices import Devices

Floats = npt.NDArray[np.float64]

EXACT = 1 << 46
"""Whole quotients of a hundredfold by amounts up to this are exact in doubles: dividend and divisor together are less
than 2^53, so that no quotient is rounded up to the next whole number."""


def signed_requests(pod: api.Pod, features: Features, classes: DeviceClassResolver) -> Signature | Status:
    """A pod's requests, for its signature; a pod whose extended resources are devices has none."""
    requests = scheduling_requests(pod, features)
    if any(amount and classes.class_of(name) is not None for name, amount in requests.scalar.items()):
        return unschedulable("signature disabled when dra extended resources are used in the cluster")
    amounts = {"cpu": requests.milli_cpu, "memory": requests.memory, "ephemeral-storage": requests.ephemeral_storage}
    return {"v1.Pod.Spec.ContainerRequestsAndOverheads()": amounts | requests.scalar}


@dataclass(frozen=True, slots=True)
class ScoredRequests:
    """What a pod requests of the resources that a plugin scores, by column of the node table."""

    columns: Ints
    amounts: Ints
    doubles: Floats
    """The amounts, which NumPy would convert once for each node otherwise."""
    weights: Ints
    best_effort: bool
    without_and_with: Ints
    """Nothing and the amounts, to be added to what is in use."""
    names: tuple[str, ...] = ()
    each: tuple[tuple[int, int, int], ...] = ()
    """The columns, amounts and weights as Python's numbers, for one node."""
    weight_list: tuple[int, ...] = ()
    block: slice | None = None
    """The columns, if they lie side by side."""
    huge: bool = False
    """Whether a request is huge (see `HUGE_REQUEST`)."""

    def may_overflow(self, table: NodeTable) -> bool:
        """Whether amounts are so large that scores need upstream's arithmetic on them."""
        return self.huge or table.has_huge_amounts

    def of_one(self, nodes: Nodes, devices: Devices | None = None) -> tuple[list[int], list[int]] | None:
        """(allocatable, used) of a window of one node, by column, as Python's numbers. None for a larger window, and
        for amounts that doubles or 64-bit integers may not hold exactly."""
        if devices is not None or self.may_overflow(nodes.table):
            return None
        return nodes.amounts()

    def of(self, nodes: Nodes, devices: Devices | None = None) -> tuple[Ints, Ints]:
        """(allocatable, used) for the window, a row per resource; do not change them. Resources that a node does not
        have are counted in `devices`, if a device class stands behind them."""
        table, rows = nodes.table, nodes.rows
        if self.block is not None and devices is None:  # neither indexing by numbers nor copying
            if nodes.cells is not None:
                return nodes.cells[0][self.block], nodes.cells[1][self.block]
            return table.allocatable[self.block, rows], table.used[self.block, rows]
        columns = self.columns if isinstance(rows, slice) else self.columns[:, None]
        offered, used = table.allocatable[columns, rows], table.used[columns, rows]
        if devices is not None:
            for index, name in enumerate(self.names):
                totals = devices.totals(name)
                if totals is not None:
                    _count_devices(offered[index], used[index], *totals.of(rows))
        return offered, used


class AmountsAsDoubles:
    """Allocatable and used amounts of all nodes as doubles, a row per resource. They are cached and updated for the
    nodes whose pods have changed: converting them for every pod takes longer than computing its scores."""

    def __init__(self, table: NodeTable) -> None:
        self._table = table
        self._basis: tuple[int, int, int, int] | None = None
        self._position = 0
        self._exact = False
        self.offered: Floats = np.zeros((0, 0))
        self.used: Floats = self.offered
        self.free: Floats = self.offered
        self.changed: slice | Ints | None = None
        """The columns of `used` that the last update has changed; None for all."""

    def update(self, wanted: ScoredRequests, nodes: Nodes) -> bool:
        """Bring the amounts of the wanted resources up to date. Returns whether they can be used: only for all nodes at
        once, if each of them has all these resources, and if doubles are exact."""
        table, rows, block = nodes.table, nodes.rows, wanted.block
        is_whole = table is self._table and isinstance(rows, slice) and rows == slice(0, table.size)
        if not is_whole or block is None or wanted.may_overflow(table):
            return False
        basis = (table.node_version, table.size, block.start, block.stop)
        changed = table.changed_since(self._position) if basis == self._basis else None
        self._basis, self._position = basis, table.log_end
        if changed is None or len(changed) > table.size // 4:
            self.offered = table.allocatable[block, : table.size].astype(np.float64)
            self.used = table.used[block, : table.size].astype(np.float64)
            self.offered[:, ~table.valid[: table.size]] = 1  # what is computed for rows without a node is ignored
            self.free = self.offered - self.used
            self._exact = bool(self.offered.min(initial=1) > 0 and self.offered.max(initial=0) <= EXACT)
            self.changed = None
        else:
            at = sorted(set(changed))
            self.changed = slice(at[0], at[0] + 1) if len(at) == 1 else np.array(at, dtype=np.int64)
            self.used[:, self.changed] = table.used[block, self.changed]
            self.free[:, self.changed] = self.offered[:, self.changed] - self.used[:, self.changed]
        return self._exact


def _count_devices(offered: Ints, used: Ints, there: Ints, allocated: Ints) -> None:
    """Put devices in the place of a resource that nodes do not have."""
    by_devices = (offered == 0) & (there > 0)
    offered[by_devices] = there[by_devices]
    used[by_devices] = allocated[by_devices]


def scored_devices(handle: Handle, resources: Sequence[ResourceSpec]) -> Devices | None:
    """The cluster's devices, if scoring may have to count them."""
    if not handle.features.dra_extended_resource or not any(may_be_devices(each.name) for each in resources):
        return None
    return handle.cluster.share(Devices)


def _side_by_side(columns: Sequence[int]) -> slice | None:
    if not columns or list(columns) != list(range(columns[0], columns[0] + len(columns))):
        return None
    return slice(columns[0], columns[0] + len(columns))


def _amounts(pod: api.Pod, pod_class: PodClass, features: Features, *, non_zero: bool) -> Mapping[str, int]:
    """What a pod requests, by resource, in the units of the node table."""
    if pod_class.only_containers_count:
        requests = pod_class.requests
        cpu = requests.nonzero_cpu if non_zero else requests.milli_cpu
        memory = requests.nonzero_memory if non_zero else requests.memory
        return {"cpu": cpu, "memory": memory, "ephemeral-storage": requests.ephemeral_storage, **requests.scalar}
    pod_level = not non_zero and features.pod_level_resources
    exact = pod_requests(pod, use_status=not non_zero, non_zero=non_zero, pod_level=pod_level, features=features)
    return {name: milli_of(amount) if name == "cpu" else value_of(amount) for name, amount in exact.items()}


def scored_requests(
    table: NodeTable,
    pod: api.Pod,
    pod_class: PodClass,
    resources: Sequence[ResourceSpec],
    features: Features,
    *,
    non_zero: bool,
) -> ScoredRequests:
    """Compile a pod's requests; with `non_zero`, containers without requests count with the scoring defaults.

    Resources that no node can have are dropped, and so are extended resources that the pod does not request. Upstream's
    NodeResourcesFit, which scores with defaults, ignores pod-level requests and resizes in its scores.
    """
    requested = _amounts(pod, pod_class, features, non_zero=non_zero)
    fixed = {
        "cpu": NONZERO_CPU if non_zero else CPU,
        "memory": NONZERO_MEMORY if non_zero else MEMORY,
        "ephemeral-storage": EPHEMERAL_STORAGE,
    }
    columns: list[int] = []
    amounts: list[int] = []
    weights: list[int] = []
    names: list[str] = []
    best_effort = True
    for resource in resources:
        amount = requested.get(resource.name, 0)
        best_effort = best_effort and amount == 0
        if resource.name not in fixed and (not is_scalar(resource.name) or amount == 0):
            continue
        columns.append(fixed[resource.name] if resource.name in fixed else table.resource(resource.name))
        amounts.append(amount)
        names.append(resource.name)
        weights.append(resource.weight)
    added = np.array(amounts, dtype=np.int64).reshape(-1, 1)
    without_and_with = np.zeros((2, len(amounts), 1), dtype=np.int64)
    without_and_with[1] = added
    return ScoredRequests(
        columns=np.array(columns, dtype=np.int64),
        amounts=added,
        doubles=np.array(amounts, dtype=np.float64).reshape(-1, 1),
        weights=np.array(weights, dtype=np.int64).reshape(-1, 1),
        best_effort=best_effort,
        without_and_with=without_and_with,
        names=tuple(names),
        each=tuple(zip(columns, amounts, weights, strict=True)),
        weight_list=tuple(weights),
        block=_side_by_side(columns),
        huge=max(amounts, default=0) >= HUGE_REQUEST or min(amounts, default=0) < 0,
    )
