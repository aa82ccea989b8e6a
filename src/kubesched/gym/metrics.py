"""Rewards, and the fragmentation that one of them keeps small. A reward is any function of a `Transition`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.api.resources import scheduling_requests
from kubesched.cluster.view import Nodes

if TYPE_CHECKING:
    from kubesched.gym.environment import Transition

Typical = npt.NDArray[np.int64]
"""A row per typical pod: CPU and memory."""


def typical(pods: Iterable[api.Pod]) -> Typical:
    """What typical pods request."""
    found = [scheduling_requests(each) for each in pods]
    return np.array([(each.milli_cpu, each.memory) for each in found], dtype=np.int64).reshape(-1, 2)


def fragmentation(nodes: Nodes, wanted: Typical) -> float:
    """The part of all CPU that is free on nodes where a typical pod does not fit; the mean over typical pods."""
    total = int(nodes.allocatable("cpu").sum())
    return _stranded(nodes.free("cpu"), nodes.free("memory"), wanted) / total if total else 0.0


def placed(step: Transition) -> float:
    """1 for a pod that was placed, less 1 for each that found no node."""
    return float(bool(step.node)) - step.rejected


def less_fragmentation(pods: Iterable[api.Pod]) -> Callable[[Transition], float]:
    """A reward: how much less fragmented the cluster is by this placement, in per cent of its CPU."""
    wanted = typical(pods)

    def reward(step: Transition) -> float:
        if not step.node:
            return 0.0
        asks = scheduling_requests(step.pod)
        cpu, memory = (step.nodes.free(each)[step.row : step.row + 1] for each in ("cpu", "memory"))
        before = _stranded(cpu + asks.milli_cpu, memory + asks.memory, wanted)
        return 100 * (before - _stranded(cpu, memory, wanted)) / int(step.nodes.allocatable("cpu").sum())

    return reward


def _stranded(cpu: Typical, memory: Typical, wanted: Typical) -> float:
    """The CPU that a typical pod cannot use; the mean over typical pods."""
    misfit = (cpu[:, None] < wanted[:, 0]) | (memory[:, None] < wanted[:, 1])
    stranded = (misfit * np.maximum(cpu, 0)[:, None]).sum(axis=0)
    return float(stranded.mean()) if len(wanted) else 0.0
