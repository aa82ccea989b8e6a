"""Simulated processes inside one event loop: each can be frozen, killed at any await, and have a clock of its own.

A context variable says which process a callback belongs to. The loop holds back the callbacks of a frozen process and
drops those of a dead one, as SIGSTOP and SIGKILL do: between any two steps, without running a single `finally`.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Coroutine
from contextvars import Context, ContextVar, copy_context
from enum import Enum
from typing import Any, TypeVar, TypeVarTuple, Unpack

from kubesched.base.clocks import START, VirtualLoop

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

PROCESS: ContextVar[SimulatedProcess | None] = ContextVar("process", default=None)


class ProcessState(Enum):
    RUNNING = "running"
    FROZEN = "frozen"
    DEAD = "dead"


class SimulatedProcess:
    """One simulated process: its state, and its clocks."""

    def __init__(self, name: str, loop: ProcessLoop, rate: float = 1.0) -> None:
        self.name = name
        self.state = ProcessState.RUNNING
        self.tasks: list[asyncio.Task[Any]] = []
        self.steps = 0
        """How many steps it has been given. As long as this does not change, neither does anything in the process."""
        self.wall_offset = 0.0
        """How far the wall clock is off, in seconds."""
        self._loop = loop
        self._rate = rate
        self._real_base = self._own_base = loop.real_time
        self._held: list[asyncio.Handle] = []
        self._context = copy_context()
        self._context.run(PROCESS.set, self)

    def run(self, act: Callable[[], T]) -> T:
        """Call a function as if this process did."""
        return self._context.run(act)

    def start(self, work: Coroutine[Any, Any, T], name: str) -> asyncio.Task[T]:
        """Start a task of this process."""
        task = self._loop.create_task(work, name=f"{self.name}: {name}", context=self._context.copy())
        self.tasks.append(task)
        return task

    # --- clocks -------------------------------------------------------------------------------------------------------

    def own_time(self, real: float) -> float:
        """The monotonic clock of this process, which may drift."""
        return self._own_base + (real - self._real_base) * self._rate

    def real_time(self, own: float) -> float:
        """When the clock of this process will show `own`, and not a rounding error earlier."""
        real = self._real_base + (own - self._own_base) / self._rate
        while self.own_time(real) < own:
            real = math.nextafter(real, math.inf)
        return real

    def drift(self, rate: float) -> None:
        """Let the clock run faster or slower from now on."""
        real = self._loop.real_time
        self._own_base, self._real_base = self.own_time(real), real
        self._rate = rate

    # --- signals ------------------------------------------------------------------------------------------------------

    def freeze(self) -> None:
        """Run nothing more, until `thaw`."""
        self.state = ProcessState.FROZEN
        self._held += self._loop.take_ready(self)

    def thaw(self) -> None:
        """Continue where `freeze` stopped."""
        self.state = ProcessState.RUNNING
        held, self._held = self._held, []
        self._loop.put_ready(held)

    def thaw_if_frozen(self) -> None:
        if self.state is ProcessState.FROZEN:
            self.thaw()

    def kill(self) -> None:
        """End between two steps."""
        self.freeze()
        self.state = ProcessState.DEAD

    def hold(self, handle: asyncio.Handle) -> None:
        self._held.append(handle)


class ProcessLoop(VirtualLoop):
    """Virtual time, and callbacks that belong to processes."""

    on_idle: Callable[[], None] | None = None
    """Called when nothing can run before time passes. If it makes something ready, time stands still."""

    def nothing_ready(self, seconds: float | None) -> None:
        if self.on_idle is not None:
            self.on_idle()
        if not self._ready:
            super().nothing_ready(seconds)

    @property
    def real_time(self) -> float:
        """Virtual seconds, whatever the clock of a process shows."""
        return self._now

    def time(self) -> float:
        process = PROCESS.get()
        return self._now if process is None else process.own_time(self._now)

    def call_soon(
        self, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.Handle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_soon(callback, *args, context=context)
        process.steps += 1
        if process.state is ProcessState.RUNNING:
            return super().call_soon(callback, *args, context=context)
        handle = asyncio.Handle(callback, args, self, context)
        process.hold(handle)
        return handle

    def call_later(
        self, delay: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self, when: float, callback: Callable[[Unpack[Ts]], object], *args: *Ts, context: Context | None = None
    ) -> asyncio.TimerHandle:
        process = PROCESS.get() if context is None else context.get(PROCESS)
        if process is None:
            return super().call_at(when, callback, *args, context=context)
        own: list[asyncio.TimerHandle] = []
        timer = super().call_at(process.real_time(when), self._due, own, callback, args, context=context)
        own.append(timer)
        return timer

    def _due(self, own: list[asyncio.TimerHandle], callback: Callable[..., object], args: tuple[Any, ...]) -> None:
        """A timer of a process is due. While the process is frozen the timer itself is held back, so that it does not
        fire if it is cancelled after the thaw and before its turn."""
        process = PROCESS.get()
        assert process is not None
        process.steps += 1
        if process.state is ProcessState.RUNNING:
            own.clear()
            callback(*args)
        else:
            process.hold(own[0])

    def take_ready(self, process: SimulatedProcess) -> list[asyncio.Handle]:
        """Take the callbacks of a process out of those that are ready."""
        ready: Any = self._ready
        taken = [handle for handle in ready if handle._context.get(PROCESS) is process]
        kept = [handle for handle in ready if handle._context.get(PROCESS) is not process]
        ready.clear()
        ready.extend(kept)
        return taken

    def put_ready(self, handles: list[asyncio.Handle]) -> None:
        """Make callbacks ready again."""
        self._ready.extend(handle for handle in handles if not handle.cancelled())


class ProcessClock:
    """The clocks that the code of a process reads. Outside of processes, true time."""

    def __init__(self, loop: ProcessLoop, start: float = START) -> None:
        self._loop = loop
        self._start = start

    def now(self) -> float:
        process = PROCESS.get()
        return self._start + self._loop.real_time + (0.0 if process is None else process.wall_offset)

    def monotonic(self) -> float:
        return self._loop.time()

    async def sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)
