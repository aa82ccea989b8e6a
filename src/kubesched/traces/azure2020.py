"""Azure's packing trace of 2020: an SQLite file with virtual machines and their types.

Amounts are fractions of a machine, and differ by the type of machine. The import takes the type on which most types of
virtual machines can run.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from pathlib import Path

from kubesched.simulator.trace_file import Arrival, Machine
from kubesched.traces.model import Source, TraceError, TraceKind, TraceOptions

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
            raise TraceError(f"{path}: not the SQLite file of this trace: {error}") from None


def _vms(path: Path, source: Source) -> Iterator[Arrival]:
    if not path.is_file():
        raise TraceError(f"{path}: there is no such file")
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        machine = connection.execute(MACHINE).fetchone()
        types = {each[0]: each[1:] for each in connection.execute(TYPES, machine or (None,))}
        for number, vm_type, priority, start, end in connection.execute(VMS):
            if vm_type not in types:
                source.skip(f"its type does not run on machines of type {machine[0] if machine else '?'}")
                continue
            core, memory, *devices = (each or 0.0 for each in types[vm_type])
            began = max(0.0, start or 0.0)  # what began before the trace is there at its start
            amounts = {DEVICES[name]: round(each * PARTS) for name, each in zip(DEVICES, devices, strict=True)}
            yield Arrival(
                at=began * DAY,
                name=f"vm-{number}",
                cpu=round(core * source.options.machine_cpu),
                memory=round(memory * source.options.machine_memory),
                run=max(0.0, end - began) * DAY if end is not None else None,
                resources={name: each for name, each in amounts.items() if each},
                priority=int(priority or 0),
            )
    finally:
        connection.close()


def _typical(options: TraceOptions) -> Machine:
    return Machine("machine", options.machine_cpu, options.machine_memory, dict.fromkeys(DEVICES.values(), PARTS))


KIND = TraceKind("Azure Packing, 2020", "packing_trace_zone_a_v1.sqlite", _read, _typical)
