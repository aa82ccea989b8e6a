"""Bytes on the sockets of the embedded API server and the secure port: never an internal error, never much memory."""

from __future__ import annotations

import gzip
import json
import re
import socket
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.serving.support import insecure
from tests.fuzz.damage import cut_up, kept, quickly
from tests.fuzz.servers import WATCHES

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
MAPS = "/api/v1/namespaces/default/configmaps"
HUGE = 100 << 20
MOST_GROWTH = 64 << 20
"""Bytes that the servers may take for anything that one client sends."""
SECONDS = 60.0


class Servers:
    """The two servers, in a process of their own."""

    def __init__(self, log: Path) -> None:
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.fuzz.servers"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        self.log = log
        self.ports: dict[str, int] = {}
        self.token = ""

    def started(self) -> None:
        """Wait until they serve."""
        told = json.loads(self._line() or "{}")
        assert told, self.log.read_text()
        self.token = told.pop("token")
        self.ports = told
        self.exchange("api", self.request("GET", "/version"))
        self._first = self.memory()

    def _line(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline()

    def memory(self) -> int:
        """The most bytes that the process has used so far."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return int(self._line())

    def stop(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(SECONDS) == 0, self.log.read_text()
        finally:
            self._process.kill()
            self._process.stdout.close()

    def request(self, method: str, path: str, body: bytes = b"", *headers: str) -> bytes:
        """A request of the administrator."""
        lines = [f"{method} {path} HTTP/1.1", "Host: x", f"Authorization: Bearer {self.token}", *headers]
        lines += [f"Content-Length: {len(body)}"] if body else []
        return "\r\n".join([*lines, "", ""]).encode() + body

    def connect(self, port: str) -> socket.socket:
        """A connection to one of them."""
        made = socket.create_connection(("127.0.0.1", self.ports[port]), timeout=SECONDS)
        return made if port == "api" else insecure().wrap_socket(made)

    def exchange(self, port: str, data: bytes, patience: float = SECONDS) -> bytes:
        """What comes back for these bytes: all until the end, or until nothing has come for a while."""
        received = b""
        with closing(self.connect(port)) as connection:
            connection.settimeout(patience)
            with suppress(OSError):
                connection.sendall(data)
                if port == "api":
                    connection.shutdown(socket.SHUT_WR)
                while piece := connection.recv(65536):
                    received += piece
                    if port != "api" and b"\r\n\r\n" in received:
                        break
        return received

    def healthy(self) -> None:
        """Both answer, nothing was raised inside, and little memory was used."""
        assert STATUS.findall(self.status_of("api", self.request("GET", MAPS))) == [b"200"]
        assert STATUS.findall(self.status_of("secure", b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")) == [b"200"]
        assert "Traceback" not in self.log.read_text()
        assert self.memory() - self._first < MOST_GROWTH

    def status_of(self, port: str, data: bytes) -> bytes:
        """The first line of the response to a complete request."""
        with closing(self.connect(port)) as connection, connection.makefile("rb") as file:
            connection.sendall(data)
            return file.readline()


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Servers]:
    """The servers, which must be well at the end."""
    made = Servers(tmp_path_factory.mktemp("servers") / "log")
    try:
        made.started()
        yield made
        made.healthy()
    finally:
        made.stop()


@pytest.mark.parametrize("port", ["api", "secure"])
def test_kept_requests(servers: Servers, port: str) -> None:
    """Every kept request is answered with no internal error, or its connection ends."""
    for data in kept("requests"):
        received = servers.exchange(port, data.replace(b"{TOKEN}", servers.token.encode()), patience=0.3)
        assert [code for code in STATUS.findall(received) if code >= b"500"] == [], (data, received)
    servers.healthy()


@quickly
@given(st.lists(cut_up("requests"), min_size=1, max_size=3).map(b"".join))
def test_damaged_requests_to_the_api_server(servers: Servers, data: bytes) -> None:
    """No bytes lead to an internal error."""
    received = servers.exchange("api", data.replace(b"{TOKEN}", servers.token.encode()))
    assert [code for code in STATUS.findall(received) if code >= b"500"] == []


@quickly
@given(cut_up("requests"))
def test_damaged_requests_to_the_secure_port(servers: Servers, data: bytes) -> None:
    """As at the API server, after TLS."""
    received = servers.exchange("secure", data, patience=0.05)
    assert [code for code in STATUS.findall(received) if code >= b"500"] == []


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
    """It is refused when it has become too large, not when it is all there."""
    body = gzip.compress(b"x" * HUGE)
    request = servers.request("POST", MAPS, body, "Content-Encoding: gzip")
    assert STATUS.findall(servers.status_of("api", request)) in ([b"413"], [b"400"])
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
