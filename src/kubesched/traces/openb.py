"""Alibaba's GPU cluster of 2023, published with the FGD paper: nodes and pods, both as CSV with a header."""

from __future__ import annotations

from collections.abc import Iterator

from kubesched.simulator.trace_file import GPU_MODEL, Arrival, Machine
from kubesched.traces.model import GPU_MILLI, Source, TraceKind, pod_name, shared_gpu_machine
from kubesched.traces.reading import TraceRow, columns, rows

MIB = 2**20
WHOLE = 1000


def _read(source: Source) -> Iterator[Arrival]:
    for path in source.files:
        if "num_gpu" in columns(path):
            for number, row in enumerate(rows(path)):
                yield _pod(row, number)
        else:
            source.machines += map(_machine, rows(path))


def _machine(row: TraceRow) -> Machine:
    gpus, model = int(row.amount("gpu", default=0)), row.text("model")
    return Machine(
        pod_name(row.text("sn", "name")),
        int(row.amount("cpu_milli")),
        int(row.amount("memory_mib")) * MIB,
        {GPU_MILLI: gpus * WHOLE} if gpus else {},
        {GPU_MODEL: model} if model else {},
    )


def _pod(row: TraceRow, number: int) -> Arrival:
    gpus = int(row.amount("num_gpu", default=0))
    milli = gpus * int(min(row.amount("gpu_milli", default=WHOLE), WHOLE))
    created, deleted = row.seconds("creation_time"), row.seconds("deletion_time")
    started = row.seconds("scheduled_time")
    began = started if started is not None else created
    return Arrival(
        at=created if created is not None else float(number),  # some traces of the family have no times
        name=pod_name(row.text("name")),
        cpu=int(row.amount("cpu_milli")),
        memory=int(row.amount("memory_mib", default=0)) * MIB,
        run=max(0.0, deleted - began) if deleted is not None and began is not None else None,
        resources={GPU_MILLI: milli} if milli else {},
        models=tuple(filter(None, row.text("gpu_spec").split("|"))) if milli else (),
        labels={"qos": row.text("qos")} if row.text("qos") else {},
    )


KIND = TraceKind("Alibaba openb, 2023", "nodes.csv and pods.csv", _read, shared_gpu_machine)
