"""Which nodes could go, in a safe order, and how few moves make a pending pod fit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubesched.api import objects as api
from kubesched.explain.evicting import Protection, belongs_to_node, promising, victims_on
from kubesched.explain.survey import Survey
from kubesched.library.draining import Budgets, evictions
from kubesched.library.results import Fate, Placement, Placements
from kubesched.library.tables import as_frame
from kubesched.library.trial import MoveTrial

if TYPE_CHECKING:
    from kubesched.library.cluster import Cluster

BLOCKING = {
    "cluster-autoscaler.kubernetes.io/safe-to-evict": "false",
    "karpenter.sh/do-not-disrupt": "true",
}
"""Annotations with which people say that a pod must not be moved."""
MOST_ROWS = 40
"""Nodes on which a plan for a pending pod is looked for."""


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
        return as_frame([{"drained": each.node, **move.to_dict()} for each in self.removals for move in each.moves])


def consolidate(cluster: Cluster, names: Iterable[str] | None = None) -> Consolidation:
    """Find nodes whose pods fit on the others. `names` are those that may go; all of them by default."""
    load = _load(cluster)
    chosen = list(load) if names is None else list(names)
    kept = {name: why for name in chosen if (why := _blocked(cluster, name))}
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


def _load(cluster: Cluster) -> dict[str, float]:
    """How much of each node is requested: the larger share of CPU and memory."""
    table = cluster._state.nodes
    shares = {}
    for name in cluster._names():
        row = table.row_of[name]
        parts = (
            (int(table.used[column, row]), int(table.allocatable[column, row]))
            for column in (table.resource_columns[each] for each in ("cpu", "memory"))
        )
        shares[name] = max(used / whole if whole else 0.0 for used, whole in parts)
    return shares


def _blocked(cluster: Cluster, name: str) -> str:
    """Why a node cannot go whatever room there is; empty if it may."""
    for pod in cluster.pods:
        if pod.node_name != name or pod.is_terminal or belongs_to_node(pod):
            continue
        if not any(owner.controller for owner in pod.metadata.owner_references):
            return f"pod {pod.key} has no controller that would create it again"
        if any(pod.annotations.get(key) == value for key, value in BLOCKING.items()):
            return f"pod {pod.key} must not be moved, as an annotation says"
    budgets = Budgets(cluster._all(api.PodDisruptionBudget))
    refused = [each for each in evictions(budgets, _pods_on(cluster, name)) if each.fate is Fate.REFUSED]
    return f"pod {refused[0].pod.key}: {refused[0].message}" if refused else ""


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
        # Each drain waits until the pods of the last one run elsewhere, so budgets begin anew.
        plan = list(evictions(Budgets(trial.cluster._all(api.PodDisruptionBudget)), _pods_on(trial.cluster, name)))
        if any(each.fate is Fate.REFUSED for each in plan):
            return None
        moving = [each.pod for each in plan if each.fate is Fate.PENDING]
        placed = trial.place_all([trial.displace(each) for each in moving])
        if placed is None:
            return None
        removals.append(NodeRemoval(name, Placements(_moved(each, name) for each in placed)))
    return removals


def _moved(placement: Placement, origin: str) -> Placement:
    return Placement(placement.pod, placement.fate, placement.node, placement.message, origin)


def _pods_on(cluster: Cluster, name: str) -> list[api.Pod]:
    row = cluster._state.nodes.row_of.get(name)
    return [] if row is None else [info.pod for info in cluster._state.nodes.pods[row].values()]


@dataclass(frozen=True, slots=True)
class MovePlan:
    """Pods to move so that another one fits."""

    pod: api.Pod
    node: str
    """Where the pod goes then; empty if no plan was found."""
    moves: Placements
    message: str = ""

    @property
    def ok(self) -> bool:
        """Whether the pod fits in the end."""
        return bool(self.node)

    def to_dict(self) -> dict[str, Any]:
        """The plan as a dict that can be written as JSON."""
        body = {"pod": self.pod.key, "node": self.node, "moves": self.moves.to_dict()}
        return body if self.ok else {**body, "message": self.message}


def plan_moves(cluster: Cluster, pod: api.Pod) -> MovePlan:
    """The fewest moves that make a pending pod fit, among the nodes that lack the least. Budgets are respected."""
    trial = MoveTrial(cluster)
    if pod.uid in {each.uid for each in trial.cluster.pending}:
        trial.cluster.remove(pod)
    mark = trial.mark()
    first = trial.place(pod)
    trial.back_to(mark)
    if first.fate is Fate.PLACED:
        return MovePlan(pod, first.node, Placements(()))
    best: MovePlan | None = None
    survey = Survey(trial.cluster._engines[pod.scheduler_name], pod)
    protection = Protection(survey.cluster)
    for row in promising(survey, MOST_ROWS):
        victims = victims_on(survey, row, protection, any_priority=True)
        if not victims or (best is not None and len(victims) >= len(best.moves)):
            continue
        found = _try(trial, pod, survey.table.names[row], victims)
        best = found or best
        if best is not None and len(best.moves) == 1:
            break
    return best or MovePlan(pod, "", Placements(()), first.message)


def _try(trial: MoveTrial, pod: api.Pod, node: str, victims: Sequence[api.Pod]) -> MovePlan | None:
    mark = trial.mark()
    try:
        waiting = [trial.displace(each) for each in victims]
        target = trial.place(pod)
        if target.fate is not Fate.PLACED:
            return None
        placed = trial.place_all(waiting)
        if placed is None:
            return None
        origins = {each.uid: each.node_name for each in victims}
        return MovePlan(pod, target.node, Placements(_moved(each, origins[each.pod.uid]) for each in placed))
    finally:
        trial.back_to(mark)
