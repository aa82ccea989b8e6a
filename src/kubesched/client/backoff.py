"""How long to wait before trying again, as client-go's reflectors do: longer each time, spread by chance."""

from __future__ import annotations

import random

from kubesched.base.clock import Clock

FIRST = 0.8
LONGEST = 30.0
FORGOTTEN_AFTER = 120.0


class Backoff:
    """Waits of 0.8 s doubling up to 30 s, each stretched by up to its own length so that clients do not come together.

    After two minutes without trouble it begins anew.
    """

    def __init__(self, clock: Clock, chance: random.Random) -> None:
        self._clock = clock
        self._chance = chance
        self._next = FIRST
        self._last = float("-inf")

    def delay(self) -> float:
        """The seconds to wait now."""
        now = self._clock.monotonic()
        if now - self._last >= FORGOTTEN_AFTER:
            self._next = FIRST
        delay = self._next * (1 + self._chance.random())
        self._last = now + delay
        self._next = min(self._next * 2, LONGEST)
        return delay

    async def wait(self, at_least: float = 0.0) -> None:
        """Wait for `delay` seconds, or longer if somebody asked for it."""
        await self._clock.sleep(max(self.delay(), at_least))
