"""Simulated processes: frozen, killed and with clocks of their own, inside one event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from itertools import pairwise
from typing import Any

import pytest

from kubesched.torture.processes import ProcessClock, ProcessLoop, SimulatedProcess


def on_loop(test: Callable[[ProcessLoop], Coroutine[Any, Any, None]]) -> None:
    loop = ProcessLoop()
    try:
        loop.run_until_complete(test(loop))
    finally:
        loop.close()


async def _count(seen: list[float], clock: ProcessClock) -> None:
    try:
        while True:
            seen.append(clock.monotonic())
            await clock.sleep(1)
    finally:
        seen.append(-1)


def test_a_frozen_process_does_nothing_until_it_is_thawed() -> None:
    """While it is frozen no step of it runs, and time goes on; afterwards it continues where it was."""

    async def test(loop: ProcessLoop) -> None:
        seen: list[float] = []
        process = SimulatedProcess("one", loop)
        task = process.start(_count(seen, ProcessClock(loop)), "count")
        await asyncio.sleep(2.5)
        process.freeze()
        await asyncio.sleep(10)
        assert seen == [0, 1, 2]
        process.thaw()
        await asyncio.sleep(1.1)
        assert seen == [0, 1, 2, 12.5, 13.5]
        task.cancel()

    on_loop(test)


def test_a_timer_that_is_cancelled_after_the_thaw_does_not_fire() -> None:
    """A timer that came due in a frozen process can still be cancelled by a step that runs before it."""

    async def test(loop: ProcessLoop) -> None:
        fired: list[str] = []
        process = SimulatedProcess("one", loop)
        late = process.run(lambda: loop.call_later(2, fired.append, "late"))
        process.run(lambda: loop.call_later(1, late.cancel))
        process.run(lambda: loop.call_later(3, fired.append, "kept"))
        process.freeze()
        await asyncio.sleep(5)
        process.thaw()
        await asyncio.sleep(0.1)
        assert fired == ["kept"]

    on_loop(test)


def test_a_killed_process_cleans_nothing_up() -> None:
    """Nothing of a killed process runs again, not even its finally blocks."""

    async def test(loop: ProcessLoop) -> None:
        seen: list[float] = []
        process = SimulatedProcess("one", loop)
        task = process.start(_count(seen, ProcessClock(loop)), "count")
        await asyncio.sleep(1.5)
        process.kill()
        task.cancel()
        await asyncio.sleep(5)
        assert seen == [0, 1]
        process.thaw()  # so that the task can end with the test
        await asyncio.wait([task])

    on_loop(test)


@pytest.mark.parametrize("rate", [0.9, 0.95, 1.05, 1.1])
def test_clocks_drift(rate: float) -> None:
    """A process with a fast clock waits shorter; it never wakes up before its own clock says so."""

    async def test(loop: ProcessLoop) -> None:
        seen: list[float] = []
        process = SimulatedProcess("one", loop, rate)
        task = process.start(_count(seen, ProcessClock(loop)), "count")
        await asyncio.sleep(10.5)
        assert seen == pytest.approx(list(range(len(seen))))
        assert len(seen) == int(10.5 * rate) + 1
        assert all(later >= earlier + 1 for earlier, later in pairwise(seen))
        process.drift(1.0)
        task.cancel()

    on_loop(test)


def test_the_wall_clock_jumps_alone() -> None:
    """A jump of the wall clock changes dates and no waits."""

    async def test(loop: ProcessLoop) -> None:
        clock = ProcessClock(loop)
        process = SimulatedProcess("one", loop)
        before = process.run(clock.now)
        process.wall_offset = -3600.0
        assert process.run(clock.now) == before - 3600
        assert clock.now() == before
        assert process.run(clock.monotonic) == 0

    on_loop(test)
