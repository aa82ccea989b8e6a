"""The null binder: a client that binds every pending pod to the next node and does nothing else.

Its rate is what the API server can take, the ceiling for any scheduler. It writes requests by hand to a few dozen
connections with one request each, since a full HTTP client would take CPU time from the API server.
"""

from __future__ import annotations

import asyncio
import itertools
import ssl
import sys
from collections import deque
from collections.abc import Iterator
from contextlib import aclosing
from typing import cast
from urllib.parse import urlsplit

from kubesched.api import objects as api
from kubesched.base.event_loop import run_on_fast_loop
from kubesched.client.connection import Connection, resolve
from kubesched.client.http import HttpClient
from kubesched.client.kubeconfig import load_file
from kubesched.client.protocol import WatchType

CONNECTIONS = 48
READY = "ready"
"""What it prints once it binds."""


class _Poster(asyncio.Protocol):
    """One connection. It takes requests from a queue that all connections share, one at a time."""

    def __init__(self, waiting: deque[bytes], idle: list[_Poster]) -> None:
        self._waiting = waiting
        self._idle = idle
        self._transport: asyncio.WriteTransport | None = None
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.WriteTransport, transport)  # uvloop's is not derived from it
        self.next()

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, separator, body = self._received.partition(b"\r\n\r\n")
        if not separator:
            return
        length = int(head.lower().partition(b"content-length:")[2].partition(b"\r\n")[0] or b"0")
        if len(body) >= length:
            self._received = b""
            self.next()

    def next(self) -> None:
        """Send the next request, or wait for one."""
        assert self._transport is not None
        if self._waiting:
            self._transport.write(self._waiting.popleft())
        else:
            self._idle.append(self)


class NullBinder:
    """Binds the pods of one cluster."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        place = urlsplit(connection.server)
        self._host, self._port = place.hostname or "", place.port or 443
        self._waiting: deque[bytes] = deque()
        self._idle: list[_Poster] = []
        self._names: Iterator[str] = iter(())

    async def run(self) -> None:
        """Bind all pending pods, then those that come."""
        async with HttpClient(self._connection, qps=1e6, burst=10**6) as client:
            nodes = await client.list(api.Node)
            self._names = itertools.cycle([node.name for node in nodes.items])
            pods = await client.list(api.Pod)
            self._waiting.extend(self._request(pod) for pod in pods.items if _is_pending(pod))
            await self._connect()
            print(READY, flush=True)
            while True:
                async with aclosing(client.watch(api.Pod, pods.resource_version)) as events:
                    async for event in events:
                        if event.change is WatchType.ADDED and _is_pending(event.object):
                            self._bind(event.object)

    async def _connect(self) -> None:
        context = ssl.create_default_context(cafile=self._connection.tls.ca_file)
        loop = asyncio.get_running_loop()
        for _ in range(CONNECTIONS):
            await loop.create_connection(
                lambda: _Poster(self._waiting, self._idle), self._host, self._port, ssl=context
            )

    def _bind(self, pod: api.Object | None) -> None:
        assert isinstance(pod, api.Pod)
        self._waiting.append(self._request(pod))
        if self._idle:
            self._idle.pop().next()

    def _request(self, pod: api.Object) -> bytes:
        body = (
            f'{{"apiVersion":"v1","kind":"Binding","metadata":{{"name":"{pod.name}","namespace":"{pod.namespace}"}},'
            f'"target":{{"kind":"Node","name":"{next(self._names)}"}}}}'
        )
        return (
            f"POST /api/v1/namespaces/{pod.namespace}/pods/{pod.name}/binding HTTP/1.1\r\n"
            f"Host: {self._host}:{self._port}\r\nAuthorization: Bearer {self._connection.token}\r\n"
            f"Content-Type: application/json\r\nAccept: application/json\r\nContent-Length: {len(body)}\r\n\r\n{body}"
        ).encode()


def _is_pending(pod: api.Object | None) -> bool:
    return isinstance(pod, api.Pod) and not pod.spec.node_name and not pod.spec.scheduling_gates


if __name__ == "__main__":
    run_on_fast_loop(NullBinder(resolve(load_file(sys.argv[1]))).run())
