"""NodeResourcesAllocatable: prefers small or large nodes, whatever runs on them."""

from __future__ import annotations

from typing import Literal

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.api.resources import is_scalar
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.config.args import ResourceSpec
from kubesched.contrib.scaling import min_max
from kubesched.framework.plugin import Plugin, Reads
from kubesched.framework.state import CycleState

MIB = 1 << 20
DEFAULTS = (ResourceSpec(name="cpu", weight=MIB), ResourceSpec(name="memory", weight=1))
"""A thousandth of a CPU weighs as much as a MiB of memory."""


class NodeResourcesAllocatableArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Which resources count how much, and whether small or large nodes are better."""

    resources: tuple[ResourceSpec, ...] = DEFAULTS
    mode: Literal["Least", "Most", ""] = "Least"

    def __post_init__(self) -> None:
        for each in self.resources:
            if each.weight <= 0:
                raise ValueError(f"resource weight of {each.name} should be a positive value, got {each.weight}")


class NodeResourcesAllocatable(Plugin):
    """Scores nodes by the weighted sum of their allocatable resources."""

    name = "NodeResourcesAllocatable"
    args_type = NodeResourcesAllocatableArgs
    reads = Reads.NODE

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        resources = self.args.resources or DEFAULTS
        total = np.zeros(len(nodes), dtype=np.int64)
        for each in resources:
            if each.name in ("cpu", "memory", "ephemeral-storage") or is_scalar(each.name):
                total += nodes.allocatable(each.name) * each.weight
        average = total // sum(each.weight for each in resources)
        return average if self.args.mode == "Most" else -average

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return min_max(scores)
