"""The API server calls that a scheduler needs.

The scheduler uses only this protocol, so that it runs unchanged on a real cluster, on the embedded one, and on objects
in memory with a virtual clock.
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
    """An error response of the API server: HTTP code, Kubernetes' reason, and message.

    `retry_after` is the number of seconds after which the server asks for a retry, if it does.
    """

    def __init__(self, code: int, reason: str, message: str, retry_after: float | None = None) -> None:
        super().__init__(message)
        self.code = code
        self.reason = reason
        self.message = message
        self.retry_after = retry_after


class WatchType(Enum):
    """What a watch reports."""

    ADDED = "ADDED"
    MODIFIED = "MODIFIED"
    DELETED = "DELETED"
    BOOKMARK = "BOOKMARK"


@dataclass(frozen=True, slots=True)
class Malformed:
    """An object that exists but could not be decoded. `key` is empty if its name could not be decoded either."""

    key: str
    problem: str


class WatchEvent(msgspec.Struct, frozen=True, gc=False):
    """One event of a watch. A bookmark and a malformed object carry only the version.

    It is a Struct rather than a dataclass because a busy cluster makes thousands of them per second.
    """

    change: WatchType
    object: api.Object | None
    resource_version: str
    malformed: Malformed | None = None


@dataclass(frozen=True, slots=True)
class Listing:
    """The objects of a kind, the version to watch from, and the objects that could not be decoded."""

    items: Sequence[api.Object]
    resource_version: str
    malformed: Sequence[Malformed] = ()


class Client(Protocol):
    """The calls. Each raises `ApiError` for an error response, and `OSError` if the API server is unreachable."""

    async def list(self, kind: type[api.Object]) -> Listing:
        """All objects of a kind, in every namespace."""
        ...

    def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        """The events of a kind after a version. Ends when the server closes it; 410 means that a new list is needed.

        Close it (`contextlib.aclosing`) to stop early: it holds a connection.
        """
        ...

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        """The current state of an object, which may be newer than what a watch has shown."""
        ...

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Create the pod's Binding."""
        ...

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        """Apply a strategic merge patch to a pod's status sub-resource; `patch` is the whole body. Returns the stored
        pod."""
        ...

    async def delete_pod(self, pod: api.Pod) -> None:
        """Delete the pod with this UID."""
        ...

    async def create_event(self, namespace: str, event: JSON) -> None:
        """Create an Event in events.k8s.io/v1, or in v1 if its apiVersion says so."""
        ...

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> None:
        """Apply a strategic merge patch to an Event."""
        ...

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        """Create an object from its JSON, apiVersion and kind left out. Returns the stored object."""
        ...

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "", subresource: str = "") -> O:
        """Apply a merge patch to an object or to its subresource. Returns the stored object."""
        ...

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        """Delete an object."""
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
