"""Builds the HTTPS server with its authentication and authorization from the flags."""

from __future__ import annotations

import socket

from kubesched.base.clock import Clock
from kubesched.client.http import HttpClient
from kubesched.daemon.flags import Options
from kubesched.daemon.serving.auth.authentication import DelegatingAuthenticator, TokenAuthenticator
from kubesched.daemon.serving.auth.authorization import DelegatingAuthorizer
from kubesched.daemon.serving.auth.client_authorities import Authorities
from kubesched.daemon.serving.auth.guard import Guard, Handler
from kubesched.daemon.serving.auth.metrics import AuthMetrics, CountedReviews
from kubesched.daemon.serving.server import SecureServer
from kubesched.daemon.serving.tls.context import ServingTls, TlsSettings
from kubesched.logs import Logger
from kubesched.logs.levels import WARNING
from kubesched.scheduler.metrics import Metrics


def make_guard(
    handler: Handler,
    options: Options,
    authorities: Authorities,
    authentication: HttpClient | None,
    authorization: HttpClient | None,
    clock: Clock,
    log: Logger,
    metrics: Metrics,
) -> Guard:
    """Wrap a handler with authentication and authorization."""
    counts = AuthMetrics(metrics)
    ttl = options.authentication.authentication_token_webhook_cache_ttl.seconds
    tokens = None
    if authentication is not None:
        tokens = TokenAuthenticator(CountedReviews(authentication, "authn", counts), clock, counts, ttl)
    if authorization is None:
        log(WARNING, "No authorization-kubeconfig provided, so SubjectAccessReview of authorization tokens won't work.")
    flags = options.authorization
    authorizer = DelegatingAuthorizer(
        clock,
        api=None if authorization is None else CountedReviews(authorization, "authz", counts),
        allowed_paths=flags.authorization_always_allow_paths,
        allowed_ttl=flags.authorization_webhook_cache_authorized_ttl.seconds,
        denied_ttl=flags.authorization_webhook_cache_unauthorized_ttl.seconds,
    )
    return Guard(handler, DelegatingAuthenticator(tokens, authorities), authorizer, log, counts)


def secure_server(
    guard: Guard, sock: socket.socket, settings: TlsSettings, authorities: Authorities, clock: Clock, log: Logger
) -> SecureServer:
    """Return the server, not yet started."""
    return SecureServer(guard, sock, ServingTls(settings, authorities, clock, log).context(), log)
