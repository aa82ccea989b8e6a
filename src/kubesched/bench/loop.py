"""Measures the whole loop: pods through watch, queue, cycle, binding and events, against an in-process API server.

Speed is measured first, without a profiler. A second run with a sampling profiler shows how much time each part of the
scheduler takes per pod.
"""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import Sequence
from contextlib import nullcontext
from random import Random
from typing import TypedDict

from rich.table import Table

from kubesched.apiserver.inprocess.memory import MemoryClient
from kubesched.base.clocks import SystemClock
from kubesched.bench.sampler import PARTS, PartSampler
from kubesched.bench.workloads import BenchWorkload, claiming, device_objects, make_node, make_pod, plain
from kubesched.config.load import default
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.metrics import Metrics
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.urgent_calls import UrgentCalls

LOOPS = (
    BenchWorkload("plain", 500, 0, 10_000, plain),
    BenchWorkload("plain", 5000, 0, 10_000, plain),
    BenchWorkload("devices", 500, 0, 4_000, plain, devices=10),
)
WARM_UP = 200
ROUNDS = 3
"""The best run counts: other load on the machine makes a run slower, never faster."""


class LoopResult(TypedDict):
    """The result of a workload: speed, and the microseconds per pod by part."""

    workload: str
    nodes: int
    pods_per_s: int
    pods_per_cpu_s: int
    microseconds: dict[str, float]


async def measure(workload: BenchWorkload, sampler: PartSampler | None) -> tuple[float, float]:
    """Schedule a workload; returns pods per second and per second of CPU time."""
    clock = SystemClock()
    cluster = MemoryClient(clock)
    for index in range(workload.nodes):
        cluster.create(make_node(index, workload.node_cpu))
    for obj in device_objects(workload):
        cluster.create(obj)
    calls = UrgentCalls()
    recorder = EventRecorder(cluster, clock, urgent_calls=calls)
    scheduler = build_scheduler(
        default(),
        in_tree_registry(),
        cluster,
        clock,
        Random(0),
        recorder=recorder,
        metrics=Metrics(process=False),
        urgent_calls=calls,
    )
    tasks = [asyncio.create_task(scheduler.run()), asyncio.create_task(recorder.run())]
    await _schedule(cluster, "warm-up", WARM_UP, workload)
    gc.collect()
    started, used = time.perf_counter(), time.process_time()
    with nullcontext() if sampler is None else sampler.running():
        await _schedule(cluster, "pod", workload.measured, workload)
    took, used = time.perf_counter() - started, time.process_time() - used
    await scheduler.stop()
    tasks[1].cancel()
    await asyncio.wait(tasks)
    return workload.measured / took, workload.measured / used


async def _schedule(cluster: MemoryClient, prefix: str, number: int, workload: BenchWorkload) -> None:
    """Create pods, a hundred at a time as a controller would, and wait until all are bound and have an event."""
    wanted = len(cluster.bindings) + number
    for index in range(number):
        made = make_pod(prefix, index, workload.template(index))
        if workload.devices:
            claim, made = claiming(made)
            cluster.create(claim)
        cluster.create(made)
        if index % 100 == 99:
            await asyncio.sleep(0)
    while len(cluster.bindings) < wanted or cluster.event_count < wanted:
        await asyncio.sleep(0.001)


def run(workloads: Sequence[BenchWorkload] = LOOPS, rounds: int = ROUNDS) -> list[LoopResult]:
    """Measure the loop."""
    results: list[LoopResult] = []
    for workload in workloads:
        speed, per_cpu_second = max(asyncio.run(measure(workload, None)) for _ in range(rounds))
        sampler = PartSampler()
        asyncio.run(measure(workload, sampler))
        parts = {part: seconds / workload.measured * 1e6 for part, seconds in sampler.seconds().items()}
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


def table(results: Sequence[LoopResult]) -> Table:
    """The results as a table."""
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
