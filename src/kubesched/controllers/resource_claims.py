"""Claims on devices: creates them from templates, and releases them when their pods have ended.

The scheduler allocates devices to a claim and reserves the claim for a pod. When the last pod of a claim has ended, the
reservation and the allocation are removed, so that other claims can have the devices. A finalizer protects an allocated
claim from deletion until then.
"""

from __future__ import annotations

from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.apiserver.wire.status import StatusError, not_found
from kubesched.base.types import JSON
from kubesched.reconcile.access import CLAIM_TEMPLATES, DEVICE_CLAIMS, PODS
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import pod_reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod, PodResourceClaim, View

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
MAX_RESERVATIONS = 256
_EVENT_SOURCE = "resource_claim"
_MAX_PREFIX = 57
"""Leaves room for the random end of a generated name with 63 characters."""


class ResourceClaimController(Controller):
    """Keeps claims on devices in step with their pods. Keys are ``pod …`` and ``claim …``."""

    name = "resource-claim-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        store = self._access.store
        claims = Cache(store.shelf(DEVICE_CLAIMS), View)
        self._by_owner: Index[View] = claims.index(_owning_pods)
        self._users: Index[Pod] = context.pods.index(_claims_of)
        self._waiting: Index[Pod] = context.pods.index(_templates_of)
        claims.watch(self._on_claim)
        store.shelf(CLAIM_TEMPLATES).observers.append(self._on_template)
        context.pods.watch(self._on_pod)

    # --- what needs work ----------------------------------------------------------------------------------------------

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if new is None or _is_done(new) or (old is not None and old.metadata.uid != new.metadata.uid):
            for pod in filter(None, (old, new)):
                for key in _claims_of(pod):
                    self.enqueue(f"claim {key}")
        if new is not None and new.spec.resource_claims and not new.metadata.being_deleted:
            self.enqueue(f"pod {new.key}")

    def _on_claim(self, old: View | None, new: View | None) -> None:
        claim = new or old
        assert claim is not None
        self.enqueue(f"claim {claim.key}")
        for pod in self._users.get(claim.key):
            self.enqueue(f"pod {pod.key}")

    def _on_template(self, event: StoreEvent) -> None:
        if event.change is ChangeType.ADDED:
            for pod in self._waiting.get(event.record.key):
                self.enqueue(f"pod {pod.key}")

    def sync(self, key: str) -> None:
        kind, _, name = key.partition(" ")
        if kind == "pod":
            self._sync_pod(name)
        else:
            self._sync_claim(name)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _sync_pod(self, key: str) -> None:
        pod = self._context.pods.get(key)
        if pod is None or pod.metadata.being_deleted or pod.has_ended:
            return
        created: dict[str, str] = {}
        for claim in pod.spec.resource_claims:
            if claim.resource_claim_template_name and not self._exists(pod, pod.device_claim(claim)):
                created[claim.name] = self._create_for(pod, claim)
        if created:
            self._write_names(pod, created)
        elif pod.spec.node_name:
            self._reserve(pod)

    def _exists(self, pod: Pod, name: str | None) -> bool:
        """Whether the claim recorded in the pod's status is the pod's own. An empty name says that none is needed."""
        if name is None:
            return False
        return not name or any(claim.metadata.name == name for claim in self._by_owner.get(pod.metadata.uid))

    def _create_for(self, pod: Pod, claim: PodResourceClaim) -> str:
        """Return the name of the claim for a template, created if it does not exist."""
        for known in self._by_owner.get(pod.metadata.uid):
            if known.metadata.annotations.get(POD_CLAIM_NAME) == claim.name:
                return known.metadata.name
        try:
            made = self._access.create(DEVICE_CLAIMS, self._from_template(pod, claim))
        except StatusError as error:
            self._record_failure(pod, claim, error)
            raise
        return str(made["metadata"]["name"])

    def _from_template(self, pod: Pod, claim: PodResourceClaim) -> JSON:
        name, meta = claim.resource_claim_template_name, pod.metadata
        template = self._access.get(CLAIM_TEMPLATES, f"{meta.namespace}/{name}")
        if template is None:
            raise not_found("resourceclaimtemplate", "resource.k8s.io", name)
        described = template["spec"].get("metadata") or {}
        owner = {"apiVersion": "v1", "kind": "Pod", "name": meta.name, "uid": meta.uid, "controller": True}
        made: JSON = {"generateName": _prefix(meta.name, claim.name), "namespace": meta.namespace}
        made["annotations"] = {**(described.get("annotations") or {}), POD_CLAIM_NAME: claim.name}
        if described.get("labels"):
            made["labels"] = described["labels"]
        return {"metadata": {**made, "ownerReferences": [owner]}, "spec": template["spec"].get("spec") or {}}

    def _record_failure(self, pod: Pod, claim: PodResourceClaim, error: StatusError) -> None:
        why = f"create ResourceClaim : {error.message}"
        if error.code == 404:
            why = f'resource claim template "{claim.resource_claim_template_name}": {error.message}'
        message = f"PodResourceClaim {claim.name}: {why}"
        reason = "FailedResourceClaimCreation"
        self._context.events.record(_EVENT_SOURCE, pod_reference(pod), "Warning", reason, message)

    def _write_names(self, pod: Pod, created: dict[str, str]) -> None:
        def edit(found: JSON) -> None:
            kept = [each for each in found["status"].get("resourceClaimStatuses") or [] if each["name"] not in created]
            new = [{"name": name, "resourceClaimName": claim} for name, claim in created.items()]
            found["status"]["resourceClaimStatuses"] = kept + new

        self._access.edit_status(PODS, pod.key, edit, pod.metadata.uid)

    def _reserve(self, pod: Pod) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler."""
        meta = pod.metadata
        user = {"resource": "pods", "name": meta.name, "uid": meta.uid}
        for name in filter(None, map(pod.device_claim, pod.spec.resource_claims)):
            claim = self._access.get(DEVICE_CLAIMS, f"{meta.namespace}/{name}")
            if claim is None:
                continue
            status = claim.get("status") or {}
            reserved = status.get("reservedFor") or []
            known = any(each["uid"] == meta.uid for each in reserved)
            if status.get("allocation") and not known and _can_be_reserved(claim):
                self._edit_status(claim, reservedFor=[*reserved, user])

    # --- claims -------------------------------------------------------------------------------------------------------

    def _sync_claim(self, key: str) -> None:
        claim = self._access.get(DEVICE_CLAIMS, key)
        if claim is None:
            return
        meta, status = claim["metadata"], claim.get("status") or {}
        reserved = status.get("reservedFor") or []
        remaining = [each for each in reserved if self._is_valid(meta["namespace"], each)]
        protected = FINALIZER in (meta.get("finalizers") or [])
        if len(remaining) < len(reserved) or (protected and "deletionTimestamp" in meta and not remaining):
            self._release(claim, remaining, protected)
        if not remaining:
            self._delete_unused(claim)

    def _is_valid(self, namespace: str, user: JSON) -> bool:
        """Whether a reservation still holds. Consumers that are no pods are left alone."""
        if user.get("apiGroup") or user.get("resource") != "pods":
            return True
        pod = self._context.pods.get(f"{namespace}/{user['name']}")
        return pod is not None and pod.metadata.uid == user["uid"] and not _is_done(pod)

    def _release(self, claim: JSON, remaining: list[JSON], protected: bool) -> None:
        """Remove reservations; with the last one, also the allocation and the finalizer."""
        deallocate = protected and not remaining
        self._edit_status(claim, reservedFor=remaining, **({"allocation": None} if deallocate else {}))
        if deallocate:
            key = _key(claim)
            self._access.edit(DEVICE_CLAIMS, key, lambda found: found["metadata"]["finalizers"].remove(FINALIZER))

    def _edit_status(self, claim: JSON, **parts: object) -> None:
        def edit(found: JSON) -> None:
            status = {**(found.get("status") or {}), **parts}
            found["status"] = {name: value for name, value in status.items() if value}

        self._access.edit(DEVICE_CLAIMS, _key(claim), edit, "status")

    def _delete_unused(self, claim: JSON) -> None:
        """Delete a claim created for a pod that has ended. If the pod is gone, the garbage collector does it."""
        owner = next((each for each in claim["metadata"].get("ownerReferences") or [] if _is_pod(each)), None)
        if owner is None:
            return
        pod = self._context.pods.get(f"{claim['metadata']['namespace']}/{owner['name']}")
        if pod is not None and (pod.metadata.uid != owner["uid"] or _is_done(pod)):
            self._access.delete(DEVICE_CLAIMS, _key(claim), uid=claim["metadata"]["uid"])


def _is_pod(owner: JSON) -> bool:
    return bool(owner.get("controller")) and (owner["apiVersion"], owner["kind"]) == ("v1", "Pod")


def _owning_pods(claim: View) -> list[str]:
    owner = claim.metadata.controller
    return [owner.uid] if owner is not None and (owner.api_version, owner.kind) == ("v1", "Pod") else []


def _claims_of(pod: Pod) -> list[str]:
    return [f"{pod.metadata.namespace}/{name}" for name in pod.device_claims]


def _templates_of(pod: Pod) -> list[str]:
    """Return the templates from which a pod does not have a claim yet."""
    return [
        f"{pod.metadata.namespace}/{claim.resource_claim_template_name}"
        for claim in pod.spec.resource_claims
        if claim.resource_claim_template_name and pod.device_claim(claim) is None
    ]


def _is_done(pod: Pod) -> bool:
    """Whether a pod will not run any more."""
    return pod.has_ended or (pod.metadata.being_deleted and not pod.spec.node_name)


def _can_be_reserved(claim: JSON) -> bool:
    reserved = (claim.get("status") or {}).get("reservedFor") or []
    return "deletionTimestamp" not in claim["metadata"] and len(reserved) < MAX_RESERVATIONS


def _key(claim: JSON) -> str:
    return f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"


def _prefix(pod: str, claim: str) -> str:
    """The start of a generated name. If it is too long, both parts are shortened in proportion."""
    prefix = f"{pod}-{claim}-"
    if len(prefix) <= _MAX_PREFIX:
        return prefix
    shortened = [part[: len(part) * _MAX_PREFIX // len(prefix)] for part in (pod, claim)]
    return "-".join(shortened)
