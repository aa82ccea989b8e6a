"""One workload, measured for several programs on a real API server.

Nodes, initial pods and pending pods are made once, and etcd's data is copied. Every program then starts on a fresh
control plane with that copy, so that all have the same objects and none inherits the state of another's run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from kubesched.bench.peers.audit import AuditLog
from kubesched.bench.peers.control_plane import ControlPlane
from kubesched.bench.peers.processes import ChildProcess, ProcessUsage
from kubesched.bench.peers.programs import PeerProgram, RunningProgram, start_program
from kubesched.bench.perf import operations as ops
from kubesched.bench.perf.cluster import PerfClient
from kubesched.bench.perf.executor import Executor, PodBatch
from kubesched.bench.perf.format import PerfRun
from kubesched.bench.perf.templates import load_template
from kubesched.bench.perf.throughput import Throughput, percentile

SAMPLE_SECONDS = 0.02
IDLE_SECONDS, IDLE_SHARE, SETTLE_SECONDS = 0.4, 0.05, 5.0
"""A program is idle when it has used less than this share of a core for so long; longer than the last is not waited."""
AS_WRITTEN, PENDING = "as written", "pending"


class PeerMeasurement(TypedDict):
    """What was measured for one program. Rates are pods per second."""

    program: str
    load: str
    pods: int
    bound: int
    pods_per_s: float
    """From the first binding to the last. Where pods preempt others, from the start."""
    start_to_last_s: float
    """From the start of the program; with an arrival rate, from the first creation."""
    cpu_s: float
    """From the start of the program; otherwise from the beginning of the measurement."""
    cpu_ms_per_pod: float
    """From just before the first binding until the program is idle. Where pods preempt others, from the start."""
    resident_mb: float
    p50_ms: float
    p99_ms: float
    """From creation to binding. For pods that were pending at the start, from the start of the program."""
    throughput: Throughput | None
    """By scheduler_perf's rules, where the workload ran as written."""
    problem: str


class CannotMeasureError(ValueError):
    """A workload that cannot run with a kind of load. The message says why."""


@dataclass(frozen=True, slots=True)
class Split:
    """A workload in parts: what is made before, what runs meanwhile, and the pods that are measured."""

    before: Sequence[tuple[int, ops.Operation]]
    meanwhile: Sequence[tuple[int, ops.Operation]]
    measured: Sequence[tuple[int, ops.CreatePods]]


def split(run: PerfRun) -> Split:
    """Divide a workload at the first pods that it measures."""
    numbered = list(enumerate(run.operations))
    for position, operation in numbered:
        measured = _measured(numbered[position:], operation)
        if measured:
            earlier = numbered[:position]
            meanwhile = [each for each in earlier if _is_background(each[1])]
            return Split([each for each in earlier if each not in meanwhile], meanwhile, measured)
    raise CannotMeasureError("it does not measure pods that are created at one time; it can only run as written")


def _measured(
    following: Sequence[tuple[int, ops.Operation]], operation: ops.Operation
) -> list[tuple[int, ops.CreatePods]]:
    """The measured pods, if the measurement begins with this operation and consists of nothing else."""
    index = following[0][0]
    if isinstance(operation, ops.CreatePods) and operation.collect_metrics and not operation.steady_state:
        return [(index, operation)]
    found: list[tuple[int, ops.CreatePods]] = []
    if isinstance(operation, ops.StartCollectingMetrics):
        for number, each in following[1:]:
            if isinstance(each, ops.CreatePods) and each.namespace in operation.namespaces:
                found.append((number, each))
            elif not isinstance(each, ops.Barrier):
                return found if isinstance(each, ops.StopCollectingMetrics) else []
    return []


def _is_background(operation: ops.Operation) -> bool:
    return isinstance(operation, ops.Churn) or (
        isinstance(operation, ops.DeletePods) and operation.skip_wait_to_completion
    )


