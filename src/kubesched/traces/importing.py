"""Turns a trace into a scenario: a small Python file, and a file with machines and arrivals beside it."""

from __future__ import annotations

import gzip
import heapq
import math
import shutil
import tempfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

import msgspec

from kubesched.simulator.trace_file import SUFFIX, Arrival, Machine, TraceHead
from kubesched.traces.model import Source, TraceError, TraceKind
from kubesched.traces.sorting import PART, sorted_on_disk

FULL = 0.8
"""How full machines may be at the peak, where their number is not given."""
LINGER = 60
"""Seconds from the end of the trace to the end of the scenario: pods that waited need some more time."""
SCENARIO = '''"""{title}: {pods:,} pods on {nodes:,} nodes. Written by kubesched trace import."""

from pathlib import Path

from kubesched.simulator import ScenarioClient, play_trace

seed = 1
duration = "{seconds}s"
# What costs much in a large cluster and changes no decision: heartbeats, Events, the steps between bound and running,
# pods that ended long ago.
cluster = {{"heartbeat": "0s", "events": False, "podSteps": False, "endedPods": 1000}}


async def scenario(client: ScenarioClient) -> None:
    await play_trace(client, Path(__file__).with_name({file!r}), speed={speed:g})
'''


@dataclass(frozen=True)
class Window:
    """Which part of a trace to import."""

    begin: float = 0.0
    """Seconds after the first arrival."""
    end: float = math.inf
    limit: int | None = None
    """How many pods at most."""
    nodes: int | None = None
    """How many machines, instead of those of the trace."""
    speed: float = 1.0
    """How many times faster the scenario is than the trace."""


@dataclass
class Imported:
    """The result of an import."""

    head: TraceHead
    scenario: Path
    skipped: Mapping[str, int]
    freed: int
    """Pods that want certain GPU models and may use any, because no machine is listed that has one."""

    @property
    def nodes(self) -> int:
        """How many nodes the scenario has."""
        return sum(each.count for each in self.head.machines)


def import_trace(kind: TraceKind, source: Source, out: Path, window: Window, part: int = PART) -> Imported:
    """Write the scenario `out`, a .py file, and the arrivals beside it. Memory does not grow with the trace."""
    ordered = sorted_on_disk(kind.read(source), Arrival, lambda each: each.at, part)
    demand = _Demand()
    data = out.with_name(out.stem + SUFFIX)
    with tempfile.TemporaryFile(dir=out.parent) as body:
        with gzip.GzipFile(fileobj=body, mode="wb", compresslevel=5, mtime=0) as packed:
            _write(_within(ordered, window), demand, packed, source)
        if not demand.pods:
            files = ", ".join(map(str, source.files))
            why = "; ".join(f"{number} skipped: {reason}" for reason, number in source.skipped.items())
            raise TraceError(f"{files}: there is no pod to import{f' ({why})' if why else ''}; expected {kind.files}")
        head = TraceHead(
            trace=kind.title,
            machines=_machines(kind, source, demand, window.nodes),
            priorities=sorted(demand.priorities - {0}),
            pods=demand.pods,
            seconds=math.ceil(demand.last_end),
        )
        body.seek(0)
        with data.open("wb") as file:
            with gzip.GzipFile(fileobj=file, mode="wb", mtime=0) as packed:
                packed.write(msgspec.json.encode(head) + b"\n")
            shutil.copyfileobj(body, file)
    made = Imported(head, out, source.skipped, demand.freed)
    out.write_text(
        SCENARIO.format(
            title=kind.title,
            pods=head.pods,
            nodes=made.nodes,
            seconds=int(head.seconds / window.speed) + LINGER,
            speed=window.speed,
            file=data.name,
        ),
        "utf-8",
    )
    return made


def _within(arrivals: Iterable[Arrival], window: Window) -> Iterator[Arrival]:
    """The arrivals of the window, with times since its start and names that occur once."""
    first: float | None = None
    pods = 0
    for each in arrivals:
        first = each.at if first is None else first
        at = each.at - first - window.begin
        if at + window.begin > window.end or (window.limit is not None and pods >= window.limit):
            return
        if at >= 0:
            each.at = round(at, 3)
            if window.limit is not None:
                each.count = min(each.count, window.limit - pods)
            pods += each.count
            yield each


def _write(arrivals: Iterable[Arrival], demand: _Demand, file: IO[bytes] | gzip.GzipFile, source: Source) -> None:
    encode = msgspec.json.Encoder().encode
    for each in arrivals:  # all rows have been read by now, those about machines too
        if each.models and not source.machines:
            demand.freed += each.count
            each.models = ()
        each.name = f"{each.name}-{demand.pods}"  # traces use names again
        demand.add(each)
        file.write(encode(each) + b"\n")


@dataclass
class _Demand:
    """What all pods need at the same time, at most, if each starts when it arrives."""

    pods: int = 0
    freed: int = 0
    last_end: float = 0.0
    priorities: set[int] = field(default_factory=set)
    peak: Counter[str] = field(default_factory=Counter)
    _now: Counter[str] = field(default_factory=Counter)
    _running: list[tuple[float, int, dict[str, int]]] = field(default_factory=list)

    def add(self, arrival: Arrival) -> None:
        """Count a pod, and forget those that have ended by then."""
        while self._running and self._running[0][0] <= arrival.at:
            self._now.subtract(heapq.heappop(self._running)[2])
        amounts = {"cpu": arrival.cpu, "memory": arrival.memory, **arrival.resources}
        needed = {name: amount * arrival.count for name, amount in amounts.items()}
        self._now.update(needed)
        for name in needed:
            self.peak[name] = max(self.peak[name], self._now[name])
        self.pods += arrival.count
        self.priorities.add(arrival.priority)
        end = arrival.at if arrival.run is None else arrival.at + arrival.run
        self.last_end = max(self.last_end, end)
        if arrival.run is not None:
            heapq.heappush(self._running, (end, self.pods, needed))


def _machines(kind: TraceKind, source: Source, demand: _Demand, nodes: int | None) -> list[Machine]:
    """The machines of the trace, so many of them as asked for, or enough of a typical one."""
    listed = source.machines
    if listed and nodes is None:
        return listed
    if listed and nodes is not None:
        # From all over the list, which often has one kind of machine after the other.
        chosen = (listed[n % len(listed) if nodes > len(listed) else n * len(listed) // nodes] for n in range(nodes))
        return [msgspec.structs.replace(each, name=f"machine-{n}") for n, each in enumerate(chosen)]
    typical = kind.machine(source.options)
    if nodes is None:
        offered = {"cpu": typical.cpu, "memory": typical.memory, **typical.resources}
        filled = [demand.peak[name] / amount for name, amount in offered.items() if amount]
        nodes = max(1, math.ceil(max(filled) / FULL))
    return [msgspec.structs.replace(typical, count=nodes)]
