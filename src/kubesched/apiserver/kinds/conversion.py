"""Conversion between stored and served objects: Events of two groups, autoscalers and other kinds in versions.

Events are stored in the core form, with the older field names. Fields without a counterpart keep their names.
"""

from __future__ import annotations

from kubesched.apiserver.kinds.autoscalers import autoscaler_to_v1, autoscaler_to_v2, is_old_autoscaler
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.storage.store import Record, decode, encode
from kubesched.base.types import JSON

_TO_CORE = {
    "regarding": "involvedObject",
    "note": "message",
    "reportingController": "reportingComponent",
    "deprecatedSource": "source",
    "deprecatedFirstTimestamp": "firstTimestamp",
    "deprecatedLastTimestamp": "lastTimestamp",
    "deprecatedCount": "count",
}
_FROM_CORE = {core: new for new, core in _TO_CORE.items()}
_NEW_EVENTS = "events.k8s.io"


def is_converted(resource: ApiResource) -> bool:
    """Whether the served form differs from the stored one."""
    return resource.group == _NEW_EVENTS or _has_versions(resource) or is_old_autoscaler(resource)


def to_stored(resource: ApiResource, obj: JSON) -> JSON:
    """The stored form of an object."""
    if resource.group == _NEW_EVENTS:
        return {**_renamed(obj, _TO_CORE), "apiVersion": "v1"}
    if resource.stored_version:
        return {**obj, "apiVersion": f"{resource.group}/{resource.stored_version}"}
    return autoscaler_to_v2(obj) if is_old_autoscaler(resource) else obj


def to_served(resource: ApiResource, obj: JSON) -> JSON:
    """The served form of a stored object."""
    if resource.group == _NEW_EVENTS:
        return {**_renamed(obj, _FROM_CORE), "apiVersion": f"{_NEW_EVENTS}/v1"}
    if _has_versions(resource):
        obj["apiVersion"] = resource.group_version
        if resource.complete_on_read is not None:
            resource.complete_on_read(obj)
    return autoscaler_to_v1(obj) if is_old_autoscaler(resource) else obj


def served_object(resource: ApiResource, record: Record) -> JSON:
    """The served form of a record, as a new dict."""
    return to_served(resource, record.load())


def served_bytes(resource: ApiResource, data: bytes) -> bytes:
    """The served form of stored bytes. Mostly they are the same."""
    if not is_converted(resource):
        return data
    in_version = _has_versions(resource) and f'"apiVersion":"{resource.group_version}"'.encode() in data[:200]
    if in_version and resource.complete_on_read is None:
        return data
    return encode(to_served(resource, decode(data)))


def _has_versions(resource: ApiResource) -> bool:
    """Whether its objects may be stored in another version, which differs in nothing but its name."""
    return resource.custom or bool(resource.stored_version)


def _renamed(obj: JSON, names: dict[str, str]) -> JSON:
    return {names.get(key, key): value for key, value in obj.items()}
