"""A cache of decoded objects of one kind, with indexes.

The store notifies its observers during the write, so the cache is never stale: a controller that has just created three
pods sees three pods. Upstream needs "expectations" because its informers lag; this cache does not.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api.decoding import InvalidObject, decode_as
from kubesched.api.meta import Part
from kubesched.apiserver.storage.store import ChangeType, Record, Shelf, StoreEvent
from kubesched.reconcile.access import Access
from kubesched.reconcile.views import View

V = TypeVar("V", bound=View)

_log = logging.getLogger(__name__)

Handler = Callable[[V | None, V | None], None]
"""Called with an object before and after a change; None means that it does not exist."""

KeysOf = Callable[[V], Sequence[str]]


def is_news(event: StoreEvent, access: Access) -> bool:
    """Whether a controller must act on an event: on all but the statuses that this process writes itself."""
    return not access.writing_status or is_more_than_status(event)


def is_more_than_status(event: StoreEvent) -> bool:
    """Whether an event changes more than the status."""
    if event.previous is None or event.change is ChangeType.DELETED:
        return True
    return decode_as(View, event.previous.data).metadata != decode_as(View, event.record.data).metadata


def _only_status(view: type[View]) -> type[Any] | None:
    """A view of nothing but the status, if a view has one."""
    for field in msgspec.structs.fields(view):
        if field.name == "status":
            return msgspec.defstruct("Status", [("status", field.type, field.default)], bases=(Part,), frozen=True)
    return None


class Index(Generic[V]):
    """Objects by a value other than their name. Uses dicts as sets: they keep order, so that runs are reproducible.

    It is built when it is first read: most clusters never need most of them, and each costs time at every change.
    """

    def __init__(self, keys_of: KeysOf[V], build: Callable[[Index[V]], None]) -> None:
        self._keys_of = keys_of
        self._build: Callable[[Index[V]], None] | None = build
        self._found: dict[str, dict[str, V]] = {}
        self._values: dict[str, Sequence[str]] = {}
        """The values of each object that has any."""

    def get(self, value: str) -> list[V]:
        """Return the objects with a value."""
        found = self._objects().get(value)
        return list(found.values()) if found else []

    def size(self, value: str) -> int:
        """Return the number of objects with a value."""
        return len(self._objects().get(value, ()))

    def _objects(self) -> dict[str, dict[str, V]]:
        if (build := self._build) is not None:
            build(self)
            self._build = None  # not before: if it fails, it is tried again
        return self._found

    def change(self, key: str, new: V | None) -> None:
        """Take over an object as it is now; None if it is gone."""
        before = self._values.get(key, ())
        after = () if new is None else self._keys_of(new)
        if before != after:
            self._leave(key, before, after)
        if new is not None:
            for value in after:
                self._found.setdefault(value, {})[key] = new

    def _leave(self, key: str, before: Sequence[str], after: Sequence[str]) -> None:
        for value in before:
            if value not in after and (group := self._found.get(value)):
                group.pop(key, None)
                if not group:
                    del self._found[value]
        if after:
            self._values[key] = after
        else:
            self._values.pop(key, None)


class Cache(Generic[V]):
    """All objects of a kind, decoded as views."""

    def __init__(self, shelf: Shelf, view: type[V]) -> None:
        self._view = view
        self._status_view = _only_status(view)
        self._handlers: list[Handler[V]] = []
        self._not_of_status: list[Handler[V]] = []
        self._indexes: list[Index[V]] = []
        found = ((key, self._decode(shelf.records[key])) for key in shelf.sorted_keys())
        self.objects: dict[str, V] = {key: obj for key, obj in found if obj is not None}
        shelf.observers.append(self._on_event)

    def get(self, key: str) -> V | None:
        return self.objects.get(key)

    def index(self, keys_of: KeysOf[V]) -> Index[V]:
        """Return an index that is kept up to date."""
        return Index(keys_of, self._fill)

    def _fill(self, index: Index[V]) -> None:
        for key, obj in self.objects.items():
            index.change(key, obj)
        self._indexes.append(index)

    def watch(self, handler: Handler[V], *, status: bool = True) -> None:
        """Call a handler for every existing object, then for every change.

        With `status` false, it is not called for changes of which it is known that only the status has changed.
        """
        (self._handlers if status else self._not_of_status).append(handler)
        for obj in list(self.objects.values()):
            handler(None, obj)

    def watch_changes(self, handler: Handler[V]) -> None:
        """Call a handler for every change from now on, if it is not called already.

        For controllers whose kind most clusters do not use: they follow pods from the first object of the kind on.
        """
        if handler not in self._handlers:
            self._handlers.append(handler)

    def _decode(self, record: Record) -> V | None:
        """Decode an object; None if that fails. The write that stored it must not fail for a controller's sake."""
        try:
            return decode_as(self._view, record.data)
        except InvalidObject as error:
            _log.error("controllers ignore an object that cannot be decoded: %s", error)
            return None

    def _next(self, old: V | None, event: StoreEvent) -> V | None:
        """The object after a change. If only its status has changed, the rest is taken from before."""
        if old is None or not event.only_status or self._status_view is None:
            return self._decode(event.record)
        try:
            return replace(old, status=decode_as(self._status_view, event.record.data).status)
        except InvalidObject:
            return self._decode(event.record)

    def _on_event(self, event: StoreEvent) -> None:
        key = event.record.key
        old = self.objects.get(key)
        new = None if event.change is ChangeType.DELETED else self._next(old, event)
        if new is None:
            self.objects.pop(key, None)
        else:
            self.objects[key] = new
        for index in self._indexes:
            index.change(key, new)
        for handler in self._handlers:
            handler(old, new)
        if not event.only_status:
            for handler in self._not_of_status:
                handler(old, new)
