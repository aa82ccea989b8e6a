"""NodeResourcesBalancedAllocation: prefer nodes whose resources the pod makes more evenly used.

Balance is one minus the standard deviation of the resources' used fractions. The score compares balance with and
without the pod: 75 when the pod changes nothing, towards 100 when it evens things out, towards 50 when it skews them.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.config.args import NodeResourcesBalancedAllocationArgs
from kubesched.framework.plugin import MAX_NODE_SCORE, Handle, Plugin, Reads
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status
from kubesched.plugins.device_classes import DeviceClassResolver
from kubesched.plugins.node_resources.amounts import (
    AmountsAsDoubles,
    Floats,
    ScoredRequests,
    scored_devices,
    scored_requests,
    signed_requests,
)
from kubesched.plugins.node_resources.strategies import in_range

_HALF = MAX_NODE_SCORE // 2
_LOWEST = -(2.0**53)
"""Requests whose sum overflowed are negative and can make a balance of any size; this one still fits an integer."""


class NodeResourcesBalancedAllocation(Plugin):
    """Score on balance; skips best-effort pods, which change nothing."""

    name = "NodeResourcesBalancedAllocation"
    args_type = NodeResourcesBalancedAllocationArgs
    reads = Reads.PODS

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._devices = scored_devices(handle, args.resources)
        if self._devices is not None:
            self.reads = Reads.ROW  # type: ignore[misc]  # scores change with claims, not only with pods
        self._as_doubles = AmountsAsDoubles(handle.cluster.nodes)
        self._balances: Floats = np.zeros(0)

    def sign(self, pod: api.Pod) -> Signature | Status:
        return signed_requests(pod, self.handle.features, self.handle.cluster.share(DeviceClassResolver))

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        return SKIP if self._wanted(state, pod, nodes).best_effort else None

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        wanted = self._wanted(state, pod, nodes)
        if wanted.best_effort:
            return 0  # only where a profile has disabled PreScore
        one = wanted.of_one(nodes, self._devices)
        if one is not None and len(wanted.each) == 2:
            (column, amount, _), (other_column, other_amount, _) = wanted.each
            offered, other_offered = one[0][column], one[0][other_column]
            if offered and other_offered:
                used, other_used = one[1][column], one[1][other_column]
                before = _balance_of_two(used, offered, other_used, other_offered)
                after = _balance_of_two(used + amount, offered, other_used + other_amount, other_offered)
                return _HALF + (_HALF + after - before) // 2
        if self._devices is None and self._as_doubles.update(wanted, nodes):
            return self._in_doubles(wanted)
        return self._of_amounts(wanted, nodes)

    def _of_amounts(self, wanted: ScoredRequests, nodes: Nodes) -> Ints:
        """The score for any nodes and resources."""
        offered, used = wanted.of(nodes, self._devices)
        if len(offered) == 2 and np.logical_and.reduce(offered, axis=None):
            before, after = _balance_of_halves(used + wanted.without_and_with, offered)
        else:
            before, after = _balance(used, offered), _balance(used + wanted.amounts, offered)
        if not wanted.may_overflow(nodes.table):
            change: Ints = after.astype(np.int64)
            change -= before.astype(np.int64)
            change += _HALF
            change //= 2
            change += _HALF
            return change
        change = _HALF + _limited(after) - _limited(before)
        return in_range(_HALF + (change + (change < 0)) // 2)

    def _in_doubles(self, wanted: ScoredRequests) -> Ints:
        """The score for all nodes. The balance without the pod is kept and updated, since it is the same for pods of
        every size."""
        offered, used, changed = self._as_doubles.offered, self._as_doubles.used, self._as_doubles.changed
        if changed is None:
            self._balances = np.floor(_balance(used, offered))
        elif isinstance(changed, slice) and len(used) == 2:
            row = changed.start
            (amount, other), (capacity, other_capacity) = used[:, row].tolist(), offered[:, row].tolist()
            self._balances[row] = _balance_of_two(amount, capacity, other, other_capacity)
        else:
            self._balances[changed] = np.floor(_balance(used[:, changed], offered[:, changed]))
        with_pod = used + wanted.doubles
        score = _balance_of_halves(with_pod, offered) if len(used) == 2 else _balance(with_pod, offered)
        np.floor(score, out=score)
        score -= self._balances
        score += _HALF
        score *= 0.5
        np.floor(score, out=score)
        score += _HALF
        return score.astype(np.int64)

    def _wanted(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> ScoredRequests:
        pod_class = state.pod_class
        return pod_class.remember(self, self._to_score, nodes.table, pod, pod_class)

    def _to_score(self, table: NodeTable, pod: api.Pod, pod_class: PodClass) -> ScoredRequests:
        return scored_requests(table, pod, pod_class, self.args.resources, self.handle.features, non_zero=False)


def _balance_of_two(used: float, offered: float, other_used: float, other_offered: float) -> int:
    """The same as `_balance` for one node with two resources."""
    deviation = abs((min(used / offered, 1.0) - min(other_used / other_offered, 1.0)) / 2)
    return int((1 - deviation) * MAX_NODE_SCORE)


def _balance(used: Ints | Floats, offered: Ints | Floats) -> Floats:
    """One minus the standard deviation of the used fractions, in hundredths, over the resources a node has."""
    if len(offered) == 2 and offered.all():
        return _balance_of_halves(used, offered)
    present = offered != 0
    fractions = np.minimum(np.where(present, used / np.where(present, offered, 1), 0.0), 1.0)
    return (1 - _deviation(fractions, present)) * MAX_NODE_SCORE


def _balance_of_halves(used: Ints | Floats, offered: Ints | Floats) -> Floats:
    """The same for two resources that every node has: half of their difference is the deviation. `used` may have
    several such pairs of rows."""
    fractions = used / offered
    np.minimum(fractions, 1.0, out=fractions)
    first, second = fractions[..., 0, :], fractions[..., 1, :]
    balance: Floats = np.subtract(first, second, out=first)
    balance *= 0.5
    np.abs(balance, out=balance)
    np.subtract(1, balance, out=balance)
    balance *= MAX_NODE_SCORE
    return balance


def _limited(balance: Floats) -> Ints:
    limited: Ints = np.maximum(balance, _LOWEST).astype(np.int64)
    return limited


def _deviation(fractions: Floats, present: npt.NDArray[np.bool_]) -> Floats:
    """The standard deviation per node; of two values it is half their difference, exactly."""
    count = present.sum(axis=0)
    mean = fractions.sum(axis=0) / np.maximum(count, 1)
    squares = np.where(present, (fractions - mean) * (fractions - mean), 0.0).sum(axis=0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    columns = np.arange(fractions.shape[1])
    first = fractions[np.argmax(present, axis=0), columns]
    last = fractions[len(fractions) - 1 - np.argmax(present[::-1], axis=0), columns]
    deviation = np.where(count == 2, np.abs((first - last) / 2), deviation)
    return np.where(count < 2, 0.0, deviation)
