"""The API server behind TLS on a socket. Translates between aiohttp and our own requests and responses.

It uses aiohttp's low-level server without the router, because Kubernetes does not resolve paths by patterns.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import secrets
import ssl
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
import yaml
from aiohttp import StreamReader, web
from aiohttp.abc import AbstractStreamWriter
from aiohttp.http_parser import RawRequestMessage
from aiohttp.web_protocol import RequestHandler
from multidict import CIMultiDict

from kubesched.apiserver.apiserver import ApiServer, refusal
from kubesched.apiserver.auth.authentication import MASTERS
from kubesched.apiserver.wire.request import JSON_TYPE, ApiRequest, ApiResponse, UserInfo
from kubesched.apiserver.wire.status import StatusError, bad_request, too_many
from kubesched.base.certificates import Authority
from kubesched.base.documents import REQUEST, valid_text
from kubesched.base.key_pairs import Pair, load_pair
from kubesched.base.limited_server import LimitedServer
from kubesched.base.private_files import make_folder
from kubesched.base.types import JSON

ADMIN = UserInfo("kubernetes-admin", (MASTERS, "kubeadm:cluster-admins"))
_ADDRESS = "127.0.0.1"
_NAMES = (
    "localhost",
    "kubernetes",
    "kubernetes.default",
    "kubernetes.default.svc",
    "kubernetes.default.svc.cluster.local",
    _ADDRESS,
    "::1",
    "10.96.0.1",
)
"""Names in the server's certificate, besides the address that it listens on."""
_BY_HAND = ("curl/", "Wget/", "Mozilla/")
IDLE_SECONDS = 90.0
"""A connection that sends no complete request for this long is closed, as by kube-apiserver."""
BODY_SECONDS = 60.0
"""How long the body of a request may take to arrive."""
STALLED_SECONDS = 30.0
"""A watch whose client reads nothing for this long is ended."""
CONNECTIONS_PER_ADDRESS = 5000
PIECE = 64 << 10
"""Streams are sent in pieces of this size, and no more than about this much of one waits in memory for its client."""


class AddressInUseError(OSError):
    """The requested port is in use."""


@dataclass(slots=True)
class ClusterIdentity:
    """The keys that a cluster keeps for its whole life."""

    authority: Authority = field(default_factory=Authority)
    admin_token: str = field(default_factory=lambda: secrets.token_urlsafe(32))


