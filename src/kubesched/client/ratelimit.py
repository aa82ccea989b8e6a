"""The rate limit of clientConnection: a number of requests per second, and a burst above it.

It protects the API server from a scheduler that sends many requests at once.
"""

from __future__ import annotations

from kubesched.base.clock import Clock

DEFAULT_QPS = 5.0
DEFAULT_BURST = 10


class TokenBucket:
    """Hands out tokens in the order of requests. A caller waits exactly until its token is available.

    As upstream, a rate of 0 means the default rate and a negative rate means no limit.
    """

    def __init__(self, qps: float, burst: int, clock: Clock) -> None:
        self.qps = qps or DEFAULT_QPS
        self.burst = burst or DEFAULT_BURST
        self._clock = clock
        self._tokens = float(self.burst)
        self._updated = clock.monotonic()

    def try_acquire(self) -> bool:
        """Take a token if there is one."""
        if self.qps < 0:
            return True
        now = self._clock.monotonic()
        tokens = min(self._tokens + (now - self._updated) * self.qps, self.burst)
        self._updated = now
        if tokens < 1:
            self._tokens = tokens
            return False
        self._tokens = tokens - 1
        return True

    async def acquire(self) -> float:
        """Take a token; wait if there is none. Returns the seconds that it waited."""
        if self.try_acquire():
            return 0.0
        self._tokens -= 1
        began = self._clock.monotonic()
        try:
            await self._clock.sleep(-self._tokens / self.qps)
        except BaseException:
            # A caller that gives up leaves its token to those behind it.
            self._tokens = min(self._tokens + 1, float(self.burst))
            raise
        return self._clock.monotonic() - began
