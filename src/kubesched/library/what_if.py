"""What if nodes are drained, fail or join: who moves where, who stays pending, which budgets hold."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kubesched.api import objects as api
from kubesched.library.core import ClusterCore
from kubesched.library.draining import BudgetUse
from kubesched.library.results import Fate, Placement, Placements
from kubesched.library.suppose import apply
from kubesched.library.tables import as_frame, as_html
from kubesched.library.trial import by_priority, fresh

if TYPE_CHECKING:
    from kubesched.library.cluster import Cluster


@dataclass(frozen=True, slots=True)
class WhatIfResult:
    """What changes would do."""

    moved: Placements
    """The pods that have to leave their nodes: where they go, who stays pending, who may not be evicted."""
    waiting: Placements
    """The pods that were pending before: those that get a node now, and those that do not."""
    preempted: Placements
    """The pods that others of higher priority push away, and where these go."""
    budgets: tuple[BudgetUse, ...]
    cluster: Cluster
    """The cluster afterwards."""

    @property
    def ok(self) -> bool:
        """Whether every pod that has to leave finds a place and every budget holds."""
        return self.moved.ok and self.preempted.ok and all(each.holds for each in self.budgets)

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict that can be written as JSON."""
        return {
            "ok": self.ok,
            "moved": self.moved.to_dict(),
            "waiting": self.waiting.to_dict(),
            "preempted": self.preempted.to_dict(),
            "budgets": [
                {
                    "budget": each.budget,
                    "allowed": each.allowed,
                    "used": each.used,
                    "refused": each.refused,
                    "lost": each.lost,
                }
                for each in self.budgets
            ],
        }

    def to_frame(self) -> Any:
        """A data frame with a row per pod."""
        return as_frame(self._rows())

    def _rows(self) -> list[dict[str, object]]:
        groups = (("moved", self.moved), ("waiting", self.waiting), ("preempted", self.preempted))
        return [{"why": why, "origin": "", **each.to_dict()} for why, group in groups for each in group]

    def _repr_html_(self) -> str:
        return as_html(str(self).partition("\n")[0], self._rows())

    def __str__(self) -> str:
        number = Counter(each.fate for each in self.moved)
        pending, refused = number[Fate.PENDING], number[Fate.REFUSED]
        pods = "1 pod moves" if len(self.moved) == 1 else f"{len(self.moved)} pods move"
        head = f"{number[Fate.PLACED]} of {pods}, {pending} stay{'s' if pending == 1 else ''} pending"
        head = head + f", {refused} refused by a budget" if refused else head
        head = head if self.moved else "no pod has to leave its node"
        lines = [f"{each.pod.key}: {each.origin} → {each.node or each.fate.value}" for each in self.moved]
        return "\n".join([head, *lines])


def what_if(trial: ClusterCore, changes: Iterable[str], cluster: Cluster, *, preempt: bool = True) -> WhatIfResult:
    """Change `trial`, and schedule what has to move and what was pending, by priority.

    `cluster` is the public interface to `trial`, for the result.
    """
    waiting = {each.uid for each in trial.pending}
    effect = apply(trial, changes)
    # What no profile schedules, or a gate holds, waits for reasons that no change of nodes touches.
    pods = {each.uid: each for each in trial.pending if each.uid in waiting}
    for each in pods.values():
        trial.remove(each)
    origins = {each.pod.uid: each for each in effect.pods if each.fate is Fate.PENDING}
    queue = by_priority([*(fresh(each.pod) for each in origins.values()), *pods.values()])
    moved: list[Placement] = [each for each in effect.pods if each.fate is not Fate.PENDING]
    unlocked: list[Placement] = []
    pushed: list[Placement] = []
    pushed_from: dict[str, str] = {}
    while queue:
        pod = queue.pop(0)
        placement, victims = _schedule(trial, pod, preempt)
        pushed_from |= {each.uid: each.node_name for each in victims}
        queue += by_priority(fresh(each) for each in victims)
        if placement.fate is Fate.PENDING:
            trial.set(pod)
        if pod.uid in pushed_from:
            pushed.append(placement.moved_from(pushed_from[pod.uid]))
        elif pod.uid in origins:
            moved.append(placement.moved_from(origins[pod.uid].origin))
        else:
            unlocked.append(placement)
    return WhatIfResult(
        Placements(moved), Placements(unlocked), Placements(pushed), tuple(effect.budgets.rows()), cluster
    )


def _schedule(trial: ClusterCore, pod: api.Pod, preempt: bool) -> tuple[Placement, list[api.Pod]]:
    """Schedule a pod; if it may and must preempt others, these are removed and returned."""
    (placement,) = trial.play([pod])
    if placement.fate is Fate.PLACED or not preempt or pod.scheduler_name not in trial.engines:
        return placement, []
    decision = trial.decide(pod)
    if not decision.nominated_node:
        return placement, []
    decision.place(evict=True)
    return Placement(pod, Fate.PLACED, decision.nominated_node), decision.victims
