"""Calls one plugin for one example, without a scheduler, in the order of a scheduling cycle."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field
from random import Random
from typing import Any

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.config.custom_args import decode_args
from kubesched.config.errors import Problem
from kubesched.framework.adapters import FilterPlugin, ScorePlugin
from kubesched.framework.answers import (
    check_scores,
    filter_answer,
    pre_filter_answer,
    score_answer,
    status_answer,
)
from kubesched.framework.handle import Handle
from kubesched.framework.plugin import MAX_NODE_SCORE, MIN_NODE_SCORE, Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.testing.generate import Example

StatusParts = tuple[str, ...]
"""The code and the reasons of a status, empty for success."""


class OutOfRangeError(ValueError):
    """A score below 0 or above 100."""


@dataclass
class Answers:
    """What a plugin returned for every node, by name."""

    pre_filter: Status | Collection[str] | None = None
    filters: dict[str, StatusParts] = field(default_factory=dict)
    raw: dict[str, float] = field(default_factory=dict)
    scores: dict[str, int] = field(default_factory=dict)

    @property
    def fits(self) -> bool:
        """Whether the plugin accepts the pod on any node."""
        if isinstance(self.pre_filter, Status):
            return self.pre_filter.is_skip
        considered = self.filters if self.pre_filter is None else self.filters.keys() & set(self.pre_filter)
        return any(not self.filters[name] for name in considered)


def cluster_of(example: Example, *, with_running: bool = True) -> ClusterState:
    """The example as the scheduler's state."""
    cluster = ClusterState()
    for each in (*example.nodes, *example.related, *(example.running if with_running else ())):
        cluster.set(each)
    return cluster


def make(plugin: type[Plugin], cluster: ClusterState, args: object) -> Any:
    """The plugin, with its arguments."""
    if plugin.args_type is not None:
        problems: list[Problem] = []
        args = decode_args(plugin.args_type, args, "args", problems)
        if problems:
            raise ValueError("; ".join(map(str, problems)))
    return plugin(args, Handle(cluster, Random(0)))


class PluginProbe:
    """A plugin, and a pod to call it with."""

    def __init__(self, plugin: type[Plugin], cluster: ClusterState, pod: api.Pod, args: object) -> None:
        self.cluster = cluster
        self.info = cluster.classes.info(pod)
        self.plugin = make(plugin, cluster, args)
        self.state = CycleState(self.info.pod_class)
        self.nodes = Nodes(cluster.nodes)

    def everything(self) -> Answers:
        """Everything the plugin returns, for all nodes at once."""
        answers = Answers()
        answers.pre_filter = self.pre_filter()
        if not isinstance(answers.pre_filter, Status):
            answers.filters = self.filter(self.nodes)
        feasible = self.feasible(answers)
        if len(feasible) and self.pre_score(feasible):
            answers.raw = self.score(feasible)
            answers.scores = self.normalized(feasible)
        return answers

    def feasible(self, answers: Answers) -> Nodes:
        """The nodes that the plugin itself accepts."""
        mask = np.array([self.nodes.table.valid[row] for row in self.nodes.row_numbers()])
        for position, name in enumerate(self.nodes.names):
            mask[position] &= not answers.filters.get(name)
        return Nodes(self.cluster.nodes, mask=mask)

    def pre_filter(self) -> Status | Collection[str] | None:
        if not hasattr(self.plugin, "pre_filter"):
            return None
        answer = pre_filter_answer(self.plugin, self.plugin.pre_filter(self.state, self.info.pod, self.nodes))
        return None if isinstance(answer, Status) and answer.is_success else answer

    def filter(self, nodes: Nodes) -> dict[str, StatusParts]:
        """Filter's statuses for a window."""
        if not hasattr(self.plugin, "filter_all") and not hasattr(self.plugin, "filter"):
            return dict.fromkeys(nodes.names, ())
        verdicts = FilterPlugin(self.plugin).filter_all(self.state, self.info.pod, nodes)
        if verdicts is None:
            return dict.fromkeys(nodes.names, ())
        codes = verdicts.codes.tolist()
        return {
            name: parts_of(verdicts.status_of(int(code))) if code else ()
            for name, code in zip(nodes.names, codes, strict=True)
        }

    def filter_one(self, node: NodeInfo) -> StatusParts:
        """The status of the one-node form, for a plugin that has both."""
        return parts_of(filter_answer(self.plugin, self.plugin.filter(self.state, self.info.pod, node)))

    def pre_score(self, nodes: Nodes) -> bool:
        """Whether there is anything to score."""
        if not hasattr(self.plugin, "score_all") and not hasattr(self.plugin, "score"):
            return False
        if not hasattr(self.plugin, "pre_score"):
            return True
        status = status_answer(self.plugin, "pre_score", self.plugin.pre_score(self.state, self.info.pod, nodes))
        return status is None or not status.is_skip

    def score(self, nodes: Nodes) -> dict[str, float]:
        """Raw scores of a window."""
        return dict(zip(nodes.names, self._raw(nodes).tolist(), strict=True))

    def score_one(self, node: NodeInfo) -> float:
        """The score of the one-node form, for a plugin that has both."""
        return score_answer(self.plugin, self.plugin.score(self.state, self.info.pod, node))

    def normalized(self, nodes: Nodes) -> dict[str, int]:
        """Scores before weighting; raises `OutOfRangeError` if one is out of range."""
        scores = self._raw(nodes)
        if hasattr(self.plugin, "normalize"):
            scores = self.plugin.normalize(self.state, self.info.pod, scores)
            check_scores(self.plugin, scores, len(nodes), "normalize")
        for name, score in zip(nodes.names, scores.tolist(), strict=True):
            if not MIN_NODE_SCORE <= score <= MAX_NODE_SCORE:
                raise OutOfRangeError(f"{name} gets {score}")
        return dict(zip(nodes.names, scores.tolist(), strict=True))

    def _raw(self, nodes: Nodes) -> Any:
        raw = ScorePlugin(self.plugin, 1).score_all(self.state, self.info.pod, nodes)
        return np.full(len(nodes), raw, dtype=np.int64) if isinstance(raw, int) else raw

    def fingerprint(self) -> dict[str, bytes]:
        """Everything that a plugin can see and must not change, except columns that are made on demand."""
        table = self.cluster.nodes
        pods = [info.pod for info in self.cluster.pods.values()]
        return {
            "the pod": msgspec.json.encode(self.info.pod),
            "a node": msgspec.json.encode(table.nodes),
            "a pod on a node": msgspec.json.encode(pods),
            "the pods on a node": repr([list(each) for each in table.pods]).encode(),
            "the column of allocatable amounts": table.allocatable[:6].tobytes(),
            "the column of requested amounts": table.used[:6].tobytes(),
            "the column of valid rows": table.valid.tobytes(),
            "the column of cordons": table.unschedulable.tobytes(),
            "the column of taints": table.taint_set.tobytes(),
        }


def parts_of(status: Status | None) -> StatusParts:
    """The code and the reasons of a status."""
    return () if status is None or status.is_success else (status.code.upstream, *status.reasons)
