"""Watches: following a kind from a version on.

A watch is a position in the history of its kind. What it sends is joined from bytes that all watchers share.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random
from typing import TypeVar

from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.rest.listing import Selection, parse_version
from kubesched.apiserver.storage.store import ChangeType, Record, Shelf, Store, StoreEvent, decode, encode
from kubesched.apiserver.wire.request import ApiRequest
from kubesched.apiserver.wire.status import StatusError, version_too_large
from kubesched.base.clock import Clock
from kubesched.base.types import JSON

BOOKMARK_SECONDS = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BATCH = 512
_BATCH_BYTES = 256 << 10
"""Events are joined until they are this large. A slow client's chunk waits in memory."""

T = TypeVar("T")

Render = Callable[[Record], bytes]
"""Renders an object for a watch, for instance as a row of a Table."""


@dataclass(slots=True)
class Watch:
    """One open watch."""

    store: Store
    shelf: Shelf
    resource: ApiResource
    selection: Selection
    clock: Clock
    random: Random
    render: Render | None
    bookmark: Callable[[JSON], JSON]
    version: int
    initial: bool
    mark_initial_end: bool
    bookmarks: bool
    timeout: float
    closing: Callable[[], bool] = lambda: False

    async def stream(self) -> AsyncIterator[bytes]:
        """The lines of the watch, several at a time, until its timeout."""
        try:
            if self.initial:
                # The initial objects and the position to continue from must be of one version, and on disk.
                self.version = self.store.visible
            position = self.shelf.position_after(self.version)
            if self.initial:
                for chunk in self._initial_chunks():
                    yield chunk
            elif not self.shelf.events_from(position, 1):
                # No event yet, but the client waits for the response headers.
                yield b""
            async for chunk in self._follow(position):
                yield chunk
        except StatusError as error:
            yield encode({"type": "ERROR", "object": error.status()}) + b"\n"

    def _initial_chunks(self) -> Iterable[bytes]:
        if self.store.visible == self.store.version:
            records = [self.shelf.records[key] for key in self.shelf.sorted_keys()]
        else:
            records = sorted(self.shelf.at(self.version).values(), key=lambda record: record.key)
        chosen = [record for record in records if self.selection.matches(record)]
        for batch in _batches(chosen, lambda record: len(record.data)):
            yield b"".join(self._line(ChangeType.ADDED, record) for record in batch)
        if self.mark_initial_end:
            yield self._bookmark_line(self.version, {INITIAL_EVENTS_END: "true"})

    async def _follow(self, position: int) -> AsyncIterator[bytes]:
        clock = self.clock
        end = clock.monotonic() + self.timeout
        next_bookmark = clock.monotonic() + BOOKMARK_SECONDS * self.random.uniform(0.8, 1.0)
        while not self.closing():
            events = self.shelf.events_from(position, _BATCH)
            if events:
                position += len(events)
                for batch in _batches(events, lambda event: len(event.record.data)):
                    if chunk := self._lines(batch):
                        yield chunk
                continue
            now = clock.monotonic()
            if now >= end:
                break
            if now >= next_bookmark:
                next_bookmark = now + BOOKMARK_SECONDS
                if self.bookmarks:
                    yield self._bookmark_line(self._reached(), {})
            await self.shelf.wait(max(0.0, min(end, next_bookmark) - now))
        if self.bookmarks:
            yield self._bookmark_line(self._reached(), {})

    def _reached(self) -> int:
        """The version that this watch has seen everything up to."""
        return max(self.version, self.store.visible)

    def _lines(self, events: list[StoreEvent]) -> bytes:
        if self.render is not None or not self.selection.is_by_key:
            return b"".join([self._selected(event) for event in events])
        if not self.selection.is_everything:
            events = [event for event in events if self.selection.matches(event.record)]
        parts: list[bytes] = []
        for event in events:
            parts += (event.change.line, event.record.data, b"}\n")
        return b"".join(parts)

    def _selected(self, event: StoreEvent) -> bytes:
        """An event as the selection sees it: deleted if the object stops matching, added if it starts."""
        before = event.previous is not None and self.selection.matches(event.previous)
        after = event.change is not ChangeType.DELETED and self.selection.matches(event.record)
        if before and after:
            return self._line(ChangeType.MODIFIED, event.record)
        if after:
            return self._line(ChangeType.ADDED, event.record)
        if not before:
            return b""
        assert event.previous is not None
        gone = event.record if event.change is ChangeType.DELETED else _at_version(event.previous, event.version)
        return self._line(ChangeType.DELETED, gone)

    def _line(self, change: ChangeType, record: Record) -> bytes:
        data = record.data if self.render is None else self.render(record)
        return b"".join((change.line, data, b"}\n"))

    def _bookmark_line(self, version: int, annotations: dict[str, str]) -> bytes:
        meta: JSON = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        body = {"kind": self.resource.kind, "apiVersion": self.resource.group_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": self.bookmark(body)}) + b"\n"


def _batches(items: list[T], size: Callable[[T], int]) -> Iterator[list[T]]:
    """Divide items into lists of limited length and size."""
    batch: list[T] = []
    total = 0
    for item in items:
        batch.append(item)
        total += size(item)
        if len(batch) == _BATCH or total >= _BATCH_BYTES:
            yield batch
            batch, total = [], 0
    if batch:
        yield batch


def _at_version(record: Record, version: int) -> Record:
    obj = decode(record.data)
    obj["metadata"]["resourceVersion"] = str(version)
    return Record(record.key, version, encode(obj), record.labels, record.fields)


def watch_start(request: ApiRequest, store: Store) -> tuple[int, bool]:
    """The version to watch from, and whether to send the existing objects first."""
    text = request.query.get("resourceVersion", "")
    send_initial = request.query.get("sendInitialEvents", "")
    initial = text in ("", "0") if not send_initial else request.flag("sendInitialEvents")
    if text in ("", "0") or initial:
        version = parse_version(text) if text else 0
        if version > store.version:
            raise version_too_large(version, store.version)
        return store.visible, initial
    version = parse_version(text)
    if version > store.version:
        raise version_too_large(version, store.version)
    return version, False
