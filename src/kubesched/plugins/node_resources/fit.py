"""NodeResourcesFit: a node must have room for what the pod requests, and is scored by how full it would be."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kubesched.api import objects as api
from kubesched.api.resources import Requests, allocatable, is_extended, node_requests, scheduling_requests
from kubesched.cluster.table import CPU, EPHEMERAL_STORAGE, MEMORY, PODS, Ints, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.config.args import NodeResourcesFitArgs
from kubesched.framework.events import Action, EventHint, Hint, Resource, on
from kubesched.framework.plugin import Handle, Plugin, Reads, Verdicts
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unresolvable, unschedulable
from kubesched.plugins.node_resources.amounts import ScoredRequests, scored_requests
from kubesched.plugins.node_resources.strategies import strategy


@dataclass(frozen=True, slots=True)
class CheckedRequests:
    """What a pod needs room for: a column of the node table, an amount and a reason each."""

    columns: Ints
    amounts: Ints
    reasons: tuple[str, ...]
    bits: Ints

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

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.DELETE, self._after_pod_change, by_class=True),
            on(Resource.POD, Action.UPDATE_POD_SCALE_DOWN, self._after_pod_change),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE, self._after_node_change, by_class=True),
        ]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        self._needed(state, nodes.table)

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        wanted = self._needed(state, nodes.table)
        table, rows = nodes.table, nodes.rows
        block = (wanted.columns, rows) if isinstance(rows, slice) else (wanted.columns[:, None], rows)
        offered = table.allocatable[block]
        missing = wanted.amounts > offered - table.used[block]
        if not missing.any():
            return None
        too_small = missing & (wanted.amounts > offered)
        too_small[0] = False  # upstream treats the pod count as resolvable by preemption
        codes = wanted.bits @ missing + (wanted.bits @ too_small << len(wanted.reasons))
        return Verdicts(codes, wanted.status)

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        self._scored(state, pod, nodes.table)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        wanted = self._scored(state, pod, nodes.table)
        if not len(wanted.columns):
            return 0
        offered, used = wanted.of(nodes)
        return self._strategy(used + wanted.amounts, offered, wanted.weights)

    def _needed(self, state: CycleState, table: NodeTable) -> CheckedRequests:
        return state.pod_class.remember((self, "fit"), lambda: self._checked(table, state.pod_class.requests))

    def _scored(self, state: CycleState, pod: api.Pod, table: NodeTable) -> ScoredRequests:
        features = self.handle.features
        return state.pod_class.remember(
            (self, "score"), lambda: scored_requests(table, pod, self._resources, features, non_zero=True)
        )

    def _checked(self, table: NodeTable, requests: Requests) -> CheckedRequests:
        entries = [(PODS, 1, "Too many pods")]
        native = (
            (CPU, requests.milli_cpu, "Insufficient cpu"),
            (MEMORY, requests.memory, "Insufficient memory"),
            (EPHEMERAL_STORAGE, requests.ephemeral_storage, "Insufficient ephemeral-storage"),
        )
        entries += [entry for entry in native if entry[1] > 0]
        for name, amount in requests.scalar.items():
            if amount != 0 and not self._is_ignored(name):
                entries.append((table.resource(name), amount, f"Insufficient {name}"))
        columns, amounts, reasons = zip(*entries, strict=True)
        return CheckedRequests(
            columns=np.array(columns, dtype=np.int64),
            amounts=np.array(amounts, dtype=np.int64).reshape(-1, 1),
            reasons=reasons,
            bits=1 << np.arange(len(reasons), dtype=np.int64),
        )

    def _is_ignored(self, name: str) -> bool:
        if not is_extended(name):
            return False
        return name in self._ignored or name.split("/")[0] in self._ignored_groups

    def _after_pod_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(old, api.Pod):
            return Hint.QUEUE
        if not isinstance(new, api.Pod):
            return Hint.QUEUE if old.node_name or old.nominated_node_name else Hint.SKIP
        if new.uid == pod.uid:
            return Hint.QUEUE
        if not new.node_name:
            return Hint.SKIP
        # Upstream counts pod-level requests here whatever their gate says.
        features = replace(self.handle.features, pod_level_resources=True)
        before, after = _amounts(node_requests(old, features)), _amounts(node_requests(new, features))
        wanted = _amounts(scheduling_requests(pod, features))
        shrunk = any(amount and before.get(name, 0) > after.get(name, 0) for name, amount in wanted.items())
        return Hint.QUEUE if shrunk else Hint.SKIP

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(new, api.Node):
            return Hint.SKIP
        wanted = _amounts(scheduling_requests(pod, self.handle.features))
        offered = _offered(new)
        if offered["pods"] < 1 or any(amount > offered.get(name, 0) for name, amount in wanted.items() if amount):
            return Hint.SKIP
        if not isinstance(old, api.Node):
            return Hint.QUEUE
        before = _offered(old)
        names: Sequence[str] = ["pods", *(name for name, amount in wanted.items() if amount)]
        return Hint.QUEUE if any(offered.get(n, 0) > before.get(n, 0) for n in names) else Hint.SKIP


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
