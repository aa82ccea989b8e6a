"""GpuShare: several pods on one GPU, as a Filter and a Reserve plugin.

A pod requests thousandths of GPUs as the resource `alibabacloud.com/gpu-milli`. With less than 1000 it shares one GPU
with other pods. Otherwise it requests a multiple of 1000 and gets whole GPUs. A node offers 1000 per GPU. The
scheduler's own NodeResourcesFit checks the sum; this plugin checks, and remembers, the single GPUs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kubesched import (
    SKIP,
    CycleState,
    Handle,
    Ints,
    Nodes,
    Plugin,
    Pod,
    PodInfo,
    Reads,
    Status,
    Verdicts,
    error,
    reject,
    unresolvable,
    unschedulable,
)

GPU_MILLI = "alibabacloud.com/gpu-milli"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
GPU_INDEX = "alibabacloud.com/gpu-index"
"""The annotation with the numbers of a pod's GPUs, such as "2" or "0-1"."""
WHOLE = 1000
NO_ROOM = unschedulable("node(s) had no GPU with enough room")


Choose = Callable[[CycleState, Pod, int], int]


class Gpus:
    """What is left of every GPU in the cluster: a row per node, a column per GPU.

    The plugins of a scheduler share one such table: `handle.cluster.share(Gpus)`. It reads the node table's log of rows
    whose pods have changed, and counts only those again.
    """

    def __init__(self, cluster: Any) -> None:
        self._table = cluster.nodes
        self._seen = (-1, -1)
        self._left: Ints = np.zeros((0, 1), dtype=np.int64)
        self._kinds: Ints = np.zeros(0, dtype=np.int64)
        self._given: dict[str, list[int]] = {}
        """The GPUs of pods that have no annotation yet, by UID."""
        self.choose: Choose = lambda state, pod, row: self.fullest(row, requested_milli(state))
        """Chooses the GPU of a row for a pod that shares one. A policy may replace it."""

    def left(self, rows: slice | Ints) -> Ints:
        """What is left of each GPU in some rows; 0 where a node has fewer GPUs than others have."""
        self._update()
        return self._left[rows]

    def kinds(self, rows: slice | Ints) -> Ints:
        """Which kinds of requests run in some rows: bit 0 for a shared GPU, bit n for n whole GPUs."""
        self._update()
        return self._kinds[rows]

    def fullest(self, row: int, milli: int) -> int:
        """Best fit: the GPU with the least left that is enough."""
        left = self._left[row]
        return int(np.where(left >= milli, left, WHOLE + 1).argmin())

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> bool:
        """Give a pod GPUs of a node; False if they are not free."""
        self._update()
        row, milli = self._table.row_of[node_name], requested_milli(state)
        self._given[pod.uid] = []  # the pod may be on its node already
        self._count(row)
        shares = milli < WHOLE and (self._left[row] >= milli).any()
        gpus = [self.choose(state, pod, row)] if shares else self._free(row, milli)
        if not gpus:
            del self._given[pod.uid]
            return False
        self._given[pod.uid] = gpus
        self._count(row)
        return True

    def unreserve(self, pod: Pod, node_name: str) -> None:
        """Take the GPUs away again."""
        row = self._table.row_of.get(node_name)
        if self._given.pop(pod.uid, None) is not None and row is not None:
            self._update()
            self._count(row)

    def given(self, pod: Pod) -> list[int]:
        """The numbers of the GPUs that were reserved for a pod."""
        return self._given.get(pod.uid, [])

    def _free(self, row: int, milli: int) -> list[int]:
        wanted = max(1, milli // WHOLE)
        free: list[int] = np.flatnonzero(self._left[row] == WHOLE)[:wanted].tolist()
        return free if len(free) == wanted else []

    def _update(self) -> None:
        table = self._table
        position, version = self._seen
        changed = table.changed_since(position) if version == table.node_version else None
        if changed is None or len(self._kinds) != table.size:
            gpus = Nodes(table).allocatable(GPU_MILLI) // WHOLE
            self._left = np.zeros((table.size, max(1, int(gpus.max(initial=0)))), dtype=np.int64)
            self._kinds = np.zeros(table.size, dtype=np.int64)
            changed = range(table.size)
        for row in set(changed):
            self._count(row)
        self._seen = table.log_end, table.node_version

    def _count(self, row: int) -> None:
        """Count what the pods of a row use."""
        left = self._left[row]
        gpus = int(self._table.allocatable[self._table.resource(GPU_MILLI), row]) // WHOLE
        left[:gpus], left[gpus:], kinds = WHOLE, 0, 0
        for info in self._table.pods[row].values():
            milli = requested_milli(info)
            if milli:
                share = min(milli, WHOLE)
                for gpu in self._gpus_of(info.pod, row, milli):
                    left[gpu] = max(0, left[gpu] - share)
                kinds |= kind(milli)
        self._kinds[row] = kinds

    def _gpus_of(self, pod: Pod, row: int, milli: int) -> list[int]:
        """The pod's GPUs: annotated, reserved, or, for a pod that another scheduler placed, those it would get."""
        written = pod.annotations.get(GPU_INDEX, "")
        numbers = [int(each) for each in written.split("-") if each.isdigit()]
        if numbers:
            self._given.pop(pod.uid, None)
            return [each for each in numbers if each < self._left.shape[1]]
        if pod.uid in self._given:
            return self._given[pod.uid]
        return [self.fullest(row, milli)] if milli < WHOLE else self._free(row, milli)


def requested_milli(pod: CycleState | PodInfo) -> int:
    """What a pod requests of GPUs, in thousandths."""
    return int(pod.pod_class.requests.scalar.get(GPU_MILLI, 0))


def kind(milli: int) -> int:
    """The kind of a request for GPUs, as a bit."""
    return 1 << min(62, milli // WHOLE)


class GpuShare(Plugin):
    """Keeps pods off nodes without a GPU for them, and gives each pod its GPUs."""

    name = "GpuShare"
    reads = Reads.PODS

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._gpus = handle.cluster.share(Gpus)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Nodes) -> Status | None:
        """Skip pods without GPUs, and refuse one GPU and a half."""
        milli = requested_milli(state)
        if milli > WHOLE and milli % WHOLE:
            return unresolvable(
                f"{GPU_MILLI} is {milli}, which is neither a part of one GPU nor a number of whole GPUs"
            )
        return None if milli else SKIP

    def filter_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Verdicts | None:
        """One GPU with enough left, or enough GPUs that are free."""
        left, milli = self._gpus.left(nodes.rows), requested_milli(state)
        free = (left >= min(milli, WHOLE)).sum(axis=1)
        return reject(free < max(1, milli // WHOLE), NO_ROOM)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Give the pod its GPUs."""
        milli = requested_milli(state)
        if milli and not self._gpus.reserve(state, pod, node_name):
            return error(f"node {node_name} has no room for {milli} {GPU_MILLI} any more")
        return None

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give them back."""
        self._gpus.unreserve(pod, node_name)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        """Write down which GPUs the pod has, for its containers and for the next scheduler."""
        gpus = self._gpus.given(pod)
        if gpus:
            written = {"metadata": {"annotations": {GPU_INDEX: "-".join(map(str, gpus))}}}
            await self.handle.client.merge_patch(Pod, pod.name, written, pod.namespace)
        return None
