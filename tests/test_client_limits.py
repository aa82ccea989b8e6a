"""What one client may have under way at the embedded API server and at the secure port. See docs/threats.md."""

from __future__ import annotations

import asyncio
import resource
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.daemon.serving.support import FakeApi, insecure, running

from kubesched.apiserver import http_server
from kubesched.apiserver.apiserver import REQUESTS_PER_CLIENT, WATCHES_PER_CLIENT
from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.base.client_limits import ClientLimit
from kubesched.base.limited_server import connection_limit
from kubesched.base.types import JSON
from kubesched.client.transport import CONNECTIONS
from kubesched.daemon.serving import server as secure_server
from kubesched.daemon.serving.auth.guard import Guard

MAPS = "/api/v1/namespaces/default/configmaps"
BODY = '{"metadata":{"name":"a"}}'


class Client:
    """A connection that sends text and reads responses."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer

    def send(self, text: str) -> None:
        self.writer.write(text.replace("\n", "\r\n").encode())

    async def response(self) -> tuple[int, dict[str, str], str]:
        """Status, headers and body. Of a stream, which has no length, the body is left out."""
        async with asyncio.timeout(120):
            head = (await self._reader.readuntil(b"\r\n\r\n")).decode().split("\r\n")
            headers = {line.partition(":")[0].lower(): line.partition(":")[2].strip() for line in head[1:] if line}
            body = await self._reader.readexactly(int(headers.get("content-length", 0)))
        return int(head[0].split()[1]), headers, body.decode()

    async def get(self, path: str, token: str = "") -> tuple[int, dict[str, str], str]:
        """The response to a request without a body."""
        authorization = f"Authorization: Bearer {token}\n" if token else ""
        self.send(f"GET {path} HTTP/1.1\nHost: x\n{authorization}\n")
        return await self.response()

    async def closed(self) -> None:
        """Close it, and wait until that is done."""
        self.writer.close()
        await self.writer.wait_closed()


@asynccontextmanager
async def clients(port: int, count: int) -> AsyncIterator[list[Client]]:
    """Several connections to a port."""
    opened = [await connect(port) for _ in range(count)]
    try:
        yield opened
    finally:
        for each in opened:
            each.writer.transport.abort()


async def connect(port: int, context: ssl.SSLContext | None = None) -> Client:
    """One connection."""
    return Client(*await asyncio.open_connection("127.0.0.1", port, ssl=context or insecure()))


@pytest.fixture
async def server() -> AsyncIterator[HttpServer]:
    """A server on a socket with TLS."""
    made = build_server(ServerOptions())
    await made.start()
    try:
        yield made
    finally:
        await made.stop()


async def test_requests_under_way_are_limited_per_user(server: HttpServer) -> None:
    """A user whose bodies do not arrive is refused more requests, with words; others are served; later they are too."""
    server.api.requests.most = 2
    token = server.identity.admin_token
    async with clients(server.port, 4) as (first, second, third, other):
        for each in (first, second):
            each.send(f"POST {MAPS} HTTP/1.1\nHost: x\nAuthorization: Bearer {token}\nContent-Length: {len(BODY)}\n\n")
        while server.api.requests._counts.get("kubernetes-admin") != 2:
            await asyncio.sleep(0.01)
        status, headers, text = await third.get(MAPS, token)
        assert (status, headers["retry-after"]) == (429, "1")
        assert "kubernetes-admin has 2 requests under way, the most that this server allows one client" in text
        assert (await other.get("/version"))[0] == 200
        first.send(BODY)
        assert (await first.response())[0] == 201
        assert (await third.get(MAPS, token))[0] == 200


async def test_watches_are_limited_per_user(server: HttpServer) -> None:
    """Who has too many watches open is refused another, with words, until one has ended."""
    server.api.watches.most = 2
    token = server.identity.admin_token
    async with clients(server.port, 3) as (first, second, third):
        for each in (first, second):
            assert (await each.get(f"{MAPS}?watch=1", token))[0] == 200
        status, headers, text = await third.get(f"{MAPS}?watch=1", token)
        assert (status, headers["retry-after"]) == (429, "1")
        assert "kubernetes-admin has 2 watches open" in text
        assert (await third.get(MAPS, token))[0] == 200
        first.writer.transport.abort()
        async with asyncio.timeout(120):
            while (await third.get(f"{MAPS}?watch=1&timeoutSeconds=1", token))[0] != 200:
                await asyncio.sleep(0.01)


async def test_the_body_of_a_request_that_is_not_allowed_is_not_awaited(server: HttpServer) -> None:
    """Strangers cannot fill the server's memory with bodies: they are refused when the headers are there."""
    async with clients(server.port, 2) as (stranger, wrong):
        stranger.send(f"POST {MAPS} HTTP/1.1\nHost: x\nContent-Length: 3000000\n\n")
        assert (await stranger.response())[0] == 403
        wrong.send(f"POST {MAPS} HTTP/1.1\nHost: x\nAuthorization: Bearer x\nContent-Length: 3000000\n\n")
        assert (await wrong.response())[0] == 401


