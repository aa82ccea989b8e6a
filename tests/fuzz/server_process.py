"""The process of `tests.fuzz.servers`, and what a client does with it."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from contextlib import closing, suppress
from pathlib import Path
from typing import Self

from tests.daemon.serving.support import insecure

STATUS = re.compile(rb"HTTP/1\.[01] (\d{3}) ")
MAPS = "/api/v1/namespaces/default/configmaps"
MOST_GROWTH = 64 << 20
"""Bytes that the servers may take for anything that one client sends."""
SECONDS = 60.0


class Servers:
    """The two servers, in a process of their own, as a context."""

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

    def __enter__(self) -> Self:
        try:
            self._started()
        except BaseException:
            self._process.kill()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            assert self._process.wait(SECONDS) == 0, self.log.read_text()
        finally:
            self._process.kill()
            self._process.stdout.close()

    def _started(self) -> None:
        """Wait until they serve."""
        started = json.loads(self._line() or "{}")
        assert started, self.log.read_text()
        self.token = started.pop("token")
        self.ports = started
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
        log = self.log.read_text()
        assert "Traceback" not in log, log[log.index("Traceback") :]
        assert self.memory() - self._first < MOST_GROWTH

    def status_of(self, port: str, data: bytes) -> bytes:
        """The first line of the response to a complete request."""
        with closing(self.connect(port)) as connection, connection.makefile("rb") as file:
            connection.sendall(data)
            return file.readline()
