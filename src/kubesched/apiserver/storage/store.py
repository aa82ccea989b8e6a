"""Objects with versions and a history, in memory: the counterpart of etcd and the watch cache.

Every change to any object gets the next number of one global version. Objects are stored as the bytes that clients get,
encoded once and shared by gets, lists and all watchers. No caller can change a stored object.
The history of a kind serves watches from an earlier version. Played backwards, it gives consistent pages of a list.

Every call is synchronous and atomic, so read-check-write sequences need no locks.
"""

from __future__ import annotations

import asyncio
import logging
from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator
from enum import Enum

import msgspec

from kubesched.apiserver.wire.status import continue_expired, expired
from kubesched.base.types import JSON

_log = logging.getLogger(__name__)

encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode
_decode_parts = msgspec.json.Decoder(dict[str, msgspec.Raw]).decode

Fields = dict[str, str]
FieldsOf = Callable[[JSON], Fields]

_NONE: dict[str, str] = {}
"""No labels or fields, for all objects that have none."""


def decode(data: bytes) -> JSON:
    """A stored object as a new dict, which the caller may change."""
    obj: JSON = _decode(data)
    return obj


class ChangeType(Enum):
    """The kind of a change. The value is the beginning of its line in a watch."""

    ADDED = b'{"type":"ADDED","object":'
    MODIFIED = b'{"type":"MODIFIED","object":'
    DELETED = b'{"type":"DELETED","object":'

    def __init__(self, line: bytes) -> None:
        self.line = line
        """The value, as a plain attribute: it is read for every event and watcher, and `value` is slower."""


class Record(msgspec.Struct, frozen=True, gc=False):
    """One version of one object. Labels and selectable fields are separate, so that selecting never decodes."""

    key: str
    version: int
    data: bytes
    labels: dict[str, str]
    fields: Fields

    def load(self) -> JSON:
        """The object, decoded anew."""
        return decode(self.data)

    def load_status(self) -> JSON:
        """The object with only metadata and status decoded anew. All other parts are still encoded."""
        parts: JSON = _decode_parts(self.data)
        for name in ("metadata", "status"):
            if name in parts:
                parts[name] = _decode(parts[name])
        return parts

    @property
    def namespace(self) -> str:
        return self.key.rpartition("/")[0]

    @property
    def name(self) -> str:
        return self.key.rpartition("/")[2]


class StoreEvent(msgspec.Struct, frozen=True, gc=False):
    """One change in the history of a kind: the new record (the last one, for a deletion) and the previous one."""

    change: ChangeType
    record: Record
    previous: Record | None
    only_status: bool = False
    """Whether it is known that nothing but the status has changed."""

    @property
    def version(self) -> int:
        return self.record.version


COALESCE_SECONDS = 0.004
"""Wake-ups of watchers are at least this far apart. Each one costs a write to a socket, so bursts share one."""


class WakeUps:
    """Wakes the watchers of all kinds together, so that no kind overtakes another: a scheduler that sees a new pod has
    also seen the nodes as they were when the pod was created."""

    def __init__(self, seconds_between: float) -> None:
        self._seconds_between = seconds_between
        self._shelves: dict[Shelf, None] = {}
        """The kinds with news, in the order of their first news."""
        self._last = float("-inf")

    def add(self, shelf: Shelf) -> None:
        """Wake the watchers of a kind as soon as it is time."""
        if not self._seconds_between:
            shelf.wake()
            return
        if not self._shelves:
            loop = asyncio.get_running_loop()
            self._last = max(loop.time(), self._last + self._seconds_between)
            loop.call_at(self._last, self._wake_all)
        self._shelves[shelf] = None

    def _wake_all(self) -> None:
        shelves, self._shelves = self._shelves, {}
        for shelf in shelves:
            shelf.wake()


