"""Objects by kind: everything that plugins look up beside nodes and pods, with a version per kind."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import TypeVar, cast

from kubesched.api import objects as api

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"

SELECTING_KINDS = (api.Service, api.ReplicationController, api.ReplicaSet, api.StatefulSet)
"""Kinds of which scheduling reads only the selector. Their status changes with every pod that comes or goes."""


class ObjectsByKind:
    """The newest state of each object, by kind and key."""

    LOG = 8192
    """Changes of a kind remembered by key. A caller that asks for older ones has to look at all objects."""

    def __init__(self) -> None:
        self._objects: dict[type[api.Object], dict[str, api.Object]] = {}
        self._versions: dict[type[api.Object], int] = {}
        self._logs: dict[type[api.Object], list[str]] = {}
        self._when_first: dict[type[api.Object], Callable[[], None]] = {}
        self.selecting_version = 0
        """A number that grows with the version of any of `SELECTING_KINDS`."""

    def set(self, obj: api.Object) -> None:
        """Store an object's newest state."""
        kind, key = type(obj), obj.key
        known = self._objects.setdefault(kind, {})
        old, known[key] = known.get(key), obj
        if not (isinstance(obj, SELECTING_KINDS) and isinstance(old, SELECTING_KINDS) and old.spec == obj.spec):
            self._changed(kind, key)

    def remove(self, obj: api.Object) -> None:
        """Remove an object, if it is there."""
        kind, key = type(obj), obj.key
        if self._objects.get(kind, {}).pop(key, None) is not None:
            self._changed(kind, key)

    def get(self, kind: type[O], key: str) -> O | None:
        """The object of this kind with this key."""
        return cast("O | None", self._objects.get(kind, {}).get(key))

    def all(self, kind: type[O]) -> Collection[O]:
        """All objects of a kind."""
        return cast("Collection[O]", self._objects.get(kind, {}).values())

    def version(self, kind: type[api.Object]) -> int:
        """A number that grows whenever an object of this kind comes, goes, or changes in what scheduling reads."""
        return self._versions.get(kind, 0)

    def changed_since(self, kind: type[api.Object], version: int) -> list[str] | None:
        """Keys of the objects of a kind that came, changed or went since that version; None if that is too long ago."""
        count = self.version(kind) - version
        log = self._logs.get(kind, [])
        return log[len(log) - count :] if count <= len(log) else None

    def when_first(self, kind: type[api.Object], callback: Callable[[], None]) -> None:
        """Call back once: when the first object of a kind comes, or now if there is one."""
        if self.all(kind):
            callback()
        else:
            self._when_first[kind] = callback

    def _changed(self, kind: type[api.Object], key: str) -> None:
        self._versions[kind] = self._versions.get(kind, 0) + 1
        if kind in SELECTING_KINDS:
            self.selecting_version += 1
        if kind in self._when_first:
            self._when_first.pop(kind)()
        log = self._logs.setdefault(kind, [])
        log.append(key)
        if len(log) > self.LOG:
            del log[: self.LOG // 2]
