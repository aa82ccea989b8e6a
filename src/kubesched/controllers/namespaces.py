"""Namespaces: empties them before deletion, and gives each a service account and the cluster's certificate."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON
from kubesched.reconcile.access import ACCOUNTS, CONFIG_MAPS, EVENTS, NAMESPACES, PODS
from kubesched.reconcile.conditions import set_condition
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod

RETRY_SECONDS = 0.25
_PARSED = "All legacy kube types successfully parsed"
_DELETED = "All content successfully deleted, may be waiting on finalization"
ROOT_CERTIFICATE = "kube-root-ca.crt"
_DESCRIPTION = (
    "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the"
    " internal service IP or kubernetes.default.svc. No other usage is guaranteed across distributions of Kubernetes"
    " clusters."
)


class NamespaceController(Controller):
    """Deletes the contents of a terminating namespace, then the namespace."""

    name = "namespace-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        shelf = self._access.store.shelf(NAMESPACES)
        shelf.observers.append(self._on_event)
        for key in shelf.sorted_keys():
            self.enqueue(key)

    def _on_event(self, event: StoreEvent) -> None:
        if event.change is not ChangeType.DELETED and b'"deletionTimestamp"' in event.record.data:
            self.enqueue(event.record.key)

    def sync(self, key: str) -> None:
        namespace = self._access.get(NAMESPACES, key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return
        left = self._empty(key)
        if left:
            self._write_conditions(key, left, self._finalizers(key))
            self.enqueue(key, RETRY_SECONDS)
        else:
            self._finish(key)

    def _empty(self, namespace: str) -> dict[str, int]:
        """Delete all objects, the pods first. Returns how many are left of each kind."""
        pods = self._access.resource(PODS)
        return self._empty_of([pods], namespace) or self._empty_of(self._access.api.registry, namespace)

    def _empty_of(self, resources: Iterable[ApiResource], namespace: str) -> dict[str, int]:
        left: dict[str, int] = {}
        done: set[str] = set()
        for resource in resources:
            storage = resource.storage
            if not resource.namespaced or not resource.is_stored or storage in done:
                continue
            done.add(storage)
            shelf = self._access.store.shelf(storage)
            for key in tuple(shelf.sorted_keys(namespace)):
                if storage == EVENTS:
                    self._access.store.delete(storage, key)
                elif b'"deletionTimestamp"' not in shelf.records[key].data:
                    self._access.delete(storage, key, propagation="Background")
            if count := len(shelf.sorted_keys(namespace)):
                left[resource.qualified] = count
        return left

    def _finalizers(self, namespace: str) -> Counter[str]:
        """Count the finalizers of the remaining objects."""
        found: Counter[str] = Counter()
        for storage in {resource.storage for resource in self._access.api.registry if resource.namespaced}:
            shelf = self._access.store.shelf(storage)
            for key in shelf.sorted_keys(namespace):
                found.update(shelf.records[key].load()["metadata"].get("finalizers") or [])
        return found

    def _write_conditions(self, namespace: str, left: dict[str, int], finalizers: Counter[str]) -> None:
        resources = ", ".join(f"{kind} has {count} resource instances" for kind, count in left.items())
        holding = ", ".join(f"{name} in {count} resource instances" for name, count in sorted(finalizers.items()))
        now = self._access.now()
        content = ("SomeResourcesRemain", f"Some resources are remaining: {resources}")
        finalizing = (
            ("SomeFinalizersRemain", f"Some content in the namespace has finalizers remaining: {holding}")
            if holding
            else ("ContentHasNoFinalizers", "All content-preserving finalizers finished")
        )
        conditions = (
            (
                "NamespaceDeletionDiscoveryFailure",
                "False",
                "ResourcesDiscovered",
                "All resources successfully discovered",
            ),
            ("NamespaceDeletionGroupVersionParsingFailure", "False", "ParsedGroupVersions", _PARSED),
            ("NamespaceDeletionContentFailure", "False", "ContentDeleted", _DELETED),
            ("NamespaceContentRemaining", "True", *content),
            ("NamespaceFinalizersRemaining", "True" if holding else "False", *finalizing),
        )

        def edit(obj: JSON) -> None:
            for kind, status, reason, message in conditions:
                new = {"type": kind, "status": status, "reason": reason, "message": message}
                obj["status"]["conditions"] = set_condition(obj["status"].get("conditions") or [], new, now)

        self._access.edit_status(NAMESPACES, namespace, edit)

    def _finish(self, namespace: str) -> None:
        def edit(obj: JSON) -> None:
            obj["spec"] = {**(obj.get("spec") or {}), "finalizers": []}

        self._access.edit(NAMESPACES, namespace, edit, "finalize")


class ServiceAccountController(Controller):
    """Gives every namespace its default service account and the certificate that pods trust."""

    name = "serviceaccount-controller"

    def __init__(self, context: ControllerContext, root_certificate: str) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._certificate = root_certificate
        store = self._access.store
        store.shelf(NAMESPACES).observers.append(lambda event: self.enqueue(event.record.key))
        for storage in (ACCOUNTS, CONFIG_MAPS):
            store.shelf(storage).observers.append(self._on_part)
        for key in store.shelf(NAMESPACES).sorted_keys():
            self.enqueue(key)

    def _on_part(self, event: StoreEvent) -> None:
        if event.change is ChangeType.DELETED or event.record.name == ROOT_CERTIFICATE:
            self.enqueue(event.record.namespace)

    def sync(self, key: str) -> None:
        record = self._access.store.get(NAMESPACES, key)
        if record is None or record.fields.get("status.phase") == "Terminating":
            return
        self._ensure(ACCOUNTS, {"metadata": {"name": "default", "namespace": key}})
        if self._certificate:
            meta = {
                "name": ROOT_CERTIFICATE,
                "namespace": key,
                "annotations": {"kubernetes.io/description": _DESCRIPTION},
            }
            data = {"ca.crt": self._certificate}
            self._ensure(CONFIG_MAPS, {"metadata": meta, "data": data})
            place = f"{key}/{ROOT_CERTIFICATE}"
            if (self._access.get(CONFIG_MAPS, place) or {}).get("data") != data:
                self._access.edit(CONFIG_MAPS, place, lambda obj: obj.update(data=data))

    def _ensure(self, storage: str, obj: JSON) -> None:
        meta = obj["metadata"]
        if self._access.store.get(storage, f"{meta['namespace']}/{meta['name']}") is not None:
            return
        try:
            self._access.create(storage, obj)
        except StatusError as error:
            if error.reason != "AlreadyExists":
                raise


class PodCollector(Controller):
    """Deletes pods whose node is gone: no kubelet can stop them any more."""

    name = "pod-garbage-collector"
    QUARANTINE = 40.0

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._context = context
        self._missing: dict[str, float] = {}
        context.nodes.watch(lambda old, new: self.enqueue(old.metadata.name) if new is None and old else None)
        context.pods.watch(lambda old, new: self._note(new or old), status=False)

    def _note(self, pod: Pod | None) -> None:
        if pod is not None and pod.spec.node_name and self._context.nodes.get(pod.spec.node_name) is None:
            self.enqueue(pod.spec.node_name)

    def sync(self, key: str) -> None:
        """The key is a node's name."""
        context = self._context
        pods = context.pods_by_node.get(key)
        if context.nodes.get(key) is not None or not pods:
            self._missing.pop(key, None)
            return
        now = context.access.clock.monotonic()
        left = self._missing.setdefault(key, now) + self.QUARANTINE - now
        if left > 0:
            self.enqueue(key, left)
            return
        for pod in pods:
            context.access.delete(PODS, pod.key, uid=pod.metadata.uid, grace=0)
