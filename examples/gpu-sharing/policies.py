"""Six policies that choose a node for a pod with GPUs, each a Score plugin over all nodes at once.

All of them run beside `GpuShare`, and none beside the default Score plugins. `FixedOrder` decides between nodes with
equal scores, by an order that stays the same for the whole run.
"""

from __future__ import annotations

from random import Random as Generator

import msgspec
import numpy as np
from fragmentation import Floats, Fragmentation, TypicalPod
from gpu_share import GPU_MODEL, WHOLE, Gpus, kind, requested_milli

from kubesched import MAX_NODE_SCORE, CycleState, Handle, Ints, Nodes, Plugin, Pod, Reads

LARGEST_CPU, LARGEST_GPU = 128_000, 8 * WHOLE
"""The largest node of the paper, which amounts are normalised by."""
SCORES = MAX_NODE_SCORE + 1
"""How many different scores there are."""
ORDER = "example.com/order"
"""The label with a node's place in the order that decides between equals."""


class Policy(Plugin):
    """What the policies share."""

    reads = Reads.PODS

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self.gpus = handle.cluster.share(Gpus)


class RandomArgs(msgspec.Struct, frozen=True):
    """The seed of the choices."""

    seed: int = 0


class Random(Policy):
    """Any node, and any GPU of it that has enough left."""

    name = "Random"
    reads = Reads.CLUSTER
    args_type = RandomArgs

    def __init__(self, args: RandomArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._random = Generator(args.seed)
        self.gpus.choose = self._any_gpu

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """100 for one node, 0 for the others."""
        scores = np.zeros(len(nodes), dtype=np.int64)
        scores[self._random.randrange(len(nodes))] = MAX_NODE_SCORE
        return scores

    def _any_gpu(self, state: CycleState, pod: Pod, row: int) -> int:
        left = self.gpus.left(slice(row, row + 1))[0]
        return int(self._random.choice(np.flatnonzero(left >= requested_milli(state)).tolist()))


class DotProd(Policy):
    """The node whose free amounts, times the pod's request, are least: after Tetris (SIGCOMM 2014)."""

    name = "DotProd"

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """Amounts of CPU and GPUs, as parts of the largest node's."""
        gpu = self.gpus.left(nodes.rows).sum(axis=1) / LARGEST_GPU * (requested_milli(state) / LARGEST_GPU)
        cpu = nodes.free("cpu") / LARGEST_CPU * (state.pod_class.requests.milli_cpu / LARGEST_CPU)
        return _points((1 - (cpu + gpu) / 2) * MAX_NODE_SCORE)


class GpuClustering(Policy):
    """Nodes that run pods with the same kind of request, and among them the fullest: after Gandiva (OSDI 2018)."""

    name = "GpuClustering"

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """Only this kind, this kind among others, an idle node, only other kinds: a quarter of the scores for each."""
        milli = requested_milli(state)
        if not milli:
            return 0
        kinds, mine = self.gpus.kinds(nodes.rows), kind(milli)
        quarter = np.select([kinds == mine, kinds & mine > 0, kinds == 0], [3, 2, 1], 0)
        used = LARGEST_GPU - self.gpus.left(nodes.rows).sum(axis=1)
        return _points(25 * quarter + 25 * used // LARGEST_GPU)


class GpuPacking(Policy):
    """A GPU that is shared already, else a free GPU of a node in use, else an idle node: after MLaaS (NSDI 2022)."""

    name = "GpuPacking"

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints | int:
        """From 50 for GPUs in use, from 33 for nodes in use, less the more is free."""
        milli = requested_milli(state)
        if not milli:
            return 0
        left = self.gpus.left(nodes.rows)
        gpus = nodes.allocatable("alibabacloud.com/gpu-milli") // WHOLE
        free = (left == WHOLE).sum(axis=1)
        idle = np.maximum(33 - free, free)
        if milli >= WHOLE:
            used = np.full(len(left), max(50 - milli // WHOLE, 33), dtype=np.int64)
        else:
            tightest = np.where(left >= milli, left, WHOLE).min(axis=1)
            used = np.where(tightest < WHOLE, np.maximum(100 - tightest * 100 // WHOLE // 10, 50), 49)
        return _points(np.where(free == gpus, idle, used))


class BestFit(Policy):
    """The node with the least left over, of CPU and of GPUs."""

    name = "BestFit"

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """What would be left, as a part of the largest node, with equal weights."""
        cpu = (nodes.free("cpu") - state.pod_class.requests.milli_cpu) / LARGEST_CPU
        gpu = (self.gpus.left(nodes.rows).sum(axis=1) - requested_milli(state)) / LARGEST_GPU
        return _points((1 - (cpu * 0.5 + gpu * 0.5)) * MAX_NODE_SCORE)


class FGDArgs(msgspec.Struct, frozen=True, rename="camel"):
    """The workload to keep GPUs usable for."""

    typical_pods: list[TypicalPod] = []


class FGD(Policy):
    """Fragmentation gradient descent: the node, and the GPU, where fragmentation grows least."""

    name = "FGD"
    args_type = FGDArgs

    def __init__(self, args: FGDArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._fragmentation = Fragmentation(args.typical_pods)
        self._models: dict[str | None, int] = {}
        self._accepted = np.zeros((0, self._fragmentation.groups))
        self._table = handle.cluster.nodes
        self.gpus.choose = self._least_growth

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """The score of the GPU where fragmentation grows least."""
        scores = self._scores(state, nodes, nodes.free("cpu"))
        return np.maximum(scores.max(axis=1), 0) if scores.ndim == 2 else scores

    def _least_growth(self, state: CycleState, pod: Pod, row: int) -> int:
        node = Nodes(self._table, slice(row, row + 1))
        is_there = pod.uid in self._table.pods[row]
        cpu = node.free("cpu") + is_there * state.pod_class.requests.milli_cpu
        return int(self._scores(state, node, cpu)[0].argmax())

    def _scores(self, state: CycleState, nodes: Nodes, cpu: Ints) -> Ints:
        """A score per node, or per node and GPU if the pod shares one; -1 where a GPU has no room."""
        left, milli = self.gpus.left(nodes.rows), requested_milli(state)
        models = nodes.by_label(GPU_MODEL, self._model).astype(np.int64)
        growth = self._fragmentation.growth(
            left, cpu, self._accepted[models], milli, state.pod_class.requests.milli_cpu
        )
        points = _points(MAX_NODE_SCORE / (1 + np.exp(np.clip(growth / WHOLE, -50, 50))))
        return np.where(np.isfinite(growth), points, -1)

    def _model(self, name: str | None) -> int:
        """The row of `_accepted` with the typical pods that may use GPUs of a model."""
        if name not in self._models:
            self._models[name] = len(self._models)
            self._accepted = np.vstack([self._accepted, self._fragmentation.accepts(name)])
        return self._models[name]


class FixedOrder(Plugin):
    """Decides between equals: prefers the node whose label has the lower number.

    A score has 101 values, too few to order a thousand nodes. Two plugins with different weights have one digit each.
    """

    name = "FixedOrder"
    reads = Reads.NODE
    unit = 1

    def score_all(self, state: CycleState, pod: Pod, nodes: Nodes) -> Ints:
        """One digit, to base 101, of the node's number."""
        number = nodes.by_label(ORDER, lambda text: float(text or 0)).astype(np.int64)
        return MAX_NODE_SCORE - number // self.unit % SCORES


class CoarseOrder(FixedOrder):
    """The digit in front of the one that FixedOrder has."""

    name = "CoarseOrder"
    unit = SCORES


def _points(scores: Floats | Ints) -> Ints:
    """Scores in the range that the scheduler allows, without fractions."""
    return np.clip(scores, 0, MAX_NODE_SCORE).astype(np.int64)
