"""Log lines about extended resources that device classes stand for, as upstream's cache of them has them."""

from __future__ import annotations

from kubesched.api import devices as dra
from kubesched.base.log import Log
from kubesched.cluster.state import ClusterState

VERBOSITY = 5


def log_device_class(log: Log, cluster: ClusterState, old: dra.DeviceClass | None, new: dra.DeviceClass | None) -> None:
    """Log what a created, changed or deleted class means for extended resources."""
    if not cluster.features.dra_extended_resource:
        return
    if new is None:
        assert old is not None
        log(VERBOSITY, "DeviceClass deleted", deviceClass=old)
        log(VERBOSITY, "Removed extended resource from cache", deviceClass=old.name)
        log(VERBOSITY, "Removed device class", deviceClass=old.name)
        return
    log(VERBOSITY, "DeviceClass added" if old is None else "DeviceClass updated", deviceClass=new)
    resource = new.spec.extended_resource_name
    if not _another_counts(cluster, old, new):
        if resource is not None:
            message = "Updated extended resource cache for explicit mapping"
            log(VERBOSITY, message, extendedResource=resource, deviceClass=new.name)
        implicit = dra.DEVICE_CLASS_PREFIX + new.name
        message = "Updated extended resource cache for default mapping"
        log(VERBOSITY, message, extendedResource=implicit, deviceClass=new.name)
    if resource is not None:
        log(VERBOSITY, "Updated device class mapping", deviceClass=new.name, extendedResource=resource)


def _another_counts(cluster: ClusterState, old: dra.DeviceClass | None, new: dra.DeviceClass) -> bool:
    """Whether upstream's cache keeps the class that it has for the resource: a newer one, or the same one as before."""
    resource = new.spec.extended_resource_name
    if resource is None:
        return False
    others = [each for each in cluster.all(dra.DeviceClass) if each.name != new.name]
    if old is not None:
        others.append(old)
    return any(
        each.spec.extended_resource_name == resource
        and (
            (each.metadata.creation_timestamp or "") > (new.metadata.creation_timestamp or "")
            or (each.metadata.creation_timestamp == new.metadata.creation_timestamp and each.name <= new.name)
        )
        for each in others
    )
