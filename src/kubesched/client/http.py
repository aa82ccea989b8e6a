"""The client for a real API server, over HTTP/1.1 with JSON bodies.

It always sends and accepts JSON. The configuration's `contentType` (upstream's default is protobuf) has no effect:
Python reads JSON faster, see the architecture page's weaknesses, and what is written is small.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from typing import Any, Self, TypeVar
from urllib.parse import urlencode

import msgspec

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.clocks import SystemClock
from kubesched.base.merge import merge_patch
from kubesched.base.types import JSON
from kubesched.client.connection import Connection
from kubesched.client.endpoints import EVENTS, LEASES, endpoint_of, endpoint_of_event
from kubesched.client.pool import MayWrite
from kubesched.client.protocol import ApiError, Listing, Malformed, WatchEvent, WatchType
from kubesched.client.ratelimit import TokenBucket
from kubesched.client.transport import APPLICATION_JSON, Observer, Request, Transport
from kubesched.client.whole import REPLACED, WholeObjects
from kubesched.client.wire import decode_json, decode_line, decode_object, decode_page, raw_object

O = TypeVar("O", bound=api.Object)  # noqa: E741 - the one-letter name for "some kind of object", as in the protocol

MERGE_PATCH = "application/merge-patch+json"
STRATEGIC_MERGE_PATCH = "application/strategic-merge-patch+json"

REQUEST_TIMEOUT = 60.0
"""An API server gives up after the same time."""

PAGE_SIZE = 500
PAGED_TRIES = 3
"""How often a list is restarted when its pages expire, before it is requested without pages."""

WATCH_SECONDS = (300, 600)
SLICE_BYTES = 256 * 1024
"""After decoding this much, other tasks get their turn."""

PODS = endpoint_of(api.Pod)
BINDING = (
    b'{"apiVersion":"v1","kind":"Binding","metadata":{"name":%b,"namespace":%b,"uid":%b},'
    b'"target":{"kind":"Node","name":%b}}'
)

Query = Mapping[str, str]

encode = msgspec.json.Encoder().encode

OnPage = Callable[[type[api.Object], int], None]
"""Called during a list, for every page that has arrived, with the number of objects so far."""


class HttpClient:
    """The `Client` protocol over HTTP, and methods for any other request.

    Each client has its own connections and rate limit, so that bindings do not delay the renewal of the lease.
    Use it as an asynchronous context manager, or `close` it.
    """

    def __init__(
        self,
        connection: Connection,
        *,
        qps: float = 50.0,
        burst: int = 100,
        timeout: float = REQUEST_TIMEOUT,
        agent: str = "",
        clock: Clock | None = None,
        chance: random.Random | None = None,
        observe: Observer | None = None,
        whole: WholeObjects | None = None,
        may_write: MayWrite | None = None,
        on_page: OnPage | None = None,
    ) -> None:
        own_clock = clock or SystemClock()
        self._timeout = timeout
        self._chance = chance or random.Random()
        self._whole = whole or WholeObjects({})
        self._on_page = on_page
        limit = TokenBucket(qps, burst, own_clock)
        self._transport = Transport(connection, limit, own_clock, agent, observe, may_write)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close every connection."""
        await self._transport.close()

    # --- any request --------------------------------------------------------------------------------------------------

    async def request(
        self,
        method: str,
        path: str,
        body: JSON | bytes | None = None,
        *,
        query: Query | None = None,
        content_type: str = APPLICATION_JSON,
        timeout: float | None = None,
    ) -> bytes:
        """Send a request and return the response body. `path` must be quoted; a timeout of 0 means none."""
        data = encode(body) if isinstance(body, dict) else body
        seconds = self._timeout if timeout is None else timeout
        return await self._transport.fetch(Request(method, _target(path, query), seconds, data, content_type))

    async def get(self, path: str, query: Query | None = None) -> JSON:
        """The JSON at a path."""
        return _json(await self.request("GET", path, query=query))

    async def post(self, path: str, body: JSON, query: Query | None = None) -> JSON:
        """Create an object. Returns the stored object; for a review, its result."""
        return _json(await self.request("POST", path, body, query=query))

    async def put(self, path: str, body: JSON, query: Query | None = None) -> JSON:
        """Replace the object at a path."""
        return _json(await self.request("PUT", path, body, query=query))

    async def patch(self, path: str, body: JSON, content_type: str = MERGE_PATCH, query: Query | None = None) -> JSON:
        """Patch the object at a path."""
        return _json(await self.request("PATCH", path, body, query=query, content_type=content_type))

    async def delete(self, path: str, body: JSON | None = None, query: Query | None = None) -> JSON:
        """Delete the object at a path. `body` has the options."""
        return _json(await self.request("DELETE", path, body, query=query))

    # --- the client protocol ------------------------------------------------------------------------------------------

    async def list(self, kind: type[api.Object]) -> Listing:
        for _ in range(PAGED_TRIES):
            try:
                return await self._list(kind, PAGE_SIZE)
            except ApiError as error:
                if error.code != 410:
                    raise
        return await self._list(kind, 0)

    async def _list(self, kind: type[api.Object], page_size: int) -> Listing:
        path, query = endpoint_of(kind).path(), _selector(kind)
        if page_size:
            query["limit"] = str(page_size)
        found: list[api.Object] = []
        malformed: list[Malformed] = []
        while True:
            page = decode_page(await self.request("GET", path, query=query))
            await _decode_in_slices(kind, page.items or (), found, malformed, self._whole)
            if self._on_page is not None:
                self._on_page(kind, len(found))
            if not page.metadata.continue_:
                if kind in self._whole:
                    self._whole.keep_only(kind, {item.key for item in found})
                return Listing(found, page.metadata.resource_version, malformed)
            query["continue"] = page.metadata.continue_

    async def watch(self, kind: type[api.Object], resource_version: str) -> AsyncGenerator[WatchEvent, None]:
        seconds = self._chance.randint(*WATCH_SECONDS)
        query = {
            "watch": "true",
            "allowWatchBookmarks": "true",
            "resourceVersion": resource_version,
            "timeoutSeconds": str(seconds),
            **_selector(kind),
        }
        # The server ends a watch after `seconds`. If it does not, it is unreachable.
        request = Request("GET", _target(endpoint_of(kind).path(), query), seconds + 60)
        async with self._transport.stream(request) as response:
            rest = b""
            async for chunk in response.chunks():
                lines, rest = _lines(rest + chunk)
                for line in lines:
                    event = decode_line(kind, line)
                    if kind in self._whole and event.object is not None:
                        self._keep_whole(event.change, event.object, line)
                    yield event

    def _keep_whole(self, change: WatchType, obj: api.Object, line: bytes) -> None:
        if change is WatchType.DELETED:
            self._whole.drop(type(obj), obj.key)
        else:
            self._whole.put(obj, raw_object(line))

    async def read(self, kind: type[O], name: str, namespace: str = "") -> O:
        return _object(kind, await self.request("GET", endpoint_of(kind).path(namespace, name)))

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        meta = pod.metadata
        body = BINDING % (encode(meta.name), encode(meta.namespace), encode(meta.uid), encode(node_name))
        path = PODS.path(meta.namespace, meta.name, "binding")
        await self._transport.fetch(Request("POST", path, self._timeout, body))

    async def patch_pod_status(self, pod: api.Pod, patch: JSON) -> api.Pod:
        path = endpoint_of(api.Pod).path(pod.namespace, pod.name, "status")
        return _object(api.Pod, await self.request("PATCH", path, patch, content_type=STRATEGIC_MERGE_PATCH))

    async def delete_pod(self, pod: api.Pod) -> None:
        options = {"apiVersion": "v1", "kind": "DeleteOptions", "preconditions": {"uid": pod.uid}}
        await self.request("DELETE", endpoint_of(api.Pod).path(pod.namespace, pod.name), options)

    async def create_event(self, namespace: str, event: JSON) -> None:
        path = endpoint_of_event(event).path(namespace)
        await self._transport.fetch(Request("POST", path, self._timeout, encode(event)))

    async def patch_event(self, namespace: str, name: str, patch: JSON) -> None:
        await self.request("PATCH", EVENTS.path(namespace, name), patch, content_type=STRATEGIC_MERGE_PATCH)

    async def create_object(self, kind: type[O], body: JSON, namespace: str = "") -> O:
        whole = {"apiVersion": kind.api_version, "kind": kind.kind, **body}
        return _object(kind, await self.request("POST", endpoint_of(kind).path(namespace), whole))

    async def delete_object(self, kind: type[O], name: str, namespace: str = "") -> None:
        await self.request("DELETE", endpoint_of(kind).path(namespace, name))

    async def merge_patch(self, kind: type[O], name: str, patch: JSON, namespace: str = "", subresource: str = "") -> O:
        path = endpoint_of(kind).path(namespace, name, subresource)
        whole = self._patched(kind, f"{namespace}/{name}" if namespace else name, patch)
        if whole is None:
            return _object(kind, await self.request("PATCH", path, patch, content_type=MERGE_PATCH))
        stored = await self.request("PUT", path, whole, query={"fieldValidation": "Ignore"})
        found = _object(kind, stored)
        if self._whole.find(kind, found.key) is not None:  # it may have been deleted meanwhile
            self._whole.put(found, stored)
        return found

    def _patched(self, kind: type[api.Object], key: str, patch: JSON) -> JSON | None:
        """The whole object with a patch applied, if we have the version that the patch is for. Replacing an object
        costs an API server 30 % less than applying the patch itself.
        """
        version = patch.get("metadata", {}).get("resourceVersion")
        known = self._whole.find(kind, key) if version and kind in REPLACED else None
        if known is None:
            return None
        whole: JSON = _json(known)
        if whole["metadata"].get("resourceVersion") != version:
            return None
        return {"apiVersion": kind.api_version, "kind": kind.kind, **merge_patch(whole, patch)}

    async def get_lease(self, namespace: str, name: str) -> JSON:
        return await self.get(LEASES.path(namespace, name))

    async def create_lease(self, namespace: str, lease: JSON) -> JSON:
        return await self.post(LEASES.path(namespace), lease)

    async def update_lease(self, namespace: str, name: str, lease: JSON) -> JSON:
        return await self.put(LEASES.path(namespace, name), lease)


