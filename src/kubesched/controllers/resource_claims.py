"""Claims on devices: creates them from templates, and releases them when their pods have ended.

The scheduler allocates devices to a claim and reserves the claim for a pod. When the last pod of a claim has ended, the
reservation and the allocation are removed, so that other claims can have the devices. A finalizer protects an allocated
claim from deletion until then. With the gate DRAWorkloadResourceClaims, pod groups have claims too, which their pods
share; these are released when the group is gone.
"""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api.workloads import API_GROUP, API_VERSION
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.apiserver.wire.status import StatusError, not_found
from kubesched.base.types import JSON
from kubesched.reconcile.access import CLAIM_TEMPLATES, DEVICE_CLAIMS, POD_GROUPS, PODS
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod, PodGroup, PodResourceClaim, View

FINALIZER = "resource.kubernetes.io/delete-protection"
POD_CLAIM_NAME = "resource.kubernetes.io/pod-claim-name"
MAX_RESERVATIONS = 256
ClaimUser = Pod | PodGroup
_EVENT_SOURCE = "resource_claim"
_MAX_PREFIX = 57
"""Leaves room for the random end of a generated name with 63 characters."""


class ResourceClaimController(Controller):
    """Keeps claims on devices in step with their users. Keys are ``pod …``, ``podgroup …`` and ``claim …``."""

    name = "resource-claim-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._of_groups = context.features.dra_workload_resource_claims
        store = self._access.store
        claims = Cache(store.shelf(DEVICE_CLAIMS), View)
        self._by_owner: Index[View] = claims.index(_owners)
        self._users: Index[Pod] = context.pods.index(_claims_of)
        self._waiting: Index[Pod] = context.pods.index(_templates_of)
        self._groups = Cache(store.shelf(POD_GROUPS), PodGroup)
        self._group_users: Index[PodGroup] = self._groups.index(_claims_of)
        self._waiting_groups: Index[PodGroup] = self._groups.index(_templates_of)
        self._members: Index[Pod] = context.pods.index(_group_of)
        claims.watch(self._on_claim)
        store.shelf(CLAIM_TEMPLATES).observers.append(self._on_template)
        context.pods.watch(self._on_pod)
        if self._of_groups:
            self._groups.watch(self._on_group)

    # --- what needs work ----------------------------------------------------------------------------------------------

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if (old is None or not old.uses_devices) and (new is None or not new.uses_devices):
            return
        if new is None or _is_done(new) or (old is not None and old.metadata.uid != new.metadata.uid):
            for pod in filter(None, (old, new)):
                self._enqueue_all("claim", _claims_of(pod))
        if new is not None and new.spec.resource_claims and not new.metadata.being_deleted:
            self.enqueue(f"pod {new.key}")

    def _on_group(self, old: PodGroup | None, new: PodGroup | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._enqueue_all("claim", _claims_of(old))
        if new is not None:
            self.enqueue(f"podgroup {new.key}")
            # Its pods need the names of the claims that it has now.
            self._enqueue_all("pod", [pod.key for pod in self._members.get(new.key) if pod.spec.resource_claims])

    def _on_claim(self, old: View | None, new: View | None) -> None:
        claim = new or old
        assert claim is not None
        self.enqueue(f"claim {claim.key}")
        self._enqueue_all("pod", [pod.key for pod in self._users.get(claim.key)])
        if self._of_groups:
            self._enqueue_all("podgroup", [group.key for group in self._group_users.get(claim.key)])

    def _on_template(self, event: StoreEvent) -> None:
        if event.change is ChangeType.ADDED:
            self._enqueue_all("pod", [pod.key for pod in self._waiting.get(event.record.key)])
            if self._of_groups:
                self._enqueue_all("podgroup", [group.key for group in self._waiting_groups.get(event.record.key)])

    def _enqueue_all(self, kind: str, keys: Iterable[str]) -> None:
        for key in keys:
            self.enqueue(f"{kind} {key}")

    def sync(self, key: str) -> None:
        kind, _, name = key.partition(" ")
        if kind == "pod":
            self._sync_pod(name)
        elif kind == "podgroup":
            self._sync_group(name)
        else:
            self._sync_claim(name)

    # --- pods and groups ----------------------------------------------------------------------------------------------

    def _sync_pod(self, key: str) -> None:
        pod = self._context.pods.get(key)
        if pod is None or pod.metadata.being_deleted or pod.has_ended:
            return
        group = self._groups.get(pod.pod_group) if self._of_groups and pod.pod_group else None
        if group is None and self._of_groups and pod.pod_group:
            return  # until the group exists, it is not known which claims are the group's
        created: dict[str, str] = {}
        for claim in pod.spec.resource_claims:
            owner = _user_of(pod, group, claim)
            if not claim.resource_claim_template_name or self._exists(owner, pod.device_claim(claim)):
                continue
            name = self._create_for(pod, claim) if owner is pod else self._claim_of(owner, claim)
            if name is not None:
                created[claim.name] = name
        if created:
            self._write_names(PODS, pod, created)
        elif pod.spec.node_name:
            self._reserve(pod, group)

    def _sync_group(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None or group.metadata.being_deleted:
            return
        created = {
            claim.name: self._create_for(group, claim)
            for claim in group.spec.resource_claims
            if claim.resource_claim_template_name and not self._exists(group, group.device_claim(claim))
        }
        if created:
            self._write_names(POD_GROUPS, group, created)

    def _exists(self, owner: ClaimUser, name: str | None) -> bool:
        """Whether the claim recorded in a status is the owner's own. An empty name says that none is needed."""
        if name is None:
            return False
        return not name or any(claim.metadata.name == name for claim in self._by_owner.get(owner.metadata.uid))

    def _claim_of(self, owner: ClaimUser, claim: PodResourceClaim) -> str | None:
        """Return the name of the claim that was created from a template, if it was."""
        for known in self._by_owner.get(owner.metadata.uid):
            if known.metadata.annotations.get(POD_CLAIM_NAME) == claim.name:
                return known.metadata.name
        return None

    def _create_for(self, owner: ClaimUser, claim: PodResourceClaim) -> str:
        """Return the name of the claim for a template, created if it does not exist."""
        known = self._claim_of(owner, claim)
        if known is not None:
            return known
        try:
            made = self._access.create(DEVICE_CLAIMS, self._from_template(owner, claim))
        except StatusError as error:
            self._record_failure(owner, claim, error)
            raise
        return str(made["metadata"]["name"])

    def _from_template(self, owner: ClaimUser, claim: PodResourceClaim) -> JSON:
        name, meta = claim.resource_claim_template_name, owner.metadata
        template = self._access.get(CLAIM_TEMPLATES, f"{meta.namespace}/{name}")
        if template is None:
            raise not_found("resourceclaimtemplate", "resource.k8s.io", name)
        described = template["spec"].get("metadata") or {}
        reference = {**_kind_of(owner), "name": meta.name, "uid": meta.uid, "controller": True}
        made: JSON = {"generateName": _prefix(meta.name, claim.name), "namespace": meta.namespace}
        made["annotations"] = {**(described.get("annotations") or {}), POD_CLAIM_NAME: claim.name}
        if described.get("labels"):
            made["labels"] = described["labels"]
        return {"metadata": {**made, "ownerReferences": [reference]}, "spec": template["spec"].get("spec") or {}}

    def _record_failure(self, owner: ClaimUser, claim: PodResourceClaim, error: StatusError) -> None:
        why = f"create ResourceClaim : {error.message}"
        if error.code == 404:
            why = f'resource claim template "{claim.resource_claim_template_name}": {error.message}'
        kind, meta = _kind_of(owner), owner.metadata
        message = f"{kind['kind']}ResourceClaim {claim.name}: {why}"
        about = {**kind, "namespace": meta.namespace, "name": meta.name, "uid": meta.uid}
        self._context.events.record(_EVENT_SOURCE, about, "Warning", "FailedResourceClaimCreation", message)

    def _write_names(self, storage: str, owner: ClaimUser, created: dict[str, str]) -> None:
        def edit(found: JSON) -> None:
            kept = [each for each in found["status"].get("resourceClaimStatuses") or [] if each["name"] not in created]
            new = [{"name": name, "resourceClaimName": claim} for name, claim in created.items()]
            found["status"]["resourceClaimStatuses"] = kept + new

        self._access.edit_status(storage, owner.key, edit, owner.metadata.uid)

    def _reserve(self, pod: Pod, group: PodGroup | None) -> None:
        """Reserve allocated claims for a pod that was bound without the scheduler, or for its group."""
        for reference in pod.spec.resource_claims:
            claim = self._access.get(DEVICE_CLAIMS, f"{pod.metadata.namespace}/{pod.device_claim(reference)}")
            if claim is None:
                continue
            user = _user_of(pod, group, reference)
            status = claim.get("status") or {}
            reserved = status.get("reservedFor") or []
            known = any(each["uid"] in (pod.metadata.uid, user.metadata.uid) for each in reserved)
            if status.get("allocation") and not known and _can_be_reserved(claim):
                self._edit_status(claim, reservedFor=[*reserved, _consumer(user)])

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
        """Whether a reservation still holds. Consumers of other kinds are left alone."""
        kind = (user.get("apiGroup") or "", user.get("resource"))
        if self._of_groups and kind == (API_GROUP, "podgroups"):
            group = self._groups.get(f"{namespace}/{user['name']}")
            return group is not None and group.metadata.uid == user["uid"]
        if kind != ("", "pods"):
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


def _owners(claim: View) -> list[str]:
    """Return the UID of the pod or group that a claim was created for."""
    owner = claim.metadata.controller
    if owner is None or (owner.kind, owner.api_version.partition("/")[0]) not in (
        ("Pod", "v1"),
        ("PodGroup", API_GROUP),
    ):
        return []
    return [owner.uid]


def _group_of(pod: Pod) -> list[str]:
    return [pod.pod_group] if pod.pod_group else []


def _user_of(pod: Pod, group: PodGroup | None, claim: PodResourceClaim) -> ClaimUser:
    """Return who uses a claim of a pod: the group, if it has the very same claim, or else the pod."""
    return group if group is not None and claim in group.spec.resource_claims else pod


def _kind_of(user: ClaimUser) -> JSON:
    if isinstance(user, Pod):
        return {"apiVersion": "v1", "kind": "Pod"}
    return {"apiVersion": API_VERSION, "kind": "PodGroup"}


def _consumer(user: ClaimUser) -> JSON:
    """Return the reference by which a claim is reserved."""
    kind = {"resource": "pods"} if isinstance(user, Pod) else {"apiGroup": API_GROUP, "resource": "podgroups"}
    return {**kind, "name": user.metadata.name, "uid": user.metadata.uid}


def _claims_of(user: ClaimUser) -> list[str]:
    return [f"{user.metadata.namespace}/{name}" for name in user.device_claims]


def _templates_of(user: ClaimUser) -> list[str]:
    """Return the templates from which a pod or group does not have a claim yet."""
    return [
        f"{user.metadata.namespace}/{claim.resource_claim_template_name}"
        for claim in user.spec.resource_claims
        if claim.resource_claim_template_name and user.device_claim(claim) is None
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
