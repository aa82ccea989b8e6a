"""Authenticates, authorizes and logs every request before its page is served."""

from __future__ import annotations

import time
import uuid
from collections.abc import Awaitable, Callable

from aiohttp import web

from kubesched.base.client_limits import RETRY_SECONDS, ClientLimit
from kubesched.base.log import ERROR, Log
from kubesched.daemon.serving.auth.authentication import DelegatingAuthenticator, Unauthenticated
from kubesched.daemon.serving.auth.authorization import Authorization, DelegatingAuthorizer
from kubesched.daemon.serving.auth.metrics import AuthMetrics
from kubesched.daemon.serving.auth.reviews import ReviewError
from kubesched.daemon.serving.auth.users import UserInfo
from kubesched.daemon.serving.pages import responses

Handler = Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]

HTTP_LOG_LEVEL = 3
REQUESTS_PER_ADDRESS = 100
PROBES = ("/healthz", "/livez", "/readyz")


class Guard:
    """Passes allowed requests on to `handler`. Responses are marked private, so that no proxy caches them."""

    def __init__(
        self,
        handler: Handler,
        authenticator: DelegatingAuthenticator,
        authorizer: DelegatingAuthorizer,
        log: Log,
        metrics: AuthMetrics,
    ) -> None:
        self._handler = handler
        self._authenticator = authenticator
        self._authorizer = authorizer
        self._log = log
        self._metrics = metrics
        self._requests = ClientLimit(REQUESTS_PER_ADDRESS)

    async def __call__(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond to a request."""
        began = time.perf_counter()
        audit_id = request.headers.get("Audit-ID") or str(uuid.uuid4())
        try:
            response = await self._limited(request)
        except (ConnectionError, web.HTTPException):
            raise
        except Exception as problem:
            # A bug in one page must neither end the process nor leak details to the client.
            self._log(ERROR, "Unexpected error while serving", err=problem, URI=request.path)
            response = responses.error("Internal Server Error", 500)
        response.headers.setdefault("Cache-Control", "no-cache, private")
        # aiohttp's default reveals its own version and Python's.
        response.headers["Server"] = "kubesched"
        response.headers["Audit-Id"] = responses.sanitized(audit_id)
        if self._log.verbosity >= HTTP_LOG_LEVEL:
            self._report(request, response, audit_id, time.perf_counter() - began)
        return response

    async def _limited(self, request: web.BaseRequest) -> web.StreamResponse:
        """Respond unless the address has too many requests under way. Probes are always served."""
        if request.path.startswith(PROBES):
            return await self._respond(request)
        address, limit = request.remote or "", self._requests
        if not limit.enter(address):
            message = f"{address} has {limit.most} requests under way, the most that this server allows one address"
            refused = responses.status(request, 429, "TooManyRequests", f"{message}: wait until one has ended")
            refused.headers["Retry-After"] = str(RETRY_SECONDS)
            return refused
        try:
            return await self._respond(request)
        finally:
            limit.leave(address)

    async def _respond(self, request: web.BaseRequest) -> web.StreamResponse:
        try:
            user = await self._user_of(request)
        except Unauthenticated as problem:
            self._log(ERROR, "Unable to authenticate the request", err=problem)
            return responses.status(request, 401, "Unauthorized", "Unauthorized")
        verb = request.method.lower()
        try:
            verdict = await self._authorize(user, verb, request.path)
        except ReviewError as problem:
            self._log(ERROR, "Unable to authorize the request", err=problem, URI=request.path)
            return responses.internal_error(request, problem)
        if not verdict.allowed:
            message = responses.sanitized(f'User "{user.name}" cannot {verb} path "{request.path}"')
            reason = f": {verdict.reason}" if verdict.reason else ""
            return responses.status(request, 403, "Forbidden", f"forbidden: {message}{reason}", details=True)
        return await self._handler(request)

    async def _user_of(self, request: web.BaseRequest) -> UserInfo:
        began = time.perf_counter()
        try:
            user = await self._authenticator.user(request)
        except Unauthenticated:
            self._metrics.authenticated("failure", time.perf_counter() - began)
            raise
        self._metrics.authenticated("success", time.perf_counter() - began, user.name)
        return user

    async def _authorize(self, user: UserInfo, verb: str, path: str) -> Authorization:
        began, result = time.perf_counter(), "error"
        try:
            verdict = await self._authorizer.authorize(user, verb, path)
            result = verdict.result
            return verdict
        finally:
            self._metrics.authorized(result, time.perf_counter() - began)

    def _report(self, request: web.BaseRequest, response: web.StreamResponse, audit_id: str, seconds: float) -> None:
        self._log(
            HTTP_LOG_LEVEL,
            "HTTP",
            verb=request.method,
            URI=request.path_qs,
            latency=f"{seconds * 1000:.3f}ms",
            userAgent=request.headers.get("User-Agent", ""),
            **{"audit-ID": audit_id},
            srcIP=_source(request),
            resp=response.status,
        )


def _source(request: web.BaseRequest) -> str:
    """The client's address and port, as Go writes them."""
    peer = request.transport.get_extra_info("peername") if request.transport is not None else None
    if not isinstance(peer, tuple):
        return request.remote or ""
    return f"[{peer[0]}]:{peer[1]}" if ":" in peer[0] else f"{peer[0]}:{peer[1]}"