class Shelf:
    """All objects of one kind, and their history."""

    def __init__(
        self, fields_of: FieldsOf, max_events: int, max_bytes: int, started_at: int, wake_ups: WakeUps
    ) -> None:
        self.records: dict[str, Record] = {}
        self.fields_of = fields_of
        self.oldest = started_at
        """The earliest version a watch can start from."""
        self.visible = started_at
        """Watches see events up to this version. In a durable store later ones are not on disk yet."""
        self.observers: list[Callable[[StoreEvent], None]] = []
        """Called at once on every change, for indexes inside this process."""
        self._keys: list[str] = []
        self._events: list[StoreEvent] = []
        self._versions: list[int] = []
        self._dropped = 0
        self._bytes = 0
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._wake_ups = wake_ups
        self._waiters: list[asyncio.Future[None]] = []

    # --- reading ------------------------------------------------------------------------------------------------------

    def sorted_keys(self, namespace: str = "") -> list[str]:
        """The keys in order: all, or those of a namespace."""
        if not namespace or not self._keys:
            return self._keys
        prefix = f"{namespace}/"
        # "0" is the character after "/": the first key that no longer has the prefix.
        return self._keys[bisect_left(self._keys, prefix) : bisect_left(self._keys, f"{namespace}0")]

    def at(self, version: int) -> dict[str, Record]:
        """All records as they were at an earlier version, if history still reaches back to it."""
        if version < self.oldest:
            raise continue_expired()
        records = dict(self.records)
        start = bisect_right(self._versions, version)
        for event in reversed(self._events[start:]):
            if event.previous is None:
                records.pop(event.record.key, None)
            else:
                records[event.record.key] = event.previous
        return records

    # --- history ------------------------------------------------------------------------------------------------------

    def position_after(self, version: int) -> int:
        """The position in the history where a watch from this version starts. Raises 410 if it was dropped."""
        if version < self.oldest:
            raise expired(version, self.oldest)
        return self._dropped + bisect_right(self._versions, version)

    def events_from(self, position: int, limit: int) -> list[StoreEvent]:
        """The next events that watches may see. Raises 410 if unseen ones were dropped."""
        start, end = position - self._dropped, len(self._events)
        if start == end:
            return []
        if start < 0:
            raise expired(self.oldest, self.oldest)
        end = min(start + limit, end)
        if end > start and self._versions[end - 1] > self.visible:
            end = bisect_right(self._versions, self.visible, start, end)
        return self._events[start:end]

    def apply(self, event: StoreEvent) -> None:
        record = event.record
        if event.change is ChangeType.DELETED:
            del self.records[record.key]
            del self._keys[bisect_left(self._keys, record.key)]
        else:
            if event.change is ChangeType.ADDED:
                insort(self._keys, record.key)
            self.records[record.key] = record
        self._events.append(event)
        self._versions.append(record.version)
        self._bytes += len(record.data)
        if len(self._events) > 2 * self._max_events or self._bytes > 2 * self._max_bytes:
            self._forget_half()
        for observer in self.observers:
            try:
                observer(event)
            except Exception:
                # The change is committed: a failure must reach neither the writer nor other observers.
                _log.exception("an observer of the store failed on %s %s", event.change.name, record.key)

    def restore(self, record: Record) -> None:
        """Load an object from disk. This is not a change, so there is no event."""
        insort(self._keys, record.key)
        self.records[record.key] = record

    def select_by(self, fields_of: FieldsOf) -> None:
        """Replace the selectable fields, also those of stored objects."""
        self.fields_of = fields_of
        for key, record in self.records.items():
            fields = fields_of(record.load())
            self.records[key] = msgspec.structs.replace(record, fields=fields)

    def _forget_half(self) -> None:
        self.forget(keep=len(self._events) // 2)

    def forget(self, keep: int = 0) -> None:
        """Drop all history except the last `keep` events."""
        surplus = len(self._events) - keep
        if surplus <= 0:
            return
        self.oldest = self._versions[surplus - 1]
        self._dropped += surplus
        self._bytes -= sum(len(event.record.data) for event in self._events[:surplus])
        del self._events[:surplus], self._versions[:surplus]

    # --- waiting ------------------------------------------------------------------------------------------------------

    @property
    def watchers(self) -> int:
        """The number of watchers waiting for events."""
        return len(self._waiters)

    async def wait(self, timeout: float | None = None) -> None:
        """Wait for events, at most `timeout` seconds. Bursts wake a waiter once."""
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[None] = loop.create_future()
        self._waiters.append(waiter)
        timer = None if timeout is None else loop.call_later(timeout, _finish, waiter)
        try:
            await waiter
        finally:
            if timer is not None:
                timer.cancel()
            if waiter in self._waiters:
                self._waiters.remove(waiter)

    def publish(self, version: int) -> None:
        """Let watches see everything up to a version."""
        self.visible = version
        if self._waiters:
            self._wake_ups.add(self)

    def wake(self) -> None:
        """Let the watchers that wait go on."""
        waiters, self._waiters = self._waiters, []
        for waiter in waiters:
            if not waiter.done():
                waiter.set_result(None)


def _finish(waiter: asyncio.Future[None]) -> None:
    if not waiter.done():
        waiter.set_result(None)


class Store:
    """Every object of the cluster, by kind (as ``group/plural``) and key (``namespace/name`` or ``name``)."""

    def __init__(
        self,
        *,
        version: int = 1,
        max_events: int = 16_384,
        max_bytes: int = 16 << 20,
        coalesce: float = COALESCE_SECONDS,
    ) -> None:
        self.version = version
        self.visible = version
        """Watches have seen everything up to this version."""
        self.failure: Exception | None = None
        """Why writing has failed, if it has. Then all writes are refused."""
        self.started_at = version
        self.shelves: dict[str, Shelf] = {}
        self._max_events = max_events
        self._max_bytes = max_bytes
        self._wake_ups = WakeUps(coalesce)

    def shelf(self, resource: str, fields_of: FieldsOf | None = None) -> Shelf:
        """The objects of a kind. `fields_of` reads their selectable fields."""
        shelf = self.shelves.get(resource)
        if shelf is None:
            shelf = Shelf(fields_of or _no_fields, self._max_events, self._max_bytes, self.started_at, self._wake_ups)
            shelf.visible = self.version
            self.shelves[resource] = shelf
        elif fields_of is not None:
            shelf.select_by(fields_of)
        return shelf

    def get(self, resource: str, key: str) -> Record | None:
        shelf = self.shelves.get(resource)
        return None if shelf is None else shelf.records.get(key)

    def records(self, resource: str, namespace: str = "") -> Iterator[Record]:
        """Every object of a kind (in a namespace), in the order of keys."""
        shelf = self.shelf(resource)
        return (shelf.records[key] for key in tuple(shelf.sorted_keys(namespace)))

    def put(self, resource: str, key: str, obj: JSON, *, only_status: bool = False) -> Record:
        """Store an object under the next version, which is written into it.

        With `only_status` it comes from `Record.load_status`, and nothing but its status has changed.
        """
        shelf = self.shelves.get(resource) or self.shelf(resource)
        previous = shelf.records.get(key)
        record = self._record(shelf, key, obj, previous, only_status=only_status)
        change = ChangeType.ADDED if previous is None else ChangeType.MODIFIED
        self._commit(resource, shelf, StoreEvent(change, record, previous, only_status))
        return record

    def delete(self, resource: str, key: str, last: JSON | None = None) -> Record:
        """Remove an object. Its last state gets the version of the removal."""
        shelf = self.shelf(resource)
        previous = shelf.records[key]
        record = self._record(shelf, key, previous.load() if last is None else last, previous)
        self._commit(resource, shelf, StoreEvent(ChangeType.DELETED, record, previous))
        return record

    def load(self) -> None:
        """Load the stored objects. A store in memory starts empty."""

    async def durable(self) -> None:
        """Return once everything written so far is durable. In memory nothing is."""

    async def close(self) -> None:
        """Close the files of the store, if it has any."""

    def _record(
        self, shelf: Shelf, key: str, obj: JSON, previous: Record | None, *, only_status: bool = False
    ) -> Record:
        version = self.version + 1
        meta = obj["metadata"]
        meta["resourceVersion"] = str(version)
        labels, fields = meta.get("labels") or _NONE, shelf.fields_of(obj) or _NONE
        if previous is not None:
            if only_status:
                same = {name: text for name, text in previous.fields.items() if not name.startswith("status.")}
                fields = {**fields, **same}
            # History holds several versions of most objects. They share what stays the same.
            key = previous.key
            labels = previous.labels if labels == previous.labels else labels
            fields = previous.fields if fields == previous.fields else fields
        return Record(key, version, encode(obj), labels, fields)

    def _commit(self, resource: str, shelf: Shelf, event: StoreEvent) -> None:
        self.version = self.visible = event.record.version
        shelf.apply(event)
        shelf.publish(self.version)


def _no_fields(_obj: JSON) -> Fields:
    return _NONE
