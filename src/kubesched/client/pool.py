"""Connections for single requests over HTTP/1.1, each with one request at a time.

Requests beyond the limit wait in order, and a connection that has its response takes the next one at once. Nothing is
sent twice: whether to try again is up to the caller.
"""

from __future__ import annotations

import asyncio
import errno
import math
import os
import socket
import ssl
import time
from collections import deque
from collections.abc import Callable
from typing import cast

import msgspec

from kubesched.client.http1 import BadResponseError, Response, ResponseReader

KEEP_ALIVE = 60.0
"""Less than the 90 s after which an API server closes an idle connection, so that no bind is sent on a closing one."""

HANDSHAKES = 8
"""Connections that are opened at a time. A TLS handshake takes a millisecond of CPU time, and a burst of them must not
block the event loop."""

MayWrite = Callable[[], bool]
"""Whether requests that change something may be sent now."""


class BrokenConnection(ConnectionResetError):  # noqa: N818 - named after its base, which has no suffix either
    """A connection broke before the end of the response. Whether the request took effect is unknown."""


class CannotConnectError(ConnectionError):
    """No connection could be opened, so nothing was sent."""


class Exchange(msgspec.Struct, eq=False):
    """A request, and its response when it arrives."""

    data: bytes
    """The whole request."""
    context: ssl.SSLContext | None
    timeout: float
    """Seconds from when the request gets a connection; 0 for no limit."""
    is_write: bool
    answer: asyncio.Future[Response]
    began: float = 0.0
    """When it got a connection, in seconds of `time.perf_counter`."""
    deadline: float = 0.0
    connection: _Connection | None = None
    opening: asyncio.Task[None] | None = None


