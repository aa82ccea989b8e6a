"""The path of every write: defaults, admission, validation, storage.

Nothing here awaits, so no other write can come between reading an object and storing its next version.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from kubesched.apiserver import meta
from kubesched.apiserver.admission import defaults
from kubesched.apiserver.admission.admission import Admission
from kubesched.apiserver.apply.managers import Manager, track, track_creation
from kubesched.apiserver.apply.shapes import DEDUCED, MergeShape, custom, typed
from kubesched.apiserver.crd.custom_resources import CustomResources
from kubesched.apiserver.kinds.conversion import served_object, to_stored
from kubesched.apiserver.kinds.registry import ApiResource, ResourceRegistry
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.names import NameGenerator
from kubesched.apiserver.policies.attributes import SERVER, AdmissionAttributes, no_warning
from kubesched.apiserver.rest import strategies
from kubesched.apiserver.storage.store import Record, Store, encode
from kubesched.apiserver.validation import validate as validation
from kubesched.apiserver.validation.typecheck import drop_empty
from kubesched.apiserver.validation.warnings import warnings_about
from kubesched.apiserver.wire.request import UserInfo
from kubesched.apiserver.wire.status import Cause, StatusError, already_exists, bad_request, invalid, not_found
from kubesched.base.clock import Clock
from kubesched.base.types import JSON

_GENERATE_TRIES = 8
_FIXED_AT_CREATION = ("uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds")
"""Metadata that no admission policy may set."""

_EMPTY_COUNTS = ("/namespaces", "autoscaling/horizontalpodautoscalers")
"""Kinds in which an update may empty a list that has a default."""

ReportUnknown = Callable[[JSON, list[str]], None]
"""Takes an object and the paths of the unknown fields that were dropped from it. May refuse the write."""


Warn = Callable[[str], None]
"""Sends a warning to the client."""


def _ignore_unknown(_obj: JSON, _paths: list[str]) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Preconditions:
    """The UID and version that an object must have for a deletion to apply."""

    uid: str = ""
    version: str = ""

    def check(self, resource: ApiResource, obj: JSON) -> None:
        found = obj["metadata"]
        if self.uid and self.uid != found["uid"]:
            why = f"Precondition failed: UID in precondition: {self.uid}, UID in object meta: {found['uid']}"
            raise _precondition_failed(resource, found["name"], why)
        if self.version and self.version != found["resourceVersion"]:
            why = (
                f"Precondition failed: ResourceVersion in precondition: {self.version},"
                f" ResourceVersion in object meta: {found['resourceVersion']}"
            )
            raise _precondition_failed(resource, found["name"], why)


NO_PRECONDITIONS = Preconditions()


def _precondition_failed(resource: ApiResource, name: str, why: str) -> StatusError:
    message = f'Operation cannot be fulfilled on {resource.qualified} "{name}": {why}'
    return StatusError(409, message, details={"name": name, "kind": resource.plural})


class Writer:
    """Creates, changes and removes objects."""

    def __init__(
        self,
        store: Store,
        registry: ResourceRegistry,
        custom: CustomResources,
        admission: Admission,
        names: NameGenerator,
        clock: Clock,
    ) -> None:
        self.store = store
        self.registry = registry
        self.custom = custom
        self.admission = admission
        self.names = names
        self.clock = clock

    def find(self, resource: ApiResource, namespace: str, name: str) -> Record:
        """The stored object; 404 if there is none."""
        record = self.store.get(resource.storage, resource.key(namespace, name))
        if record is None:
            raise not_found(resource.plural, resource.group, name)
        return record

    def shape(self, resource: ApiResource) -> MergeShape:
        """How objects of a kind merge in server-side apply."""
        type_, metadata = type_of(resource.schema), type_of("meta.ObjectMeta")
        if type_ is not None:
            return typed(type_)
        return DEDUCED if metadata is None else custom(self.custom.schema(resource), metadata)

    # --- create -------------------------------------------------------------------------------------------------------

    def create(
        self,
        resource: ApiResource,
        namespace: str,
        obj: JSON,
        *,
        dry_run: bool = False,
        user: UserInfo | None = None,
        report_unknown: ReportUnknown = _ignore_unknown,
        warn: Warn = no_warning,
        manager: Manager | None = None,
    ) -> Record:
        """Store a new object and return what was stored."""
        report_unknown(obj, self.custom.complete(resource, obj))
        meta.check_namespace(resource, namespace, obj)
        generated = not obj["metadata"].get("name") and bool(obj["metadata"].get("generateName"))
        meta.prepare_create(obj, self.names, self.clock.now())
        self._complete_name(resource, namespace, obj, generated)
        self.admission.check_namespace(resource, namespace, obj)
        attributes = AdmissionAttributes("CREATE", resource, obj, None, user or SERVER, dry_run=dry_run, warn=warn)

        def prepare(each: JSON) -> None:
            strategies.prepare_create(resource, each)
            defaults.apply_to_new(resource, each, self.clock.now())
            if manager is not None and not each["metadata"].get("managedFields"):
                track_creation(each, self.shape(resource), manager)
            self.admission.create(resource, each, user)

        obj = self._admitted(attributes, prepare)
        problems = self.admission.problems(resource, obj) + validation.creation_problems(resource, obj)
        self._check(resource, obj, problems + self.custom.problems(resource, obj))
        self.admission.validate(attributes if obj is attributes.obj else replace(attributes, obj=obj))
        _warn(resource, obj, warn)
        if resource.storage != "/pods" and (type_ := type_of(resource.schema)) is not None:
            drop_empty(obj, type_)
        key = resource.key(namespace, obj["metadata"]["name"])
        if (known := self.store.get(resource.storage, key)) is not None:
            raise already_exists(
                resource.plural, resource.group, obj["metadata"]["name"], terminating=meta.is_terminating(known.load())
            )
        return self._put(resource, key, obj, dry_run)

    def _admitted(self, attributes: AdmissionAttributes, prepare: Callable[[JSON], None]) -> JSON:
        """The object of a write after defaults, built-in admission and the policies that change objects."""
        if not self.admission.mutating.is_used and attributes.obj is not None:
            prepare(attributes.obj)
            return attributes.obj
        resource, namespace = attributes.resource, attributes.metadata.get("namespace", "")
        identity = {field: text for field, text in attributes.metadata.items() if field in _FIXED_AT_CREATION}

        def prepare_changed(obj: JSON) -> None:
            found = obj.setdefault("metadata", {})
            meta.check_namespace(resource, namespace, obj)
            if attributes.old is None:
                for field in _FIXED_AT_CREATION:
                    found.pop(field, None)
                found.update(identity)
            self.custom.complete(resource, obj)
            prepare(obj)

        return self.admission.mutating.apply(attributes, lambda: self.shape(resource), prepare, prepare_changed)

    def _complete_name(self, resource: ApiResource, namespace: str, obj: JSON, generated: bool) -> None:
        if not generated:
            return
        for _ in range(_GENERATE_TRIES):
            if self.store.get(resource.storage, resource.key(namespace, obj["metadata"]["name"])) is None:
                return
            obj["metadata"]["name"] = self.names.name(obj["metadata"]["generateName"])

    def _put(self, resource: ApiResource, key: str, obj: JSON, dry_run: bool) -> Record:
        stored = to_stored(resource, obj)
        if not dry_run:
            return self.store.put(resource.storage, key, stored)
        return Record(key, self.store.version, encode(stored), {}, {})

    # --- update -------------------------------------------------------------------------------------------------------

    def update(
        self,
        resource: ApiResource,
        namespace: str,
        name: str,
        change: Callable[[JSON], JSON],
        *,
        subresource: str = "",
        dry_run: bool = False,
        user: UserInfo | None = None,
        verb: str = "update",
        report_unknown: ReportUnknown = _ignore_unknown,
        warn: Warn = no_warning,
        manager: Manager | None = None,
        scale: Callable[[JSON], JSON] | None = None,
    ) -> Record:
        """Store the result of `change`. A terminating object whose last finalizer was removed is deleted.

        `scale` makes the Scale of an object, for a write to that: policies see it in place of the object.
        """
        record = self.find(resource, namespace, name)
        old = served_object(resource, record)
        new = change(served_object(resource, record))
        if not (new.get("metadata") or {}).get("name"):
            why = f"the name of the object ({name} based on URL) was undeterminable: name must be provided"
            raise bad_request(why)
        meta.check_name(name, new)
        report_unknown(new, self.custom.complete(resource, new))
        if resource.namespaced:
            meta.check_namespace(resource, namespace, new)
        attributes = AdmissionAttributes("UPDATE", resource, new, old, user or SERVER, subresource, dry_run, warn)

        type_ = None if resource.storage in _EMPTY_COUNTS or subresource == "status" else type_of(resource.schema)

        def prepare(each: JSON) -> None:
            if type_ is not None:
                drop_empty(each, type_)
            meta.prepare_update(resource, old, each, verb)
            defaults.apply(resource, each, self.clock.now())
            strategies.PREPARE[subresource](resource, old, each)
            self.admission.update(resource, old, each, user, subresource)

        if scale is None:
            new = self._admitted(attributes, prepare)
        else:
            prepare(new)
        if manager is not None:
            track(old, new, self.shape(resource), manager)
        problems = validation.update_problems(resource, old, new, subresource)
        if subresource == "status":
            problems = self.admission.status_problems(resource, old, new, verb, user) + problems
        self._check(resource, new, problems + self.custom.problems(resource, new, old))
        if scale is not None:
            attributes = replace(attributes, obj=scale(new), old=scale(old), subresource="scale")
        elif new is not attributes.obj:
            attributes = replace(attributes, obj=new)
        self.admission.validate(attributes)
        if new == old:
            return record
        if not subresource and old.get("spec") != new.get("spec"):
            _warn(resource, new, warn)
        if self._is_finished(resource, new):
            return self._remove(resource, record, new, dry_run)
        return self._put(resource, record.key, new, dry_run)

    def _is_finished(self, resource: ApiResource, obj: JSON) -> bool:
        """Whether an object is terminating and nothing keeps it any more."""
        found = obj["metadata"]
        if "deletionTimestamp" not in found or found.get("finalizers"):
            return False
        if resource.storage == "/namespaces":
            return not (obj.get("spec") or {}).get("finalizers")
        return not found.get("deletionGracePeriodSeconds")

    def _remove(self, resource: ApiResource, record: Record, last: JSON, dry_run: bool) -> Record:
        stored = to_stored(resource, last)
        if dry_run:
            return Record(record.key, record.version, encode(stored), {}, {})
        return self.store.delete(resource.storage, record.key, stored)

    def remove(self, resource: ApiResource, record: Record, *, dry_run: bool = False) -> Record:
        """Remove an object at once."""
        return record if dry_run else self.store.delete(resource.storage, record.key)

    def put(self, resource: ApiResource, record: Record, obj: JSON, *, dry_run: bool = False) -> Record:
        """Store an object's next version unchecked, for the server's own changes."""
        return self._put(resource, record.key, obj, dry_run)

    def _check(self, resource: ApiResource, obj: JSON, problems: list[Cause]) -> None:
        if problems:
            # An Event of the newer group is refused in the name of the older.
            group = resource.stored_as.partition("/")[0] if resource.stored_as else resource.group
            raise invalid(resource.kind, group, obj["metadata"].get("name", ""), problems)


def _warn(resource: ApiResource, obj: JSON, warn: Warn) -> None:
    """Send upstream's warnings about an object to a client that reads them."""
    if warn is not no_warning:
        for text in warnings_about(resource, obj):
            warn(text)


def replacement(sent: JSON, resource: ApiResource) -> Callable[[JSON], JSON]:
    """The change that a PUT makes: the object as it was sent."""

    return lambda _old: sent