class HttpServer:
    """A running API server; start it, use `url`, stop it."""

    def __init__(
        self,
        api: ApiServer,
        identity: ClusterIdentity | None = None,
        *,
        address: str = _ADDRESS,
        port: int = 0,
        tls: bool = True,
    ) -> None:
        self.api = api
        self.identity = identity or ClusterIdentity()
        self.address = address
        self.port = port
        self._tls = tls
        self._runner: web.ServerRunner | None = None
        self._certificates: dict[bytes, UserInfo] = {}
        self.extensions: dict[str, JSON] = {}
        """Extensions of the cluster in kubeconfigs, by name."""
        api.authenticator.add_token(self.identity.admin_token, ADMIN)

    @property
    def url(self) -> str:
        host = f"[{self.address}]" if ":" in self.address else self.address
        return f"{'https' if self._tls else 'http'}://{host}:{self.port}"

    async def start(self) -> None:
        """Listen. Raises `AddressInUseError` if the port is in use."""
        runner = web.ServerRunner(
            # A watch whose client is gone must end at once, not at its next event.
            make_web_server(self.api, self._handle),
            handle_signals=False,
            shutdown_timeout=1.0,
        )
        await runner.setup()
        site = web.TCPSite(runner, self.address, self.port, ssl_context=self._context(), backlog=1024)
        try:
            await site.start()
        except OSError as error:
            await runner.cleanup()
            raise AddressInUseError(
                f"cannot listen on {self.address}:{self.port}: {error.strerror or error}"
            ) from error
        self._runner = runner
        self.port = runner.addresses[0][1]
        self.api.bootstrap.announce(self.address, self.port)
        self.api.health.flags |= {"bind-address": self.address, "secure-port": str(self.port)}

    async def stop(self) -> None:
        """End the watches, finish the running requests and close the socket."""
        self.api.rest.closing = True
        for shelf in self.api.store.shelves.values():
            shelf.wake()
        await asyncio.sleep(0)
        if self._runner is not None:
            await self._end_connections(self._runner)
            self._runner = None
        await self.api.store.close()

    async def _end_connections(self, runner: web.ServerRunner) -> None:
        transports = [each.transport for each in runner.server.connections] if runner.server is not None else []
        await runner.cleanup()
        # A client that does not confirm the end of TLS would keep its socket open for half a minute.
        for transport in transports:
            if transport is not None:
                transport.abort()
        await asyncio.sleep(0)

    def _context(self) -> ssl.SSLContext | None:
        if not self._tls:
            return None
        authority = self.identity.authority
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        # Python's default, unless OpenSSL's configuration file lowers it.
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        # A client certificate of the cluster's authority is optional.
        context.load_verify_locations(cadata=authority.certificate_pem.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        load_pair(context, authority.server_pair("kube-apiserver", (*_NAMES, self.address)))
        return context

    # --- requests -----------------------------------------------------------------------------------------------------

    async def _handle(self, raw: web.BaseRequest) -> web.StreamResponse:
        return await respond(self.api, raw, self._user_of(raw))

    def _user_of(self, raw: web.BaseRequest) -> UserInfo | None:
        transport = raw.transport
        session: ssl.SSLObject | None = transport.get_extra_info("ssl_object") if transport is not None else None
        encoded = session.getpeercert(binary_form=True) if session is not None else None
        if not encoded or session is None:
            return None
        user = self._certificates.get(encoded)
        if user is None:
            user = self._certificates[encoded] = _certificate_user(session.getpeercert() or {})
        return user

    # --- kubeconfigs --------------------------------------------------------------------------------------------------

    def kubeconfig(self, user: str = "kubernetes-admin", pair: Pair | None = None, token: str = "") -> dict[str, Any]:
        """A kubeconfig for this server. The default credentials are the admin's."""
        if pair is None and not token:
            token = self.identity.admin_token
        credentials: dict[str, str] = {"token": token} if token else {}
        if pair is not None:
            credentials["client-certificate-data"] = base64.b64encode(pair.certificate).decode()
            credentials["client-key-data"] = base64.b64encode(pair.key).decode()
        cluster: JSON = {"server": self.url}
        if self._tls:
            cluster["certificate-authority-data"] = base64.b64encode(self.identity.authority.certificate_pem).decode()
        if self.extensions:
            cluster["extensions"] = [{"name": name, "extension": each} for name, each in self.extensions.items()]
        context = f"{user}@kubesched"
        return {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "kubesched", "cluster": cluster}],
            "users": [{"name": user, "user": credentials}],
            "contexts": [{"name": context, "context": {"cluster": "kubesched", "user": user}}],
            "current-context": context,
        }

    def write_kubeconfig(self, path: Path, user: str = "kubernetes-admin", pair: Pair | None = None) -> None:
        """Write a kubeconfig that only its owner can read."""
        make_folder(path.parent)
        path.touch(mode=0o600)
        path.chmod(0o600)
        path.write_text(yaml.safe_dump(self.kubeconfig(user, pair), sort_keys=False), encoding="utf-8")


def make_web_server(api: ApiServer, handle: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]]) -> web.Server:
    """An aiohttp server for the requests of an API server."""
    # A watch whose client is gone must end at once, not at its next event.
    factory = partial(_make_request, api)
    return LimitedServer(
        handle,
        connections_per_address=CONNECTIONS_PER_ADDRESS,
        request_factory=factory,
        handler_cancellation=True,
        access_log=None,
        keepalive_timeout=IDLE_SECONDS,
    )


async def respond(
    api: ApiServer, raw: web.BaseRequest, user: UserInfo | None, more_headers: Mapping[str, str] | None = None
) -> web.StreamResponse:
    """Answer a request of a user; None if only headers can identify them."""
    request = ApiRequest(
        method=raw.method,
        path=raw.rel_url.raw_path,
        query=raw.rel_url.query,
        headers=_Headers(raw.headers),
        certificate=user,
        receive=partial(_read_body, raw),
        address=raw.remote or "",
    )
    response = await api.handle(request)
    headers = _response_headers(response)
    headers.update(more_headers or {})
    if response.stream is None:
        return web.Response(status=response.status, body=_readable(request, response), headers=headers)
    client, watches = request.client, api.watches
    if not watches.enter(client):
        refused = refusal(too_many(client, watches.most, "watches open"))
        return web.Response(status=refused.status, body=refused.body, headers=_response_headers(refused))
    try:
        return await _send_stream(raw, response, headers)
    finally:
        watches.leave(client)


