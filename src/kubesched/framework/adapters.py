"""Adapters that give every Filter and Score plugin one form: a call that answers for a whole window of nodes.

A plugin that answers for one node at a time is called in a loop. What other people's plugins return is checked before
it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.framework.answers import check_scores, check_verdicts, filter_answer, score_answer, wrong
from kubesched.framework.errors import plugin_error
from kubesched.framework.plugin import Plugin, Reads, Verdicts, is_built_in, whole
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status

FilterAll = Callable[[CycleState, api.Pod, Nodes], Verdicts | None]
ScoreAll = Callable[[CycleState, api.Pod, Nodes], Ints | int]


class FilterPlugin:
    """A plugin at the Filter point, as a call about a whole window."""

    __slots__ = ("filter_all", "lifted", "name", "plugin", "reads")

    def __init__(self, plugin: Plugin, instead: FilterAll | None = None) -> None:
        """`instead` is called in place of the plugin's own method."""
        self.plugin = plugin
        self.name = plugin.name
        self.lifted = not hasattr(plugin, "filter_all")
        """Whether the plugin answers for one node at a time."""
        self.reads = Reads.CLUSTER if self.lifted else plugin.reads
        self.filter_all = instead or self._own(plugin)

    def _own(self, plugin: Plugin) -> FilterAll:
        call = lift_filter(plugin)
        return call if self.lifted or is_built_in(type(plugin)) else _checked_filter(plugin, call)


class ScorePlugin:
    """A plugin at the Score point, as a call about a whole window, with its weight in this profile."""

    __slots__ = ("name", "normalize", "plugin", "reads", "score_all", "weight")

    def __init__(self, plugin: Plugin, weight: int, instead: ScoreAll | None = None) -> None:
        """`instead` is called in place of the plugin's own method."""
        self.plugin = plugin
        self.name = plugin.name
        self.reads = plugin.reads if hasattr(plugin, "score_all") else Reads.CLUSTER
        self.weight = weight
        self.score_all = instead or _own_score(plugin)
        self.normalize: Callable[[CycleState, api.Pod, Ints], Ints] | None = getattr(plugin, "normalize", None)


def _own_score(plugin: Plugin) -> ScoreAll:
    call = lift_score(plugin)
    lifted = not hasattr(plugin, "score_all")
    return call if lifted or is_built_in(type(plugin)) else _checked_score(plugin, call)


def lift_filter(plugin: Any) -> Callable[[CycleState, api.Pod, Nodes], Verdicts | None]:
    """A plugin's Filter for a whole window; made from the one-node method if the plugin has no other."""
    if hasattr(plugin, "filter_all"):
        return plugin.filter_all  # type: ignore[no-any-return]  # a plugin's method, found by name

    def filter_all(state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        codes = np.zeros(len(nodes), dtype=np.int32)
        statuses: list[Status] = []
        for position, node in _numbered(nodes):
            status = filter_answer(plugin, plugin.filter(state, pod, node))
            if status is not None:
                statuses.append(status)
                codes[position] = len(statuses)
        return Verdicts(codes, lambda code: statuses[code - 1]) if statuses else None

    return filter_all


def lift_score(plugin: Any) -> Callable[[CycleState, api.Pod, Nodes], Ints | int]:
    """A plugin's Score for a whole window; made from the one-node method if the plugin has no other."""
    if hasattr(plugin, "score_all"):
        return plugin.score_all  # type: ignore[no-any-return]  # a plugin's method, found by name

    normalizes = hasattr(plugin, "normalize")

    def score_all(state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        scores: list[int | float] = [0] * len(nodes)
        for position, node in _numbered(nodes):
            scores[position] = score_answer(plugin, plugin.score(state, pod, node))
        # Only `normalize` needs fractions.
        return np.array(scores) if normalizes else whole(np.array(scores))

    return score_all


def _numbered(nodes: Nodes) -> Iterator[tuple[int, NodeInfo]]:
    for position, row in enumerate(nodes.row_numbers()):
        if nodes.table.nodes[row] is not None:
            yield position, NodeInfo(nodes.table, row)


def _checked_filter(plugin: Plugin, call: FilterAll) -> FilterAll:
    """A `filter_all` whose codes, and the statuses that they stand for, are checked."""

    def filter_all(state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        verdicts = call(state, pod, nodes)
        if verdicts is None:
            return None
        check_verdicts(plugin, verdicts, len(nodes))
        return Verdicts(verdicts.codes, lambda code: _checked_status(plugin, verdicts.status_of, code))

    return filter_all


def _checked_status(plugin: Plugin, status_of: Callable[[int], object], code: int) -> Status:
    """The status that a code stands for, or the plugin's error. It may be asked for long after Filter has run."""
    try:
        status = status_of(code)
        if isinstance(status, Status):
            return status
        raise wrong(plugin, "filter_all", status, f"let status_of({code}) return a Status")
    except KeyboardInterrupt:
        raise
    except BaseException as problem:
        raise plugin_error(plugin, "Filter", problem) from problem


def _checked_score(plugin: Plugin, call: ScoreAll) -> ScoreAll:
    """A `score_all` whose scores are checked."""

    def score_all(state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        scores = call(state, pod, nodes)
        check_scores(plugin, scores, len(nodes))
        # A column of the table cannot be kept: it changes, and scores that are kept are updated.
        return scores if isinstance(scores, int) or scores.flags.writeable else scores.copy()

    return score_all
