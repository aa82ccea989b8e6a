"""Scheduler extenders: external filters, scores, preemption and binding over HTTP.

An extender can be slow or down, and the scheduling cycle waits for it. So every call ends within the configured
timeout, and every failure raises the same error type; the scheduling loop decides what it means for the pod. The error
texts are those of Go's HTTP client, because they appear in the pod's events.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from ipaddress import ip_address

import aiohttp
import msgspec
from yarl import URL

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.clocks import SystemClock
from kubesched.client.by_proxy import request_class
from kubesched.client.connection import Tls
from kubesched.client.pool import MayWrite
from kubesched.client.tls import TlsContexts
from kubesched.cluster.pods import PodInfo
from kubesched.config import types as config
from kubesched.framework.extender import ExtenderError, ExtenderFilterResult, ExtenderVictims
from kubesched.scheduler import extender_wire as wire

DEFAULT_TIMEOUT = 5.0

PodsOnNode = Callable[[str], Iterable[PodInfo] | None]
"""The pods on a node, or None if there is no such node."""


class HTTPExtender:
    """A configured extender. It connects on first use; `close` ends its connections."""

    def __init__(
        self,
        settings: config.Extender,
        *,
        pods_on: PodsOnNode | None = None,
        raw: wire.RawObject | None = None,
        clock: Clock | None = None,
        may_write: MayWrite | None = None,
    ) -> None:
        self._settings = settings
        self._url = settings.url_prefix.rstrip("/")
        self._names_only = settings.node_cache_capable
        self._managed = frozenset(resource.name for resource in settings.managed_resources)
        self._pods_on = pods_on
        self._encoder = wire.Encoder(raw)
        self._timeout = settings.http_timeout.seconds or DEFAULT_TIMEOUT
        self._tls = TlsContexts(tls_settings(settings), clock or SystemClock())
        self._request_class = request_class(may_write)
        self._session: aiohttp.ClientSession | None = None
        self.name = settings.url_prefix
        self.weight = settings.weight
        self.ignorable = settings.ignorable
        self.is_filter = bool(settings.filter_verb)
        self.is_prioritizer = bool(settings.prioritize_verb)
        self.is_binder = bool(settings.bind_verb)
        self.supports_preemption = bool(settings.preempt_verb)
        if self._url.startswith("https:"):
            self._tls.get()  # unusable certificates must fail at startup

    def __str__(self) -> str:
        return self.name

    def is_interested(self, pod: api.Pod) -> bool:
        """Whether the pod requests a resource that this extender manages. An extender without managed resources sees
        all pods.
        """
        if not self._managed:
            return True
        return any(
            not self._managed.isdisjoint(container.resources.requests)
            or not self._managed.isdisjoint(container.resources.limits)
            for container in (*pod.spec.containers, *pod.spec.init_containers)
        )

    async def filter(self, pod: api.Pod, nodes: Sequence[api.Node]) -> ExtenderFilterResult:
        """Return the nodes that pass the extender's filter."""
        if not self.is_filter:
            return ExtenderFilterResult([node.name for node in nodes])
        arguments = wire.arguments(self._encoder, pod, nodes, names_only=self._names_only)
        answer = wire.ExtenderAnswer(await self._send(self._settings.filter_verb, arguments), "ExtenderFilterResult")
        failed, unresolvable = answer.text_map("FailedNodes"), answer.text_map("FailedAndUnresolvableNodes")
        names = answer.texts("NodeNames")
        chosen = names if self._names_only and names is not None else wire.node_names(answer)
        if problem := answer.text("Error"):
            raise ExtenderError(problem)
        return ExtenderFilterResult(self._known(chosen or (), nodes), failed, unresolvable)

    def _known(self, chosen: Iterable[str], nodes: Sequence[api.Node]) -> list[str]:
        asked = {node.name for node in nodes}
        for name in chosen:
            if name not in asked:
                raise ExtenderError(
                    f'extender "{self.name}" claims a filtered node "{name}" which is not found in the input node list'
                )
        return list(dict.fromkeys(chosen))

    async def prioritize(self, pod: api.Pod, nodes: Sequence[api.Node]) -> Mapping[str, int]:
        """Return the scores by node, before weighting."""
        if not self.is_prioritizer:
            return {}
        arguments = wire.arguments(self._encoder, pod, nodes, names_only=self._names_only)
        return wire.scores(await self._send(self._settings.prioritize_verb, arguments))

    async def process_preemption(
        self, pod: api.Pod, victims: Mapping[str, ExtenderVictims]
    ) -> Mapping[str, ExtenderVictims]:
        """Return the nodes to preempt on, and the victims. The extender may choose any pod on a node, not only those
        proposed.
        """
        if not self.supports_preemption:
            raise ExtenderError(f"preempt verb is not defined for extender {self.name} but run into ProcessPreemption")
        arguments = wire.preemption_arguments(self._encoder, pod, victims, names_only=self._names_only)
        value = await self._send(self._settings.preempt_verb, arguments)
        chosen = wire.meta_victims(wire.ExtenderAnswer(value, "ExtenderPreemptionResult"))
        return {
            node: ExtenderVictims(self._found(node, uids, victims), violations)
            for node, (uids, violations) in chosen.items()
        }

    def _found(self, node: str, uids: Iterable[str], proposed: Mapping[str, ExtenderVictims]) -> list[PodInfo]:
        pods_on = self._pods_on or (lambda name: proposed[name].pods if name in proposed else None)
        there = pods_on(node)
        if there is None:
            raise ExtenderError(f'nodeinfo not found for node name "{node}"')
        by_uid = {info.pod.uid: info for info in there}
        for uid in uids:
            if uid not in by_uid:
                raise ExtenderError(
                    f"extender: {self.name} claims to preempt pod (UID: &{{{uid}}}) on node: {node}, "
                    "but the pod is not found on that node"
                )
        return [by_uid[uid] for uid in uids]

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        """Have the extender bind the pod."""
        if not self.is_binder:
            raise ExtenderError("unexpected empty bindVerb in extender")
        value = await self._send(self._settings.bind_verb, wire.binding_arguments(pod, node_name), once=True)
        if problem := wire.ExtenderAnswer(value, "ExtenderBindingResult").text("Error"):
            raise ExtenderError(problem)

    async def close(self) -> None:
        """Close all connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    # --- HTTP ---------------------------------------------------------------------------------------------------------

    async def _send(self, verb: str, arguments: object, *, once: bool = False) -> object:
        url = f"{self._url}/{verb}"
        try:
            async with asyncio.timeout(self._timeout):
                status, body = await self._post(url, msgspec.json.encode(arguments), once)
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise ExtenderError(f'Post "{url}": {_go_error(error)}') from error
        if status != 200:
            raise ExtenderError(f"failed {verb} with extender at URL {url}, code {status}")
        return wire.decode(body)

    async def _post(self, url: str, body: bytes, once: bool) -> tuple[int, bytes]:
        try:
            return await self._post_once(url, body)
        except aiohttp.ServerDisconnectedError:
            # The server had just closed an idle connection. Only idempotent requests are repeated.
            if once:
                raise
            return await self._post_once(url, body)

    async def _post_once(self, url: str, body: bytes) -> tuple[int, bytes]:
        secure = url.startswith("https:")
        async with self._connected().post(
            URL(url, encoded=True),
            data=body,
            headers={"Content-Type": "application/json"},
            ssl=self._tls.get() if secure else True,
            server_hostname=(self._settings.tls_config and self._settings.tls_config.server_name) or None,
        ) as response:
            return response.status, await response.read()

    def _connected(self) -> aiohttp.ClientSession:
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0),
                timeout=aiohttp.ClientTimeout(total=None),
                trust_env=not _is_loopback(URL(self._url).host or ""),
                headers={"User-Agent": "kubesched"},
                cookie_jar=aiohttp.DummyCookieJar(),
                request_class=self._request_class,
            )
        return self._session


def tls_settings(settings: config.Extender) -> Tls:
    """The TLS settings of a connection to the extender. As upstream, HTTPS without a CA accepts any certificate."""
    given = settings.tls_config or config.ExtenderTLSConfig()
    has_ca = bool(given.ca_file or given.ca_data)
    if has_ca and given.insecure:
        raise ValueError("specifying a root certificates file with the insecure flag is not allowed")
    shown = bool((given.cert_file or given.cert_data) and (given.key_file or given.key_data))
    return Tls(
        ca_file=given.ca_file,
        ca_data=given.ca_data,
        insecure=given.insecure or (settings.enable_https and not has_ca),
        server_name=given.server_name,
        certificate_file=given.cert_file if shown else "",
        certificate_data=given.cert_data if shown else b"",
        key_file=given.key_file if shown else "",
        key_data=given.key_data if shown else b"",
    )


# --- Go's error texts -------------------------------------------------------------------------------------------------


def _go_error(error: Exception) -> str:
    """The text of Go's HTTP client for an error that aiohttp raised."""
    if isinstance(error, TimeoutError):
        return "context deadline exceeded (Client.Timeout exceeded while awaiting headers)"
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"tls: failed to verify certificate: x509: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorDNSError):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(error, aiohttp.ClientConnectorError):
        return _dial_error(error)
    if isinstance(error, aiohttp.ServerDisconnectedError):
        return "EOF"
    if isinstance(error, aiohttp.ClientPayloadError):
        return "unexpected EOF"
    return str(error) or type(error).__name__


def _dial_error(error: aiohttp.ClientConnectorError) -> str:
    reason = error.os_error
    host = f"[{error.host}]" if ":" in error.host else error.host
    if isinstance(reason, socket.gaierror):
        return f"dial tcp: lookup {error.host}: no such host"
    if isinstance(reason, ConnectionRefusedError):
        return f"dial tcp {host}:{error.port}: connect: connection refused"
    return f"dial tcp {host}:{error.port}: connect: {(reason.strerror or str(reason)).lower()}"


def _is_loopback(host: str) -> bool:
    """Go's client never sends requests to these hosts through a proxy."""
    with suppress(ValueError):
        return ip_address(host).is_loopback
    return host == "localhost"
