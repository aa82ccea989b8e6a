"""Whose client certificates count: authorities of users, and of proxies that speak for users.

They are named by flags, or published by the API server in a ConfigMap, which is looked up again from time to time:
authorities are replaced while schedulers run.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kubesched.client.protocol import JSON, ApiError
from kubesched.scheduler.ports import ERROR, Log
from kubesched.server.client_certificates import certificates_in
from kubesched.server.reviews import Api

CONFIG_MAP: Final = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication"
PERIOD: Final = 60.0
"""Seconds between two looks at what files and ConfigMap say."""
FIRST_PERIOD: Final = 5.0
"""The same while nothing has been found yet: the API server may only just be starting."""
QUIET: Final = 4
"""The level at which to say again what has been said at the start."""


class AuthorityError(Exception):
    """Authorities that cannot be read: which, and why."""


@dataclass(frozen=True, slots=True)
class ProxyHeaders:
    """In which headers proxies say whom they speak for, and which proxies may."""

    user: tuple[str, ...] = ("x-remote-user",)
    uid: tuple[str, ...] = ()
    groups: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    allowed_names: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """Whether the word of a proxy of this common name is taken."""
        return not self.allowed_names or name in self.allowed_names


class Authorities:
    """What is known at the moment. `refresh` brings it up to date; `version` tells whether that changed anything."""

    def __init__(
        self,
        log: Log,
        *,
        client_file: str = "",
        proxy_file: str = "",
        headers: ProxyHeaders | None = None,
        api: Api | None = None,
    ) -> None:
        self._log = log
        self._client_file = client_file
        self._proxy_file = proxy_file
        self._api = api
        self.headers = headers or ProxyHeaders()
        self.version = 0
        self.pem = b""
        """All of them, as OpenSSL takes them."""
        self.clients: Collection[bytes] = frozenset()
        """Authorities of users, in DER."""
        self.proxies: Collection[bytes] = frozenset()
        """Authorities of proxies, in DER."""

    @property
    def looks_up(self) -> bool:
        """Whether something is left for the cluster to say."""
        return self._api is not None and not (self._client_file and self._proxy_file)

    async def refresh(self) -> None:
        """Read files and ConfigMap. Raises `AuthorityError`; what was known before stays."""
        published = await self._published() if self.looks_up else {}
        clients = _file(self._client_file) if self._client_file else _entry(published, "client-ca-file")
        if self._proxy_file:
            proxies = _file(self._proxy_file)
        else:
            proxies = _entry(published, "requestheader-client-ca-file")
            if proxies:
                self.headers = _headers(published)
        pem = clients + b"\n" + proxies
        if pem != self.pem:
            self.clients = frozenset(_parsed(clients, "client"))
            self.proxies = frozenset(_parsed(proxies, "requestheader client"))
            self.pem = pem
            self.version += 1

    async def keep_fresh(self) -> None:
        """Refresh for ever."""
        while True:
            await asyncio.sleep(PERIOD if self.version else FIRST_PERIOD)
            try:
                await self.refresh()
            except AuthorityError as problem:
                level = ERROR if self.version else QUIET
                self._log(level, "Authorities of client certificates could not be refreshed", err=problem)

    async def _published(self) -> JSON:
        assert self._api is not None
        try:
            return (await self._api.get(CONFIG_MAP)).get("data") or {}
        except (ApiError, OSError) as problem:
            raise AuthorityError(f"{problem}") from problem


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise AuthorityError(f"{path} cannot be read: {problem.strerror}") from None


def _entry(published: JSON, key: str) -> bytes:
    return str(published.get(key, "")).encode()


def _parsed(pem: bytes, name: str) -> Collection[bytes]:
    if not pem.strip():
        return ()
    try:
        return certificates_in(pem).keys()
    except ValueError:
        raise AuthorityError(f"the {name} authorities are no certificates in PEM form") from None


def _headers(published: JSON) -> ProxyHeaders:
    def words(key: str) -> tuple[str, ...]:
        try:
            found = json.loads(published.get(f"requestheader-{key}") or "[]")
        except ValueError:
            raise AuthorityError(f"requestheader-{key} in the ConfigMap is no JSON list") from None
        return tuple(map(str, found)) if isinstance(found, list) else ()

    return ProxyHeaders(
        user=words("username-headers"),
        uid=words("uid-headers"),
        groups=words("group-headers"),
        extra_prefixes=words("extra-headers-prefix"),
        allowed_names=words("allowed-names"),
    )
