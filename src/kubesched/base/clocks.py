"""Time, real and virtual.

A scheduler waits all the time: backoff, permit timeouts, lease renewals, watches. To test or simulate hours of that in
milliseconds, with the same result every time, the clock is passed in. Code gets the time from a `Clock` and waits with
plain asyncio. It does not know which clock it runs on.

Virtual time is part of the event loop: in a `VirtualLoop` a timer is due as soon as nothing else can run. So
`asyncio.sleep`, `asyncio.timeout`, `loop.call_later` and every library built on them use virtual time too.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import selectors
import time
from collections import deque
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import Executor
from contextvars import Context, copy_context
from heapq import heappop, heappush
from typing import Any, Concatenate, ParamSpec, TypeVar, TypeVarTuple, Unpack

T = TypeVar("T")
P = ParamSpec("P")
Ts = TypeVarTuple("Ts")

START = 1_767_225_600.0
"""Midnight of 1 January 2026, UTC: the default start of a virtual clock."""
POLL_INTERVAL = 100
"""How many turns pass without asking the kernel while no socket is open and no thread works."""
LONGEST_JUMP = 24 * 3600
"""The most that time moves on at once, in seconds, as in asyncio."""


class SystemClock:
    """The time of the machine."""

    now = staticmethod(time.time)
    monotonic = staticmethod(time.monotonic)
    """Called some forty times for each pod, so that a call in between would show."""

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)


class Stalled(RuntimeError):  # noqa: N818 - a state of the program, which is a bug, and no error in its input
    """All tasks wait, no timer is set and no I/O is pending. Without this error the program would hang."""


class _Timer(tuple[float, int]):
    """When a timer is due, and its number: those with equal times, of which virtual time has many, fire in the order in
    which they were set. asyncio does not define their order.

    It replaces `asyncio.TimerHandle`, which is compared in Python, some twenty times for each timer of a large
    simulation. Tuples are compared in C.
    """

    _scheduled = True
    _cancelled = False
    _source_traceback = None
    # Set by the loop, without a call, since a pod of a large simulation has five timers.
    _when: float
    _loop: VirtualLoop
    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]
    _context: Context

    def when(self) -> float:
        return self._when

    def cancelled(self) -> bool:
        return self._cancelled

    def cancel(self) -> None:
        if not self._cancelled:
            self._loop._timer_handle_cancelled(self)  # asyncio removes those from its heap
            self._cancelled = True
            self._callback, self._args = None, ()

    def _run(self) -> None:
        assert self._callback is not None
        try:
            self._context.run(self._callback, *self._args)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as error:
            self._loop.callback_failed(self, error)


class _Soon(asyncio.Handle):
    """A callback that is ready. Unlike asyncio's it does not ask the loop whether it is in debug mode."""

    __slots__ = ()

    def __init__(
        self,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        loop: asyncio.AbstractEventLoop,
        context: Context | None,
    ) -> None:
        self._callback, self._args, self._loop = callback, args, loop
        self._context = copy_context() if context is None else context
        self._cancelled, self._repr, self._source_traceback = False, None, None


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time stands still while anything can run, and jumps to the next timer when nothing can.

    Timers that are due at the same moment fire in the order in which they were set.

    Work in threads takes no virtual time: the loop waits for it. Neither does I/O inside this process. The kernel may
    need a moment for it, so an open socket gets `io_wait` real seconds to become ready before time jumps.
    """

    # Attributes of asyncio's loops, which it does not declare.
    _ready: deque[Any]
    _scheduled: list[_Timer]
    _timer_cancelled_count: int
    _timer_handle_cancelled: Callable[[_Timer], None]
    _clock_resolution: float
    _stopping: bool
    _debug: bool
    _closed: bool

    def __init__(self, io_wait: float = 0.002) -> None:
        self._now = 0.0
        self._selector_of_time = _JumpingSelector(self, io_wait)
        self.threads = 0
        self._places = itertools.count()
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._jump_waiters: list[asyncio.Future[None]] = []
        super().__init__(self._selector_of_time)
        self._selector_of_time.foreign = 0

    def time(self) -> float:
        """Virtual seconds since the loop was created."""
        return self._now

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        timer = _Timer((when, next(self._places)))
        timer._when, timer._loop, timer._callback, timer._args = when, self, callback, args
        timer._context = copy_context() if context is None else context
        heappush(self._scheduled, timer)
        return timer  # type: ignore[return-value]  # it takes the place of one

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._now + delay, callback, *args, context=context)

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        if self._debug or self._closed:
            return super().call_soon(callback, *args, context=context)
        handle = _Soon(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def _run_once(self) -> None:
        """One of asyncio's turns, then many that do not ask the kernel.

        Without sockets and threads only a signal can arrive, and a simulated day has a million turns.
        """
        super()._run_once()  # type: ignore[misc]  # asyncio does not declare it
        ready, scheduled, io = self._ready, self._scheduled, self._selector_of_time
        for _ in range(POLL_INTERVAL):
            if self._stopping or io.foreign or self.threads or self._debug:
                return
            while scheduled and scheduled[0]._cancelled:
                self._timer_cancelled_count -= 1
                heappop(scheduled)._scheduled = False
            if not ready:
                seconds = min(scheduled[0][0] - self._now, LONGEST_JUMP) if scheduled else None
                if seconds is None or seconds > 0:
                    self.nothing_ready(seconds)
            due = self._now + self._clock_resolution
            while scheduled and scheduled[0][0] < due:
                timer = heappop(scheduled)
                timer._scheduled = False
                ready.append(timer)
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                try:  # what the handle's own `_run` does, without a call
                    handle._context.run(handle._callback, *handle._args)
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as error:
                    self.callback_failed(handle, error)

    def callback_failed(self, handle: Any, error: BaseException) -> None:
        """Log the error of a callback. It ends nothing else."""
        what = f"Exception in callback {handle._callback!r}"
        self.call_exception_handler({"message": what, "exception": error, "handle": handle})

    async def idle(self, after: float = 0.0) -> None:
        """Wait until so many seconds have passed and nothing can run before more time passes."""
        if after <= 0:
            await self._wait_in(self._idle_waiters)
            return
        waiter = self.create_future()
        timer = self.call_later(after, self._idle_waiters.append, waiter)
        try:
            await waiter
        except asyncio.CancelledError:
            timer.cancel()
            raise

    async def jump(self) -> None:
        """Wait until time has moved on."""
        await self._wait_in(self._jump_waiters)

    async def _wait_in(self, waiters: list[asyncio.Future[None]]) -> None:
        waiter = self.create_future()
        waiters.append(waiter)
        await waiter

    def nothing_ready(self, seconds: float | None) -> None:
        """Called by the selector when nothing can run before time passes. Wakes those who wait for that, or jumps."""
        if self._idle_waiters:
            _wake(self._idle_waiters)
        elif seconds is None:
            raise Stalled(_stalled_message(self))
        else:
            self._now += seconds
            if self._jump_waiters:
                _wake(self._jump_waiters)

    def run_in_executor(
        self, executor: Executor | None, func: Callable[[Unpack[Ts]], T], *args: *Ts
    ) -> asyncio.Future[T]:
        future = super().run_in_executor(executor, func, *args)
        self.threads += 1
        future.add_done_callback(self._thread_done)
        return future

    async def shutdown_default_executor(self, *args: Any) -> None:
        self.threads += 1
        try:
            await super().shutdown_default_executor(*args)
        finally:
            self.threads -= 1

    def _thread_done(self, _: asyncio.Future[Any]) -> None:
        self.threads -= 1


class _JumpingSelector(selectors.BaseSelector):
    """The only place where an event loop waits. Instead of waiting it lets the loop's time jump."""

    def __init__(self, loop: VirtualLoop, io_wait: float) -> None:
        self._loop = loop
        self._real = selectors.DefaultSelector()
        self._io_wait = io_wait
        self.foreign = 0
        """The number of descriptors apart from the loop's own, which wakes it up."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = self._real.select(0)
        if ready or (timeout is not None and timeout <= 0):
            return ready
        if self._loop.threads:
            return self._real.select(None)
        if self.foreign:
            ready = self._real.select(self._io_wait)
        if not ready:
            self._loop.nothing_ready(timeout)
        return ready

    def register(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        key = self._real.register(fileobj, events, data)
        self.foreign += 1
        return key

    def unregister(self, fileobj: Any) -> selectors.SelectorKey:
        key = self._real.unregister(fileobj)
        self.foreign -= 1
        return key

    def modify(self, fileobj: Any, events: int, data: Any = None) -> selectors.SelectorKey:
        return self._real.modify(fileobj, events, data)

    def close(self) -> None:
        self._real.close()

    def get_map(self) -> Mapping[Any, selectors.SelectorKey]:
        return self._real.get_map()


def _wake(waiters: list[asyncio.Future[None]]) -> None:
    for waiter in waiters:
        if not waiter.done():
            waiter.set_result(None)
    waiters.clear()


def _stalled_message(loop: asyncio.AbstractEventLoop) -> str:
    waiting = sorted(f"  {task.get_name()}: {task.get_coro()!r}" for task in asyncio.all_tasks(loop))
    return "the program is stalled: no timer is set and every task waits for another:\n" + "\n".join(waiting)


class VirtualClock:
    """The clock of a `VirtualLoop`, with methods to let its time pass."""

    def __init__(self, loop: VirtualLoop, start: float = START) -> None:
        self._loop = loop
        self._start = start
        self.monotonic = loop.time
        """Called some sixty times for each pod, so that a call in between would show."""

    def now(self) -> float:
        return self._start + self._loop._now

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def settle(self) -> None:
        """Run everything that can run without time passing."""
        await self._loop.idle()

    async def advance(self, seconds: float) -> None:
        """Let time pass, and run everything that is due by then."""
        await self._loop.idle(seconds)

    async def run_until(self, condition: Callable[[], bool], timeout: float = 3600.0) -> None:
        """Let time pass until `condition` holds. It is checked whenever nothing can run without time passing.

        Raises TimeoutError when it does not hold after `timeout` virtual seconds.
        """
        deadline = self._loop.time() + timeout
        # Without this timer, time might have nothing to jump to.
        handle = self._loop.call_at(deadline, _nothing)
        try:
            await self.settle()
            while not condition():
                if self._loop.time() >= deadline:
                    raise TimeoutError(f"after {timeout:g} virtual seconds the condition still does not hold")
                await self._loop.jump()
                await self.settle()
        finally:
            handle.cancel()


def _nothing() -> None:
    pass


def run_virtual(main: Callable[[VirtualClock], Coroutine[Any, Any, T]], start: float = START) -> T:
    """Run `main` on virtual time, as `asyncio.run` does on real time."""
    loop = VirtualLoop()
    with asyncio.Runner(loop_factory=lambda: loop) as runner:
        return runner.run(main(VirtualClock(loop, start)))


def virtual_time(
    test: Callable[Concatenate[VirtualClock, P], Coroutine[Any, Any, T]],
) -> Callable[P, T]:
    """Decorate a coroutine function, usually a test: it runs on virtual time and gets the clock as first argument.

    pytest passes fixtures for the other parameters, by keyword.
    """

    def on_virtual_time(*args: P.args, **kwargs: P.kwargs) -> T:
        return run_virtual(lambda clock: test(clock, *args, **kwargs))

    functools.update_wrapper(on_virtual_time, test)
    # pytest must not see the first parameter: it would look for a fixture with that name.
    signature = inspect.signature(test)
    remaining = list(signature.parameters.values())[1:]
    on_virtual_time.__signature__ = signature.replace(parameters=remaining)  # type: ignore[attr-defined]  # functions may have it
    return on_virtual_time