class ConnectionPool:
    """Sends requests to one server."""

    def __init__(
        self, host: str, port: int, *, limit: int, server_name: str = "", may_write: MayWrite | None = None
    ) -> None:
        self._host = host
        self._port = port
        self._limit = limit
        self._server_name = server_name or host
        self._may_write = may_write
        self._idle: list[_Connection] = []
        self._open: set[_Connection] = set()
        self._waiting: deque[Exchange] = deque()
        self._active: set[Exchange] = set()
        self._filling = False
        self._timer: asyncio.TimerHandle | None = None
        self._expires = math.inf
        """When the timer is due, in seconds of the event loop."""
        self._handshakes = asyncio.Semaphore(HANDSHAKES)

    def send(self, exchange: Exchange) -> asyncio.Future[Response]:
        """Send a request. The result is the response, whatever its status; a caller that is cancelled while it waits
        has to `give_up` the request.

        The exceptions are `CannotConnectError` and `ConnectionAbortedError` if the request was not sent,
        `BrokenConnection`, `BadResponseError` and `TimeoutError` if it may have been.
        """
        if len(self._active) < self._limit:
            self._start(exchange)
        else:
            self._waiting.append(exchange)
        return exchange.answer

    def give_up(self, exchange: Exchange) -> None:
        """End a request whose response is no longer awaited."""
        self._end(exchange)

    async def close(self) -> None:
        """Close every connection. Requests in progress fail."""
        waiting, self._waiting = self._waiting, deque()
        for exchange in (*waiting, *self._active):
            self._fail(exchange, CannotConnectError("the client was closed"))
        for connection in tuple(self._open):
            connection.abort()
        while self._open:
            await asyncio.sleep(0)

    # --- requests -----------------------------------------------------------------------------------------------------

    def _start(self, exchange: Exchange) -> None:
        self._active.add(exchange)
        exchange.began = time.perf_counter()
        if exchange.timeout:
            # One timer, for the earliest deadline, serves all requests.
            exchange.deadline = asyncio.get_running_loop().time() + exchange.timeout
            if exchange.deadline < self._expires:
                self._plan_expiry(exchange.deadline)
        connection = self._reusable(exchange.context)
        if connection is not None:
            self._send(connection, exchange)
        else:
            exchange.opening = asyncio.get_running_loop().create_task(self._connect(exchange))

    def _send(self, connection: _Connection, exchange: Exchange) -> None:
        if exchange.is_write and self._may_write is not None and not self._may_write():
            # Checked at the last moment: a process may have been frozen, and another one may lead now.
            self._idle.append(connection)
            self._fail(exchange, ConnectionAbortedError("not sent: this process is no longer the leader"))
            return
        connection.send(exchange)

    def answered(self, connection: _Connection, exchange: Exchange, response: Response) -> None:
        """A response is whole. If its connection can be reused, it takes the next request."""
        if connection.is_reusable():
            connection.idle_since = time.monotonic()
            self._idle.append(connection)
        else:
            connection.close()
        if not exchange.answer.done():
            exchange.answer.set_result(response)
        self._active.discard(exchange)
        if self._waiting and not self._filling:
            self._fill()

    def broken(self, exchange: Exchange, problem: Exception) -> None:
        """The connection of a request has failed."""
        self._fail(exchange, problem)

    def _fail(self, exchange: Exchange, problem: Exception) -> None:
        if not exchange.answer.done():
            exchange.answer.set_exception(problem)
        self._end(exchange)

    def _end(self, exchange: Exchange) -> None:
        """A request has ended, or its sender has given up. Its place goes to the next one."""
        if exchange.opening is not None:
            exchange.opening.cancel()
        if exchange.connection is not None:
            # There was no whole response, so that the connection is of no more use.
            exchange.connection.abort()
        self._active.discard(exchange)
        if self._waiting and not self._filling:
            self._fill()

    def _fill(self) -> None:
        """Give free places to the requests that wait. One that fails at once ends inside of this loop, not in another
        one: thousands may wait when a process loses its lease."""
        self._filling = True
        while self._waiting and len(self._active) < self._limit:
            following = self._waiting.popleft()
            if not following.answer.done():
                self._start(following)
        self._filling = False

    # --- timeouts -----------------------------------------------------------------------------------------------------

    def _expire(self) -> None:
        self._expires, now = math.inf, asyncio.get_running_loop().time()
        for exchange in [each for each in self._active if each.timeout and each.deadline <= now]:
            self._fail(exchange, TimeoutError())
        left = min((each.deadline for each in self._active if each.timeout), default=math.inf)
        if left < self._expires:
            self._plan_expiry(left)

    def _plan_expiry(self, deadline: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._expires = deadline
        self._timer = asyncio.get_running_loop().call_at(deadline, self._expire)

    # --- connections --------------------------------------------------------------------------------------------------

    def _reusable(self, context: ssl.SSLContext | None) -> _Connection | None:
        """An idle connection that is not too old and that was opened with the same certificates."""
        while self._idle:
            connection = self._idle.pop()
            is_fresh = time.monotonic() - connection.idle_since < KEEP_ALIVE
            if is_fresh and connection.context is context and connection.is_reusable():
                return connection
            connection.close()
        return None

    async def _connect(self, exchange: Exchange) -> None:
        connection, context = _Connection(self, exchange.context), exchange.context
        try:
            async with self._handshakes:
                await asyncio.get_running_loop().create_connection(
                    lambda: connection,
                    self._host,
                    self._port,
                    ssl=context,
                    server_hostname=None if context is None else self._server_name,
                )
            if connection.is_lost:
                raise ConnectionResetError(errno.ECONNRESET, "Connection reset by peer")
        except asyncio.CancelledError:
            self.lost(connection)  # uvloop does not report it
            raise
        except Exception as problem:
            exchange.opening = None
            self._fail(exchange, cannot_connect(problem))
        else:
            exchange.opening = None
            self._send(connection, exchange)

    def opened(self, connection: _Connection) -> None:
        """A connection is open."""
        self._open.add(connection)

    def lost(self, connection: _Connection) -> None:
        """A connection is closed."""
        self._open.discard(connection)
        if connection in self._idle:
            self._idle.remove(connection)


class _Connection(asyncio.Protocol):
    """One connection."""

    def __init__(self, pool: ConnectionPool, context: ssl.SSLContext | None) -> None:
        self.context = context
        self.idle_since = time.monotonic()
        self.transport: asyncio.WriteTransport | None = None
        self.is_lost = False
        self._pool = pool
        self._reader = ResponseReader()
        self._exchange: Exchange | None = None

    def is_reusable(self) -> bool:
        """Whether another request can be sent."""
        transport = self.transport
        return self._reader.reusable and transport is not None and not transport.is_closing()

    def send(self, exchange: Exchange) -> None:
        """Send a request. The pool is notified of its end."""
        assert self.transport is not None
        self._exchange, exchange.connection = exchange, self
        self.transport.write(exchange.data)

    def close(self) -> None:
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        self._exchange = None
        if self.transport is not None:
            self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.WriteTransport, transport)
        keep_alive_of(transport)
        self._pool.opened(self)

    def data_received(self, data: bytes) -> None:
        exchange = self._exchange
        if exchange is None:
            self.abort()  # nobody has asked for anything: the server is about to close it
            return
        try:
            response = self._reader.feed(data)
        except BadResponseError as problem:
            self._pool.broken(exchange, problem)
            return
        if response is not None:
            self._exchange = exchange.connection = None
            self._pool.answered(self, exchange, response)

    def connection_lost(self, problem: Exception | None) -> None:
        exchange, self.is_lost = self._exchange, True
        if exchange is not None:
            response = self._reader.closed() if problem is None else None
            if response is not None:
                self._exchange = exchange.connection = None
                self._pool.answered(self, exchange, response)
            else:
                message = "the response ended early" if self._reader.in_body else "the connection broke"
                self._pool.broken(exchange, BrokenConnection(message))
        self._exchange = None
        self.transport = None  # its buffers, a quarter of a megabyte, must not wait for a garbage collection
        self._pool.lost(self)


def cannot_connect(problem: Exception) -> CannotConnectError:
    """The error to raise when no connection could be opened, with its reason."""
    if isinstance(problem, ssl.SSLCertVerificationError):
        return CannotConnectError(f"{problem}; check the certificate authority and the address")
    reason = problem.strerror if isinstance(problem, OSError) else ""
    if reason and isinstance(problem, ConnectionError) and problem.errno:
        reason = os.strerror(problem.errno)  # event loops have words of their own
    return CannotConnectError(f"cannot connect: {reason or problem or type(problem).__name__}")


def keep_alive_of(transport: asyncio.BaseTransport) -> None:
    """Set the options of a transport's socket. Not every event loop lets its sockets be changed directly."""
    found = transport.get_extra_info("socket")
    if found is not None:
        with socket.socket(fileno=os.dup(found.fileno())) as same:
            keep_alive(same)


def keep_alive(made: socket.socket) -> None:
    """Detect within a minute that the other end is gone, as upstream does."""
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3), ("TCP_USER_TIMEOUT", 60_000)):
        if hasattr(socket, name):
            made.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
