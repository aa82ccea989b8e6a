"""The page's HTTP server: static files, answers in JSON, and the stream of changes."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final

import msgspec
from aiohttp import web

from kubesched.base.limited_server import server_logger
from kubesched.client.protocol import ApiError
from kubesched.web.answers import Answer, PageAnswers
from kubesched.web.security import HEADERS, Doorkeeper
from kubesched.web.stream import Broadcaster

STATIC: Final = Path(__file__).parent / "static"
COMPRESSED_FROM = 2048
IDLE_SECONDS = 90.0
"""A connection that sends no complete request for this long is closed."""


class UiServer:
    """Serves the page on a socket that listens already."""

    def __init__(self, answers: PageAnswers, broadcaster: Broadcaster, door: Doorkeeper) -> None:
        self._answers = answers
        self._broadcaster = broadcaster
        self._door = door
        self._runner: web.AppRunner | None = None

    async def start(self, listening: socket.socket) -> None:
        """Begin to serve."""
        # Without an access log: the first request has the token in its URL.
        self._runner = web.AppRunner(
            self.application(),
            access_log=None,
            handle_signals=False,
            shutdown_timeout=0.5,
            keepalive_timeout=IDLE_SECONDS,
            # As our other servers: pages send nothing compressed.
            auto_decompress=False,
            logger=server_logger(),
        )
        await self._runner.setup()
        await web.SockSite(self._runner, listening).start()
        self._broadcaster.start()

    async def stop(self) -> None:
        """End all streams and close the socket."""
        await self._broadcaster.stop()
        if self._runner is not None:
            await self._runner.cleanup()

    def application(self) -> web.Application:
        """All routes, behind the check of every request."""
        application = web.Application(middlewares=[self._door.middleware()], client_max_size=16 << 20)
        application.router.add_get("/", self._index)
        application.router.add_get("/api/events", self._events)
        for method, path, answer in self._answers.routes():
            application.router.add_route(method, f"/api/{path}", _as_json(answer))
        application.router.add_static("/static", STATIC)
        return application

    async def _index(self, request: web.Request) -> web.StreamResponse:
        given = request.query.get("token")
        if given is None:
            return web.FileResponse(STATIC / "index.html")
        # The token leaves the address bar and the browser's history at once.
        response = web.Response(status=303, headers={"Location": "/"})
        if self._door.has_token(given):
            name = self._door.cookie_name(request)
            response.set_cookie(name, given, httponly=True, samesite="Strict", path="/")
        return response

    async def _events(self, request: web.Request) -> web.StreamResponse:
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "X-Accel-Buffering": "no"})
        response.headers.update(HEADERS)
        with self._broadcaster.page() as events:
            await response.prepare(request)
            await response.write(b"retry: 1000\n\n")
            try:
                async for each in self._broadcaster.events(events):
                    await response.write(each)
            except (ConnectionError, asyncio.CancelledError):
                pass
        return response


def _as_json(answer: Answer) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    async def handle(request: web.Request) -> web.StreamResponse:
        try:
            body, status = await answer(request), 200
        except LookupError as error:
            body, status = {"error": str(error.args[0] if error.args else error)}, 404
        except ApiError as error:
            body, status = {"error": error.message}, error.code if error.code >= 400 else 502
        except PermissionError as error:
            body, status = {"error": str(error)}, 403
        except (ValueError, TypeError) as error:
            body, status = {"error": str(error)}, 400
        except OSError as error:
            body, status = {"error": str(error)}, 502
        response = web.Response(body=msgspec.json.encode(body), status=status, content_type="application/json")
        if response.content_length is not None and response.content_length > COMPRESSED_FROM:
            response.enable_compression()
        return response

    return handle
