"""The server on a socket: TLS, certificates, streams, kubeconfigs, and many clients at once."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml
from tests.apiserver.support import NODES, PATIENCE, PODS, node, pod

from kubesched.apiserver import http_server
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.http_server import AddressInUseError, HttpServer
from kubesched.apiserver.inprocess.local import LocalClient
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.base.certificates import Authority
from kubesched.base.key_pairs import load_pair


def _context(server: HttpServer) -> ssl.SSLContext:
    return ssl.create_default_context(cadata=server.identity.authority.certificate_pem.decode())


@pytest.fixture
async def session(server: HttpServer) -> AsyncIterator[aiohttp.ClientSession]:
    """A client with the admin's token."""
    headers = {"Authorization": f"Bearer {server.identity.admin_token}"}
    connector = aiohttp.TCPConnector(ssl=_context(server), limit=0)
    async with aiohttp.ClientSession(server.url, headers=headers, connector=connector) as client:
        yield client


async def test_round_trip(session: aiohttp.ClientSession) -> None:
    """Objects go in and come out over TLS, with warnings as headers."""
    async with session.post(PODS, json={**pod("a"), "odd": 1}) as made:
        assert made.status == 201
        assert made.headers["Warning"] == '299 - "unknown field \\"odd\\""'
    async with session.get(f"{PODS}/a") as found:
        assert (await found.json())["metadata"]["name"] == "a"
        assert found.headers["Content-Type"] == "application/json"
    async with session.get(f"{PODS}/b") as missing:
        assert (missing.status, (await missing.json())["reason"]) == (404, "NotFound")


async def test_people_get_json_that_they_can_read(session: aiohttp.ClientSession) -> None:
    """JSON is indented for curl and on request, and one line for all others."""
    await session.post(NODES, json=node("a"))
    for query, agent, pretty in (("", "curl/8.5", True), ("?pretty=true", "x", True), ("?pretty=0", "curl/8.5", False)):
        async with session.get(f"{NODES}/a{query}", headers={"User-Agent": agent}) as answer:
            text = await answer.text()
        assert text.startswith('{\n  "apiVersion"') is pretty
        assert text.endswith("}\n") is not pretty


async def test_the_certificate_is_checked(server: HttpServer) -> None:
    """A client that does not know the cluster's authority does not trust the server."""
    async with aiohttp.ClientSession() as stranger:
        with pytest.raises(aiohttp.ClientConnectorCertificateError):
            await stranger.get(server.url)


async def test_client_certificates(server: HttpServer) -> None:
    """A certificate of the cluster's authority says who one is; one of another authority is no use."""
    context = _context(server)
    load_pair(context, server.identity.authority.client_pair("jane", ["staff"]))
    async with (
        aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as jane,
        jane.post(f"{server.url}/apis/authentication.k8s.io/v1/selfsubjectreviews", json={}) as answer,
    ):
        info = (await answer.json())["status"]["userInfo"]
        assert info == {"username": "jane", "groups": ["staff", "system:authenticated"]}
    context = _context(server)
    load_pair(context, Authority().client_pair("jane", ["system:masters"]))
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(ssl=context)) as impostor:
        with pytest.raises(aiohttp.ClientError):
            await impostor.get(f"{server.url}{PODS}")


async def test_watch_streams(session: aiohttp.ClientSession) -> None:
    """Events arrive while the watch is open."""
    async with session.get(NODES, params={"watch": "1"}) as watch:
        async with session.post(NODES, json=node("a")):
            pass
        line = await asyncio.wait_for(watch.content.readline(), PATIENCE)
        assert line.startswith(b'{"type":"ADDED","object":{')


async def test_stopping_ends_watches() -> None:
    """A server that stops lets its watches end rather than hang."""
    server = build_server(ServerOptions())
    await server.start()
    headers = {"Authorization": f"Bearer {server.identity.admin_token}"}
    async with (
        aiohttp.ClientSession(headers=headers, connector=aiohttp.TCPConnector(ssl=_context(server))) as client,
        client.get(f"{server.url}{NODES}?watch=1") as watch,
    ):
        stopping = asyncio.create_task(server.stop())
        assert await asyncio.wait_for(watch.content.read(), PATIENCE) == b""
        await asyncio.wait_for(stopping, PATIENCE)


async def test_a_watch_ends_with_its_client(session: aiohttp.ClientSession, server: HttpServer) -> None:
    """A disconnected client leaves no waiting watcher behind."""
    shelf = server.api.store.shelf("/nodes")
    async with session.get(NODES, params={"watch": "1"}):
        while not shelf.watchers:
            await asyncio.sleep(0.01)
    async with asyncio.timeout(PATIENCE):
        while shelf.watchers:
            await asyncio.sleep(0.01)


async def test_the_service_says_where_the_server_is(tmp_path: Path) -> None:
    """Behind the service `kubernetes` is the server's address; after a restart on another port, the new one."""
    for _ in range(2):
        server = build_server(ServerOptions(data_dir=tmp_path))
        await server.start()
        client = LocalClient(server.api)
        try:
            endpoints = await client.get("/api/v1/namespaces/default/endpoints/kubernetes")
            service = await client.get("/api/v1/namespaces/default/services/kubernetes")
            path = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
            (piece,) = (await client.get(f"{path}?labelSelector=kubernetes.io/service-name=kubernetes"))["items"]
        finally:
            await server.stop()
        ports = [{"name": "https", "port": server.port, "protocol": "TCP"}]
        assert [each["targetPort"] for each in service["spec"]["ports"]] == [server.port]
        assert endpoints["subsets"] == [{"addresses": [{"ip": "127.0.0.1"}], "ports": ports}]
        assert (piece["metadata"]["name"], piece["addressType"], piece["ports"]) == ("kubernetes", "IPv4", ports)
        assert piece["endpoints"] == [{"addresses": ["127.0.0.1"], "conditions": {"ready": True}}]


