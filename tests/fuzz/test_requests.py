"""Requests that want too much, or whose end is not clear, at the embedded API server and the secure port."""

from __future__ import annotations

import gzip
import socket
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress

import pytest
from tests.fuzz.server_process import MAPS, STATUS, Servers
from tests.fuzz.servers import WATCHES

HUGE = 100 << 20


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers, which must be well at the end."""
    with Servers(tmp_path_factory.mktemp("servers") / "log") as made:
        yield made
        made.healthy()


SMUGGLED = b'{"metadata":{"name":"smuggled"}}'
AMBIGUOUS = {
    "length and chunks": ("Content-Length: 5", "Transfer-Encoding: chunked"),
    "two lengths": ("Content-Length: 5", "Content-Length: 0"),
    "a list of lengths": ("Content-Length: 0, 5",),
    "an unknown coding": ("Transfer-Encoding: chunked, identity",),
    "a coding that looks like chunked": ("Transfer-Encoding: xchunked",),
    "a signed length": ("Content-Length: +0",),
    "a space before the colon": ("Content-Length : 5",),
}


@pytest.mark.parametrize("headers", AMBIGUOUS.values(), ids=AMBIGUOUS)
def test_no_request_is_smuggled(servers: Servers, headers: tuple[str, ...]) -> None:
    """A request whose end is not clear is refused, and what follows it on the connection is not a request."""
    first = servers.request("POST", f"{MAPS}?dryRun=All", b"", *headers)
    received = b""
    with closing(servers.connect("api")) as connection:
        connection.sendall(first + b"0\r\n\r\n" + servers.request("POST", MAPS, SMUGGLED))
        while piece := connection.recv(65536):
            received += piece
    assert STATUS.findall(received) == [b"400"]
    assert STATUS.findall(servers.status_of("api", servers.request("GET", f"{MAPS}/smuggled"))) == [b"404"]


def test_pipelined_requests_are_answered_in_order(servers: Servers) -> None:
    """Several requests at once get their responses one after the other."""
    paths = ("/version", "/no-such-path", f"{MAPS}/none", "/healthz")
    with closing(servers.connect("api")) as connection:
        connection.sendall(b"".join(servers.request("GET", path) for path in paths))
        received = b""
        while len(STATUS.findall(received)) < len(paths) or not received.endswith(b"ok"):
            received += connection.recv(65536)
    assert STATUS.findall(received) == [b"200", b"404", b"404", b"200"]


def sent_in_pieces(connection: socket.socket, head: bytes, piece: bytes, size: int) -> bytes:
    """Send a large body until it is refused; returns the start of the response."""
    with suppress(OSError):
        connection.sendall(head)
        for _ in range(size // len(piece)):
            connection.sendall(piece)
    with suppress(OSError):
        return connection.recv(65536)
    return b""


@pytest.mark.parametrize("port", ["api", "secure"])
@pytest.mark.parametrize("coding", ["length", "chunks"])
def test_a_body_of_100_megabytes(servers: Servers, port: str, coding: str) -> None:
    """It is refused, and little of it is in memory at any time."""
    piece = b"x" * (1 << 20)
    chunk = b"%x\r\n%b\r\n" % (len(piece), piece)
    header = f"Content-Length: {HUGE}" if coding == "length" else "Transfer-Encoding: chunked"
    method, path = ("POST", MAPS) if port == "api" else ("PUT", "/debug/flags/v")
    head = f"{method} {path} HTTP/1.1\r\nHost: x\r\n{header}\r\n"
    head += f"Authorization: Bearer {servers.token}\r\n" if port == "api" else ""
    with closing(servers.connect(port)) as connection:
        body = piece if coding == "length" else chunk
        received = sent_in_pieces(connection, f"{head}\r\n".encode(), body, HUGE)
    assert STATUS.findall(received) in ([b"413"], [])
    servers.healthy()


def test_a_small_body_that_unpacks_to_100_megabytes(servers: Servers) -> None:
    """It is refused as it is, and not unpacked."""
    body = gzip.compress(b"x" * HUGE)
    request = servers.request("POST", MAPS, body, "Content-Encoding: gzip")
    assert STATUS.findall(servers.status_of("api", request)) == [b"400"]
    servers.healthy()


def test_more_watches_than_a_client_may_have(servers: Servers) -> None:
    """They are refused with words, those that are open go on, and memory stays small."""
    opened = [servers.connect("api") for _ in range(WATCHES + 100)]
    try:
        for each in opened:
            each.sendall(servers.request("GET", f"{MAPS}?watch=1"))
        codes = Counter(STATUS.findall(each.recv(13))[0] for each in opened)
        assert codes == {b"200": WATCHES, b"429": 100}
        with closing(servers.connect("api")) as another:
            another.sendall(servers.request("GET", f"{MAPS}?watch=1", b"", "Connection: close"))
            said = another.makefile("rb").read()
        assert b"has 200 watches open, the most that this server allows one client" in said
        assert STATUS.findall(servers.status_of("api", servers.request("GET", "/version"))) == [b"200"]
    finally:
        for each in opened:
            each.close()
    servers.healthy()
