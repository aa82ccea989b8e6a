"""An HTTP server that limits the connections of each address."""

from __future__ import annotations

import asyncio
import logging
import resource
from typing import Any

from aiohttp import web
from aiohttp.http_exceptions import HttpProcessingError
from aiohttp.web_protocol import RequestHandler

from kubesched.base.client_limits import RETRY_SECONDS, ClientLimit

FILES_SHARE = 0.75
"""Connections from one address take at most this part of the files that the process may open."""
_WORDS = "this address has too many connections to this server, close some and try again\n"
_TOO_MANY = (
    "HTTP/1.1 429 Too Many Requests\r\n"
    f"Retry-After: {RETRY_SECONDS}\r\n"
    "Content-Type: text/plain; charset=utf-8\r\n"
    f"Content-Length: {len(_WORDS)}\r\n"
    f"Connection: close\r\n\r\n{_WORDS}"
).encode()


def connection_limit(most: int) -> int:
    """`most`, or less if the process may not open that many files: it needs some for other things too."""
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return most if files == resource.RLIM_INFINITY else min(most, int(files * FILES_SHARE))


def _is_worth_a_line(record: logging.LogRecord) -> bool:
    """Whether a log record is about this server, rather than about bytes that are not HTTP and got 400, or about the
    rest of a body that cannot be read."""
    return not (record.exc_info and isinstance(record.exc_info[1], HttpProcessingError | web.RequestPayloadError))


def server_logger() -> logging.Logger:
    """The log of our servers, without what `_is_worth_a_line` leaves out."""
    logger = logging.getLogger(__name__)
    # Adding the same function again has no effect.
    logger.addFilter(_is_worth_a_line)
    return logger


class LimitedServer(web.Server):
    """An aiohttp server that refuses connections beyond a number per address, with a response that says so."""

    def __init__(self, handler: Any, *, connections_per_address: int, **options: Any) -> None:
        # As upstream's servers, which decompress no request. aiohttp never tells of compressed data that is cut off.
        super().__init__(handler, logger=server_logger(), auto_decompress=False, **options)
        self._limit = ClientLimit(connection_limit(connections_per_address))
        self._counted: dict[RequestHandler, str] = {}

    def connection_made(self, handler: RequestHandler, transport: asyncio.Transport) -> None:
        """A client has connected, and TLS is established."""
        super().connection_made(handler, transport)
        peer = transport.get_extra_info("peername")
        address = str(peer[0]) if isinstance(peer, tuple) else ""
        if self._limit.enter(address):
            self._counted[handler] = address
        else:
            transport.write(_TOO_MANY)
            transport.close()

    def connection_lost(self, handler: RequestHandler, exc: BaseException | None = None) -> None:
        """A connection has ended."""
        super().connection_lost(handler, exc)
        address = self._counted.pop(handler, None)
        if address is not None:
            self._limit.leave(address)
