"""Microsoft's Philly: a JSON array of jobs, with the GPUs of each attempt; perhaps a CSV list of machines."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kubesched.simulator.trace_file import Arrival, Machine
from kubesched.traces.model import GIB, GPU, Source, TraceKind, gpu_machine, pod_name
from kubesched.traces.reading import TraceRow, objects, rows

CPU_PER_GPU, MEMORY_PER_GPU = 4000, 32 * GIB
"""The trace has neither."""


def _read(source: Source) -> Iterator[Arrival]:
    for path in source.files:
        if ".csv" in path.suffixes:
            source.machines += (_machine(row, source) for row in rows(path))
        else:
            yield from (each for row in objects(path) for each in _job(row, source))


def _machine(row: TraceRow, source: Source) -> Machine:
    gpus = int(row.amount("number of GPUs", "number_of_gpus", "gpus"))
    options = source.options
    return Machine(
        pod_name(row.text("machineId", "machine_id")), options.machine_cpu, options.machine_memory, {GPU: gpus}
    )


def _job(row: TraceRow, source: Source) -> Iterator[Arrival]:
    """A pod per server of the first attempt that has any. It runs from the first attempt to the end of the last."""
    submitted = row.seconds("submitted_time")
    attempts = _dicts(row.value("attempts"))
    servers = next((found for each in attempts if (found := _dicts(each.get("detail")))), [])
    if submitted is None or not servers:
        source.skip("has no submitted_time" if submitted is None else "never had a server")
        return
    moments = [row.part(each) for each in attempts]
    starts = [each for m in moments if (each := m.seconds("start_time")) is not None]
    ends = [each for m in moments if (each := m.seconds("end_time")) is not None]
    run = max(0.0, max(ends) - min(starts)) if starts and ends else None
    name = pod_name(row.text("jobid"))
    for number, server in enumerate(servers):
        listed = server.get("gpus")
        gpus = len(listed) if isinstance(listed, list) else 0
        yield Arrival(
            at=submitted,
            name=name if len(servers) == 1 else f"{name}-{number}",
            cpu=max(1, gpus) * CPU_PER_GPU,
            memory=max(1, gpus) * MEMORY_PER_GPU,
            run=run,
            resources={GPU: gpus} if gpus else {},
            labels={"vc": pod_name(row.text("vc")), "user": pod_name(row.text("user"))},
        )


def _dicts(value: object) -> list[dict[str, Any]]:
    """The objects of a list; odd values are left out."""
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


KIND = TraceKind("Philly", "cluster_job_log, perhaps cluster_machine_list.csv", _read, gpu_machine)
