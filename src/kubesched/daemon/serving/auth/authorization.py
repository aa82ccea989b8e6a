"""Authorizes requests: system:masters may do everything, everybody may read a few paths, the API server decides the
rest."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from kubesched.base.clock import Clock
from kubesched.base.types import JSON
from kubesched.daemon.serving.auth.review_cache import ReviewCache
from kubesched.daemon.serving.auth.reviews import Api, review
from kubesched.daemon.serving.auth.users import MASTERS, UserInfo

ACCESS_REVIEWS: Final = "/apis/authorization.k8s.io/v1/subjectaccessreviews"
LONGEST_CACHED: Final = 10_000
"""Longer requests are not cached, so that a client cannot fill the memory."""


@dataclass(frozen=True, slots=True)
class Authorization:
    """Whether a request is allowed, and the reason if one was given."""

    allowed: bool
    reason: str = ""
    denied: bool = False
    """Whether it is forbidden by a rule; otherwise no rule allows it."""

    @property
    def result(self) -> str:
        """In the words of metrics."""
        return "allowed" if self.allowed else "denied" if self.denied else "no-opinion"


ALLOWED: Final = Authorization(True)
NO_OPINION: Final = Authorization(False)


class AllowedPaths:
    """Paths open to everybody. A trailing ``*`` matches anything; the leading slash is optional."""

    def __init__(self, patterns: Iterable[str]) -> None:
        stripped = [pattern.removeprefix("/") for pattern in patterns]
        self._exact = frozenset(each for each in stripped if not each.endswith("*"))
        self._prefixes = tuple(each[:-1] for each in stripped if each.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)


class DelegatingAuthorizer:
    """Authorizes requests. Without an API server to ask, only system:masters and open paths are allowed."""

    def __init__(
        self,
        clock: Clock,
        *,
        api: Api | None = None,
        allowed_paths: Iterable[str] = ("/healthz", "/readyz", "/livez"),
        allowed_ttl: float = 10.0,
        denied_ttl: float = 10.0,
    ) -> None:
        self._api = api
        self._allowed_paths = AllowedPaths(allowed_paths)
        self._allowed_ttl = allowed_ttl
        self._denied_ttl = denied_ttl
        self._cache: ReviewCache[Authorization] = ReviewCache(clock)

    async def authorize(self, user: UserInfo, verb: str, path: str) -> Authorization:
        """Return whether the user may do this to a path. Raises `ReviewError` if the API server cannot be asked."""
        if MASTERS in user.groups or path in self._allowed_paths:
            return ALLOWED
        if self._api is None:
            return NO_OPINION
        spec = {**user.as_review(), "nonResourceAttributes": {"path": path, "verb": verb}}
        key = json.dumps(spec, sort_keys=True)
        return await self._cache.get(key, lambda: self._ask(spec), lambda verdict: self._seconds(key, verdict))

    def _seconds(self, key: str, verdict: Authorization) -> float:
        if len(key) > LONGEST_CACHED:
            return 0.0
        return self._allowed_ttl if verdict.allowed else self._denied_ttl

    async def _ask(self, spec: JSON) -> Authorization:
        assert self._api is not None
        status = await review(self._api, ACCESS_REVIEWS, "SubjectAccessReview", spec)
        denied = status.get("denied") is True
        allowed = status.get("allowed") is True and not denied
        return Authorization(allowed, str(status.get("reason") or ""), denied)
