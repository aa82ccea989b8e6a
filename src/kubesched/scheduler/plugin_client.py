"""The API server as plugins see it: some of the client's calls, and adapters of others."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import cast
from weakref import WeakValueDictionary

import msgspec

from kubesched.api import objects as api
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError, Client, O
from kubesched.scheduler.api_calls import BindingCall, Dispatcher


class PluginClient:
    """A client for plugins. `on_unclear_bind` is called with a pod that may be bound although the call failed. With
    a dispatcher, bindings are ordered with the other calls of their pod.
    """

    def __init__(
        self, client: Client, on_unclear_bind: Callable[[api.Pod], None], dispatcher: Dispatcher | None = None
    ) -> None:
        self._client = client
        self._dispatcher = dispatcher
        self._on_unclear_bind = on_unclear_bind
        self.patch_pod_status = client.patch_pod_status
        self.delete_pod = client.delete_pod
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        """One object as it is now."""
        return await self._client.read(kind, name, namespace)

    async def list(self, kind: type[O]) -> Sequence[O]:
        """All objects of a kind that can be read."""
        return cast(Sequence[O], (await self._client.list(kind)).items)

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        """Create an object."""
        return await self._client.create_object(kind, body, namespace)

    async def merge_patch(
        self, kind: type[O], name: str, patch: JSON, namespace: str = "", *, subresource: str = ""
    ) -> O:
        """Change fields of an object or of its subresource."""
        return await self._client.merge_patch(kind, name, patch, namespace, subresource)

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        """Delete an object."""
        await self._client.delete_object(kind, name, namespace)

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Create the pod's Binding; reports a failure that may have taken effect."""
        try:
            if self._dispatcher is None:
                await self._client.bind(pod, node_name)
            else:
                await self._dispatcher.add(BindingCall(self._client, pod, node_name))
        except Exception as problem:
            # A conflict may mean that this very request arrived before: connections and proxies repeat requests.
            refused = isinstance(problem, ApiError) and 400 <= problem.code < 500 and problem.code != 409
            if not refused:
                self._on_unclear_bind(pod)
            raise

    async def bind_volume(
        self, name: str, claim_ref: api.ObjectReference, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolume:
        """Set a volume's claimRef and annotations; returns the volume after the change."""
        patch = _patch(annotations, resource_version)
        patch["spec"] = {"claimRef": msgspec.to_builtins(claim_ref)}
        return await self._client.merge_patch(api.PersistentVolume, name, patch)

    async def annotate_claim(
        self, namespace: str, name: str, annotations: Mapping[str, str], resource_version: str
    ) -> api.PersistentVolumeClaim:
        """Set a claim's annotations; returns the claim after the change."""
        patch = _patch(annotations, resource_version)
        return await self._client.merge_patch(api.PersistentVolumeClaim, name, patch, namespace)

    def one_at_a_time(self, uid: str) -> AbstractAsyncContextManager[None]:
        """Lets only one task at a time in for the same UID."""
        return self._locks.setdefault(uid, asyncio.Lock())


def _patch(annotations: Mapping[str, str], resource_version: str) -> JSON:
    return {"metadata": {"annotations": dict(annotations), "resourceVersion": resource_version}}
