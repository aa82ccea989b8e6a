"""The certificate authorities that clients are checked against: those of users, and those of proxies.

Flags name them, or the API server publishes them in a ConfigMap. Authorities are rotated while schedulers run, so
files are re-read periodically and the ConfigMap is watched.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar, Final

import msgspec

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import ERROR, Log
from kubesched.client.endpoints import Endpoint
from kubesched.client.informer import Informer
from kubesched.client.protocol import ApiError, Client
from kubesched.daemon.serving.auth.client_certificates import certificates_in

NAMESPACE: Final = "kube-system"
NAME: Final = "extension-apiserver-authentication"
PERIOD: Final = 60.0
"""Seconds between two checks of the files."""


class ConfigMap(api.Object, frozen=True):
    """The ConfigMap in which the API server publishes authorities. The daemon may read no other."""

    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ConfigMap"
    endpoint: ClassVar[Endpoint] = Endpoint(
        "v1", "configmaps", namespace=NAMESPACE, field_selector=f"metadata.name={NAME}"
    )

    data: dict[str, str] = msgspec.field(default_factory=dict)


class AuthorityError(Exception):
    """Authorities that cannot be read."""


@dataclass(frozen=True, slots=True)
class ProxyHeaders:
    """The headers in which proxies name the user, and the proxies that may."""

    user: tuple[str, ...] = ("x-remote-user",)
    uid: tuple[str, ...] = ()
    groups: tuple[str, ...] = ("x-remote-group",)
    extra_prefixes: tuple[str, ...] = ("x-remote-extra-",)
    allowed_names: tuple[str, ...] = ()

    def allows(self, name: str) -> bool:
        """Whether a proxy with this common name is trusted."""
        return not self.allowed_names or name in self.allowed_names


@dataclass(frozen=True, slots=True)
class Bundle:
    """A PEM bundle and its certificates in DER."""

    pem: bytes = b""
    certificates: Collection[bytes] = frozenset()


class Authorities:
    """The current authorities. `version` increases with every change."""

    def __init__(
        self,
        log: Log,
        *,
        client_file: str = "",
        proxy_file: str = "",
        headers: ProxyHeaders | None = None,
        cluster: Client | None = None,
    ) -> None:
        self._log = log
        self._client_file = client_file
        self._proxy_file = proxy_file
        self._cluster = None if client_file and proxy_file else cluster
        self._clients = self._proxies = Bundle()
        self.headers = headers or ProxyHeaders()
        self.version = 0

    @property
    def clients(self) -> Collection[bytes]:
        """Authorities of users, in DER."""
        return self._clients.certificates

    @property
    def proxies(self) -> Collection[bytes]:
        """Authorities of proxies, in DER."""
        return self._proxies.certificates

    @property
    def pem(self) -> bytes:
        """All of them in one bundle, for OpenSSL."""
        return self._clients.pem + b"\n" + self._proxies.pem

    # --- updates: each raises `AuthorityError` and then leaves the previous authorities in place ----------------------

    def read_files(self) -> None:
        """Read the files that flags name."""
        if self._client_file:
            self._set_clients(_file(self._client_file))
        if self._proxy_file:
            self._set_proxies(_file(self._proxy_file))

    async def look_up(self) -> None:
        """Read from the cluster, once, the authorities that no flag names."""
        if self._cluster is None:
            return
        try:
            published = await self._cluster.read(ConfigMap, NAME, NAMESPACE)
        except (ApiError, OSError) as problem:
            raise AuthorityError(str(problem)) from problem
        self.use_published(published.data)

    def use_published(self, published: Mapping[str, str]) -> None:
        """Use the authorities in a ConfigMap. If one of the two is unreadable, the other is still used."""
        problems = []
        for take in (self._use_clients, self._use_proxies):
            try:
                take(published)
            except AuthorityError as problem:
                problems.append(str(problem))
        if problems:
            raise AuthorityError("; ".join(problems))

    def _use_clients(self, published: Mapping[str, str]) -> None:
        pem = published.get("client-ca-file", "").encode()
        if pem and not self._client_file:
            self._set_clients(pem)

    def _use_proxies(self, published: Mapping[str, str]) -> None:
        pem = published.get("requestheader-client-ca-file", "").encode()
        if pem and not self._proxy_file:
            headers = _headers(published)
            self._set_proxies(pem)
            self.headers = headers

    def _set_clients(self, pem: bytes) -> None:
        if pem != self._clients.pem:
            self._clients = Bundle(pem, _parsed(pem, "client"))
            self.version += 1

    def _set_proxies(self, pem: bytes) -> None:
        if pem != self._proxies.pem:
            self._proxies = Bundle(pem, _parsed(pem, "requestheader client"))
            self.version += 1

    # --- watching -----------------------------------------------------------------------------------------------------

    async def watch_for_changes(self, clock: Clock) -> None:
        """Re-read the files periodically and watch the ConfigMap."""
        async with asyncio.TaskGroup() as group:
            if self._client_file or self._proxy_file:
                group.create_task(self._read_files_again(clock), name="authorities in files")
            if self._cluster is not None:
                informer = Informer(self._cluster, ConfigMap, self, clock=clock)
                group.create_task(informer.run(), name="published authorities")

    async def _read_files_again(self, clock: Clock) -> None:
        while True:
            await clock.sleep(PERIOD)
            try:
                self.read_files()
            except AuthorityError as problem:
                self._report(problem)

    def on_add(self, obj: ConfigMap, is_initial_list: bool) -> None:
        try:
            self.use_published(obj.data)
        except AuthorityError as problem:
            self._report(problem)

    def on_update(self, old: ConfigMap, new: ConfigMap) -> None:
        self.on_add(new, False)

    def on_delete(self, obj: ConfigMap) -> None:
        """Keep the authorities: the API server recreates the ConfigMap."""

    def _report(self, problem: AuthorityError) -> None:
        self._log(ERROR, "Authorities of client certificates could not be refreshed", err=problem)


def _file(path: str) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as problem:
        raise AuthorityError(f"{path} cannot be read: {problem.strerror}") from None


def _parsed(pem: bytes, name: str) -> Collection[bytes]:
    if not pem.strip():
        return ()
    try:
        return frozenset(certificates_in(pem))
    except ValueError:
        raise AuthorityError(f"the {name} authorities are not certificates in PEM form") from None


def _headers(published: Mapping[str, str]) -> ProxyHeaders:
    def words(key: str) -> tuple[str, ...]:
        try:
            found = json.loads(published.get(f"requestheader-{key}") or "[]")
        except ValueError:
            raise AuthorityError(f"requestheader-{key} in the ConfigMap is not a JSON list") from None
        return tuple(map(str, found)) if isinstance(found, list) else ()

    return ProxyHeaders(
        user=words("username-headers"),
        uid=words("uid-headers"),
        groups=words("group-headers"),
        extra_prefixes=words("extra-headers-prefix"),
        allowed_names=words("allowed-names"),
    )
