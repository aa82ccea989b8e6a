"""Server-sent events: what has changed since a moment ago, for every open page.

Deltas are columns of the rows that differ. A page first opens the stream and then reads the whole; it skips deltas
that are older than that.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import msgspec

from kubesched.base.types import JSON
from kubesched.web.model import ClusterModel, NodeFrame, delta
from kubesched.web.moments import as_columns

TICK = 0.25
TICKS_PER_SECOND = 4
MOST_BEHIND = 64
"""Events that may wait for a slow page. A page that is further behind reads everything anew."""
KEEP_ALIVE = 15.0
RELOAD = b"event: structure\ndata: {}\n\n"


class Broadcaster:
    """Compares the cluster with what the pages have, four times a second, and sends the difference."""

    def __init__(
        self,
        model: ClusterModel,
        queue: Callable[[], JSON],
        before_tick: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`before_tick` may read more from elsewhere; it is called while at least one page is open."""
        self._model = model
        self._queue = queue
        self._before_tick = before_tick
        self._pages: set[asyncio.Queue[bytes]] = set()
        self.frame: NodeFrame = model.frame()
        self.tick = 0
        self._version = -1
        self._moments = 0
        self._sent_queue = b""
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin."""
        self._task = asyncio.create_task(self._run(), name="broadcaster")

    async def stop(self) -> None:
        """End all streams."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task

    @contextmanager
    def page(self) -> Iterator[asyncio.Queue[bytes]]:
        """A queue of events for one page, while it is open."""
        events: asyncio.Queue[bytes] = asyncio.Queue(MOST_BEHIND)
        self._pages.add(events)
        self._sent_queue = b""  # the new page has none
        try:
            yield events
        finally:
            self._pages.discard(events)

    async def events(self, events: asyncio.Queue[bytes]) -> AsyncIterator[bytes]:
        """The events of a page; comments now and then, so that a lost connection is noticed."""
        while True:
            try:
                async with asyncio.timeout(KEEP_ALIVE):
                    event = await events.get()
            except TimeoutError:
                event = b": still here\n\n"
            yield event

    def current(self) -> NodeFrame:
        """The nodes as they are now, for a page that reads everything. Other pages get the difference."""
        self._send_nodes()
        return self.frame

    async def _run(self) -> None:
        turn = 0
        while True:
            await asyncio.sleep(TICK)
            if not self._pages:
                continue
            turn += 1
            if self._before_tick is not None and turn % 2:
                await self._before_tick()
            self._send_nodes()
            self._send_moments()
            if turn % TICKS_PER_SECOND == 0:
                self._send_queue()
                self._send("rate", {"rows": self._model.rates.rows(int(self._model.clock()) - 5)})

    def _send_nodes(self) -> None:
        if self._version == self._model.version:
            return
        self._version = self._model.version
        before, self.frame = self.frame, self._model.frame()
        if before.structure != self.frame.structure:
            self.tick += 1
            self._send("structure", {"tick": self.tick})
            return
        changed = delta(before, self.frame)
        if changed is not None:
            self.tick += 1
            self._send("nodes", {"tick": self.tick, **changed})

    def _send_moments(self) -> None:
        new = self._model.moments.count - self._moments
        self._moments = self._model.moments.count
        if new:
            # Attempts are read after the bindings that followed them, so the newest need not be what pages lack.
            self._send("moments", {"count": new, **as_columns(self._model.moments.latest(new))})

    def _send_queue(self) -> None:
        encoded = msgspec.json.encode(self._queue())
        if encoded != self._sent_queue:
            self._sent_queue = encoded
            self._push(b"event: queue\ndata: " + encoded + b"\n\n")

    def _send(self, name: str, data: JSON) -> None:
        self._push(b"event: %b\ndata: %b\n\n" % (name.encode(), msgspec.json.encode(data)))

    def _push(self, event: bytes) -> None:
        for page in self._pages:
            if page.full():
                while not page.empty():
                    page.get_nowait()
                page.put_nowait(RELOAD)
            page.put_nowait(event)