async def _read_body(raw: web.BaseRequest) -> bytes:
    try:
        async with asyncio.timeout(BODY_SECONDS):
            return await raw.read() if raw.can_read_body else b""
    except TimeoutError:
        raise StatusError(408, "the body of the request did not arrive in time", reason="Timeout") from None
    except web.HTTPRequestEntityTooLarge:
        raise StatusError(413, f"Request entity too large: limit is {raw.client_max_size - 1}") from None
    except web.RequestPayloadError as error:
        raise bad_request(f"the body of the request cannot be read: {' '.join(str(error).split())}") from None


def _readable(request: ApiRequest, response: ApiResponse) -> bytes:
    """JSON in upstream's layout: one line, or indented for curl and browsers."""
    if not response.body or response.content_type != JSON_TYPE:
        return response.body
    pretty = request.query.get("pretty")
    by_hand = request.headers.get("user-agent", "").startswith(_BY_HAND)
    if pretty not in ("0", "false") and (pretty is not None or by_hand):
        return msgspec.json.format(response.body, indent=2)
    return response.body + b"\n"


def _make_request(
    api: ApiServer,
    message: RawRequestMessage,
    payload: StreamReader,
    protocol: RequestHandler,
    writer: AbstractStreamWriter,
    task: asyncio.Task[None],
) -> web.BaseRequest:
    """Make a request as aiohttp does, but limit its body as Kubernetes does."""
    loop = asyncio.get_running_loop()
    extra = api.extra_routes.get((message.method, message.url.raw_path))
    limit = (REQUEST.size if extra is None else extra.max_body) + 1
    return web.BaseRequest(message, payload, protocol, writer, task, loop, client_max_size=limit)


class _Headers(Mapping[str, str]):
    """Headers by lower-case name. Several headers of one name are joined with commas."""

    def __init__(self, headers: Any) -> None:
        self._headers = headers

    def __getitem__(self, name: str) -> str:
        values = self._headers.getall(name)
        return valid_text(values[0] if len(values) == 1 else ",".join(values))

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self._headers else default

    def __iter__(self) -> Any:
        return iter({name.lower() for name in self._headers})

    def __len__(self) -> int:
        return len(self._headers)


def _response_headers(response: ApiResponse) -> CIMultiDict[str]:
    headers: CIMultiDict[str] = CIMultiDict(response.headers)
    headers["Content-Type"] = response.content_type
    headers.setdefault("Cache-Control", "no-cache, private")
    for warning in response.warnings:
        text = warning.replace("\\", "\\\\").replace('"', '\\"')
        headers.add("Warning", f'299 - "{text}"')
    return headers


async def _send_stream(raw: web.BaseRequest, response: ApiResponse, headers: CIMultiDict[str]) -> web.StreamResponse:
    stream = web.StreamResponse(status=response.status, headers=headers)
    assert response.stream is not None
    chunks = response.stream
    if raw.transport is not None:
        raw.transport.set_write_buffer_limits(high=PIECE)
    try:
        await stream.prepare(raw)
        async for chunk in chunks:
            for start in range(0, len(chunk), PIECE):
                async with asyncio.timeout(STALLED_SECONDS):
                    await stream.write(chunk[start : start + PIECE])
        await stream.write_eof()
    except TimeoutError:
        # What is left cannot be sent, so the connection cannot be closed in an orderly way.
        if raw.transport is not None:
            raw.transport.abort()
    except ConnectionError:
        # The client disconnected. Most watches end this way.
        pass
    finally:
        close = getattr(chunks, "aclose", None)
        if close is not None:
            with contextlib.suppress(RuntimeError):
                await close()
    return stream


def _certificate_user(certificate: Mapping[str, Any]) -> UserInfo:
    attributes = [pair for part in certificate.get("subject", ()) for pair in part]
    name = next((value for key, value in attributes if key == "commonName"), "")
    groups = tuple(value for key, value in attributes if key == "organizationName")
    return UserInfo(name, groups)
