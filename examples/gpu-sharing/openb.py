"""Reads traces of the openb family and turns them into nodes, pods and arrivals.

Nodes are CSV with `sn`, `cpu_milli`, `memory_mib`, `gpu` (how many) and `model`. Pods have `name`, `cpu_milli`,
`memory_mib`, `num_gpu`, `gpu_milli` (of each GPU) and `gpu_spec` (allowed models, "A|B"). Columns come in any order,
others are ignored, and some traces name them differently or leave them out. Files may be compressed.
"""

from __future__ import annotations

import csv
import gzip
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import NamedTuple, TextIO, TypeVar

from fragmentation import Request, TypicalPod, typical_pods
from gpu_share import GPU_MILLI, GPU_MODEL, WHOLE
from policies import ORDER

from kubesched import Node, Pod
from kubesched.testing import affinity, node, node_term, pod

MIB = 2**20
PODS_PER_NODE = 1001
"""As in the paper's cluster: never the limit."""
T = TypeVar("T")
EMPTY = frozenset({"", "nan", "none", "null", "na", "n/a", "-"})
CPU = {"cpu_milli": 1, "cpu": 1000, "num_cpu": 1000, "cpu_cores": 1000}
"""Columns of CPU, with the thousandths of a core that their unit has."""
MEMORY = {"memory_mib": 1, "memory_gib": 1024, "memory_bytes": 1 / MIB}
"""Columns of memory, in MiB."""
PLENTY_MIB = 2**20
"""What a node has if the trace has no memory."""
ONLY_NODES = frozenset({"sn", "model"})
ONLY_PODS = frozenset({"gpu_milli", "gpu_spec", "qos", "pod_phase", "creation_time"})
"""Columns by which swapped files are noticed."""
MODELS = re.compile(r"[|,;/\s]+")


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
    if ONLY_PODS & _columns(nodes) and ONLY_NODES & _columns(pods):
        raise TraceError(f"{nodes}:1: these are the columns of pods, and {pods} has those of nodes; swap the two files")
    trace = Trace(_distinct(_read(nodes, _node)), _read(pods, _pod))
    if not trace.capacity:
        raise TraceError(f"{nodes}: no node has a GPU; column gpu must be above 0 for some")
    if not any(each.gpu_milli for each in trace.pods):
        raise TraceError(f"{pods}: no pod requests a GPU; column num_gpu must be above 0 for some")
    return trace


def _distinct(nodes: Sequence[NodeRow]) -> list[NodeRow]:
    """Nodes with names of their own: rows that share a name get a number."""
    seen: Counter[str] = Counter()
    found = []
    for each in nodes:
        seen[each.name] += 1
        found.append(each if seen[each.name] == 1 else each._replace(name=f"{each.name}-{seen[each.name]}"))
    return found


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
    """A line of a CSV file, by the names of its columns."""

    def __init__(self, path: Path, line: int, cells: Mapping[str, str]) -> None:
        self._path, self._line, self._cells = path, line, cells

    def text(self, *columns: str) -> str:
        """The value of the first of these columns that is not empty, "" if there is none."""
        found = (self._cells.get(column, "").strip() for column in columns)
        return next((each for each in found if each.lower() not in EMPTY), "")

    def number(self, *columns: str, default: float | None = None) -> float:
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
        return value

    def amount(self, units: Mapping[str, float], default: float | None = None) -> int:
        """An amount from one of several columns, each with a unit of its own."""
        column = next((each for each in units if self.text(each)), next(iter(units)))
        missing = None if default is None else default / units[column]
        return round(self.number(column, default=missing) * units[column])

    def has(self, columns: Iterable[str]) -> bool:
        """Whether the file has one of these columns."""
        return any(each in self._cells for each in columns)


def _read(path: Path, parse: Callable[[_Row, int], T]) -> list[T]:
    try:
        with _opened(path) as file:
            names, separator = _head(file)
            lines = csv.reader(file, delimiter=separator)
            found = [
                parse(_Row(path, lines.line_num + 1, _cells(path, lines.line_num + 1, names, cells)), number)
                for number, cells in enumerate(each for each in lines if any(cell.strip() for cell in each))
            ]
    except (OSError, UnicodeError, EOFError, csv.Error) as problem:
        raise TraceError(f"{path}: {problem}") from None
    if not found:
        raise TraceError(f"{path}: the file has no rows; it needs a line with names of columns and a line per entry")
    return found


def _head(file: TextIO) -> tuple[list[str], str]:
    """The names of the columns, and what separates them."""
    first = file.readline()
    separator = max(",;\t", key=first.count)
    return [each.strip().lower() for each in next(csv.reader([first], delimiter=separator), [])], separator


def _columns(path: Path) -> set[str]:
    try:
        with _opened(path) as file:
            return set(_head(file)[0])
    except (OSError, UnicodeError, EOFError, csv.Error) as problem:
        raise TraceError(f"{path}: {problem}") from None


def _cells(path: Path, line: int, names: Sequence[str], cells: Sequence[str]) -> dict[str, str]:
    """The values of a line by column. A missing one must not count as an empty one: the line may be cut off."""
    if len(cells) < len(names):
        has = f"the line has {len(cells)} values, and there are {len(names)} columns"
        raise TraceError(f"{path}:{line}: {has}; write one for each, which may be empty")
    return dict(zip(names, cells, strict=False))


def _opened(path: Path) -> TextIO:
    """The text of a file, which may be compressed."""
    with path.open("rb") as file:
        compressed = file.read(2) == b"\x1f\x8b"
    return (
        gzip.open(path, "rt", newline="", encoding="utf-8-sig")
        if compressed
        else path.open(newline="", encoding="utf-8-sig")
    )


def _node(row: _Row, number: int) -> NodeRow:
    return NodeRow(
        name=row.text("sn", "name", "node", "node_name") or f"node-{number:04}",
        cpu_milli=row.amount(CPU),
        memory_mib=row.amount(MEMORY, default=PLENTY_MIB),
        gpus=int(row.number("gpu", "num_gpu", "gpus", "gpu_count", default=0)),
        model=row.text("model", "gpu_model", "gpu_type", "gpu_spec"),
    )


def _pod(row: _Row, number: int) -> PodRow:
    gpus, milli = _gpus(row)
    request = Request(
        milli_cpu=row.amount(CPU, default=0 if row.has(CPU) else None),
        gpu_milli=milli,
        gpus=gpus,
        models="|".join(sorted(set(filter(None, MODELS.split(row.text("gpu_spec", "gpu_type")))))) if gpus else "",
    )
    return PodRow(row.text("name", "job_id") or f"pod-{number:04}", request, row.amount(MEMORY, default=0))


def _gpus(row: _Row) -> tuple[int, int]:
    """How many GPUs a pod requests, and thousandths of each. Several GPUs are never shared."""
    milli = row.number("gpu_milli", "gpu_share", default=-1)
    number = row.number("num_gpu", "gpu", "gpus", default=1 if milli > 0 else 0)
    if 0 < number < 1:  # a part of a GPU, written as such
        number, milli = 1, number * WHOLE
    if not number or not milli:
        return 0, 0
    whole = number > 1 or not 0 < milli < WHOLE
    return round(number), WHOLE if whole else max(1, round(milli))
