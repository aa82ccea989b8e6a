"""One loop for all controllers: keys of objects that may need work, taken in the order in which they came.

Level-triggered: a key says that something about an object may have changed, never what. A reconciler looks at how
things are, does what is missing, and may be called any number of times. Since nothing in it waits, it sees one moment.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clock import Clock

_log = logging.getLogger(__name__)

SLICE = 64
"""Keys taken before others get their turn. A number, not a time, so that a run can be repeated."""
FEW, LOOKED_AT_PER_SECOND = 200, 10_000
FIRST_RETRY, LAST_RETRY = 0.005, 60.0


class Reconciler(Protocol):
    """Brings one object, or what belongs to it, to where it should be."""

    name: str

    def sync(self, key: str) -> None:
        """Do what is missing. Whatever it raises is tried again later."""
        ...


Item = tuple[Reconciler, str]


class WorkLoop:
    """Runs reconcilers on the keys they were given. `add` may be called before it runs."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._items: dict[Item, None] = {}
        self._timers: dict[Item, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[Item, int] = {}
        self._wake = asyncio.Event()

    def add(self, reconciler: Reconciler, key: str) -> None:
        """Look at this key as soon as it is its turn; a key that waits already keeps its place."""
        self._items[reconciler, key] = None
        self._wake.set()

    def add_after(self, reconciler: Reconciler, key: str, seconds: float) -> None:
        """Look at this key again after a while; of several wishes the earliest counts."""
        if seconds <= 0:
            self.add(reconciler, key)
            return
        item = (reconciler, key)
        due = self._clock.monotonic() + seconds
        known = self._timers.get(item)
        if known is not None:
            if known[0] <= due:
                return
            known[1].cancel()
        loop = asyncio.get_running_loop()
        self._timers[item] = (due, loop.call_later(seconds, self._due, item))

    def _due(self, item: Item) -> None:
        self._timers.pop(item, None)
        self.add(*item)

    @property
    def idle(self) -> bool:
        """Whether there is nothing to do right now."""
        return not self._items

    async def run(self) -> None:
        """Work until cancelled."""
        try:
            while True:
                taken = 0
                while self._items:
                    self._take()
                    taken += 1
                    if taken % SLICE == 0:
                        await asyncio.sleep(0)
                self._wake.clear()
                await self._wake.wait()
        finally:
            for _, timer in self._timers.values():
                timer.cancel()

    def _take(self) -> None:
        item = next(iter(self._items))
        del self._items[item]
        reconciler, key = item
        try:
            reconciler.sync(key)
        except StatusError as error:
            _log.debug("%s: %s: %s", reconciler.name, key, error)
            self._retry(item)
        except Exception:
            _log.exception("%s failed at %s; trying again", reconciler.name, key)
            self._retry(item)
        else:
            self._failures.pop(item, None)

    def _retry(self, item: Item) -> None:
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        self.add_after(*item, min(FIRST_RETRY * 2 ** min(failures, 16), LAST_RETRY))


class Controller:
    """The base of all controllers: a name, and a place in the loop."""

    name = ""

    def __init__(self, loop: WorkLoop) -> None:
        self._loop = loop

    def enqueue(self, key: str, after: float = 0.0) -> None:
        """Look at a key soon, or after so many seconds."""
        if after > 0:
            self._loop.add_after(self, key, after)
        else:
            self._loop.add(self, key)

    def enqueue_one_of(self, key: str, size: int) -> None:
        """Look at a key because one of the `size` objects behind it has changed.

        Looking takes a time that grows with their number. Where they are many, changes are gathered, or ten thousand
        pods that start would each have all of them counted.
        """
        self.enqueue(key, 0.0 if size < FEW else size / LOOKED_AT_PER_SECOND)

    def sync(self, key: str) -> None:
        raise NotImplementedError
