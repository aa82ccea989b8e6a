"""Alibaba's PAI of 2020: tables without headers, of tasks (10 columns) and of machines (5 columns)."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.simulator.trace_file import GPU_MODEL, Arrival, Machine
from kubesched.traces.model import GIB, GPU_MILLI, Source, TraceKind, pod_name, shared_gpu_machine
from kubesched.traces.reading import TraceRow, columns, rows

TASK = (
    *("job_name", "task_name", "inst_num", "status", "start_time", "end_time"),
    *("plan_cpu", "plan_mem", "plan_gpu", "gpu_type"),
)
MACHINE = ("machine", "gpu_type", "cap_cpu", "cap_mem", "cap_gpu")
ANY_MODEL = ("", "MISC", "CPU")


def _read(source: Source) -> Iterator[Arrival]:
    for path in source.files:
        if len(columns(path)) <= len(MACHINE):
            source.machines += map(_machine, rows(path, MACHINE))
        else:
            yield from (each for row in rows(path, TASK) if (each := _task(row, source)) is not None)


def _machine(row: TraceRow) -> Machine:
    gpus, model = int(row.amount("cap_gpu", default=0)), row.text("gpu_type")
    return Machine(
        pod_name(row.text("machine")),
        round(row.amount("cap_cpu") * 1000),
        round(row.amount("cap_mem") * GIB),
        {GPU_MILLI: gpus * 1000} if gpus else {},
        {GPU_MODEL: model} if model not in ANY_MODEL else {},
    )


def _task(row: TraceRow, source: Source) -> Arrival | None:
    start, end = row.seconds("start_time"), row.seconds("end_time")
    if start is None:
        source.skip("has no start_time")
        return None
    milli = round(row.amount("plan_gpu", default=0) * 10)
    if milli > 1000:  # above one GPU, a task has whole ones
        milli = -(-milli // 1000) * 1000
    model = row.text("gpu_type")
    return Arrival(
        at=start,
        name=pod_name(f"{row.text('job_name')[:40]}-{row.text('task_name')}"),
        cpu=round(row.amount("plan_cpu", default=600) * 10),
        memory=round(row.amount("plan_mem", default=29.3) * GIB),
        run=max(0.0, end - start) if end is not None else None,
        count=max(1, int(row.amount("inst_num", default=1))),
        resources={GPU_MILLI: milli} if milli else {},
        models=(model,) if milli and model not in ANY_MODEL else (),
        labels={"task": pod_name(row.text("task_name"))},
    )


KIND = TraceKind("Alibaba PAI, 2020", "pai_task_table.csv, perhaps pai_machine_spec.csv", _read, shared_gpu_machine)
