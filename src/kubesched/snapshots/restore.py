"""Puts the objects of a snapshot into an API server, as if it had been restarted with them.

Objects that were read from a cluster are stored as they are, with their UIDs and their status: owners keep their pods,
Jobs that are complete stay complete, and pods that have ended do not run again. Objects that were written by hand are
created as kubectl would create them, and controllers generate what they imply.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.kinds.conversion import to_stored
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.annotations import KUBELET
from kubesched.base.types import JSON
from kubesched.snapshots.cleaning import FORBIDDEN_KINDS
from kubesched.snapshots.contents import Item

FIRST = ("CustomResourceDefinition", "Namespace", "PriorityClass", "StorageClass", "ServiceAccount", "Node")
LAST = ("Pod", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job", "Deployment", "CronJob")
"""Dependents before owners, so that owners find them and create no new ones."""


@dataclass(slots=True)
class Restored:
    """What became of the objects."""

    stored: int = 0
    ignored: Counter[str] = field(default_factory=Counter)
    """Kinds that the API server does not have, and how many objects of each there were."""
    refused: list[str] = field(default_factory=list)
    """Why objects written by hand were not created."""


def restore(api: ApiServer, items: Iterable[Item]) -> Restored:
    """Store objects. Those that exist already stay as they are."""
    return Restorer(api).restore(items)


class Restorer:
    """Stores objects in an API server, one by one or all of a snapshot."""

    def __init__(self, api: ApiServer, *, keep_owners: bool = False) -> None:
        """With `keep_owners`, objects keep references to owners that do not exist. No collector must be at work."""
        self._api = api
        self._keep_owners = keep_owners
        self._resources: dict[tuple[str, str], ApiResource | None] = {}
        self.result = Restored()

    def restore(self, items: Iterable[Item]) -> Restored:
        """Store objects in an order in which none refers to a later one."""
        ordered = sorted(items, key=lambda each: _rank(each.kind))
        known = {each.meta.uid or "" for each in ordered}
        for each in ordered:
            self._restore(each, known)
        return self.result

    def resource(self, item: Item) -> ApiResource | None:
        """Where an object is stored, if its kind is served in its version."""
        key = (item.version, item.kind)
        if self._resources.get(key) is None:
            served = (each for each in self._api.registry if (each.group_version, each.kind) == key)
            found = next(served, None)
            allowed = found is not None and found.is_stored and item.kind not in FORBIDDEN_KINDS
            self._resources[key] = found if allowed else None
        return self._resources[key]

    def _restore(self, item: Item, known: set[str]) -> None:
        resource = self.resource(item)
        if resource is None:
            self.result.ignored[item.kind] += 1
            return
        body = item.body()
        metadata = body.setdefault("metadata", {})
        if resource.namespaced:
            metadata.setdefault("namespace", "default")
            self._ensure_namespace(metadata["namespace"])
        key = resource.key(metadata.get("namespace", ""), str(metadata.get("name") or ""))
        if self._api.store.get(resource.storage, key) is not None:
            return
        if item.was_read:
            owners = None if self._keep_owners else known
            self._api.store.put(resource.storage, key, to_stored(resource, _as_stored(body, owners)))
            self.result.stored += 1
        else:
            self._create(resource, body, item.where)

    def _create(self, resource: ApiResource, body: JSON, where: str) -> None:
        try:
            self._api.writer.create(resource, body["metadata"].get("namespace", ""), body)
        except StatusError as error:
            self.result.refused.append(f"{where}: {error}" if where else str(error))
        else:
            self.result.stored += 1

    def _ensure_namespace(self, name: str) -> None:
        """A snapshot of some kinds may have objects without their namespaces."""
        namespaces = self._api.registry.by_kind("", "Namespace")
        assert namespaces is not None
        if self._api.store.get(namespaces.storage, name) is None:
            body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
            self._api.writer.create(namespaces, "", body)


def _rank(kind: str) -> int:
    if kind in FIRST:
        return FIRST.index(kind) - len(FIRST)
    return LAST.index(kind) + 1 if kind in LAST else 0


def _as_stored(body: JSON, owners: set[str] | None) -> JSON:
    """The object without references to owners that are not in the snapshot: it would be deleted with them."""
    metadata = {key: value for key, value in body["metadata"].items() if key not in ("managedFields", "selfLink")}
    if owners is not None and "ownerReferences" in metadata:
        kept = [each for each in metadata["ownerReferences"] or () if str(each.get("uid")) in owners]
        metadata["ownerReferences"] = kept
    body = {**body, "metadata": metadata}
    return _silenced(body) if body["kind"] == "Node" else body


def _silenced(node: JSON) -> JSON:
    """A node that is not ready stays so: its kubelet is silent."""
    conditions: list[Any] = (node.get("status") or {}).get("conditions") or []
    ready = next((each.get("status") for each in conditions if each.get("type") == "Ready"), "True")
    if ready == "True":
        return node
    annotations = {**(node["metadata"].get("annotations") or {}), KUBELET: "stopped"}
    return {**node, "metadata": {**node["metadata"], "annotations": annotations}}
