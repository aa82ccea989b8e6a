"""Running one-node Filters on no more nodes than necessary.

Upstream runs all of its Filters this way: node after node, from where the last search stopped, until enough nodes fit.
A plugin that answers for all nodes in one call gains nothing from it; a one-node plugin does.
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
"""How many nodes are filtered before the found ones are counted: upstream's default parallelism."""


class PartialFilter:
    """One plugin, the rows that no earlier plugin has rejected, and its verdicts on some of them."""

    def __init__(self, plugin: FilterPlugin, alive: Mask) -> None:
        self.plugin = plugin
        self.statuses: list[Status] = []
        self._alive = alive
        self._codes: Ints = np.zeros(len(alive), dtype=np.int64)

    def passing(self, framework: Framework, state: CycleState, pod: api.Pod, rows: Ints) -> Ints:
        """Run the plugin on those of the rows that are still alive; returns the rows that pass."""
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
        """All verdicts so far."""
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
    """Find the first `wanted` rows that fit; returns them and how many rows were filtered. `passed` marks the rows that
    all other plugins accept."""
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
