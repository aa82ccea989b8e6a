"""Filters that answer for one node at a time, asked about no more nodes than it takes.

Upstream asks all of its Filters so: node after node, from where the last search stopped, until enough are found that
fit. Where a plugin answers for all nodes in one call there is nothing to be saved, but here there is.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.framework.adapters import FilterPlugin
from kubesched.framework.plugin import Verdicts
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status

AT_ONCE = 16
"""How many nodes are looked at between two counts, as many as upstream's default parallelism."""


class PartialFilter:
    """One plugin, the rows that no plugin before it has rejected, and what it has said of some of them."""

    def __init__(self, plugin: FilterPlugin, alive: Mask) -> None:
        self.plugin = plugin
        self.statuses: list[Status] = []
        self._alive = alive
        self._codes: Ints = np.zeros(len(alive), dtype=np.int64)

    def passing(self, framework: Framework, state: CycleState, pod: api.Pod, rows: Ints) -> Ints:
        """Those of the rows that it does not reject, of those that it has to be asked about."""
        rows = rows[self._alive[rows]]
        verdicts = framework.ask_filter(self.plugin, state, pod, Nodes(framework.cluster.nodes, rows))
        if verdicts is None:
            return rows
        for position in np.flatnonzero(verdicts.codes).tolist():
            self.statuses.append(verdicts.status_of(int(verdicts.codes[position])))
            self._codes[rows[position]] = len(self.statuses)
        left: Ints = rows[verdicts.codes == 0]
        return left

    @property
    def verdicts(self) -> Verdicts:
        """All that it has said."""
        return Verdicts(self._codes, lambda code: self.statuses[code - 1])


def search(
    framework: Framework,
    plugins: Sequence[PartialFilter],
    state: CycleState,
    pod: api.Pod,
    rows: Ints,
    passed: Mask,
    wanted: int,
) -> tuple[Ints, int]:
    """The first so many of the rows that fit, and how many rows had to be looked at. `passed` is where all other
    plugins let the pod pass."""
    found: Ints = rows[:0]
    done = 0
    while done < len(rows) and len(found) < wanted:
        some = rows[done : done + max(wanted - len(found), AT_ONCE)]
        left = some
        for plugin in plugins:
            left = plugin.passing(framework, state, pod, left)
        found = np.concatenate((found, left[passed[left]]))[:wanted]
        done += len(some)
    if len(found) and len(found) == wanted:
        done = int(np.flatnonzero(rows == found[-1])[0]) + 1
    return found, done
