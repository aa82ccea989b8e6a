"""The scheduler's client on the embedded API server: the same store and the same checks, but no socket and no bytes in
between, so a simulated day is not spent on encoding and no thread or kernel can change the order of things."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator
from functools import partial
from typing import TypeVar

from kubesched.api import objects as api
from kubesched.client.protocol import JSON, ApiError, Change, Listing, Malformed, WatchEvent
from kubesched.client.resources import EVENTS, LEASES, Resource, resource_of
from kubesched.client.wire import decode_object
from kubesched.controlplane import patch as patches
from kubesched.controlplane.apiserver import ApiServer
from kubesched.controlplane.deletion import DeleteOptions
from kubesched.controlplane.resources import Resource as Served
from kubesched.controlplane.schema import type_of
from kubesched.controlplane.status import StatusError
from kubesched.controlplane.store import Change as StoredChange
from kubesched.controlplane.store import Event, Record, Shelf
from kubesched.controlplane.writing import Preconditions, replacement

T = TypeVar("T")

BATCH = 500
QUIET_SECONDS = 3600.0
ENDED = ("Succeeded", "Failed")


class EmbeddedClient:
    """The `Client` protocol on an API server in this process."""

    def __init__(self, server: ApiServer) -> None:
        self._server = server
        self._store = server.store
        self._served: dict[Resource, Served] = {}

    # --- reading ------------------------------------------------------------------------------------------------------

    async def list(self, kind: type[api.Object]) -> Listing:
        shelf = self._shelf(kind)
        items: list[api.Object] = []
        malformed: list[Malformed] = []
        for key in shelf.sorted_keys():
            if _visible(kind, shelf.records[key]):
                found = decode_object(kind, shelf.records[key].data)
                if isinstance(found, Malformed):
                    malformed.append(found)
                else:
                    items.append(found)
        return Listing(items, str(self._store.version), malformed)

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        shelf = self._shelf(kind)
        version = int(resource_version) if resource_version else self._store.version
        position = _answered(lambda: shelf.position_after(version))
        while True:
            events = _answered(partial(shelf.events_from, position, BATCH))
            if not events:
                await shelf.wait(QUIET_SECONDS)
                continue
            position += len(events)
            for event in events:
                for told in _told(kind, event):
                    yield told

    def _shelf(self, kind: type[api.Object]) -> Shelf:
        return self._store.shelf(self._resource(resource_of(kind)).storage)

    def _resource(self, resource: Resource) -> Served:
        found = self._served.get(resource)
        if found is None:
            group, _, version = resource.group_version.rpartition("/")
            found = _answered(lambda: self._server.registry.find(group, version, resource.plural))
            self._served[resource] = found
        return found

    # --- pods ---------------------------------------------------------------------------------------------------------

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        binding: JSON = {"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node_name}}
        _answered(lambda: self._server.pods.bind(pod.namespace, pod.name, binding))

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> None:
        self._patch(resource_of(api.Pod), pod.namespace, pod.name, patch, "status")

    async def delete_pod(self, pod: api.Pod) -> None:
        options = DeleteOptions(preconditions=Preconditions(pod.uid))
        served = self._resource(resource_of(api.Pod))
        _answered(lambda: self._server.deleter.delete(served, pod.namespace, pod.name, options))

    # --- events, claims, volumes --------------------------------------------------------------------------------------

    async def create_event(self, namespace: str, event: JSON) -> JSON:
        return self._create(EVENTS, namespace, event)

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> JSON:
        return self._patch(EVENTS, namespace, name, patch)

    async def patch_claim(self, namespace: str, name: str, patch: JSON) -> api.PersistentVolumeClaim:
        kind = api.PersistentVolumeClaim
        return api.decode_as(kind, self._patch(resource_of(kind), namespace, name, patch))

    async def patch_volume(self, name: str, patch: JSON) -> api.PersistentVolume:
        kind = api.PersistentVolume
        return api.decode_as(kind, self._patch(resource_of(kind), "", name, patch))

    # --- leases -------------------------------------------------------------------------------------------------------

    async def get_lease(self, namespace: str, name: str) -> JSON:
        served = self._resource(LEASES)
        return _answered(lambda: self._server.writer.find(served, namespace, name)).load()

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return self._create(LEASES, namespace, lease)

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        served = self._resource(LEASES)
        change = replacement(lease, served)
        return _answered(lambda: self._server.writer.update(served, namespace, name, change)).load()

    # --- inside -------------------------------------------------------------------------------------------------------

    def _create(self, resource: Resource, namespace: str, body: JSON) -> JSON:
        served = self._resource(resource)
        whole = {"apiVersion": served.group_version, "kind": served.kind, **body, "metadata": {**body["metadata"]}}
        return _answered(lambda: self._server.writer.create(served, namespace, whole)).load()

    def _patch(self, resource: Resource, namespace: str, name: str, patch: JSON, subresource: str = "") -> JSON:
        served = self._resource(resource)
        form = type_of(served.schema)

        def change(old: JSON) -> JSON:
            return patches.strategic_merge(old, patch, form)

        return _answered(
            lambda: self._server.writer.update(served, namespace, name, change, subresource=subresource)
        ).load()


def _answered(ask: Callable[[], T]) -> T:
    """What the server answers, its refusals as the errors that a client promises."""
    try:
        return ask()
    except StatusError as refusal:
        raise as_api_error(refusal) from None


def as_api_error(refusal: StatusError) -> ApiError:
    """A refusal inside the server as clients know it."""
    return ApiError(refusal.code, refusal.reason, str(refusal), refusal.retry_after or None)


def _visible(kind: type[api.Object], record: Record) -> bool:
    """Pods that have ended are not shown to a scheduler: the field selector of its watch leaves them out."""
    return kind is not api.Pod or record.fields.get("status.phase") not in ENDED


def _told(kind: type[api.Object], event: Event) -> Iterator[WatchEvent]:
    version = str(event.version)
    was = event.previous is not None and _visible(kind, event.previous)
    is_ = event.change is not StoredChange.DELETED and _visible(kind, event.record)
    if not was and not is_:
        return
    change = Change.MODIFIED if was and is_ else Change.ADDED if is_ else Change.DELETED
    found = decode_object(kind, event.record.data)
    if isinstance(found, Malformed):
        yield WatchEvent(change, None, version, found)
    else:
        yield WatchEvent(change, found, version)
