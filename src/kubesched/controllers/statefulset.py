"""StatefulSets: pods with stable names and claims, created and replaced one at a time."""

from __future__ import annotations

import copy

from kubesched.base.types import JSON
from kubesched.controllers.ownership import claimed_pods, create_pod, delete_pod, pod_from, selector_of
from kubesched.controllers.replicaset import available_in
from kubesched.controllers.revisions import HASH_LABEL, Revisions
from kubesched.reconcile.access import CLAIMS, STATEFUL_SETS
from kubesched.reconcile.cache import is_news
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.events import reference
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Owner, Pod

INDEX_LABEL = "apps.kubernetes.io/pod-index"
NAME_LABEL = "statefulset.kubernetes.io/pod-name"
BURST = 500
"""Pods and claims created, or pods deleted, at a time. The rest follows in the next sync."""
CLAIM_HEAD_START = 0.05
"""Seconds between creating claims and their pod. Clients watch each kind on a stream of its own, so a scheduler that
learned of both at once could see the pod first and fail its first attempt."""


class StatefulSetController(Controller):
    """Creates, replaces and deletes the pods of StatefulSets."""

    name = "statefulset-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._access = context.access
        self._revisions = Revisions(context.access)
        shelf = self._access.store.shelf(STATEFUL_SETS)
        shelf.observers.append(lambda event: self.enqueue(event.record.key) if is_news(event, self._access) else None)
        for key in shelf.sorted_keys():
            self.enqueue(key)
        context.owned_pods.watch("StatefulSet", self._on_pod)

    def _on_pod(self, owner: Owner, pod: Pod, _relabelled: bool) -> None:
        size = self._context.pods_by_owner.size(owner.uid)
        self.enqueue_one_of(f"{pod.metadata.namespace}/{owner.name}", size)

    def sync(self, key: str) -> None:
        owner = self._access.get(STATEFUL_SETS, key)
        if owner is None:
            return
        pods = claimed_pods(self._context, owner, selector_of(owner))
        revision: str = self._revisions.current(owner)["metadata"]["name"]
        current = (owner.get("status") or {}).get("currentRevision") or revision
        if "deletionTimestamp" not in owner["metadata"]:
            self._manage(owner, {_ordinal(owner, pod): pod for pod in pods}, current, revision)
        self._write_status(key, owner, self._context.pods_by_owner.get(owner["metadata"]["uid"]), current, revision)

    # --- pods ---------------------------------------------------------------------------------------------------------

    def _manage(self, owner: JSON, pods: dict[int, Pod], current: str, revision: str) -> None:
        """Do the next step. Unless the policy is Parallel, there is one step at a time."""
        spec = owner["spec"]
        first = (spec.get("ordinals") or {}).get("start", 0)
        wanted = range(first, first + spec.get("replicas", 1))
        parallel = spec.get("podManagementPolicy") == "Parallel"
        key = f"{owner['metadata']['namespace']}/{owner['metadata']['name']}"
        created = 0
        for ordinal in wanted:
            pod = pods.get(ordinal)
            if pod is None or pod.has_ended:
                if created >= BURST:
                    self.enqueue_one_of(key, BURST)  # later, so that others have their turn
                    return
                created += 1
            if pod is not None and pod.has_ended and not pod.metadata.being_deleted:
                self._delete(owner, pod)
            if pod is None and (claims := self._create_claims(owner, ordinal)):
                created += claims
                self.enqueue(key, CLAIM_HEAD_START)
            elif pod is None:
                self._create(owner, ordinal, revision if ordinal in _updated(owner, wanted) else current)
            if not parallel and not (pod is not None and pod.is_ready and not pod.metadata.being_deleted):
                return
        surplus = sorted((ordinal for ordinal in pods if ordinal not in wanted), reverse=True)
        leaving = [ordinal for ordinal in surplus if not pods[ordinal].metadata.being_deleted]
        if parallel and len(leaving) > BURST:
            self.enqueue_one_of(key, BURST)
            surplus = leaving[:BURST]
        for ordinal in surplus:
            if not pods[ordinal].metadata.being_deleted:
                self._let_claims_go_with(owner, pods[ordinal])
                self._delete(owner, pods[ordinal])
            if not parallel:
                return
        self._update(owner, pods, wanted, revision)

    def _update(self, owner: JSON, pods: dict[int, Pod], wanted: range, revision: str) -> None:
        """Replace pods of an earlier template, the highest ordinal first, down to the partition."""
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
            volumes.append({"name": each["metadata"]["name"], "persistentVolumeClaim": {"claimName": claim}})
        if volumes:
            pod["spec"]["volumes"] = volumes
        message = f"create Pod {{}} in StatefulSet {owner['metadata']['name']} successful"
        create_pod(self._context, self.name, owner, pod, reference(owner), message)

    def _delete(self, owner: JSON, pod: Pod) -> None:
        message = f"delete Pod {{}} in StatefulSet {owner['metadata']['name']} successful"
        delete_pod(self._context, self.name, pod, reference(owner), message)

    def _create_claims(self, owner: JSON, ordinal: int) -> int:
        """Create missing claims of a pod, and return their number."""
        pod, namespace = f"{owner['metadata']['name']}-{ordinal}", owner["metadata"]["namespace"]
        claims = {f"{each['metadata']['name']}-{pod}": each for each in owner["spec"].get("volumeClaimTemplates") or []}
        missing = [name for name in claims if self._access.store.get(CLAIMS, f"{namespace}/{name}") is None]
        for name in missing[:BURST]:
            self._create_claim(owner, claims[name], name, pod)
        return len(missing[:BURST])

    def _create_claim(self, owner: JSON, template: JSON, name: str, pod: str) -> None:
        namespace = owner["metadata"]["namespace"]
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

    def _let_claims_go_with(self, owner: JSON, pod: Pod) -> None:
        """Make a surplus pod the owner of its claims if the retention policy says so. They are deleted with it."""
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
                "currentRevision": current,
                "updateRevision": revision,
                "collisionCount": 0,
                "availableReplicas": len(available),
            }

        self._access.edit_status(STATEFUL_SETS, key, edit, owner["metadata"]["uid"])


def _updated(owner: JSON, wanted: range) -> range:
    """The ordinals that get the current template: those from the partition on."""
    rolling = (owner["spec"].get("updateStrategy") or {}).get("rollingUpdate") or {}
    return wanted[rolling.get("partition", 0) :]


def _ordinal(owner: JSON, pod: Pod) -> int:
    """A pod's ordinal, from its name; -1 for an adopted pod without one, which counts as surplus."""
    prefix = f"{owner['metadata']['name']}-"
    text = pod.metadata.name.removeprefix(prefix)
    return int(text) if text.isdecimal() and pod.metadata.name.startswith(prefix) else -1


def _retention(owner: JSON, when: str) -> str:
    return str((owner["spec"].get("persistentVolumeClaimRetentionPolicy") or {}).get(when, "Retain"))


def _owner(version: str, kind: str, meta: JSON) -> JSON:
    return {"apiVersion": version, "kind": kind, "name": meta["name"], "uid": meta["uid"]}
