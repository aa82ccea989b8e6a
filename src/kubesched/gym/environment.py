"""The environment: one pod after another arrives, and the agent chooses a node for it.

Filter, Reserve and all that they read are the scheduler's own. The agent replaces Score: it chooses among the nodes
that fit, or it chooses the weights of the Score plugins and the scheduler does the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from heapq import heappop, heappush
from random import Random
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import Nodes
from kubesched.engine.decision import Decision, Scores
from kubesched.engine.engine import Engine
from kubesched.engine.filtering import Feasible
from kubesched.engine.outcome import Outcome
from kubesched.engine.profiles import build_engines
from kubesched.engine.scoring import Scoring
from kubesched.framework.registry import PluginSource
from kubesched.gym.features import NODE_COLUMNS, POD_COLUMNS, Floats, largest_node, observe
from kubesched.gym.metrics import placed
from kubesched.library.configuration import Config, configuration, known_plugins

Observation = dict[str, Floats]
Action = Literal["node", "weights"]
Bools = npt.NDArray[np.int8]


class Arriving(NamedTuple):
    """A pod, and after how many more arrivals it ends; None if it stays."""

    pod: api.Pod
    steps: int | None = None


class Transition(NamedTuple):
    """What a reward is made from."""

    nodes: Nodes
    """All nodes, after the step: see `Nodes` for its columns."""
    pod: api.Pod
    node: str
    """The node that the pod was placed on; empty if the action was masked."""
    row: int
    """Its row in `nodes`; -1 without a node."""
    rejected: int
    """How many pods found no node before the next one that did."""


Reward = Callable[[Transition], float]
Arrivals = Callable[[np.random.Generator], Iterable[Arriving | api.Pod]]


class SchedulingEnv(gymnasium.Env[Observation, Any]):
    """Schedules pods on nodes.

    `arrivals` makes the pods of an episode from a random generator. With `action` "node" an action is the number of a
    node, in the order of `nodes`; `action_masks()` and `info["action_mask"]` say which fit. With "weights" it is an
    array with the weight, from 0 to 1, of each plugin in `score_plugins`.

    A pod that fits nowhere is dropped and counted. So is a pod whose action was masked. An episode ends with its pods.
    """

    metadata = {"render_modes": []}  # noqa: RUF012  # as the base class has it

    def __init__(
        self,
        nodes: Sequence[api.Node],
        arrivals: Arrivals,
        *,
        action: Action = "node",
        reward: Reward = placed,
        config: Config = None,
        plugins: Iterable[PluginSource] = (),
    ) -> None:
        if not nodes:
            raise ValueError("an environment needs nodes")
        if action not in get_args(Action):
            raise ValueError(f"an action is {' or '.join(get_args(Action))}, not {action!r}")
        self._arrivals, self._reward, self._by_weights = arrivals, reward, action == "weights"
        self._cluster = ClusterState()
        for node in nodes:
            self._cluster.set(node)
        self._engine = self._made(config, tuple(plugins))
        self._scoring = Scoring(self._engine.framework)
        self._all = Nodes(self._cluster.nodes)
        self._largest = largest_node(self._all)
        self.score_plugins = tuple(each.name for each in self._engine.framework.scores)
        """The plugins that score, in the order of an action's weights."""
        shapes = {"nodes": (len(nodes), len(NODE_COLUMNS)), "pod": (len(POD_COLUMNS),)}
        self.observation_space = spaces.Dict({name: spaces.Box(0.0, 1.0, shape) for name, shape in shapes.items()})  # type: ignore[assignment]  # Gymnasium types it by Any
        self._nothing = {name: np.zeros(shape, dtype=np.float32) for name, shape in shapes.items()}
        self.action_space = (
            spaces.Box(0.0, 1.0, (len(self.score_plugins),)) if self._by_weights else spaces.Discrete(len(nodes))
        )
        self._pods: Iterator[Arriving | api.Pod] = iter(())
        self._leaving: list[tuple[int, str]] = []
        self._arrived = self._placed = self._rejected = 0
        self._ends: int | None = None
        self._decision: Decision | None = None
        self._found: Feasible | None = None

    def _made(self, config: Config, plugins: Sequence[PluginSource]) -> Engine:
        registry = known_plugins(plugins)
        engines = build_engines(configuration(config, registry, plugins), registry, self._cluster, Random(0))
        return next(iter(engines.values()))

    # --- Gymnasium ----------------------------------------------------------------------------------------------------

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Empty the nodes and begin with the pods of a new episode."""
        super().reset(seed=seed, options=options)
        for uid in list(self._cluster.pods):
            self._cluster.remove_pod(uid)
        self._leaving.clear()
        self._arrived = self._placed = self._rejected = 0
        self._pods = iter(self._arrivals(self.np_random))
        self._rejected += self._next()
        return self._observation(), self._info()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Place the pod and go on to the next one that fits somewhere."""
        decision, found = self._decision, self._found
        if decision is None or found is None:
            raise gymnasium.error.ResetNeeded("the episode has ended; call reset()")
        row = self._weighted(decision, found, action) if self._by_weights else int(action)
        if not 0 <= row < len(found.mask):
            raise ValueError(f"action {row} is not the number of a node; there are {len(found.mask)}, from 0")
        node = self._place(decision, row) if found.mask[row] else ""
        rejected = self._next()
        self._placed, self._rejected = self._placed + bool(node), self._rejected + rejected + (not node)
        reward = self._reward(Transition(self._all, decision.pod, node, row if node else -1, rejected))
        return self._observation(), float(reward), self._decision is None, False, self._info()

    def action_masks(self) -> Bools:
        """1 for each node that the pod fits on; with weights everything is allowed."""
        if self._by_weights:
            return np.ones(len(self.score_plugins), dtype=np.int8)
        if self._found is None:
            return np.zeros(len(self._all), dtype=np.int8)
        return self._found.mask.astype(np.int8)

    # --- inside -------------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> Nodes:
        """All nodes, as plugins see them."""
        return self._all

    def scores(self) -> npt.NDArray[np.int64]:
        """What the scheduler's own Score plugins give each node for the pod, -1 where it does not fit: a baseline."""
        decision, found = self._decision, self._found
        totals = np.full(len(self._all), -1, dtype=np.int64)
        if decision is not None and found is not None:
            scores = self._scored(decision, found)
            totals[scores.rows] = scores.totals
        return totals

    def _next(self) -> int:
        """Let pods arrive until one fits; returns how many did not."""
        rejected = 0
        self._decision = self._found = None
        for each in self._pods:
            arriving = each if isinstance(each, Arriving) else Arriving(each)
            self._arrived += 1
            while self._leaving and self._leaving[0][0] <= self._arrived:
                self._cluster.remove_pod(heappop(self._leaving)[1])
            decision = Decision(self._cluster.classes.info(self._named(arriving.pod)), detailed=False)
            decision.begin_point()
            found = self._engine.filtering.find(decision)
            if isinstance(found, Feasible):
                self._decision, self._found, self._ends = decision, found, arriving.steps
                break
            rejected += 1
        return rejected

    def _named(self, pod: api.Pod) -> api.Pod:
        """The pod with a UID of its own: an episode may use one template for many pods."""
        name = f"{pod.metadata.name}-{self._arrived}"
        return replace(pod, metadata=replace(pod.metadata, name=name, uid=f"{pod.namespace}/{name}"))

    def _place(self, decision: Decision, row: int) -> str:
        node = self._cluster.nodes.names[row]
        decision.chosen, decision.outcome = node, Outcome.SCHEDULED
        if not self._engine.place(decision):
            return ""
        if self._ends is not None:
            heappush(self._leaving, (self._arrived + self._ends, decision.pod.uid))
        return node

    def _weighted(self, decision: Decision, found: Feasible, weights: npt.NDArray[np.float32]) -> int:
        """The best row with these weights; the first of several."""
        scores = self._scored(decision, found)
        totals = np.zeros(len(scores.rows))
        for plugin, weight in zip(self._engine.framework.scores, weights, strict=True):
            part = scores.plugins.get(plugin.name)
            if part is not None:
                totals += part / plugin.weight * float(weight)
        return int(scores.rows[totals.argmax()])

    def _scored(self, decision: Decision, found: Feasible) -> Scores:
        """What each Score plugin gives each node that fits."""
        decision.detailed, decision.scores = True, None
        self._scoring.best(decision, found)
        if decision.scores is None:  # no plugin scores
            rows = np.flatnonzero(found.mask)
            return Scores(self._cluster.nodes, rows, {}, np.zeros(len(rows), dtype=np.int64))
        return decision.scores

    def _observation(self) -> Observation:
        if self._decision is None:
            return {name: each.copy() for name, each in self._nothing.items()}
        nodes, pod = observe(self._all, self._decision.info.pod_class.requests, self._largest)
        return {"nodes": nodes, "pod": pod}

    def _info(self) -> dict[str, Any]:
        return {"action_mask": self.action_masks(), "placed": self._placed, "rejected": self._rejected}
