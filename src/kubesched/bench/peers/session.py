"""Measuring a list of workloads, program by program and round by round."""

from __future__ import annotations

import math
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from kubesched.bench.peers.measure import (
    AS_WRITTEN,
    PENDING,
    CannotMeasureError,
    PeerBench,
    PeerMeasurement,
    preempts,
)
from kubesched.bench.peers.processes import ProcessEndedError
from kubesched.bench.peers.programs import PeerProgram
from kubesched.bench.peers.report import PeerReport, PeerRow
from kubesched.bench.perf.format import PerfRun
from kubesched.client.protocol import ApiError

Progress = Callable[[str], None]
ARRIVAL = "arrival-"


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """What to measure, and how."""

    parts: Path
    """The folder with etcd, kube-apiserver and kube-scheduler."""
    programs: Sequence[PeerProgram] = tuple(PeerProgram)
    loads: Sequence[str] = ()
    """`pending`, `as written`, or a number of pods per second. Without any: pending, and what labels ask for."""
    rounds: int = 1
    seconds: float = 120.0
    """How long one program may take for one workload."""
    minutes: float = math.inf
    """After this time no further workload begins."""


async def measure_peers(
    runs: Iterable[PerfRun], settings: PeerSettings, report: PeerReport, progress: Progress, done: Progress
) -> None:
    """Measure each workload with each load into a report. One that cannot run is listed with the reason.

    `progress` is called with what begins, `done` with each result.
    """
    deadline = time.monotonic() + 60 * settings.minutes
    for run in runs:
        problem = run.problem or (f"{settings.minutes:g} minutes were over" if time.monotonic() > deadline else "")
        if problem:
            report.skipped[run.name] = problem
            continue
        with tempfile.TemporaryDirectory(prefix="kubesched-bench-", ignore_cleanup_errors=True) as folder:
            bench = PeerBench(run, Path(folder), settings.parts, settings.seconds)
            for load in settings.loads or _loads_of(run):
                try:
                    report.rows.append(await _row(bench, run, load, settings, progress, done))
                except (CannotMeasureError, ProcessEndedError, ApiError, OSError, ValueError) as error:
                    report.skipped[f"{run.name}, {load_name(load)}"] = str(error)


async def _row(
    bench: PeerBench, run: PerfRun, load: str, settings: PeerSettings, progress: Progress, done: Progress
) -> PeerRow:
    rounds: list[list[PeerMeasurement]] = []
    for number in range(settings.rounds):
        rounds.append([])
        for program in _programs(run, load, settings.programs):
            progress(f"{run.name}, {load_name(load)}, round {number + 1}: {program.value}…")
            rate = 0.0 if load in (PENDING, AS_WRITTEN) else float(load)
            measured = await bench.measure(program, load_name(load), rate)
            rounds[-1].append(measured)
            done(f"{run.name}, {load_name(load)}: {program.value} {measured['pods_per_s']:,.0f} pods/s")
    return PeerRow(run.name, load_name(load), rounds)


def _programs(run: PerfRun, load: str, programs: Sequence[PeerProgram]) -> list[PeerProgram]:
    """Without the null binder where pods arrive that have to preempt others: it only preempts for those that wait at
    its start, and bindings alone are no ceiling."""
    skipped = PeerProgram.NULL_BINDER if load not in (AS_WRITTEN, PENDING) and preempts(run) else None
    return [program for program in programs if program is not skipped]


def _loads_of(run: PerfRun) -> list[str]:
    """Pending, and the rate N of a label `arrival-N`."""
    return [PENDING, *(label.removeprefix(ARRIVAL) for label in run.labels if label.startswith(ARRIVAL))]


def load_name(load: str) -> str:
    """A load in words."""
    return load if load in (PENDING, AS_WRITTEN) else f"{load} pods/s"