async def test_a_port_in_use_is_said(server: HttpServer) -> None:
    """Two servers cannot have one port, and the second says so."""
    other = HttpServer(ApiServer(), port=server.port)
    with pytest.raises(AddressInUseError, match=f"cannot listen on 127.0.0.1:{server.port}"):
        await other.start()


async def test_kubeconfig(server: HttpServer, tmp_path: Path) -> None:
    """The file has all that kubectl needs, and only its owner can read it."""
    path = tmp_path / "deep" / "config"
    server.write_kubeconfig(path)
    config: Any = yaml.safe_load(path.read_text())
    assert path.stat().st_mode & 0o777 == 0o600
    assert config["clusters"][0]["cluster"]["server"] == server.url
    ca = base64.b64decode(config["clusters"][0]["cluster"]["certificate-authority-data"])
    assert ca == server.identity.authority.certificate_pem
    pair = server.identity.authority.client_pair("jane")
    user = server.kubeconfig("jane", pair)["users"][0]["user"]
    assert base64.b64decode(user["client-certificate-data"]) == pair.certificate


async def test_many_clients_and_watchers(session: aiohttp.ClientSession, server: HttpServer) -> None:
    """Under load every watcher sees every object once, in order of versions."""
    total = 600

    async def watch(seen: list[bytes]) -> None:
        async with session.get(PODS, params={"watch": "1", "resourceVersion": "1"}) as stream:
            while len(seen) < total:
                seen.append(await stream.content.readline())

    async def create(numbers: Any) -> None:
        for number in numbers:
            async with session.post(PODS, json=pod(f"p{number}")) as made:
                assert made.status == 201

    watched: list[list[bytes]] = [[] for _ in range(5)]
    watchers = [asyncio.create_task(watch(seen)) for seen in watched]
    numbers = iter(range(total))
    await asyncio.gather(*(create(numbers) for _ in range(16)))
    await asyncio.wait_for(asyncio.gather(*watchers), PATIENCE)
    assert all(seen == watched[0] for seen in watched)
    assert len(set(watched[0])) == total


@asynccontextmanager
async def _connected(server: HttpServer, *lines: str) -> AsyncIterator[asyncio.StreamReader]:
    """A connection that has sent these lines."""
    reader, writer = await asyncio.open_connection(server.address, server.port, ssl=_context(server), limit=1024)
    try:
        writer.write("".join(f"{line}\r\n" for line in lines).encode())
        await writer.drain()
        yield reader
    finally:
        writer.transport.abort()
        with suppress(OSError):
            await writer.wait_closed()


@pytest.mark.parametrize("begun", [(), ("GET / HTTP/1.1", "Host: x")], ids=["nothing", "half of the headers"])
async def test_a_request_that_never_comes_is_not_awaited(monkeypatch: pytest.MonkeyPatch, begun: tuple[str]) -> None:
    """A connection without a complete request is closed after a while."""
    monkeypatch.setattr(http_server, "IDLE_SECONDS", 0.2)
    server = build_server(ServerOptions())
    await server.start()
    try:
        async with _connected(server, *begun) as reader, asyncio.timeout(PATIENCE):
            assert await reader.read() == b""
    finally:
        await server.stop()


async def test_a_body_that_never_comes_is_not_awaited(server: HttpServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """A request whose body does not arrive is refused after a while."""
    monkeypatch.setattr(http_server, "BODY_SECONDS", 0.2)
    admin = f"Authorization: Bearer {server.identity.admin_token}"
    lines = (f"POST {PODS} HTTP/1.1", "Host: x", admin, "Content-Length: 99", "", "{")
    async with _connected(server, *lines) as reader, asyncio.timeout(PATIENCE):
        assert (await reader.readline()).startswith(b"HTTP/1.1 408 ")


async def test_watchers_that_do_not_read_take_little_and_end(
    server: HttpServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a watcher that does not read is bounded, and after a while its connection is closed."""
    monkeypatch.setattr(http_server, "STALLED_SECONDS", 0.5)
    client = LocalClient(server.api)
    path = "/api/v1/namespaces/default/configmaps"
    for number in range(60):
        await client.create(path, {"metadata": {"name": f"c{number}"}, "data": {"x": "y" * 500_000}})
    asked = (f"GET {path}?watch=1 HTTP/1.1", "Host: x", f"Authorization: Bearer {server.identity.admin_token}", "")
    assert server._runner is not None
    running = server._runner.server
    assert running is not None
    most = 0
    async with AsyncExitStack() as watchers, asyncio.timeout(PATIENCE):
        for _ in range(5):
            await watchers.enter_async_context(_connected(server, *asked))
        while running.connections or not most:
            transports = [each.transport for each in running.connections if each.transport]
            # A TLS transport that was closed twice cannot say how much it has left.
            waiting = [each.get_write_buffer_size() for each in transports if not each.is_closing()]
            most = max(most, *waiting, 0)
            await asyncio.sleep(0.02)
    assert most <= 4 * http_server.PIECE
