"""Initial objects that were read from a real cluster, such as the output of ``kubectl get -o json``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

SET_BY_SERVER = ("resourceVersion", "uid", "creationTimestamp", "generation", "managedFields", "selfLink")
DEPENDENTS_BEFORE_OWNERS = (
    *("Pod", "ReplicaSet", "ReplicationController", "StatefulSet", "DaemonSet", "Job"),
    *("Deployment", "CronJob"),
)
"""Kinds created after all others, dependents before owners, so that owners adopt them and create no new ones."""
ENDED = ("Succeeded", "Failed")


def unwrapped(value: object, path: str) -> Iterator[tuple[str, object]]:
    """Yield the objects in a List with their paths. Yields any other object itself."""
    kind = value.get("kind") if isinstance(value, dict) else None
    items = value.get("items") if isinstance(value, dict) else None
    if not (isinstance(value, dict) and isinstance(kind, str) and kind.endswith("List") and isinstance(items, list)):
        yield path, value
        return
    # The items of a PodList have no kind of their own.
    named = {} if kind == "List" else {"apiVersion": value.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(items):
        yield f"{path}.items[{index}]", {**named, **item} if isinstance(item, dict) else item


def was_read(obj: object) -> bool:
    """Whether an object was read from a cluster and not written by hand."""
    metadata = obj.get("metadata") if isinstance(obj, dict) else None
    return isinstance(metadata, dict) and bool(metadata.get("resourceVersion"))


def has_ended(obj: Any) -> bool:
    """Whether it is a pod that has ended. Created again, it would run again."""
    return obj.get("kind") == "Pod" and (obj.get("status") or {}).get("phase") in ENDED


def as_new(obj: Any) -> Any:
    """Return the object without the values that its cluster set, so that another cluster can create it.

    Owners get new UIDs there and adopt their dependents again. Claims and volumes find each other by name.
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
    """A sort key for the order in which restored objects are created."""
    kind = obj.get("kind")
    if kind == "Namespace":
        return -1
    return DEPENDENTS_BEFORE_OWNERS.index(kind) + 1 if kind in DEPENDENTS_BEFORE_OWNERS else 0
