"""Garbage collection: deletes objects whose owners are gone, and implements the propagation policies of deletions.

The collector tracks the UIDs and owners of all objects of all kinds. Background deletion happens because the owner is
missing. Foreground deletion and orphaning are finalizers on the owner, which this controller removes when it is done.
"""

from __future__ import annotations

from functools import partial

from kubesched.api.decoding import decode_as
from kubesched.apiserver.admission.pod_groups import FINALIZER as PROTECTION
from kubesched.apiserver.rest.deletion import FOREGROUND, ORPHAN
from kubesched.apiserver.storage.store import ChangeType, Record, StoreEvent
from kubesched.base.types import JSON
from kubesched.reconcile.access import EVENTS, PODS
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Meta, Owner, View

Ref = tuple[str, str]
"""An object: the storage name of its kind, and its key."""

_CUSTOM = "apiextensions.k8s.io/customresourcedefinitions"
# Events neither own objects nor are owned, and there are many of them.
_IGNORED = frozenset((EVENTS,))
# Leases are renewed all the time, which does not matter here.
_IGNORE_UPDATES = frozenset(("coordination.k8s.io/leases",))


class GarbageCollector(Controller):
    """Deletes the dependents of deleted objects."""

    name = "garbage-collector"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._pods = context.pods
        self._uids: dict[str, Ref] = {}
        self._dependents: dict[str, dict[Ref, Owner]] = {}
        self._owners: dict[Ref, tuple[Owner, ...]] = {}
        self._followed: set[str] = set()
        self._follow_all()
        for ref in tuple(self._owners):
            self._enqueue(ref)
        self._access.store.shelf(_CUSTOM).observers.append(lambda _event: self.enqueue("kinds"))

    # --- the graph ----------------------------------------------------------------------------------------------------

    def _follow_all(self) -> None:
        """Watch every kind that is served. Custom kinds come and go."""
        for resource in self._access.api.registry:
            storage = resource.storage
            if not resource.is_stored or storage in self._followed or storage in _IGNORED:
                continue
            self._followed.add(storage)
            shelf = self._access.store.shelf(storage)
            for record in tuple(shelf.records.values()):
                self._learn((storage, record.key), self._new_meta(storage, record))
            shelf.observers.append(partial(self._on_event, storage))

    def _on_event(self, storage: str, event: StoreEvent) -> None:
        record = event.record
        ref = (storage, record.key)
        if event.change is ChangeType.DELETED:
            self._forget(ref, _meta(record))
        elif event.change is ChangeType.ADDED or (storage not in _IGNORE_UPDATES and _may_matter(event)):
            self._learn(ref, self._new_meta(storage, record))

    def _new_meta(self, storage: str, record: Record) -> Meta:
        """The metadata of an object as it is now, from the shared cache of pods if it is one."""
        pod = self._pods.get(record.key) if storage == PODS else None
        return _meta(record) if pod is None else pod.metadata

    def _learn(self, ref: Ref, meta: Meta) -> None:
        self._uids[meta.uid] = ref
        before = self._owners.get(ref, ())
        if before != meta.owner_references:
            for owner in before:
                self._unlink(owner, ref)
            if meta.owner_references:
                self._owners[ref] = meta.owner_references
            else:
                self._owners.pop(ref, None)
            for owner in meta.owner_references:
                self._dependents.setdefault(owner.uid, {})[ref] = owner
                if owner.uid not in self._uids:
                    self._enqueue(ref)
        if meta.being_deleted and (FOREGROUND in meta.finalizers or ORPHAN in meta.finalizers):
            self._enqueue(ref)
        if _waits_for_pods(meta):
            for dependent in self._dependents.get(meta.uid, ()):
                self._enqueue(dependent)

    def _unlink(self, owner: Owner, ref: Ref) -> None:
        known = self._dependents.get(owner.uid)
        if known is not None:
            known.pop(ref, None)
            if not known:
                del self._dependents[owner.uid]
        # This may have been the last dependent that a foreground deletion waited for.
        if (above := self._uids.get(owner.uid)) is not None:
            self._enqueue(above)

    def _forget(self, ref: Ref, meta: Meta) -> None:
        self._uids.pop(meta.uid, None)
        for owner in self._owners.pop(ref, ()):
            self._unlink(owner, ref)
        for dependent in self._dependents.get(meta.uid, ()):
            self._enqueue(dependent)

    def _enqueue(self, ref: Ref) -> None:
        self.enqueue(f"{ref[0]} {ref[1]}")

    # --- the work -----------------------------------------------------------------------------------------------------

    def sync(self, key: str) -> None:
        if key == "kinds":
            self._follow_all()
            return
        storage, _, name = key.partition(" ")
        record = self._access.store.get(storage, name)
        if record is None:
            return
        meta = _meta(record)
        if meta.being_deleted and ORPHAN in meta.finalizers:
            self._orphan((storage, name), meta)
        elif meta.being_deleted and FOREGROUND in meta.finalizers:
            self._delete_dependents((storage, name), meta)
        elif not meta.being_deleted and meta.owner_references:
            self._check_owners((storage, name), meta)

    def _orphan(self, ref: Ref, meta: Meta) -> None:
        for storage, key in tuple(self._dependents.get(meta.uid, ())):
            self._drop_owners((storage, key), {meta.uid})
        self._remove_finalizer(ref, ORPHAN)

    def _delete_dependents(self, ref: Ref, meta: Meta) -> None:
        blocking = False
        for dependent, owner in tuple(self._dependents.get(meta.uid, {}).items()):
            blocking = blocking or owner.block_owner_deletion
            record = self._access.store.get(*dependent)
            if record is not None and not _meta(record).being_deleted:
                self._check_owners(dependent, _meta(record))
        if not blocking:
            self._remove_finalizer(ref, FOREGROUND)

    def _check_owners(self, ref: Ref, meta: Meta) -> None:
        """Delete an object if no owner is left. Otherwise remove its references to missing owners."""
        left, waiting, gone = 0, set(), set()
        for owner in meta.owner_references:
            above = self._uids.get(owner.uid)
            record = self._access.store.get(*above) if above is not None else None
            if record is None:
                gone.add(owner.uid)
            elif ((found := _meta(record)).being_deleted and FOREGROUND in found.finalizers) or _waits_for_pods(found):
                waiting.add(owner.uid)
            else:
                left += 1
        if left:
            if gone or waiting:
                self._drop_owners(ref, gone | waiting)
            return
        # A foreground deletion of the owner also waits for the dependents of this object.
        policy = "Foreground" if waiting and self._dependents.get(meta.uid) else "Background"
        if policy == "Foreground" and self._has_waiting_dependents(meta):
            # Perhaps a circle of owners, in which each would wait for the next.
            self._access.edit(*ref, _unblock)
        self._access.delete(ref[0], ref[1], uid=meta.uid, propagation=policy)

    def _has_waiting_dependents(self, meta: Meta) -> bool:
        for dependent in self._dependents.get(meta.uid, ()):
            record = self._access.store.get(*dependent)
            if record is not None and (found := _meta(record)).being_deleted and FOREGROUND in found.finalizers:
                return True
        return False

    def _drop_owners(self, ref: Ref, uids: set[str]) -> None:
        def edit(obj: JSON) -> None:
            owners = obj["metadata"].get("ownerReferences") or []
            obj["metadata"]["ownerReferences"] = [each for each in owners if each.get("uid") not in uids]

        self._access.edit(*ref, edit)

    def _remove_finalizer(self, ref: Ref, finalizer: str) -> None:
        def edit(obj: JSON) -> None:
            found = obj["metadata"].get("finalizers") or []
            obj["metadata"]["finalizers"] = [each for each in found if each != finalizer]

        self._access.edit(*ref, edit)


def _unblock(obj: JSON) -> None:
    """Let the owners of an object go before it."""
    for owner in obj["metadata"].get("ownerReferences") or ():
        owner["blockOwnerDeletion"] = False


def _waits_for_pods(meta: Meta) -> bool:
    """Whether this is a deleted pod group that its pods protect. Upstream counts it as an owner until they have ended,
    so that the pods of a deleted Job would run on."""
    return meta.being_deleted and PROTECTION in meta.finalizers


def _meta(record: Record) -> Meta:
    return decode_as(View, record.data).metadata


def _may_matter(event: StoreEvent) -> bool:
    """Whether a change can matter here. Decided without decoding, because most changes cannot."""
    if event.only_status:
        return False
    data = event.record.data
    if b'"deletionTimestamp"' in data:
        return True
    before = b"" if event.previous is None else event.previous.data
    return b'"ownerReferences"' in data or b'"ownerReferences"' in before
