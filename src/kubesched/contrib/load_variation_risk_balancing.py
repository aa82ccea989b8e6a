"""LoadVariationRiskBalancing: prefers nodes whose load is low and steady."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
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
from kubesched.contrib.pod_amounts import REQUEST_CPU, REQUEST_MEMORY, requests_and_limits
from kubesched.framework.plugin import MAX_NODE_SCORE, Handle, Plugin
from kubesched.framework.state import CycleState


class LoadVariationRiskBalancingArgs(LoadAwareArgs, frozen=True, rename="camel", kw_only=True):
    """How much variation counts: the risk is (mean + margin * deviation ^ (1 / sensitivity)) / 2."""

    safe_variance_margin: float = 1.0
    safe_variance_sensitivity: float = 1.0

    @property
    def margin(self) -> float:
        """What is negative counts as not given."""
        return self.safe_variance_margin if self.safe_variance_margin >= 0 else 1.0

    @property
    def sensitivity(self) -> float:
        """What is negative counts as not given."""
        return self.safe_variance_sensitivity if self.safe_variance_sensitivity >= 0 else 1.0


class LoadVariationRiskBalancing(Plugin):
    """Scores nodes by mean and deviation of their load; of CPU and memory the worse one counts."""

    name = "LoadVariationRiskBalancing"
    args_type = LoadVariationRiskBalancingArgs

    def __init__(self, args: LoadVariationRiskBalancingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loads = node_loads(handle, args.source)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        values, rows = self._loads.values(), nodes.rows
        wanted = requests_and_limits(state.pod_class)
        cpu = self._scores(nodes.allocatable("cpu"), wanted[REQUEST_CPU], values[[CPU_MEAN, CPU_DEVIATION]][:, rows])
        memory = self._scores(
            nodes.allocatable("memory"), wanted[REQUEST_MEMORY], values[[MEMORY_MEAN, MEMORY_DEVIATION]][:, rows]
        )
        both = known(cpu) & known(memory)
        return rounded(np.where(both, np.minimum(cpu, memory), np.nan_to_num(np.fmax(cpu, memory))))

    def _scores(self, whole: Ints, request: int, load: Floats) -> Floats:
        """The score for one resource; NaN where it was not measured."""
        return risk_scores(whole, request, load[0], load[1], self.args.margin, self.args.sensitivity)


def risk_scores(
    whole: Ints, request: int, mean: Floats, deviation: Floats, margin: float, sensitivity: float
) -> Floats:
    """100 without risk, 0 at full risk. `mean` and `deviation` are in percent, the others amounts."""
    with np.errstate(divide="ignore", invalid="ignore"):
        # By way of amounts, as upstream: many scores end in .5, and then the last bit decides how they are rounded.
        used, varies = (np.clip(percent * whole / 100, 0, whole) for percent in (mean, deviation))
        load = np.clip((used + max(request, 0)) / whole, 0, 1)
        spread = np.clip(varies / whole, 0, 1)
        if sensitivity >= 0:
            spread = np.power(spread, 1 / sensitivity if sensitivity else np.inf)
        risk = (load + np.clip(spread * margin, 0, 1)) / 2
    return np.where(known(mean), np.where(whole > 0, (1 - risk) * MAX_NODE_SCORE, 0.0), np.nan)
