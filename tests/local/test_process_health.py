"""The health of a process, asked at its own port: paths of probes, answers, and a port that nobody else gets."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest
from aiohttp import web

from kubesched.daemon.serving.tls import self_signed
from kubesched.kubelet.timeline import ProgramHealth
from kubesched.local import process_health
from kubesched.local.process_health import HOST, ProcessHealth, reserved_port
from kubesched.reconcile.views import Container, Probe, _HttpGet

PATIENCE = 60.0


def probe(path: str) -> Probe:
    """A probe that fails at once."""
    return Probe(http_get=_HttpGet(path=path), period_seconds=0, failure_threshold=1)


@asynccontextmanager
async def serving(folder: Path, port: int, codes: dict[str, int]) -> AsyncIterator[None]:
    """Serve status codes by path, as a process that shares the port does."""

    async def handle(request: web.BaseRequest) -> web.StreamResponse:
        return web.Response(status=codes.get(request.path, 404))

    certificate, key = folder / "cert", folder / "key"
    self_signed.write(self_signed.make_pair((HOST,)), certificate, key)
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(certificate, key)
    runner = web.ServerRunner(web.Server(handle))
    await runner.setup()
    await web.TCPSite(runner, HOST, port, ssl_context=context, reuse_port=True).start()
    try:
        yield
    finally:
        await runner.cleanup()


@asynccontextmanager
async def followed(container: Container, port: int) -> AsyncIterator[asyncio.Queue[tuple[ProgramHealth, str]]]:
    """Each change of a process's health, with its reason."""
    changes: asyncio.Queue[tuple[ProgramHealth, str]] = asyncio.Queue()
    health = ProcessHealth(container, port, lambda: changes.put_nowait((health.now, health.problem)))
    task = asyncio.create_task(health.follow())
    try:
        yield changes
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def following(changes: asyncio.Queue[tuple[ProgramHealth, str]]) -> tuple[ProgramHealth, str]:
    """The next change."""
    return await asyncio.wait_for(changes.get(), PATIENCE)


async def test_health_follows_the_probes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Started by the startup probe's path, ready while the readiness probe's path answers."""
    monkeypatch.setattr(process_health, "START_PERIOD", 0.01)
    container = Container(startup_probe=probe("/livez"), readiness_probe=probe("readyz"))
    codes = {"/livez": 500, "/readyz": 503}
    with reserved_port() as port:
        number = port.getsockname()[1]
        async with followed(container, number) as changes, serving(tmp_path, number, codes):
            await asyncio.sleep(0.1)
            assert changes.empty()
            codes["/livez"] = 200
            assert await following(changes) == (ProgramHealth(started=True, ready=False), "")
            codes["/readyz"] = 200
            assert await following(changes) == (ProgramHealth(started=True, ready=True), "")
            codes["/readyz"] = 500
            problem = "HTTP probe failed with statuscode: 500"
            assert await following(changes) == (ProgramHealth(started=True, ready=False), problem)


async def test_without_probes_serving_is_enough(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that does not listen yet is not started; one that serves /healthz is started and ready."""
    monkeypatch.setattr(process_health, "START_PERIOD", 0.01)
    with reserved_port() as port:
        number = port.getsockname()[1]
        async with followed(Container(), number) as changes:
            await asyncio.sleep(0.1)
            assert changes.empty()
            async with serving(tmp_path, number, {"/healthz": 200}):
                assert (await following(changes))[0] == ProgramHealth(started=True, ready=False)
                assert (await following(changes))[0] == ProgramHealth(started=True, ready=True)


def test_a_reserved_port_is_not_given_to_others() -> None:
    """The system gives it to nobody who asks for any port; a process that shares ports can bind it."""
    with reserved_port() as port, socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind(port.getsockname())
        with socket.socket() as third, pytest.raises(OSError, match="in use"):
            third.bind(port.getsockname())
