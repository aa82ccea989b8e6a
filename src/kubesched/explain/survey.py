"""Every Filter plugin's verdict on every node.

A scheduling cycle stops at the first plugin that rejects a node, and at the first PreFilter that rejects the pod. A
survey runs each plugin by itself over all rows, so that nothing is hidden behind an earlier rejection.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints, Mask, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.engine.engine import Engine
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.errors import PluginError
from kubesched.framework.plugin import Plugin, Verdicts
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, error, unresolvable


class Verdict:
    """One plugin's rejections: of the pod as a whole, or of single rows."""

    __slots__ = ("_special", "_verdicts", "mask", "plugin", "whole")

    def __init__(
        self, plugin: str, mask: Mask, *, verdicts: Verdicts | None = None, whole: Status | None = None
    ) -> None:
        self.plugin = plugin
        self.mask = mask
        """The rejected rows."""
        self.whole = whole
        """The status if PreFilter has rejected the pod, or nodes, at once."""
        self._verdicts = verdicts
        self._special: dict[int, Status] = {}

    def overrule(self, row: int, status: Status) -> None:
        """Reject one more row: the pod does not fit there beside the pods that are nominated to it."""
        self.mask[row] = True
        self._special[row] = status

    def status(self, row: int) -> Status:
        """The status of a rejected row."""
        if row in self._special:
            return self._special[row]
        if self.whole is not None:
            return self.whole
        assert self._verdicts is not None
        return self._verdicts.status_of(int(self._verdicts.codes[row]))


class Survey:
    """All verdicts about one pod, on the cluster as it is."""

    def __init__(self, engine: Engine, pod: api.Pod) -> None:
        self.engine = engine
        self.framework: Framework = engine.framework
        self.cluster = engine.cluster
        self.info = self.cluster.classes.info(pod)
        self.pod = self.info.pod
        self.state = CycleState(self.info.pod_class)
        self.verdicts: dict[str, Verdict] = {}
        """The plugins that reject some row, in the order in which they run."""
        self.size = self.table.size
        """Rows at the time of the survey. The table may get more when a change is tried out."""
        self.memo: dict[Hashable, Any] = {}
        """What explanations of one row computed for all of them."""
        self._pre_filter()
        self._filter()
        self._with_nominated()
        self.verdicts = dict(sorted(self.verdicts.items(), key=self._turn))

    def _turn(self, item: tuple[str, Verdict]) -> tuple[bool, int]:
        """When a plugin has its say: PreFilter before Filter. A cycle that ends at PreFilter runs no Filter."""
        name, verdict = item
        early = verdict.whole is not None
        names = [each.name for each in (self.framework.pre_filter if early else self.framework.filters)]
        return not early, names.index(name) if name in names else -1

    @property
    def table(self) -> NodeTable:
        """The nodes."""
        return self.cluster.nodes

    @property
    def rows(self) -> Ints:
        """The rows that have a node."""
        return np.flatnonzero(self.table.valid[: self.size])

    def plugin(self, name: str) -> Plugin | None:
        """A plugin of the profile."""
        return next((each for each in self.framework.plugins if each.name == name), None)

    def refusers(self, row: int) -> list[Verdict]:
        """The plugins that reject a row."""
        return [each for each in self.verdicts.values() if each.mask[row]]

    def refusals(self) -> Ints:
        """How many plugins reject each row."""
        counts = np.zeros(self.size, dtype=np.int64)
        for each in self.verdicts.values():
            counts += each.mask
        return counts

    def feasible_without(self, *plugins: str) -> Ints:
        """The rows that fit once these plugins are left out."""
        left = self.table.valid[: self.size].copy()
        for name, each in self.verdicts.items():
            if name not in plugins:
                left &= ~each.mask
        return np.flatnonzero(left)

    def combinations(self) -> list[tuple[frozenset[str], Ints]]:
        """The distinct sets of rejecting plugins, each with its rows; smallest sets first."""
        names = list(self.verdicts)
        codes = np.zeros(self.size, dtype=np.int64)
        for bit, name in enumerate(names):
            codes |= self.verdicts[name].mask.astype(np.int64) << bit
        rows = self.rows
        found = []
        for code in np.unique(codes[rows]).tolist():
            chosen = frozenset(name for bit, name in enumerate(names) if code >> bit & 1)
            found.append((chosen, rows[codes[rows] == code]))
        return sorted(found, key=lambda each: (len(each[0]), -len(each[1])))

    # Running the plugins

    def _pre_filter(self) -> None:
        nodes = Nodes(self.table)
        for plugin in self.framework.pre_filter:
            answer: Any
            try:
                answer = self.framework.ask_pre_filter(plugin, self.state, self.pod, nodes)
            except PluginError as problem:
                answer = error(str(problem))
            if answer is None:
                continue
            if not isinstance(answer, Status):
                self._narrow(plugin.name, frozenset(answer))
            elif answer.is_skip:
                self.state.skip_filter.add(plugin.name)
            elif not answer.is_success:
                self.state.skip_filter.add(plugin.name)
                self._reject(plugin.name, self._everywhere(), answer)

    def _narrow(self, plugin: str, names: frozenset[str]) -> None:
        mask = self._everywhere()
        mask[[self.table.row_of[name] for name in names if name in self.table.row_of]] = False
        if mask.any():
            self._reject(plugin, mask, unresolvable(f"node(s) didn't satisfy plugin(s) [{plugin}]"))

    def _filter(self) -> None:
        nodes = Nodes(self.table)
        for plugin in self.framework.active_filters(self.state):
            verdicts = self._ask(plugin, self.state, nodes)
            if verdicts is None:
                continue
            mask = (verdicts.codes != 0) & self.table.valid[: self.size]
            if mask.any():
                # NodeAffinity may have named nodes at PreFilter; its own verdict says more.
                self.verdicts[plugin.name] = Verdict(plugin.name, mask, verdicts=verdicts)

    def _ask(self, plugin: FilterPlugin, state: CycleState, nodes: Nodes) -> Verdicts | None:
        try:
            return self.framework.ask_filter(plugin, state, self.pod, nodes)
        except PluginError as problem:
            status = error(str(problem))
            return Verdicts(np.ones(len(nodes), dtype=np.int64), lambda _: status)

    def _with_nominated(self) -> None:
        what_if = self.framework.what_if
        for row in what_if.nominated_rows(self.pod):
            with what_if.with_nominated(self.state, self.pod, row) as (supposed, added):
                window = Nodes(self.table, slice(row, row + 1))
                for plugin in self.framework.active_filters(supposed) if added else ():
                    verdicts = self._ask(plugin, supposed, window)
                    if verdicts is not None and verdicts.codes[0]:
                        self._overrule(plugin.name, row, verdicts.status_of(int(verdicts.codes[0])))

    def _overrule(self, plugin: str, row: int, status: Status) -> None:
        verdict = self.verdicts.get(plugin)
        if verdict is None:
            verdict = self.verdicts[plugin] = Verdict(plugin, ~self._everywhere())
            verdict.mask[:] = False
        if not verdict.mask[row]:
            verdict.overrule(row, status)

    def _reject(self, plugin: str, mask: Mask, status: Status) -> None:
        self.verdicts[plugin] = Verdict(plugin, mask, whole=status)

    def _everywhere(self) -> Mask:
        return self.table.valid[: self.size].copy()


def is_resolvable(status: Status) -> bool:
    """Whether removing pods may change the status."""
    return status.code is Code.UNSCHEDULABLE
