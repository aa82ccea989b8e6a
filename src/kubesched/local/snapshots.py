"""Everything in a cluster, to return to; and kube-scheduler-simulator's exports, to write and to load.

A cluster is replaced without an await, so that controllers and kubelets never see half of it: a ReplicaSet without its
pods would create new ones.
"""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.body import check_fields, check_kind
from kubesched.apiserver.storage.store import Record, Store
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import StatusError, bad_request
from kubesched.base.types import JSON
from kubesched.reconcile.access import (
    ACCOUNTS,
    CLAIMS,
    CLASSES,
    CONFIG_MAPS,
    ENDPOINT_SLICES,
    ENDPOINTS,
    LEASES,
    NAMESPACES,
    NODES,
    PODS,
    SERVICES,
    VOLUMES,
    Access,
)

PRIORITY_CLASSES, SECRETS = "scheduling.k8s.io/priorityclasses", "/secrets"
STORAGES = {
    "pods": PODS,
    "nodes": NODES,
    "pvs": VOLUMES,
    "pvcs": CLAIMS,
    "storageClasses": CLASSES,
    "priorityClasses": PRIORITY_CLASSES,
    "namespaces": NAMESPACES,
}
"""The lists of an export, in the order of the simulator."""
_OF_THE_SERVER = ("rbac.authorization.k8s.io/", "apiextensions.k8s.io/", LEASES)
_OF_NAMESPACES = (ACCOUNTS, CONFIG_MAPS, SECRETS)
_KUBERNETES = "default/kubernetes"
_IDENTITY = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "managedFields",
    "ownerReferences",
    "selfLink",
)
"""Metadata that an object gets anew. Its owners are not in an export, and without them it would be deleted."""
_FINISHED = ("Succeeded", "Failed")


class Checkpoint:
    """All objects of a store at one time. It refers to them and copies nothing."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._records = {storage: dict(shelf.records) for storage, shelf in store.shelves.items()}

    def restore(self) -> None:
        """Bring back exactly these objects. Leases stay: their holders are still there."""
        for storage, shelf in list(self._store.shelves.items()):
            if storage != LEASES:
                self._restore(storage, shelf.records, self._records.get(storage, {}))

    def _restore(self, storage: str, now: dict[str, Record], before: dict[str, Record]) -> None:
        for key, record in list(now.items()):
            if key not in before or _uid(before[key]) != _uid(record):
                self._store.delete(storage, key)
        for key, record in before.items():
            if key not in now or now[key].version != record.version:
                self._store.put(storage, key, record.load())


def _uid(record: Record) -> str:
    return str(record.load()["metadata"].get("uid", ""))


# --- export -----------------------------------------------------------------------------------------------------------


def export(store: Store, config: JSON) -> JSON:
    """The cluster in the simulator's form. Go leaves kind and apiVersion out of typed lists."""
    lists: JSON = {name: list(_exported(store, storage)) for name, storage in STORAGES.items()}
    namespaces = lists.pop("namespaces")
    return {**lists, "schedulerConfig": config, "namespaces": namespaces}


def _exported(store: Store, storage: str) -> Iterator[JSON]:
    for record in store.records(storage):
        if not _is_system(storage, record.key):
            yield without_kind(record)


def without_kind(record: Record) -> JSON:
    """An object as a typed client of Go's encodes it."""
    obj = record.load()
    return {name: value for name, value in obj.items() if name not in ("apiVersion", "kind")}


def _is_system(storage: str, name: str) -> bool:
    """Whether an object belongs to every cluster. The simulator does not export it."""
    if storage == NAMESPACES:
        return name == "default" or name.startswith("kube-")
    return storage == PRIORITY_CLASSES and name.startswith("system-")


# --- import -----------------------------------------------------------------------------------------------------------


def load(api: ApiServer, lists: JSON) -> None:
    """Replace the cluster with the lists of an export. Raises `StatusError`, and then the cluster is as it was."""
    loader, before = _Loader(api, lists), Checkpoint(api.store)
    try:
        _clear(api.store)
        loader.load()
    except BaseException:
        before.restore()
        raise


