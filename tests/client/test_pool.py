"""The connections of single requests, against a server that answers byte by byte as a test tells it to."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import pytest

from kubesched.api import objects as api
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.base.event_loop import run_on_fast_loop
from kubesched.client.connection import Connection
from kubesched.client.http import HttpClient
from kubesched.client.pool import BrokenConnection, ConnectionPool, Exchange
from kubesched.client.transport import RequestDone

OK = b"HTTP/1.1 201 Created\r\nContent-Length: 2\r\n\r\n{}"
POD = api.Pod(metadata=api.ObjectMeta(name="a", namespace="team", uid="u"))

Reply = Callable[[asyncio.StreamWriter], Awaitable[None]]


class Server:
    """Answers each request with the next reply. `heads` has the requests, `connections` counts connections."""

    def __init__(self, *replies: bytes | Reply) -> None:
        self.replies = list(replies)
        self.heads: list[str] = []
        self.connections = 0
        self.url = ""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode()
                length = head.lower().partition("content-length: ")[2].partition("\r\n")[0]
                await reader.readexactly(int(length or 0))
                self.heads.append(head)
                reply = self.replies.pop(0) if self.replies else OK
                if isinstance(reply, bytes):
                    writer.write(reply)
                else:
                    await reply(writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()


@asynccontextmanager
async def running(*replies: bytes | Reply) -> AsyncIterator[Server]:
    made = Server(*replies)
    listening = await asyncio.start_server(made.serve, "127.0.0.1", 0)
    made.url = f"http://127.0.0.1:{listening.sockets[0].getsockname()[1]}"
    try:
        yield made
    finally:
        listening.close()


def then_close(data: bytes) -> Reply:
    """Send this and close the connection."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        writer.write(data)
        writer.close()

    return reply


def slowly(data: bytes) -> Reply:
    """Send this byte by byte."""

    async def reply(writer: asyncio.StreamWriter) -> None:
        for number in range(len(data)):
            writer.write(data[number : number + 1])
            await asyncio.sleep(0)

    return reply


async def never(writer: asyncio.StreamWriter) -> None:
    await asyncio.sleep(60)


async def turns() -> None:
    """Let what one end of a connection sent reach the other, however late the timers are."""
    for _ in range(20):
        await asyncio.sleep(0.001)


def client_of(server: Server, **settings: Any) -> HttpClient:
    return HttpClient(Connection(server.url), qps=-1, **settings)


async def test_interim_responses_and_bytes_one_by_one() -> None:
    """A response that arrives slowly, after interim responses and in chunks, is read whole."""
    text = b'HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\n{"a"\r\n3\r\n:1}\r\n0\r\n\r\n'
    async with running(slowly(b"HTTP/1.1 100 Continue\r\n\r\n" + text)) as server, client_of(server) as client:
        assert await client.post("/x", {}) == {"a": 1}
        assert await client.post("/x", {}) == {}
    assert server.connections == 1


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (then_close(b""), "the connection broke"),
        (then_close(b"HTTP/1.1 201 Cre"), "the connection broke"),
        (then_close(b"HTTP/1.1 100 Continue\r\n\r\n"), "the connection broke"),
        (then_close(b"HTTP/1.1 201 Created\r\nContent-Length: 10\r\n\r\n{}"), "the response ended early"),
        (then_close(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n"), "the response ended early"),
    ],
)
async def test_a_torn_response_to_a_bind_is_unclear(reply: Reply, message: str) -> None:
    """A bind whose response breaks off is not sent again; the error says that the outcome is not known."""
    async with running(reply) as server, client_of(server) as client:
        with pytest.raises(BrokenConnection, match=message):
            await client.bind(POD, "n")
        assert len(server.heads) == 1
        await client.bind(POD, "n")
    assert server.connections == 2


