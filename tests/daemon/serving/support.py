"""A server on loopback with everything that one needs around it: authorities, certificates, an API that answers."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import aiohttp
import trustme

from kubesched.base.clocks import SystemClock
from kubesched.base.key_pairs import Pair
from kubesched.base.types import JSON
from kubesched.daemon.serving.auth.authentication import DelegatingAuthenticator, TokenAuthenticator
from kubesched.daemon.serving.auth.authorization import DelegatingAuthorizer
from kubesched.daemon.serving.auth.client_authorities import Authorities
from kubesched.daemon.serving.auth.guard import Guard
from kubesched.daemon.serving.auth.metrics import AuthMetrics, CountedReviews
from kubesched.daemon.serving.pages.endpoints import Endpoints, Served
from kubesched.daemon.serving.preparation import listen
from kubesched.daemon.serving.server import SecureServer
from kubesched.daemon.serving.tls.context import PairSource, ServingTls, TlsSettings
from kubesched.daemon.serving.tls.self_signed import make_pair
from kubesched.scheduler.metrics import Metrics

CLOCK = SystemClock()


@dataclass
class Log:
    """Keeps what is said."""

    verbosity: int = 10
    lines: list[tuple[int, str, dict[str, object]]] = field(default_factory=list)

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        self.lines.append((level, message, fields))

    @property
    def text(self) -> str:
        return "\n".join(f"{level} {message} {fields}" for level, message, fields in self.lines)


@dataclass
class FakeApi:
    """Answers reviews: tokens belong to users, users may do what is listed."""

    users: dict[str, JSON] = field(default_factory=dict)
    allowed: set[tuple[str, str, str]] = field(default_factory=set)
    """User, verb and path."""
    error: Exception | None = None
    asked: list[JSON] = field(default_factory=list)

    async def post(self, path: str, body: JSON) -> JSON:
        self.asked.append(body)
        if self.error is not None:
            raise self.error
        spec = body["spec"]
        if body["kind"] == "TokenReview":
            user = self.users.get(spec["token"])
            return {"status": {"authenticated": True, "user": user} if user else {"authenticated": False}}
        wanted = spec["nonResourceAttributes"]
        allowed = (spec["user"], wanted["verb"], wanted["path"]) in self.allowed
        return {"status": {"allowed": allowed, **({} if allowed else {"reason": "not today"})}}

    def kinds(self) -> list[str]:
        """What has been asked, in order."""
        return [each["kind"] for each in self.asked]


def served(log: Log | None = None, **changes: Any) -> Served:
    """Something to serve."""
    given: dict[str, Any] = {
        "log": log or Log(),
        "config": lambda: {"kind": "KubeSchedulerConfiguration"},
        "metrics": lambda accept: (b"scheduler_x 1\n", "text/plain; version=0.0.4; charset=utf-8"),
        "reset_metrics": lambda: None,
        "resource_metrics": lambda: "",
        "set_verbosity": lambda level: None,
        "flags": {"v": "2", "config": ""},
    }
    return Served(**(given | changes))


@dataclass
class Running:
    """A server that runs, and how to ask it."""

    url: str
    session: aiohttp.ClientSession
    log: Log

    async def get(self, path: str, **more: Any) -> tuple[int, str]:
        status, text, _ = await self.ask("GET", path, **more)
        return status, text

    async def ask(self, method: str, path: str, **more: Any) -> tuple[int, str, Any]:
        more.setdefault("ssl", insecure())
        async with self.session.request(method, self.url + path, allow_redirects=False, **more) as response:
            return response.status, await response.text(), response.headers


def insecure(certificate: trustme.LeafCert | None = None) -> ssl.SSLContext:
    """A client that trusts everybody, and shows a certificate if it has one."""
    context = ssl.create_default_context()
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    if certificate is not None:
        certificate.configure_cert(context)
    return context


@asynccontextmanager
async def running(
    page: Served | None = None,
    *,
    api: FakeApi | None = None,
    authorities: Authorities | None = None,
    settings: TlsSettings | None = None,
    allowed_paths: tuple[str, ...] = ("/healthz", "/readyz", "/livez"),
    log: Log | None = None,
    metrics: Metrics | None = None,
    wrap: Callable[[Guard], Guard] = lambda guard: guard,
) -> AsyncIterator[Running]:
    """Serve over TLS on a port of its own."""
    log = log or Log()
    counts = AuthMetrics(metrics or Metrics())
    reviews = {} if api is None else {part: CountedReviews(api, part, counts) for part in ("authn", "authz")}
    tokens = TokenAuthenticator(reviews["authn"], CLOCK, counts) if reviews else None
    guard = Guard(
        Endpoints(page or served(log)),
        DelegatingAuthenticator(tokens, authorities),
        DelegatingAuthorizer(CLOCK, api=reviews.get("authz"), allowed_paths=allowed_paths),
        log,
        counts,
    )
    tls = ServingTls(settings or TlsSettings(PairSource(made=make_pair())), authorities, CLOCK, log)
    server = SecureServer(wrap(guard), listen("127.0.0.1", 0), tls.context(), log)
    await server.start()
    try:
        async with aiohttp.ClientSession() as session:
            yield Running(f"https://127.0.0.1:{server.port}", session, log)
    finally:
        await server.stop()


def pem(authority: trustme.CA) -> str:
    """An authority's certificate as text."""
    return authority.cert_pem.bytes().decode()


def pair_of(leaf: trustme.LeafCert) -> Pair:
    """A certificate and its key as the server takes them."""
    chain = b"".join(blob.bytes() for blob in leaf.cert_chain_pems)
    return Pair(chain, leaf.private_key_pem.bytes())
