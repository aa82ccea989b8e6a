"""Objects as they were read from a cluster, to begin with: what ``kubectl get -o json`` prints is a scenario's too."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SET_BY_SERVER = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink")
OWNED_BEFORE_OWNERS = (
    *("Pod", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"),
    *("Deployment", "CronJob"),
)
"""Kinds that come after all others: so that owners find what is theirs, and make no more of it."""
ENDED = ("Succeeded", "Failed")


def unwrapped(value: object, path: str) -> Iterator[tuple[str, object]]:
    """The objects in a List, each with its path, or the one that is none."""
    kind = value.get("kind") if isinstance(value, dict) else None
    items = value.get("items") if isinstance(value, dict) else None
    if not (isinstance(value, dict) and isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield path, value
        return
    # A PodList says once for all what its items are.
    named = {} if kind == "List" else {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(items):
        yield f"{path}.items[{index}]", {**named, **item} if isinstance(item, dict) else item


def was_read(obj: object) -> bool:
    """Whether an object comes from a cluster, and not from somebody's hands."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("resourceVersion"))


def has_ended(obj: Any) -> bool:
    """Whether it is a pod that has run: made anew it would run once more."""
    return obj.get("kind") == "Pod" and (obj.get("status") or {}).get("phase") in ENDED


def as_new(obj: Any) -> Any:
    """An object that was read, as it could be created in another cluster: without what that one gave it.

    Owners have other UIDs there, and find again what is theirs; so do claims and volumes, by name.
    """
    new = {**obj, "metadata": _without(obj["metadata"], *SET_BY_SERVER, "ownerReferences")}
    spec = obj.get("spec")
    if obj.get("kind") == "Service" and isinstance(spec, dict) and spec.get("clusterIP") != "None":
        new["spec"] = _without(spec, "clusterIP", "clusterIPs")
    elif obj.get("kind") == "PersistentVolume" and isinstance(spec, dict) and isinstance(spec.get("claimRef"), dict):
        new["spec"] = {**spec, "claimRef": _without(spec["claimRef"], "uid", "resourceVersion")}
    return new


def _without(fields: dict[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if name not in names}


def rank(obj: Any) -> int:
    """When it comes in the order in which objects that were read are created."""
    kind = obj.get("kind")
    if kind == "Namespace":
        return -1
    return OWNED_BEFORE_OWNERS.index(kind) + 1 if kind in OWNED_BEFORE_OWNERS else 0
