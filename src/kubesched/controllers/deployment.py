"""Deployments: one ReplicaSet per pod template, and the rollout from one to the next."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable

from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.controllers.deployment_status import DeploymentStatus
from kubesched.controllers.ownership import controller_reference, selector_of
from kubesched.controllers.rollout import (
    DESIRED,
    HASH_LABEL,
    MAXIMUM,
    REVISION,
    REVISION_HISTORY,
    Limits,
    new_size,
    revision_of,
    shares,
    template_hash,
    without_hash,
)
from kubesched.reconcile.access import DEPLOYMENTS, REPLICA_SETS
from kubesched.reconcile.cache import Cache, is_news
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import View

# Annotations that are not copied: they concern the Deployment alone, or this controller sets them.
_NOT_COPIED = frozenset(
    (
        "kubectl.kubernetes.io/last-applied-configuration",
        REVISION,
        REVISION_HISTORY,
        DESIRED,
        MAXIMUM,
        "deprecated.deployment.rollback.to",
    )
)


class DeploymentController(Controller):
    """Rolls Deployments out."""

    name = "deployment-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._status = DeploymentStatus(context, self.enqueue)
        store = self._access.store
        self._sets = Cache(store.shelf(REPLICA_SETS), View)
        self._owned = self._sets.index(lambda each: [owner.uid for owner in (each.metadata.controller,) if owner])
        self._free = self._sets.index(lambda each: () if each.metadata.controller else (each.metadata.namespace,))
        self._sets.watch(self._on_replica_set)
        store.shelf(DEPLOYMENTS).observers.append(self._on_deployment)
        for key in store.shelf(DEPLOYMENTS).sorted_keys():
            self.enqueue(key)

    def _on_deployment(self, event: StoreEvent) -> None:
        if is_news(event, self._access):
            self.enqueue(event.record.key)

    def _on_replica_set(self, old: View | None, new: View | None) -> None:
        for each in (old, new):
            owner = each.metadata.controller if each is not None else None
            if each is not None and owner is not None and owner.kind == "Deployment":
                self.enqueue(f"{each.metadata.namespace}/{owner.name}")
        if new is not None and new.metadata.controller is None:
            for key in tuple(self._access.store.shelf(DEPLOYMENTS).sorted_keys(new.metadata.namespace)):
                self.enqueue(key)

    def sync(self, key: str) -> None:
        deployment = self._access.get(DEPLOYMENTS, key)
        if deployment is None:
            return
        sets = self._replica_sets(deployment)
        if "deletionTimestamp" in deployment["metadata"]:
            self._status.write(key, deployment, self._find_new(deployment, sets), sets)
            return
        if deployment["spec"].get("paused") or self._is_scaled(deployment, sets):
            self._scale(deployment, self._find_new(deployment, sets), sets)
        elif (deployment["spec"].get("strategy") or {}).get("type") == "Recreate":
            self._recreate(deployment, sets)
        else:
            self._roll(deployment, sets)
        sets = self._replica_sets(deployment)
        new = self._find_new(deployment, sets)
        self._clean_up(deployment, new, sets)
        self._status.write(key, deployment, new, self._replica_sets(deployment))

    # --- which ReplicaSets --------------------------------------------------------------------------------------------

    def _replica_sets(self, deployment: JSON) -> list[JSON]:
        """Return the Deployment's ReplicaSets, oldest first. Adopts matching ones without an owner."""
        meta, selector = deployment["metadata"], selector_of(deployment)
        if selector is not None and "deletionTimestamp" not in meta:
            for each in self._free.get(meta["namespace"]):
                if selector.matches(each.metadata.labels) and not each.metadata.being_deleted:
                    self._adopt(deployment, each.key)
        found = [self._access.get(REPLICA_SETS, each.key) for each in self._owned.get(meta["uid"])]
        there = [each for each in found if each is not None]
        return sorted(there, key=lambda each: (each["metadata"]["creationTimestamp"], each["metadata"]["name"]))

    def _adopt(self, deployment: JSON, key: str) -> None:
        def edit(obj: JSON) -> None:
            owners = obj["metadata"].get("ownerReferences") or []
            obj["metadata"]["ownerReferences"] = [*owners, controller_reference(deployment)]

        self._access.edit(REPLICA_SETS, key, edit)

    def _find_new(self, deployment: JSON, sets: Iterable[JSON]) -> JSON | None:
        """Return the oldest ReplicaSet with the Deployment's current template."""
        wanted = without_hash(deployment["spec"]["template"])
        return next((each for each in sets if without_hash(each["spec"]["template"]) == wanted), None)

    def _ensure_new(self, deployment: JSON, sets: list[JSON]) -> JSON:
        new = self._find_new(deployment, sets)
        revision = max((revision_of(each) for each in sets if each is not new), default=0) + 1
        if new is None:
            new = self._create(deployment, sets, revision)
        else:
            revision = max(revision, revision_of(new))
            self._refresh(deployment, new, revision)
        if (deployment["metadata"].get("annotations") or {}).get(REVISION) != str(revision):
            # With the status: an annotation that is changed with the rest is a new generation.
            self._access.edit(DEPLOYMENTS, _key(deployment), _annotator({REVISION: str(revision)}), "status")
        return new

    def _create(self, deployment: JSON, sets: list[JSON], revision: int) -> JSON:
        meta, spec = deployment["metadata"], deployment["spec"]
        template = copy.deepcopy(spec["template"])
        collisions = (deployment.get("status") or {}).get("collisionCount", 0)
        suffix = template_hash(template, collisions)
        while self._access.store.get(REPLICA_SETS, f"{meta['namespace']}/{meta['name']}-{suffix}") is not None:
            collisions += 1
            suffix = template_hash(template, collisions)
        template.setdefault("metadata", {})["labels"] = {
            **(template["metadata"].get("labels") or {}),
            HASH_LABEL: suffix,
        }
        selector = copy.deepcopy(spec["selector"])
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), HASH_LABEL: suffix}
        wanted, limits = spec.get("replicas", 1), Limits.of(deployment)
        total = sum(each["spec"].get("replicas", 1) for each in sets)
        recreate = (spec.get("strategy") or {}).get("type") == "Recreate"
        size = wanted if recreate else new_size(wanted, limits, 0, total)
        body: JSON = {
            "metadata": {
                "name": f"{meta['name']}-{suffix}",
                "namespace": meta["namespace"],
                "labels": dict(template["metadata"]["labels"]),
                "annotations": {**self._annotations(deployment), REVISION: str(revision)},
                "ownerReferences": [controller_reference(deployment)],
            },
            "spec": {"replicas": size, "selector": selector, "template": template},
        }
        if spec.get("minReadySeconds"):
            body["spec"]["minReadySeconds"] = spec["minReadySeconds"]
        made = self._access.create(REPLICA_SETS, body)
        if size:
            self._record_scaling(deployment, f"Scaled up replica set {made['metadata']['name']} from 0 to {size}")
        return made

    def _refresh(self, deployment: JSON, new: JSON, revision: int) -> None:
        """Update revision and annotations of the current ReplicaSet, which may be an old one after a rollback."""
        old = revision_of(new)
        found = new["metadata"].get("annotations") or {}
        wanted = {**self._annotations(deployment), REVISION: str(revision)}
        if old and old != revision:
            history = [each for each in found.get(REVISION_HISTORY, "").split(",") if each]
            wanted[REVISION_HISTORY] = ",".join([*history, str(old)])
        min_ready = deployment["spec"].get("minReadySeconds", 0)
        if all(found.get(k) == v for k, v in wanted.items()) and new["spec"].get("minReadySeconds", 0) == min_ready:
            return

        def edit(obj: JSON) -> None:
            _annotator(wanted)(obj)
            obj["spec"]["minReadySeconds"] = min_ready

        self._access.edit(REPLICA_SETS, _key(new), edit)

    def _annotations(self, deployment: JSON) -> dict[str, str]:
        own = deployment["metadata"].get("annotations") or {}
        copied = {key: value for key, value in own.items() if key not in _NOT_COPIED}
        wanted = deployment["spec"].get("replicas", 1)
        return {**copied, DESIRED: str(wanted), MAXIMUM: str(wanted + Limits.of(deployment).surge)}

    # --- how many pods in each ----------------------------------------------------------------------------------------

    def _is_scaled(self, deployment: JSON, sets: list[JSON]) -> bool:
        """Whether `replicas` has changed since the ReplicaSets were last resized."""
        wanted = str(deployment["spec"].get("replicas", 1))
        active = [each for each in sets if each["spec"].get("replicas", 1)]
        return any((each["metadata"].get("annotations") or {}).get(DESIRED, wanted) != wanted for each in active)

    def _scale(self, deployment: JSON, new: JSON | None, sets: list[JSON]) -> None:
        """Resize all ReplicaSets in proportion, without progress of the rollout."""
        wanted, limits = deployment["spec"].get("replicas", 1), Limits.of(deployment)
        active = [each for each in sets if each["spec"].get("replicas", 1)]
        if len(active) <= 1:
            only = active[0] if active else new
            if only is not None:
                self._resize(deployment, only, wanted)
            return
        if new is not None and (new.get("status") or {}).get("availableReplicas", 0) >= wanted > 0:
            for each in active:
                if each is not new:
                    self._resize(deployment, each, 0)
            self._resize(deployment, new, wanted)
            return
        active.sort(key=lambda each: -each["spec"].get("replicas", 1))
        sizes = [each["spec"].get("replicas", 1) for each in active]
        change = (wanted + limits.surge if wanted else 0) - sum(sizes)
        for each, size, share in zip(active, sizes, shares(sizes, change), strict=True):
            self._resize(deployment, each, max(0, size + share))

    def _recreate(self, deployment: JSON, sets: list[JSON]) -> None:
        new = self._find_new(deployment, sets)
        old = [each for each in sets if each is not new]
        for each in old:
            self._resize(deployment, each, 0)
        if any(self._runs(each) for each in old):
            # Deleted pods change the status of their ReplicaSet, which queues this key again. The timer is a fallback.
            self.enqueue(_key(deployment), 1.0)
            return
        new = self._ensure_new(deployment, sets)
        self._resize(deployment, new, deployment["spec"].get("replicas", 1))

    def _runs(self, replica_set: JSON) -> bool:
        return any(not pod.has_ended for pod in self._context.pods_by_owner.get(replica_set["metadata"]["uid"]))

    def _roll(self, deployment: JSON, sets: list[JSON]) -> None:
        new = self._ensure_new(deployment, sets)
        old = [each for each in sets if each["metadata"]["uid"] != new["metadata"]["uid"]]
        wanted, limits = deployment["spec"].get("replicas", 1), Limits.of(deployment)
        current = new["spec"].get("replicas", 1)
        total = current + sum(each["spec"].get("replicas", 1) for each in old)
        grown = wanted if current > wanted else new_size(wanted, limits, current, total)
        if grown != current:
            self._resize(deployment, new, grown)
            return
        self._shrink_old(deployment, new, old, wanted - limits.unavailable)

    def _shrink_old(self, deployment: JSON, new: JSON, old: list[JSON], least: int) -> None:
        """Shrink old ReplicaSets: first by pods that never became available, then by as many as may be unavailable."""
        active = [each for each in old if each["spec"].get("replicas", 1)]
        if not active:
            return
        size = new["spec"].get("replicas", 1)
        new_available = (new.get("status") or {}).get("availableReplicas", 0)
        total = size + sum(each["spec"].get("replicas", 1) for each in active)
        spare = total - least - (size - new_available)
        if spare <= 0:  # also while the status of an old ReplicaSet still counts pods that it is about to delete
            return
        for each in active:
            replicas = each["spec"].get("replicas", 1)
            unhealthy = min(spare, replicas - (each.get("status") or {}).get("availableReplicas", 0))
            if unhealthy > 0:
                spare -= unhealthy
                self._resize(deployment, each, replicas - unhealthy)
                each["spec"]["replicas"] = replicas - unhealthy
        available = new_available + sum((each.get("status") or {}).get("availableReplicas", 0) for each in active)
        spare = available - least
        for each in active:
            replicas = each["spec"].get("replicas", 1)
            less = min(spare, replicas)
            if less > 0:
                spare -= less
                self._resize(deployment, each, replicas - less)

    def _resize(self, deployment: JSON, replica_set: JSON, size: int) -> None:
        before = replica_set["spec"].get("replicas", 1)
        wanted = self._annotations(deployment)
        sizes = {key: wanted[key] for key in (DESIRED, MAXIMUM)}
        found = replica_set["metadata"].get("annotations") or {}
        if before == size and all(found.get(key) == value for key, value in sizes.items()):
            return

        def edit(obj: JSON) -> None:
            obj["spec"]["replicas"] = size
            _annotator(sizes)(obj)

        self._access.edit(REPLICA_SETS, _key(replica_set), edit)
        if before != size:
            way = "up" if size > before else "down"
            name = replica_set["metadata"]["name"]
            self._record_scaling(deployment, f"Scaled {way} replica set {name} from {before} to {size}")

    def _record_scaling(self, deployment: JSON, message: str) -> None:
        self._context.events.record(self.name, reference(deployment), "Normal", "ScalingReplicaSet", message)

    def _clean_up(self, deployment: JSON, new: JSON | None, sets: list[JSON]) -> None:
        """After a rollout, delete old ReplicaSets beyond the history limit."""
        limit = deployment["spec"].get("revisionHistoryLimit", 10)
        old = [
            each
            for each in sets
            if each is not new
            and not each["spec"].get("replicas", 1)
            and not (each.get("status") or {}).get("replicas")
            and "deletionTimestamp" not in each["metadata"]
        ]
        for each in sorted(old, key=revision_of)[: max(0, len(old) - limit)]:
            self._access.delete(REPLICA_SETS, _key(each), uid=each["metadata"]["uid"])


def _key(obj: JSON) -> str:
    return f"{obj['metadata']['namespace']}/{obj['metadata']['name']}"


def _annotator(values: dict[str, str]) -> Callable[[JSON], None]:
    def annotate(obj: JSON) -> None:
        obj["metadata"]["annotations"] = {**(obj["metadata"].get("annotations") or {}), **values}

    return annotate
