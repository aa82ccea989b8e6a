"""The fewest moves of other pods after which a pending pod fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.api import objects as api
from kubesched.explain.evicting import Protection, promising, victims_on
from kubesched.explain.survey import Survey
from kubesched.library.core import ClusterCore
from kubesched.library.results import Fate, Placement, Placements
from kubesched.library.tables import as_frame, as_html
from kubesched.library.trial import MoveTrial

MOST_ROWS = 40
"""Nodes on which a plan for a pending pod is looked for."""


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

    def to_frame(self) -> Any:
        """A data frame with a row per move, in order, and the pod itself last."""
        return as_frame(self._rows())

    def _rows(self) -> list[dict[str, object]]:
        fate = Fate.PLACED if self.ok else Fate.PENDING
        steps = [*self.moves, Placement(self.pod, fate, self.node, self.message)]
        return [{"step": number, "origin": "", **each.to_dict()} for number, each in enumerate(steps, 1)]

    def _repr_html_(self) -> str:
        return as_html(str(self), self._rows())

    def __str__(self) -> str:
        if not self.ok:
            return f"no plan was found for {self.pod.key}: {self.message}"
        moves = ", ".join(f"{each.pod.key} from {each.origin} to {each.node}" for each in self.moves)
        return f"{self.pod.key} fits on {self.node}" + (f" after moving {moves}" if moves else "")


def plan_moves(cluster: ClusterCore, pod: api.Pod) -> MovePlan:
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
    survey = Survey(trial.cluster.engines[pod.scheduler_name], pod)
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
        return MovePlan(pod, target.node, Placements(each.moved_from(origins[each.pod.uid]) for each in placed))
    finally:
        trial.back_to(mark)
