"""The null binder: a client that binds every pending pod to the next node and does nothing else.

Its rate is what the API server can take, the ceiling for any scheduler. It writes requests by hand to a few dozen
connections with one request each, since a full HTTP client would take CPU time from the API server.

If the node has pods of lower priority, it makes the writes of a preemption first: it nominates the node, marks and
deletes all these pods, and binds when they are gone. If the pod has resource claims, it protects and allocates them
first, with devices that it makes up. It writes no Events.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import sys
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import aclosing
from functools import partial
from typing import TypeGuard, cast
from urllib.parse import urlsplit

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.clocks import SystemClock
from kubesched.base.event_loop import run_on_fast_loop
from kubesched.base.types import JSON
from kubesched.bench.peers.null_claims import allocated, claim_names, protected
from kubesched.client.connection import Connection, resolve
from kubesched.client.endpoints import endpoint_of
from kubesched.client.http import STRATEGIC_MERGE_PATCH, HttpClient
from kubesched.client.http1 import ResponseReader
from kubesched.client.kubeconfig import load_file
from kubesched.client.protocol import WatchType
from kubesched.client.tls import TlsContexts
from kubesched.client.transport import APPLICATION_JSON

CONNECTIONS = 48
READY = "ready"
"""What it prints once it binds."""
_MESSAGE = "0/1000 nodes are available: 1000 Insufficient cpu."
"""About as long as the messages of schedulers."""


Write = tuple[bytes, Callable[[], None] | None]
"""A request, and what to do when it is answered."""


class _Poster(asyncio.Protocol):
    """One connection. It takes requests from a queue that all connections share, one at a time."""

    def __init__(self, waiting: deque[Write], idle: list[_Poster]) -> None:
        self._waiting = waiting
        self._idle = idle
        self._then: Callable[[], None] | None = None
        self._transport: asyncio.WriteTransport | None = None
        self._reader = ResponseReader()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is not derived from it
        self.next()

    def data_received(self, data: bytes) -> None:
        if self._reader.feed(data) is not None:
            if self._then is not None:
                self._then()
            self.next()

    def next(self) -> None:
        """Send the next request, or wait for one."""
        assert self._transport is not None
        if self._waiting:
            request, self._then = self._waiting.popleft()
            self._transport.write(request)
        else:
            self._idle.append(self)


class NullBinder:
    """Binds the pods of one cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        place = urlsplit(connection.server)
        self._host, self._port = place.hostname or "", place.port or 443
        self._waiting: deque[Write] = deque()
        self._idle: list[_Poster] = []
        self._names: Iterator[str] = iter(())
        self._claims: dict[str, dra.ResourceClaim] = {}
        self._begun: set[str] = set()

    async def run(self) -> None:
        """Bind all pending pods, then those that come."""
        async with HttpClient(self._connection, qps=1e6, burst=10**6) as client:
            await self._list_nodes(client)
            claims = await client.list(dra.ResourceClaim)
            self._claims = {each.key: each for each in claims.items if isinstance(each, dra.ResourceClaim)}
            pods = await client.list(api.Pod)
            running: defaultdict[str, list[api.Pod]] = defaultdict(list)
            for pod in pods.items:
                assert isinstance(pod, api.Pod)
                running[pod.node_name].append(pod)
            for pod in filter(self._is_next, running.pop("", ())):
                node = next(self._names)
                victims = [each for each in running[node] if each.priority < pod.priority]
                if victims:
                    self._preempt(pod, node, victims)
                else:
                    await self._bind(client, pod, node)
            await self._connect()
            print(READY, flush=True)
            while True:
                async with aclosing(client.watch(api.Pod, pods.resource_version)) as events:
                    async for event in events:
                        if event.change is not WatchType.DELETED and self._is_next(event.object):
                            node = next(self._names, "") or await self._list_nodes(client)
                            await self._bind(client, event.object, node)

    async def _list_nodes(self, client: HttpClient) -> str:
        """Start over with the nodes that exist now. Returns the first: a workload may create them before its pods."""
        nodes = await client.list(api.Node)
        self._names = itertools.cycle([node.name for node in nodes.items])
        return next(self._names, "")

    def _is_next(self, pod: api.Object | None) -> TypeGuard[api.Pod]:
        """Whether a pod is to be bound: it waits, its claims are made, and it was not seen before."""
        if not _is_pending(pod) or claim_names(pod) is None or pod.uid in self._begun:
            return False
        self._begun.add(pod.uid)
        return True

    async def _connect(self) -> None:
        context = TlsContexts(self._connection.tls, SystemClock()).get()
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            await loop.create_connection(
                lambda: _Poster(self._waiting, self._idle), self._host, self._port, ssl=context
            )

    def _preempt(self, pod: api.Pod, node: str, victims: Sequence[api.Pod]) -> None:
        """Bind a pod after its victims are deleted."""
        left = len(victims)

        def deleted() -> None:
            nonlocal left
            left -= 1
            if not left:
                self._post(self._binding(pod, node))

        condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": _MESSAGE}
        self._post(self._status(pod, {"conditions": [condition], "nominatedNodeName": node}))
        marked = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler", "message": _MESSAGE}
        for victim in victims:
            delete = self._request("DELETE", _path(victim), {"preconditions": {"uid": victim.uid}})
            self._post(self._status(victim, {"conditions": [marked]}), partial(self._post, delete, deleted))

    async def _bind(self, client: HttpClient, pod: api.Pod, node: str) -> None:
        """Allocate a pod's claims one after the other, and bind it."""
        binding = self._binding(pod, node)
        writes = []
        for name in claim_names(pod) or ():
            claim = self._claims.pop(f"{pod.namespace}/{name}", None)
            claim = claim or await client.read(dra.ResourceClaim, name, pod.namespace)
            writes.append(self._request("PUT", _path(claim), protected(claim)))
            writes.append(self._request("PUT", _path(claim, "status"), allocated(claim, pod, node)))
        first, *more = [*writes, binding]
        self._post(first, partial(self._post_all, iter(more)))

    def _post_all(self, requests: Iterator[bytes]) -> None:
        """Make each request when the one before it is answered, before those of pods that are not begun."""
        request = next(requests, None)
        if request is not None:
            self._post(request, partial(self._post_all, requests), first=True)

    def _post(self, request: bytes, then: Callable[[], None] | None = None, *, first: bool = False) -> None:
        (self._waiting.appendleft if first else self._waiting.append)((request, then))
        if self._idle:
            self._idle.pop().next()

    def _binding(self, pod: api.Pod, node: str) -> bytes:
        names = {"name": pod.name, "namespace": pod.namespace}
        target = {"kind": "Node", "name": node}
        body = {"apiVersion": "v1", "kind": "Binding", "metadata": names, "target": target}
        return self._request("POST", _path(pod, "binding"), body)

    def _status(self, pod: api.Pod, status: JSON) -> bytes:
        return self._request("PATCH", _path(pod, "status"), {"status": status}, STRATEGIC_MERGE_PATCH)

    def _request(self, verb: str, path: str, body: JSON, media_type: str = APPLICATION_JSON) -> bytes:
        content = json.dumps(body)
        return (
            f"{verb} {path} HTTP/1.1\r\n"
            f"Host: {self._host}:{self._port}\r\nAuthorization: Bearer {self._connection.token}\r\n"
            f"Content-Type: {media_type}\r\nAccept: application/json\r\nContent-Length: {len(content)}\r\n\r\n{content}"
        ).encode()


def _path(obj: api.Object, subresource: str = "") -> str:
    return endpoint_of(type(obj)).path(obj.namespace, obj.name, subresource)


def _is_pending(pod: api.Object | None) -> TypeGuard[api.Pod]:
    return isinstance(pod, api.Pod) and not pod.spec.node_name and not pod.spec.scheduling_gates


if __name__ == "__main__":
    run_on_fast_loop(NullBinder(resolve(load_file(sys.argv[1]))).run())
