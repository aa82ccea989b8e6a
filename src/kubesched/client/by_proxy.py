"""Requests through a proxy, by aiohttp: few need it, and it takes long to import."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import ssl
import time
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any
from weakref import WeakSet

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubesched.client.connection import Connection
from kubesched.client.pool import KEEP_ALIVE, BrokenConnection, CannotConnectError, MayWrite, keep_alive
from kubesched.client.proxy import is_socks
from kubesched.client.socks import SocksConnector
from kubesched.client.streams import CONNECT_SECONDS

if TYPE_CHECKING:
    from kubesched.client.transport import Request

CLOSE_SECONDS = 1.0
"""How long to wait at the end until TLS sessions have ended."""


class ProxyResponse:
    """A response that is read while it arrives."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self.status = response.status
        self._response = response

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, in pieces of any size."""
        try:
            async for piece in self._response.content.iter_any():
                yield piece
        except aiohttp.ClientError as error:
            raise _own_error(error) from error

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.chunks()])

    def header(self, name: str) -> str | None:
        """The first header with a name."""
        return self._response.headers.get(name)

    def abort(self) -> None:
        """Give the connection back if the response is whole; otherwise close it."""
        self._response.release()


class ProxySession:
    """Sends requests through one proxy."""

    def __init__(
        self, connection: Connection, proxy: str, headers: Sequence[tuple[str, str]], may_write: MayWrite | None
    ) -> None:
        self._connection = connection
        self._proxy = proxy
        self._headers = headers
        self._request_class = request_class(may_write)
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()

    async def close(self) -> None:
        """Close every connection."""
        if self._session is not None:
            await self._session.close()
            self._session = None
        # A watch that was cancelled still ends its TLS session, for which aiohttp does not wait.
        deadline = time.monotonic() + CLOSE_SECONDS
        while any(each.fileno() >= 0 for each in self._sockets) and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    async def send(self, request: Request, authorization: str, context: ssl.SSLContext | None) -> ProxyResponse:
        """Send a request and wait for the head of its response."""
        headers = CIMultiDict(self._headers)
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if authorization:
            headers["Authorization"] = authorization
        try:
            response = await self._open().request(
                request.method,
                URL(f"{self._connection.server}{request.target}", encoded=True),
                data=request.body,
                headers=headers,
                proxy=None if is_socks(self._proxy) else self._proxy,
                ssl=True if context is None else context,
                server_hostname=self._connection.tls.server_name or None,
                timeout=aiohttp.ClientTimeout(total=request.timeout or None, sock_connect=CONNECT_SECONDS),
                allow_redirects=False,
            )
        except aiohttp.ClientError as error:
            raise _own_error(error) from error
        return ProxyResponse(response)

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=self._connector(), cookie_jar=aiohttp.DummyCookieJar(), request_class=self._request_class
            )
        return self._session

    def _connector(self) -> aiohttp.TCPConnector:
        # The transport limits the number of connections.
        if is_socks(self._proxy):
            return SocksConnector(self._proxy, keep_alive, limit=0, keepalive_timeout=KEEP_ALIVE)
        return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, socket_factory=self._socket)

    def _socket(self, address: Any) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        keep_alive(made)
        self._sockets.add(made)
        return made


def request_class(may_write: MayWrite | None) -> type[aiohttp.ClientRequest]:
    """The request class of a session that sends only what it may."""
    return aiohttp.ClientRequest if may_write is None else _fenced(may_write)


def _fenced(may_write: MayWrite) -> type[aiohttp.ClientRequest]:
    """Requests that check at the last moment, with an open connection, whether they may still be sent.

    A process may be frozen at any point. When it wakes up, a request that waited for a token or a connection continues
    before the process notices that another one leads now.
    """

    class Fenced(aiohttp.ClientRequest):
        async def send(self, conn: Any) -> aiohttp.ClientResponse:
            if self.method != "GET" and not may_write():
                raise ConnectionAbortedError("not sent: this process is no longer the leader")
            return await super().send(conn)

    return Fenced


def _own_error(error: aiohttp.ClientError) -> OSError:
    """The error that our own connections would raise."""
    if isinstance(error, TimeoutError):
        return TimeoutError()
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return CannotConnectError(f"{error.certificate_error}; check the certificate authority and the address")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = os.strerror(error.os_error.errno) if error.os_error.errno else error.os_error
        return CannotConnectError(f"cannot connect: {reason}")
    if isinstance(error, aiohttp.ClientPayloadError):
        return BrokenConnection("the response ended early")
    reset = isinstance(error, OSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)
    if reset or isinstance(error, aiohttp.ServerDisconnectedError):
        return BrokenConnection("the connection broke")
    return ConnectionError(str(error) or type(error).__name__)
