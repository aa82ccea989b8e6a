"""Running workloads as they are written, on an API server in this process or over HTTP, and showing the results."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, TypedDict

from rich.table import Table

from kubesched.bench.machine import describe_machine
from kubesched.bench.peers.control_plane import ControlPlane
from kubesched.bench.peers.embedded import EmbeddedPlane
from kubesched.bench.peers.processes import ProcessEndedError
from kubesched.bench.peers.programs import PeerProgram, start_program
from kubesched.bench.perf.executor import Collected, Executor
from kubesched.bench.perf.format import PerfRun
from kubesched.bench.perf.in_process import in_process_cluster
from kubesched.bench.perf.throughput import Throughput
from kubesched.client.protocol import ApiError

IN_PROCESS, EMBEDDED, REAL = "in-process", "embedded", "real"


class PerfResult(TypedDict):
    """What a workload measured, or why it did not run."""

    name: str
    throughput: dict[str, Throughput]
    threshold: float | None
    """The average that scheduler_perf expects of kube-scheduler on its own machines."""
    problem: str


async def run_all(
    runs: Iterable[PerfRun], place: str, parts: Path | None, seconds: float, progress: Callable[[str], None]
) -> list[PerfResult]:
    """Run workloads one after the other. A failure is noted and does not end the others."""
    results: list[PerfResult] = []
    for run in runs:
        collected: list[Collected] = []
        problem = run.problem
        if not problem:
            progress(f"{run.name}…")
            try:
                collected = await run_one(run, place, parts, seconds)
            except (ApiError, OSError, ProcessEndedError, ValueError, RuntimeError) as error:
                problem = str(error)
        measured = {each.name: each.throughput for each in collected}
        results.append({"name": run.name, "throughput": measured, "threshold": run.threshold, "problem": problem})
    return results


async def run_one(run: PerfRun, place: str, parts: Path | None, seconds: float) -> list[Collected]:
    """Run one workload."""
    if place == IN_PROCESS:
        async with in_process_cluster(run) as client, Executor(client, run, seconds=seconds) as executor:
            return await executor.run()
    with tempfile.TemporaryDirectory(prefix="kubesched-bench-", ignore_cleanup_errors=True) as folder:
        if parts is None:
            return await _over_http(run, EmbeddedPlane(Path(folder)), seconds)
        return await _over_http(run, ControlPlane(Path(folder), parts, run.gates), seconds)


async def _over_http(run: PerfRun, plane: ControlPlane | EmbeddedPlane, seconds: float) -> list[Collected]:
    try:
        await plane.start()
        scheduler = start_program(PeerProgram.KUBESCHED, plane, run.gates, run.scheduler_config)
        try:
            await scheduler.wait_until_ready()
            async with plane.client() as client, Executor(client, run, seconds=seconds) as executor:
                return await executor.run()
        finally:
            scheduler.process.stop()
    finally:
        plane.stop()


def results_table(results: Iterable[PerfResult]) -> Table:
    """The throughput of the workloads that ran."""
    shown = Table(title="Pods per second, as scheduler_perf computes it")
    for name in ("workload", "average", "p50", "p90", "p99", "pods", "seconds"):
        shown.add_column(name, justify="left" if name == "workload" else "right", overflow="fold")
    for result in results:
        for throughput in result["throughput"].values():
            shown.add_row(result["name"], *_cells(throughput))
    return shown


def _cells(throughput: Throughput) -> list[str]:
    whole = f"{throughput['pods']:,}", f"{throughput['seconds']:.1f}"
    if not throughput["samples"]:
        return ["too short", "", "", "", *whole]
    rates = (throughput["average"], throughput["perc50"], throughput["perc90"], throughput["perc99"])
    return [*(f"{rate:,.0f}" for rate in rates), *whole]


def results_json(results: Iterable[PerfResult], place: str) -> str:
    """The results with the machine they were measured on."""
    document: dict[str, Any] = {"machine": describe_machine(), "on": place, "results": list(results)}
    return json.dumps(document, indent=1) + "\n"