def _clear(store: Store) -> None:
    for storage, shelf in list(store.shelves.items()):
        for key in list(shelf.records):
            if not _stays(storage, key):
                store.delete(storage, key)


def _stays(storage: str, key: str) -> bool:
    if storage.startswith(_OF_THE_SERVER) or _is_system(storage, key):
        return True
    if storage in _OF_NAMESPACES:
        return _is_system(NAMESPACES, key.partition("/")[0])
    return key == _KUBERNETES and storage in (SERVICES, ENDPOINTS, ENDPOINT_SLICES)


class _Loader:
    """Creates the objects of an export, each after those that it needs."""

    def __init__(self, api: ApiServer, lists: JSON) -> None:
        self._api = api
        self._access = Access(api)
        self._lists = {name: _objects(lists, name) for name in STORAGES}

    def load(self) -> None:
        volumes = self._lists["pvs"]
        for name in ("namespaces", "priorityClasses", "storageClasses", "nodes", "pvcs"):
            for obj in self._lists[name]:
                if not _is_system(STORAGES[name], obj["metadata"]["name"]):
                    self._create(name, obj)
        for volume in volumes:
            self._refer_to_claim(volume)
            self._create("pvs", volume)
        # A pending pod must not take the place of one that already has a node.
        for pod in sorted(self._lists["pods"], key=lambda each: not (each.get("spec") or {}).get("nodeName")):
            self._load_pod(pod)

    def _load_pod(self, pod: JSON) -> None:
        status = pod.get("status") or {}
        spec = pod.get("spec") or {}
        account = spec.get("serviceAccountName") or "default"
        namespace = pod["metadata"].get("namespace") or "default"
        if self._access.get(ACCOUNTS, f"{namespace}/{account}") is None:
            self._access.create(ACCOUNTS, {"metadata": {"name": account, "namespace": namespace}})
        created = self._create("pods", pod)
        if status.get("phase") in _FINISHED:
            self._access.edit_status(
                PODS, f"{namespace}/{created['metadata']['name']}", lambda obj: obj.update(status=status)
            )

    def _refer_to_claim(self, volume: JSON) -> None:
        """The claim of a bound volume has another UID now."""
        claim = (volume.get("spec") or {}).get("claimRef")
        if isinstance(claim, dict):
            found = self._access.get(CLAIMS, f"{claim.get('namespace')}/{claim.get('name')}")
            claim.pop("uid", None)
            claim.pop("resourceVersion", None)
            if found is not None:
                claim["uid"] = found["metadata"]["uid"]

    def _create(self, name: str, obj: JSON) -> JSON:
        resource = self._access.resource(STORAGES[name])
        meta = obj["metadata"]
        if resource.namespaced:
            meta.setdefault("namespace", "default")
        for field in _IDENTITY:
            meta.pop(field, None)
        try:
            return self._checked(resource, obj)
        except StatusError as error:
            where = "/".join(filter(None, (meta.get("namespace"), str(meta.get("name", "")))))
            raise StatusError(error.code, f"{name}: {where}: {error.message}") from None

    def _checked(self, resource: ApiResource, obj: JSON) -> JSON:
        request = ApiRequest("POST", "", {"fieldValidation": "Ignore"})
        check_kind(obj, resource.group_version, resource.kind)
        check_fields(request, obj, resource.group_version, resource.kind, type_of(resource.schema))
        return self._api.writer.create(resource, obj["metadata"].get("namespace", ""), obj).load()


def _objects(lists: JSON, name: str) -> list[JSON]:
    found = [] if lists.get(name) is None else lists[name]
    if not isinstance(found, list):
        raise bad_request(f"{name}: expected a list of objects")
    for index, each in enumerate(found):
        meta = each.get("metadata") if isinstance(each, dict) else None
        if not isinstance(meta, dict) or not isinstance(meta.get("name"), str):
            raise bad_request(f"{name}[{index}]: expected an object with metadata.name")
    return found
