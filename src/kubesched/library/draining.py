"""Which pods of a node a drain evicts, which stay, and which a disruption budget protects."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubesched.api import objects as api
from kubesched.api.selectors import Selector, SelectorError, label_selector
from kubesched.library.results import Fate, Placement

MIRROR = "kubernetes.io/config.mirror"
REFUSAL = "Cannot evict pod as it would violate the pod's disruption budget."


class Budgets:
    """How many evictions each disruption budget still allows."""

    def __init__(self, budgets: Iterable[api.PodDisruptionBudget]) -> None:
        self._allowed: dict[str, int] = {}
        self._selectors: dict[str, Selector] = {}
        self._namespaces: dict[str, str] = {}
        for budget in budgets:
            try:
                self._selectors[budget.key] = label_selector(budget.spec.selector)
            except SelectorError:
                continue  # a budget that cannot be read protects nothing
            self._allowed[budget.key] = budget.status.disruptions_allowed
            self._namespaces[budget.key] = budget.namespace

    def take(self, pod: api.Pod) -> bool:
        """Count one eviction; False if a budget does not allow it."""
        covering = [
            key
            for key, selector in self._selectors.items()
            if self._namespaces[key] == pod.namespace and selector.matches(pod.labels)
        ]
        if any(self._allowed[key] <= 0 for key in covering):
            return False
        for key in covering:
            self._allowed[key] -= 1
        return True


def evictions(budgets: Budgets, pods: Iterable[api.Pod]) -> Iterator[Placement]:
    """What a drain does to the pods of a node, highest priority first. Evicted ones are pending."""
    for pod in sorted(pods, key=lambda each: (-each.priority, each.key)):
        if pod.is_terminal:
            continue
        owners = {owner.kind for owner in pod.metadata.owner_references if owner.controller}
        if MIRROR in pod.annotations or "DaemonSet" in owners:
            yield Placement(pod, Fate.STAYS, pod.node_name)
        elif budgets.take(pod):
            yield Placement(pod, Fate.PENDING)
        else:
            yield Placement(pod, Fate.REFUSED, pod.node_name, REFUSAL)
