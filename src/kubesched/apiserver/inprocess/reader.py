"""Lists and watches of the scheduler's client protocol, straight from a store in this process."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TypeVar

from kubesched.api import objects as api
from kubesched.apiserver.storage.store import ChangeType, Record, Shelf, Store, StoreEvent
from kubesched.apiserver.wire.status import StatusError
from kubesched.client.protocol import ApiError, Listing, Malformed, WatchEvent, WatchType

T = TypeVar("T")

BATCH = 500
_ENDED = ("Succeeded", "Failed")


class StoreReader(ABC):
    """Lists and watches a store as an API server does with the selectors that the scheduler uses."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @abstractmethod
    def _shelf(self, kind: type[api.Object]) -> Shelf:
        """Where the store keeps a kind."""

    @abstractmethod
    def _decode(self, kind: type[api.Object], record: Record, before: Record | None = None) -> api.Object | Malformed:
        """The object in a record. If it differs from an earlier record in nothing but its status, that is `before`."""

    def stored(self, kind: type[api.Object]) -> Sequence[api.Object | Malformed]:
        """The objects of a kind that a list has, in any order, at once."""
        records = self._shelf(kind).records.values()
        return [self._decode(kind, record) for record in records if _is_selected(kind, record)]

    async def list(self, kind: type[api.Object]) -> Listing:
        return await self.list_at(kind)

    async def list_at(self, kind: type[api.Object], behind: int = 0) -> Listing:
        """All objects of a kind, as of up to `behind` versions ago: what a cache that lags answers."""
        shelf = self._shelf(kind)
        version, records = self._store.version, shelf.records
        if behind:
            version = max(shelf.oldest, version - behind)
            records = shelf.at(version)
        items: list[api.Object] = []
        malformed: list[Malformed] = []
        for key in sorted(records) if behind else shelf.sorted_keys():
            record = records[key]
            if _is_selected(kind, record):
                found = self._decode(kind, record)
                if isinstance(found, Malformed):
                    malformed.append(found)
                else:
                    items.append(found)
        listing = Listing(items, str(version), malformed)
        await self._store.durable()
        return listing

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        shelf = self._shelf(kind)
        version = int(resource_version) if resource_version else self._store.version
        try:
            position = shelf.position_after(version)
            while True:
                events = shelf.events_from(position, BATCH)
                if not events:
                    await shelf.wait()
                    events = shelf.events_from(position, BATCH)
                    if not events:
                        # Woken without an event: the version has moved on, and that is what a bookmark says.
                        yield WatchEvent(WatchType.BOOKMARK, None, str(shelf.visible))
                position += len(events)
                for event in events:
                    if (selected := self._selected(kind, event)) is not None:
                        yield selected
        except StatusError as refusal:
            raise as_api_error(refusal) from None

    def _selected(self, kind: type[api.Object], event: StoreEvent) -> WatchEvent | None:
        """An event as a watch with the kind's selector reports it."""
        record, previous = event.record, event.previous
        before, after = previous is not None, event.change is not ChangeType.DELETED
        if kind is api.Pod:  # as in `_is_selected`, without a call for each event
            before = previous is not None and previous.fields.get("status.phase") not in _ENDED
            after = after and record.fields.get("status.phase") not in _ENDED
        if after:
            change, shown = WatchType.MODIFIED if before else WatchType.ADDED, record
        elif before and previous is not None:
            # An object that leaves the selection is shown as it was in it: a pod that ended still held its place.
            change, shown = WatchType.DELETED, previous
        else:
            return None
        found = self._decode(kind, shown, previous if event.only_status and after else None)
        if isinstance(found, Malformed):
            return WatchEvent(change, None, str(record.version), found)
        return WatchEvent(change, found, str(record.version))


def _is_selected(kind: type[api.Object], record: Record) -> bool:
    """The scheduler does not ask for pods that have ended."""
    return kind is not api.Pod or record.fields.get("status.phase") not in _ENDED


def call(act: Callable[[], T]) -> T:
    """The result of a call, with refusals raised as the errors of the client protocol."""
    try:
        return act()
    except StatusError as refusal:
        raise as_api_error(refusal) from None


def as_api_error(refusal: StatusError) -> ApiError:
    """A refusal inside the server as clients know it."""
    return ApiError(refusal.code, refusal.reason, refusal.message, refusal.retry_after or None)
