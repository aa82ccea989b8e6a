"""All ports: strange headers, floods and slow clients, TLS and addresses; and private files. See docs/threats.md."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner
from tests.daemon.serving.support import CLOCK, FakeApi, Log, insecure, running
from tests.web.test_web_server import page_of

from kubesched.apiserver.http_server import HttpServer
from kubesched.apiserver.launch import ServerOptions, build_server
from kubesched.base.types import JSON
from kubesched.cli.main import main
from kubesched.cli.ui import command as ui_command
from kubesched.daemon.serving.tls.context import PairSource, ServingTls, TlsSettings
from kubesched.daemon.serving.tls.self_signed import files_in, make_pair, write
from kubesched.history.writer import Database, JsonLines
from kubesched.local import open_port, ui
from kubesched.local.flags import LocalServingFlags
from kubesched.snapshots.recording import RecordingWriter
from kubesched.snapshots.writing import write_list
from kubesched.web import server as page_server


class Reviews(FakeApi):
    """An API server that knows no token. It encodes what it is sent, as a client does."""

    async def post(self, path: str, body: JSON) -> JSON:
        msgspec.json.encode(body)
        return await super().post(path, body)


Address = tuple[str, int, ssl.SSLContext | None]
PORTS = ("secure port", "API server", "page")


@asynccontextmanager
async def door(kind: str, tmp_path: Path) -> AsyncIterator[Address]:
    """One of the three servers, on loopback."""
    if kind == "secure port":
        async with running(api=Reviews()) as secure:
            yield "127.0.0.1", int(secure.url.rpartition(":")[2]), insecure()
    elif kind == "page":
        async with page_of(tmp_path) as page:
            yield "127.0.0.1", int(page.base.rpartition(":")[2]), None
    else:
        server = build_server(ServerOptions())
        await server.start()
        try:
            yield server.address, server.port, insecure()
        finally:
            await server.stop()


async def status_of(address: Address, *headers: bytes, path: bytes = b"/api/about") -> int:
    """The status of the response to a request with these headers."""
    host, port, context = address
    reader, writer = await asyncio.open_connection(host, port, ssl=context)
    lines = (b"GET %b HTTP/1.1" % path, b"Host: 127.0.0.1:%d" % port, *headers)
    try:
        writer.write(b"\r\n".join((*lines, b"", b"")))
        async with asyncio.timeout(120):
            line = await reader.readline()
    finally:
        writer.transport.abort()
    return int(line.split()[1])


@pytest.mark.parametrize("kind", PORTS)
async def test_a_token_that_is_no_text_is_a_wrong_token(kind: str, tmp_path: Path) -> None:
    """Bytes that are not UTF-8 in the header are refused as any other wrong token, not with an internal error."""
    async with door(kind, tmp_path) as address:
        assert await status_of(address, b"Authorization: Bearer \xff\xfe") == 401


async def test_a_cookie_that_is_no_text_is_a_wrong_cookie(tmp_path: Path) -> None:
    """The page takes the token from a cookie, too."""
    async with door("page", tmp_path) as address:
        assert await status_of(address, b"Cookie: kubesched-%d=\xff" % address[1]) == 401


async def test_an_impersonated_name_that_is_no_text_is_refused(tmp_path: Path) -> None:
    """The refusal names the user, so the name must be valid text."""
    async with door("API server", tmp_path) as address:
        assert await status_of(address, b"Impersonate-User: \xff", path=b"/api/v1/pods") == 403


@pytest.mark.parametrize("headers", [[b"X-A: " + b"a" * 20_000], [b"X-%d: a" % each for each in range(2000)]])
@pytest.mark.parametrize("kind", PORTS)
async def test_floods_of_headers_are_refused(kind: str, headers: list[bytes], tmp_path: Path) -> None:
    """Neither a very long header nor very many are taken into memory."""
    async with door(kind, tmp_path) as address:
        assert await status_of(address, *headers) == 400


async def test_the_page_does_not_wait_for_slow_headers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection without a complete request is closed after a while. The other ports have their own tests."""
    monkeypatch.setattr(page_server, "IDLE_SECONDS", 0.2)
    async with door("page", tmp_path) as (host, port, _):
        reader, writer = await asyncio.open_connection(host, port)
        try:
            writer.write(b"GET / HTTP/1.1\r\n")
            async with asyncio.timeout(120):
                assert await reader.read() == b""
        finally:
            writer.transport.abort()


