"""Who may talk to the page, and what a browser may do with its answers.

The server is on loopback, and every request to the API needs the token: in the cookie that the link from the terminal
sets, or as a bearer token. Other sites cannot use the cookie: it is SameSite=Strict, the Host must be ours (against DNS
rebinding), and anything that changes something needs a header that forms and links cannot send.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Final

from aiohttp import web
from aiohttp.typedefs import Middleware

API: Final = "/api/"
OWN_HEADER: Final = "X-Kubesched"
SAFE_METHODS: Final = ("GET", "HEAD")
HEADERS: Final = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass(slots=True)
class Doorkeeper:
    """Checks every request."""

    hosts: set[str]
    """Names and addresses, without port, that the page is reached by."""
    token: str = field(default_factory=lambda: secrets.token_urlsafe(24), repr=False)
    """An empty token lets everybody in."""

    def middleware(self) -> Middleware:
        """The check as aiohttp wants it."""

        @web.middleware
        async def check(request: web.Request, handler: Handler) -> web.StreamResponse:
            refused = self._refusal(request)
            response = refused if refused is not None else await _answered(handler, request)
            if not response.prepared:
                for name, value in HEADERS.items():
                    response.headers.setdefault(name, value)
            return response

        return check

    def cookie_name(self, request: web.Request) -> str:
        """Cookies are shared by all ports of a host, so the name has the port."""
        return f"kubesched-{request.host.rpartition(':')[2]}"

    def has_token(self, given: str) -> bool:
        """Whether this is the token."""
        return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), self.token.encode())

    def _refusal(self, request: web.Request) -> web.Response | None:
        if _hostname(request.host) not in self.hosts:
            return _error(421, "this address is not the page's own; use the link that kubesched printed")
        if not request.path.startswith(API):
            return None
        origin = request.headers.get("Origin")
        if request.headers.get("Sec-Fetch-Site", "same-origin") not in ("same-origin", "none"):
            return _error(403, "requests from other sites are not allowed")
        if origin is not None and origin.partition("://")[2] != request.host:
            return _error(403, "requests from other sites are not allowed")
        if request.method not in SAFE_METHODS and OWN_HEADER not in request.headers:
            return _error(403, f"requests that change something need the header {OWN_HEADER}")
        if not self._is_known(request):
            return _error(401, "use the link that kubesched printed: it has a token")
        return None

    def _is_known(self, request: web.Request) -> bool:
        if not self.token:
            return True
        bearer = request.headers.get("Authorization", "").removeprefix("Bearer ")
        return self.has_token(request.cookies.get(self.cookie_name(request), "")) or self.has_token(bearer)


async def _answered(handler: Handler, request: web.Request) -> web.StreamResponse:
    try:
        return await handler(request)
    except web.HTTPException as error:
        return _error(error.status, error.reason)


def _hostname(host: str) -> str:
    name = host.rpartition(":")[0] if host.rpartition(":")[2].isdecimal() else host
    return name.strip("[]").lower()


def _error(status: int, message: str) -> web.Response:
    return web.json_response({"error": message}, status=status)
