"""The reader of HTTP/1.1 responses: any response in any pieces, and everything that must be refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.client.http1 import MAX_LINES, BadResponseError, Response, ResponseReader

BODIES = st.binary(max_size=300)
INTERIM = st.lists(st.sampled_from([b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"]))


def with_length(body: bytes) -> bytes:
    return b"HTTP/1.1 201 Created\r\nDate: now\r\ncontent-LENGTH:  %d \r\n\r\n%s" % (len(body), body)


def chunked(body: bytes, sizes: list[int], trailer: bytes) -> bytes:
    """A body in chunks of these sizes, and the rest in one more."""
    text, at = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", 0
    for size in [*sizes, len(body)]:
        piece, at = body[at : at + size], at + size
        if piece:
            text += b"%X;name=value\r\n%s\r\n" % (len(piece), piece)
    return text + b"0\r\n" + trailer + b"\r\n"


def fed(reader: ResponseReader, data: bytes, cuts: list[int]) -> Response | None:
    """What a reader returns for data that arrives in pieces. Only the last piece may complete the response."""
    places = sorted({min(cut, len(data)) for cut in cuts} - {0, len(data)})
    found = None
    for start, end in zip([0, *places], [*places, len(data)], strict=True):
        assert found is None
        found = reader.feed(data[start:end])
    return found


@given(BODIES, INTERIM, st.lists(st.integers(0, 500)))
def test_a_length_and_any_pieces(body: bytes, interim: list[bytes], cuts: list[int]) -> None:
    """A response with Content-Length is whole with its last byte, after interim responses, on a reused connection."""
    reader = ResponseReader()
    for _ in range(2):
        response = fed(reader, b"".join(interim) + with_length(body), cuts)
        assert response is not None
        assert (response.status, response.body, response.header("Date")) == (201, body, "now")
        assert reader.reusable
        assert not reader.begun


@given(BODIES, st.lists(st.integers(1, 60)), st.sampled_from([b"", b"Expires: x\r\nA: b\r\n"]), st.lists(st.integers()))
def test_chunks_and_any_pieces(body: bytes, sizes: list[int], trailer: bytes, cuts: list[int]) -> None:
    """A response in chunks of any size is the same as one with a length; extensions and trailers are skipped."""
    reader = ResponseReader()
    for _ in range(2):
        response = fed(reader, chunked(body, sizes, trailer), [abs(cut) for cut in cuts])
        assert response is not None
        assert (response.status, response.body, reader.reusable) == (200, body, True)


@given(st.binary(max_size=200))
def test_garbage_is_refused_or_unfinished(data: bytes) -> None:
    """Garbage never raises anything but the error that callers expect."""
    reader = ResponseReader()
    try:
        reader.feed(data)
        reader.feed(b"\r\n\r\n")
    except BadResponseError:
        pass


def test_a_body_until_the_end_of_the_connection() -> None:
    """Without a length the body ends with the connection, which cannot be reused."""
    reader = ResponseReader()
    assert reader.feed(b"HTTP/1.0 200 OK\r\n\r\nabc") is None
    assert reader.feed(b"def") is None
    response = reader.closed()
    assert response is not None
    assert (response.body, reader.reusable) == (b"abcdef", False)
    assert ResponseReader().closed() is None


@pytest.mark.parametrize("head", [b"HTTP/1.1 204 No Content", b"HTTP/1.1 304", b"HTTP/1.1 200 OK\r\nContent-Length: 0"])
def test_no_body(head: bytes) -> None:
    """Responses without a body end with their head."""
    response = ResponseReader().feed(head + b"\r\n\r\n")
    assert response is not None
    assert response.body == b""


@pytest.mark.parametrize(
    ("data", "reusable"),
    [
        (b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 1\r\n\r\na", False),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 1\r\n\r\na", False),
        (b"HTTP/1.0 200 OK\r\nConnection: keep-alive\r\nContent-Length: 1\r\n\r\na", True),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\naHTTP/1.1 408 Request Timeout\r\n", False),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\n0\r\n\r\nx", False),
    ],
)
def test_when_a_connection_can_be_reused(data: bytes, reusable: bool) -> None:
    """A connection is not reused if the server closes it, or has sent more than the response."""
    reader = ResponseReader()
    response = reader.feed(data)
    assert response is not None
    assert (response.body, reader.reusable) == (b"a", reusable)


@pytest.mark.parametrize(
    "data",
    [
        b"HTTP/2 200 OK\r\n\r\n",
        b"HTTP/1.1 20 OK\r\n\r\n",
        b"SSH-2.0-OpenSSH\r\n\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\n 2\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + b"1" * (MAX_LINES + 1),
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n" + b"a: b\r\n" * MAX_LINES,
        b"HTTP/1.1 200 OK\r\nX: " + b"x" * MAX_LINES,
    ],
)
def test_what_is_not_understood_is_refused(data: bytes) -> None:
    """Where the end of a response is not certain, the response is refused."""
    with pytest.raises(BadResponseError):
        ResponseReader().feed(data)
