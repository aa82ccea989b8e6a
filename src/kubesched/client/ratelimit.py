"""The limit that clientConnection puts on a client: so many requests a second, and a burst above that.

It protects an API server from a scheduler that has much to say at once, before the server must protect itself.
"""

from __future__ import annotations

from kubesched.base.clock import Clock

DEFAULT_QPS = 5.0
DEFAULT_BURST = 10


class TokenBucket:
    """Who asks first is served first; a wait is exactly as long as it takes for a token to be there.

    As upstream, a rate of 0 means the default rate and a negative one means no limit.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self.qps = qps or DEFAULT_QPS
        self.burst = burst or DEFAULT_BURST
        self._clock = clock
        self._tokens = float(self.burst)
        self._updated = clock.monotonic()

    async def acquire(self) -> None:
        """Take a token, waiting for it if need be."""
        if self.qps < 0:
            return
        self._refill()
        self._tokens -= 1
        if self._tokens >= 0:
            return
        try:
            await self._clock.sleep(-self._tokens / self.qps)
        except BaseException:
            # Whoever gives up waiting leaves the token to those behind.
            self._tokens = min(self._tokens + 1, float(self.burst))
            raise

    def _refill(self) -> None:
        now = self._clock.monotonic()
        self._tokens = min(self._tokens + (now - self._updated) * self.qps, float(self.burst))
        self._updated = now
