"""The interface to time. A clock is passed in, so that a simulation can use its own."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time, real or virtual; `kubesched.base.clocks` has both."""

    def now(self) -> float:
        """Seconds since the epoch."""
        ...

    def monotonic(self) -> float:
        """Seconds from an arbitrary start, never going back."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        ...
