"""Which pods of a node a drain evicts, which stay, and which a disruption budget protects."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from kubesched.api import objects as api
from kubesched.api.selectors import Selector, label_selector
from kubesched.explain.evicting import belongs_to_node
from kubesched.library.results import Fate, Placement

REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."


@dataclass(frozen=True, slots=True)
class BudgetUse:
    """A disruption budget: the evictions that it allows, those that were made, and those that it refused.

    Pods that went without being evicted, because a node failed for instance, are `lost`.
    """

    budget: str
    allowed: int
    used: int
    refused: int
    lost: int = 0

    @property
    def missing(self) -> int:
        """How many more pods are gone at a time than it allows."""
        return max(0, self.used + self.lost - self.allowed) if self.lost else 0

    @property
    def holds(self) -> bool:
        """Whether it allowed everything, and no more pods went than it allows."""
        return not self.refused and not self.missing


class Budgets:
    """How many evictions each disruption budget still allows."""

    def __init__(self, budgets: Iterable[api.PodDisruptionBudget], pods: Sequence[api.Pod] = ()) -> None:
        """Of budgets that no controller has seen, it is worked out from the cluster's `pods`."""
        self.allowed: dict[str, int] = {}
        """How many evictions each budget allows now."""
        self._selectors: dict[str, Selector] = {}
        self._namespaces: dict[str, str] = {}
        for budget in budgets:
            try:
                selector = label_selector(budget.spec.selector)
                allowed = budget.status.disruptions_allowed
                if not allowed and not budget.status.observed_generation:
                    mates = [pod for pod in pods if pod.namespace == budget.namespace and not pod.is_terminal]
                    allowed = _allowed(budget.spec, [pod for pod in mates if selector.matches(pod.labels)])
            except ValueError:
                continue  # a budget that cannot be read protects nothing
            self.allowed[budget.key] = allowed
            self._selectors[budget.key] = selector
            self._namespaces[budget.key] = budget.namespace

        self._left = dict(self.allowed)
        self.refused: Counter[str] = Counter()
        """By budget, how many evictions it did not allow."""
        self._lost: Counter[str] = Counter()

    def take(self, pod: api.Pod) -> bool:
        """Count one eviction; False if a budget does not allow it."""
        covering = self.covering(pod)
        empty = [key for key in covering if self._left[key] <= 0]
        self.refused.update(empty)
        for key in covering if not empty else ():
            self._left[key] -= 1
        return not empty

    def lose(self, pod: api.Pod) -> None:
        """Count a pod that goes without being evicted."""
        self._lost.update(self.covering(pod))

    def covering(self, pod: api.Pod) -> list[str]:
        """The budgets that count an eviction of the pod."""
        return [
            key
            for key, selector in self._selectors.items()
            if self._namespaces[key] == pod.namespace and selector.matches(pod.labels)
        ]

    def rows(self) -> list[BudgetUse]:
        """What became of each budget."""
        return [
            BudgetUse(key, allowed, allowed - self._left[key], self.refused[key], self._lost[key])
            for key, allowed in sorted(self.allowed.items())
        ]


def _allowed(spec: api.PodDisruptionBudgetSpec, guarded: Sequence[api.Pod]) -> int:
    """How many evictions a budget allows that was written by hand: every pod counts as wanted."""
    healthy, wanted = sum(map(_is_healthy, guarded)), len(guarded)
    if spec.max_unavailable is not None:
        return max(0, healthy - max(0, wanted - _number(spec.max_unavailable, wanted)))
    return 0 if spec.min_available is None else max(0, healthy - _number(spec.min_available, wanted))


def _is_healthy(pod: api.Pod) -> bool:
    """Whether it runs. A pod that was written by hand does if it has a node."""
    ready = [each.status for each in pod.status.conditions if each.type == "Ready"]
    return bool(pod.spec.node_name) and not pod.is_terminating and ready in ([], ["True"])


def _number(value: int | str, total: int) -> int:
    """A number, or a percentage of a total, rounded up as the disruption controller does."""
    text = str(value)
    return -(-int(text[:-1]) * total // 100) if text.endswith("%") else int(text)


def evictions(budgets: Budgets, pods: Iterable[api.Pod]) -> Iterator[Placement]:
    """What a drain does to the pods of a node, highest priority first. Evicted ones are pending."""
    for pod in sorted(pods, key=lambda each: (-each.priority, each.key)):
        if pod.is_terminal:
            continue
        if belongs_to_node(pod):
            yield Placement(pod, Fate.STAYS, pod.node_name)
        elif budgets.take(pod):
            yield Placement(pod, Fate.PENDING)
        else:
            yield Placement(pod, Fate.REFUSED, pod.node_name, REFUSAL)
