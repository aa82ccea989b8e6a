"""Responses that are read while they arrive."""

from __future__ import annotations

import asyncio
import gc
import socket
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest

from kubesched.base.event_loop import run_on_fast_loop
from kubesched.client import streams
from kubesched.client.http1 import BadResponseError
from kubesched.client.pool import BrokenConnection, CannotConnectError
from kubesched.client.streams import ResponseStream

CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Name: value\r\n\r\n"


def chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def answering(*pieces: bytes, close: bool = True) -> AsyncIterator[int]:
    """The port of a server that sends these pieces to everybody, and then closes the connection."""

    served: list[asyncio.Task[None]] = []

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        served.append(task)
        with suppress(ConnectionError):
            await send(reader, writer)
        writer.close()
        with suppress(ConnectionError):
            await writer.wait_closed()

    async def send(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        for piece in pieces:
            writer.write(piece)
            await writer.drain()
        if not close:
            await reader.read()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with server:
        yield server.sockets[0].getsockname()[1]
        await asyncio.gather(*served)


@asynccontextmanager
async def opened(port: int, timeout: float = 0) -> AsyncIterator[ResponseStream]:
    known: set[ResponseStream] = set()
    stream = ResponseStream(b"GET / HTTP/1.1\r\nHost: test\r\n\r\n", timeout, known)
    try:
        await stream.open("127.0.0.1", port, None, "")
        yield stream
    finally:
        stream.abort()
        while known:
            await asyncio.sleep(0)


async def test_the_body_is_read_in_pieces() -> None:
    """The head is known first, and the body is complete, whatever the pieces are."""
    whole = CHUNKED + chunk(b"one\n") + chunk(b"two\nthree\n") + b"0\r\n\r\n"
    for size in (1, 7, len(whole)):
        async with answering(*(whole[at : at + size] for at in range(0, len(whole), size))) as port, opened(port) as it:
            assert (it.status, it.header("x-name"), it.header("y")) == (200, "value", None)
            assert await it.read() == b"one\ntwo\nthree\n"


async def test_a_reader_that_is_slow_stops_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more than a bounded number of bytes is read ahead, and nothing is lost."""
    monkeypatch.setattr(streams, "BUFFER", 1000)
    data = bytes(range(256)) * 4000
    async with answering(CHUNKED, chunk(data), b"0\r\n\r\n") as port, opened(port) as it:
        await asyncio.sleep(0.05)
        assert it._size < len(data)
        assert await it.read() == data


async def test_a_body_that_ends_with_the_connection() -> None:
    """A body without a length ends when the connection is closed."""
    async with answering(b"HTTP/1.1 200 OK\r\n\r\nfirst ", b"second") as port, opened(port) as it:
        assert await it.read() == b"first second"


async def test_a_body_that_breaks_off() -> None:
    """What has arrived is returned, then the error."""
    async with answering(CHUNKED + chunk(b"one\n") + b"99\r\ntwo") as port, opened(port) as it:
        chunks = it.chunks()
        found = b""
        while len(found) < 7:
            found += await anext(chunks)
        assert found == b"one\ntwo"
        with pytest.raises(BrokenConnection, match="ended early"):
            await anext(chunks)


async def broken_off(port: int) -> weakref.ref[ResponseStream]:
    """A stream that has ended with an error."""
    async with opened(port) as it:
        with suppress(BrokenConnection):
            await it.read()
    await asyncio.sleep(0)
    return weakref.ref(it)


async def test_a_stream_that_broke_off_leaves_nothing_behind() -> None:
    """Its connection has large buffers, and a scheduler collects garbage rarely."""
    gc.disable()
    try:
        async with answering(CHUNKED + chunk(b"one\n") + b"99\r\ntwo") as port:
            found = await broken_off(port)
        assert found() is None
    finally:
        gc.enable()


async def test_a_server_that_says_nothing() -> None:
    """The timeout is for the whole response; before the head, `open` raises it, later the reader."""
    async with answering(close=False) as port:
        with pytest.raises(TimeoutError):
            async with opened(port, 0.05):
                pass
    async with answering(CHUNKED, close=False) as port, opened(port, 600) as it:
        assert it._timer is not None
        it._timer._run()
        with pytest.raises(TimeoutError):
            await it.read()


async def test_what_is_not_a_response() -> None:
    """Something else than HTTP, a connection that breaks at once, and no server at all are three errors."""
    async with answering(b"SSH-2.0-server\r\n\r\n") as port:
        with pytest.raises(BadResponseError):
            async with opened(port):
                pass
    async with answering() as port:
        with pytest.raises(BrokenConnection, match="the connection broke"):
            async with opened(port):
                pass
    with pytest.raises(CannotConnectError, match="Connection refused"):
        async with opened(port):
            pass


@pytest.mark.parametrize("run", [asyncio.run, run_on_fast_loop])
def test_a_cancellation_at_any_moment(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    """Whatever a stream waits for when it is cancelled, it ends, and nobody waits for its connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        run(_cancelled_at_any_moment(silent.getsockname()[1]))


async def _cancelled_at_any_moment(port: int) -> None:
    for steps in range(20):
        known: set[ResponseStream] = set()
        stream = ResponseStream(b"GET / HTTP/1.1\r\n\r\n", 0, known)
        opening = asyncio.create_task(stream.open("127.0.0.1", port, None, ""))
        for _ in range(steps):
            await asyncio.sleep(0)
        opening.cancel()
        await asyncio.wait([opening], timeout=10)
        assert opening.cancelled()
        for each in tuple(known):
            await asyncio.wait_for(each.close(), 10)
        assert not known
        stream.abort()
