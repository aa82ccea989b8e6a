"""Sending requests: connections, TLS, identity, rate limit, retries, and clear errors.

A request is retried only where that is safe: when the server asks for it with Retry-After, when a connection breaks
during a GET, and once with renewed credentials after a 401. All other retries are up to the caller.
"""

from __future__ import annotations

import asyncio
import os
import platform
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib import metadata
from typing import TYPE_CHECKING, Protocol
from urllib.parse import quote, urlsplit

import msgspec

from kubesched.base.clock import Clock
from kubesched.client.connection import Connection
from kubesched.client.credentials import ANONYMOUS, Fixed, Identity, credentials_of
from kubesched.client.http1 import BadResponseError, Response
from kubesched.client.pool import BrokenConnection, ConnectionPool, Exchange, MayWrite
from kubesched.client.protocol import ApiError
from kubesched.client.proxy import proxy_for
from kubesched.client.ratelimit import TokenBucket
from kubesched.client.streams import ResponseStream
from kubesched.client.tls import TlsContexts
from kubesched.client.wire import error_of

if TYPE_CHECKING:
    from kubesched.client.by_proxy import ProxySession

APPLICATION_JSON = "application/json"

CONNECTIONS = 48
"""Concurrent requests, not counting watches. More would only queue in the server."""

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


class Stream(Protocol):
    """A response that is read while it arrives."""

    status: int

    def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, in pieces of any size."""
        ...

    async def read(self) -> bytes:
        """The whole body."""
        ...

    def header(self, name: str) -> str | None:
        """The first header with a name."""
        ...

    def abort(self) -> None:
        """Close the connection, or give it back."""
        ...


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
        self._address = place.hostname or "", place.port or (443 if place.scheme == "https" else 80)
        self._server_name = connection.tls.server_name or self._address[0]
        self._host, self._path = place.netloc, place.path
        self._limit = limit
        self._clock = clock
        self._observe = observe
        self._credentials = credentials_of(connection, clock)
        self._fixed_identity = self._credentials.identity if isinstance(self._credentials, Fixed) else None
        """The identity of every request, if there is only one: it needs no coroutine then."""
        self._tls = TlsContexts(connection.tls, clock) if place.scheme == "https" else None
        self._headers = _headers(connection, user_agent(agent))
        self._identity, self._head = ANONYMOUS, self._head_of(ANONYMOUS)
        self._slots = asyncio.Semaphore(CONNECTIONS)
        self._pool = ConnectionPool(
            *self._address, limit=CONNECTIONS, server_name=connection.tls.server_name, may_write=may_write
        )
        self._streams: set[ResponseStream] = set()
        proxy = connection.proxy_url or proxy_for(connection.server, os.environ)
        self._by_proxy: ProxySession | None = None
        if proxy is not None:
            # Not at the top: it imports aiohttp, which takes a third of the time that a command takes to start.
            from kubesched.client.by_proxy import ProxySession

            self._by_proxy = ProxySession(connection, proxy, self._headers, may_write)

    async def close(self) -> None:
        await self._pool.close()
        for stream in tuple(self._streams):
            await stream.close()
        if self._by_proxy is not None:
            await self._by_proxy.close()

    async def fetch(self, request: Request) -> bytes:
        """The body of the response, with retries where they are safe."""
        tries = 0
        while True:
            try:
                if self._by_proxy is not None:
                    return await self._fetch_by_proxy(request)
                # All in one coroutine: each one inside of another takes time, and requests come by the thousand.
                waited = 0.0 if self._limit.try_acquire() else await self._limit.acquire()
                identity = self._fixed_identity or await self._credentials.current()
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

    # --- single requests, over our own connections --------------------------------------------------------------------

    async def _exchange(self, request: Request, identity: Identity, waited: float) -> Response:
        context = None if self._tls is None else self._tls.get(identity.key_pair)
        answer = asyncio.get_running_loop().create_future()
        data, is_write = self._encoded(request, identity), request.method != "GET"
        exchange = Exchange(data, context, request.timeout, is_write, answer)
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
            if exchange.began and self._observe is not None:
                seconds, sent = time.perf_counter() - exchange.began, len(request.body or b"")
                self._observe(RequestDone(request.method, self._host, code, seconds, waited, sent, received))

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
        lines = [("Host", self._host), *self._headers]
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
    async def stream(self, request: Request) -> AsyncGenerator[Stream, None]:
        """A successful response, whose body is read bit by bit. Anything else is raised as one of the errors of the
        `Client` protocol."""
        waited = await self._limit.acquire()
        try:
            response = await self._send_observed(request, waited)
            try:
                if response.status >= 300:
                    raise error_of(response.status, await response.read(), response.header("Retry-After"))
                yield response
            finally:
                response.abort()
        except (ConnectionError, TimeoutError, BadResponseError) as error:
            raise self._as_os_error(request, error) from error

    async def _send_observed(self, request: Request, waited: float) -> Stream:
        began, code = time.perf_counter(), 0
        try:
            response = await self._send_authenticated(request)
            code = response.status
            return response
        finally:
            if self._observe is not None:
                seconds, sent = time.perf_counter() - began, len(request.body or b"")
                self._observe(RequestDone(request.method, self._host, code, seconds, waited, sent))

    async def _send_authenticated(self, request: Request) -> Stream:
        identity = await self._credentials.current()
        response = await self._send(request, identity)
        if response.status != 401:
            return response
        renewed = await self._credentials.after_refusal(identity)
        if renewed == identity:
            return response
        response.abort()
        return await self._send(request, renewed)

    async def _send(self, request: Request, identity: Identity) -> Stream:
        context = None if self._tls is None else self._tls.get(identity.key_pair)
        if self._by_proxy is not None:
            return await self._by_proxy.send(request, identity.authorization, context)
        stream = ResponseStream(self._encoded(request, identity), request.timeout, self._streams)
        try:
            await stream.open(*self._address, context, self._server_name)
        except BaseException:
            stream.abort()
            raise
        return stream

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
        if isinstance(error, ConnectionResetError | BrokenPipeError):
            return BrokenConnection(f"{name}: the connection broke")
        return ConnectionError(f"{name}: {str(error) or type(error).__name__}")


def _headers(connection: Connection, agent: str) -> list[tuple[str, str]]:
    """The headers of every request. They ask for no compression: near the server it costs more time than it saves."""
    headers = [("Accept", APPLICATION_JSON), ("Accept-Encoding", "identity"), ("User-Agent", agent)]
    impersonate = connection.impersonate
    if impersonate.user:
        headers.append(("Impersonate-User", impersonate.user))
    if impersonate.uid:
        headers.append(("Impersonate-Uid", impersonate.uid))
    headers += [("Impersonate-Group", group) for group in impersonate.groups]
    for key, values in impersonate.extra.items():
        name = f"Impersonate-Extra-{quote(key.lower(), safe='!#$&*+-.^_`|~')}"
        headers += [(name, value) for value in values]
    return headers


def _delay_before_retry(method: str, error: ApiError | BrokenConnection, tries: int) -> float | None:
    """Seconds to wait before a retry, or None if the request must not be retried."""
    if isinstance(error, BrokenConnection):
        return 1.0 if method == "GET" and tries <= BROKEN_RETRIES else None
    not_carried_out = error.code in (429, 503) or (method == "GET" and error.code >= 500)
    return error.retry_after if not_carried_out and tries <= RETRIES else None
