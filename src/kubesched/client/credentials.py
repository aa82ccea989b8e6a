"""The identity of this client. Tokens are rotated, and credentials of exec plugins expire.

Every request asks for the current identity. If the server refuses it, the client asks again and names the refused one.
If it then gets a newer identity, it retries with that; otherwise the refusal is final.
"""

from __future__ import annotations

import asyncio
import base64
import logging
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from kubesched.base.clock import Clock
from kubesched.base.key_pairs import Pair
from kubesched.client import exec_plugin
from kubesched.client.connection import Connection
from kubesched.client.exec_plugin import CredentialError

logger = logging.getLogger(__name__)

TOKEN_FILE_PERIOD = 60.0
"""Seconds after which a token file is read again."""


@dataclass(frozen=True, slots=True)
class Identity:
    """What a request carries to authenticate its sender."""

    authorization: str = field(default="", repr=False)
    key_pair: Pair | None = None


ANONYMOUS = Identity()


class Credentials(Protocol):
    """A source of identities. Both calls may raise `CredentialError`."""

    async def current(self) -> Identity:
        """The identity to use now."""
        ...

    async def after_refusal(self, refused: Identity) -> Identity:
        """The identity to use after the server refused one; the same one if there is no other."""
        ...


def credentials_of(connection: Connection, clock: Clock) -> Credentials:
    """How a connection authenticates. Client certificates of the kubeconfig are not included: TLS handles those."""
    if connection.exec is not None:
        return ExecCredentials(connection, clock)
    if connection.token_file:
        return TokenFile(connection.token_file, connection.token, clock)
    if connection.token:
        return Fixed(_bearer(connection.token))
    if connection.username or connection.password:
        pair = f"{connection.username}:{connection.password}".encode()
        return Fixed(Identity(f"Basic {base64.b64encode(pair).decode()}"))
    return Fixed(ANONYMOUS)


def _bearer(token: str) -> Identity:
    return Identity(f"Bearer {token}")


class Fixed:
    """Always the same identity."""

    def __init__(self, identity: Identity) -> None:
        self.identity = identity

    async def current(self) -> Identity:
        return self.identity

    async def after_refusal(self, refused: Identity) -> Identity:
        return self.identity


class TokenFile:
    """A token in a file that is rotated, such as a projected service account token.

    If the file cannot be read for a while, the last token stays in use.
    """

    def __init__(self, path: str, fallback: str, clock: Clock) -> None:
        self._path = path
        self._clock = clock
        self._identity = _bearer(fallback) if fallback else None
        self._read_at = float("-inf")

    async def current(self) -> Identity:
        if self._identity is None or self._clock.monotonic() - self._read_at >= TOKEN_FILE_PERIOD:
            self._read()
        assert self._identity is not None
        return self._identity

    async def after_refusal(self, refused: Identity) -> Identity:
        self._read()
        return await self.current()

    def _read(self) -> None:
        self._read_at = self._clock.monotonic()
        try:
            token = Path(self._path).read_text().strip()
            problem = "" if token else "is empty"
        except (OSError, UnicodeDecodeError) as error:
            token, problem = "", f"cannot be read: {getattr(error, 'strerror', None) or 'not text'}"
        if token:
            self._identity = _bearer(token)
        elif self._identity is None:
            raise CredentialError(f"token file {self._path} {problem}; make it readable and put a token there")
        else:
            logger.error("token file %s %s; the last token stays in use", self._path, problem)


class ExecCredentials:
    """Credentials of an exec plugin, until they expire or are refused. One run of the plugin serves all requests."""

    def __init__(self, connection: Connection, clock: Clock) -> None:
        assert connection.exec is not None
        self._command = connection.exec
        self._cluster = connection.exec_cluster
        self._clock = clock
        self._lock = asyncio.Lock()
        self._identity: Identity | None = None
        self._expires: float | None = None

    async def current(self) -> Identity:
        async with self._lock:
            if self._identity is None or self._expired():
                await self._run()
            assert self._identity is not None
            return self._identity

    async def after_refusal(self, refused: Identity) -> Identity:
        async with self._lock:
            # Many requests are refused at once when credentials expire early; the first one renews them for all.
            if self._identity is refused:
                await self._run()
            assert self._identity is not None
            return self._identity

    def _expired(self) -> bool:
        return self._expires is not None and self._clock.now() > self._expires

    async def _run(self) -> None:
        status = await exec_plugin.run(self._command, self._cluster)
        pair = None
        if status.client_certificate_data:
            pair = Pair(status.client_certificate_data.encode(), status.client_key_data.encode())
        authorization = f"Bearer {status.token}" if status.token else ""
        self._identity, self._expires = Identity(authorization, pair), status.expires
