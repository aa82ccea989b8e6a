"""Sending requests: connections, TLS, identity, rate limit, retries, and clear errors.

A request is retried only where that is safe: when the server asks for it with Retry-After, when a connection breaks
during a GET, and once with renewed credentials after a 401. All other retries are up to the caller.
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
"""Concurrent requests, not counting watches. More would only queue in the server."""

KEEP_ALIVE = 60.0
"""Less than the 90 s after which an API server closes an idle connection, so that no bind is sent on a closing one."""

RETRIES = 10
BROKEN_RETRIES = 2


class BrokenConnection(ConnectionResetError):  # noqa: N818 - named after its base, which has no suffix either
    """A connection broke before the end of the response. Whether the request took effect is unknown."""


class RequestDone(NamedTuple):
    """What an observer gets for its metrics when the response begins. The code is 0 if there was none."""

    verb: str
    host: str
    code: int
    seconds: float
    waited: float
    """Seconds spent waiting for the rate limit; `seconds` does not include them."""


Observer = Callable[[RequestDone], None]
MayWrite = Callable[[], bool]
"""Whether requests that change something may be sent now."""


class Request(NamedTuple):
    """A request without credentials."""

    method: str
    url: URL
    timeout: aiohttp.ClientTimeout
    body: bytes | None = None
    content_type: str = APPLICATION_JSON

    def __str__(self) -> str:
        return f"{self.method} {self.url.with_query(None)}"


def user_agent(part: str = "") -> str:
    """As upstream's: the program, its version and platform, and the component that sends the request."""
    version, machine = metadata.version("kubesched"), {"x86_64": "amd64"}.get(platform.machine(), platform.machine())
    return f"kubesched/{version} ({sys.platform}/{machine}){f'/{part}' if part else ''}"


class Transport:
    """Sends requests to one API server over persistent connections."""

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
        """The body of the response, with retries where they are safe."""
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
        """A successful response. Anything else is raised as one of the errors of the `Client` protocol."""
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
            response = await self._send_authenticated(request)
            code = response.status
            return response
        finally:
            if self._observe is not None:
                seconds = time.perf_counter() - began
                self._observe(RequestDone(request.method, request.url.authority, code, seconds, waited))

    async def _send_authenticated(self, request: Request) -> aiohttp.ClientResponse:
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
            # The slots limit the number of connections; watches do not take one.
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


def _headers(connection: Connection, agent: str) -> CIMultiDict[str]:
    """The headers of every request. They ask for no compression: near the server it costs more time than it saves."""
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
    """Seconds to wait before a retry, or None if the request must not be retried."""
    if isinstance(error, BrokenConnection):
        return 1.0 if method == "GET" and tries <= BROKEN_RETRIES else None
    not_carried_out = error.code in (429, 503) or (method == "GET" and error.code >= 500)
    return error.retry_after if not_carried_out and tries <= RETRIES else None


def _as_os_error(request: Request, error: Exception) -> OSError:
    """An error of the `Client` protocol, with a message for a log rather than for a debugger."""
    if isinstance(error, TimeoutError):
        return TimeoutError(f"{request}: no answer within {request.timeout.total or 0:g} s")
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ConnectionError(f"{request}: {error.certificate_error}; check the certificate authority and the address")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = os.strerror(error.os_error.errno) if error.os_error.errno else error.os_error
        return ConnectionError(f"{request}: cannot connect: {reason}")
    if isinstance(error, aiohttp.ClientPayloadError):
        return BrokenConnection(f"{request}: the response ended early")
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
    """Detect within a minute that the other end is gone, as upstream does."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
