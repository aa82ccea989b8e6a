"""A small API server over real sockets, with paging, watches and every kind of trouble, for the tests of the client."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import msgspec
from aiohttp import web

from kubesched.api import objects as api
from kubesched.apiserver.inprocess.reader import call
from kubesched.apiserver.kinds.schema import type_of
from kubesched.apiserver.rest.patch import strategic_merge
from kubesched.base.merge import merge_patch
from kubesched.base.types import JSON
from kubesched.client.connection import Connection
from kubesched.client.endpoints import ENDPOINTS
from kubesched.client.protocol import ApiError, WatchType
from kubesched.testing.faulty_api import FaultyApi

KINDS = {endpoint.path(): kind for kind, endpoint in ENDPOINTS.items()}

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Received:
    """A request as it arrived."""

    method: str
    path: str
    query: dict[str, str]
    headers: Any
    body: Any = None


@dataclass
class ApiServer:
    """Serves a cluster in memory. `script` answers the next requests instead; the other fields cause trouble."""

    backend: FaultyApi = field(default_factory=FaultyApi)
    script: list[Handler] = field(default_factory=list)
    received: list[Received] = field(default_factory=list)
    url: str = ""
    pages_expire: int = 0
    """How many more requests for a further page get 410."""
    watch_prelude: list[bytes] = field(default_factory=list)
    """Lines that the next watches send first."""
    watch_lines: int | None = None
    """After how many lines a watch is cut in the middle of the next one."""
    bookmarks: bool = False
    """Whether a watch sends a bookmark after every event."""
    reviews: dict[str, JSON] = field(default_factory=dict)
    leases: dict[str, JSON] = field(default_factory=dict)
    _pages: dict[str, list[JSON]] = field(default_factory=dict)

    @property
    def connection(self) -> Connection:
        return Connection(self.url)

    def put_json(self, kind: type[api.Object], obj: JSON) -> None:
        """Store an object with all its fields, also those that no Struct has."""
        endpoint, meta = ENDPOINTS[kind], {"uid": f"uid-{obj['metadata']['name']}", **obj["metadata"]}
        key = "/".join(part for part in (meta.get("namespace"), meta["name"]) if part)
        self.backend.memory.store.put(f"{endpoint.group}/{endpoint.plural}", key, {**obj, "metadata": meta})

    def _stored(self, kind: type[api.Object], key: str) -> JSON:
        """An object as JSON, with all its fields."""
        endpoint = ENDPOINTS[kind]
        record = self.backend.memory.store.get(f"{endpoint.group}/{endpoint.plural}", key)
        assert record is not None
        return record.load()

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.received.append(
            Received(
                request.method,
                request.path,
                dict(request.query),
                request.headers,
                json.loads(body) if body else None,
            )
        )
        if self.script:
            return await self.script.pop(0)(request)
        try:
            return await self._serve(request, self.received[-1].body)
        except ApiError as error:
            return status(error.code, error.reason, error.message)

    async def _serve(self, request: web.Request, body: Any) -> web.StreamResponse:
        path = request.path
        if request.method == "GET" and path in KINDS:
            return await self._watch(request) if "watch" in request.query else await self._list(request)
        if path.endswith("/binding"):
            await self.backend.bind(_named(path), body["target"]["name"])
            return web.json_response({"kind": "Status", "status": "Success"}, status=201)
        if request.method == "PATCH":
            return await self._patch(request, path, body)
        if request.method == "DELETE":
            pod = _named(path, uid=body["preconditions"]["uid"])
            await self.backend.delete_pod(pod)
            return web.json_response({"kind": "Status", "status": "Success"})
        return self._other(request, path, body)

    async def _patch(self, request: web.Request, path: str, body: JSON) -> web.Response:
        if "/pods/" in path:
            await self.backend.patch_pod_status(_named(path), body)
            return web.json_response(self._stored(api.Pod, _named(path).key))
        old = self.leases.get(path, {})
        if request.content_type == "application/strategic-merge-patch+json":
            self.leases[path] = strategic_merge(old, body, type_of("events.Event"))
        else:
            self.leases[path] = merge_patch(old, body)
        return web.json_response(self.leases[path])

    def _other(self, request: web.Request, path: str, body: Any) -> web.Response:
        if request.method == "POST" and path in self.reviews:
            return web.json_response({**body, "status": self.reviews[path]}, status=201)
        if request.method == "POST":
            self.leases[f"{path}/{body['metadata']['name']}"] = body
            return web.json_response(body, status=201)
        if request.method == "PUT":
            self.leases[path] = body
            return web.json_response(body)
        if path in self.leases:
            return web.json_response(self.leases[path])
        return web.Response(status=404, text="404 page not found")

    # --- lists --------------------------------------------------------------------------------------------------------

    async def _list(self, request: web.Request) -> web.Response:
        kind = KINDS[request.path]
        token = request.query.get("continue", "")
        if token:
            if self.pages_expire:
                self.pages_expire -= 1
                raise ApiError(410, "Expired", "too old resource version: 1 (2)")
            items, version = self._pages.pop(token), token.partition("-")[0]
        else:
            listing = await self.backend.list(kind)
            items = [self._stored(kind, item.key) for item in listing.items]
            version = listing.resource_version
        limit = int(request.query.get("limit", len(items)) or 0)
        metadata = {"resourceVersion": version}
        if len(items) > limit:
            metadata["continue"] = f"{version}-{len(items)}-{len(self.received)}"
            self._pages[metadata["continue"]] = items[limit:]
        return web.json_response({"kind": f"{kind.kind}List", "metadata": metadata, "items": items[:limit]})

    # --- watches ------------------------------------------------------------------------------------------------------

    async def _watch(self, request: web.Request) -> web.StreamResponse:
        kind = KINDS[request.path]
        response = web.StreamResponse()
        response.content_type = "application/json"
        storage = f"{ENDPOINTS[kind].group}/{ENDPOINTS[kind].plural}"
        call(lambda: self.backend.memory.store.shelf(storage).position_after(int(request.query["resourceVersion"])))
        await response.prepare(request)
        try:
            async for line in self._watch_lines(kind, request.query["resourceVersion"]):
                await response.write(line)
        except ApiError as error:
            await response.write(watch_line("ERROR", status_body(error.code, error.reason, error.message)))
        except _Cut:
            await response.write(b'{"type":"ADDED","obj')
            assert request.transport is not None
            request.transport.abort()
        return response

    async def _watch_lines(self, kind: type[api.Object], version: str) -> AsyncIterator[bytes]:
        for line in self.watch_prelude:
            yield line
        self.watch_prelude = []
        sent = 0
        async for event in self.backend.watch(kind, version):
            if self.watch_lines is not None and sent >= self.watch_lines:
                raise _Cut
            sent += 1
            yield watch_line(event.change.value, _body(kind, event.object, event.resource_version))
            if self.bookmarks:
                yield watch_line(WatchType.BOOKMARK.value, _body(kind, None, event.resource_version))


class _Cut(Exception):  # noqa: N818 - a signal inside this module
    pass


def _named(path: str, uid: str = "") -> api.Pod:
    parts = path.split("/")
    return api.Pod(metadata=api.ObjectMeta(namespace=parts[4], name=parts[6], uid=uid))


def _body(kind: type[api.Object], obj: api.Object | None, version: str) -> JSON:
    if obj is None:
        return {"kind": kind.kind, "metadata": {"resourceVersion": version, "creationTimestamp": None}, "spec": None}
    body: JSON = msgspec.to_builtins(obj)
    body["metadata"]["resourceVersion"] = version
    return {"kind": kind.kind, "apiVersion": kind.api_version, **body}


def watch_line(change: str, body: JSON) -> bytes:
    return json.dumps({"type": change, "object": body}).encode() + b"\n"


def status_body(code: int, reason: str, message: str, retry_after: int = 0) -> JSON:
    body: JSON = {
        "kind": "Status",
        "apiVersion": "v1",
        "status": "Failure",
        "code": code,
        "reason": reason,
        "message": message,
    }
    if retry_after:
        body["details"] = {"retryAfterSeconds": retry_after}
    return body


def status(code: int, reason: str, message: str, retry_after: int = 0) -> web.Response:
    """An error response with the API server's Status."""
    headers = {"Retry-After": str(retry_after)} if retry_after else {}
    return web.json_response(status_body(code, reason, message, retry_after), status=code, headers=headers)


def answering(response: Callable[[], web.Response]) -> Handler:
    """A scripted response."""

    async def handler(_: web.Request) -> web.StreamResponse:
        return response()

    return handler


async def hang_up(request: web.Request) -> web.StreamResponse:
    """Breaks the connection without a response."""
    assert request.transport is not None
    request.transport.abort()
    return web.Response()


@asynccontextmanager
async def serving(server: ApiServer | None = None, tls: ssl.SSLContext | None = None) -> AsyncIterator[ApiServer]:
    """Run an API server on loopback."""
    made = server or ApiServer()
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", made.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    try:
        site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=tls)
        await site.start()
        host, port = runner.addresses[0][:2]
        made.url = f"{'https' if tls else 'http'}://{host}:{port}"
        yield made
    finally:
        made.backend.cut_watches()
        await asyncio.sleep(0)
        await runner.cleanup()
