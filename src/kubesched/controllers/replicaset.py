"""ReplicaSets and ReplicationControllers: keep the desired number of pods."""

from __future__ import annotations

from kubesched.apiserver.meta import parse_timestamp
from kubesched.apiserver.storage.store import StoreEvent
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON
from kubesched.controllers.ownership import claimed_pods, create_pod, delete_pod, pod_from, selector_of
from kubesched.reconcile.access import CONTROLLERS, REPLICA_SETS
from kubesched.reconcile.cache import is_news
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Owner, Pod

BURST = 500
"""Pods created or deleted at a time, as upstream. The rest follows in the next sync."""


class ReplicaSetController(Controller):
    """Keeps the desired number of pods for all owners of one kind."""

    def __init__(self, context: ControllerContext, storage: str = REPLICA_SETS) -> None:
        super().__init__(context.loop)
        self._context = context
        self._storage = storage
        self._kind = "ReplicaSet" if storage == REPLICA_SETS else "ReplicationController"
        self.name = "replicaset-controller" if storage == REPLICA_SETS else "replication-controller"
        shelf = self._owners = context.access.store.shelf(storage)
        self._to_rematch = set(shelf.sorted_keys())
        """Owners whose selectors must be matched against pods again. That is rare, because it looks at every pod."""
        shelf.observers.append(self._on_owner)
        for key in shelf.sorted_keys():
            self.enqueue(key)
        context.owned_pods.watch(self._kind, self._on_pod, self._on_orphan)

    def _on_owner(self, event: StoreEvent) -> None:
        if is_news(event, self._context.access):
            self._to_rematch.add(event.record.key)
            self.enqueue(event.record.key)

    def _on_pod(self, owner: Owner, pod: Pod, relabelled: bool) -> None:
        key = f"{pod.metadata.namespace}/{owner.name}"
        if relabelled:
            self._to_rematch.add(key)
        self.enqueue_one_of(key, self._context.pods_by_owner.size(owner.uid))

    def _on_orphan(self, pod: Pod) -> None:
        if not self._owners.records:
            return
        for key in tuple(self._owners.sorted_keys(pod.metadata.namespace)):
            self._to_rematch.add(key)
            self.enqueue(key)

    def sync(self, key: str) -> None:
        owner = self._context.access.get(self._storage, key)
        if owner is None:
            self._to_rematch.discard(key)
            return
        if key in self._to_rematch:
            claimed_pods(self._context, owner, selector_of(owner))
            self._to_rematch.discard(key)
        active = [pod for pod in self._context.pods_by_owner.get(owner["metadata"]["uid"]) if pod.is_active]
        failure: StatusError | None = None
        if "deletionTimestamp" not in owner["metadata"]:
            try:
                self._manage(key, owner, active)
            except StatusError as error:
                failure = error
            active = [pod for pod in self._context.pods_by_owner.get(owner["metadata"]["uid"]) if pod.is_active]
        self._write_status(key, owner, active, failure)
        if failure is not None:
            raise failure

    def _manage(self, key: str, owner: JSON, active: list[Pod]) -> None:
        missing = owner["spec"].get("replicas", 1) - len(active)
        about = reference(owner)
        if missing > 0:
            template = owner["spec"].get("template") or {}
            base = f"{owner['metadata']['name']}-"
            for _ in range(min(missing, BURST)):
                create_pod(self._context, self.name, owner, pod_from(template, owner, generateName=base), about)
        elif missing < 0:
            for pod in self._deletion_order(active)[: min(-missing, BURST)]:
                delete_pod(self._context, self.name, pod, about)
        if abs(missing) > BURST:
            self.enqueue_one_of(key, BURST)  # later, so that others have their turn

    def _deletion_order(self, active: list[Pod]) -> list[Pod]:
        """Sort pods in upstream's order of deletion: unassigned, pending, unready, cheap and crowded ones first."""
        siblings: dict[str, int] = {}
        for pod in active:
            siblings[pod.spec.node_name] = siblings.get(pod.spec.node_name, 0) + 1

        def rank(pod: Pod) -> tuple[object, ...]:
            cost = _deletion_cost(pod)
            ready_age = pod.ready_since if pod.is_ready else ""
            return (
                bool(pod.spec.node_name),
                {"Pending": 0, "Unknown": 1}.get(pod.status.phase, 2),
                pod.is_ready,
                cost,
                -siblings[pod.spec.node_name] if pod.spec.node_name else 0,
                _newest_first(ready_age),
                -pod.restarts,
                _newest_first(pod.metadata.creation_timestamp),
                pod.metadata.name,
            )

        return sorted(active, key=rank)

    def _write_status(self, key: str, owner: JSON, pods: list[Pod], failure: StatusError | None) -> None:
        spec = owner["spec"]
        labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels") or {}
        ready = [pod for pod in pods if pod.is_ready]
        wait = available_in(self._context, ready, spec.get("minReadySeconds", 0))
        available = [pod for pod, seconds in wait if seconds <= 0]
        if waiting := [seconds for _, seconds in wait if seconds > 0]:
            self.enqueue(key, min(waiting))
        full = [pod for pod in pods if labels.items() <= pod.metadata.labels.items()]
        now = self._context.access.now()

        def edit(obj: JSON) -> None:
            conditions = [
                each for each in obj["status"].get("conditions") or [] if each.get("type") != "ReplicaFailure"
            ]
            if failure is not None:
                new = {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": failure.message}
                conditions = set_condition(obj["status"].get("conditions") or [], new, now)
            counts = {
                "replicas": len(pods),
                "fullyLabeledReplicas": len(full),
                "readyReplicas": len(ready),
                "availableReplicas": len(available),
            }
            status: JSON = {name: count for name, count in counts.items() if count or name == "replicas"}
            status["observedGeneration"] = obj["metadata"].get("generation", 0)
            if conditions:
                status["conditions"] = conditions
            obj["status"] = status

        self._context.access.edit_status(self._storage, key, edit, owner["metadata"]["uid"])


def replication_controllers(context: ControllerContext) -> ReplicaSetController:
    """Return a controller for ReplicationControllers, the older kind."""
    return ReplicaSetController(context, CONTROLLERS)


def available_in(context: ControllerContext, ready: list[Pod], min_ready_seconds: int) -> list[tuple[Pod, float]]:
    """Return ready pods, each with the seconds until it counts as available."""
    now = context.access.clock.now()
    result = []
    for pod in ready:
        since = parse_timestamp(pod.ready_since) if pod.ready_since and min_ready_seconds else 0.0
        result.append((pod, since + min_ready_seconds - now if min_ready_seconds else 0.0))
    return result


def _deletion_cost(pod: Pod) -> int:
    try:
        return int(pod.metadata.annotations.get("controller.kubernetes.io/pod-deletion-cost", "0"))
    except ValueError:
        return 0


def _newest_first(text: str) -> float:
    return -parse_timestamp(text) if text else 0.0
