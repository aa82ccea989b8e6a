"""Object metadata: names, identity, dates, versions, generations.

Clients may write labels, annotations, finalizers and owners. The server owns all other fields and ignores what clients
send in them.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.names import NameGenerator
from kubesched.apiserver.validation.problems import IMMUTABLE, Problems
from kubesched.apiserver.wire.status import StatusError, bad_request, conflict, invalid
from kubesched.base.types import JSON


def timestamp(seconds: float) -> str:
    """A date in the format of metadata, in whole seconds."""
    return _timestamp(int(seconds))


@lru_cache(maxsize=64)
def _timestamp(seconds: int) -> str:
    """Cached, because hundreds of objects are written within one second and formatting costs more than encoding."""
    days, second = divmod(seconds, 86_400)
    return f"{_date(days)}T{second // 3600:02}:{second // 60 % 60:02}:{second % 60:02}Z"


@lru_cache(maxsize=64)
def _date(days: int) -> str:
    """The date so many days after the epoch."""
    return datetime.fromtimestamp(days * 86_400, UTC).date().isoformat()


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of a date in an object."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def check_namespace(resource: ApiResource, namespace: str, obj: JSON) -> None:
    """Check that the object's namespace is the one in the path, or set it."""
    meta: JSON = obj["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    sent = meta.get("namespace") or namespace
    if sent != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = namespace


def prepare_create(obj: JSON, names: NameGenerator, now: float) -> None:
    """Give a new object its identity."""
    meta: JSON = obj["metadata"]
    if meta.get("resourceVersion") not in (None, "", "0"):
        raise StatusError(500, "resourceVersion should not be set on objects to be created")
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"):
        meta.pop(field, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = names.name(meta["generateName"])
    meta["uid"] = names.uid()
    meta["creationTimestamp"] = timestamp(now)
    _drop_empty(meta)


def _drop_empty(meta: JSON) -> None:
    for field in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields", "generateName"):
        if field in meta and not meta[field]:
            del meta[field]


_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


_WITH_VERSION = frozenset(
    (
        "apiextensions.k8s.io/customresourcedefinitions",
        "apiregistration.k8s.io/apiservices",
        "coordination.k8s.io/leases",
        "node.k8s.io/runtimeclasses",
        "policy/poddisruptionbudgets",
        "storage.k8s.io/csidrivers",
        "storage.k8s.io/csinodes",
        "storage.k8s.io/csistoragecapacities",
        "storage.k8s.io/volumeattachments",
    )
)


def _needs_version(resource: ApiResource) -> bool:
    """Whether a PUT must say which version it replaces."""
    return resource.custom or resource.group == "admissionregistration.k8s.io" or resource.storage in _WITH_VERSION


def check_name(name: str, obj: JSON) -> None:
    """Check that the name of an object is the one in the path."""
    if (sent := obj["metadata"].get("name")) and sent != name:
        raise bad_request(f"the name of the object ({sent}) does not match the name on the URL ({name})")


def prepare_update(resource: ApiResource, old: JSON, new: JSON, verb: str) -> None:
    """Check the UID and version that an update is for, and restore the fields that the server owns.

    The UID in a PUT is a precondition. A patch that sets another one is invalid.
    """
    before, after = old["metadata"], new["metadata"]
    name = before["name"]
    if (uid := after.get("uid")) and uid != before["uid"]:
        if verb == "patch":
            problems = Problems()
            problems.invalid("metadata.uid", uid, IMMUTABLE)
            raise invalid(resource.kind, resource.group, name, problems.found)
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        raise conflict(resource.plural, resource.group, name, why)
    if verb == "update" and not after.get("resourceVersion") and _needs_version(resource):
        problems = Problems()
        problems.invalid("metadata.resourceVersion", 0, "must be specified for an update")
        raise invalid(resource.plural, resource.group, name, problems.found)
    # "0" is as good as no version: the update applies to whatever is stored.
    if (version := after.get("resourceVersion")) and version not in ("0", before["resourceVersion"]):
        raise conflict(resource.plural, resource.group, name)
    for field in (*_SERVER_OWNED, "name", "resourceVersion", "generateName"):
        if field in before:
            after[field] = before[field]
        else:
            after.pop(field, None)
    after.pop("selfLink", None)
    _drop_empty(after)


def bump_generation(obj: JSON) -> None:
    obj["metadata"]["generation"] = obj["metadata"].get("generation", 0) + 1


def is_terminating(obj: JSON) -> bool:
    return "deletionTimestamp" in obj["metadata"]
