"""The scheduler's client protocol straight on the API server in this process: no socket, no second copy of the bytes.

It is what a simulation runs the scheduler on: on a virtual clock, with the whole of admission and validation, and cheap
enough for a day of a large cluster in a minute.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import Any, TypeVar

from kubesched.api import objects as api
from kubesched.client.protocol import JSON, ApiError, Change, Listing, Malformed, WatchEvent
from kubesched.client.resources import EVENTS, LEASES, Resource, resource_of
from kubesched.client.wire import decode_object
from kubesched.controlplane.apiserver import ApiServer
from kubesched.controlplane.deletion import DeleteOptions
from kubesched.controlplane.local import LocalClient
from kubesched.controlplane.patch import MERGE_PATCH, STRATEGIC
from kubesched.controlplane.status import StatusError
from kubesched.controlplane.store import Change as Stored
from kubesched.controlplane.store import Event, Record, Shelf
from kubesched.controlplane.writing import Preconditions

T = TypeVar("T")

BATCH = 256
WAIT_SECONDS = 600.0
_ENDED = ("Succeeded", "Failed")


class DirectClient:
    """The `Client` protocol of the scheduler, in process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._local = LocalClient(server)

    # --- lists and watches --------------------------------------------------------------------------------------------

    def _shelf(self, resource: Resource) -> Shelf:
        found = _answer(lambda: self._server.registry.find(resource.group, _version(resource), resource.plural))
        return self._store.shelf(found.storage)

    async def list(self, kind: type[api.Object]) -> Listing:
        shelf = self._shelf(resource_of(kind))
        items: list[api.Object] = []
        malformed: list[Malformed] = []
        for key in shelf.sorted_keys():
            record = shelf.records[key]
            if _is_wanted(kind, record):
                found = decode_object(kind, record.data)
                if isinstance(found, Malformed):
                    malformed.append(found)
                else:
                    items.append(found)
        return Listing(items, str(self._store.version), malformed)

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        shelf = self._shelf(resource_of(kind))
        position = _answer(lambda: shelf.position_after(int(resource_version)))
        while True:
            events = _answer(partial(shelf.events_from, position, BATCH))
            if not events:
                await shelf.wait(WAIT_SECONDS)
                continue
            position += len(events)
            for event in events:
                if (told := _told(kind, event)) is not None:
                    yield told

    # --- writes -------------------------------------------------------------------------------------------------------

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        binding = {"metadata": {"name": pod.name, "uid": pod.uid}, "target": {"kind": "Node", "name": node_name}}
        _answer(lambda: self._server.pods.bind(pod.namespace, pod.name, binding))
        await self._store.durable()

    async def delete_pod(self, pod: api.Pod) -> None:
        resource = self._server.registry.find("", "v1", "pods")
        options = DeleteOptions(preconditions=Preconditions(pod.uid))
        _answer(lambda: self._server.deleter.delete(resource, pod.namespace, pod.name, options))
        await self._store.durable()

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> None:
        await self._call("PATCH", resource_of(api.Pod).path(pod.namespace, pod.name, "status"), patch, STRATEGIC)

    async def create_event(self, namespace: str, event: JSON) -> JSON:
        return await self._call("POST", EVENTS.path(namespace), event)

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> JSON:
        return await self._call("PATCH", EVENTS.path(namespace, name), patch, STRATEGIC)

    async def patch_claim(self, namespace: str, name: str, patch: JSON) -> api.PersistentVolumeClaim:
        kind = api.PersistentVolumeClaim
        return api.decode_as(
            kind, await self._call("PATCH", resource_of(kind).path(namespace, name), patch, MERGE_PATCH)
        )

    async def patch_volume(self, name: str, patch: JSON) -> api.PersistentVolume:
        kind = api.PersistentVolume
        return api.decode_as(kind, await self._call("PATCH", resource_of(kind).path(name=name), patch, MERGE_PATCH))

    async def get_lease(self, namespace: str, name: str) -> JSON:
        return await self._call("GET", LEASES.path(namespace, name))

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return await self._call("POST", LEASES.path(namespace), lease)

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        return await self._call("PUT", LEASES.path(namespace, name), lease)

    async def _call(self, method: str, path: str, body: JSON | None = None, content_type: str = "") -> JSON:
        options: dict[str, Any] = {"content_type": content_type} if content_type else {}
        try:
            return await self._local.call(method, path, body, **options)
        except StatusError as error:
            raise _as_api_error(error) from None


def _version(resource: Resource) -> str:
    return resource.group_version.rpartition("/")[2]


def _answer(act: Callable[[], T]) -> T:
    try:
        return act()
    except StatusError as error:
        raise _as_api_error(error) from None


def _as_api_error(error: StatusError) -> ApiError:
    return ApiError(error.code, error.reason, error.message, error.retry_after or None)


def _is_wanted(kind: type[api.Object], record: Record) -> bool:
    """Pods that have ended are not the scheduler's concern; it does not even ask for them."""
    return kind is not api.Pod or record.fields.get("status.phase") not in _ENDED


def _told(kind: type[api.Object], event: Event) -> WatchEvent | None:
    """An event as a watch with the kind's selector tells it."""
    record = event.record
    before = event.previous is not None and _is_wanted(kind, event.previous)
    after = event.change is not Stored.DELETED and _is_wanted(kind, record)
    if not before and not after:
        return None
    change = Change.DELETED if not after else Change.MODIFIED if before else Change.ADDED
    found = decode_object(kind, record.data)
    if isinstance(found, Malformed):
        return WatchEvent(change, None, str(record.version), found)
    return WatchEvent(change, found, str(record.version))
