"""Peaks: prefers nodes whose power draw grows least with the pod."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.contrib.load_sources import LoadSource
from kubesched.contrib.node_load import CPU_CAPACITY, FIRST_CPU, Floats, known, node_loads
from kubesched.contrib.scaling import lowest_best
from kubesched.framework.plugin import Handle, Plugin
from kubesched.framework.state import CycleState

MODEL_FILE: Final = "NODE_POWER_MODEL"
"""The environment variable with the file of power models, if the arguments have none."""
SCALE: Final = 1e15
LARGEST: Final = 2.0**61
"""Larger numbers count as this one: differences of them would overflow."""


class PowerModel(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Power at a CPU utilisation of x percent: k0 + k1 * e^(k2 * x)."""

    k0: float = 0.0
    k1: float = 0.0
    k2: float = 0.0


PowerModels = dict[str, PowerModel | None]
"""By node. None is the model of a node whose power never grows."""


class PeaksArgs(msgspec.Struct, frozen=True):
    """The power model of each node, by name. Upstream's files write the names with capitals."""

    watcher_address: str = msgspec.field(default="", name="watcherAddress")
    node_power_model: PowerModels = msgspec.field(default_factory=dict, name="nodePowerModel")
    WatcherAddress: str = ""
    NodePowerModel: PowerModels = {}  # msgspec copies it

    @property
    def models(self) -> PowerModels:
        """The power models, from the arguments or the file that the environment names."""
        given = self.node_power_model or self.NodePowerModel
        if given:
            return given
        file = os.environ.get(MODEL_FILE)
        if not file:
            raise ValueError(f"there is no power model; set nodePowerModel, or name a JSON file in ${MODEL_FILE}")
        return msgspec.json.decode(Path(file).read_bytes(), type=PowerModels)


class Peaks(Plugin):
    """Scores nodes by how much more power they would draw with the pod."""

    name = "Peaks"
    args_type = PeaksArgs

    def __init__(self, args: PeaksArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._loads = node_loads(handle, LoadSource(args.watcher_address or args.WatcherAddress))
        self._models = args.models
        self._rows: Floats = np.zeros((2, 0))
        self._rows_version = -1

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        """The growth in power. A node without measurements, or without room, counts as 0, as upstream has it."""
        values, rows = self._loads.values(), nodes.rows
        load, whole = values[FIRST_CPU, rows], values[CPU_CAPACITY, rows]
        factor, exponent = self._model_columns()[:, rows]
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            expected = np.where(whole > 0, load + 100 * state.pod_class.requests.milli_cpu / whole, 0.0)
            growth = factor * (np.exp(exponent * expected) - np.exp(exponent * load)) * SCALE
        fits = known(load) & (expected <= 100)
        growth = np.clip(np.nan_to_num(np.where(fits, growth, 0.0)), -LARGEST, LARGEST)
        return np.asarray(growth, dtype=np.int64)

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        """The least growth gets 100. If no node's power grows, all keep 0."""
        return lowest_best(scores)

    def _model_columns(self) -> Floats:
        """k1 and k2 of each row's node."""
        table = self.handle.cluster.nodes
        if self._rows_version != table.node_version or self._rows.shape[1] < table.size:
            self._rows_version = table.node_version
            self._rows = np.zeros((2, table.capacity))
            for name, model in self._models.items():
                row = table.row_of.get(name)
                if row is not None and model is not None:
                    self._rows[:, row] = model.k1, model.k2
        return self._rows
