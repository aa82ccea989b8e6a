"""Objects with versions and a history to watch: what an API server keeps, in memory and without a wire.

It behaves as an API server would towards a scheduler, down to the refusals: a pod is bound once, a stale update is a
conflict, a watch from a forgotten version is 410. Every call is synchronous: what it does is done at one moment.

An object given as a Struct is kept as that Struct, which makes binding fast. One given as JSON is kept as JSON beside
it, so that fields which scheduling does not read survive every patch.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_right
from collections.abc import AsyncGenerator, Iterator
from datetime import UTC, datetime
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.types import JSON
from kubesched.client.merge import merge_patch, strategic_merge
from kubesched.client.protocol import ApiError, Change, Listing, WatchEvent
from kubesched.client.resources import EVENTS, LEASES, Resource, resource_of

O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol


def not_found(resource: Resource, name: str) -> ApiError:
    return ApiError(404, "NotFound", f'{resource} "{name}" not found')


def already_exists(resource: Resource, name: str) -> ApiError:
    return ApiError(409, "AlreadyExists", f'{resource} "{name}" already exists')


def conflict(resource: Resource | str, name: str, why: str) -> ApiError:
    return ApiError(409, "Conflict", f'Operation cannot be fulfilled on {resource} "{name}": {why}')


def expired(version: int, oldest: int) -> ApiError:
    return ApiError(410, "Expired", f"too old resource version: {version} ({oldest})")


MODIFIED_MEANWHILE = "the object has been modified; please apply your changes to the latest version and try again"


class Stream:
    """One open watch; `end` closes it, with an error or without."""

    def __init__(self) -> None:
        self.ended = False
        self.error: Exception | None = None
        self._waiter: asyncio.Future[None] | None = None

    def end(self, error: Exception | None = None) -> None:
        self.ended, self.error = True, error
        self.wake()

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    async def wait(self) -> None:
        self._waiter = asyncio.get_running_loop().create_future()
        await self._waiter


class Shelf:
    """All objects of one kind, and what happened to them."""

    def __init__(self, history: int) -> None:
        self.objects: dict[str, api.Object] = {}
        self.raw: dict[str, JSON] = {}
        self.streams: set[Stream] = set()
        self.oldest = 0
        self._history = history
        self._events: list[WatchEvent] = []
        self._versions: list[int] = []
        self._dropped = 0

    def record(self, version: int, change: Change, obj: api.Object | None) -> None:
        self._events.append(WatchEvent(change, obj, str(version)))
        self._versions.append(version)
        if len(self._events) > 2 * self._history:
            self.forget(keep=self._history)
        for stream in self.streams:
            stream.wake()

    def forget(self, keep: int = 0) -> None:
        """Drop history but for the last `keep` events; a watch that still needs the rest gets 410."""
        surplus = len(self._events) - keep
        if surplus > 0:
            self.oldest = self._versions[surplus - 1]
            self._dropped += surplus
            del self._events[:surplus], self._versions[:surplus]

    def position_after(self, version: int) -> int:
        if version < self.oldest:
            raise expired(version, self.oldest)
        return self._dropped + bisect_right(self._versions, version)

    async def watch(self, version: int) -> AsyncGenerator[WatchEvent, None]:
        position = self.position_after(version)
        stream = Stream()
        self.streams.add(stream)
        try:
            while not stream.ended:
                while position < self._dropped + len(self._events) and not stream.ended:
                    if position < self._dropped:
                        raise expired(version, self.oldest)
                    event = self._events[position - self._dropped]
                    position += 1
                    yield event
                if not stream.ended:
                    await stream.wait()
            if stream.error is not None:
                raise stream.error
        finally:
            self.streams.discard(stream)


class ObjectStore:
    """Every object of a cluster. `clock` dates them; without one they bear no dates."""

    def __init__(self, clock: Clock | None = None, history: int = 100_000) -> None:
        self.version = 0
        self.bindings: list[tuple[str, str, str]] = []
        """Every successful bind in order: the pod's key and UID, and the node."""
        self._clock = clock
        self._history = history
        self._shelves: dict[type[api.Object], Shelf] = {}
        self._events: dict[tuple[str, str], JSON] = {}
        self._leases: dict[tuple[str, str], JSON] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    def get(self, kind: type[O], key: str) -> O | None:
        """The object with this ``namespace/name``, or None."""
        found = self.shelf(kind).objects.get(key)
        assert found is None or isinstance(found, kind)
        return found

    def read(self, kind: type[O], key: str) -> O:
        """The object with this ``namespace/name``; 404 if there is none."""
        found = self.get(kind, key)
        if found is None:
            raise not_found(resource_of(kind), key.rpartition("/")[2])
        return found

    def objects(self, kind: type[O]) -> tuple[O, ...]:
        """All objects of a kind in the order they were made, ended pods included."""
        return tuple(self.shelf(kind).objects.values())  # type: ignore[arg-type]  # a shelf holds one kind

    def raw(self, kind: type[api.Object], key: str) -> JSON:
        """An object as JSON: as it was given and patched since, or what its Struct knows."""
        shelf = self.shelf(kind)
        if key not in shelf.objects:
            raise not_found(resource_of(kind), key.rpartition("/")[2])
        return _copied(shelf.raw.get(key) or _raw_of(shelf.objects[key]))

    def listing(self, kind: type[api.Object]) -> Listing:
        """What a list answers: sorted by key, as etcd has it, and pods that have ended left out."""
        objects = self.shelf(kind).objects
        return Listing([objects[key] for key in sorted(objects) if _visible(objects[key])], str(self.version))

    def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        version = int(resource_version) if resource_version else self.version
        return self.shelf(kind).watch(version)

    def shelf(self, kind: type[api.Object]) -> Shelf:
        shelf = self._shelves.get(kind)
        if shelf is None:
            shelf = self._shelves[kind] = Shelf(self._history)
        return shelf

    # --- writing ------------------------------------------------------------------------------------------------------

    def create(self, obj: O | JSON) -> O:
        """Store a new object, given as a Struct or as JSON; answers with what was stored."""
        raw = _copied(obj) if isinstance(obj, dict) else None
        new = api.decode(raw) if raw is not None else obj
        assert isinstance(new, api.Object)
        if new.key in self.shelf(type(new)).objects:
            raise already_exists(resource_of(type(new)), new.name)
        return self._put(None, self._completed(new), raw)  # type: ignore[return-value]  # JSON says its kind itself

    def update(self, obj: O | JSON) -> O:
        """Replace an object; 409 if it carries a version that is no longer the stored one."""
        raw = _copied(obj) if isinstance(obj, dict) else None
        new = api.decode(raw) if raw is not None else obj
        assert isinstance(new, api.Object)
        old = self.read(type(new), new.key)
        if new.metadata.resource_version not in ("", old.metadata.resource_version):
            raise conflict(resource_of(type(new)), new.name, MODIFIED_MEANWHILE)
        metadata = replace(new.metadata, uid=old.uid, creation_timestamp=old.metadata.creation_timestamp)
        return self._put(old, replace(new, metadata=metadata), raw)  # type: ignore[return-value]

    def patch(self, kind: type[O], key: str, patch: JSON, strategic: bool = False) -> O:
        """Apply a merge patch, or a strategic merge patch."""
        old, shelf = self.read(kind, key), self.shelf(kind)
        merge = strategic_merge if strategic else merge_patch
        raw = merge(shelf.raw.get(key) or _raw_of(old), patch)
        new = api.decode_as(kind, raw)
        wanted = patch.get("metadata") or {}
        if wanted.get("resourceVersion") not in (None, old.metadata.resource_version):
            raise conflict(resource_of(kind), old.name, MODIFIED_MEANWHILE)
        if wanted.get("uid") not in (None, old.uid):
            why = f'metadata.uid: Invalid value: "{wanted["uid"]}": field is immutable'
            raise ApiError(422, "Invalid", f'{kind.kind} "{old.name}" is invalid: {why}')
        return self._put(old, new, raw if key in shelf.raw else None)

    def delete(self, obj: api.Object) -> None:
        """Remove the object with this one's key; 409 if it has become another with the same name."""
        old = self.read(type(obj), obj.key)
        _check_identity(obj, old)
        shelf = self.shelf(type(obj))
        del shelf.objects[old.key]
        shelf.raw.pop(old.key, None)
        self.version += 1
        if _visible(old):
            shelf.record(self.version, Change.DELETED, _with_version(old, self.version))

    def mark_for_deletion(self, pod: api.Pod) -> api.Pod:
        """Give a pod its deletionTimestamp: it is asked to end but still there."""
        old = self.read(api.Pod, pod.key)
        _check_identity(pod, old)
        if old.is_terminating:
            return old
        return self.patch(api.Pod, pod.key, {"metadata": {"deletionTimestamp": self._date() or EPOCH}})

    def bind(self, pod: api.Pod, node_name: str) -> None:
        """What creating a Binding does; refused with the API server's own words."""
        old = self.shelf(api.Pod).objects.get(pod.key)
        if old is None:
            raise not_found(resource_of(api.Pod), pod.name)
        assert isinstance(old, api.Pod)
        if pod.uid not in ("", old.uid):
            raise conflict(resource_of(api.Pod), pod.name, _why_not_this_pod(pod, old))
        if why := _why_not_bindable(old):
            raise conflict("pods/binding", pod.name, why)
        self._put(old, self._bound(old, node_name), self._raw_bound(old, node_name))
        self.bindings.append((old.key, old.uid, node_name))

    # --- events and leases --------------------------------------------------------------------------------------------

    @property
    def events(self) -> tuple[JSON, ...]:
        """Every Event in the order of creation."""
        return tuple(self._events.values())

    def create_event(self, namespace: str, event: JSON) -> JSON:
        return self._create_raw(self._events, EVENTS, namespace, event)

    def patch_event(self, namespace: str, name: str, patch: JSON) -> JSON:
        old = self._events.get((namespace, name))
        if old is None:
            raise not_found(EVENTS, name)
        return self._store_raw(self._events, namespace, name, strategic_merge(old, patch))

    def get_lease(self, namespace: str, name: str) -> JSON:
        found = self._leases.get((namespace, name))
        if found is None:
            raise not_found(LEASES, name)
        return _copied(found)

    def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return self._create_raw(self._leases, LEASES, namespace, lease)

    def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        old = self._leases.get((namespace, name))
        if old is None:
            raise not_found(LEASES, name)
        version = lease.get("metadata", {}).get("resourceVersion")
        if not version:
            why = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
            raise ApiError(422, "Invalid", f'{LEASES} "{name}" is invalid: {why}')
        if version != old["metadata"]["resourceVersion"]:
            raise conflict(LEASES, name, MODIFIED_MEANWHILE)
        return self._store_raw(self._leases, namespace, name, _copied(lease))

    def _create_raw(self, table: dict[tuple[str, str], JSON], resource: Resource, namespace: str, body: JSON) -> JSON:
        name = body.get("metadata", {}).get("name", "")
        if (namespace, name) in table:
            raise already_exists(resource, name)
        return self._store_raw(table, namespace, name, _copied(body))

    def _store_raw(self, table: dict[tuple[str, str], JSON], namespace: str, name: str, body: JSON) -> JSON:
        self.version += 1
        body["metadata"] = {**body["metadata"], "namespace": namespace, "resourceVersion": str(self.version)}
        table[namespace, name] = body
        return _copied(body)

    # --- disturbing watches -------------------------------------------------------------------------------------------

    def cut_watches(self, kind: type[api.Object] | None = None, error: Exception | None = None) -> None:
        """End the open watches of a kind, or all of them, as a restarting server does."""
        for shelf in self._chosen(kind):
            for stream in tuple(shelf.streams):
                stream.end(error)

    def forget_history(self, kind: type[api.Object] | None = None) -> None:
        """Forget what happened up to now, so that a watch from an earlier version answers 410."""
        for shelf in self._chosen(kind):
            shelf.forget()
            shelf.oldest = self.version

    def bookmark(self, kind: type[api.Object] | None = None) -> None:
        """Tell open watches the version reached."""
        for shelf in self._chosen(kind):
            shelf.record(self.version, Change.BOOKMARK, None)

    def _chosen(self, kind: type[api.Object] | None) -> Iterator[Shelf]:
        yield from self._shelves.values() if kind is None else (self.shelf(kind),)

    # --- the inside ---------------------------------------------------------------------------------------------------

    def _put(self, old: O | None, new: O, raw: JSON | None) -> O:
        self.version += 1
        new = _with_version(new, self.version)
        shelf = self.shelf(type(new))
        shelf.objects[new.key] = new
        if raw is not None:
            shelf.raw[new.key] = _with_raw_metadata(raw, new)
        else:
            shelf.raw.pop(new.key, None)
        self._record(shelf, old, new)
        return new

    def _record(self, shelf: Shelf, old: api.Object | None, new: api.Object) -> None:
        """A pod that ends leaves the field selector, which a watch sees as its deletion in its last visible state."""
        was, is_ = old is not None and _visible(old), _visible(new)
        if was and is_:
            shelf.record(self.version, Change.MODIFIED, new)
        elif is_:
            shelf.record(self.version, Change.ADDED, new)
        elif was and old is not None:
            shelf.record(self.version, Change.DELETED, _with_version(old, self.version))

    def _completed(self, obj: api.Object) -> api.Object:
        """What the API server adds to a new object."""
        meta = obj.metadata
        uid = meta.uid or f"00000000-0000-4000-8000-{self.version + 1:012x}"
        meta = replace(meta, uid=uid, creation_timestamp=meta.creation_timestamp or self._date())
        if isinstance(obj, api.Pod) and not obj.status.phase:
            return replace(obj, metadata=meta, status=replace(obj.status, phase="Pending"))
        return replace(obj, metadata=meta)

    def _bound(self, pod: api.Pod, node_name: str) -> api.Pod:
        scheduled = api.PodCondition(type="PodScheduled", status="True", last_transition_time=self._date())
        others = tuple(condition for condition in pod.status.conditions if condition.type != "PodScheduled")
        status = replace(pod.status, nominated_node_name="", conditions=(*others, scheduled))
        return replace(pod, spec=replace(pod.spec, node_name=node_name), status=status)

    def _raw_bound(self, pod: api.Pod, node_name: str) -> JSON | None:
        raw = self.shelf(api.Pod).raw.get(pod.key)
        if raw is None:
            return None
        condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": self._date()}
        status = {"nominatedNodeName": None, "conditions": [{"type": "PodScheduled", "$patch": "delete"}, condition]}
        return strategic_merge(raw, {"spec": {"nodeName": node_name}, "status": status})

    def _date(self) -> str | None:
        if self._clock is None:
            return None
        return datetime.fromtimestamp(int(self._clock.now()), UTC).isoformat().replace("+00:00", "Z")


