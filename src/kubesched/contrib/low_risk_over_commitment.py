"""LowRiskOverCommitment: prefers nodes where limits beyond the node's size, and loads beyond requests, are unlikely."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.contrib.beta import beta_cdf, shape_of
from kubesched.contrib.load_sources import LoadAwareArgs
from kubesched.contrib.node_load import (
    CPU_DEVIATION,
    CPU_MEAN,
    MEMORY_DEVIATION,
    MEMORY_MEAN,
    Floats,
    known,
    node_loads,
    rounded,
)
from kubesched.contrib.pod_amounts import (
    LIMIT_CPU,
    LIMIT_MEMORY,
    REQUEST_CPU,
    REQUEST_MEMORY,
    RequestAndLimitSums,
    requests_and_limits,
)
from kubesched.framework.plugin import MAX_NODE_SCORE, Handle, Plugin
from kubesched.framework.state import CycleState

LARGEST_VARIANCE = 0.99
"""How much of the largest possible variance a distribution may have."""
DEFAULT_WEIGHT = 0.5


class Place(NamedTuple):
    """Where the numbers of a resource are, among sums and among loads."""

    resource: str
    request: int
    limit: int
    mean: int
    deviation: int


RESOURCES = (
    Place("cpu", REQUEST_CPU, LIMIT_CPU, CPU_MEAN, CPU_DEVIATION),
    Place("memory", REQUEST_MEMORY, LIMIT_MEMORY, MEMORY_MEAN, MEMORY_DEVIATION),
)


class LowRiskOverCommitmentArgs(LoadAwareArgs, frozen=True, rename="camel", kw_only=True):
    """How loads are smoothed, and how much the risk of limits counts for each resource; the rest is that of loads."""

    smoothing_window_size: int = 5
    risk_limit_weights: dict[str, float] = msgspec.field(default_factory=dict)

    @property
    def window(self) -> int:
        """What is not positive counts as not given."""
        return self.smoothing_window_size if self.smoothing_window_size > 0 else 5

    def weight(self, resource: str) -> float:
        """The weight of limits, from 0 to 1; another one counts as not given."""
        given = self.risk_limit_weights.get(resource, DEFAULT_WEIGHT)
        return given if 0 <= given <= 1 else DEFAULT_WEIGHT


class LowRiskOverCommitment(Plugin):
    """Scores nodes by the risk of overcommitment; of CPU and memory the riskier one counts."""

    name = "LowRiskOverCommitment"
    args_type = LowRiskOverCommitmentArgs

    def __init__(self, args: LowRiskOverCommitmentArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loads = node_loads(handle, args.source)
        self._sums = handle.cluster.share(RequestAndLimitSums)
        self._probabilities = [Probabilities(place, args.window) for place in RESOURCES]

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        """Requests and limits are kept with the pod's class. Configurations name this point."""

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        wanted = requests_and_limits(state.pod_class)
        if not wanted.any():
            return np.zeros(len(nodes), dtype=np.int64)  # best-effort pods are not its concern
        table, rows = self.handle.cluster.nodes, nodes.rows
        values, sums = self._loads.values(), self._sums.sums()
        measured = known(values[CPU_MEAN, rows]) | known(values[MEMORY_MEAN, rows])
        risk = np.zeros(len(nodes))
        for place, probabilities in zip(RESOURCES, self._probabilities, strict=True):
            whole = table.allocatable[table.resource(place.resource), : table.size]
            used = probabilities.column(whole, sums[:, : table.size], values[:, : table.size])[rows]
            request = sums[place.request, rows] + wanted[place.request]
            limit = sums[place.limit, rows] + wanted[place.limit]
            weight = self.args.weight(place.resource)
            both = weight * limit_risk(whole[rows], request, limit) + (1 - weight) * (1 - used)
            risk = np.maximum(risk, np.clip(both, 0, 1))
        return rounded(np.where(measured, (1 - risk) * MAX_NODE_SCORE, 0.0))


class Probabilities:
    """How likely it is that the pods on a node use no more than they request. Rows are worked out anew when their
    numbers have changed."""

    def __init__(self, place: Place, window: int) -> None:
        self._place = place
        self._smoothing = math.sqrt(window)
        self._numbers: Floats = np.zeros((5, 0))
        self._found: Floats = np.zeros(0)

    def column(self, whole: Ints, sums: Ints, loads: Floats) -> Floats:
        """The probabilities of all rows; 1 where nothing was measured."""
        place = self._place
        numbers = np.stack([whole, sums[place.request], sums[place.limit], loads[place.mean], loads[place.deviation]])
        numbers = np.nan_to_num(numbers, nan=-1.0)
        size = len(self._found)
        if numbers.shape[1] < size:
            size = 0
        stale = np.ones(numbers.shape[1], dtype=np.bool_)
        stale[:size] = (numbers[:, :size] != self._numbers[:, :size]).any(axis=0)
        if stale.any():
            self._found = np.concatenate((self._found[:size], np.ones(numbers.shape[1] - size)))
            self._found[stale] = self._compute(*numbers[:, stale])
            self._numbers = numbers
        return self._found

    def _compute(self, whole: Floats, request: Floats, limit: Floats, mean: Floats, deviation: Floats) -> Floats:
        """The load as a beta distribution: its share up to what is requested. If limits are less than the node, loads
        beyond them are ruled out."""
        there = whole > 0
        whole = np.where(there, whole, 1.0)
        mean = np.where(there, np.clip(mean / 100, 0, 1), 0.0)
        spread = np.where(there, np.clip(deviation / 100, 0, 1), 0.0) * self._smoothing
        spread = np.minimum(spread, np.sqrt(mean * (1 - mean) * LARGEST_VARIANCE))
        threshold = np.clip(np.minimum(request, whole) / whole, 0, 1)
        found = np.where((mean <= 0) | (mean <= threshold), 1.0, 0.0)  # without deviation
        varies = (spread > 0) & (mean > 0)
        a, b = np.ones_like(mean), np.ones_like(mean)
        a[varies], b[varies] = shape_of(mean[varies], spread[varies])
        found[varies] = beta_cdf(threshold[varies], a[varies], b[varies])
        bounded = (limit < whole) & (np.minimum(request, whole) <= limit)
        within = np.ones_like(mean)
        rows = bounded & varies & (limit > 0)
        within[rows] = beta_cdf(limit[rows] / whole[rows], a[rows], b[rows])
        found = np.clip(found / np.where(within > 0, within, 1.0), 0, 1)
        return np.where(bounded & (limit == 0), 1.0, found)


def limit_risk(whole: Ints, requests: Ints, limits: Ints) -> Floats:
    """How much of what pods may use beyond their requests the node does not have."""
    requests = np.minimum(requests, whole)
    beyond = limits > whole
    return np.where(beyond, (limits - whole) / np.where(beyond, limits - requests, 1), 0.0)
