"""NodeResourcesFit: a node must have room for what the pod requests, and is scored by how full it would be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from kubesched.api import objects as api
from kubesched.api.devices import DEVICE_CLASS_PREFIX
from kubesched.api.resources import (
    Requests,
    allocatable,
    is_extended,
    node_requests,
    pod_requests,
    scheduling_requests,
)
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import CPU, EPHEMERAL_STORAGE, HUGE_CAPACITY, MEMORY, PODS, Ints, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.config.args import NodeResourcesFitArgs
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.placements import Assignments
from kubesched.framework.plugin import Handle, Plugin, Reads, Verdicts
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.plugins.device_classes import DeviceClassResolver
from kubesched.plugins.node_resources.amounts import (
    AmountsAsDoubles,
    ScoredRequests,
    scored_devices,
    scored_requests,
    signed_requests,
)
from kubesched.plugins.node_resources.strategies import (
    least_allocated_in_doubles,
    most_allocated,
    one_node_strategy,
    strategy,
)


@dataclass(frozen=True, slots=True)
class CheckedRequests:
    """What a pod needs room for: a column of the node table, an amount and a reason each."""

    reasons: tuple[str, ...]
    by_devices: tuple[bool, ...]
    """Whether devices provide it on nodes that do not have it."""
    column_list: tuple[int, ...]
    amount_list: tuple[int, ...]
    least: Ints
    """What must be free, for the columns up to the last one; a large negative amount in those that do not count."""

    def fit(self, nodes: Nodes) -> bool:
        """Whether all nodes of a small window certainly have room for all of it, which is the usual case."""
        if nodes.table.has_huge_amounts:
            return False
        amounts = nodes.amounts()
        if amounts is None:
            return nodes.cells is not None and self._fit_all(*nodes.cells)
        offered, used = amounts
        for column, wanted in zip(self.column_list, self.amount_list, strict=True):
            if offered[column] - used[column] < wanted:
                return False
        return True

    def _fit_all(self, offered: Ints, used: Ints) -> bool:
        columns = len(self.least)
        missing = offered[:columns] - used[:columns] < self.least
        return not np.logical_or.reduce(missing, axis=None)

    def status(self, code: int) -> Status:
        """Reasons for the low bits of a code; a high bit means that the node is too small even when empty."""
        size = len(self.reasons)
        reasons = [reason for bit, reason in enumerate(self.reasons) if code >> bit & 1]
        return unresolvable(*reasons) if code >> size else unschedulable(*reasons)


class NodeResourcesFit(Plugin):
    """Filter on room for requests, Score by how full the node would be."""

    name = "NodeResourcesFit"
    args_type = NodeResourcesFitArgs
    reads = Reads.PODS
    relies_on = frozenset(("preFilter",))

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._resources = args.scoring_strategy.resources
        self._strategy = strategy(args.scoring_strategy)
        self._one_node_strategy = one_node_strategy(args.scoring_strategy)
        self._devices = scored_devices(handle, self._resources)
        if self._devices is not None:
            self.reads = Reads.ROW  # type: ignore[misc]  # scores change with claims, not only with pods
        in_doubles = args.scoring_strategy.type == "LeastAllocated" and self._devices is None
        self._as_doubles = AmountsAsDoubles(handle.cluster.nodes) if in_doubles else None
        self._classes = handle.cluster.share(DeviceClassResolver)

    def sign(self, pod: api.Pod) -> Signature | Status:
        return signed_requests(pod, self.handle.features, self._classes)

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.DELETE, self._after_pod_change, by_spec=True),
            on(Resource.POD, Action.UPDATE_POD_SCALE_DOWN, self._after_pod_change),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._after_node_change, by_spec=True),
            *self._device_events(),
        ]

    def _device_events(self) -> list[EventHint]:
        if not self.handle.features.dra_extended_resource:
            return []
        change = Action.ADD | Action.UPDATE
        return [on(Resource.DEVICE_CLASS, change, self._after_class_change, by_spec=True)]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        self._needed(state, nodes.table)

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        wanted = self._needed(state, nodes.table)
        table, rows = nodes.table, nodes.rows
        if wanted.fit(nodes):
            return None
        codes: Ints | None = None
        for index, (column, amount) in enumerate(zip(wanted.column_list, wanted.amount_list, strict=True)):
            offered = table.allocatable[column, rows]
            missing = offered - table.used[column, rows] < amount
            if wanted.by_devices[index]:
                missing &= offered > 0  # DynamicResources sees to the others
            if not np.count_nonzero(missing):  # half the time of `any` on a few rows
                continue
            # Upstream treats the pod count, which comes first, as resolvable by preemption.
            too_small = missing & (offered < amount) if index else False
            code = missing.astype(np.int64) + (too_small << np.int64(len(wanted.reasons)))
            codes = code << index if codes is None else codes + (code << index)
        return None if codes is None else Verdicts(codes, wanted.status)

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        self._scored(state, pod, nodes.table)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        wanted = self._scored(state, pod, nodes.table)
        if not len(wanted.columns):
            return 0
        one = wanted.of_one(nodes, self._devices) if self._one_node_strategy is not None else None
        if one is not None and self._one_node_strategy is not None:
            return self._one_node_strategy(wanted, *one)
        if self._as_doubles is not None and self._as_doubles.update(wanted, nodes):
            return least_allocated_in_doubles(self._as_doubles, wanted)
        offered, used = wanted.of(nodes, self._devices)
        return self._strategy(used + wanted.amounts, offered, wanted.weights, wanted.may_overflow(nodes.table))

    def score_placement(self, group: api.PodGroup, assignments: Assignments) -> int:
        """Prefer placements that the group fills, whatever the strategy for single nodes."""
        table = self.handle.cluster.nodes
        requested: dict[int, int] = {}
        weights: dict[int, int] = {}
        for info in assignments.pods:
            pod, pod_class = info.pod, info.pod_class
            wanted = pod_class.remember((self, "score"), self._to_score, table, pod, pod_class)
            for column, amount, weight in zip(
                wanted.columns.tolist(), wanted.amounts.ravel().tolist(), wanted.weights.ravel().tolist(), strict=True
            ):
                requested[column] = requested.get(column, 0) + amount
                weights[column] = weight
        if not requested:
            return 0
        columns, rows = np.array(list(requested)), np.flatnonzero(assignments.placement.rows)
        block = np.ix_(columns, rows)
        used = np.array(list(requested.values())) + table.used[block].sum(axis=1)
        offered = table.allocatable[block].sum(axis=1)
        scores = most_allocated(used[:, None], offered[:, None], np.array(list(weights.values()))[:, None], huge=True)
        return int(scores[0])

    def _needed(self, state: CycleState, table: NodeTable) -> CheckedRequests:
        # Device classes decide which extended resources are checked here, and a column may have come for one.
        key = (self, "fit", self.handle.cluster.version(api.DeviceClass), len(table.resource_columns))
        pod_class = state.pod_class
        return pod_class.remember(key, self._checked, table, pod_class.requests)

    def _scored(self, state: CycleState, pod: api.Pod, table: NodeTable) -> ScoredRequests:
        pod_class = state.pod_class
        return pod_class.remember((self, "score"), self._to_score, table, pod, pod_class)

    def _to_score(self, table: NodeTable, pod: api.Pod, pod_class: PodClass) -> ScoredRequests:
        return scored_requests(table, pod, pod_class, self._resources, self.handle.features, non_zero=True)

    def _checked(self, table: NodeTable, requests: Requests) -> CheckedRequests:
        entries = [(PODS, 1, "Too many pods")]
        native = (
            (CPU, requests.milli_cpu, "Insufficient cpu"),
            (MEMORY, requests.memory, "Insufficient memory"),
            (EPHEMERAL_STORAGE, requests.ephemeral_storage, "Insufficient ephemeral-storage"),
        )
        entries += [entry for entry in native if entry[1] > 0]
        plain = len(entries)
        scalar = {name: amount for name, amount in requests.scalar.items() if amount and not self._is_ignored(name)}
        entries += [(table.column_of(name), amount, f"Insufficient {name}") for name, amount in scalar.items()]
        columns, amounts, reasons = zip(*entries, strict=True)
        by_devices = [self._by_devices(name) for name in scalar]
        least = np.full((max(columns) + 1, 1), -HUGE_CAPACITY, dtype=np.int64)
        least[list(columns), 0] = [min(amount, HUGE_CAPACITY) for amount in amounts]
        return CheckedRequests(
            reasons=reasons,
            by_devices=(*[False] * plain, *by_devices),
            column_list=columns,
            amount_list=amounts,
            least=least,
        )

    def _by_devices(self, name: str) -> bool:
        return self._classes.class_of(name) is not None

    def _is_ignored(self, name: str) -> bool:
        if not is_extended(name):
            return False
        return name in self._ignored or name.split("/")[0] in self._ignored_groups

    def _after_pod_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if not isinstance(old, api.Pod):
            return Hint.QUEUE
        if not isinstance(new, api.Pod):
            if old.node_name or old.nominated_node_name:
                why = "another scheduled pod was deleted, and it may make the unscheduled pod schedulable"
                return queue_because(log, 5, why, pod=pod, deletedPod=old)
            why = "the deleted pod was unscheduled and it wouldn't make the unscheduled pod schedulable"
            return skip_because(log, 5, why, pod=pod, deletedPod=old)
        if self._frees(pod, old, new):
            why = (
                "another scheduled pod or the target pod itself got scaled down, and it may make the unscheduled "
                "pod schedulable"
            )
            return queue_because(log, 5, why, pod=pod, modifiedPod=new)
        why = "pod got scaled down, but the modification isn't related to the resource requests of the target pod"
        return skip_because(log, 5, why, pod=pod, modifiedPod=new)

    def _frees(self, pod: api.Pod, old: api.Pod, new: api.Pod) -> bool:
        """Whether an update frees something that a waiting pod requests, or is of that pod."""
        if new.uid == pod.uid or not new.node_name:
            return new.uid == pod.uid
        # Upstream counts pod-level requests here whatever their gate says.
        features = replace(self.handle.features, pod_level_resources=True)
        before, after = _amounts(node_requests(old, features)), _amounts(node_requests(new, features))
        wanted = _amounts(scheduling_requests(pod, features))
        return any(amount and before.get(name, 0) > after.get(name, 0) for name, amount in wanted.items())

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if not isinstance(new, api.Node):
            return Hint.SKIP
        wanted = _amounts(scheduling_requests(pod, self.handle.features))
        offered = _offered(new)
        by_devices = {name for name in wanted if offered.get(name, 0) <= 0 and self._by_devices(name)}
        needed = {name: amount for name, amount in wanted.items() if amount and name not in by_devices}
        if offered["pods"] < 1 or any(amount > offered.get(name, 0) for name, amount in needed.items()):
            why = "node was created or updated, but it doesn't have enough resource(s) to accommodate this pod"
            return skip_because(log, 5, why, pod=pod, node=new)
        if not isinstance(old, api.Node):
            why = "node was added and it might fit the pod's resource requests"
            return queue_because(log, 5, why, pod=pod, node=new)
        before = _offered(old)
        more = any(offered.get(name, 0) > before.get(name, 0) for name in ("pods", *needed))
        if more or any(wanted[name] for name in by_devices):
            why = "node was updated, and may now fit the pod's resource requests"
            return queue_because(log, 5, why, pod=pod, node=new)
        why = "node was updated, but haven't changed the pod's resource requestments fit assessment"
        return skip_because(log, 5, why, pod=pod, node=new)

    def _after_class_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if not isinstance(new, api.DeviceClass):
            return Hint.QUEUE
        name = new.spec.extended_resource_name
        if isinstance(old, api.DeviceClass) and (old.spec.extended_resource_name or "") == (name or ""):
            return skip_because(log, 5, "device class has identical extended resource name", pod=pod, deviceclass=new)
        wanted = pod_requests(pod, use_status=False)
        if not isinstance(old, api.DeviceClass) and DEVICE_CLASS_PREFIX + new.name in wanted:
            why = "device class was added, and may now fit the pod's resource requests"
            return queue_because(log, 5, why, pod=pod, deviceclass=new)
        if name in wanted:
            why = "device class was created or updated, and may fit the pod's resoruce requests"
            return queue_because(log, 5, why, pod=pod, deviceclass=new)
        why = (
            "created or updated deivce class extended resource name is either nil, or does not match pod's "
            "resource request"
        )
        return skip_because(log, 5, why, pod=pod, deviceclass=new)


def _amounts(requests: Requests) -> dict[str, int]:
    return {
        "cpu": requests.milli_cpu,
        "memory": requests.memory,
        "ephemeral-storage": requests.ephemeral_storage,
        **requests.scalar,
    }


def _offered(node: api.Node) -> dict[str, int]:
    resources = allocatable(node)
    return {
        "cpu": resources.milli_cpu,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
        "pods": resources.pods,
        **resources.scalar,
    }