EPOCH = "1970-01-01T00:00:00Z"


def _copied(body: JSON) -> JSON:
    """The same JSON in objects of its own, as if it had gone through a wire; that is faster than to copy it."""
    copied: JSON = msgspec.json.decode(msgspec.json.encode(body))
    return copied


def _visible(obj: api.Object) -> bool:
    return not (isinstance(obj, api.Pod) and obj.is_terminal)


def _why_not_bindable(pod: api.Pod) -> str:
    if pod.is_terminating:
        return f"pod {pod.name} is being deleted, cannot be assigned to a host"
    if pod.spec.node_name:
        return f'pod {pod.name} is already assigned to node "{pod.spec.node_name}"'
    if pod.spec.scheduling_gates:
        return f"pod {pod.name} has non-empty .spec.schedulingGates"
    return ""


def _why_not_this_pod(wanted: api.Pod, found: api.Pod) -> str:
    where = f"StorageError: invalid object, Code: 4, Key: /registry/pods/{found.key}, ResourceVersion: 0"
    uids = f"UID in precondition: {wanted.uid}, UID in object meta: {found.uid}"
    return f"{where}, AdditionalErrorMsg: Precondition failed: {uids}"


def _check_identity(wanted: api.Object, found: api.Object) -> None:
    if wanted.uid not in ("", found.uid):
        uids = f"the UID in the precondition ({wanted.uid}) does not match the UID in record ({found.uid})"
        why = f"{uids}. The object might have been deleted and then recreated"
        raise conflict(found.kind, found.name, why)


def _with_version(obj: O, version: int) -> O:
    return replace(obj, metadata=replace(obj.metadata, resource_version=str(version)))


def _raw_of(obj: api.Object) -> JSON:
    body: JSON = msgspec.to_builtins(obj)
    return {"apiVersion": obj.api_version, "kind": obj.kind, **body}


def _with_raw_metadata(raw: JSON, obj: api.Object) -> JSON:
    """JSON with what the store has set on the Struct."""
    meta = obj.metadata
    own: JSON = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    if meta.creation_timestamp:
        own["creationTimestamp"] = meta.creation_timestamp
    result = {**raw, "metadata": {**raw.get("metadata", {}), **own}}
    if isinstance(obj, api.Pod) and not raw.get("status", {}).get("phase"):
        result["status"] = {**raw.get("status", {}), "phase": obj.status.phase}
    return result
