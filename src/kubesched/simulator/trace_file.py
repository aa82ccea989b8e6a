"""Files with machines and arrivals that `kubesched trace import` writes, and their replay.

The first line has the machines, every other line a pod or several equal ones, in the order in which they arrive. A
replay reads a line when its time has come, so that a file may be larger than memory.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec

from kubesched.api import builders
from kubesched.api import objects as api
from kubesched.simulator.scenario_client import ScenarioClient, ScenarioError

SUFFIX = ".trace.jsonl.gz"
GPU_MODEL = "alibabacloud.com/gpu-card-model"
PODS_PER_NODE = 1001
"""No trace has a limit, so this is never the reason why a pod does not fit."""


class Machine(msgspec.Struct, frozen=True, omit_defaults=True):
    """A node of a trace, or several equal ones."""

    name: str
    cpu: int
    """Thousandths of cores."""
    memory: int
    """Bytes."""
    resources: dict[str, int] = {}
    labels: dict[str, str] = {}
    count: int = 1

    def nodes(self) -> Iterator[api.Node]:
        """The nodes."""
        for number in range(self.count):
            yield builders.node(
                self.name if self.count == 1 else f"{self.name}-{number}",
                cpu=f"{self.cpu}m",
                memory=self.memory,
                pods=PODS_PER_NODE,
                resources=self.resources,
                labels=self.labels,
            )


class Arrival(msgspec.Struct, omit_defaults=True):
    """A pod of a trace, or several equal ones that arrive together."""

    at: float
    """Seconds since the start of the trace."""
    name: str
    cpu: int
    memory: int
    run: float | None = None
    """Seconds that it runs; None if it does not end."""
    count: int = 1
    resources: dict[str, int] = {}
    models: tuple[str, ...] = ()
    """GPU models that it may use; any if empty."""
    priority: int = 0
    labels: dict[str, str] = {}

    def pods(self, speed: float = 1.0) -> Iterator[api.Pod]:
        """The pods, which run as many times shorter as `speed` says."""
        term = builders.node_term((GPU_MODEL, "In", *dict.fromkeys(self.models)))
        made = builders.pod(
            self.name,
            requests={"cpu": f"{self.cpu}m", "memory": self.memory, **self.resources},
            limits=self.resources,  # as extended resources need them
            affinity=builders.affinity(nodes=[term]) if self.models else None,
            run_time="" if self.run is None else f"{self.run / speed:.3f}s",
            labels=self.labels,
        )
        spec = msgspec.structs.replace(made.spec, priority_class_name=priority_class(self.priority))
        for number in range(self.count):
            name = self.name if self.count == 1 else f"{self.name}-{number}"
            metadata = msgspec.structs.replace(made.metadata, name=name, uid="")
            yield msgspec.structs.replace(made, metadata=metadata, spec=spec)


class TraceHead(msgspec.Struct, omit_defaults=True):
    """The first line of a file."""

    trace: str
    machines: list[Machine]
    priorities: list[int] = []
    pods: int = 0
    seconds: float = 0.0
    """When the last pod has ended, if each starts as it arrives."""


def priority_class(priority: int) -> str:
    """The name of the class with this priority; none for 0."""
    return f"priority-{priority}" if priority else ""


@contextmanager
def opened_trace(path: Path) -> Iterator[tuple[TraceHead, Iterator[Arrival]]]:
    """The head of a file, and its arrivals as they are read."""
    decoder = msgspec.json.Decoder(Arrival)
    try:
        with gzip.open(path, "rb") as file:
            head = msgspec.json.decode(file.readline(), type=TraceHead)
            yield head, map(decoder.decode, file)
    except (OSError, EOFError, msgspec.MsgspecError) as error:
        raise ScenarioError(f"{path}: {error}; make it again with kubesched trace import") from None


async def play_trace(client: ScenarioClient, path: Path, *, speed: float = 1.0, until: float | None = None) -> None:
    """Create the machines of a trace, then its pods, each at its time.

    With a `speed` of 2 pods arrive twice as fast and run half as long. Those after `until`, in seconds of the trace,
    are left out.
    """
    with opened_trace(path) as (head, arrivals):
        for priority in head.priorities:
            await client.create(_class(priority))
        for machine in head.machines:
            for node in machine.nodes():
                await client.create(node)
        for arrival in arrivals:
            if until is not None and arrival.at > until:
                break
            if arrival.at / speed > client.now:
                await client.sleep_until(arrival.at / speed)
            for pod in arrival.pods(speed):
                await client.create(pod)


def _class(priority: int) -> api.PriorityClass:
    return api.PriorityClass(metadata=api.ObjectMeta(name=priority_class(priority)), value=priority)
