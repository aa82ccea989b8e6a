"""Claims and volumes as they will be after pending writes.

Between the decision to bind and its arrival from the API server, other pods must not get the same volume. An assumed
object replaces the very object of the cluster that it was made from. As soon as the cluster has received another one,
that one counts. Resource versions alone do not tell: after a restored backup the old version comes back.
"""

from __future__ import annotations

from typing import Generic, NamedTuple, TypeVar

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"


class _Assumption(NamedTuple, Generic[O]):
    made_from: O
    """The cluster's object."""
    assumed: O


class AssumeCache(Generic[O]):
    """The cluster's objects of one kind, with assumed ones in their place."""

    def __init__(self, cluster: ClusterState, kind: type[O]) -> None:
        self._cluster = cluster
        self._kind = kind
        self._seen = cluster.version(kind)
        self._assumptions: dict[str, _Assumption[O]] = {}

    def get(self, key: str) -> O | None:
        """The object as it will be."""
        stored = self.stored(key)
        return None if stored is None else self.of(stored)

    def of(self, stored: O) -> O:
        """The object to use for one of the cluster's; the same object if nothing is assumed about it."""
        found = self._assumptions.get(stored.key)
        return found.assumed if found is not None and found.made_from is stored else stored

    def stored(self, key: str) -> O | None:
        """The object as last received from the API server."""
        return self._cluster.get(self._kind, key)

    def assumed(self) -> list[O]:
        """All assumed objects that still count."""
        self._expire()
        return [each.assumed for each in self._assumptions.values()]

    def assume(self, obj: O) -> None:
        """Assume that an object has changed to this, unless the cluster has received a newer one by now."""
        self._expire()
        stored = self.stored(obj.key)
        if stored is not None and stored.metadata.resource_version == obj.metadata.resource_version:
            self._assumptions[obj.key] = _Assumption(stored, obj)

    def restore(self, obj: O) -> None:
        """Take this assumption back, unless another one has replaced it."""
        found = self._assumptions.get(obj.key)
        if found is not None and found.assumed is obj:
            del self._assumptions[obj.key]

    def _expire(self) -> None:
        """Drop assumptions about objects that the cluster has received again since."""
        seen, self._seen = self._seen, self._cluster.version(self._kind)
        changed = self._cluster.changed_since(self._kind, seen)
        for key in list(self._assumptions) if changed is None else changed:
            found = self._assumptions.get(key)
            if found is not None and found.made_from is not self.stored(key):
                del self._assumptions[key]
