"""Alibaba's cluster of 2018: tables without headers, of containers, batch tasks and machines.

Memory is a per cent of the largest machine's.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kubesched.simulator.trace_file import Arrival, Machine
from kubesched.traces.model import Source, TraceError, TraceKind, plain_machine, pod_name
from kubesched.traces.reading import TraceRow, columns, rows

CONTAINER = ("container_id", "machine_id", "time_stamp", "app_du", "status", "cpu_request", "cpu_limit", "mem_size")
TASK = (
    *("task_name", "instance_num", "job_name", "task_type", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem"),
)
MACHINE = ("machine_id", "time_stamp", "failure_domain_1", "failure_domain_2", "cpu_num", "mem_size", "status")


def _read(source: Source) -> Iterator[Arrival]:
    for path in source.files:
        width = len(columns(path))
        if width == len(CONTAINER):
            yield from _containers(path, source)
        elif width == len(TASK):
            yield from (each for row in rows(path, TASK) if (each := _task(row, source)) is not None)
        elif width == len(MACHINE):
            known = {row.text("machine_id"): _machine(row, source) for row in rows(path, MACHINE)}
            source.machines += known.values()  # the table has a row per change
        else:
            expected = "container_meta has 8, batch_task 9 and machine_meta 7"
            raise TraceError(f"{path}: has {width} columns; {expected}")


def _containers(path: Path, source: Source) -> Iterator[Arrival]:
    """The first row of each container; the rows after it say how it goes on."""
    known: set[str] = set()
    for row in rows(path, CONTAINER):
        name = row.text("container_id")
        if name in known:
            continue
        known.add(name)
        yield Arrival(
            at=max(0.0, row.seconds("time_stamp") or 0.0),
            name=pod_name(name),
            cpu=round(row.amount("cpu_request") * 10),
            memory=_memory(row, "mem_size", source),
            labels={"app": pod_name(row.text("app_du"))},
        )


def _task(row: TraceRow, source: Source) -> Arrival | None:
    start, end = row.seconds("start_time"), row.seconds("end_time")
    if not start:
        source.skip("has no start_time")
        return None
    return Arrival(
        at=start,
        name=pod_name(f"{row.text('job_name')}-{row.text('task_name')}"),
        cpu=round(row.amount("plan_cpu", default=100) * 10),
        memory=_memory(row, "plan_mem", source),
        run=max(0.0, end - start) if end else None,
        count=max(1, int(row.amount("instance_num", default=1))),
        labels={"job": pod_name(row.text("job_name"))},
    )


def _machine(row: TraceRow, source: Source) -> Machine:
    memory = _memory(row, "mem_size", source)
    return Machine(pod_name(row.text("machine_id")), round(row.amount("cpu_num") * 1000), memory)


def _memory(row: TraceRow, column: str, source: Source) -> int:
    return round(row.amount(column, default=0) / 100 * source.options.machine_memory)


KIND = TraceKind(
    "Alibaba, 2018", "container_meta.csv and batch_task.csv, perhaps machine_meta.csv", _read, plain_machine
)
