"""The whole loop: pods through watch, queue, cycle, binding and events, against an API server in the same process.

Speed is measured first, with nothing added. Then the same is run once more with a stopwatch at the seams, which tells
what part of a pod's cost is whose; its own cost is in none of the parts, but makes them look a little bigger.
"""

from __future__ import annotations

import asyncio
import functools
import gc
import time
from collections.abc import Callable, Coroutine, Generator, Iterator, Sequence
from contextlib import contextmanager
from random import Random
from typing import Any, TypedDict

from rich.table import Table

from kubesched.apiserver.inprocess.memory import MemoryClient
from kubesched.base.clocks import SystemClock
from kubesched.bench.workloads import Workload, make_node, make_pod, plain
from kubesched.config.load import default
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.scheduler import Scheduler

LOOPS = (Workload("plain", 500, 0, 10_000, plain), Workload("plain", 5000, 0, 10_000, plain))
WARM_UP = 200
ROUNDS = 3
"""The best counts: a machine that others use too makes a run slower, never faster."""
QUEUE = ("add", "update", "delete", "pop", "done", "move_all", "activate")
METRICS = (
    *("attempt", "algorithm", "scheduled", "extension_point", "event_handled", "goroutines"),
    *("incoming", "pending", "in_flight", "hint", "unschedulable"),
)


PARTS = ("news", "queue", "cycle", "decision", "binding", "events", "metrics", "API server")
"""Whose a microsecond can be, on a pod's way."""


class Result(TypedDict):
    """What a workload came to: speed, and whose each microsecond of a pod was."""

    workload: str
    nodes: int
    pods_per_s: int
    pods_per_cpu_s: int
    microseconds: dict[str, float]


class Stopwatch:
    """Adds up the CPU time spent in each part, not counting the parts called from it."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._inner: list[float] = []

    @contextmanager
    def running(self, part: str) -> Iterator[None]:
        self._inner.append(0.0)
        started = time.thread_time()
        try:
            yield
        finally:
            took = time.thread_time() - started
            inner = self._inner.pop()
            self.seconds[part] = self.seconds.get(part, 0.0) + took - inner
            if self._inner:
                self._inner[-1] += took

    def attach(self, owner: object, part: str, *methods: str) -> None:
        """Time these methods of an object."""
        for name in methods:
            method = getattr(owner, name)
            setattr(owner, name, (self._async if asyncio.iscoroutinefunction(method) else self._sync)(method, part))

    def _sync(self, method: Callable[..., Any], part: str) -> Callable[..., Any]:
        @functools.wraps(method)
        def timed(*args: Any, **kwargs: Any) -> Any:
            with self.running(part):
                return method(*args, **kwargs)

        return timed

    def _async(self, method: Callable[..., Coroutine[Any, Any, Any]], part: str) -> Callable[..., Any]:
        async def timed(*args: Any, **kwargs: Any) -> Any:
            return await _Steps(method(*args, **kwargs), self, part)

        return timed


class _Steps:
    """Awaits a coroutine and times its steps, but not the waits between them."""

    def __init__(self, work: Coroutine[Any, Any, Any], stopwatch: Stopwatch, part: str) -> None:
        self._work = work
        self._stopwatch = stopwatch
        self._part = part

    def __await__(self) -> Generator[Any, Any, Any]:
        while True:
            try:
                with self._stopwatch.running(self._part):
                    waits_for = self._work.send(None)
            except StopIteration as end:
                return end.value  # what an awaited coroutine answers
            yield waits_for


def attach(stopwatch: Stopwatch, scheduler: Scheduler, cluster: MemoryClient) -> None:
    """Put a stopwatch at the seams of a scheduler."""
    stopwatch.attach(scheduler.queue, "queue", *QUEUE)
    stopwatch.attach(scheduler._cycle, "cycle", "run")
    for profile in scheduler.profiles.values():
        stopwatch.attach(profile.engine, "decision", "schedule")
    stopwatch.attach(scheduler._binding, "binding", "_run")
    stopwatch.attach(scheduler._handlers, "news", "handle")
    stopwatch.attach(scheduler.recorder, "events", "event", "_write")
    stopwatch.attach(scheduler.metrics, "metrics", *METRICS)
    stopwatch.attach(cluster, "API server", "bind", "create_event")


async def measure(workload: Workload, stopwatch: Stopwatch | None) -> tuple[float, float]:
    """Schedule a workload; answers with pods per second and per second of CPU time."""
    clock = SystemClock()
    cluster = MemoryClient(clock)
    for index in range(workload.nodes):
        cluster.create(make_node(index, workload.node_cpu))
    recorder = EventRecorder(cluster, clock, binds_waiting=lambda: scheduler.binds_waiting)
    scheduler = Scheduler(
        default(), in_tree_registry(), cluster, clock, Random(0), recorder=recorder, metrics=Metrics(process=False)
    )
    if stopwatch is not None:
        attach(stopwatch, scheduler, cluster)
    tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(recorder.run())]
    await _schedule(cluster, "warm-up", WARM_UP, workload)
    if stopwatch is not None:
        stopwatch.seconds.clear()
    gc.collect()
    started, used = time.perf_counter(), time.process_time()
    await _schedule(cluster, "pod", workload.measured, workload)
    took, used = time.perf_counter() - started, time.process_time() - used
    await scheduler.stop()
    tasks[1].cancel()
    await asyncio.wait(tasks)
    return workload.measured / took, workload.measured / used


async def _schedule(cluster: MemoryClient, prefix: str, number: int, workload: Workload) -> None:
    """Create pods, a hundred at a time as a controller would, and wait until all are bound and told of."""
    wanted = len(cluster.bindings) + number
    for index in range(number):
        cluster.create(make_pod(prefix, index, workload.template(index)))
        if index % 100 == 99:
            await asyncio.sleep(0)
    while len(cluster.bindings) < wanted or cluster.event_count < wanted:
        await asyncio.sleep(0.001)


def run(workloads: Sequence[Workload] = LOOPS, rounds: int = ROUNDS) -> list[Result]:
    """Measure the loop."""
    results: list[Result] = []
    for workload in workloads:
        speed, per_cpu_second = max(asyncio.run(measure(workload, None)) for _ in range(rounds))
        stopwatch = Stopwatch()
        asyncio.run(measure(workload, stopwatch))
        parts = {part: seconds / workload.measured * 1e6 for part, seconds in stopwatch.seconds.items()}
        results.append(
            {
                "workload": workload.name,
                "nodes": workload.nodes,
                "pods_per_s": round(speed),
                "pods_per_cpu_s": round(per_cpu_second),
                "microseconds": {part: round(cost, 1) for part, cost in parts.items()},
            }
        )
    return results


def table(results: Sequence[Result]) -> Table:
    """The results for people."""
    shown = Table(title="Pods through the whole loop, with an API server in the process")
    shown.add_column("")
    for each in results:
        shown.add_column(f"{each['workload']}, {each['nodes']:,} nodes", justify="right")
    shown.add_row("pods/s", *(f"{each['pods_per_s']:,}" for each in results))
    shown.add_row("pods per second of CPU", *(f"{each['pods_per_cpu_s']:,}" for each in results), end_section=True)
    for part in PARTS:
        shown.add_row(f"  {part}", *(_share(each["microseconds"], part) for each in results))
    return shown


def _share(parts: dict[str, float], part: str) -> str:
    cost = parts.get(part, 0.0)
    return f"{cost:.0f} µs {100 * cost / sum(parts.values()):3.0f} %"
