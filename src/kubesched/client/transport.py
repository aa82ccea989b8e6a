"""Sending a request: connections, TLS, identity, rate limit, retries, and errors that mean something.

A request is sent again only where that is safe: when the server says so with Retry-After, when a connection breaks
under a GET, and once with renewed credentials when the server does not know who we are. Everything else is the caller's
to decide, who knows what it means.
"""

from __future__ import annotations

import asyncio
import errno
import os
import platform
import socket
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import metadata
from typing import Any, NamedTuple
from urllib.parse import quote

import aiohttp
from multidict import CIMultiDict
from yarl import URL

from kubesched.base.clock import Clock
from kubesched.client.connection import Connection
from kubesched.client.credentials import Identity, credentials_of
from kubesched.client.protocol import ApiError
from kubesched.client.proxy import is_socks, proxy_for
from kubesched.client.ratelimit import TokenBucket
from kubesched.client.tls import TlsContexts
from kubesched.client.wire import error_of

APPLICATION_JSON = "application/json"

CONNECTIONS = 100
"""Requests under way at once, watches aside; more would only queue in the server."""

KEEP_ALIVE = 60.0
"""Less than the 90 s after which an API server closes an idle connection: a bind must not meet one being closed."""

RETRIES = 10
BROKEN_RETRIES = 2


class BrokenConnection(ConnectionResetError):  # noqa: N818 - it says what has happened, as its base does
    """A connection ended before its answer did: whether the request was carried out is not known."""


class RequestDone(NamedTuple):
    """What an observer is told, for metrics, once the answer begins. A code of 0 means that there was none."""

    verb: str
    host: str
    code: int
    seconds: float
    waited: float
    """Seconds for which the rate limit held it back, which are not among the others."""


Observer = Callable[[RequestDone], None]
MayWrite = Callable[[], bool]
"""Whether requests that change something may be sent at this very moment."""


class Request(NamedTuple):
    """A request as it is sent, credentials aside."""

    method: str
    url: URL
    timeout: aiohttp.ClientTimeout
    body: bytes | None = None
    content_type: str = APPLICATION_JSON

    def __str__(self) -> str:
        return f"{self.method} {self.url.with_query(None)}"


def user_agent(part: str = "") -> str:
    """As upstream's: the program, its version and platform, and the part of it that speaks."""
    version, machine = metadata.version("kubesched"), {"x86_64": "amd64"}.get(platform.machine(), platform.machine())
    return f"kubesched/{version} ({sys.platform}/{machine}){f'/{part}' if part else ''}"


class Transport:
    """The way to one API server, with connections that are kept."""

    def __init__(
        self,
        connection: Connection,
        limit: TokenBucket,
        clock: Clock,
        agent: str = "",
        observe: Observer | None = None,
        may_write: MayWrite | None = None,
    ) -> None:
        self._connection = connection
        self._limit = limit
        self._clock = clock
        self._observe = observe
        self._request_class = request_class(may_write)
        self._credentials = credentials_of(connection, clock)
        self._tls = TlsContexts(connection.tls, clock)
        self._proxy = connection.proxy_url or proxy_for(connection.server, os.environ)
        self._by_socks = self._proxy is not None and is_socks(self._proxy)
        self._headers = _headers(connection, user_agent(agent))
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._session: aiohttp.ClientSession | None = None

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def fetch(self, request: Request) -> bytes:
        """The body of the answer, after as many tries as are safe."""
        tries = 0
        while True:
            try:
                async with self._slots, self.answer(request) as response:
                    return await response.read()
            except (ApiError, BrokenConnection) as error:
                tries += 1
                delay = _delay_before_retry(request.method, error, tries)
                if delay is None:
                    raise
            await self._clock.sleep(delay)

    @asynccontextmanager
    async def answer(self, request: Request) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """The server's answer, if it is no refusal; whatever goes wrong is one of the errors that `Client` promises."""
        began = self._clock.monotonic()
        await self._limit.acquire()
        waited = self._clock.monotonic() - began
        try:
            response = await self._send_observed(request, waited)
            try:
                if response.status >= 300:
                    raise error_of(response.status, await response.read(), response.headers.get("Retry-After"))
                yield response
            finally:
                response.release()
        except (aiohttp.ClientError, TimeoutError, ConnectionResetError) as error:
            raise _as_os_error(request, error) from error

    async def _send_observed(self, request: Request, waited: float) -> aiohttp.ClientResponse:
        began, code = time.perf_counter(), 0
        try:
            response = await self._send_as_somebody(request)
            code = response.status
            return response
        finally:
            if self._observe is not None:
                seconds = time.perf_counter() - began
                self._observe(RequestDone(request.method, request.url.authority, code, seconds, waited))

    async def _send_as_somebody(self, request: Request) -> aiohttp.ClientResponse:
        identity = await self._credentials.current()
        response = await self._send(request, identity)
        if response.status != 401:
            return response
        renewed = await self._credentials.after_refusal(identity)
        if renewed == identity:
            return response
        await response.read()
        return await self._send(request, renewed)

    async def _send(self, request: Request, identity: Identity) -> aiohttp.ClientResponse:
        headers = self._headers.copy()
        if request.body is not None:
            headers["Content-Type"] = request.content_type
        if identity.authorization:
            headers["Authorization"] = identity.authorization
        return await self._open_session().request(
            request.method,
            request.url,
            data=request.body,
            headers=headers,
            proxy=None if self._by_socks else self._proxy,
            ssl=self._tls.get(identity.key_pair) if request.url.scheme == "https" else True,
            server_hostname=self._connection.tls.server_name or None,
            timeout=request.timeout,
            allow_redirects=False,
        )

    def _open_session(self) -> aiohttp.ClientSession:
        if self._session is None:
            # The number of connections is limited by the slots, which watches do not take.
            connector = self._connector()
            jar = aiohttp.DummyCookieJar()
            self._session = aiohttp.ClientSession(
                connector=connector, cookie_jar=jar, request_class=self._request_class
            )
        return self._session

    def _connector(self) -> aiohttp.TCPConnector:
        if self._proxy is None or not self._by_socks:
            return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, socket_factory=_socket)
        from kubesched.client.socks import SocksConnector  # few need it

        return SocksConnector(self._proxy, _keep_alive, limit=0, keepalive_timeout=KEEP_ALIVE)


