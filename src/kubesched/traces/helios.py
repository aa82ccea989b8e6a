"""SenseTime's Helios: CSV with a header and a row per job, which may run on several nodes."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.simulator.trace_file import Arrival
from kubesched.traces.model import GIB, GPU, Source, TraceKind, gpu_machine, pod_name
from kubesched.traces.reading import TraceRow, rows

MEMORY_PER_CPU = 4 * GIB
"""The trace has none."""


def _read(source: Source) -> Iterator[Arrival]:
    for path in source.files:
        yield from (each for row in rows(path) if (each := _job(row, source)) is not None)


def _job(row: TraceRow, source: Source) -> Arrival | None:
    submitted = row.seconds("submit_time")
    if submitted is None:
        source.skip("has no submit_time")
        return None
    nodes = max(1, int(row.amount("node_num", default=1)))
    gpus, cpus = -(-int(row.amount("gpu_num", default=0)) // nodes), row.amount("cpu_num", default=1) / nodes
    start, end = row.seconds("start_time"), row.seconds("end_time")
    lasted = end - start if start is not None and end is not None else None
    if "start_time" in row and start is None and not row.text("duration"):
        source.skip("never started")
        return None
    return Arrival(
        at=submitted,
        name=f"job-{pod_name(row.text('job_id'))}",
        cpu=round(cpus * 1000),
        memory=round(cpus * MEMORY_PER_CPU),
        run=row.amount("duration") if row.text("duration") else lasted,
        count=nodes,
        resources={GPU: gpus} if gpus else {},
        labels={"vc": pod_name(row.text("vc")), "user": pod_name(row.text("user"))},
    )


KIND = TraceKind("Helios", "cluster_log.csv", _read, gpu_machine)
