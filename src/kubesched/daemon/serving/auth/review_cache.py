"""Remembering answers for a while, so that a scraper or a flood of probes does not become a flood of reviews."""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from typing import Generic, TypeVar

from kubesched.base.clock import Clock

T = TypeVar("T")

MOST = 8192


class ReviewCache(Generic[T]):
    """Answers by key, each for its own time. Who asks while an answer is on its way waits for the same one."""

    def __init__(self, clock: Clock, most: int = MOST) -> None:
        self._clock = clock
        self._most = most
        self._answers: OrderedDict[Hashable, tuple[float, T]] = OrderedDict()
        self._under_way: dict[Hashable, asyncio.Task[T]] = {}

    def __len__(self) -> int:
        return len(self._answers)

    async def get(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: Callable[[T], float]) -> T:
        """The answer to `key`, from memory or by asking; `seconds` says how long to remember it. Errors are not."""
        known = self._answers.get(key)
        if known is not None and known[0] > self._clock.monotonic():
            return known[1]
        task = self._under_way.get(key)
        if task is None:
            task = self._under_way[key] = asyncio.ensure_future(self._ask(key, ask, seconds))
            task.add_done_callback(lambda _: self._under_way.pop(key, None))
        # One who goes away must not take the answer from the others.
        return await asyncio.shield(task)

    async def _ask(self, key: Hashable, ask: Callable[[], Awaitable[T]], seconds: Callable[[T], float]) -> T:
        answer = await ask()
        keep = seconds(answer)
        if keep > 0:
            self._answers[key] = (self._clock.monotonic() + keep, answer)
            self._answers.move_to_end(key)
            while len(self._answers) > self._most:
                self._answers.popitem(last=False)
        return answer
