"""Extended resources that device classes stand for.

A class may name an extended resource. Pods that request it get devices of the class, unless their node provides the
resource by a device plugin.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.resources import is_extended
from kubesched.cluster.state import ClusterState

NONE: Mapping[str, dra.DeviceClass] = {}


class DeviceClassResolver:
    """Looks up the device class behind an extended resource."""

    def __init__(self, cluster: ClusterState) -> None:
        self._cluster = cluster
        self._version = -1
        self._classes = NONE

    def class_of(self, resource: str) -> dra.DeviceClass | None:
        """The class that provides a resource; None if devices do not provide it."""
        if self._version != self._cluster.version(api.DeviceClass):
            self._version = self._cluster.version(api.DeviceClass)
            enabled = self._cluster.features.dra_extended_resource
            self._classes = _by_resource(self._cluster.all(api.DeviceClass)) if enabled else NONE
        return self._classes.get(resource) if self._classes else None


def may_be_devices(resource: str) -> bool:
    """Whether a resource has a name that a device class may stand behind."""
    return resource.startswith(dra.DEVICE_CLASS_PREFIX) or is_extended(resource)


def _by_resource(classes: Iterable[dra.DeviceClass]) -> Mapping[str, dra.DeviceClass]:
    """Of classes that name the same resource the newest counts, and of those the first by name."""
    found: dict[str, dra.DeviceClass] = {}
    by_name = sorted(classes, key=lambda each: each.name, reverse=True)
    for each in sorted(by_name, key=lambda each: each.metadata.creation_timestamp or ""):
        found[dra.DEVICE_CLASS_PREFIX + each.name] = each
        if each.spec.extended_resource_name is not None:
            found[each.spec.extended_resource_name] = each
    return found
