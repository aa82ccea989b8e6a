"""The work loop: order, batching and retries; and the cache."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

import pytest

from kubesched.apiserver.storage.store import Store
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clocks import VirtualClock, virtual_time
from kubesched.reconcile.cache import Cache
from kubesched.reconcile.loop import Controller, WorkLoop
from kubesched.reconcile.views import Pod


class Notes(Controller):
    """Records when it was called with which key, and may fail."""

    name = "notes"

    def __init__(self, loop: WorkLoop, clock: VirtualClock) -> None:
        super().__init__(loop)
        self._clock = clock
        self.seen: list[tuple[float, str]] = []
        self.problem: Exception | None = None

    def sync(self, key: str) -> None:
        self.seen.append((round(self._clock.monotonic(), 3), key))
        if self.problem is not None:
            raise self.problem


@asynccontextmanager
async def running(clock: VirtualClock) -> AsyncIterator[Notes]:
    """A loop with one controller."""
    loop = WorkLoop(clock)
    task = asyncio.create_task(loop.run())
    yield Notes(loop, clock)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task


@virtual_time
async def test_keys_are_taken_once_and_in_order(clock: VirtualClock) -> None:
    """A queued key keeps its place when it is added again."""
    async with running(clock) as notes:
        for key in ("a", "b", "a", "c", "b"):
            notes.enqueue(key)
        await clock.settle()
        assert [key for _, key in notes.seen] == ["a", "b", "c"]


@virtual_time
async def test_of_several_times_the_earliest_counts(clock: VirtualClock) -> None:
    """Of several delays for a key the earliest wins, and the key is handled once."""
    async with running(clock) as notes:
        for seconds in (5.0, 2.0, 9.0):
            notes.enqueue("a", seconds)
        await clock.advance(20)
        assert notes.seen == [(2.0, "a")]


@virtual_time
async def test_changes_among_many_are_gathered(clock: VirtualClock) -> None:
    """Changes of a large group are batched, those of a small group are not."""
    async with running(clock) as notes:
        for _ in range(1000):
            notes.enqueue_one_of("many", 5000)
            await asyncio.sleep(0.0001)
        await clock.advance(1)
        assert len(notes.seen) == 1
        notes.seen.clear()
        for _ in range(3):
            notes.enqueue_one_of("few", 10)
            await clock.settle()
        assert len(notes.seen) == 3


@virtual_time
async def test_what_is_refused_is_tried_again_ever_later(clock: VirtualClock) -> None:
    """Retry delays double up to a minute and are reset by a success."""
    async with running(clock) as notes:
        notes.problem = StatusError(409, "not now")
        notes.enqueue("a")
        await clock.advance(600)
        waits = [after - before for (before, _), (after, _) in zip(notes.seen, notes.seen[1:], strict=False)]
        assert waits[:3] == pytest.approx([0.01, 0.02, 0.04], abs=0.002)
        assert max(waits) == pytest.approx(60.0)
        notes.problem = None
        await clock.advance(120)
        notes.seen.clear()
        notes.problem = StatusError(409, "again")
        notes.enqueue("a")
        await clock.advance(0.02)
        assert len(notes.seen) == 2


@virtual_time
async def test_a_mistake_in_one_does_not_stop_the_others(clock: VirtualClock, caplog: pytest.LogCaptureFixture) -> None:
    """An exception is logged with the key, and the loop goes on."""
    async with running(clock) as notes:
        notes.problem = ZeroDivisionError("a mistake")
        notes.enqueue("a")
        notes.enqueue("b")
        await clock.settle()
        assert [key for _, key in notes.seen] == ["a", "b"]
        assert "notes failed on a; will retry" in caplog.text


@virtual_time
async def test_an_object_that_cannot_be_decoded_is_ignored(
    clock: VirtualClock, caplog: pytest.LogCaptureFixture
) -> None:
    """The error is logged, the write succeeds, and a later valid version is cached."""
    store = Store()
    cache = Cache(store.shelf("/pods"), Pod)
    names = cache.index(lambda pod: (pod.metadata.name,))
    meta = {"name": "p", "namespace": "default"}
    with caplog.at_level(logging.ERROR):
        store.put("/pods", "default/p", {"metadata": meta, "spec": {"containers": "none"}})
    assert cache.get("default/p") is None
    assert "spec.containers" in caplog.text
    store.put("/pods", "default/p", {"metadata": meta, "spec": {"nodeName": "n"}})
    assert names.size("p") == 1
    store.delete("/pods", "default/p")
    assert names.get("p") == []
