"""The few things a scheduler asks of an API server.

The scheduler is written against this protocol, so that it runs unchanged on a real cluster, on the embedded one and on
an in-process store under a virtual clock.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol, TypeVar

import msgspec

from kubesched.api import objects as api
from kubesched.base.types import JSON

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"


class ApiError(Exception):
    """The API server's refusal: an HTTP code, Kubernetes' reason for it and the message.

    `retry_after` are the seconds after which the server asked to be tried again, if it did.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class Change(Enum):
    """What a watch reports."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that exists but could not be read; `key` is empty if not even its name could."""

    key: str
    problem: str


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One step in the history of a kind. A bookmark carries only the version reached, and so does a malformed object.

    A Struct rather than a dataclass because a busy cluster makes thousands of them a second.
    """

    change: Change
    object: api.Object | None
    resource_version: str
    malformed: Malformed | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a kind as of a version to watch from, and those among them that could not be read."""

    items: Sequence[api.Object]
    resource_version: str
    malformed: Sequence[Malformed] = ()


class Client(Protocol):
    """Calls of a scheduler. Each raises `ApiError` when the API server refuses, `OSError` when it is out of reach."""

    async def list(self, kind: type[api.Object]) -> Listing:
        """All objects of a kind, in every namespace."""
        ...

    def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        """What happens to a kind after a version. Ends when the server closes it; 410 means: list again.

        Close it (`contextlib.aclosing`) when done with it early: it holds a connection.
        """
        ...

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        """One object as it is now, which may be newer than what a watch has told."""
        ...

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Create the pod's Binding."""
        ...

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        """Apply a strategic merge patch to a pod's status sub-resource; `patch` is the whole body. Answers with what
        was stored."""
        ...

    async def delete_pod(self, pod: api.Pod) -> None:
        """Delete the pod with this UID."""
        ...

    async def create_event(self, namespace: str, event: JSON) -> JSON:
        """Create an Event, of events.k8s.io/v1 unless it says that it is of v1; answers with what was stored."""
        ...

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> JSON:
        """Apply a strategic merge patch to an Event."""
        ...

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "") -> O:
        """Apply a merge patch to an object; answers with what was stored."""
        ...

    async def get_lease(self, namespace: str, name: str) -> JSON:
        """A coordination.k8s.io/v1 Lease."""
        ...

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        """Create a Lease; 409 if it exists."""
        ...

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        """Replace a Lease; 409 if its resourceVersion is not the stored one."""
        ...


Labels = Mapping[str, str]
