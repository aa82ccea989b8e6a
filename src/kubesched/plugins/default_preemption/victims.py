"""The order in which pods are spared, disruption budgets, and which candidate's victims are the least important."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kubesched.api import objects as api
from kubesched.api.selectors import Selector, SelectorError, label_selector
from kubesched.cluster.pods import PodInfo


@dataclass(frozen=True, slots=True)
class Budget:
    """A disruption budget with its selector compiled."""

    namespace: str
    selector: Selector
    status: api.PodDisruptionBudgetStatus

    def covers(self, pod: api.Pod) -> bool:
        """Whether evicting the pod counts against the budget."""
        if pod.namespace != self.namespace or not self.selector.matches(pod.labels):
            return False
        return pod.name not in self.status.disrupted_pods


def compiled(budgets: Iterable[api.PodDisruptionBudget]) -> list[Budget]:
    """The budgets that select pods."""
    found = []
    for budget in budgets:
        try:
            selector = label_selector(budget.spec.selector)
        except SelectorError:
            continue  # upstream ignores a budget with an invalid selector
        if not selector.is_empty:
            found.append(Budget(budget.namespace, selector, budget.status))
    return found


def violating(pods: Sequence[PodInfo], budgets: Sequence[Budget]) -> list[PodInfo]:
    """The pods whose eviction would violate a budget, counted in this order."""
    allowed = [budget.status.disruptions_allowed for budget in budgets]
    found = []
    for info in pods if budgets else ():
        violated = False
        for index, budget in enumerate(budgets):
            if info.pod.labels and budget.covers(info.pod):
                allowed[index] -= 1
                violated = violated or allowed[index] < 0
        if violated:
            found.append(info)
    return found


def most_important_first(pods: Sequence[PodInfo]) -> list[PodInfo]:
    """By priority, then by age. Of pods that have not started, upstream takes the later one as the older."""
    if all(info.pod.status.start_time is not None for info in pods):
        return sorted(pods, key=lambda info: (-info.pod.priority, info.pod.status.start_time))
    ordered: list[PodInfo] = []
    for info in pods:
        position = len(ordered)
        while position and more_important(info.pod, ordered[position - 1].pod):
            position -= 1
        ordered.insert(position, info)
    return ordered


def more_important(one: api.Pod, other: api.Pod) -> bool:
    """Whether one pod has a higher priority than another, or the same and started earlier."""
    if one.priority != other.priority:
        return one.priority > other.priority
    if other.status.start_time is None:
        return True  # upstream reads the clock for each in turn, so the first one read is earlier
    return one.status.start_time is not None and one.status.start_time < other.status.start_time


Badness = tuple[int, int, int, int, tuple[int, ...]]


def badness(victims: Sequence[PodInfo], violations: int) -> Badness:
    """What upstream compares candidates by, in its order; the lowest is the best."""
    priorities = [info.pod.priority for info in victims]
    total = sum(priorities) + 2**31 * len(victims)
    return violations, priorities[0], total, len(victims), _earliest_start(victims, max(priorities))


def _earliest_start(victims: Sequence[PodInfo], highest: int) -> tuple[int, ...]:
    """Later starts are better; a pod that has not started counts as starting now."""
    starts = [info.pod.status.start_time for info in victims if info.pod.priority == highest]
    started = [start for start in starts if start is not None]
    return tuple(-ord(character) for character in min(started)) if started else (-(2**31),)
