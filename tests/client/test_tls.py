"""TLS for real, on loopback, with throw-away authorities: whom we trust, what we show, and rotation."""

from __future__ import annotations

import asyncio
import base64
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from cryptography.hazmat.primitives import serialization as form
from tests.client.server import ApiServer, serving
from tests.client.test_credentials import V1, ManualClock, answer, plugin

from kubesched.api import objects as api
from kubesched.base.clocks import SystemClock
from kubesched.base.key_pairs import Pair
from kubesched.client.connection import Connection, Tls
from kubesched.client.http import HttpClient
from kubesched.client.kubeconfig import Exec
from kubesched.client.tls import TlsContexts, TlsError

ca = trustme.CA()
other_ca = trustme.CA()
CA_PEM = ca.cert_pem.bytes()


@dataclass
class Issued:
    """A client certificate as a kubeconfig has it."""

    certificate: bytes
    key: bytes


def issue(name: str, authority: trustme.CA = ca) -> Issued:
    made = authority.issue_cert(common_name=name, organization_name="system:nodes")
    chain = b"".join(blob.bytes() for blob in made.cert_chain_pems)
    return Issued(chain, made.private_key_pem.bytes())


@asynccontextmanager
async def secure(*names: str, want_certificate: bool = False) -> AsyncIterator[ApiServer]:
    """A server with a certificate for these names. It returns the subject of the client's certificate."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    ca.issue_cert(*(names or ("127.0.0.1",))).configure_cert(context)
    if want_certificate:
        context.verify_mode = ssl.CERT_OPTIONAL
        ca.configure_trust(context)
    async with serving(tls=context) as server:
        server.script = [who] * 20
        yield server


async def who(request: web.Request) -> web.StreamResponse:
    assert request.transport is not None
    certificate: Any = request.transport.get_extra_info("peercert") or {}
    subject = dict(pair for part in certificate.get("subject", ()) for pair in part)
    return web.json_response({"name": subject.get("commonName"), "token": request.headers.get("Authorization")})


async def ask(connection: Connection) -> Any:
    async with HttpClient(connection) as client:
        return await client.get("/who")


async def test_the_authority_is_trusted_from_data_and_file(tmp_path: Path) -> None:
    """A server is trusted if the kubeconfig's authority signed its certificate, given as data or as a file."""
    path = tmp_path / "ca.crt"
    path.write_bytes(CA_PEM)
    async with secure() as server:
        await ask(Connection(server.url, Tls(ca_data=CA_PEM)))
        await ask(Connection(server.url, Tls(ca_file=str(path))))


async def test_a_stranger_is_not_trusted() -> None:
    """Another authority's certificate, or one for another name, is refused with an OSError that says why."""
    async with secure() as server:
        with pytest.raises(ConnectionError, match="certificate verify failed"):
            await ask(Connection(server.url, Tls(ca_data=other_ca.cert_pem.bytes())))
        with pytest.raises(ConnectionError, match="certificate verify failed"):
            await ask(Connection(server.url))
    async with secure("kubernetes.default") as server:
        with pytest.raises(ConnectionError, match="certificate verify failed"):
            await ask(Connection(server.url, Tls(ca_data=CA_PEM)))


async def test_tls_server_name_and_insecure() -> None:
    """tls-server-name is the name checked instead of the address; insecure checks nothing."""
    async with secure("kubernetes.default") as server:
        await ask(Connection(server.url, Tls(ca_data=CA_PEM, server_name="kubernetes.default")))
        await ask(Connection(server.url, Tls(insecure=True)))


async def test_client_certificates_from_data_and_files(tmp_path: Path) -> None:
    """The server sees the certificate's subject, whether it came as data or in files."""
    jane = issue("jane")
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"
    certificate.write_bytes(jane.certificate)
    key.write_bytes(jane.key)
    async with secure(want_certificate=True) as server:
        data = Tls(ca_data=CA_PEM, certificate_data=jane.certificate, key_data=jane.key)
        assert (await ask(Connection(server.url, data)))["name"] == "jane"
        files = Tls(ca_data=CA_PEM, certificate_file=str(certificate), key_file=str(key))
        assert (await ask(Connection(server.url, files)))["name"] == "jane"
        assert (await ask(Connection(server.url, Tls(ca_data=CA_PEM))))["name"] is None


async def test_an_exec_plugin_hands_out_a_certificate(tmp_path: Path) -> None:
    """The certificate and the token that a plugin returns are sent to the server."""
    jane = issue("jane")
    status = {"clientCertificateData": jane.certificate.decode(), "clientKeyData": jane.key.decode(), "token": "t"}
    command = plugin(tmp_path, answer(**status))
    async with secure(want_certificate=True) as server:
        found = await ask(Connection(server.url, Tls(ca_data=CA_PEM), exec=command))
    assert found == {"name": "jane", "token": "Bearer t"}


