"""Stalls of the event loop: how long it was busy with one thing, so that everything else had to wait.

A timer is due every few milliseconds. How late it fires is the length of the stall, short by at most its period.
"""

from __future__ import annotations

import asyncio
import time
from typing import Final

from kubesched.scheduler.metric_types import Gauge, Histogram
from kubesched.scheduler.metrics import Metrics

PERIOD: Final = 0.01
SHORTEST: Final = 0.005
"""Shorter delays are not recorded: the machine itself causes many."""
WINDOW: Final = 60.0
BUCKETS: Final = [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0]


class StallWatch:
    """Measures the stalls of the event loop it is started in, from `start` to `stop`."""

    def __init__(self, metrics: Metrics) -> None:
        self._seconds = metrics.add(
            Histogram(
                "kubesched_event_loop_stall_seconds",
                "How long the event loop was busy with one thing, for each time that it was longer than 5 ms.",
                BUCKETS,
            )
        )
        self._longest = metrics.add(
            Gauge(
                "kubesched_event_loop_longest_stall_seconds",
                "The longest stall of the event loop in the last one to two minutes.",
            )
        )
        self._handle: asyncio.TimerHandle | None = None
        self._due = 0.0
        self._current = self._previous = 0.0
        self._window_ends = time.monotonic() + WINDOW

    def start(self) -> None:
        """Begin to measure."""
        self._due = time.monotonic() + PERIOD
        self._handle = asyncio.get_running_loop().call_later(PERIOD, self._beat)

    def stop(self) -> None:
        """End it."""
        if self._handle is not None:
            self._handle.cancel()

    def _beat(self) -> None:
        now = time.monotonic()
        self.observe(now - self._due, now)
        self.start()

    def observe(self, stall: float, now: float) -> None:
        """Record a stall that ended now."""
        if now >= self._window_ends:
            self._window_ends = now + WINDOW
            self._previous, self._current = self._current, 0.0
            self._longest.set((), self._previous)
        if stall >= SHORTEST:
            self._seconds.observe((), stall)
            if stall > self._current:
                self._current = stall
                self._longest.set((), max(stall, self._previous))
