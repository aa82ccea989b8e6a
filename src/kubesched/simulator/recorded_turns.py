"""Lets the tasks of a scheduler go on when those of the recorded scheduler did."""

from __future__ import annotations

import asyncio
from collections import defaultdict, deque

from kubesched.base.types import JSON


class RecordedTurns:
    """Every task waits for its turn in the recording."""

    def __init__(self) -> None:
        self.free: set[str] = set()
        """Names of tasks that are not in the recording, and go on at once."""
        self._waiting: dict[tuple[str, str], deque[asyncio.Future[None]]] = defaultdict(deque)

    async def take(self, what: str, name: str) -> None:
        """Wait for the turn of a task."""
        if name not in self.free:
            turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting[what, name].append(turn)
            await turn

    def grant(self, taken: JSON) -> None:
        """The next recorded turn. A task that is not there, because the decisions differ, misses it."""
        waiting = self._waiting.pop((taken["turn"], taken["name"]), None)
        while waiting:
            turn = waiting.popleft()
            if not turn.done():  # cancelled
                turn.set_result(None)
                break
        if waiting:
            self._waiting[taken["turn"], taken["name"]] = waiting