async def test_refused_credentials_are_renewed_once(tmp_path: Path) -> None:
    """On 401 the plugin is run again and the request retried; a second 401 is final."""
    calls = tmp_path / "calls"
    code = f"open({str(calls)!r}, 'a').write('x')\nnumber = len(open({str(calls)!r}).read())\n" + (
        f"print(json.dumps({{'apiVersion': '{V1}', 'kind': 'ExecCredential', 'status': {{'token': str(number)}}}}))"
    )
    command: Exec = plugin(tmp_path, code)

    async def only_second(request: web.Request) -> web.StreamResponse:
        good = request.headers["Authorization"] == "Bearer 2"
        return web.json_response({"kind": "Status", "code": 401} if not good else {}, status=200 if good else 401)

    async with secure() as server:
        server.script = [only_second] * 10
        async with HttpClient(Connection(server.url, Tls(ca_data=CA_PEM), exec=command)) as client:
            await asyncio.gather(*(client.get("/x") for _ in range(3)))
            assert calls.read_text() == "xx"
    async with secure() as server:
        server.script = [only_second] * 10
        async with HttpClient(Connection(server.url, Tls(ca_data=CA_PEM), token="no")) as client:
            with pytest.raises(Exception, match="Unauthorized"):
                await client.get("/x")
        assert len(server.received) == 1


def test_rotated_files_are_reloaded(tmp_path: Path) -> None:
    """A certificate that is replaced on disk is used after the next check; half a replacement is not."""
    clock = ManualClock()
    certificate, key = tmp_path / "me.crt", tmp_path / "me.key"
    first, second = issue("one"), issue("two")
    certificate.write_bytes(first.certificate)
    key.write_bytes(first.key)
    settings = Tls(ca_data=CA_PEM, certificate_file=str(certificate), key_file=str(key))
    contexts = TlsContexts(settings, clock)
    before = contexts.get()
    clock.time += 61
    assert contexts.get() is before
    certificate.write_bytes(second.certificate)
    assert contexts.get() is before
    clock.time += 61
    assert contexts.get() is before
    key.write_bytes(second.key)
    clock.time += 61
    after = contexts.get()
    assert after is not before
    assert contexts.get() is after


def test_another_key_pair_is_another_context() -> None:
    """When an exec plugin returns a new certificate, new connections use it."""
    contexts = TlsContexts(Tls(ca_data=CA_PEM), ManualClock())
    one, two = (Pair(made.certificate, made.key) for made in (issue("one"), issue("two")))
    first = contexts.get(one)
    assert contexts.get(one) is first
    assert contexts.get(two) is not first


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (Tls(ca_data=b"nonsense"), "certificate-authority-data holds no certificate in PEM form"),
        (Tls(ca_data=b"\xff"), "certificate-authority-data holds no certificate in PEM form"),
        (Tls(ca_file="/nowhere/ca.crt"), "/nowhere/ca.crt cannot be read: No such file or directory"),
        (
            Tls(insecure=True, certificate_data=issue("a").certificate, key_data=issue("b").key),
            "client-certificate-data with client-key-data: not a certificate and key in PEM form that belong together",
        ),
    ],
)
def test_unusable_certificates_are_named(settings: Tls, message: str) -> None:
    """The error names what cannot be used, and does not show the key."""
    with pytest.raises(TlsError, match=message) as caught:
        TlsContexts(settings, SystemClock()).get()
    assert "PRIVATE" not in str(caught.value)


def test_an_encrypted_key_does_not_ask_for_its_passphrase() -> None:
    """A daemon cannot ask for a passphrase: the error says to give the key without one."""
    made = issue("a")
    key = form.load_pem_private_key(made.key, None)
    locked = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"secret"))
    with pytest.raises(TlsError, match="the key is encrypted"):
        TlsContexts(Tls(insecure=True, certificate_data=made.certificate, key_data=locked), SystemClock()).get()


