"""PodDisruptionBudgets: how many of their pods are healthy, and how many may be evicted now."""

from __future__ import annotations

from kubesched.api.selectors import Selector
from kubesched.apiserver.meta import parse_timestamp
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.base.types import JSON
from kubesched.controllers.ownership import owner_of, selector_of
from kubesched.controllers.rollout import resolve
from kubesched.reconcile.access import (
    BUDGETS,
    CONTROLLERS,
    DEPLOYMENTS,
    JOBS,
    REPLICA_SETS,
    STATEFUL_SETS,
)
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Owner, Pod

DISRUPTION_TIMEOUT = 120.0
_STORAGES = {
    "ReplicaSet": REPLICA_SETS,
    "ReplicationController": CONTROLLERS,
    "StatefulSet": STATEFUL_SETS,
    "Deployment": DEPLOYMENTS,
    "Job": JOBS,
}


class DisruptionController(Controller):
    """Maintains the status of PodDisruptionBudgets."""

    name = "disruption-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._selectors: dict[str, dict[str, Selector | None]] = {}
        """By namespace and key of the budget, to match changed pods."""
        shelf = self._access.store.shelf(BUDGETS)
        for record in shelf.records.values():
            self._learn(record.key, record.load())
        shelf.observers.append(self._on_budget)

    def _on_budget(self, event: StoreEvent) -> None:
        if event.change is ChangeType.DELETED:
            self._selectors.get(event.record.namespace, {}).pop(event.record.key, None)
        else:
            self._learn(event.record.key, event.record.load())

    def _learn(self, key: str, budget: JSON) -> None:
        self._selectors.setdefault(key.partition("/")[0], {})[key] = _guards(budget)
        self._context.pods.watch_changes(self._on_pod)
        self.enqueue(key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is None:
                continue
            for key, selector in self._selectors.get(pod.metadata.namespace, {}).items():
                if selector is not None and selector.matches(pod.metadata.labels):
                    self.enqueue_one_of(key, self._context.pods_by_namespace.size(pod.metadata.namespace))

    def sync(self, key: str) -> None:
        budget = self._access.get(BUDGETS, key)
        if budget is None:
            return
        selector = _guards(budget)
        guarded = [
            pod
            for pod in self._context.pods_by_namespace.get(key.partition("/")[0])
            if selector is not None and selector.matches(pod.metadata.labels) and not pod.has_ended
        ]
        expected, wanted = self._wanted(budget, guarded)
        disrupted = self._still_disrupted(key, budget, guarded)
        healthy = sum(
            pod.is_ready and not pod.metadata.being_deleted and pod.metadata.name not in disrupted for pod in guarded
        )
        allowed = max(0, healthy - wanted) if expected else 0
        self._write(key, budget, healthy, wanted, expected, allowed, disrupted)

    def _wanted(self, budget: JSON, pods: list[Pod]) -> tuple[int, int]:
        """Return the expected number of pods, and how many of them must be healthy."""
        spec = budget.get("spec") or {}
        if (most := spec.get("maxUnavailable")) is not None:
            expected = self._expected(pods)
            return expected, max(0, expected - resolve(most, expected, round_up=True))
        least = spec.get("minAvailable")
        if least is None:
            return 0, 0
        if isinstance(least, int):
            return len(pods), least
        expected = self._expected(pods)
        return expected, resolve(least, expected, round_up=True)

    def _expected(self, pods: list[Pod]) -> int:
        """Sum up the replicas of the pods' controllers. Pods without a controller count once."""
        alone, owners = 0, {}
        for pod in pods:
            owner = pod.metadata.controller
            if owner is None:
                alone += 1
            else:
                owners[owner.uid] = (pod.metadata.namespace, owner)
        return alone + sum(self._scale(namespace, owner) for namespace, owner in owners.values())

    def _scale(self, namespace: str, owner: Owner) -> int:
        storage = _STORAGES.get(owner.kind)
        found = self._access.get(storage, f"{namespace}/{owner.name}") if storage else None
        if found is None:
            return 0
        above = owner_of(found)
        if owner.kind == "ReplicaSet" and above is not None and above.get("kind") == "Deployment":
            found = self._access.get(DEPLOYMENTS, f"{namespace}/{above['name']}") or found
        spec = found.get("spec") or {}
        return int(spec.get("parallelism" if owner.kind == "Job" else "replicas", 1))

    def _still_disrupted(self, key: str, budget: JSON, pods: list[Pod]) -> dict[str, str]:
        """Return evicted pods whose deletion is not visible yet. After two minutes they no longer count."""
        names = {pod.metadata.name for pod in pods if not pod.metadata.being_deleted}
        now = self._access.clock.now()
        left = {}
        for name, time in ((budget.get("status") or {}).get("disruptedPods") or {}).items():
            remaining = parse_timestamp(time) + DISRUPTION_TIMEOUT - now
            if name in names and remaining > 0:
                left[name] = time
                self.enqueue(key, remaining)
        return left

    def _write(
        self,
        key: str,
        budget: JSON,
        healthy: int,
        wanted: int,
        expected: int,
        allowed: int,
        disrupted: dict[str, str],
    ) -> None:
        now = self._access.now()
        condition: JSON = {
            "type": "DisruptionAllowed",
            "status": "True" if allowed else "False",
            "reason": "SufficientPods" if allowed else "InsufficientPods",
            "message": "",
            "observedGeneration": budget["metadata"].get("generation", 0),
        }

        def edit(obj: JSON) -> None:
            status: JSON = {
                "observedGeneration": obj["metadata"].get("generation", 0),
                "disruptionsAllowed": allowed,
                "currentHealthy": healthy,
                "desiredHealthy": wanted,
                "expectedPods": expected,
                "conditions": set_condition((obj.get("status") or {}).get("conditions") or [], condition, now),
            }
            if disrupted:
                status["disruptedPods"] = disrupted
            obj["status"] = status

        self._access.edit_status(BUDGETS, key, edit, budget["metadata"]["uid"])


def _guards(budget: JSON) -> Selector | None:
    """Return a budget's selector. An empty one selects all pods of the namespace, a missing one none."""
    selector = (budget.get("spec") or {}).get("selector")
    if selector == {}:
        return Selector()
    return selector_of(budget)
