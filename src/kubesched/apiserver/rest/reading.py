"""Lists and watches: selecting, paging, and following a kind from a version on.

A page of a long list shows the cluster as it was when the first page was made. A watch is a position in the history of
its kind; what it writes is joined from bytes that every watcher shares.
"""

from __future__ import annotations

import base64
from bisect import bisect_left, bisect_right
from collections.abc import AsyncIterator, Callable, Iterable
from dataclasses import dataclass
from random import Random

import msgspec

from kubesched.api.selectors import EVERYTHING, Selector
from kubesched.apiserver.kinds.resources import Resource
from kubesched.apiserver.rest.selectors import NAME, NAMESPACE, FieldSelector, fields_match, parse_fields, parse_labels
from kubesched.apiserver.storage.store import Change, Event, Record, Shelf, Store, decode, encode
from kubesched.apiserver.validation.problems import Problems
from kubesched.apiserver.wire.request import Request
from kubesched.apiserver.wire.status import StatusError, bad_request, invalid, version_too_large
from kubesched.base.clock import Clock
from kubesched.base.documents import REQUEST, read_json
from kubesched.base.types import JSON

BOOKMARK_SECONDS = 60.0
INITIAL_EVENTS_END = "k8s.io/initial-events-end"
_BATCH = 512


@dataclass(frozen=True, slots=True)
class Selection:
    """Which objects of a kind are wanted."""

    namespace: str = ""
    labels: Selector = EVERYTHING
    fields: FieldSelector = ()
    name: str = ""
    places: FieldSelector = ()
    """What else is said about names and namespaces."""

    @property
    def is_everything(self) -> bool:
        return not self.namespace and self.is_by_place

    @property
    def is_by_key(self) -> bool:
        """Whether an object's key alone decides: then it neither comes nor goes by being changed."""
        return not (self.fields or self.labels.requirements)

    @property
    def is_by_place(self) -> bool:
        """Whether all of a namespace, or simply all, is wanted."""
        return not (self.name or self.places or self.fields or self.labels.requirements)

    def matches(self, record: Record) -> bool:
        if self.namespace and not record.key.startswith(f"{self.namespace}/"):
            return False
        if self.name and record.name != self.name:
            return False
        if self.places and not fields_match(self.places, {NAME: record.name, NAMESPACE: record.namespace}):
            return False
        return self.labels.matches(record.labels) and (not self.fields or fields_match(self.fields, record.fields))


def selection_of(request: Request, resource: Resource, namespace: str) -> Selection:
    """The selection that a request's path and query ask for."""
    wanted = parse_fields(request.query.get("fieldSelector", ""), resource.field_paths)
    name, fields, places = "", [], []
    for field, equal, value in wanted:
        if field == NAME and equal and not name:
            name = value
        elif field == NAMESPACE and equal and not namespace and resource.namespaced:
            namespace = value
        elif field in (NAME, NAMESPACE):
            places.append((field, equal, value))
        else:
            fields.append((".".join(resource.field_paths[field]), equal, value))
    labels = parse_labels(request.query.get("labelSelector", ""))
    return Selection(namespace if resource.namespaced else "", labels, tuple(fields), name, tuple(places))


# --- lists ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Page:
    """Part of a list, the version it shows, and where the next page starts."""

    records: list[Record]
    version: int
    next: str = ""
    remaining: int = 0


class _Continue(msgspec.Struct):
    """What a continue token says: the version of the list and the last key already given."""

    rv: int
    start: str


def list_page(store: Store, shelf: Shelf, request: Request, selection: Selection) -> Page:
    """The page of a list that a request asks for."""
    limit = request.number("limit") or 0
    token = request.query.get("continue", "")
    version, start = store.version, ""
    records = shelf.records
    if token:
        parsed = _parse_token(token)
        version, start = parsed.rv, parsed.start
        if version != store.version:
            records = shelf.at(version)
    else:
        exact = _wanted_version(request, store.version)
        if exact is not None and exact != store.version:
            version, records = exact, shelf.at(exact)
    keys = sorted(records) if records is not shelf.records else shelf.sorted_keys()
    return _page(keys, records, selection, version, limit, start)


def _page(
    keys: list[str], records: dict[str, Record], selection: Selection, version: int, limit: int, start: str
) -> Page:
    everything = selection.is_everything
    found: list[Record] = []
    for index in range(bisect_right(keys, start) if start else 0, len(keys)):
        record = records[keys[index]]
        if not everything and not selection.matches(record):
            continue
        if limit and len(found) == limit:
            rest = _count_from(keys, index, selection.namespace) if selection.is_by_place else 0
            return Page(found, version, _token(version, found[-1].key), rest)
        found.append(record)
    return Page(found, version)


def _count_from(keys: list[str], index: int, namespace: str) -> int:
    # The keys of a namespace are together: the next character after the slash ends them.
    end = bisect_left(keys, f"{namespace}0") if namespace else len(keys)
    return end - index