async def test_connections_to_the_api_server_are_limited_per_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection too many gets a response that says so, and its end."""
    monkeypatch.setattr(http_server, "CONNECTIONS_PER_ADDRESS", 3)
    server = build_server(ServerOptions())
    await server.start()
    try:
        await one_too_many(server.port, 3, "/version")
    finally:
        await server.stop()


async def test_connections_to_the_secure_port_are_limited_per_address(monkeypatch: pytest.MonkeyPatch) -> None:
    """As at the API server."""
    monkeypatch.setattr(secure_server, "CONNECTIONS_PER_ADDRESS", 3)
    async with running() as secure:
        await one_too_many(int(secure.url.rpartition(":")[2]), 3, "/healthz")


async def one_too_many(port: int, most: int, path: str) -> None:
    """Open as many connections as are allowed and one more, which is refused; then one may replace another."""
    async with clients(port, most) as opened:
        for each in opened:
            assert (await each.get(path))[0] == 200
        refused = await connect(port)
        status, headers, text = await refused.response()
        refused.writer.transport.abort()
        assert (status, headers["retry-after"]) == (429, "1")
        assert "this address has too many connections to this server" in text
        await opened.pop().closed()
        async with asyncio.timeout(120):
            while True:
                again = await connect(port)
                status, _, _ = await again.get(path)
                again.writer.transport.abort()
                if status == 200:
                    break
                await asyncio.sleep(0.01)


class Slow(FakeApi):
    """An API server whose reviews take until somebody lets them end."""

    def __init__(self) -> None:
        super().__init__(allowed={("system:anonymous", "get", "/metrics")})
        self.may_end = asyncio.Event()

    async def post(self, path: str, body: JSON) -> JSON:
        await self.may_end.wait()
        return await super().post(path, body)


async def test_requests_at_the_secure_port_are_limited_per_address() -> None:
    """An address with too many requests under way is refused more, with words; probes are always served."""
    api = Slow()
    guards: list[Guard] = []

    def keep(guard: Guard) -> Guard:
        guard._requests = ClientLimit(2)
        guards.append(guard)
        return guard

    async with running(api=api, wrap=keep) as secure, clients(int(secure.url.rpartition(":")[2]), 3) as opened:
        first, second, third = opened
        waiting = [asyncio.create_task(each.get("/metrics")) for each in (first, second)]
        while guards[0]._requests._counts.get("127.0.0.1") != 2:
            await asyncio.sleep(0.01)
        status, headers, text = await third.get("/metrics")
        assert (status, headers["retry-after"]) == (429, "1")
        assert "127.0.0.1 has 2 requests under way" in text
        assert (await third.get("/healthz"))[0] == 200
        api.may_end.set()
        assert [status for status, _, _ in await asyncio.gather(*waiting)] == [200, 200]
        assert (await third.get("/metrics"))[0] == 200


def test_connections_leave_files_for_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """Connections from one address never take all files that the process may open."""
    monkeypatch.setattr(resource, "getrlimit", lambda _: (256, 4096))
    assert connection_limit(5000) == 192
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    assert connection_limit(5000) == 5000


def test_our_own_clients_never_meet_the_limits() -> None:
    """A scheduler has far fewer requests and watches than the limits."""
    assert min(REQUESTS_PER_CLIENT, WATCHES_PER_CLIENT, http_server.CONNECTIONS_PER_ADDRESS) >= 4 * CONNECTIONS
