"""Reading HTTP/1.1 responses: one at a time, from pieces of any size.

An API server's responses are small and come by the thousand, so that a general parser would take most of the time of
a request. This one looks only for what says where the response ends. What it does not understand it refuses.
"""

from __future__ import annotations

import re
from enum import Enum

import msgspec

MAX_LINES = 64 * 1024
"""The size that the head, a line between chunks and the trailers may have, in bytes."""

_ORDINARY = re.compile(
    rb"(?-i:HTTP/1\.1) (2\d\d|[45]\d\d)(?: .*)?"
    rb"(?:\r\n(?!content-length:|transfer-encoding:|connection:|[ \t\r]).*)*"
    rb"\r\ncontent-length:[ \t]*(\d{1,9})[ \t]*"
    rb"(?:\r\n(?!content-length:|transfer-encoding:|connection:|[ \t\r]).*)*\r\n\r\n",
    re.IGNORECASE,
)
"""The head of a response with one length, and nothing else that says where it ends. Nearly all are like that. A
dot takes a fifth of the time of a set of characters."""
_WHOLE_CHUNK_SIZE = re.compile(rb"([0-9a-fA-F]{1,15})\r\n")
_STATUS_LINE = re.compile(rb"HTTP/1\.([01]) (\d{3})(?: [^\r\n]*)?")
_LENGTH = re.compile(rb"\d{1,18}")
_CHUNK_SIZE = re.compile(rb"([0-9a-f]{1,15})[ \t]*(?:;.*)?", re.IGNORECASE | re.DOTALL)


class BadResponseError(ValueError):
    """The other end does not speak HTTP/1.1 as this reader understands it."""


class Response(msgspec.Struct, frozen=True, gc=False):
    """A whole response."""

    status: int
    head: bytes
    """The status line and the headers."""
    body: bytes

    def header(self, name: str) -> str | None:
        """The first header with a name."""
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b":")
            if key.lower() == name.lower().encode():
                return value.strip().decode("latin-1")
        return None


class _Part(Enum):
    """What comes next."""

    HEAD = "the head"
    LENGTH = "a body of known length"
    UNTIL_CLOSED = "a body that ends with the connection"
    SIZE = "the size of a chunk"
    CHUNK = "the rest of a chunk"
    CHUNK_END = "the end of a chunk's line"
    TRAILER = "a trailer"


# Members of an enumeration are slow to look up, and each part is asked for by the thousand.
HEAD, LENGTH, UNTIL_CLOSED, SIZE, CHUNK, CHUNK_END, TRAILER = _Part