async def test_through_a_proxy() -> None:
    """With proxy-url the connection is tunnelled through that proxy, which sees only the address."""
    seen: list[tuple[str, str | None]] = []

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        words = head.split()
        seen.append((f"{words[0]} {words[1]}", _header(head, "Proxy-Authorization")))
        host, port = words[1].split(":")
        away_reader, away_writer = await asyncio.open_connection(host, int(port))
        writer.write(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await asyncio.gather(_pipe(reader, away_writer), _pipe(away_reader, writer))

    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    port = proxy.sockets[0].getsockname()[1]
    async with secure() as server:
        url = f"http://me:pass@127.0.0.1:{port}"
        await ask(Connection(server.url, Tls(ca_data=CA_PEM), proxy_url=url, token="t"))
        address = server.url.removeprefix("https://")
    proxy.close()
    await proxy.wait_closed()
    expected = f"Basic {base64.b64encode(b'me:pass').decode()}"
    assert seen == [(f"CONNECT {address}", expected)]


@asynccontextmanager
async def socks(seen: list[tuple[str, bytes, int]], reply: int = 0) -> AsyncIterator[int]:
    """A SOCKS5 proxy that accepts any user. It records the users and their destinations."""

    async def tunnel(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        _, methods = await reader.readexactly(2)
        chosen = max(await reader.readexactly(methods))
        writer.write(bytes([5, chosen]))
        user = b""
        if chosen == 2:
            _, length = await reader.readexactly(2)
            user = await reader.readexactly(length)
            await reader.readexactly((await reader.readexactly(1))[0])
            writer.write(bytes([1, 0]))
        _, _, _, kind = await reader.readexactly(4)
        host = await reader.readexactly((await reader.readexactly(1))[0] if kind == 3 else 4)
        port = int.from_bytes(await reader.readexactly(2), "big")
        seen.append((user.decode(), host, port))
        writer.write(bytes([5, reply, 0, 1, 0, 0, 0, 0, 0, 0]))
        if reply:
            writer.close()
            return
        away_reader, away_writer = await asyncio.open_connection("127.0.0.1", port)
        await asyncio.gather(_pipe(reader, away_writer), _pipe(away_reader, writer))

    proxy = await asyncio.start_server(tunnel, "127.0.0.1", 0)
    try:
        yield int(proxy.sockets[0].getsockname()[1])
    finally:
        proxy.close()
        await proxy.wait_closed()


async def test_through_a_socks_proxy() -> None:
    """A SOCKS5 proxy gets the API server's name unresolved, and the certificate is checked for the name that
    tls-server-name gives."""
    seen: list[tuple[str, bytes, int]] = []
    async with secure() as server, socks(seen) as port:
        address = int(server.url.rpartition(":")[2])
        url = f"socks5://me:pass@127.0.0.1:{port}"
        tls = Tls(ca_data=CA_PEM, server_name="127.0.0.1")
        await ask(Connection(f"https://api.invalid:{address}", tls, proxy_url=url, token="t"))
        with pytest.raises(ConnectionError, match="Hostname mismatch"):
            await ask(Connection(f"https://api.invalid:{address}", Tls(ca_data=CA_PEM), proxy_url=url, token="t"))
    assert seen == [("me", b"api.invalid", address)] * 2


async def test_a_socks_proxy_that_will_not() -> None:
    """The error names a proxy that refuses or does not exist, but not its password."""
    seen: list[tuple[str, bytes, int]] = []
    async with socks(seen, reply=2) as port:
        url = f"socks5://me:secret@127.0.0.1:{port}"
        with pytest.raises(ConnectionError, match=f"SOCKS proxy 127.0.0.1:{port}: ") as refused:
            await ask(Connection("https://127.0.0.1:1", Tls(insecure=True), proxy_url=url))
    with pytest.raises(ConnectionError, match=f"SOCKS proxy 127.0.0.1:{port}: ") as absent:
        await ask(Connection("https://127.0.0.1:1", Tls(insecure=True), proxy_url=url))
    assert "secret" not in f"{refused.value}{absent.value}"


def _header(head: str, name: str) -> str | None:
    lines = dict(line.split(": ", 1) for line in head.splitlines() if ": " in line)
    return lines.get(name)


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    finally:
        writer.close()


async def test_a_watch_that_was_cancelled_is_closed() -> None:
    """When the client is closed, no TLS session is left half ended."""
    async with secure() as server:
        server.script = [silent]
        client = HttpClient(Connection(server.url, Tls(ca_data=CA_PEM)))
        watching = asyncio.create_task(anext(client.watch(api.Node, "1")))
        while not client._transport._streams or not server.received:
            await asyncio.sleep(0.01)
        (stream,) = client._transport._streams
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
        await client.close()
        assert stream._closed.is_set()
        assert not client._transport._streams


async def silent(request: web.Request) -> web.StreamResponse:
    """A watch in which nothing happens."""
    response = web.StreamResponse()
    await response.prepare(request)
    await asyncio.Event().wait()
    return response