def _target(path: str, query: Query | None) -> str:
    return f"{path}?{urlencode(query)}" if query else path


def _selector(kind: type[api.Object]) -> dict[str, str]:
    selector = endpoint_of(kind).field_selector
    return {"fieldSelector": selector} if selector else {}


def _object(kind: type[O], body: bytes) -> O:
    found = decode_object(kind, body)
    if isinstance(found, Malformed):
        raise ApiError(200, "InvalidAnswer", found.problem)
    return found


_json_decoder = msgspec.json.Decoder(dict[str, Any])


def _json(body: bytes) -> JSON:
    try:
        return decode_json(_json_decoder, body)
    except msgspec.MsgspecError as error:
        raise ApiError(200, "InvalidAnswer", f"the API server's response is not a JSON object: {error}") from None


def _lines(data: bytes) -> tuple[list[bytes], bytes]:
    """The whole lines of some data, and what is left. Lines are long, so that `find` takes a tenth of the time of
    `split`."""
    lines, start = [], 0
    while (end := data.find(b"\n", start)) >= 0:
        if end > start:
            lines.append(data[start:end])
        start = end + 1
    return lines, data[start:]


async def _decode_in_slices(
    kind: type[api.Object],
    items: Iterable[msgspec.Raw],
    found: list[api.Object],
    malformed: list[Malformed],
    whole: WholeObjects,
) -> None:
    """Decode, and let other tasks run after a number of bytes. Bytes, not time, so that runs are repeatable."""
    size = 0
    for raw in items:
        item = decode_object(kind, raw)
        if isinstance(item, Malformed):
            malformed.append(item)
        else:
            found.append(item)
            if kind in whole:
                whole.put(item, raw)
        size += len(memoryview(raw))
        if size >= SLICE_BYTES:
            size = 0
            await asyncio.sleep(0)
