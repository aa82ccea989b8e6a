"""Google's Borg of 2019: events of instances and machines, as JSON lines or CSV.

Amounts are fractions of the largest machine, times are microseconds. A pod arrives with an instance's SUBMIT and runs
from its SCHEDULE to the event that ends it. Events come in any order; they are sorted on disk.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import msgspec

from kubesched.simulator.trace_file import Arrival, Machine
from kubesched.traces.model import Source, TraceKind, plain_machine
from kubesched.traces.reading import TraceRow, objects, rows
from kubesched.traces.sorting import sorted_on_disk

MICRO = 1e6
SUBMIT, SCHEDULE = "SUBMIT", "SCHEDULE"
INSTANCE_EVENTS = (SUBMIT, "QUEUE", "ENABLE", SCHEDULE, "EVICT", "FAIL", "FINISH", "KILL", "LOST")
"""By number."""
ENDS = frozenset(("EVICT", "FAIL", "FINISH", "KILL", "LOST"))
MACHINE_REMOVED = ("2", "REMOVE")
AFTER_THE_END = 2**62


class InstanceEvent(msgspec.Struct, array_like=True):
    """What the import reads of an event."""

    instance: str
    time: float
    event: str
    cpu: int
    memory: int
    priority: int


def _read(source: Source) -> Iterator[Arrival]:
    events = sorted_on_disk(_events(source), InstanceEvent, _order)
    for instance, group in groupby(events, lambda each: each.instance):
        yield from _runs(instance, group, source)


def _order(event: InstanceEvent) -> tuple[str, float, int]:
    """By instance and time. At the same time, an end comes before the next submission."""
    rank = {SUBMIT: 1, SCHEDULE: 2}.get(event.event, 0)
    return event.instance, event.time, rank


def _events(source: Source) -> Iterator[InstanceEvent]:
    machines: dict[str, Machine] = {}
    for path in source.files:
        for row in _each(path):
            if "machine_id" in row and "instance_index" not in row:
                _machine(row, source, machines)
            elif "instance_index" not in row:
                source.skip("is about a collection, not an instance")
            elif (event := _event(row, source)) is not None:
                yield event
    source.machines += machines.values()


def _each(path: Path) -> Iterator[TraceRow]:
    return rows(path) if ".csv" in path.suffixes else objects(path)


def _machine(row: TraceRow, source: Source, machines: dict[str, Machine]) -> None:
    name = f"machine-{row.text('machine_id')}"
    if row.text("type").upper() in MACHINE_REMOVED:
        return  # it comes back, as a rule
    cpu, memory = _fractions(row, "capacity", source)
    if cpu:
        machines[name] = Machine(name, cpu, memory)


def _event(row: TraceRow, source: Source) -> InstanceEvent | None:
    kind = row.text("type").upper()
    name = (
        INSTANCE_EVENTS[int(kind)] if kind.isdecimal() and len(kind) < 4 and int(kind) < len(INSTANCE_EVENTS) else kind
    )
    time = row.number("time", default=0)
    if name not in (SUBMIT, SCHEDULE, *ENDS) or time > AFTER_THE_END:
        return None
    cpu, memory = _fractions(row, "resource_request", source)
    instance = f"{row.text('collection_id')}-{row.text('instance_index')}"
    return InstanceEvent(instance, time / MICRO, name, cpu, memory, int(row.number("priority", default=0)))


def _fractions(row: TraceRow, field: str, source: Source) -> tuple[int, int]:
    """CPU and memory from a nested object, or from columns named after it."""
    nested = row.value(field)
    part = row.part(nested) if isinstance(nested, dict) else row
    cpu = part.amount("cpus", f"{field}.cpus", f"{field}_cpus", default=0)
    memory = part.amount("memory", f"{field}.memory", f"{field}_memory", default=0)
    return round(cpu * source.options.machine_cpu), round(memory * source.options.machine_memory)


def _runs(instance: str, events: Iterator[InstanceEvent], source: Source) -> Iterator[Arrival]:
    """A pod per SUBMIT: an instance that was evicted is submitted again."""
    waiting: Arrival | None = None
    began, number = 0.0, 0
    for each in events:
        if each.event == SUBMIT:
            if waiting is not None:
                yield waiting
            name = instance if not number else f"{instance}-again-{number}"
            waiting = Arrival(each.time, name, each.cpu, each.memory, priority=each.priority)
            began, number = each.time, number + 1
        elif waiting is None:
            source.skip("belongs to an instance that was submitted before the trace")
        elif each.event == SCHEDULE:
            began = each.time
        else:
            waiting.run = max(0.0, each.time - began)
            yield waiting
            waiting = None
    if waiting is not None:
        yield waiting


KIND = TraceKind("Borg, 2019", "instance_events and machine_events, as JSON lines or CSV", _read, plain_machine)
