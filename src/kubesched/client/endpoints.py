"""Where the API server serves each kind: its path, whether it has namespaces, and which of its objects to select."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from kubesched.api import objects as api

_PLAIN = re.compile(r"[\w.-]+", re.ASCII)
"""Names that need no quotes, which nearly all are."""


@lru_cache(maxsize=1024)
def _collection(group_version: str, plural: str, namespace: str) -> str:
    """The path of a namespace's objects, or of all."""
    scope = f"/namespaces/{quote(namespace, safe='')}" if namespace else ""
    return f"/{'apis' if '/' in group_version else 'api'}/{group_version}{scope}/{plural}"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where a kind is served: what its paths are made of, and how messages name it."""

    group_version: str
    plural: str
    namespaced: bool = True
    namespace: str = ""
    """The only namespace to list and watch; empty for all."""
    field_selector: str = ""
    """Which objects to list and watch; empty for all."""

    @property
    def group(self) -> str:
        return self.group_version.rpartition("/")[0]

    def path(self, namespace: str = "", name: str = "", subresource: str = "") -> str:
        """The path of one object, of a namespace's objects, or of all objects."""
        path = _collection(self.group_version, self.plural, namespace or self.namespace)
        if name:
            path = f"{path}/{name if _PLAIN.fullmatch(name) else quote(name, safe='')}"
        return f"{path}/{subresource}" if subresource else path

    def __str__(self) -> str:
        """As the API server names it in its messages: ``pods``, ``storageclasses.storage.k8s.io``."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


EVENTS = Endpoint("events.k8s.io/v1", "events")
CORE_EVENTS = Endpoint("v1", "events")
LEASES = Endpoint("coordination.k8s.io/v1", "leases")

POD_FIELD_SELECTOR = "status.phase!=Succeeded,status.phase!=Failed"
"""Pods that have ended use nothing on their node. Like upstream, we do not list or watch them."""

_PLURALS: dict[type[api.Object], tuple[str, bool]] = {
    api.Node: ("nodes", False),
    api.Namespace: ("namespaces", False),
    api.Service: ("services", True),
    api.ReplicationController: ("replicationcontrollers", True),
    api.ReplicaSet: ("replicasets", True),
    api.StatefulSet: ("statefulsets", True),
    api.PersistentVolumeClaim: ("persistentvolumeclaims", True),
    api.PersistentVolume: ("persistentvolumes", False),
    api.StorageClass: ("storageclasses", False),
    api.CSINode: ("csinodes", False),
    api.CSIDriver: ("csidrivers", False),
    api.CSIStorageCapacity: ("csistoragecapacities", True),
    api.VolumeAttachment: ("volumeattachments", False),
    api.PodDisruptionBudget: ("poddisruptionbudgets", True),
    api.PriorityClass: ("priorityclasses", False),
    api.DeviceClass: ("deviceclasses", False),
    api.DeviceTaintRule: ("devicetaintrules", False),
    api.ResourceClaim: ("resourceclaims", True),
    api.ResourceClaimTemplate: ("resourceclaimtemplates", True),
    api.ResourceSlice: ("resourceslices", False),
    api.PodGroup: ("podgroups", True),
    api.Workload: ("workloads", True),
}

ENDPOINTS = {kind: Endpoint(kind.api_version, *row) for kind, row in _PLURALS.items()} | {
    api.Pod: Endpoint(api.Pod.api_version, "pods", field_selector=POD_FIELD_SELECTOR)
}


def endpoint_of_event(event: Mapping[str, Any]) -> Endpoint:
    """Where to create an Event: in the old API if its apiVersion says so, as leader election still does."""
    return CORE_EVENTS if event.get("apiVersion") == CORE_EVENTS.group_version else EVENTS


def endpoint_of(kind: type[api.Object]) -> Endpoint:
    """Where a kind is served. A kind that is not in the table has a `plural`, or an `endpoint` that selects a part."""
    found = ENDPOINTS.get(kind) or getattr(kind, "endpoint", None)
    if isinstance(found, Endpoint):
        return found
    if not (kind.api_version and kind.plural):
        what = "give it the class variables api_version, kind, plural and, if it has no namespaces, namespaced"
        raise TypeError(f"{kind.__name__} has no path at the API server; {what}")
    return Endpoint(kind.api_version, kind.plural, kind.namespaced)
