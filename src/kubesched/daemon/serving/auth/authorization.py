"""Who may see what: members of system:masters everything, everybody a few paths, the rest as the API server tells."""

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
LONGEST_REMEMBERED: Final = 10_000
"""Requests with more characters than this are not remembered: somebody is trying to fill the memory."""


@dataclass(frozen=True, slots=True)
class Authorization:
    """Whether a request is allowed, and the reason if one was given."""

    allowed: bool
    reason: str = ""


ALLOWED: Final = Authorization(True)
NO_OPINION: Final = Authorization(False)


class AllowedPaths:
    """Paths open to everybody. A ``*`` at the end stands for anything; a leading slash may be left out."""

    def __init__(self, patterns: Iterable[str]) -> None:
        stripped = [pattern.removeprefix("/") for pattern in patterns]
        self._exact = frozenset(each for each in stripped if not each.endswith("*"))
        self._prefixes = tuple(each[:-1] for each in stripped if each.endswith("*"))

    def __contains__(self, path: str) -> bool:
        bare = path.removeprefix("/")
        return bare in self._exact or bare.startswith(self._prefixes)


class DelegatingAuthorizer:
    """Decides about requests. Without an API server to ask, only what needs no asking is allowed."""

    def __init__(
        self,
        clock: Clock,
        *,
        api: Api | None = None,
        allowed_paths: Iterable[str] = ("/healthz", "/readyz", "/livez"),
        remember_allowed: float = 10.0,
        remember_denied: float = 10.0,
    ) -> None:
        self._api = api
        self._allowed_paths = AllowedPaths(allowed_paths)
        self._remember_allowed = remember_allowed
        self._remember_denied = remember_denied
        self._memory: ReviewCache[Authorization] = ReviewCache(clock)

    async def verdict(self, user: UserInfo, verb: str, path: str) -> Authorization:
        """Whether the user may do this to a path. Raises `ReviewError` if the API server cannot be asked."""
        if MASTERS in user.groups or path in self._allowed_paths:
            return ALLOWED
        if self._api is None:
            return NO_OPINION
        spec = {**user.as_review(), "nonResourceAttributes": {"path": path, "verb": verb}}
        key = json.dumps(spec, sort_keys=True)
        return await self._memory.get(key, lambda: self._ask(spec), lambda verdict: self._seconds(key, verdict))

    def _seconds(self, key: str, verdict: Authorization) -> float:
        if len(key) > LONGEST_REMEMBERED:
            return 0.0
        return self._remember_allowed if verdict.allowed else self._remember_denied

    async def _ask(self, spec: JSON) -> Authorization:
        assert self._api is not None
        status = await review(self._api, ACCESS_REVIEWS, "SubjectAccessReview", spec)
        allowed = status.get("allowed") is True and status.get("denied") is not True
        return Authorization(allowed, str(status.get("reason") or ""))
