"""A scheduler extender on loopback, for tests: it records requests and returns configured responses."""

from __future__ import annotations

import asyncio
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

Json = Any
"""Any JSON that a test sends or reads."""


class ExtenderServer:
    """Responds to each verb with a value, a function of the arguments, or a failure."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, Json]] = []
        self.answers: dict[str, Json | Callable[[Json], Json]] = {}
        self.status = 200
        self.body: bytes | None = None
        self.delay = 0.0
        self.hang_up = 0
        self.headers: dict[str, str] = {}
        self.port = 0
        self.scheme = "http"

    @property
    def url(self) -> str:
        return f"{self.scheme}://127.0.0.1:{self.port}"

    async def handle(self, request: web.Request) -> web.Response:
        arguments = json.loads(await request.read())
        self.headers = dict(request.headers)
        self.asked.append((request.path, arguments))
        if self.hang_up:
            self.hang_up -= 1
            assert request.transport is not None
            request.transport.close()
        if self.delay:
            await asyncio.sleep(self.delay)
        if self.body is not None:
            return web.Response(status=self.status, body=self.body)
        answer = self.answers.get(request.path)
        return web.json_response(answer(arguments) if callable(answer) else answer, status=self.status)


@asynccontextmanager
async def serving(context: ssl.SSLContext | None = None) -> AsyncIterator[ExtenderServer]:
    """A server that runs for the duration of the block."""
    server = ExtenderServer()
    app = web.Application(client_max_size=2**26)
    app.router.add_post("/{path:.*}", server.handle)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, ssl_context=context)
    await site.start()
    server.port = runner.addresses[0][1]
    server.scheme = "https" if context is not None else "http"
    try:
        yield server
    finally:
        await runner.cleanup()
