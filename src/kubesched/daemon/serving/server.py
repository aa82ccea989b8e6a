"""Serves a port. It was bound before, so that a port in use is reported before anything starts."""

from __future__ import annotations

import socket
import ssl

from aiohttp import web

from kubesched.base.limited_server import LimitedServer
from kubesched.base.log import Log
from kubesched.daemon.serving.auth.guard import Handler
from kubesched.daemon.serving.preparation import BACKLOG

SHUTDOWN_SECONDS = 5.0
CONNECTIONS_PER_ADDRESS = 500
IDLE_SECONDS = 90.0
"""A connection that sends no complete request for this long is closed."""


class SecureServer:
    """Serves a handler over TLS."""

    def __init__(self, handler: Handler, sock: socket.socket, context: ssl.SSLContext, log: Log) -> None:
        self._handler = handler
        self._socket = sock
        self._context = context
        self._log = log
        self._runner: web.ServerRunner | None = None

    @property
    def port(self) -> int:
        """The actual port, also if the flag was 0."""
        return int(self._socket.getsockname()[1])

    async def start(self) -> None:
        """Start serving."""
        server = LimitedServer(
            self._handler,
            connections_per_address=CONNECTIONS_PER_ADDRESS,
            access_log=None,
            debug=False,
            keepalive_timeout=IDLE_SECONDS,
        )
        self._runner = web.ServerRunner(server, handle_signals=False, shutdown_timeout=SHUTDOWN_SECONDS)
        await self._runner.setup()
        site = web.SockSite(self._runner, self._socket, ssl_context=self._context, backlog=BACKLOG)
        await site.start()
        host = self._socket.getsockname()[0]
        shown = f"[{host}]:{self.port}" if ":" in host else f"{host}:{self.port}"
        self._log(0, f"Serving securely on {shown}")

    async def stop(self) -> None:
        """Accept no more requests and finish those in progress."""
        if self._runner is not None:
            await self._runner.cleanup()
            self._runner = None
            self._log(0, "[graceful-termination] secure server is exiting")
