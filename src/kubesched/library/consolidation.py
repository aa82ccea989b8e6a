"""Which nodes could go, in a safe order, and where their pods go."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.api import objects as api
from kubesched.explain.evicting import belongs_to_node
from kubesched.library.core import ClusterCore
from kubesched.library.draining import Budgets, evictions
from kubesched.library.results import Fate, Placements
from kubesched.library.suppose import nodes_called
from kubesched.library.tables import as_frame, as_html
from kubesched.library.trial import MoveTrial

BLOCKING = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations with which people say that a pod must not be moved."""


@dataclass(frozen=True, slots=True)
class NodeRemoval:
    """A node that can go, and where its pods go."""

    node: str
    moves: Placements


@dataclass(frozen=True, slots=True)
class Consolidation:
    """Nodes that can go. Cordon all of them first; then drain and delete one after the other."""

    removals: tuple[NodeRemoval, ...]
    kept: dict[str, str]
    """The other nodes, and why they stay."""

    @property
    def nodes(self) -> list[str]:
        """The nodes that can go, in a safe order."""
        return [each.node for each in self.removals]

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict that can be written as JSON."""
        return {
            "remove": [{"node": each.node, "moves": each.moves.to_dict()} for each in self.removals],
            "kept": dict(self.kept),
        }

    def to_frame(self) -> Any:
        """A data frame with a row per move."""
        return as_frame(self._rows())

    def _rows(self) -> list[dict[str, object]]:
        return [{"drained": each.node, **move.to_dict()} for each in self.removals for move in each.moves]

    def _repr_html_(self) -> str:
        return as_html(str(self), self._rows())

    def __str__(self) -> str:
        moves = sum(len(each.moves) for each in self.removals)
        return f"{len(self.removals)} of {len(self.removals) + len(self.kept)} nodes can go; {moves} pods move"


def consolidate(cluster: ClusterCore, names: Iterable[str] | None = None, *, bare: bool = False) -> Consolidation:
    """Find nodes whose pods fit on the others. `names` are those that may go, or patterns of them; all by default.

    With `bare`, pods without a controller move too.
    """
    load = _load(cluster)
    chosen = list(load) if names is None else _chosen(cluster, names)
    budgets = Budgets(cluster.all(api.PodDisruptionBudget), cluster.all(api.Pod))
    kept = {name: why for name in chosen if (why := _blocked(cluster, name, budgets, bare))}
    order = sorted((name for name in chosen if name not in kept), key=lambda name: (load[name], name))
    trial = MoveTrial(cluster)
    low, high = 0, len(order)
    while low < high:  # the most of the emptiest nodes that can go together
        middle = (low + high + 1) // 2
        low, high = (middle, high) if _drained(trial, order[:middle]) is not None else (low, middle - 1)
    found = [*order[:low], *_singles(trial, order[:low], order[low + 1 :])]
    removals = _drained(trial, found)
    if removals is None:  # with all of them cordoned, some pod went elsewhere than before
        found = order[:low]
        removals = _drained(trial, found) or []
    kept |= {name: "its pods have no place elsewhere" for name in order if name not in found}
    return Consolidation(tuple(removals), kept)


def _singles(trial: MoveTrial, gone: Sequence[str], others: Sequence[str]) -> list[str]:
    """Of the fuller nodes, those that can go one by one after `gone`. Changes nothing."""
    mark, found = trial.mark(), []
    _drain(trial, gone)
    for name in others:
        here = trial.mark()
        if _drain(trial, [name]) is None:
            trial.back_to(here)
        else:
            found.append(name)
    trial.back_to(mark)
    return found


def _load(cluster: ClusterCore) -> dict[str, float]:
    """How much of each node is requested: the larger share of CPU and memory."""
    table = cluster.state.nodes
    shares = {}
    for name in (each.name for each in cluster.all(api.Node)):
        row = table.row_of[name]
        parts = (
            (int(table.used[column, row]), int(table.allocatable[column, row]))
            for column in (table.resource_columns[each] for each in ("cpu", "memory"))
        )
        shares[name] = max(used / whole if whole else 0.0 for used, whole in parts)
    return shares


def _chosen(cluster: ClusterCore, names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(node.name for each in names for node in nodes_called(cluster, each)))


def _blocked(cluster: ClusterCore, name: str, budgets: Budgets, bare: bool) -> str:
    """Why a node cannot go whatever room there is; empty if it may."""
    for pod in cluster.pods_on(name):
        if belongs_to_node(pod):
            continue
        if not bare and not any(owner.controller for owner in pod.metadata.owner_references):
            return f"pod {pod.key} has no controller that would create it again"
        if any(pod.annotations.get(key) == value for key, value in BLOCKING.items()):
            return f"pod {pod.key} must not be moved, as an annotation says"
        for budget in budgets.covering(pod):
            if not budgets.allowed[budget]:
                return f"disruption budget {budget} allows no eviction"
    return ""


def _drained(trial: MoveTrial, names: Sequence[str]) -> list[NodeRemoval] | None:
    """Drain nodes as `_drain` does, and take it back."""
    mark = trial.mark()
    try:
        return _drain(trial, names)
    finally:
        trial.back_to(mark)


def _drain(trial: MoveTrial, names: Sequence[str]) -> list[NodeRemoval] | None:
    """Drain these nodes one after the other, with all of them cordoned; None if a pod has no place."""
    removals = []
    for name in names:
        trial.cordon(name)
    for name in names:
        # A drain tries again what a budget does not allow yet: it does when the pods before run elsewhere.
        plan = evictions(Budgets(()), trial.cluster.pods_on(name))
        moving = [each.pod for each in plan if each.fate is Fate.PENDING]
        placed = trial.place_all([trial.displace(each) for each in moving])
        if placed is None:
            return None
        removals.append(NodeRemoval(name, Placements(each.moved_from(name) for each in placed)))
    return removals
