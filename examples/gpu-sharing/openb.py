"""Reads traces of the openb family and turns them into nodes, pods and arrivals.

Nodes are CSV with `sn`, `cpu_milli`, `memory_mib`, `gpu` (how many) and `model`. Pods have `name`, `cpu_milli`,
`memory_mib`, `num_gpu`, `gpu_milli` (of each GPU) and `gpu_spec` (allowed models, "A|B"). Other columns are ignored.
Some traces name columns differently or leave them out.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, TypeVar

from fragmentation import Request, TypicalPod, typical_pods
from gpu_share import GPU_MILLI, GPU_MODEL, WHOLE
from policies import ORDER

from kubesched import Node, Pod
from kubesched.testing import affinity, node, node_term, pod

MIB = 2**20
PODS_PER_NODE = 1001
"""As in the paper's cluster: never the limit."""
T = TypeVar("T")
EMPTY = frozenset({"", "nan", "none", "null", "-"})


class TraceError(Exception):
    """A trace that cannot be read, with file, line, column and value."""


class NodeRow(NamedTuple):
    """A node of a trace."""

    name: str
    cpu_milli: int
    memory_mib: int
    gpus: int
    model: str


class PodRow(NamedTuple):
    """A pod of a trace."""

    name: str
    request: Request
    memory_mib: int

    @property
    def gpu_milli(self) -> int:
        """Thousandths of all its GPUs together."""
        return self.request.gpus * self.request.gpu_milli


class Trace(NamedTuple):
    """A cluster and the pods that arrive there."""

    nodes: Sequence[NodeRow]
    pods: Sequence[PodRow]

    @property
    def capacity(self) -> int:
        """Thousandths of all GPUs of the cluster."""
        return WHOLE * sum(each.gpus for each in self.nodes)

    @property
    def typical(self) -> list[TypicalPod]:
        """The pods to keep GPUs usable for."""
        return typical_pods(each.request for each in self.pods)


def read_trace(nodes: Path, pods: Path) -> Trace:
    """Read both files."""
    trace = Trace(_read(nodes, _node), _read(pods, _pod))
    if not trace.capacity:
        raise TraceError(f"{nodes}: no node has a GPU; column gpu must be above 0 for some")
    if not any(each.gpu_milli for each in trace.pods):
        raise TraceError(f"{pods}: no pod requests a GPU; column num_gpu must be above 0 for some")
    return trace


def arrivals(trace: Trace, random: Random, load: float) -> list[PodRow]:
    """The trace's pods in random order, and copies of some, until they request this part of the cluster's GPUs.

    If the trace has more than that, pods are left out at random.
    """
    pods = sorted(trace.pods)
    copies = pods[:]
    random.shuffle(pods)
    wanted = load * trace.capacity
    requested = sum(each.gpu_milli for each in pods)
    while requested > wanted:
        requested -= pods.pop(random.randrange(len(pods))).gpu_milli
    if len(pods) == len(copies):
        while requested + (copy := random.choice(copies)).request.gpu_milli <= wanted:
            pods.append(copy)
            requested += copy.gpu_milli
    return pods


def node_objects(trace: Trace, random: Random) -> list[Node]:
    """The nodes, with numbers in random order that decide between equals."""
    order = list(range(len(trace.nodes)))
    random.shuffle(order)
    return [
        node(
            each.name,
            cpu=f"{each.cpu_milli}m",
            memory=each.memory_mib * MIB,
            pods=PODS_PER_NODE,
            resources={GPU_MILLI: each.gpus * WHOLE} if each.gpus else None,
            labels={ORDER: str(place)} | ({GPU_MODEL: each.model} if each.model else {}),
        )
        for each, place in zip(trace.nodes, order, strict=True)
    ]


def pod_object(row: PodRow, number: int) -> Pod:
    """A pod. Its allowed models become node affinity."""
    models = tuple(filter(None, dict.fromkeys(row.request.models.split("|"))))
    requests: dict[str, str | int | float] = {"cpu": f"{row.request.milli_cpu}m", "memory": row.memory_mib * MIB}
    return pod(
        f"{row.name}-{number}",
        requests=requests | ({GPU_MILLI: row.gpu_milli} if row.gpu_milli else {}),
        affinity=affinity(nodes=[node_term((GPU_MODEL, "In", *models))]) if models else None,
        priority=0,
    )


class _Row:
    """A line of a CSV file."""

    def __init__(self, path: Path, line: int, cells: dict[str, str | None]) -> None:
        self._path, self._line, self._cells = path, line, cells

    def text(self, *columns: str) -> str:
        """The value of the first of these columns that the file has, "" if it has none of them."""
        for column in columns:
            if column in self._cells:
                value = (self._cells[column] or "").strip()
                return "" if value.lower() in EMPTY else value
        return ""

    def number(self, *columns: str, default: int | None = None, times: int = 1) -> int:
        """A number that is not negative; `default` where it is missing."""
        text = self.text(*columns)
        if not text and default is not None:
            return default
        try:
            value = float(text)
        except ValueError:
            value = -1
        if not 0 <= value < 2**62:
            has = f"is {text!r}" if text else "is missing"
            raise TraceError(f"{self._path}:{self._line}: {columns[0]} {has}; it must be a number from 0 on")
        return round(value * times)

    def has(self, column: str) -> bool:
        """Whether the file has a column."""
        return column in self._cells


def _read(path: Path, parse: Callable[[_Row, int], T]) -> list[T]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            rows = csv.DictReader(file)
            found = [parse(_Row(path, rows.line_num, each), number) for number, each in enumerate(rows)]
    except (OSError, UnicodeError, csv.Error) as problem:
        raise TraceError(f"{path}: {problem}") from None
    if not found:
        raise TraceError(f"{path}: the file has no rows; it needs a line with names of columns and a line per entry")
    return found


def _node(row: _Row, number: int) -> NodeRow:
    return NodeRow(
        name=row.text("sn", "name", "node") or f"node-{number:04}",
        cpu_milli=_cpu(row),
        memory_mib=row.number("memory_mib", default=2**20),
        gpus=row.number("gpu", "num_gpu", "gpus", default=0),
        model=row.text("model", "gpu_model", "gpu_type"),
    )


def _pod(row: _Row, number: int) -> PodRow:
    gpus = row.number("num_gpu", default=0)
    milli = min(row.number("gpu_milli", default=WHOLE), WHOLE) if gpus else 0
    gpus = gpus if milli else 0
    request = Request(
        milli_cpu=_cpu(row),
        gpu_milli=milli if gpus < 2 else WHOLE,  # several GPUs are never shared
        gpus=gpus,
        models=row.text("gpu_spec") if gpus else "",
    )
    return PodRow(row.text("name", "job_id") or f"pod-{number:04}", request, row.number("memory_mib", default=0))


def _cpu(row: _Row) -> int:
    if row.has("cpu_milli"):
        return row.number("cpu_milli")
    return row.number("cpu", "num_cpu", times=1000)
