"""The API server of a test: a cluster in memory, and faults on the way to it."""

from __future__ import annotations

from random import Random
from typing import TypeVar

from kubesched.api import objects as api
from kubesched.apiserver.inprocess.memory import MemoryClient
from kubesched.base.clock import Clock
from kubesched.base.types import JSON
from kubesched.client.faults import Faults, FaultyClient

O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol


class FaultyApi(FaultyClient):
    """A `FaultyClient` around a cluster in memory. What a test writes and reads directly meets no faults.

    With `memory` it is one more client of the same cluster, with faults of its own.
    """

    def __init__(self, clock: Clock | None = None, *, memory: MemoryClient | None = None, seed: int = 0) -> None:
        self.memory = memory or MemoryClient(clock)
        super().__init__(self.memory, Faults(Random(seed)))

    def create(self, obj: O) -> O:
        """Store a new object; returns it with UID, version, date and, if it is a pod, a phase."""
        return self.memory.create(obj)

    def update(self, obj: O) -> O:
        """Replace an object; 409 if it carries a version that is no longer the stored one."""
        return self.memory.update(obj)

    def delete(self, obj: api.Object) -> None:
        """Remove an object at once."""
        self.memory.delete(obj)

    def get(self, kind: type[O], key: str) -> O | None:
        """The object with this ``namespace/name``, or None."""
        return self.memory.get(kind, key)

    def objects(self, kind: type[O]) -> tuple[O, ...]:
        """All objects of a kind in the order of creation."""
        return self.memory.objects(kind)

    @property
    def events(self) -> tuple[JSON, ...]:
        """Every Event in the order of creation."""
        return self.memory.events

    @property
    def bindings(self) -> tuple[tuple[str, str, str], ...]:
        """Every successful bind in order: the pod's key and UID, and the node."""
        return tuple(self.memory.bindings)

    @property
    def deletion_takes(self) -> float:
        """Seconds from the deletion of a pod on a node until it is gone; infinite means until `finish_deletion`."""
        return self.memory.deletion_takes

    @deletion_takes.setter
    def deletion_takes(self, seconds: float) -> None:
        self.memory.deletion_takes = seconds

    def finish_deletion(self, pod: api.Pod) -> None:
        """Remove a pod that is terminating."""
        self.memory.finish_deletion(pod)

    def forget_history(self, kind: type[api.Object] | None = None) -> None:
        """Forget all events up to now, so that a watch from an earlier version gets 410."""
        self.memory.forget_history(kind)

    def bookmark(self, kind: type[api.Object] | None = None) -> None:
        """Send open watches a bookmark with the current version."""
        self.memory.bookmark(kind)
