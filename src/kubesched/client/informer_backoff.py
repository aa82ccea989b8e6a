"""How long to wait before a retry, as client-go's reflectors do: longer each time, with jitter."""

from __future__ import annotations

import random

from kubesched.base.clock import Clock

FIRST = 0.8
LONGEST = 30.0
RESET_AFTER = 120.0


class Backoff:
    """Delays of 0.8 s, doubling up to 30 s. Jitter of up to 100 % keeps clients from retrying all at once.

    After two minutes without a failure it starts over.
    """

    def __init__(self, clock: Clock, chance: random.Random) -> None:
        self._clock = clock
        self._chance = chance
        self._next = FIRST
        self._last = float("-inf")

    def delay(self) -> float:
        """The delay before the next retry, in seconds."""
        now = self._clock.monotonic()
        if now - self._last >= RESET_AFTER:
            self._next = FIRST
        delay = self._next * (1 + self._chance.random())
        self._last = now + delay
        self._next = min(self._next * 2, LONGEST)
        return delay

    async def wait(self, at_least: float = 0.0) -> None:
        """Wait for `delay` seconds, but at least `at_least`, which a server may have asked for."""
        await self._clock.sleep(max(self.delay(), at_least))