def request_class(may_write: MayWrite | None) -> type[aiohttp.ClientRequest]:
    """For a session: requests that are sent only if they may be."""
    return aiohttp.ClientRequest if may_write is None else _fenced(may_write)


def _fenced(may_write: MayWrite) -> type[aiohttp.ClientRequest]:
    """Requests that are held back at the last moment, when a connection is there, if nothing may be written any more.

    A process may be frozen anywhere. Whatever waited for a token or a connection goes on when it wakes up, before
    anybody has found out that another one leads now.
    """

    class Fenced(aiohttp.ClientRequest):
        async def send(self, conn: Any) -> aiohttp.ClientResponse:
            if self.method != "GET" and not may_write():
                raise ConnectionAbortedError("not sent: this process leads no more")
            return await super().send(conn)

    return Fenced


def _headers(connection: Connection, agent: str) -> CIMultiDict[str]:
    """What every request carries. Compression is not asked for: near a server it costs more time than it saves."""
    headers = CIMultiDict({"Accept": APPLICATION_JSON, "Accept-Encoding": "identity", "User-Agent": agent})
    impersonate = connection.impersonate
    if impersonate.user:
        headers["Impersonate-User"] = impersonate.user
    if impersonate.uid:
        headers["Impersonate-Uid"] = impersonate.uid
    for group in impersonate.groups:
        headers.add("Impersonate-Group", group)
    for key, values in impersonate.extra.items():
        for value in values:
            headers.add(f"Impersonate-Extra-{quote(key.lower(), safe='!#$&*+-.^_`|~')}", value)
    return headers


def _delay_before_retry(method: str, error: ApiError | BrokenConnection, tries: int) -> float | None:
    """How long to wait before the request may be sent again, or None if it may not."""
    if isinstance(error, BrokenConnection):
        return 1.0 if method == "GET" and tries <= BROKEN_RETRIES else None
    not_carried_out = error.code in (429, 503) or (method == "GET" and error.code >= 500)
    return error.retry_after if not_carried_out and tries <= RETRIES else None


def _as_os_error(request: Request, error: Exception) -> OSError:
    """One of the errors that `Client` promises, in words for a log rather than for a debugger."""
    if isinstance(error, TimeoutError):
        return TimeoutError(f"{request}: no answer within {request.timeout.total or 0:g} s")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ConnectionError(f"{request}: {error.certificate_error}; check the certificate authority and the address")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = os.strerror(error.os_error.errno) if error.os_error.errno else error.os_error
        return ConnectionError(f"{request}: cannot connect: {reason}")
    if isinstance(error, aiohttp.ClientPayloadError):
        return BrokenConnection(f"{request}: the answer ended early")
    broken = isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError)
    if broken or (isinstance(error, OSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)):
        return BrokenConnection(f"{request}: the connection broke")
    return ConnectionError(f"{request}: {str(error) or type(error).__name__}")


def _socket(address: Any) -> socket.socket:
    family, kind, protocol, _, _ = address
    made = socket.socket(family, kind, protocol)
    _keep_alive(made)
    return made


def _keep_alive(made: socket.socket) -> None:
    """Let a socket find out within a minute that nobody is at the other end, as upstream's do."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
