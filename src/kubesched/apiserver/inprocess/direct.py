"""The scheduler's client protocol straight on the API server in this process: its store and its checks, but no socket.

A simulation runs the scheduler on it: no thread or kernel can change the order of events, and it is cheap enough for a
day of a large cluster in a minute.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.reader import StoreReader, as_api_error, call
from kubesched.apiserver.kinds.registry import ApiResource
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.deletion import DeleteOptions
from kubesched.apiserver.rest.patch import strategic_merge
from kubesched.apiserver.rest.writer import Preconditions, replacement
from kubesched.apiserver.storage.store import Record, Shelf
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.merge import merge_patch
from kubesched.base.types import JSON
from kubesched.client.endpoints import EVENTS, LEASES, Endpoint, endpoint_of, endpoint_of_event
from kubesched.client.protocol import Malformed
from kubesched.client.wire import decode_object

O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol


MOST_SHOWN = 200_000
"""Decoded pods that are remembered."""


class _Changed(api.Object, frozen=True):
    """A pod without its spec."""

    status: api.PodStatus = api.PodStatus()


def _with_status(pod: O, record: Record) -> O | Malformed:
    """A pod of which only the status has changed, and so the version. The spec is taken over."""
    changed = decode_object(_Changed, record.data)
    if isinstance(changed, Malformed):
        return decode_object(type(pod), record.data)
    return replace(pod, metadata=changed.metadata, status=changed.status)


class DirectClient(StoreReader):
    """The `Client` protocol on an API server in this process."""

    def __init__(self, server: ApiServer) -> None:
        super().__init__(server.store)
        self._server = server
        self._resources: dict[Endpoint, ApiResource] = {}
        self._shown: dict[str, Any] = {}
        """Pods by key, decoded, until they are shown again."""

    # --- reading ------------------------------------------------------------------------------------------------------

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        resource = self._resource(endpoint_of(kind))
        found = call(lambda: self._server.writer.find(resource, namespace, name)).load()
        await self._store.durable()
        return api.decode_as(kind, found)

    def _shelf(self, kind: type[api.Object]) -> Shelf:
        return self._store.shelf(self._resource(endpoint_of(kind)).storage)

    def _decode(self, kind: type[O], record: Record, before: Record | None = None) -> O | Malformed:
        if kind is not api.Pod:
            return decode_object(kind, record.data)
        known: O | None = self._shown.pop(record.key, None)
        version = "" if known is None else known.metadata.resource_version
        # A pod is often shown twice: when it changes, and as it was before it ended.
        if known is not None and version == str(record.version):
            return known
        if known is not None and before is not None and version == str(before.version):
            found = _with_status(known, record)
        else:
            found = decode_object(kind, record.data)
        if not isinstance(found, Malformed) and len(self._shown) < MOST_SHOWN:
            self._shown[record.key] = found
        return found

    def _resource(self, endpoint: Endpoint) -> ApiResource:
        found = self._resources.get(endpoint)
        if found is None:
            group, _, version = endpoint.group_version.rpartition("/")
            found = call(lambda: self._server.registry.find(group, version, endpoint.plural))
            self._resources[endpoint] = found
        return found

    # --- pods ---------------------------------------------------------------------------------------------------------

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        binding: JSON = {"metadata": {"uid": pod.uid}, "target": {"kind": "Node", "name": node_name}}
        try:
            self._server.pods.bind(pod.namespace, pod.name, binding)
        except StatusError as refusal:
            raise as_api_error(refusal) from None
        await self._store.durable()

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        stored = await self._strategic(endpoint_of(api.Pod), pod.namespace, pod.name, patch, "status")
        return api.decode_as(api.Pod, stored)

    async def delete_pod(self, pod: api.Pod) -> None:
        options = DeleteOptions(preconditions=Preconditions(pod.uid))
        resource = self._resource(endpoint_of(api.Pod))
        call(lambda: self._server.deleter.delete(resource, pod.namespace, pod.name, options))
        await self._store.durable()

    # --- events and all else ------------------------------------------------------------------------------------------

    async def create_event(self, namespace: str, event: JSON) -> None:
        await self._create(endpoint_of_event(event), namespace, event)

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> None:
        await self._strategic(EVENTS, namespace, name, patch)

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        return api.decode_as(kind, await self._create(endpoint_of(kind), namespace, body))

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        resource = self._resource(endpoint_of(kind))
        call(lambda: self._server.deleter.delete(resource, namespace, name, DeleteOptions()))
        await self._store.durable()

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "", subresource: str = "") -> O:
        return api.decode_as(kind, await self._merge(endpoint_of(kind), namespace, name, patch, subresource))

    # --- leases -------------------------------------------------------------------------------------------------------

    async def get_lease(self, namespace: str, name: str) -> JSON:
        resource = self._resource(LEASES)
        lease = call(lambda: self._server.writer.find(resource, namespace, name)).load()
        await self._store.durable()
        return lease

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return await self._create(LEASES, namespace, lease)

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        whole = self._whole(LEASES, lease)
        return await self._update(LEASES, namespace, name, replacement(whole, self._resource(LEASES)))

    # --- writes -------------------------------------------------------------------------------------------------------

    async def _create(self, endpoint: Endpoint, namespace: str, body: JSON) -> JSON:
        resource, whole = self._resource(endpoint), self._whole(endpoint, body)
        record = call(lambda: self._server.writer.create(resource, namespace, whole))
        await self._store.durable()
        return record.load()

    def _whole(self, endpoint: Endpoint, body: JSON) -> JSON:
        """A copy of an object that the server may complete."""
        resource = self._resource(endpoint)
        return {"apiVersion": resource.group_version, "kind": resource.kind, **body, "metadata": {**body["metadata"]}}

    async def _strategic(
        self, endpoint: Endpoint, namespace: str, name: str, patch: JSON, subresource: str = ""
    ) -> JSON:
        form = type_of(self._resource(endpoint).schema)
        return await self._update(
            endpoint, namespace, name, lambda old: strategic_merge(old, patch, form), subresource=subresource
        )

    async def _merge(self, endpoint: Endpoint, namespace: str, name: str, patch: JSON, subresource: str) -> JSON:
        return await self._update(
            endpoint, namespace, name, lambda old: dict(merge_patch(old, patch)), subresource=subresource
        )

    async def _update(
        self, endpoint: Endpoint, namespace: str, name: str, change: Callable[[JSON], JSON], *, subresource: str = ""
    ) -> JSON:
        resource = self._resource(endpoint)
        record = call(lambda: self._server.writer.update(resource, namespace, name, change, subresource=subresource))
        await self._store.durable()
        return record.load()
