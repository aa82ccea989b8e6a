"""A trained policy as a Score plugin.

A policy is any function of what the environment shows, `(nodes, pod)`, that returns a number per node: the higher, the
better. `LinearPolicy` is one that a file holds. Others, such as a neural network, are named as ``module:function``.
"""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec
import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import MAX_NODE_SCORE, Plugin
from kubesched.framework.state import CycleState
from kubesched.gym.features import NODE_COLUMNS, POD_COLUMNS, Floats, largest_node, observe

Policy = Callable[[Floats, Floats], npt.ArrayLike]
FINE = 1_000_000


class LinearPolicy:
    """A weight per column of nodes, and one per product of a column of nodes and a column of the pod."""

    SIZE = len(NODE_COLUMNS) * (1 + len(POD_COLUMNS))

    def __init__(self, weights: npt.ArrayLike) -> None:
        self.weights = np.asarray(weights, dtype=np.float64).reshape(1 + len(POD_COLUMNS), len(NODE_COLUMNS))

    def __call__(self, nodes: Floats, pod: Floats) -> npt.NDArray[np.float64]:
        """A number per node."""
        found: npt.NDArray[np.float64] = nodes @ (self.weights[0] + pod @ self.weights[1:])
        return found

    def save(self, path: Path) -> None:
        """Write the weights, by column, as JSON."""
        rows = dict(zip(("node", *POD_COLUMNS), self.weights.tolist(), strict=True))
        named = {name: dict(zip(NODE_COLUMNS, row, strict=True)) for name, row in rows.items()}
        path.write_text(json.dumps(named, indent=2) + "\n", "utf-8")

    @classmethod
    def load(cls, path: Path) -> LinearPolicy:
        """Read what `save` wrote."""
        named: Mapping[str, Mapping[str, float]] = msgspec.json.decode(
            path.read_bytes(), type=dict[str, dict[str, float]]
        )
        try:
            return cls([[named[row][column] for column in NODE_COLUMNS] for row in ("node", *POD_COLUMNS)])
        except KeyError as missing:
            raise ValueError(f"{path}: {missing} is missing; was it written by another version?") from None


class PolicyArgs(msgspec.Struct, frozen=True):
    """Which policy scores."""

    policy: str = ""
    """A file that `LinearPolicy.save` wrote, or ``module:function``."""


class PolicyScore(Plugin):
    """Scores nodes with a trained policy: the node it likes most gets 100, the one it likes least 0."""

    name = "PolicyScore"
    args_type = PolicyArgs

    def __init__(self, args: PolicyArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._policy = load_policy(args.policy)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        """What the policy says, in millionths."""
        largest = largest_node(Nodes(self.handle.cluster.nodes))
        liked = self._policy(*observe(nodes, state.pod_class.requests, largest))
        return np.rint(np.asarray(liked, dtype=np.float64) * FINE).astype(np.int64)

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        """From 0 to 100. What differs in the policy's eyes at the top differs in the score: only the best gets 100."""
        low, high = int(scores.min()), int(scores.max())
        if high == low:
            return np.full(len(scores), MAX_NODE_SCORE, dtype=np.int64)
        return np.where(scores == high, MAX_NODE_SCORE, (scores - low) * (MAX_NODE_SCORE - 1) // (high - low))


def load_policy(place: str) -> Policy:
    """A policy from a file of weights, or from a module."""
    if not place:
        raise ValueError("args.policy is empty; give the file of a policy, or module:function")
    if place.endswith(".json"):
        return LinearPolicy.load(Path(place))
    module, _, name = place.partition(":")
    if not name:
        raise ValueError(f"args.policy is {place!r}; give a .json file, or module:function")
    found: Policy = getattr(importlib.import_module(module), name)
    return found
