"""What every Score plugin changes: the decision with the plugin left out, compared with the decision as it is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from kubesched.cluster.table import Ints
from kubesched.engine.decision import Decision

TOP = 10


class Influence(msgspec.Struct, frozen=True, rename="camel"):
    """What leaving out one Score plugin would change."""

    plugin: str
    winner: str
    """The node that would win."""
    winner_changes: bool
    overlap: float
    """The share of the ten best nodes that would still be among the ten best."""
    mean_shift: float
    """By how many ranks nodes move on average."""
    lowest: int
    highest: int
    """The plugin's scores, weighted."""


def influences(decision: Decision) -> list[Influence]:
    """One for each plugin that scored. Empty if there was nothing to choose from."""
    scores = decision.scores
    if scores is None or not decision.node:
        return []
    names = [scores.table.names[row] for row in scores.rows.tolist()]
    return influences_of(names, scores.plugins, scores.totals, decision.node)


def influences_of(nodes: Sequence[str], plugins: Mapping[str, Ints], totals: Ints, chosen: str) -> list[Influence]:
    """The same from the scores of all nodes that fit, a column per plugin."""
    names = np.array(nodes)
    order = _order(totals, names, chosen)
    return [_influence(name, column, totals - column, names, order, chosen) for name, column in plugins.items()]


def _influence(
    plugin: str, column: Ints, totals: Ints, names: np.ndarray[tuple[int], np.dtype[np.str_]], order: Ints, node: str
) -> Influence:
    without = _order(totals, names, node)
    top = min(TOP, len(order))
    ranks, others = np.argsort(order), np.argsort(without)
    winner = str(names[without[0]])
    return Influence(
        plugin=plugin,
        winner=winner,
        winner_changes=winner != node,
        overlap=round(len(set(order[:top].tolist()) & set(without[:top].tolist())) / top, 2),
        mean_shift=round(float(np.abs(ranks - others).mean()), 2),
        lowest=int(column.min()),
        highest=int(column.max()),
    )


def _order(totals: Ints, names: np.ndarray[tuple[int], np.dtype[np.str_]], node: str) -> Ints:
    """Positions from best to worst. Of equal nodes the chosen one comes first, so that no change is made up."""
    return np.lexsort((names, names != node, -totals))
