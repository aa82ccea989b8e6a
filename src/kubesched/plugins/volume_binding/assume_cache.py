"""Claims and volumes as they will be after pending writes.

Between the decision to bind and its arrival from the API server, other pods must not get the same volume. An assumed
object replaces the object that it was made from, identified by its resource version: as soon as the cluster has any
other version, that one counts. This holds even if the first version comes back later, from a restored backup.
"""

from __future__ import annotations

from typing import Generic, TypeVar

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"


class AssumeCache(Generic[O]):
    """The cluster's objects of one kind, with assumed ones in their place."""

    def __init__(self, cluster: ClusterState, kind: type[O]) -> None:
        self._cluster = cluster
        self._kind = kind
        self._seen = cluster.version(kind)
        self._assumed: dict[str, O] = {}

    def get(self, key: str) -> O | None:
        """The object as it will be."""
        stored = self.stored(key)
        return None if stored is None else self.of(stored)

    def of(self, stored: O) -> O:
        """The object to use for one of the cluster's; the same object if nothing is assumed about it."""
        if not self._assumed:
            return stored
        self._expire()
        assumed = self._assumed.get(stored.key)
        return assumed if assumed is not None and _same_version(assumed, stored) else stored

    def stored(self, key: str) -> O | None:
        """The object as last received from the API server."""
        return self._cluster.get(self._kind, key)

    def assumed(self) -> list[O]:
        """All assumed objects that still count."""
        self._expire()
        return list(self._assumed.values())

    def assume(self, obj: O) -> None:
        """Assume that an object has changed to this."""
        self._expire()
        self._assumed[obj.key] = obj

    def restore(self, obj: O) -> None:
        """Take an assumption back, if it was made for this version."""
        assumed = self._assumed.get(obj.key)
        if assumed is not None and _same_version(assumed, obj):
            del self._assumed[obj.key]

    def _expire(self) -> None:
        """Drop assumptions about objects that have changed since."""
        seen, self._seen = self._seen, self._cluster.version(self._kind)
        if seen == self._seen:
            return
        changed = self._cluster.changed_since(self._kind, seen)
        for key in self._replaced() if changed is None else changed:
            self._assumed.pop(key, None)

    def _replaced(self) -> list[str]:
        """The keys of objects that have another version by now. Which ones have changed is not known any more."""
        stored = {key: self.stored(key) for key in self._assumed}
        return [key for key, obj in stored.items() if obj is None or not _same_version(self._assumed[key], obj)]


def _same_version(one: api.Object, other: api.Object) -> bool:
    return one.metadata.resource_version == other.metadata.resource_version
