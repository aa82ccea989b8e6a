"""/debug/pprof for a Python process: where time goes, what memory is held, what every task is waiting for.

A profile is made by sampling: a thread looks at the stack of the scheduling thread a hundred times a second. That costs
next to nothing, so a busy scheduler can be looked at. The text it gives, one line per stack with a count, is what
flame graph tools and speedscope read; ``go tool pprof`` does not.
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


class Sampler(threading.Thread):
    """Counts the stacks of a thread until stopped."""

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
        """End, and wait for the end."""
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
    """The stacks of this thread during some seconds."""
    sampler = Sampler(threading.get_ident())
    sampler.start()
    try:
        await asyncio.sleep(seconds)
    finally:
        sampler.stop()
    return sampler.stacks


def collapsed(stacks: Counter[Stack]) -> str:
    """One line per stack: frames with semicolons between them, and how often it was seen."""
    return "".join(f"{';'.join(stack)} {count}\n" for stack, count in sorted(stacks.items()))


def speedscope(stacks: Counter[Stack], interval: float = INTERVAL) -> str:
    """The same as a file for speedscope.app."""
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
    """Every call during some seconds, for ``python -m pstats``. It slows the process down while it lasts."""
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
    """Lines of code by the memory they have allocated during some seconds and that is still held.

    Tracing costs time and memory, so it is on only while somebody asks, unless PYTHONTRACEMALLOC has turned it on for
    good; then everything since the start is counted.
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
    lines = [f"allocated {since} and held: {held} bytes, at most {peak}"]
    lines += [
        f"{each.size:>12} bytes {each.count:>8} blocks  {each.traceback[0]}"
        for each in snapshot.statistics("lineno")[:TOP]
    ]
    return "\n".join(lines) + "\n"


def tasks() -> str:
    """What every task and every thread is doing."""
    out = io.StringIO()
    everything = sorted(asyncio.all_tasks(), key=lambda task: task.get_name())
    out.write(f"tasks: {len(everything)}\n\n")
    for task in everything:
        task.print_stack(file=out)
        out.write("\n")
    out.write(threads())
    return out.getvalue()


def threads() -> str:
    """The stacks of all threads."""
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    parts = [f"threads: {len(frames)}\n"]
    for ident, frame in frames.items():
        lines = "".join(f"  {name}\n" for name in reversed(_stack(frame)))
        parts.append(f"thread {names.get(ident, ident)}:\n{lines}")
    return "\n".join(parts)


def describe() -> dict[str, str]:
    """The profiles that there are, and what each tells."""
    return {
        "cmdline": "The command line of this process",
        "goroutine": "What every task and thread is doing at this moment",
        "heap": "ReviewCache by the line that allocated it, during ?seconds=5; everything with PYTHONTRACEMALLOC=1",
        "profile": "Where time goes, sampled during ?seconds=30: collapsed stacks, or &format=speedscope, or "
        "&format=pstats, which counts every call",
        "threadcreate": "The stacks of all threads",
    }
