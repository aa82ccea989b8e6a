"""LowRiskOverCommitment: prefers nodes where limits beyond the node's size, and loads beyond requests, are unlikely."""

from __future__ import annotations

import math
from typing import NamedTuple

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.contrib.beta import beta_cdf, shape_of
from kubesched.contrib.load_sources import LoadAwareArgs
from kubesched.contrib.node_load import (
    CPU_DEVIATION,
    CPU_MEAN,
    MEMORY_DEVIATION,
    MEMORY_MEAN,
    Floats,
    NodeLoadColumns,
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
        self._probabilities = Probabilities(handle.cluster.nodes, self._loads, self._sums, args.window)

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        """Requests and limits are kept with the pod's class. Configurations name this point."""

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        wanted = requests_and_limits(state.pod_class)
        if not wanted.any():
            return np.zeros(len(nodes), dtype=np.int64)  # best-effort pods are not its concern
        return self._column(state.pod_class, wanted)[nodes.rows]

    def _column(self, pod_class: PodClass, wanted: Ints) -> Ints:
        """The scores of all rows. Those of pods of a class are kept, and only what has changed is computed again."""
        used, now = self._probabilities.columns(), self._probabilities.versions
        key = (self._loads, self.handle.profile_name, self.name)
        versions, scores = pod_class.remember(key, _no_scores)
        if versions == now:
            return scores
        rows = self._sums.changed_since(versions[2])
        if versions[:2] != now[:2] or len(scores) != used.shape[1]:
            scores = np.zeros(used.shape[1], dtype=np.int64)
            rows = np.arange(len(scores))
        scores[rows] = self._scores(rows, wanted, used)
        pod_class.memo[key] = (now, scores)
        return scores

    def _scores(self, rows: Ints, wanted: Ints, used: Floats) -> Ints:
        table, values, sums = self.handle.cluster.nodes, self._loads.values(), self._sums.sums()
        measured = known(values[CPU_MEAN, rows]) | known(values[MEMORY_MEAN, rows])
        risk = np.zeros(len(rows))
        for place, likely in zip(RESOURCES, used, strict=True):
            request = sums[place.request, rows] + wanted[place.request]
            limit = sums[place.limit, rows] + wanted[place.limit]
            weight = self.args.weight(place.resource)
            beyond = limit_risk(table.allocatable[table.resource(place.resource), rows], request, limit)
            risk = np.maximum(risk, np.clip(weight * beyond + (1 - weight) * (1 - likely[rows]), 0, 1))
        return rounded(np.where(measured, (1 - risk) * MAX_NODE_SCORE, 0.0))


def _no_scores() -> tuple[tuple[int, int, int], Ints]:
    return (-1, -1, -1), np.zeros(0, dtype=np.int64)


class Probabilities:
    """How likely it is that the pods on a node use no more than they request, by resource and row.

    Only rows whose numbers have changed are computed again. Between two reports of loads, those are the rows whose pods
    have changed.
    """

    def __init__(self, table: NodeTable, loads: NodeLoadColumns, sums: RequestAndLimitSums, window: int) -> None:
        self._table = table
        self._loads = loads
        self._sums = sums
        self._smoothing = math.sqrt(window)
        self.versions = (-1, -1, -1)
        """The versions of loads, nodes and sums that the columns were computed for."""
        self._numbers: Floats = np.zeros((len(RESOURCES), 5, 0))
        self._found: Floats = np.zeros((len(RESOURCES), 0))

    def columns(self) -> Floats:
        """The probabilities of all rows; 1 where nothing was measured."""
        self._loads.values()
        now = (self._loads.version, self._table.node_version, self._sums.version)
        if now != self.versions:
            same_nodes = now[:2] == self.versions[:2] and self._found.shape[1] == self._table.size
            rows = self._sums.changed_since(self.versions[2]) if same_nodes else np.arange(self._table.size)
            self._refresh(rows[rows < self._table.size], whole=not same_nodes)
            self.versions = now
        return self._found

    def _refresh(self, rows: Ints, *, whole: bool) -> None:
        numbers = self._numbers_of(rows)
        if whole:
            size = min(self._table.size, self._found.shape[1])
            changed = np.ones(len(rows), dtype=np.bool_)
            changed[:size] = (numbers[:, :, :size] != self._numbers[:, :, :size]).any(axis=(0, 1))
            fresh = np.ones((len(RESOURCES), len(rows)))
            fresh[:, :size] = self._found[:, :size]
            self._found, self._numbers = fresh, numbers
            rows, numbers = rows[changed], numbers[:, :, changed]
        else:
            self._numbers[:, :, rows] = numbers
        if len(rows):
            self._found[:, rows] = within_requests(np.moveaxis(numbers, 1, 0), self._smoothing)

    def _numbers_of(self, rows: Ints) -> Floats:
        """All numbers that a probability depends on, by resource. A load that was not measured is -1."""
        table, sums, loads = self._table, self._sums.sums(), self._loads.values()
        numbers = np.empty((len(RESOURCES), 5, len(rows)))
        for place, into in zip(RESOURCES, numbers, strict=True):
            into[0] = table.allocatable[table.resource(place.resource), rows]
            into[1], into[2] = sums[place.request, rows], sums[place.limit, rows]
            into[3], into[4] = loads[place.mean, rows], loads[place.deviation, rows]
        numbers[np.isnan(numbers)] = -1.0
        return numbers


def limit_risk(whole: Ints, requests: Ints, limits: Ints) -> Floats:
    """How much of what pods may use beyond their requests the node does not have."""
    requests = np.minimum(requests, whole)
    beyond = limits > whole
    return np.where(beyond, (limits - whole) / np.where(beyond, limits - requests, 1), 0.0)


def within_requests(numbers: Floats, smoothing: float) -> Floats:
    """How likely the load of a node is within the requests of its pods: the share of a beta distribution up to there.

    If limits are less than the node, loads beyond them are ruled out.
    """
    whole, request, limit, mean, deviation = numbers
    there = whole > 0
    whole = np.where(there, whole, 1.0)
    mean = np.where(there, np.clip(mean * whole / 100 / whole, 0, 1), 0.0)  # in this order, as upstream
    spread = np.where(there, np.clip(deviation / 100, 0, 1), 0.0) * smoothing
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
