"""Binds the port and serves it. Binding is separate, so that a port in use is reported before anything starts."""

from __future__ import annotations

import ipaddress
import socket
import ssl
from contextlib import suppress

from aiohttp import web

from kubesched.base.limited_server import LimitedServer
from kubesched.base.log import Log
from kubesched.daemon.serving.auth.guard import Handler
from kubesched.daemon.serving.tls.context import ServingError

SHUTDOWN_SECONDS = 5.0
BACKLOG = 128
CONNECTIONS_PER_ADDRESS = 500
IDLE_SECONDS = 90.0
"""A connection that sends no complete request for this long is closed."""


def listen(address: str, port: int, *, share_port: bool = False) -> socket.socket:
    """Bind a socket. An unspecified address means all of IPv4 and IPv6. Raises `ServingError`."""
    unspecified = ipaddress.ip_address(address).is_unspecified
    if unspecified and socket.has_dualstack_ipv6():
        with suppress(OSError):
            return _bound("::", port, share_port, dualstack=True)
        address = "0.0.0.0"  # noqa: S104 - the caller asked for all addresses
    try:
        return _bound(address, port, share_port)
    except OSError as problem:
        where = f"[{address}]:{port}" if ":" in address else f"{address}:{port}"
        raise ServingError(f"failed to create listener: failed to listen on {where}: {problem.strerror}") from None


def _bound(address: str, port: int, share_port: bool, *, dualstack: bool = False) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    made = socket.socket(family, socket.SOCK_STREAM)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if share_port:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        if family == socket.AF_INET6:
            made.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, int(not dualstack))
        made.bind((address, port))
    except OSError:
        made.close()
        raise
    return made


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
