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
from typing import Any
from urllib.parse import quote, urlsplit
from weakref import WeakSet

import aiohttp
import msgspec
from multidict import CIMultiDict
from yarl import URL

from kubesched.base.clock import Clock
from kubesched.client.connection import Connection
from kubesched.client.credentials import ANONYMOUS, Identity, credentials_of
from kubesched.client.http1 import BadResponseError, Response
from kubesched.client.pool import (
    KEEP_ALIVE,
    BrokenConnection,
    ConnectionPool,
    Exchange,
    MayWrite,
    keep_alive,
)
from kubesched.client.protocol import ApiError
from kubesched.client.proxy import is_socks, proxy_for
from kubesched.client.ratelimit import TokenBucket
from kubesched.client.tls import TlsContexts
from kubesched.client.wire import error_of

APPLICATION_JSON = "application/json"

CLOSE_SECONDS = 1.0
"""How long to wait at the end until TLS sessions have ended."""
CONNECTIONS = 48
"""Concurrent requests, not counting watches. More would only queue in the server."""

CONNECT_SECONDS = 30.0
RETRIES = 10
BROKEN_RETRIES = 2


class RequestDone(msgspec.Struct, frozen=True, gc=False):
    """What an observer gets for its metrics when the response begins. The code is 0 if there was none."""

    verb: str
    host: str
    code: int
    seconds: float
    waited: float
    """Seconds spent waiting for the rate limit; `seconds` does not include them."""
    sent: int = 0
    """The size of the request's body."""
    received: int | None = None
    """The size of the response's body; None for a watch."""


Observer = Callable[[RequestDone], None]


