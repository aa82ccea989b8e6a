"""The scheduler's client protocol straight on the API server in this process: its store and its checks without a socket
and without bytes in between.

It is what a simulation runs the scheduler on: no thread or kernel can change the order of things, and it is cheap
enough for a day of a large cluster in a minute.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from functools import partial
from typing import TypeVar

from kubesched.api import objects as api
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.kinds.resources import Resource as Served
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.deletion import DeleteOptions
from kubesched.apiserver.rest.patch import merge_patch, strategic_merge
from kubesched.apiserver.rest.writing import Preconditions, replacement
from kubesched.apiserver.storage.store import Change as Stored
from kubesched.apiserver.storage.store import Event, Record, Shelf
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Change, Listing, Malformed, WatchEvent
from kubesched.client.resources import EVENTS, LEASES, Resource, resource_of, resource_of_event
from kubesched.client.wire import decode_object

T = TypeVar("T")
O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol

BATCH = 500
_ENDED = ("Succeeded", "Failed")


class DirectClient:
    """The `Client` protocol of the scheduler, in process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._served: dict[Resource, Served] = {}

    # --- lists and watches --------------------------------------------------------------------------------------------

    async def list(self, kind: type[api.Object]) -> Listing:
        shelf = self._shelf(kind)
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
        shelf = self._shelf(kind)
        version = int(resource_version) if resource_version else self._store.version
        position = _answer(lambda: shelf.position_after(version))
        while True:
            events = _answer(partial(shelf.events_from, position, BATCH))
            if not events:
                await shelf.wait()
                continue
            position += len(events)
            for event in events:
                if (told := _told(kind, event)) is not None:
                    yield told

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        served = self._resource(resource_of(kind))
        return api.decode_as(kind, _answer(lambda: self._server.writer.find(served, namespace, name)).load())

    def _shelf(self, kind: type[api.Object]) -> Shelf:
        return self._store.shelf(self._resource(resource_of(kind)).storage)

    def _resource(self, resource: Resource) -> Served:
        found = self._served.get(resource)
        if found is None:
            group, _, version = resource.group_version.rpartition("/")
            found = _answer(lambda: self._server.registry.find(group, version, resource.plural))
            self._served[resource] = found
        return found

    # --- pods ---------------------------------------------------------------------------------------------------------

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        binding: JSON = {"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node_name}}
        _answer(lambda: self._server.pods.bind(pod.namespace, pod.name, binding))
        await self._store.durable()

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        stored = await self._strategic(resource_of(api.Pod), pod.namespace, pod.name, patch, "status")
        return api.decode_as(api.Pod, stored)

    async def delete_pod(self, pod: api.Pod) -> None:
        options = DeleteOptions(preconditions=Preconditions(pod.uid))
        served = self._resource(resource_of(api.Pod))
        _answer(lambda: self._server.deleter.delete(served, pod.namespace, pod.name, options))
        await self._store.durable()

    # --- events and all else ------------------------------------------------------------------------------------------

    async def create_event(self, namespace: str, event: JSON) -> JSON:
        return await self._create(resource_of_event(event), namespace, event)

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> JSON:
        return await self._strategic(EVENTS, namespace, name, patch)

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "") -> O:
        return api.decode_as(kind, await self._merge(resource_of(kind), namespace, name, patch))

    # --- leases -------------------------------------------------------------------------------------------------------

    async def get_lease(self, namespace: str, name: str) -> JSON:
        served = self._resource(LEASES)
        return _answer(lambda: self._server.writer.find(served, namespace, name)).load()

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return await self._create(LEASES, namespace, lease)

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        whole = self._whole(LEASES, lease)
        return await self._update(LEASES, namespace, name, replacement(whole, self._resource(LEASES)))

    # --- writes -------------------------------------------------------------------------------------------------------

    async def _create(self, resource: Resource, namespace: str, body: JSON) -> JSON:
        served, whole = self._resource(resource), self._whole(resource, body)
        record = _answer(lambda: self._server.writer.create(served, namespace, whole))
        await self._store.durable()
        return record.load()

    def _whole(self, resource: Resource, body: JSON) -> JSON:
        """An object that the server may complete: the caller's stays as it is."""
        served = self._resource(resource)
        return {"apiVersion": served.group_version, "kind": served.kind, **body, "metadata": {**body["metadata"]}}

    async def _strategic(
        self, resource: Resource, namespace: str, name: str, patch: JSON, subresource: str = ""
    ) -> JSON:
        form = type_of(self._resource(resource).schema)
        return await self._update(
            resource, namespace, name, lambda old: strategic_merge(old, patch, form), subresource=subresource
        )

    async def _merge(self, resource: Resource, namespace: str, name: str, patch: JSON) -> JSON:
        return await self._update(resource, namespace, name, lambda old: dict(merge_patch(old, patch)))

    async def _update(
        self, resource: Resource, namespace: str, name: str, change: Callable[[JSON], JSON], *, subresource: str = ""
    ) -> JSON:
        served = self._resource(resource)
        record = _answer(lambda: self._server.writer.update(served, namespace, name, change, subresource=subresource))
        await self._store.durable()
        return record.load()


def _answer(act: Callable[[], T]) -> T:
    """What the server answers, its refusals as the errors that a client promises."""
    try:
        return act()
    except StatusError as refusal:
        raise as_api_error(refusal) from None


def as_api_error(refusal: StatusError) -> ApiError:
    """A refusal inside the server as clients know it."""
    return ApiError(refusal.code, refusal.reason, refusal.message, refusal.retry_after or None)


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
    # What leaves the selection is told as it was within it: a pod that goes because it has ended still held its place.
    shown = event.previous if change is Change.DELETED and event.previous is not None else record
    found = decode_object(kind, shown.data)
    if isinstance(found, Malformed):
        return WatchEvent(change, None, str(record.version), found)
    return WatchEvent(change, found, str(record.version))
