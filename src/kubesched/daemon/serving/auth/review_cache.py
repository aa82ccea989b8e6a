"""Caches reviews for a while, so that frequent scrapes and probes do not each send a review to the API server."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kubesched.base.clock import Clock

T = TypeVar("T")

CAPACITY = 8192


class ReviewCache(Generic[T]):
    """Results by key, each with its own lifetime. Concurrent requests for one key share a single review."""

    def __init__(self, clock: Clock, capacity: int = CAPACITY) -> None:
        self._clock = clock
        self._capacity = capacity
        self._results: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._pending: dict[Hashable, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._results)

    def __contains__(self, key: Hashable) -> bool:
        cached = self._results.get(key)
        return cached is not None and cached[0] > self._clock.monotonic()

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: Callable[[T], float]) -> T:
        """Return the cached result, or the result of `ask`. `seconds` returns its lifetime. Errors are not cached."""
        if key in self:
            return self._results[key][1]
        task = self._pending.get(key)
        if task is None:
            task = self._pending[key] = asyncio.ensure_future(self._ask(key, ask, seconds))
            task.add_done_callback(lambda _: self._pending.pop(key, None))
        # A caller that is cancelled must not cancel the review that others wait for.
        return await asyncio.shield(task)

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: Callable[[T], float]) -> T:
        result = await ask()
        ttl = seconds(result)
        if ttl > 0:
            self._results[key] = (self._clock.monotonic() + ttl, result)
            self._results.move_to_end(key)
            while len(self._results) > self._capacity:
                self._results.popitem(last=False)
        return result
