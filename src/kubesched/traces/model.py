"""What the readers of all traces share."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from kubesched.simulator.trace_file import Arrival, Machine

GPU = "nvidia.com/gpu"
GPU_MILLI = "alibabacloud.com/gpu-milli"
"""Thousandths of GPUs, for traces in which pods share them."""
GIB = 2**30
_NOT_IN_NAMES = re.compile(r"[^a-z0-9]+")
_LONGEST = 50


class TraceError(Exception):
    """A trace that cannot be read. The message names file, line, column and value."""


@dataclass
class TraceOptions:
    """What an import needs to know that a trace does not say."""

    machine_cpu: int
    """Thousandths of cores of a machine, where amounts are fractions of one or there is no list of machines."""
    machine_memory: int


@dataclass
class Source:
    """The files of a trace, and what happens to their rows."""

    files: Sequence[Path]
    options: TraceOptions
    skipped: Counter[str] = field(default_factory=Counter)
    """How many rows were skipped, by reason."""
    machines: list[Machine] = field(default_factory=list)
    """The machines that the trace lists; empty if it lists none."""

    def skip(self, reason: str) -> None:
        """Count a row that cannot be replayed."""
        self.skipped[reason] += 1


@dataclass(frozen=True)
class TraceKind:
    """A public trace: how to read it, and what it consists of."""

    title: str
    files: str
    read: Callable[[Source], Iterable[Arrival]]
    """Yields the pods in any order, and puts the machines into the source."""
    machine: Callable[[TraceOptions], Machine]
    """A typical machine, for traces that list none."""


def plain_machine(options: TraceOptions) -> Machine:
    """A machine without anything special."""
    return Machine("machine", options.machine_cpu, options.machine_memory)


def gpu_machine(options: TraceOptions) -> Machine:
    """A machine with eight GPUs."""
    return Machine("machine", options.machine_cpu, options.machine_memory, {GPU: 8})


def shared_gpu_machine(options: TraceOptions) -> Machine:
    """A machine with eight GPUs that pods can share."""
    return Machine("machine", options.machine_cpu, options.machine_memory, {GPU_MILLI: 8000})


def pod_name(text: str) -> str:
    """A name that Kubernetes accepts, made from a trace's name."""
    return _NOT_IN_NAMES.sub("-", text.lower()).strip("-")[:_LONGEST].strip("-") or "pod"
