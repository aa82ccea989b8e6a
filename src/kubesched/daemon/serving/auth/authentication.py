"""Authenticates requests in upstream's order: a trusted proxy's headers, a client certificate, a token.

A request without credentials is anonymous. One with wrong credentials is rejected, even where anonymous requests are
allowed: its sender should learn that the credentials do not work.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Mapping, Sequence
from typing import Final
from urllib.parse import unquote

from aiohttp import web
from multidict import CIMultiDictProxy

from kubesched.base.clock import Clock
from kubesched.base.documents import valid_text
from kubesched.base.types import JSON
from kubesched.daemon.serving.auth.client_authorities import Authorities, ProxyHeaders
from kubesched.daemon.serving.auth.client_certificates import ClientCertificate, presented_certificate
from kubesched.daemon.serving.auth.metrics import AuthMetrics
from kubesched.daemon.serving.auth.review_cache import ReviewCache
from kubesched.daemon.serving.auth.reviews import Api, ReviewError, review
from kubesched.daemon.serving.auth.users import ANONYMOUS, UserInfo

TOKEN_REVIEWS: Final = "/apis/authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a path

Headers = CIMultiDictProxy[str]


class Unauthenticated(Exception):  # noqa: N818 - it becomes a 401 response, not an error
    """Wrong credentials. The text is for the log and never contains them."""


class DelegatingAuthenticator:
    """Finds the user of a request."""

    def __init__(
        self,
        tokens: TokenAuthenticator | None = None,
        authorities: Authorities | None = None,
        certificate_of: Callable[[web.BaseRequest], ClientCertificate | None] = presented_certificate,
    ) -> None:
        self._tokens = tokens
        self._authorities = authorities
        self._certificate_of = certificate_of

    async def user(self, request: web.BaseRequest) -> UserInfo:
        """Return the user who sent a request. Raises `Unauthenticated`."""
        problems: list[str] = []
        user = self._by_certificate(request, problems)
        if user is None and self._tokens is not None:
            user = await self._by_token(request, problems)
        if user is not None:
            return user.authenticated()
        if problems:
            raise Unauthenticated("; ".join(problems))
        return ANONYMOUS

    def _by_certificate(self, request: web.BaseRequest, problems: list[str]) -> UserInfo | None:
        authorities = self._authorities
        certificate = None if authorities is None else self._certificate_of(request)
        if authorities is None or certificate is None:
            return None
        if certificate.is_from(authorities.proxies) and authorities.headers.allows(certificate.name):
            user = proxied_user(request.headers, authorities.headers)
            if user is not None:
                return user
        if certificate.is_from(authorities.clients):
            return certificate.user()
        if authorities.clients:
            problems.append(f"verifying certificate of {certificate.name!r} failed: unknown authority")
        return None

    async def _by_token(self, request: web.BaseRequest, problems: list[str]) -> UserInfo | None:
        assert self._tokens is not None
        token = bearer_token(request.headers)
        if not token:
            return None
        try:
            user = await self._tokens.user(token)
        except ReviewError as problem:
            problems.append(f"token could not be reviewed: {problem}")
            return None
        if user is None:
            problems.append("invalid bearer token")
        return user


def bearer_token(headers: Headers) -> str:
    """Return the bearer token in the Authorization header, or an empty string."""
    scheme, _, rest = valid_text(headers.get("Authorization", "")).strip().partition(" ")
    return rest.split(" ", 1)[0] if scheme.lower() == "bearer" else ""


def proxied_user(headers: Headers, names: ProxyHeaders) -> UserInfo | None:
    """Return the user that a trusted proxy names in headers."""
    name = _first(headers, names.user)
    if not name:
        return None
    groups = [value for header in names.groups for value in headers.getall(header, ()) if value]
    return UserInfo(name, _first(headers, names.uid), tuple(groups), _extra(headers, names.extra_prefixes))


def _first(headers: Headers, names: Sequence[str]) -> str:
    return next((headers[name] for name in names if headers.get(name)), "")


def _extra(headers: Headers, prefixes: Sequence[str]) -> Mapping[str, tuple[str, ...]]:
    extra: dict[str, tuple[str, ...]] = {}
    for prefix in prefixes:
        for name, value in headers.items():
            if name.lower().startswith(prefix.lower()):
                key = unquote(name[len(prefix) :].lower())
                extra[key] = (*extra.get(key, ()), value)
    return extra


class TokenAuthenticator:
    """Asks the API server whose token it is, and caches the result under a digest of the token."""

    def __init__(self, api: Api, clock: Clock, metrics: AuthMetrics, ttl: float = 10.0) -> None:
        self._api = api
        self._metrics = metrics
        self._ttl = ttl
        self._cache: ReviewCache[UserInfo | None] = ReviewCache(clock)
        self._key = secrets.token_bytes(32)

    async def user(self, token: str) -> UserInfo | None:
        """Return the token's user; None if the token is not valid. Raises `ReviewError`."""
        digest = hmac.digest(self._key, token.encode("utf-8", "surrogateescape"), hashlib.sha256)
        with self._metrics.token_looked_up(cached=digest in self._cache):
            return await self._cache.get(digest, lambda: self._ask(token), lambda _: self._ttl)

    async def _ask(self, token: str) -> UserInfo | None:
        with self._metrics.token_fetched():
            status = await review(self._api, TOKEN_REVIEWS, "TokenReview", {"token": token})
        if status.get("authenticated") is not True:
            return None
        return _reviewed(status.get("user") or {})


def _reviewed(user: JSON) -> UserInfo:
    extra = {str(key): tuple(map(str, values)) for key, values in (user.get("extra") or {}).items()}
    groups = tuple(map(str, user.get("groups") or ()))
    return UserInfo(str(user.get("username", "")), str(user.get("uid", "")), groups, extra)
