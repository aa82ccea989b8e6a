"""What the server does with metadata: names, identity, dates, versions, generations.

Clients may write labels, annotations, finalizers and owners; everything else in metadata is the server's, and whatever
a client sends there is put back to what it was.
"""

from __future__ import annotations

import os
import random
import uuid
from datetime import UTC, datetime
from functools import lru_cache

from kubesched.apiserver.kinds.resources import Resource
from kubesched.apiserver.wire.status import StatusError, bad_request, conflict
from kubesched.base.types import JSON

# No vowels and nothing that is easily misread, so that no words come about: upstream's alphabet.
_SUFFIX_ALPHABET = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED_BASE = 58

_random = random.Random(os.urandom(8))


def seed(value: int) -> None:
    """Make all names and UIDs from now on follow from a number, so that a simulation can be repeated."""
    _random.seed(value)


def timestamp(seconds: float) -> str:
    """A date as metadata has it, in whole seconds."""
    return _timestamp(int(seconds))


@lru_cache(maxsize=64)
def _timestamp(seconds: int) -> str:
    """Remembered, because hundreds of objects are written within one second and formatting costs more than encoding."""
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")


def parse_timestamp(text: str) -> float:
    """Seconds since the epoch of a date in an object."""
    return datetime.fromisoformat(text.replace("Z", "+00:00")).timestamp()


def random_suffix() -> str:
    return "".join(_random.choices(_SUFFIX_ALPHABET, k=5))


def new_uid() -> str:
    """A random UUID; made from a seeded generator because reading the system's for every object costs a system call."""
    return str(uuid.UUID(int=_random.getrandbits(128), version=4))


def generated_name(base: str) -> str:
    return base[:_MAX_GENERATED_BASE] + random_suffix()


def check_namespace(resource: Resource, namespace: str, obj: JSON) -> None:
    """See that the object is of the namespace in the path, and write it in."""
    meta: JSON = obj["metadata"]
    if not resource.namespaced:
        meta.pop("namespace", None)
        return
    sent = meta.get("namespace") or namespace
    if sent != namespace:
        raise bad_request("the namespace of the provided object does not match the namespace sent on the request")
    meta["namespace"] = namespace


def prepare_create(obj: JSON, now: float) -> None:
    """Give a new object its identity."""
    meta: JSON = obj["metadata"]
    if meta.get("resourceVersion"):
        raise StatusError(500, "resourceVersion should not be set on objects to be created")
    for field in ("deletionTimestamp", "deletionGracePeriodSeconds", "selfLink", "resourceVersion", "generation"):
        meta.pop(field, None)
    if not meta.get("name") and meta.get("generateName"):
        meta["name"] = generated_name(meta["generateName"])
    meta["uid"] = new_uid()
    meta["creationTimestamp"] = timestamp(now)
    _drop_empty(meta)


def _drop_empty(meta: JSON) -> None:
    for field in ("labels", "annotations", "finalizers", "ownerReferences", "managedFields", "generateName"):
        if field in meta and not meta[field]:
            del meta[field]


_SERVER_OWNED = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "generation")


def prepare_update(resource: Resource, old: JSON, new: JSON) -> None:
    """Check that the update is to this very object in this very version, and keep what is the server's."""
    before, after = old["metadata"], new["metadata"]
    name = before["name"]
    if (sent := after.get("name")) and sent != name:
        raise bad_request(f"the name of the object ({sent}) does not match the name on the URL ({name})")
    if (uid := after.get("uid")) and uid != before["uid"]:
        why = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {before['uid']}"
        raise conflict(resource.plural, resource.group, name, why)
    if (version := after.get("resourceVersion")) and version != before["resourceVersion"]:
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