class PeerBench:
    """Measures one workload. Use `measure` for each program and load."""

    def __init__(self, run: PerfRun, folder: Path, parts: Path, seconds: float) -> None:
        self._run = run
        self._seconds = seconds
        self._plane = ControlPlane(folder, parts, run.gates)
        self._empty: Path | None = None
        self._pending: tuple[Path, Sequence[PodBatch]] | None = None

    async def measure(self, program: PeerProgram, load: str, rate: float = 0) -> PeerMeasurement:
        """Measure a program with pods that are pending at the start, that arrive at a rate, or as written."""
        try:
            if load == AS_WRITTEN:
                return await self._as_written(program)
            return await (self._at_rate(program, load, rate) if rate else self._from_pending(program))
        finally:
            self._plane.stop()

    def _start(self, program: PeerProgram) -> RunningProgram:
        return start_program(program, self._plane, self._run.gates, self._run.scheduler_config)

    # --- preparing ----------------------------------------------------------------------------------------------------

    async def _prepared(self) -> Path:
        """The data of a cluster just before the measured pods are created."""
        if self._empty is None:
            async with self._plane_with_initial_objects():
                pass
            self._empty = self._plane.save("empty")
        return self._empty

    async def _prepared_pending(self) -> tuple[Path, Sequence[PodBatch]]:
        """The data of a cluster with the measured pods pending."""
        if self._pending is None:
            async with self._plane_with_initial_objects() as client:
                executor = Executor(client, self._run)
                batches = await executor.batches(split(self._run).measured)
                await executor.create_batches(batches)
            self._pending = self._plane.save("pending"), batches
        return self._pending

    @asynccontextmanager
    async def _plane_with_initial_objects(self) -> AsyncGenerator[PerfClient, None]:
        """A control plane with what a workload makes before it measures. kubesched schedules the initial pods."""
        self._plane.restore(None)
        before = split(self._run).before
        try:
            await self._plane.start()
            async with self._plane.client() as client:
                has_pods = any(isinstance(each, ops.CreatePods | ops.CreatePodSets) for _, each in before)
                running = self._start(PeerProgram.KUBESCHED) if has_pods else None
                try:
                    async with Executor(client, self._run) as executor:
                        await executor.run(before)
                finally:
                    if running is not None:
                        running.process.stop()
                yield client
        finally:
            self._plane.stop()

    # --- measuring ----------------------------------------------------------------------------------------------------

    async def _from_pending(self, program: PeerProgram) -> PeerMeasurement:
        saved, batches = await self._prepared_pending()
        self._plane.restore(saved)
        await self._plane.start()
        log = AuditLog(self._plane.audit_log, batches)
        async with self._plane.client() as client:
            executor = Executor(client, self._run)
            await _warm(executor)
            began = time.time()
            running = self._start(program)
            try:
                await executor.run(split(self._run).meanwhile)
                watched = Watched(running.process, log, began if preempts(self._run) else None)
                await watched.until_bound(self._seconds)
                return watched.result(program, PENDING, began, began)
            finally:
                await executor.stop()
                running.process.stop()

    async def _at_rate(self, program: PeerProgram, load: str, rate: float) -> PeerMeasurement:
        self._plane.restore(await self._prepared())
        await self._plane.start()
        parts = split(self._run)
        async with self._plane.client() as client:
            executor = Executor(client, self._run, seed=1)
            await _warm(executor)
            batches = await executor.batches(parts.measured)
            log = AuditLog(self._plane.audit_log, batches)
            running = self._start(program)
            try:
                await running.wait_until_ready()
                await executor.run(parts.meanwhile)
                began = time.time()
                watched = Watched(running.process, log, began if preempts(self._run) else None)
                creating = asyncio.create_task(executor.create_batches(batches, rate))
                await watched.until_bound(self._seconds)
                await creating
                result = watched.result(program, load, began, None)
                return {**result, "problem": result["problem"] or log.slow_arrival(rate)}
            finally:
                await executor.stop()
                running.process.stop()

    async def _as_written(self, program: PeerProgram) -> PeerMeasurement:
        self._plane.restore(None)
        await self._plane.start()
        running = self._start(program)
        usages: list[tuple[float, ProcessUsage]] = []
        try:
            await running.wait_until_ready()
            async with self._plane.client() as client, Executor(client, self._run, seconds=self._seconds) as executor:
                executor.on_measuring = lambda: usages.append((time.time(), running.process.usage()))
                collected = await executor.run()
            if not collected:
                raise CannotMeasureError("it measures nothing: no collectMetrics, no startCollectingMetrics")
            throughput = collected[-1].throughput
            (_, first), (_, last) = usages[-2:]
            pods, cpu = throughput["pods"], last.cpu_seconds - first.cpu_seconds
            return {
                "program": program.value,
                "load": AS_WRITTEN,
                "pods": pods,
                "bound": pods,
                "pods_per_s": throughput["average"] or round(pods / throughput["seconds"], 1),
                "start_to_last_s": round(throughput["seconds"], 2),
                "cpu_s": round(cpu, 2),
                "cpu_ms_per_pod": round(1000 * cpu / max(pods, 1), 3),
                "resident_mb": round(last.resident_mb),
                "p50_ms": 0.0,
                "p99_ms": 0.0,
                "throughput": throughput,
                "problem": "",
            }
        finally:
            running.process.stop()


