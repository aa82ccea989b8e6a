"""Throughput as scheduler_perf computes it: samples of one second, their average and their percentiles."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from typing import TypedDict

from kubesched.api import objects as api
from kubesched.bench.perf.pods import PodTracker, matches

INTERVAL = 1.0


class Throughput(TypedDict):
    """Pods per second. `samples` is 0 if scheduling took too little time for one."""

    samples: int
    average: float
    perc50: float
    perc90: float
    perc95: float
    perc99: float
    pods: int
    seconds: float
    """From the start of the collection to its end."""


class ThroughputCollector:
    """Counts the pods that are scheduled in some namespaces."""

    def __init__(self, pods: PodTracker, namespaces: Sequence[str], selector: Mapping[str, str]) -> None:
        self._pods = pods
        self._namespaces = frozenset(namespaces)
        self._selector = selector
        self._scheduled = 0
        self._samples: list[float] = []
        self._began = 0.0
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to count and to take samples."""
        self._began = time.perf_counter()
        self._pods.on_scheduled.append(self._count)
        self._task = asyncio.create_task(self._sample())

    async def stop(self) -> Throughput:
        """End it and return what was measured."""
        took = time.perf_counter() - self._began
        self._pods.on_scheduled.remove(self._count)
        if self._task is not None:
            self._task.cancel()
        return summarize(self._samples, self._scheduled, took)

    def _count(self, pod: api.Pod) -> None:
        if pod.namespace in self._namespaces and matches(pod, self._selector):
            self._scheduled += 1

    async def _sample(self) -> None:
        sampler = Sampler()
        due = time.perf_counter()
        while True:
            due += INTERVAL
            await asyncio.sleep(max(0.0, due - time.perf_counter()))
            self._samples += sampler.take(time.perf_counter(), self._scheduled)


class Sampler:
    """Turns a growing count into rates by scheduler_perf's rules.

    The first second with a pod only starts the clock. Seconds without a pod count with the next one that has some: each
    of them is a sample with the rate over all of them.
    """

    def __init__(self) -> None:
        self._last_count = 0
        self._last_time: float | None = None
        self._skipped = 0

    def take(self, now: float, count: int) -> list[float]:
        """The samples that the count at this time completes."""
        if count == 0:
            return []
        if self._last_time is None:
            self._last_count, self._last_time = count, now
            return []
        if count == self._last_count:
            self._skipped += 1
            return []
        rate = (count - self._last_count) / (now - self._last_time)
        samples = [rate] * (self._skipped + 1)
        self._last_count, self._last_time, self._skipped = count, now, 0
        return samples


def summarize(samples: Sequence[float], pods: int, took: float) -> Throughput:
    """Average and percentiles of samples."""
    ordered = sorted(samples)
    return {
        "samples": len(ordered),
        "average": round(sum(ordered) / len(ordered), 1) if ordered else 0.0,
        "perc50": percentile(ordered, 50),
        "perc90": percentile(ordered, 90),
        "perc95": percentile(ordered, 95),
        "perc99": percentile(ordered, 99),
        "pods": pods,
        "seconds": round(took, 3),
    }


def percentile(ordered: Sequence[float], percent: int) -> float:
    """The smallest value that so many percent of the values do not exceed; 0 if there are none."""
    return round(ordered[math.ceil(len(ordered) * percent / 100) - 1], 1) if ordered else 0.0