def test_old_tls_and_ciphers_without_forward_secrecy_are_not_offered() -> None:
    """TLS 1.2 is the minimum at both ports, and every cipher has an ephemeral key exchange and at least 128 bits."""
    server = HttpServer(build_server(ServerOptions()).api)
    contexts = [server._context(), ServingTls(TlsSettings(PairSource(made=make_pair())), None, CLOCK, Log()).current()]
    for context in contexts:
        assert context is not None
        assert context.minimum_version == ssl.TLSVersion.TLSv1_2
        for cipher in context.get_ciphers():
            assert cipher["strength_bits"] >= 128
            assert cipher["name"].startswith(("TLS_", "ECDHE-", "DHE-"))


def test_loopback_is_the_default_of_everything_local() -> None:
    """Only `kubesched run` listens everywhere unless it is asked to, as kube-scheduler does."""
    host = next(each for each in ui_command.params if each.name == "host")
    defaults = (ServerOptions().address, LocalServingFlags().bind_address, host.default, ui.HOST, open_port._ADDRESS)
    assert set(defaults) == {"127.0.0.1"}


@pytest.fixture
def open_umask() -> Iterator[None]:
    """A umask that gives everybody everything."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("open_umask")
async def test_private_files_are_private_also_with_an_open_umask(tmp_path: Path) -> None:
    """Keys, tokens and the cluster's objects are readable only for their owner."""
    server = build_server(ServerOptions(data_dir=tmp_path / "data"))
    await server.start()
    try:
        server.write_kubeconfig(tmp_path / "kubeconfig")
        certificate_file, key_file = files_in(str(tmp_path / "certs"))
        write(make_pair(), certificate_file, key_file)
        private = [*(tmp_path / "data").iterdir(), tmp_path / "kubeconfig", key_file]
        modes = {each.name: oct(each.stat().st_mode & 0o777) for each in private}
    finally:
        await server.stop()
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    stored = ("cluster.db", "cluster.db-open", "cluster.db-wal", "identity.json")
    names = (*stored, "kubeconfig", "kube-scheduler.key")
    assert modes == dict.fromkeys(names, "0o600")


@pytest.mark.usefixtures("open_umask")
async def test_nobody_else_may_write_where_private_files_are(tmp_path: Path) -> None:
    """New folders of kubeconfig, data and certificates, those above them and the certificate belong to their owner."""
    server = build_server(ServerOptions(data_dir=tmp_path / "a" / "data"))
    await server.start()
    try:
        server.write_kubeconfig(tmp_path / "b" / ".kube" / "config")
        write(make_pair(), *files_in(str(tmp_path / "c" / "certs")))
    finally:
        await server.stop()
    others_write = [each for each in tmp_path.rglob("*") if each.stat().st_mode & 0o022]
    assert others_write == []


@pytest.mark.usefixtures("open_umask")
def test_what_describes_a_cluster_is_private_also_with_an_open_umask(tmp_path: Path) -> None:
    """Snapshots, recordings, histories and the written configuration are readable only for their owner."""
    write_list(tmp_path / "snapshot.json.gz", [])
    RecordingWriter(tmp_path / "recording.jsonl", lambda: 0.0).close()
    log = JsonLines(str(tmp_path / "decisions.jsonl"), max_size=1, backups=1)
    for _ in range(2):
        log.write([{"pod": "web"}])
    log.close()
    Database(str(tmp_path / "decisions.db"), keep=1).close()
    CliRunner().invoke(main, ["run", f"--write-config-to={tmp_path / 'config.yaml'}", "--secure-port=0"])
    modes = {each.name: oct(each.stat().st_mode & 0o777) for each in tmp_path.iterdir()}
    names = (
        "snapshot.json.gz",
        "recording.jsonl",
        "decisions.jsonl",
        "decisions.jsonl.1",
        "decisions.db",
        "config.yaml",
    )
    assert modes == dict.fromkeys(names, "0o600")
