"""One work loop for all controllers: a queue of object keys that may need work, first in, first out.

Reconciling is level-triggered. A key says that an object may have changed, never how. A reconciler compares the desired
state with the actual state and does what is missing, so calling it too often is harmless. It never awaits, so it sees a
consistent state.
"""

from __future__ import annotations

import asyncio
import logging
from typing import Protocol

from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clock import Clock

_log = logging.getLogger(__name__)

KEYS_PER_TURN = 64
"""Keys handled before other tasks get a turn. A count, not a duration, so that runs are reproducible."""
SMALL_GROUP, OBJECTS_PER_SECOND = 200, 10_000
MIN_RETRY_SECONDS, MAX_RETRY_SECONDS = 0.005, 60.0


class Reconciler(Protocol):
    """Brings one object and its dependents to the desired state."""

    name: str

    def sync(self, key: str) -> None:
        """Do what is missing. If it raises, the key is retried later."""
        ...


Item = tuple[Reconciler, str]


class WorkLoop:
    """Runs reconcilers on their keys. `add` may be called before `run`."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._items: dict[Item, None] = {}
        self._timers: dict[Item, tuple[float, asyncio.TimerHandle]] = {}
        self._failures: dict[Item, int] = {}
        self._wake = asyncio.Event()

    def add(self, reconciler: Reconciler, key: str) -> None:
        """Queue a key. A key that is already queued keeps its place."""
        self._items[reconciler, key] = None
        self._wake.set()

    def add_after(self, reconciler: Reconciler, key: str, seconds: float) -> None:
        """Queue a key after a delay. If several delays are pending, the earliest wins."""
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
        """Whether the queue is empty."""
        return not self._items

    async def run(self) -> None:
        """Reconcile until cancelled."""
        try:
            while True:
                handled = 0
                while self._items:
                    self._sync_next()
                    handled += 1
                    if handled % KEYS_PER_TURN == 0:
                        await asyncio.sleep(0)
                self._wake.clear()
                await self._wake.wait()
        finally:
            for _, timer in self._timers.values():
                timer.cancel()

    def _sync_next(self) -> None:
        item = next(iter(self._items))
        del self._items[item]
        reconciler, key = item
        try:
            reconciler.sync(key)
        except StatusError as error:
            _log.debug("%s: %s: %s", reconciler.name, key, error)
            self._retry(item)
        except Exception:
            _log.exception("%s failed on %s; will retry", reconciler.name, key)
            self._retry(item)
        else:
            self._failures.pop(item, None)

    def _retry(self, item: Item) -> None:
        failures = self._failures[item] = self._failures.get(item, 0) + 1
        self.add_after(*item, min(MIN_RETRY_SECONDS * 2 ** min(failures, 16), MAX_RETRY_SECONDS))


class Controller:
    """Base class of all controllers."""

    name = ""

    def __init__(self, loop: WorkLoop) -> None:
        self._loop = loop

    def enqueue(self, key: str, after: float = 0.0) -> None:
        """Queue a key, optionally after a delay in seconds."""
        if after > 0:
            self._loop.add_after(self, key, after)
        else:
            self._loop.add(self, key)

    def enqueue_one_of(self, key: str, size: int) -> None:
        """Queue a key because one of the `size` objects it owns has changed.

        Reconciling takes time proportional to `size`. For large groups the delay batches changes; otherwise each of ten
        thousand starting pods would cause all of them to be counted.
        """
        self.enqueue(key, 0.0 if size < SMALL_GROUP else size / OBJECTS_PER_SECOND)

    def sync(self, key: str) -> None:
        raise NotImplementedError