class Watched:
    """A program while it binds pods: its progress from the audit log, its CPU time from samples."""

    def __init__(self, process: ChildProcess, log: AuditLog, since: float | None) -> None:
        """`since` is when the work begins; None if it begins with the first binding."""
        self._since = since
        self._process = process
        self._log = log
        self._pods = log.pods
        self._before_first = process.usage()
        self._last = self._before_first

    async def until_bound(self, seconds: float) -> None:
        """Wait until all pods are bound and the program is idle, or the time is up."""
        deadline = time.monotonic() + seconds
        while len(self._log.bound) < self._pods and time.monotonic() < deadline:
            await asyncio.sleep(SAMPLE_SECONDS)
            self._process.check()
            usage = self._process.usage()
            self._log.read()
            if not self._log.bound and self._since is None:
                self._before_first = usage
        await self._settle()

    async def _settle(self) -> None:
        deadline = time.monotonic() + SETTLE_SECONDS
        self._last = self._process.usage()
        while time.monotonic() < deadline:
            await asyncio.sleep(IDLE_SECONDS)
            before, self._last = self._last, self._process.usage()
            if self._last.cpu_seconds - before.cpu_seconds < IDLE_SECONDS * IDLE_SHARE:
                return

    def result(self, program: PeerProgram, load: str, began: float, created: float | None) -> PeerMeasurement:
        """The numbers. `created` is when all pods count as created; None to use the time of each."""
        times = sorted(self._log.bound.values())
        bound = len(times)
        waits = sorted(
            1000 * (at - (self._log.created.get(key, at) if created is None else created))
            for key, at in self._log.bound.items()
        )
        span = times[-1] - (times[0] if self._since is None else self._since) if bound > 1 else 0.0
        cpu = self._last.cpu_seconds - self._before_first.cpu_seconds
        return {
            "program": program.value,
            "load": load,
            "pods": self._pods,
            "bound": bound,
            "pods_per_s": round((bound - (self._since is None)) / span, 1) if span else 0.0,
            "start_to_last_s": round(times[-1] - began, 2) if times else 0.0,
            "cpu_s": round(self._last.cpu_seconds, 2),
            "cpu_ms_per_pod": round(1000 * cpu / bound, 3) if bound else 0.0,
            "resident_mb": round(self._last.resident_mb),
            "p50_ms": percentile(waits, 50),
            "p99_ms": percentile(waits, 99),
            "throughput": None,
            "problem": "" if bound == self._pods else f"{self._pods - bound} pods were not bound in time",
        }


async def _warm(executor: Executor) -> None:
    """Read what schedulers read, so that the API server's caches are filled for all programs alike."""
    for path in ("/api/v1/nodes", "/api/v1/pods"):
        await executor.objects.get(path, limit="500")


def preempts(run: PerfRun) -> bool:
    """Whether the measured pods have a higher priority than pods that are there before.

    Most of the work is then done before the first binding, and bindings alone are no ceiling.
    """
    parts = split(run)
    earlier = [_priority(run, operation) for _, operation in parts.before if isinstance(operation, ops.CreatePods)]
    return bool(earlier) and max(_priority(run, operation) for _, operation in parts.measured) > min(earlier)


def _priority(run: PerfRun, operation: ops.CreatePods) -> int:
    path = run.folder / operation.pod_template_path if operation.pod_template_path else run.default_pod_template
    pod = load_template(path).render(0, operation.count) if path else {}
    return int((pod.get("spec") or {}).get("priority") or 0)
