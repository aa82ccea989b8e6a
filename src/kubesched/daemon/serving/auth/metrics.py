"""Counts what authentication and authorization do, under the names of kube-scheduler's secure port."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError
from kubesched.daemon.serving.auth.reviews import Api
from kubesched.scheduler.metric_types import CounterFamily, Gauge, Histogram
from kubesched.scheduler.metrics import Metrics

_MILLISECONDS = [0.001 * 2**power for power in range(15)]
_REVIEWS = [0.25, 0.5, 0.7, 1.0, 1.5, 3.0, 5.0, 10.0]
_CACHE = [0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0]
_NAMED_USERS = frozenset(("admin", "client", "kube_proxy", "kubelet", "system:serviceaccount:kube-system:default"))
"""Upstream names these users in a metric; all others are "other"."""


class AuthMetrics:
    """Registers the metrics with the scheduler's."""

    def __init__(self, metrics: Metrics) -> None:
        add = metrics.add
        # Counters, but the library would append _total to their names.
        self._users = add(
            Gauge(
                "authenticated_user_requests",
                "Counter of authenticated requests broken out by username.",
                ("username",),
            )
        )
        self._attempts = add(Gauge("authentication_attempts", "Counter of authenticated attempts.", ("result",)))
        self._authentication = add(
            Histogram(
                "authentication_duration_seconds",
                "Authentication duration in seconds broken out by result.",
                _MILLISECONDS,
                ("result",),
            )
        )
        self._authorizations = add(
            CounterFamily(
                "authorization_attempts_total",
                "Counter of authorization attempts broken down by result. It can be either 'allowed', 'denied', "
                "'no-opinion' or 'error'.",
                ("result",),
            )
        )
        self._authorization = add(
            Histogram(
                "authorization_duration_seconds",
                "Authorization duration in seconds broken out by result.",
                _MILLISECONDS,
                ("result",),
            )
        )
        self._token_requests = add(CounterFamily("authentication_token_cache_request_total", "", ("status",)))
        self._token_seconds = add(
            Histogram("authentication_token_cache_request_duration_seconds", "", _CACHE, ("status",))
        )
        self._token_fetches = add(CounterFamily("authentication_token_cache_fetch_total", "", ("status",)))
        self._token_active = add(Gauge("authentication_token_cache_active_fetch_count", "", ("status",)))
        self._reviews = {
            part: (
                add(
                    CounterFamily(
                        f"apiserver_delegated_{part}_request_total",
                        "Number of HTTP requests partitioned by status code.",
                        ("code",),
                    )
                ),
                add(
                    Histogram(
                        f"apiserver_delegated_{part}_request_duration_seconds",
                        "Request latency in seconds. Broken down by status code.",
                        _REVIEWS,
                        ("code",),
                    )
                ),
            )
            for part in ("authn", "authz")
        }

    def authenticated(self, result: str, seconds: float, user: str = "") -> None:
        """Count a request whose user was found ("success"), or not ("failure")."""
        self._attempts.add((result,))
        self._authentication.observe((result,), seconds)
        if user:
            self._users.add((user if user in _NAMED_USERS else "other",))

    def authorized(self, result: str, seconds: float) -> None:
        """Count a request that was allowed, denied, or neither."""
        self._authorizations.add((result,))
        self._authorization.observe((result,), seconds)

    def reviewed(self, part: str, code: str, seconds: float) -> None:
        """Count a TokenReview ("authn") or a SubjectAccessReview ("authz")."""
        requests, durations = self._reviews[part]
        requests.add((code,))
        durations.observe((code,), seconds)

    @contextmanager
    def token_looked_up(self, *, cached: bool) -> Iterator[None]:
        """Count a look-up of a token in the cache."""
        began, status = time.perf_counter(), "hit" if cached else "miss"
        try:
            yield
        finally:
            self._token_requests.add((status,))
            self._token_seconds.observe((status,), time.perf_counter() - began)

    @contextmanager
    def token_fetched(self) -> Iterator[None]:
        """Count a token that the cache did not have."""
        self._token_active.add(("in_flight",))
        status = "error"
        try:
            yield
            status = "ok"
        finally:
            self._token_active.add(("in_flight",), -1)
            self._token_fetches.add((status,))


class CountedReviews:
    """An API whose reviews are counted."""

    def __init__(self, api: Api, part: str, metrics: AuthMetrics) -> None:
        self._api = api
        self._part = part
        self._metrics = metrics

    async def post(self, path: str, body: JSON) -> JSON:
        began, code = time.perf_counter(), "<error>"
        try:
            answer = await self._api.post(path, body)
            code = "201"
            return answer
        except ApiError as problem:
            code = str(problem.code)
            raise
        finally:
            self._metrics.reviewed(self._part, code, time.perf_counter() - began)