def _wanted_version(request: Request, current: int) -> int | None:
    """The very version that is asked for, if one is; a version merely to be reached is checked and passed over."""
    text, match = request.query.get("resourceVersion", ""), request.query.get("resourceVersionMatch", "")
    if match and not text:
        problems = Problems()
        problems.forbidden(
            "resourceVersionMatch", "resourceVersionMatch is forbidden unless resourceVersion is provided"
        )
        raise invalid("ListOptions", "meta.k8s.io", "", problems.found)
    if text in ("", "0"):
        return None
    version = parse_version(text)
    if version > current:
        raise version_too_large(version, current)
    return version if match == "Exact" else None


def parse_version(text: str) -> int:
    if not text.isdecimal():
        raise bad_request(
            f'invalid resource version: resourceVersion: Invalid value: "{text}":'
            f' strconv.ParseUint: parsing "{text}": invalid syntax'
        )
    return int(text)


def _token(version: int, key: str) -> str:
    return base64.urlsafe_b64encode(encode(_Continue(version, key))).decode().rstrip("=")


def _parse_token(token: str) -> _Continue:
    try:
        data = base64.urlsafe_b64decode(token + "=" * (-len(token) % 4))
        return msgspec.convert(read_json(data, REQUEST), _Continue)
    except (ValueError, msgspec.MsgspecError):
        raise bad_request(
            "invalid continue token: continue key is not valid: a token of this server was expected"
        ) from None


# --- watches ----------------------------------------------------------------------------------------------------------

Render = Callable[[Record], bytes]
"""How a watcher wants to see an object: as it is stored, or as a row of a table."""


@dataclass(slots=True)
class Watch:
    """One open watch."""

    store: Store
    shelf: Shelf
    resource: Resource
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
        """The lines of the watch, several at a time, until its time is over."""
        try:
            if self.initial:
                # What there is and where to go on from have to be of one moment: this one.
                self.version = self.store.version
            position = self.shelf.position_after(self.version)
            if self.initial:
                for chunk in self._initial_chunks():
                    yield chunk
            elif not self.shelf.events_from(position, 1):
                # Nothing to say yet, but the client waits for the answer to begin.
                yield b""
            async for chunk in self._follow(position):
                yield chunk
        except StatusError as error:
            yield encode({"type": "ERROR", "object": error.status()}) + b"\n"

    def _initial_chunks(self) -> Iterable[bytes]:
        records = [self.shelf.records[key] for key in self.shelf.sorted_keys()]
        chosen = [record for record in records if self.selection.matches(record)]
        for start in range(0, len(chosen), _BATCH):
            yield b"".join(self._line(Change.ADDED, record) for record in chosen[start : start + _BATCH])
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
                if chunk := self._lines(events):
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

    def _lines(self, events: list[Event]) -> bytes:
        if self.render is not None or not self.selection.is_by_key:
            return b"".join([self._selected(event) for event in events])
        if not self.selection.is_everything:
            events = [event for event in events if self.selection.matches(event.record)]
        parts: list[bytes] = []
        for event in events:
            parts += (event.change.line, event.record.data, b"}\n")
        return b"".join(parts)

    def _selected(self, event: Event) -> bytes:
        """An event as the selection sees it: an object that no longer matches is gone, one that now matches is new."""
        before = event.previous is not None and self.selection.matches(event.previous)
        after = event.change is not Change.DELETED and self.selection.matches(event.record)
        if before and after:
            return self._line(Change.MODIFIED, event.record)
        if after:
            return self._line(Change.ADDED, event.record)
        if not before:
            return b""
        assert event.previous is not None
        gone = event.record if event.change is Change.DELETED else _at_version(event.previous, event.version)
        return self._line(Change.DELETED, gone)

    def _line(self, change: Change, record: Record) -> bytes:
        data = record.data if self.render is None else self.render(record)
        return b"".join((change.line, data, b"}\n"))

    def _bookmark_line(self, version: int, annotations: dict[str, str]) -> bytes:
        meta: JSON = {"resourceVersion": str(version), "creationTimestamp": None}
        if annotations:
            meta["annotations"] = annotations
        body = {"kind": self.resource.kind, "apiVersion": self.resource.group_version, "metadata": meta}
        return encode({"type": "BOOKMARK", "object": self.bookmark(body)}) + b"\n"


def _at_version(record: Record, version: int) -> Record:
    obj = decode(record.data)
    obj["metadata"]["resourceVersion"] = str(version)
    return Record(record.key, version, encode(obj), record.labels, record.fields)


def watch_start(request: Request, store: Store) -> tuple[int, bool]:
    """From which version to watch, and whether to begin with what there is."""
    text = request.query.get("resourceVersion", "")
    send_initial = request.query.get("sendInitialEvents", "")
    if send_initial and request.query.get("resourceVersionMatch") != "NotOlderThan":
        raise StatusError(
            422,
            "resourceVersionMatch: Forbidden: sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
            reason="Invalid",
        )
    initial = text in ("", "0") if not send_initial else request.flag("sendInitialEvents")
    if text in ("", "0") or initial:
        version = parse_version(text) if text else 0
        if version > store.version:
            raise version_too_large(version, store.version)
        return store.version, initial
    version = parse_version(text)
    if version > store.version:
        raise version_too_large(version, store.version)
    return version, False
