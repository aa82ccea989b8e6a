"""How much of a node's idle GPUs typical pods could not use: the measure that FGD keeps small.

Typical pods are the most frequent requests of a workload, with their frequency. On a node that it does not fit on, a
typical pod cannot use any idle GPU; elsewhere it cannot use those with less left than it requests. F, the fragmentation
of a node, is the sum over typical pods of that amount times their frequency. Everything here works on arrays of S nodes
with G GPUs each; typical pods have J different requests per GPU.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

import msgspec
import numpy as np
import numpy.typing as npt

WHOLE = 1000
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


class Request(msgspec.Struct, frozen=True, rename="camel", order=True):
    """What FGD reads of a pod."""

    milli_cpu: int
    gpu_milli: int = 0
    """Thousandths of each GPU."""
    gpus: int = 0
    models: str = ""
    """Allowed models, such as "A|B"; any if empty."""


class TypicalPod(msgspec.Struct, frozen=True, rename="camel"):
    """A request and its frequency."""

    request: Request
    frequency: float


def typical_pods(requests: Iterable[Request], share: float = 0.95) -> list[TypicalPod]:
    """The most frequent requests that together make up this share of all, with frequencies that add up to 1."""
    counts = sorted(Counter(requests).items(), key=lambda each: (each[1], each[0]), reverse=True)
    wanted = share * sum(number for _, number in counts)
    chosen: list[tuple[Request, int]] = []
    for each in counts:
        if sum(number for _, number in chosen) >= wanted:
            break
        chosen.append(each)
    total = sum(number for _, number in chosen)
    return [TypicalPod(request, number / total) for request, number in chosen]


class Fragmentation:
    """Computes F for many nodes at once, and for what they would be after a placement.

    Typical pods that differ in CPU alone are one group. A table has, by the node's CPU, how frequent the pods
    of a group are that have enough of it.
    """

    def __init__(self, pods: Sequence[TypicalPod]) -> None:
        self._weight = sum(each.frequency for each in pods)
        sharing = [each for each in pods if each.request.gpus]
        groups = sorted({(p.request.gpu_milli, p.request.gpus, p.request.models) for p in sharing})
        self._sizes: Ints = np.array(sorted({milli for milli, _, _ in groups}), dtype=np.int64)
        self._size_of = np.searchsorted(self._sizes, [milli for milli, _, _ in groups])
        self._numbers = np.array([number for _, number, _ in groups], dtype=np.int64)
        self._models = [frozenset(filter(None, models.split("|"))) for _, _, models in groups]
        self.groups = len(groups)
        self._cpus = np.array(sorted({each.request.milli_cpu for each in sharing}), dtype=np.int64)
        self._frequency = np.zeros((len(self._cpus) + 1, len(groups)))
        for each in sharing:
            wanted = each.request
            group = groups.index((wanted.gpu_milli, wanted.gpus, wanted.models))
            self._frequency[np.searchsorted(self._cpus, wanted.milli_cpu) + 1 :, group] += each.frequency

    def accepts(self, model: str | None) -> Floats:
        """Which groups may use GPUs of this model, as 1 and 0."""
        return np.array([not models or model in models for models in self._models], dtype=np.float64)

    def growth(self, left: Ints, cpu: Ints, accepted: Floats, milli: int, milli_cpu: int) -> Floats:
        """How much F grows on each node (S) if a pod is placed there.

        A pod that shares a GPU has a choice: the result then has a column per GPU (S, G), infinite without room.
        """
        total = left.sum(axis=1)
        count, usable = self._usable(left)
        before = self._fragmentation(total, count, usable, cpu, accepted)
        after = cpu - milli_cpu
        if not 0 < milli < WHOLE:
            whole = milli // WHOLE
            count, usable, total = count - whole, usable - whole * WHOLE, total - whole * WHOLE
            return self._fragmentation(total, count, usable, after, accepted) - before
        old = left[:, :, None]
        was, stays = old >= self._sizes, old - milli >= self._sizes
        counts = count[:, None, :] - was + stays
        usables = usable[:, None, :] - was * old + stays * (old - milli)
        totals = total[:, None] - milli
        grown = self._fragmentation(totals, counts, usables, after[:, None], accepted[:, None, :]) - before[:, None]
        return np.where(left >= milli, grown, np.inf)

    def _usable(self, left: Ints) -> tuple[Ints, Ints]:
        """For each different request per GPU: how many GPUs have that much left, and what is left of these (S, J)."""
        enough = left[:, :, None] >= self._sizes
        return enough.sum(axis=1), (enough * left[:, :, None]).sum(axis=1)

    def _fragmentation(self, total: Ints, count: Ints, usable: Ints, cpu: Ints, accepted: Floats) -> Floats:
        fits = count[..., self._size_of] >= self._numbers
        frequency = self._frequency[np.searchsorted(self._cpus, cpu, side="right")]
        served: Floats = (fits * accepted * frequency * usable[..., self._size_of]).sum(axis=-1)
        return total * self._weight - served
