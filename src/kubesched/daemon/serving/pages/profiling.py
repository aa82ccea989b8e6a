"""Profiles of a Python process for /debug/pprof: CPU time, memory, and the stacks of tasks and threads.

A profile is sampled: a thread reads the stack of the scheduling thread a hundred times a second. That costs next to
nothing, so a busy scheduler can be profiled. The result has one line per stack with a count. Flame graph tools and
speedscope read it; ``go tool pprof`` does not.
"""

from __future__ import annotations

import asyncio
import io
import json
import sys
import threading
import tracemalloc
from collections import Counter
from types import FrameType
from typing import Final

INTERVAL: Final = 0.01
TOP: Final = 100
Stack = tuple[str, ...]


class StackSampler(threading.Thread):
    """Counts the stacks of a thread until it is stopped."""

    def __init__(self, thread_id: int, interval: float = INTERVAL) -> None:
        super().__init__(name="profiler", daemon=True)
        self._thread_id = thread_id
        self._interval = interval
        self._end = threading.Event()
        self.stacks: Counter[Stack] = Counter()

    def run(self) -> None:
        while not self._end.wait(self._interval):
            frame = sys._current_frames().get(self._thread_id)
            if frame is not None:
                self.stacks[_stack(frame)] += 1

    def stop(self) -> None:
        """Stop, and wait until the thread has ended."""
        self._end.set()
        self.join()


def _stack(frame: FrameType | None) -> Stack:
    names: list[str] = []
    while frame is not None:
        code = frame.f_code
        module = frame.f_globals.get("__name__", "?")
        names.append(f"{module}.{code.co_qualname}:{frame.f_lineno}")
        frame = frame.f_back
    return tuple(reversed(names))


async def sample(seconds: float) -> Counter[Stack]:
    """Sample the stacks of this thread for some seconds."""
    sampler = StackSampler(threading.get_ident())
    sampler.start()
    try:
        await asyncio.sleep(seconds)
    finally:
        sampler.stop()
    return sampler.stacks


def collapsed(stacks: Counter[Stack]) -> str:
    """Return one line per stack: frames separated by semicolons, then the number of samples."""
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items()))


def speedscope(stacks: Counter[Stack], interval: float = INTERVAL) -> str:
    """Return the same as a file for speedscope.app."""
    frames: dict[str, int] = {}
    samples = [[frames.setdefault(name, len(frames)) for name in stack] for stack in stacks]
    weights = [count * interval for count in stacks.values()]
    profile = {
        "type": "sampled",
        "name": "kubesched",
        "unit": "seconds",
        "startValue": 0,
        "endValue": sum(weights),
        "samples": samples,
        "weights": weights,
    }
    return json.dumps(
        {
            "$schema": "https://www.speedscope.app/file-format-schema.json",
            "shared": {"frames": [{"name": name} for name in frames]},
            "profiles": [profile],
            "exporter": "kubesched",
        }
    )


async def exact(seconds: float) -> bytes:
    """Record every call for some seconds, for ``python -m pstats``. Meanwhile the process is slower."""
    import cProfile
    import marshal

    profile = cProfile.Profile()
    profile.enable()
    try:
        await asyncio.sleep(seconds)
    finally:
        profile.disable()
    profile.create_stats()
    return marshal.dumps(profile.stats)


async def heap(seconds: float) -> str:
    """List lines of code by the memory that they allocated during some seconds and that is still in use.

    Tracing costs time and memory, so it is on only during the request. With PYTHONTRACEMALLOC it is always on, and
    everything since the start is counted.
    """
    mine = not tracemalloc.is_tracing()
    if mine:
        tracemalloc.start()
        await asyncio.sleep(seconds)
    try:
        snapshot = tracemalloc.take_snapshot()
        held, peak = tracemalloc.get_traced_memory()
    finally:
        if mine:
            tracemalloc.stop()
    since = f"in the last {seconds:g} s" if mine else "since the start"
    lines = [f"allocated {since} and in use: {held} bytes, peak {peak}"]
    lines += [
        f"{each.size:>12} bytes {each.count:>8} blocks  {each.traceback[0]}"
        for each in snapshot.statistics("lineno")[:TOP]
    ]
    return "\n".join(lines) + "\n"


def tasks() -> str:
    """Return the stacks of all tasks and threads."""
    out = io.StringIO()
    everything = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    out.write(f"tasks: {len(everything)}\n\n")
    for task in everything:
        task.print_stack(file=out)
        out.write("\n")
    out.write(threads())
    return out.getvalue()


def threads() -> str:
    """Return the stacks of all threads."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    parts = [f"threads: {len(frames)}\n"]
    for ident, frame in frames.items():
        lines = "".join(f"  {name}\n" for name in reversed(_stack(frame)))
        parts.append(f"thread {names.get(ident, ident)}:\n{lines}")
    return "\n".join(parts)


def describe() -> dict[str, str]:
    """Return the profiles and what each shows."""
    return {
        "cmdline": "The command line of this process",
        "goroutine": "The current stacks of all tasks and threads",
        "heap": "Memory by the line that allocated it during ?seconds=5, or since the start with PYTHONTRACEMALLOC=1",
        "profile": "CPU time, sampled during ?seconds=30: collapsed stacks, or &format=speedscope, or "
        "&format=pstats, which records every call",
        "threadcreate": "The stacks of all threads",
    }