async def test_a_response_that_is_not_http() -> None:
    """Garbage ends the request with an error, and its connection is not used again."""
    async with running(b"garbage\r\n\r\n") as server, client_of(server) as client:
        with pytest.raises(ConnectionError, match=r"POST .*/binding: the response is not valid"):
            await client.bind(POD, "n")
        await client.bind(POD, "n")
    assert (server.connections, len(server.heads)) == (2, 2)


async def test_a_connection_that_the_server_has_closed_is_not_used() -> None:
    """After `Connection: close`, and after the server has closed an idle connection, the next bind gets a new one."""
    closing = OK.replace(b"\r\n\r\n", b"\r\nConnection: close\r\n\r\n")
    async with running(closing, then_close(OK)) as server, client_of(server) as client:
        for _ in range(3):
            await client.bind(POD, "n")
            await turns()
    assert (server.connections, len(server.heads)) == (3, 3)


async def test_a_server_that_says_goodbye_on_an_idle_connection() -> None:
    """What a server sends unasked on an idle connection is never taken for the response to a later request."""
    writers: list[asyncio.StreamWriter] = []

    async def answer(writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        writer.write(OK)

    async with running(answer) as server, client_of(server) as client:
        await client.bind(POD, "n")
        writers[0].write(b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n")
        await turns()
        await client.bind(POD, "n")
    assert server.connections == 2


async def test_a_bind_that_races_with_the_end_of_an_idle_connection() -> None:
    """If the server closes a kept connection while a bind is on its way, the bind is unclear and not sent again."""
    async with running(OK, then_close(b"")) as server, client_of(server) as client:
        await client.bind(POD, "n")
        with pytest.raises(BrokenConnection):
            await client.bind(POD, "n")
        assert (server.connections, len(server.heads)) == (1, 2)


async def test_a_timeout_and_a_cancellation_give_their_connection_up() -> None:
    """A late response is never taken for that of the next request."""
    async with running(never, never) as server, client_of(server, timeout=1.0) as client:
        with pytest.raises(TimeoutError, match=r"POST .*: no answer within 1 s"):
            await client.bind(POD, "n")
        client._timeout = 120.0  # the rest is not about time
        task = asyncio.create_task(client.bind(POD, "n"))
        while len(server.heads) < 2:
            await asyncio.sleep(0.001)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        await client.bind(POD, "n")
    assert server.connections == 3


async def test_requests_beyond_the_limit_wait_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """No more connections are opened than allowed; a request that was cancelled while it waited is never sent."""
    monkeypatch.setattr("kubesched.client.transport.CONNECTIONS", 2)
    async with running() as server, client_of(server) as client:
        tasks = [asyncio.create_task(client.request("POST", f"/{number}", b"{}")) for number in range(20)]
        await asyncio.sleep(0)
        tasks[15].cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    paths = [head.split()[1] for head in server.heads]
    assert sorted(paths) == sorted(f"/{number}" for number in range(20) if number != 15)
    assert server.connections == 2


async def test_a_waiting_bind_is_not_sent_by_a_process_that_lost_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a request may be sent is checked when it gets a connection, not when it is made."""
    monkeypatch.setattr("kubesched.client.transport.CONNECTIONS", 1)
    leading = True

    async def lose(writer: asyncio.StreamWriter) -> None:
        nonlocal leading
        leading = False
        writer.write(OK)

    async with running(lose) as server, client_of(server, may_write=lambda: leading) as client:
        outcomes = await asyncio.gather(*(client.bind(POD, "n") for _ in range(2000)), return_exceptions=True)
        assert outcomes[0] is None
        for problem in outcomes[1:]:
            assert "not sent: this process is no longer the leader" in str(problem)
        await client.get("/x")
    assert [head.split()[0] for head in server.heads] == ["POST", "GET"]
    assert server.connections == 1


async def test_headers_cannot_be_smuggled_in() -> None:
    """A token or a path with a line break is refused before anything is sent."""
    async with running() as server:
        async with HttpClient(Connection(server.url, token="t\r\nX: y")) as client:
            with pytest.raises(ValueError, match="the header Authorization must not contain a line break"):
                await client.get("/x")
        async with client_of(server) as client:
            with pytest.raises(ValueError, match="not a path"):
                await client.get("/x HTTP/1.1\r\nX: y")
    assert server.heads == []


async def test_a_closed_client_sends_nothing_more_and_can_be_used_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Closing ends requests at once, and those that wait for a connection are not sent."""
    monkeypatch.setattr("kubesched.client.transport.CONNECTIONS", 2)
    async with running(never, never) as server, client_of(server) as client:
        tasks = [asyncio.create_task(client.bind(POD, "n")) for _ in range(5)]
        while len(server.heads) < 2:
            await asyncio.sleep(0.001)
        await client.close()
        for problem in await asyncio.gather(*tasks, return_exceptions=True):
            assert "the client was closed" in str(problem)
        assert len(server.heads) == 2
        await client.bind(POD, "n")


async def test_every_request_is_observed_once() -> None:
    """The observer gets one record per request, with code 0 if there was no response."""
    seen: list[RequestDone] = []
    async with running(then_close(b"")) as server, client_of(server, observe=seen.append) as client:
        with pytest.raises(BrokenConnection):
            await client.bind(POD, "n")
        await client.bind(POD, "n")
    assert [(done.verb, done.code) for done in seen] == [("POST", 0), ("POST", 201)]
    assert all(0 < done.seconds < 10 and done.host in server.url for done in seen)


@virtual_time
async def test_every_deadline_counts_when_places_change_hands(clock: VirtualClock) -> None:
    """A request that gets the place of one that timed out does not prolong the time of the others."""
    async with running(*[never] * 9) as server:
        place = urlsplit(server.url)
        pool = ConnectionPool(str(place.hostname), int(place.port or 0), limit=3)

        async def timed_out(number: int) -> float:
            await clock.sleep(number)
            with pytest.raises(TimeoutError):
                await pool.send(
                    Exchange(b"GET / HTTP/1.1\r\n\r\n", None, 10.0, False, asyncio.get_running_loop().create_future())
                )
            return clock.monotonic()

        began = clock.monotonic()
        ends = await asyncio.gather(*(timed_out(number) for number in range(6)))
        await pool.close()
    assert [round(end - began) for end in ends] == [10, 11, 12, 20, 21, 22]


async def test_a_server_that_closes_connections_at_once() -> None:
    """Connections that are closed during the TLS handshake fail their requests at once, and nothing waits for them."""
    listening = await asyncio.start_server(lambda _, writer: writer.close(), "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    async with HttpClient(Connection(f"https://127.0.0.1:{port}"), qps=-1) as client, asyncio.timeout(120):
        outcomes = await asyncio.gather(*(client.bind(POD, "n") for _ in range(100)), return_exceptions=True)
    listening.close()
    assert all(isinstance(each, ConnectionError) and "cannot connect" in str(each) for each in outcomes)


@pytest.mark.parametrize("run", [asyncio.run, run_on_fast_loop])
def test_a_request_that_is_given_up_at_any_moment(run: Callable[[Coroutine[Any, Any, None]], None]) -> None:
    """Whatever the request waits for, closing the pool afterwards does not wait for its connection."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as silent:
        run(_given_up_at_any_moment(silent.getsockname()[1]))


async def _given_up_at_any_moment(port: int) -> None:
    for steps in range(20):
        pool = ConnectionPool("127.0.0.1", port, limit=1)
        exchange = Exchange(b"GET / HTTP/1.1\r\n\r\n", None, 0, False, asyncio.get_running_loop().create_future())
        answer = pool.send(exchange)
        for _ in range(steps):
            await asyncio.sleep(0)
        answer.cancel()
        pool.give_up(exchange)
        await asyncio.wait_for(pool.close(), 10)
