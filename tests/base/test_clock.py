"""Virtual time: jumps when nothing can run, is exact and repeatable, and says so when a program hangs."""

import asyncio
import random
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubesched.base.clocks import START, Stalled, SystemClock, VirtualClock, run_virtual, virtual_time


@virtual_time
async def test_hours_pass_in_no_time(clock: VirtualClock) -> None:
    """A sleep of hours takes exactly those hours on the virtual clock and next to nothing on the real one."""
    began = time.monotonic()
    await clock.sleep(5 * 3600.0)
    assert clock.monotonic() == 5 * 3600.0
    assert clock.now() == START + 5 * 3600.0
    assert time.monotonic() - began < 3600


@virtual_time
async def test_plain_asyncio_runs_on_virtual_time(clock: VirtualClock) -> None:
    """Timeouts of asyncio fire at their virtual time."""
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(90):
            await asyncio.Event().wait()
    assert clock.monotonic() == 90.0


@given(st.lists(st.floats(0.0, 1e6), min_size=1, max_size=20))
def test_timers_fire_in_order_at_their_moment(delays: list[float]) -> None:
    """Whatever the delays, sleepers wake in the order of their times, to the nanosecond."""

    async def main(clock: VirtualClock) -> list[tuple[float, float]]:
        woken: list[tuple[float, float]] = []

        async def sleeper(delay: float) -> None:
            await asyncio.sleep(delay)
            woken.append((delay, clock.monotonic()))

        await asyncio.gather(*map(sleeper, delays))
        return woken

    woken = run_virtual(main)
    assert [delay for delay, _ in woken] == sorted(delays)
    assert all(abs(delay - moment) < 1e-8 for delay, moment in woken)


@virtual_time
async def test_timers_of_one_moment_fire_in_the_order_in_which_they_were_set(clock: VirtualClock) -> None:
    """The timer that was set first fires first, also when earlier ones were cancelled."""
    loop = asyncio.get_running_loop()
    fired: list[int] = []
    timers = [loop.call_at(5.0 + number % 2, fired.append, number) for number in range(300)]
    for timer in timers[::3]:
        timer.cancel()
    await clock.advance(6)
    left = [number for number in range(300) if number % 3]
    assert fired == [number for number in left if number % 2 == 0] + [number for number in left if number % 2]


def test_two_runs_are_the_same() -> None:
    """The same program with the same seed interleaves in the same way."""

    async def main(_: VirtualClock) -> list[int]:
        chance, order = random.Random(7), []

        async def worker(number: int) -> None:
            for _ in range(5):
                await asyncio.sleep(chance.choice((0, 0.5, 1)))
                order.append(number)

        await asyncio.gather(*map(worker, range(6)))
        return order

    assert run_virtual(main) == run_virtual(main)


@virtual_time
async def test_settle_runs_what_can_run_now(clock: VirtualClock) -> None:
    """Settling runs a chain of ready tasks, but no time passes and no timer fires."""
    seen: list[str] = []

    async def chain(steps: int) -> None:
        for step in range(steps):
            await asyncio.sleep(0)
            seen.append(f"step {step}")
        await asyncio.sleep(1)
        seen.append("later")

    task = asyncio.create_task(chain(30))
    await clock.settle()
    assert len(seen) == 30
    assert clock.monotonic() == 0.0
    await task


@virtual_time
async def test_advance_includes_its_last_moment(clock: VirtualClock) -> None:
    """Advancing by a second also runs what is due at its end, and what that triggers at once."""
    seen: list[str] = []

    async def later() -> None:
        await asyncio.sleep(1)
        await asyncio.sleep(0)
        seen.append("done")

    task = asyncio.create_task(later())
    await clock.advance(1)
    assert seen == ["done"]
    assert clock.monotonic() == 1.0
    await task


@virtual_time
async def test_advancing_can_be_cancelled(clock: VirtualClock) -> None:
    """Who no longer waits for a moment is not woken at it, and others are."""
    given_up, other = asyncio.create_task(clock.advance(2)), asyncio.create_task(clock.advance(2))
    await clock.advance(1)
    given_up.cancel()
    await other
    assert given_up.cancelled()
    assert clock.monotonic() == 2.0


@virtual_time
async def test_run_until_stops_at_the_moment_the_condition_holds(clock: VirtualClock) -> None:
    """The clock stands at the timer that made the condition true, not later."""
    seen: list[int] = []

    async def ticking() -> None:
        for number in range(100):
            await asyncio.sleep(10)
            seen.append(number)

    task = asyncio.create_task(ticking())
    await clock.run_until(lambda: len(seen) == 3)
    assert clock.monotonic() == 30.0
    task.cancel()


@virtual_time
async def test_run_until_gives_up(clock: VirtualClock) -> None:
    """A condition that never holds ends in TimeoutError at the virtual deadline, even when nothing else happens."""
    with pytest.raises(TimeoutError, match="after 60 virtual seconds"):
        await clock.run_until(lambda: False, timeout=60)
    assert clock.monotonic() == 60.0


def test_a_hanging_program_is_told_so() -> None:
    """When every task waits for another, an error names them."""

    async def main(_: VirtualClock) -> None:
        await asyncio.create_task(asyncio.Event().wait(), name="waits for ever")

    with pytest.raises(Stalled, match="waits for ever"):
        run_virtual(main)


@virtual_time
async def test_threads_take_no_virtual_time(clock: VirtualClock) -> None:
    """While a thread works, time does not jump past a timer that is set."""
    release = threading.Event()
    timer = asyncio.create_task(asyncio.sleep(1))

    def work() -> str:
        release.wait(0.02)
        return "done"

    assert await asyncio.to_thread(work) == "done"
    assert clock.monotonic() == 0.0
    await timer


@virtual_time
async def test_sockets_take_no_virtual_time(clock: VirtualClock) -> None:
    """An exchange over loopback ends before a timer of a millisecond fires."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            writer.write(line)
        writer.close()

    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    timer = asyncio.create_task(asyncio.sleep(0.001))
    reader, writer = await asyncio.open_connection(host, port)
    for number in range(50):
        writer.write(b"%d\n" % number)
        assert await reader.readline() == b"%d\n" % number
    assert clock.monotonic() == 0.0
    writer.close()
    await writer.wait_closed()
    server.close()
    await server.wait_closed()
    await timer


async def test_the_system_clock_is_real() -> None:
    """The system clock moves with the machine's and really waits."""
    clock = SystemClock()
    before, wall = clock.monotonic(), clock.now()
    await clock.sleep(0.01)
    assert clock.monotonic() - before >= 0.009
    assert wall <= clock.now() <= time.time()


@pytest.mark.parametrize("number", [1, 2])
@virtual_time
async def test_fixtures_reach_a_test_on_virtual_time(clock: VirtualClock, number: int) -> None:
    """pytest provides every parameter but the clock."""
    await clock.sleep(number)
    assert clock.monotonic() == number