class ResponseReader:
    """Reads the responses of one connection. Each request expects one response, apart from interim ones."""

    def __init__(self) -> None:
        self.begun = False
        """Whether any byte of the current response has arrived."""
        self.in_body = False
        """Whether its head has arrived."""
        self.reusable = True
        """Whether another request may follow the response on the same connection."""
        self._next = HEAD
        self._rest = b""
        self.head = b""
        self.status = 0
        self._left = 0
        self._trailers = 0
        self._pieces: list[bytes] = []

    def feed(self, data: bytes) -> Response | None:
        """Take what has arrived. Returns the response once it is whole."""
        if self._next is HEAD and not self._rest:
            whole = _ORDINARY.match(data)
            if whole is not None and len(data) - whole.end() == int(whole[2]) and whole[1] != b"204":
                end = whole.end()
                return Response(int(whole[1]), data[: end - 4], data[end:])
        self.begun = True
        if self._rest:
            data, self._rest = self._rest + data, b""
        while self._next is HEAD:
            head, found, data = data.partition(b"\r\n\r\n")
            if not found:
                self._keep(head)
                return None
            self._begin(head)
        if self._next is LENGTH:
            return self._feed_length(data)
        if self._next is UNTIL_CLOSED:
            self._pieces.append(data)
            return None
        return self._feed_chunks(data)

    def closed(self) -> Response | None:
        """The connection was closed. Returns the response if that was its end."""
        return self._done() if self._next is UNTIL_CLOSED else None

    def take(self) -> bytes:
        """What has arrived of the body since the last call. The response will only have the rest."""
        pieces, self._pieces = self._pieces, []
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _keep(self, rest: bytes) -> None:
        if len(rest) > MAX_LINES:
            raise BadResponseError(f"{self._next.value} is longer than {MAX_LINES} bytes")
        self._rest = rest

    # --- the head -----------------------------------------------------------------------------------------------------

    def _begin(self, head: bytes) -> None:
        first = _STATUS_LINE.match(head)
        if first is None or head[first.end() : first.end() + 2] not in (b"", b"\r\n"):
            raise BadResponseError("it does not begin with a status line of HTTP/1.1")
        status = int(first[2])
        if status < 200:
            if status == 101:
                raise BadResponseError("it changes the protocol")
            return  # an interim response
        lower = head.lower()
        if b"\r\n " in lower or b"\r\n\t" in lower:
            raise BadResponseError("a header is continued on a second line")
        self.head, self.status, self.in_body = head, status, True
        connection = _value(lower, b"\r\nconnection:") or (b"close" if first[1] == b"0" else b"")
        if b"close" in connection:
            self.reusable = False
        self._next = self._body_of(status, lower)

    def _body_of(self, status: int, lower: bytes) -> _Part:
        coding, length = _value(lower, b"\r\ntransfer-encoding:"), _value(lower, b"\r\ncontent-length:")
        if status in (204, 304):
            self._left = 0
            return LENGTH
        if coding is not None:
            if coding != b"chunked" or length is not None:
                raise BadResponseError("its length is not clear")
            return SIZE
        if length is None:
            self.reusable = False
            return UNTIL_CLOSED
        if _LENGTH.fullmatch(length) is None:
            raise BadResponseError("its Content-Length is not a number")
        self._left = int(length)
        return LENGTH

    # --- the body -----------------------------------------------------------------------------------------------------

    def _feed_length(self, data: bytes) -> Response | None:
        size = len(data)
        if size < self._left:
            self._left -= size
            self._pieces.append(data)
            return None
        if size > self._left:
            self.reusable = False  # nobody has asked for more
            data = data[: self._left]
        self._pieces.append(data)
        return self._done()

    def _feed_chunks(self, data: bytes) -> Response | None:
        at = self._take_whole_chunks(data) if self._next is SIZE else 0
        while True:
            if self._next is CHUNK:
                piece = data[at : at + self._left]
                self._pieces.append(piece)
                at += len(piece)
                self._left -= len(piece)
                if self._left:
                    return None
                self._next = CHUNK_END
            end = data.find(b"\r\n", at)
            if end < 0:
                self._keep(data[at:])
                return None
            line, at = data[at:end], end + 2
            if self._next is TRAILER and not line:
                self.reusable = self.reusable and at == len(data)
                return self._done()
            self._take_line(line)

    def _take_whole_chunks(self, data: bytes) -> int:
        """Take the chunks at the beginning that have arrived whole, as most do; returns where the rest begins."""
        at = 0
        while (size := _WHOLE_CHUNK_SIZE.match(data, at)) is not None:
            start = size.end()
            end = start + int(size[1], 16)
            if end == start or data[end : end + 2] != b"\r\n":
                break
            self._pieces.append(data[start:end])
            at = end + 2
        return at

    def _take_line(self, line: bytes) -> None:
        if self._next is TRAILER:
            self._trailers += len(line)
            if self._trailers > MAX_LINES:
                raise BadResponseError("its trailers are too long")
        elif self._next is CHUNK_END:
            if line:
                raise BadResponseError("a chunk is longer than announced")
            self._next = SIZE
        else:
            size = _CHUNK_SIZE.fullmatch(line)
            if size is None:
                raise BadResponseError("the size of a chunk is not a number")
            self._left = int(size[1], 16)
            self._next = CHUNK if self._left else TRAILER

    def _done(self) -> Response:
        pieces = self._pieces
        body = pieces[0] if len(pieces) == 1 else b"".join(pieces)
        response = Response(self.status, self.head, body)
        self._next, self._pieces, self._trailers = HEAD, [], 0
        self.begun = self.in_body = False
        return response


def _value(lower: bytes, name: bytes) -> bytes | None:
    """The value of a header in a head in lower case; `name` includes the end of the line before it."""
    start = lower.find(name)
    if start < 0:
        return None
    start += len(name)
    if lower.find(name, start) >= 0:
        raise BadResponseError(f"it has two headers{name.decode().rstrip(':').replace(chr(13) + chr(10), ' ')}")
    end = lower.find(b"\r\n", start)
    return lower[start : end if end >= 0 else None].strip()
