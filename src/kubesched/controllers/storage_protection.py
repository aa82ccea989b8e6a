"""Protects claims and volumes in use from deletion, and creates the claims of ephemeral volumes."""

from __future__ import annotations

from functools import partial

from kubesched.apiserver.storage.store import StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.access import CLAIMS, VOLUMES
from kubesched.reconcile.cache import Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod

CLAIM_FINALIZER = "kubernetes.io/pvc-protection"
VOLUME_FINALIZER = "kubernetes.io/pv-protection"


class ProtectionController(Controller):
    """Removes the finalizer of deleted claims without pods and of deleted volumes without a claim."""

    name = "storage-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._users: Index[Pod] = context.pods.index(_claims_of)
        for storage in (CLAIMS, VOLUMES):
            shelf = self._access.store.shelf(storage)
            shelf.observers.append(partial(self._on_event, storage))
            for record in shelf.records.values():
                if b'"deletionTimestamp"' in record.data:
                    self.enqueue(f"{storage} {record.key}")
        context.pods.watch(self._on_pod)

    def _on_event(self, storage: str, event: StoreEvent) -> None:
        if b'"deletionTimestamp"' in event.record.data:
            self.enqueue(f"{storage} {event.record.key}")
        volume = (event.record.load().get("spec") or {}).get("volumeName") if storage == CLAIMS else None
        if volume:
            self.enqueue(f"{VOLUMES} {volume}")

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or new.has_ended):
            for key in _all_claims_of(old):
                self.enqueue(f"{CLAIMS} {key}")

    def sync(self, key: str) -> None:
        storage, _, name = key.partition(" ")
        obj = self._access.get(storage, name)
        if obj is None or "deletionTimestamp" not in obj["metadata"]:
            return
        if storage == CLAIMS:
            in_use, finalizer = bool(self._users.get(name)), CLAIM_FINALIZER
        else:
            in_use, finalizer = self._has_claim(obj), VOLUME_FINALIZER
        if in_use or finalizer not in (obj["metadata"].get("finalizers") or []):
            return

        def edit(found: JSON) -> None:
            kept = [each for each in found["metadata"].get("finalizers") or [] if each != finalizer]
            found["metadata"]["finalizers"] = kept

        self._access.edit(storage, name, edit)

    def _has_claim(self, volume: JSON) -> bool:
        holder = volume["spec"].get("claimRef") or {}
        claim = self._access.get(CLAIMS, f"{holder.get('namespace')}/{holder.get('name')}")
        return claim is not None and claim["spec"].get("volumeName") == volume["metadata"]["name"]


class EphemeralController(Controller):
    """Creates the claims of ephemeral volumes. Their pods own them."""

    name = "ephemeral-volume-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        context.pods.watch(self._on_pod, status=False)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is not None and old is None and any(volume.ephemeral is not None for volume in new.spec.volumes):
            self.enqueue(new.key)

    def sync(self, key: str) -> None:
        pod = self._context.pods.get(key)
        if pod is None or pod.metadata.being_deleted:
            return
        for volume in pod.spec.volumes:
            if volume.ephemeral is not None:
                self._ensure(pod, f"{pod.metadata.name}-{volume.name}", volume.ephemeral)

    def _ensure(self, pod: Pod, name: str, source: JSON) -> None:
        access, meta = self._context.access, pod.metadata
        if access.store.get(CLAIMS, f"{meta.namespace}/{name}") is not None:
            return
        template = source.get("volumeClaimTemplate") or {}
        described = template.get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid}
        claim_meta: JSON = {"name": name, "namespace": meta.namespace}
        for part in ("labels", "annotations"):
            if described.get(part):
                claim_meta[part] = described[part]
        claim_meta["ownerReferences"] = [{**owner, "controller": True, "blockOwnerDeletion": True}]
        access.create(CLAIMS, {"metadata": claim_meta, "spec": template.get("spec") or {}})


def _all_claims_of(pod: Pod) -> list[str]:
    return [f"{pod.metadata.namespace}/{name}" for name in pod.claims]


def _claims_of(pod: Pod) -> list[str]:
    """Return the claims that a pod protects: none before it has a node, and none after it has ended."""
    return [] if pod.has_ended or not pod.spec.node_name else _all_claims_of(pod)
