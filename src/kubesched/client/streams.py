"""Responses that are read while they arrive, for watches. Each has a connection of its own."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncGenerator
from typing import cast

from kubesched.client.http1 import BadResponseError, Response, ResponseReader
from kubesched.client.pool import BrokenConnection, cannot_connect, keep_alive_of

CONNECT_SECONDS = 30.0
BUFFER = 1 << 20
"""No more than about this many bytes are read ahead of the caller."""


class ResponseStream(asyncio.Protocol):
    """A connection that is open for one response."""

    def __init__(self, request: bytes, timeout: float, open_streams: set[ResponseStream]) -> None:
        """The timeout, if it is not 0, is for the whole response. The stream is in the set while it is connected."""
        self.status = 0
        self.head = b""
        self._request = request
        self._timeout = timeout
        self._open_streams = open_streams
        self._timer: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._reader = ResponseReader()
        self._pieces: list[bytes] = []
        self._size = 0
        self._paused = False
        self._problem: Exception | None = None
        self._ended = False
        self._changed = asyncio.Event()
        self._closed = asyncio.Event()

    async def open(self, host: str, port: int, context: ssl.SSLContext | None, server_name: str) -> None:
        """Connect, send the request and wait for the head of the response. Raises what a `ConnectionPool` raises."""
        loop = asyncio.get_running_loop()
        if self._timeout:
            self._timer = loop.call_later(self._timeout, self._fail, TimeoutError())
        name = None if context is None else server_name
        try:
            # `wait_for` of Python 3.11 ignores a cancellation that comes as the connection opens.
            async with asyncio.timeout(CONNECT_SECONDS):
                await loop.create_connection(lambda: self, host, port, ssl=context, server_hostname=name)
        except BaseException as problem:
            self._forget()  # uvloop does not report the loss of a connection if its opening is cancelled
            if not isinstance(problem, Exception) or (isinstance(problem, TimeoutError) and problem.errno is None):
                raise  # cancelled, or our own timeout; the system's has a number
            raise cannot_connect(problem) from None
        while not self.status:
            if self._problem is not None:
                raise self._take_problem()
            await self._wait()

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """The body, in pieces of any size. Raises an error after everything that arrived before it."""
        while True:
            if self._pieces:
                data = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
                self._pieces, self._size = [], 0
                self._resume()
                yield data
            elif self._problem is not None:
                raise self._take_problem()
            elif self._ended:
                return
            else:
                await self._wait()

    async def read(self) -> bytes:
        """The whole body."""
        return b"".join([piece async for piece in self.chunks()])

    def header(self, name: str) -> str | None:
        """The first header with a name."""
        return Response(self.status, self.head, b"").header(name)

    def abort(self) -> None:
        """Close the connection, whatever is still to come."""
        self._ended = True
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Close the connection and wait until it is closed."""
        self.abort()
        await self._closed.wait()

    # --- the connection -----------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._open_streams.add(self)
        keep_alive_of(transport)
        self._transport.write(self._request)

    def data_received(self, data: bytes) -> None:
        if self._ended or self._problem is not None:
            return
        try:
            whole = self._reader.feed(data)
        except BadResponseError as problem:
            self._fail(problem)
            return
        if whole is not None:
            self._end(whole)
        elif self._reader.in_body:
            self.status, self.head = self._reader.status, self._reader.head
            self._put(self._reader.take())
        self._changed.set()

    def connection_lost(self, problem: Exception | None) -> None:
        whole = self._reader.closed() if problem is None and not self._ended else None
        if whole is not None:
            self._end(whole)
        elif not self._ended:
            early = "the response ended early" if self._reader.in_body else "the connection broke"
            self._fail(BrokenConnection(early))
        self._changed.set()
        self._forget()

    def _forget(self) -> None:
        """The connection is closed. Its buffers, a quarter of a megabyte, must not wait for a garbage collection."""
        self._closed.set()
        self._open_streams.discard(self)
        self._transport = None

    def _take_problem(self) -> Exception:
        """The error to raise. To keep it would keep the stream too: frames of its traceback refer to the stream."""
        problem, self._problem, self._ended = self._problem, None, True
        assert problem is not None
        return problem

    def _put(self, data: bytes) -> None:
        if not data:
            return
        self._pieces.append(data)
        self._size += len(data)
        if self._size > BUFFER and not self._paused and self._transport is not None:
            self._paused = True
            self._transport.pause_reading()

    def _resume(self) -> None:
        if self._paused and self._transport is not None:
            self._paused = False
            self._transport.resume_reading()

    def _end(self, whole: Response) -> None:
        self.status, self.head = whole.status, whole.head
        self._put(whole.body)
        self.abort()

    def _fail(self, problem: Exception) -> None:
        if self._problem is None:
            self._problem = problem
        if self._timer is not None:
            self._timer.cancel()
        if self._transport is not None:
            self._transport.abort()
        self._changed.set()

    async def _wait(self) -> None:
        self._changed.clear()
        await self._changed.wait()
