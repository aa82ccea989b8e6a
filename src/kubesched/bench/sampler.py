"""A sampling profiler that shows in which part of the scheduler CPU time is spent.

A timer interrupts the process once per millisecond of CPU time. The sample is attributed to the part with the
innermost module on the stack, so nothing has to be wrapped or patched.
"""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

INTERVAL = 0.001
MODULES: Final = {
    "kubesched.scheduler.handlers": "informers",
    "kubesched.client.informer": "informers",
    "kubesched.scheduler.sources": "informers",
    "kubesched.scheduler.recorder": "events",
    "kubesched.scheduler.metrics": "metrics",
    "kubesched.scheduler.subscribers.metrics": "metrics",
    "kubesched.scheduler": "cycle and binding",
    "kubesched.queue": "queue",
    "kubesched.engine": "engine",
    "kubesched.framework": "plugins",
    "kubesched.plugins": "plugins",
    "kubesched.cluster": "cluster state",
    "kubesched.client": "API server",
    "kubesched.apiserver": "API server",
    "kubesched.bench": "workload",
}
OTHER = "event loop"
PARTS: Final = (*dict.fromkeys(MODULES.values()), OTHER)


class PartSampler:
    """Counts samples by part."""

    def __init__(self) -> None:
        self._samples: Counter[str] = Counter()

    @contextmanager
    def running(self) -> Iterator[None]:
        """Take samples. Works only in the main thread."""
        previous = signal.signal(signal.SIGPROF, self._sample)
        signal.setitimer(signal.ITIMER_PROF, INTERVAL, INTERVAL)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0.0)
            signal.signal(signal.SIGPROF, previous)

    def seconds(self) -> dict[str, float]:
        """CPU time by part."""
        return {part: self._samples[part] * INTERVAL for part in PARTS if self._samples[part]}

    def _sample(self, number: int, frame: FrameType | None) -> None:
        self._samples[_part(frame)] += 1


def _part(frame: FrameType | None) -> str:
    while frame is not None:
        name = frame.f_globals.get("__name__", "")
        while name.startswith("kubesched."):
            if name in MODULES:
                return MODULES[name]
            name = name.rpartition(".")[0]
        frame = frame.f_back
    return OTHER
