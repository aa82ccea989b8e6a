"""StatefulSets: pods with names and claims of their own, made and replaced one after the other."""

from __future__ import annotations

import copy

from kubesched.base.types import JSON
from kubesched.controllers.ownership import claimed_pods, create_pod, delete_pod, pod_from, selector_of
from kubesched.controllers.replicaset import available_in
from kubesched.controllers.revisions import HASH_LABEL, Revisions
from kubesched.reconcile.access import CLAIMS, STATEFUL_SETS
from kubesched.reconcile.cache import is_more_than_status
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod

INDEX_LABEL = "apps.kubernetes.io/pod-index"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"


class StatefulSetController(Controller):
    """Keeps the pods of StatefulSets."""

    name = "statefulset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._revisions = Revisions(context.access)
        shelf = self._access.store.shelf(STATEFUL_SETS)
        shelf.observers.append(lambda event: self.enqueue(event.record.key) if is_more_than_status(event) else None)
        for key in shelf.sorted_keys():
            self.enqueue(key)
        context.pods.watch(self._on_pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            owner = pod.metadata.controller if pod is not None else None
            if pod is not None and owner is not None and owner.kind == "StatefulSet":
                self.enqueue(f"{pod.metadata.namespace}/{owner.name}")

    def sync(self, key: str) -> None:
        owner = self._access.get(STATEFUL_SETS, key)
        if owner is None:
            return
        pods = claimed_pods(self._context, owner, selector_of(owner))
        revision: str = self._revisions.current(owner)["metadata"]["labels"][HASH_LABEL]
        current = (owner.get("status") or {}).get("currentRevision", "").rpartition("-")[2] or revision
        if "deletionTimestamp" not in owner["metadata"]:
            self._manage(owner, {_ordinal(owner, pod): pod for pod in pods}, current, revision)
        self._write_status(key, owner, self._context.pods_by_owner.get(owner["metadata"]["uid"]), current, revision)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _manage(self, owner: JSON, pods: dict[int, Pod], current: str, revision: str) -> None:
        """The next step; in order, there is never more than one under way."""
        spec = owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy") == "Parallel"
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is not None and pod.has_ended and not pod.metadata.being_deleted:
                self._delete(owner, pod)
            if pod is None:
                self._create(owner, ordinal, revision if ordinal in _updated(owner, wanted) else current)
            if not parallel and not (pod is not None and pod.is_ready and not pod.metadata.being_deleted):
                return
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        for ordinal in surplus:
            if not pods[ordinal].metadata.being_deleted:
                self._leave_claims(owner, pods[ordinal])
                self._delete(owner, pods[ordinal])
            if not parallel:
                return
        self._update(owner, pods, wanted, revision)

    def _update(self, owner: JSON, pods: dict[int, Pod], wanted: range, revision: str) -> None:
        """Replace pods of an earlier template, the last first, down to the partition."""
        if (owner["spec"].get("updateStrategy") or {}).get("type") == "OnDelete":
            return
        for ordinal in reversed(_updated(owner, wanted)):
            pod = pods.get(ordinal)
            if pod is None or pod.metadata.being_deleted or not pod.is_ready:
                if (
                    pod is not None
                    and not pod.metadata.being_deleted
                    and pod.metadata.labels.get(HASH_LABEL) != revision
                ):
                    self._delete(owner, pod)
                return
            if pod.metadata.labels.get(HASH_LABEL) != revision:
                self._delete(owner, pod)
                return

    def _create(self, owner: JSON, ordinal: int, revision: str) -> None:
        name = f"{owner['metadata']['name']}-{ordinal}"
        template = self._revisions.template(owner, revision) or owner["spec"]["template"]
        pod = pod_from(template, owner, name=name)
        labels = {HASH_LABEL: revision, INDEX_LABEL: str(ordinal), NAME_LABEL: name}
        pod["metadata"]["labels"] = {**(pod["metadata"].get("labels") or {}), **labels}
        pod["spec"]["hostname"] = name
        if owner["spec"].get("serviceName"):
            pod["spec"]["subdomain"] = owner["spec"]["serviceName"]
        claims = owner["spec"].get("volumeClaimTemplates") or []
        own = {each["metadata"]["name"] for each in claims}
        volumes = [each for each in pod["spec"].get("volumes") or [] if each["name"] not in own]
        for each in claims:
            claim = f"{each['metadata']['name']}-{name}"
            self._ensure_claim(owner, each, claim, name)
            volumes.append({"name": each["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}})
        if volumes:
            pod["spec"]["volumes"] = volumes
        told = f"create Pod {{}} in StatefulSet {owner['metadata']['name']} successful"
        create_pod(self._context, self.name, owner, pod, reference(owner), told)

    def _delete(self, owner: JSON, pod: Pod) -> None:
        told = f"delete Pod {{}} in StatefulSet {owner['metadata']['name']} successful"
        delete_pod(self._context, self.name, pod, reference(owner), told)

    def _ensure_claim(self, owner: JSON, template: JSON, name: str, pod: str) -> None:
        namespace = owner["metadata"]["namespace"]
        if self._access.store.get(CLAIMS, f"{namespace}/{name}") is not None:
            return
        selector = (owner["spec"].get("selector") or {}).get("matchLabels") or {}
        meta: JSON = {"name": name, "namespace": namespace}
        meta["labels"] = {**(template["metadata"].get("labels") or {}), **selector}
        if template["metadata"].get("annotations"):
            meta["annotations"] = dict(template["metadata"]["annotations"])
        if _retention(owner, "whenDeleted") == "Delete":
            meta["ownerReferences"] = [_owner(owner["apiVersion"], owner["kind"], owner["metadata"])]
        self._access.create(CLAIMS, {"metadata": meta, "spec": copy.deepcopy(template["spec"])})
        message = f"create Claim {name} Pod {pod} in StatefulSet {owner['metadata']['name']} success"
        self._context.events.record(self.name, reference(owner), "Normal", "SuccessfulCreate", message)

    def _leave_claims(self, owner: JSON, pod: Pod) -> None:
        """The claims of a pod that is one too many go with it, if that is wanted."""
        if _retention(owner, "whenScaled") != "Delete":
            return
        identity = {"name": pod.metadata.name, "uid": pod.metadata.uid}

        def edit(claim: JSON) -> None:
            claim["metadata"]["ownerReferences"] = [_owner("v1", "Pod", identity)]

        for template in owner["spec"].get("volumeClaimTemplates") or []:
            key = f"{pod.metadata.namespace}/{template['metadata']['name']}-{pod.metadata.name}"
            if self._access.store.get(CLAIMS, key) is not None:
                self._access.edit(CLAIMS, key, edit)

    # --- status -------------------------------------------------------------------------------------------------------

    def _write_status(self, key: str, owner: JSON, pods: list[Pod], current: str, revision: str) -> None:
        alive = [pod for pod in pods if not pod.has_ended]
        ready = [pod for pod in alive if pod.is_ready and not pod.metadata.being_deleted]
        waits = available_in(self._context, ready, owner["spec"].get("minReadySeconds", 0))
        if waiting := [seconds for _, seconds in waits if seconds > 0]:
            self.enqueue(key, min(waiting))
        available = [pod for pod, seconds in waits if seconds <= 0]
        updated = [pod for pod in alive if pod.metadata.labels.get(HASH_LABEL) == revision]
        wanted = owner["spec"].get("replicas", 1)
        if len(updated) == len(ready) == wanted == len(alive):
            current = revision
        of_current = [pod for pod in alive if pod.metadata.labels.get(HASH_LABEL) == current]
        name = owner["metadata"]["name"]

        def edit(obj: JSON) -> None:
            counts = {
                "readyReplicas": len(ready),
                "currentReplicas": len(of_current),
                "updatedReplicas": len(updated),
            }
            obj["status"] = {
                "observedGeneration": obj["metadata"].get("generation", 0),
                "replicas": len(alive),
                **{field: count for field, count in counts.items() if count},
                "currentRevision": f"{name}-{current}",
                "updateRevision": f"{name}-{revision}",
                "collisionCount": 0,
                "availableReplicas": len(available),
            }

        self._access.edit_status(STATEFUL_SETS, key, edit, owner["metadata"]["uid"])


def _updated(owner: JSON, wanted: range) -> range:
    """The pods that are to have the present template: those from the partition on."""
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return wanted[rolling.get("partition", 0) :]


def _ordinal(owner: JSON, pod: Pod) -> int:
    """A pod's number, from its name; a pod that was adopted without one counts as surplus."""
    prefix = f"{owner['metadata']['name']}-"
    text = pod.metadata.name.removeprefix(prefix)
    return int(text) if text.isdecimal() and pod.metadata.name.startswith(prefix) else -1


def _retention(owner: JSON, when: str) -> str:
    return str((owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when, "Retain"))


def _owner(version: str, kind: str, meta: JSON) -> JSON:
    return {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"]}
