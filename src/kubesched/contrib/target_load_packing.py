"""TargetLoadPacking: fills nodes up to a target CPU utilisation, then spreads."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Final

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import milli
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.contrib.load_sources import LoadAwareArgs
from kubesched.contrib.node_load import CPU_CAPACITY, LAST_CPU, Floats, known, node_loads, rounded
from kubesched.framework.plugin import Handle, Plugin
from kubesched.framework.state import CycleState

REPORTING_SECONDS: Final = 60
"""A pod that was placed later than this before the end of the measurements is not in them yet."""
DEFAULT_TARGET: Final = 40


class TargetLoadPackingArgs(LoadAwareArgs, frozen=True, rename="camel", kw_only=True):
    """The target, and what pods are expected to use."""

    default_requests: dict[str, api.Quantity] = msgspec.field(default_factory=lambda: {"cpu": "1000m"})
    """What a container without requests and limits is expected to use."""
    default_requests_multiplier: str = "1.5"
    """What a container without limits is expected to use, relative to its requests."""
    target_utilization: int = DEFAULT_TARGET

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            float(self.default_requests_multiplier)
        except ValueError:
            raise ValueError(
                f'defaultRequestsMultiplier must be a number such as "1.5", got {self.default_requests_multiplier!r}'
            ) from None
        if self.target_utilization > 100:
            raise ValueError(f"targetUtilization must be at most 100, got {self.target_utilization}")

    @property
    def target(self) -> int:
        """The target in percent; what is not positive counts as not given."""
        return self.target_utilization if self.target_utilization > 0 else DEFAULT_TARGET


class TargetLoadPacking(Plugin):
    """Scores nodes by the CPU utilisation that is expected with the pod: best at the target, worst beyond it."""

    name = "TargetLoadPacking"
    args_type = TargetLoadPackingArgs

    def __init__(self, args: TargetLoadPackingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loads = node_loads(handle, args.source)
        self._default = milli(args.default_requests["cpu"]) if "cpu" in args.default_requests else 0
        self._multiplier = float(args.default_requests_multiplier)
        self._now = handle.clock.now if hasattr(handle, "clock") else time.time
        self._recent: dict[str, tuple[float, int, int]] = {}
        """Pods that measurements do not include yet, the oldest first: when each was placed, its row, and its use."""
        self._missing: Floats = np.zeros(0)
        """What those of each row are expected to use."""
        handle.cluster.placement_observers.append(self._observe)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        values, rows = self._loads.values(), nodes.rows
        self._forget_measured()
        whole = values[CPU_CAPACITY, rows]
        wanted = self._expected(state.pod_class) + self._missing_column()[rows]
        load = values[LAST_CPU, rows]
        with np.errstate(divide="ignore", invalid="ignore"):
            expected = np.where(whole > 0, load + 100 * wanted / whole, 0.0)
        target = self.args.target
        below = (100 - target) * expected / target + target
        beyond = target * (100 - expected) / max(100 - target, 1)
        scores = np.where(expected > 100, 0.0, np.where(expected > target, beyond, below))
        return rounded(np.where(known(load), scores, 0.0))

    def _expected(self, pod_class: PodClass) -> int:
        """What the pod's containers are expected to use: their limits, more than their requests, or the default."""
        key = ("TargetLoadPacking", self._default, self._multiplier)
        return pod_class.remember(key, lambda: self._sum(pod_class.spec))

    def _sum(self, spec: api.PodSpec) -> int:
        overhead = milli(spec.overhead["cpu"]) if "cpu" in spec.overhead else 0
        return overhead + sum(self._of(each.resources.requests, each.resources.limits) for each in spec.containers)

    def _of(self, requests: Mapping[str, api.Quantity], limits: Mapping[str, api.Quantity]) -> int:
        if "cpu" in limits:
            return milli(limits["cpu"])
        if "cpu" in requests:
            return int(milli(requests["cpu"]) * self._multiplier + 0.5)
        return self._default

    # Pods that measurements do not include

    def _observe(self, info: PodInfo, sign: int) -> None:
        uid = info.pod.uid
        if sign > 0:
            amount = self._expected(info.pod_class)
            self._recent[uid] = (self._now(), info.row, amount)
            self._missing_column()[info.row] += amount
        else:
            self._forget(uid)

    def _forget(self, uid: str) -> None:
        _, row, amount = self._recent.pop(uid, (0.0, -1, 0))
        if row >= 0:
            self._missing[row] -= amount

    def _forget_measured(self) -> None:
        measured = self._loads.end - REPORTING_SECONDS
        while self._recent:
            uid, (placed, _, _) = next(iter(self._recent.items()))
            if placed > measured:
                break
            self._forget(uid)

    def _missing_column(self) -> Floats:
        more = self.handle.cluster.nodes.capacity - len(self._missing)
        if more > 0:
            self._missing = np.concatenate((self._missing, np.zeros(more)))
        return self._missing
