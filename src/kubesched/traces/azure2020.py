"""Azure's packing trace of 2020: an SQLite file with virtual machines and their types.

Amounts are fractions of a machine, and differ by the type of machine. The import takes the type on which most types of
virtual machines can run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kubesched.simulator.trace_file import Arrival, Machine
from kubesched.traces.model import Source, TraceError, TraceKind, TraceOptions, pod_name
from kubesched.traces.reading import TraceRow

DAY = 86_400
PARTS = 1000
"""Disks and network are counted in thousandths of a machine's."""
DEVICES = {each: f"azure.example.com/{each}" for each in ("hdd", "ssd", "nic")}
MACHINE = (
    """SELECT machineId FROM vmType GROUP BY machineId ORDER BY count(DISTINCT vmTypeId) DESC, machineId LIMIT 1"""
)
TYPES = "SELECT vmTypeId, core, memory, hdd, ssd, nic FROM vmType WHERE machineId = ?"
VMS = "SELECT vmId, vmTypeId, priority, starttime, endtime FROM vm"


def _read(source: Source) -> Iterator[Arrival]:
    for path in source.files:
        try:
            yield from _vms(path, source)
        except sqlite3.Error as error:
            what = f"not the SQLite file of this trace: {error}"
            raise TraceError(f"{path}: {what}; a compressed one has to be decompressed first") from None


def _vms(path: Path, source: Source) -> Iterator[Arrival]:
    if not path.is_file():
        raise TraceError(f"{path}: there is no such file")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        machine = connection.execute(MACHINE).fetchone() or (None,)
        types = {row.text("vmTypeId"): _requests(row, source) for row in _rows(path, connection, TYPES, machine)}
        for row in _rows(path, connection, VMS):
            requests = types.get(row.text("vmTypeId"))
            if requests is None:
                source.skip(f"its type does not run on machines of type {machine[0]}")
            else:
                yield _vm(row, requests)
    finally:
        connection.close()


def _rows(path: Path, connection: sqlite3.Connection, query: str, values: tuple[Any, ...] = ()) -> Iterator[TraceRow]:
    found = connection.execute(query, values)
    names = [each[0] for each in found.description]
    for number, cells in enumerate(found, 1):
        yield TraceRow(path, number, dict(zip(names, cells, strict=True)))


def _requests(row: TraceRow, source: Source) -> tuple[int, int, dict[str, int]]:
    devices = {DEVICES[each]: round(row.amount(each, default=0) * PARTS) for each in DEVICES}
    return (
        round(row.amount("core", default=0) * source.options.machine_cpu),
        round(row.amount("memory", default=0) * source.options.machine_memory),
        {name: each for name, each in devices.items() if each},
    )


def _vm(row: TraceRow, requests: tuple[int, int, dict[str, int]]) -> Arrival:
    began = max(0.0, row.number("starttime", default=0))  # what began before the trace is there at its start
    ended = row.text("endtime")
    cpu, memory, devices = requests
    return Arrival(
        at=began * DAY,
        name=f"vm-{pod_name(row.text('vmId'))}",
        cpu=cpu,
        memory=memory,
        run=max(0.0, row.number("endtime") - began) * DAY if ended else None,
        resources=devices,
        priority=-int(row.number("priority", default=0)),  # 0 is high, 1 low
    )


def _typical(options: TraceOptions) -> Machine:
    return Machine("machine", options.machine_cpu, options.machine_memory, dict.fromkeys(DEVICES.values(), PARTS))


KIND = TraceKind("Azure Packing, 2020", "packing_trace_zone_a_v1.sqlite", _read, _typical)