class Request(msgspec.Struct, frozen=True, gc=False):
    """A request without credentials."""

    method: str
    target: str
    """The path, quoted, with the query. The server's own path comes before it."""
    timeout: float
    """Seconds for the whole exchange; 0 for no limit."""
    body: bytes | None = None
    content_type: str = APPLICATION_JSON


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
        place = urlsplit(connection.server)
        self._connection = connection
        self._host, self._path = place.netloc, place.path
        self._limit = limit
        self._clock = clock
        self._observe = observe
        self._request_class = request_class(may_write)
        self._credentials = credentials_of(connection, clock)
        self._tls = TlsContexts(connection.tls, clock) if place.scheme == "https" else None
        self._proxy = connection.proxy_url or proxy_for(connection.server, os.environ)
        self._by_socks = self._proxy is not None and is_socks(self._proxy)
        self._headers = _headers(connection, user_agent(agent))
        self._identity, self._head = ANONYMOUS, self._head_of(ANONYMOUS)
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._session: aiohttp.ClientSession | None = None
        self._sockets: WeakSet[socket.socket] = WeakSet()
        self._pool = ConnectionPool(
            place.hostname or "",
            place.port or (443 if self._tls else 80),
            limit=CONNECTIONS,
            server_name=connection.tls.server_name,
            may_write=may_write,
        )

    async def close(self) -> None:
        await self._pool.close()
        if self._session is not None:
            await self._session.close()
            self._session = None
        # A watch that was cancelled still ends its TLS session, for which aiohttp does not wait.
        deadline = time.monotonic() + CLOSE_SECONDS
        while any(each.fileno() >= 0 for each in self._sockets) and time.monotonic() < deadline:
            await asyncio.sleep(0.005)

    async def fetch(self, request: Request) -> bytes:
        """The body of the response, with retries where they are safe."""
        tries = 0
        while True:
            try:
                if self._proxy is not None:
                    return await self._fetch_by_proxy(request)
                # All in one coroutine: each one inside of another takes time, and requests come by the thousand.
                waited = 0.0 if self._limit.try_acquire() else await self._limit.acquire()
                identity = await self._credentials.current()
                response = await self._exchange(request, identity, waited)
                if response.status == 401:
                    renewed = await self._credentials.after_refusal(identity)
                    if renewed != identity:
                        response = await self._exchange(request, renewed, 0.0)
                if response.status < 300:
                    return response.body
                raise error_of(response.status, response.body, response.header("Retry-After"))
            except (ApiError, BrokenConnection) as error:
                tries += 1
                delay = _delay_before_retry(request.method, error, tries)
                if delay is None:
                    raise
            await self._clock.sleep(delay)

    def _observed(
        self, request: Request, code: int, seconds: float, waited: float, received: int | None = None
    ) -> None:
        if self._observe is not None:
            sent = 0 if request.body is None else len(request.body)
            self._observe(RequestDone(request.method, self._host, code, seconds, waited, sent, received))

    # --- single requests, over our own connections --------------------------------------------------------------------

    async def _exchange(self, request: Request, identity: Identity, waited: float) -> Response:
        context = None if self._tls is None else self._tls.get(identity.key_pair)
        exchange = Exchange(
            self._encoded(request, identity), context, request.timeout, is_write=request.method != "GET"
        )
        code, received = 0, None
        try:
            response = await self._pool.send(exchange)
            code, received = response.status, len(response.body)
            return response
        except (ConnectionError, TimeoutError, BadResponseError) as error:
            raise self._as_os_error(request, error) from error
        except asyncio.CancelledError:
            self._pool.give_up(exchange)
            raise
        finally:
            if exchange.began:
                self._observed(request, code, time.perf_counter() - exchange.began, waited, received)

    def _encoded(self, request: Request, identity: Identity) -> bytes:
        if identity is not self._identity:
            self._identity, self._head = identity, self._head_of(identity)
        body, target = request.body, request.target
        if not target.isprintable() or " " in target:
            raise ValueError(f"not a path: {target!r}")
        start = f"{request.method} {self._path}{target} HTTP/1.1\r\n{self._head}"
        if body is not None:
            return b"%bContent-Type: %b\r\nContent-Length: %d\r\n\r\n%b" % (
                start.encode(),
                request.content_type.encode(),
                len(body),
                body,
            )
        return f"{start}\r\n".encode() if request.method == "GET" else f"{start}Content-Length: 0\r\n\r\n".encode()

    def _head_of(self, identity: Identity) -> str:
        """The headers of every request of an identity."""
        lines = [("Host", self._host), *self._headers.items()]
        if identity.authorization:
            lines.append(("Authorization", identity.authorization))
        for name, value in lines:
            if any(character in value for character in "\r\n\0"):
                raise ValueError(f"the header {name} must not contain a line break")
        return "".join(f"{name}: {value}\r\n" for name, value in lines)

    # --- watches, and everything through a proxy ----------------------------------------------------------------------

    async def _fetch_by_proxy(self, request: Request) -> bytes:
        async with self._slots, self.stream(request) as response:
            return await response.read()

    @asynccontextmanager
    async def stream(self, request: Request) -> AsyncGenerator[aiohttp.ClientResponse, None]:
        """A successful response, whose body is read bit by bit. Anything else is raised as one of the errors of the
        `Client` protocol."""
        waited = await self._limit.acquire()
        try:
            response = await self._send_observed(request, waited)
            try:
                if response.status >= 300:
                    raise error_of(response.status, await response.read(), response.headers.get("Retry-After"))
                yield response
            finally:
                response.release()
        except (aiohttp.ClientError, TimeoutError, ConnectionResetError) as error:
            raise self._as_os_error(request, error) from error

    async def _send_observed(self, request: Request, waited: float) -> aiohttp.ClientResponse:
        began, code = time.perf_counter(), 0
        try:
            response = await self._send_authenticated(request)
            code = response.status
            return response
        finally:
            self._observed(request, code, time.perf_counter() - began, waited)

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
            URL(f"{self._connection.server}{request.target}", encoded=True),
            data=request.body,
            headers=headers,
            proxy=None if self._by_socks else self._proxy,
            ssl=True if self._tls is None else self._tls.get(identity.key_pair),
            server_hostname=self._connection.tls.server_name or None,
            timeout=aiohttp.ClientTimeout(total=request.timeout or None, sock_connect=CONNECT_SECONDS),
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
            return aiohttp.TCPConnector(limit=0, keepalive_timeout=KEEP_ALIVE, socket_factory=self._socket)
        from kubesched.client.socks import SocksConnector  # few need it

        return SocksConnector(self._proxy, keep_alive, limit=0, keepalive_timeout=KEEP_ALIVE)

    def _socket(self, address: Any) -> socket.socket:
        family, kind, protocol, _, _ = address
        made = socket.socket(family, kind, protocol)
        keep_alive(made)
        self._sockets.add(made)
        return made

    # --- errors -------------------------------------------------------------------------------------------------------

    def _as_os_error(self, request: Request, error: Exception) -> OSError:
        """An error of the `Client` protocol, with a message for a log rather than for a debugger."""
        name = f"{request.method} {self._connection.server}{request.target.partition('?')[0]}"
        if isinstance(error, TimeoutError):
            return TimeoutError(f"{name}: no answer within {request.timeout:g} s")
        if isinstance(error, BrokenConnection):
            return BrokenConnection(f"{name}: {error}")
        if isinstance(error, BadResponseError):
            return ConnectionError(f"{name}: the response is not valid: {error}")
        return _of_aiohttp(name, error)


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


def _of_aiohttp(name: str, error: Exception) -> OSError:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return ConnectionError(f"{name}: {error.certificate_error}; check the certificate authority and the address")
    if isinstance(error, aiohttp.ClientConnectorError):
        reason = os.strerror(error.os_error.errno) if error.os_error.errno else error.os_error
        return ConnectionError(f"{name}: cannot connect: {reason}")
    if isinstance(error, aiohttp.ClientPayloadError):
        return BrokenConnection(f"{name}: the response ended early")
    broken = isinstance(error, aiohttp.ServerDisconnectedError | ConnectionResetError)
    if broken or (isinstance(error, OSError) and error.errno in (errno.ECONNRESET, errno.EPIPE)):
        return BrokenConnection(f"{name}: the connection broke")
    return ConnectionError(f"{name}: {str(error) or type(error).__name__}")
