"""Measurements beside kube-scheduler and the null binder as a table, as Markdown and as JSON."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from statistics import median

from rich.box import SIMPLE_HEAD
from rich.table import Table

from kubesched.bench.machine import BenchMachine, describe_machine
from kubesched.bench.peers.measure import PeerMeasurement
from kubesched.bench.peers.programs import PeerProgram

KUBESCHED, KUBE_SCHEDULER, NULL_BINDER = (each.value for each in PeerProgram)

_COLUMNS = ("", "pods/s", "ratio", "ceiling", "CPU ms", "MB", "p50 ms", "p99 ms", "last s")
LEGEND = """\
ratio: to kube-scheduler's pods/s. ceiling: share of the null binder's pods/s. CPU ms: per pod.
last s: from the start to the last binding. p50, p99: from creation, or from the start, to binding."""


def pods_per_s(measurement: PeerMeasurement) -> float:
    """The rate from the first binding to the last."""
    return measurement["pods_per_s"]


def start_to_last(measurement: PeerMeasurement) -> float:
    """The seconds from the start to the last binding."""
    return measurement["start_to_last_s"]


@dataclass(frozen=True, slots=True)
class PeerRow:
    """One workload with one kind of load: the rounds of each program."""

    workload: str
    load: str
    rounds: Sequence[Sequence[PeerMeasurement]]

    def programs(self) -> list[str]:
        """The programs that were measured, in their order."""
        return list(dict.fromkeys(each["program"] for one in self.rounds for each in one))

    def value(self, program: str, read: Callable[[PeerMeasurement], float]) -> float | None:
        """The median of a number over all rounds."""
        found = [read(each) for one in self.rounds for each in one if each["program"] == program]
        return median(found) if found else None

    def ratio(self, program: str, other: str, read: Callable[[PeerMeasurement], float] = pods_per_s) -> float | None:
        """The median, over all rounds, of one program's number divided by the other's in the same round."""
        pairs = []
        for one in self.rounds:
            numbers = {each["program"]: read(each) for each in one}
            if numbers.get(program) and numbers.get(other):
                pairs.append(numbers[program] / numbers[other])
        return median(pairs) if pairs else None

    def problems(self) -> Iterator[str]:
        """What makes a measurement doubtful."""
        for one in self.rounds:
            for each in one:
                if each["problem"]:
                    yield f"{readable(self.workload)}, {self.load}, {each['program']}: {each['problem']}"


def readable(workload: str) -> str:
    """A workload's name for readers: HostAntiAffinity/5000Nodes as "host anti-affinity, 5,000 nodes"."""
    name, _, sizes = workload.partition("/")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", name).lower().replace("anti affinity", "anti-affinity")
    counts = [f"{int(count):,} {what.lower()}" for count, what in re.findall(r"([0-9]+)([A-Za-z]+)", sizes)]
    return ", ".join((words, *counts))


@dataclass
class PeerReport:
    """All rows, and the workloads that could not run."""

    rows: list[PeerRow] = field(default_factory=list)
    skipped: dict[str, str] = field(default_factory=dict)
    machine: BenchMachine = field(default_factory=describe_machine)
    began: datetime = field(default_factory=lambda: datetime.now(UTC))

    def tables(self) -> Iterator[Table]:
        """A table for each row, with a line for each program."""
        for row in self.rows:
            title = f"{readable(row.workload)}, {row.load}"
            # One blank between columns, so that large numbers fit into 80 of them.
            shown = Table(title=title, title_justify="left", box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1, 0, 0))
            for name in _COLUMNS:
                shown.add_column(name, justify="right" if name else "left", no_wrap=not name)
            for program in row.programs():
                shown.add_row(*_cells(row, program))
            yield shown

    def markdown(self) -> str:
        """The rows as tables of a Markdown page: first the rates, then the cost."""
        lines = [*self._head(), "", *_rates(self.rows), "", *_costs(self.rows)]
        problems = [problem for row in self.rows for problem in row.problems()]
        if problems:
            lines += ["", "Remarks:", "", *(f"- {each}" for each in problems)]
        if self.skipped:
            lines += ["", "Not run:", "", *(f"- {name}: {why}" for name, why in self.skipped.items())]
        return "\n".join(lines) + "\n"

    def _head(self) -> Iterator[str]:
        machine, rounds = self.machine, max((len(row.rounds) for row in self.rows), default=0)
        load = ", ".join(f"{each:.1f}" for each in machine["load_average"])
        yield (
            f"{self.began:%Y-%m-%d}, {machine['cores']} cores of {machine['processor']}, "
            f"{machine['memory_gb']:.0f} GB, {machine['system']}, Python {machine['python']}. "
            f"Load average at the start: {load}. Rounds: {rounds}; the median is shown."
        )

    def ratios(self) -> str:
        """A short Markdown table of ratios to kube-scheduler, for readers who want no more."""
        lines = [
            "| workload | load | pods/s, times kube-scheduler | start to last binding, times faster | CPU per pod |",
            "| --- | --- | ---: | ---: | ---: |",
        ]
        for row in self.rows:
            rate, cpu = row.ratio(KUBESCHED, KUBE_SCHEDULER), row.ratio(KUBESCHED, KUBE_SCHEDULER, _cpu_per_pod)
            faster = row.ratio(KUBE_SCHEDULER, KUBESCHED, start_to_last)
            share = "" if cpu is None else f"{100 * cpu:.0f} %"
            cells = (readable(row.workload), row.load, _number(rate, 1), _number(faster, 1), share)
            lines.append(f"| {' | '.join(cells)} |")
        return "\n".join(lines) + "\n"

    def json(self) -> str:
        """Everything, with each round."""
        document = {
            "began": self.began.isoformat(timespec="seconds"),
            "machine": self.machine,
            "rows": [{"workload": row.workload, "load": row.load, "rounds": row.rounds} for row in self.rows],
            "skipped": self.skipped,
        }
        return json.dumps(document, indent=1) + "\n"


def _cpu_per_pod(measurement: PeerMeasurement) -> float:
    return measurement["cpu_ms_per_pod"]


def _cells(row: PeerRow, program: str) -> list[str]:
    ceiling = row.ratio(program, NULL_BINDER)
    return [
        program,
        _number(row.value(program, pods_per_s)),
        _number(row.ratio(program, KUBE_SCHEDULER), 1),
        "" if ceiling is None else f"{100 * ceiling:.0f} %",
        _number(row.value(program, _cpu_per_pod), 2),
        _number(row.value(program, lambda each: each["resident_mb"])),
        _number(row.value(program, lambda each: each["p50_ms"])),
        _number(row.value(program, lambda each: each["p99_ms"])),
        _number(row.value(program, start_to_last), 1),
    ]


def _rates(rows: Sequence[PeerRow]) -> Iterator[str]:
    yield "| workload | load | kube-scheduler | kubesched | null binder | times kube-scheduler | of the ceiling |"
    yield "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    for row in rows:
        rates = [_number(row.value(name, pods_per_s)) for name in _ORDER]
        ceiling = row.ratio(KUBESCHED, NULL_BINDER)
        share = "" if ceiling is None else f"{100 * ceiling:.0f} %"
        times = _number(row.ratio(KUBESCHED, KUBE_SCHEDULER), 1)
        yield f"| {readable(row.workload)} | {row.load} | {' | '.join(rates)} | **{times}** | {share} |"


def _costs(rows: Sequence[PeerRow]) -> Iterator[str]:
    """Each cell has kube-scheduler's number, then kubesched's."""
    yield (
        "kube-scheduler, then kubesched:\n\n"
        "| workload | load | CPU ms per pod | resident MB | p50 ms | p99 ms | start to last binding, s |\n"
        "| --- | --- | ---: | ---: | ---: | ---: | ---: |"
    )
    for row in rows:
        cells = (
            _pair(row, _cpu_per_pod, 2),
            _pair(row, lambda each: each["resident_mb"]),
            _pair(row, lambda each: each["p50_ms"]),
            _pair(row, lambda each: each["p99_ms"]),
            _pair(row, start_to_last, 1),
        )
        yield f"| {readable(row.workload)} | {row.load} | {' | '.join(cells)} |"


_ORDER = (KUBE_SCHEDULER, KUBESCHED, NULL_BINDER)


def _pair(row: PeerRow, read: Callable[[PeerMeasurement], float], digits: int = 0) -> str:
    return ", ".join(_number(row.value(name, read), digits) for name in (KUBE_SCHEDULER, KUBESCHED))


def _number(value: float | None, digits: int = 0) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


BEGIN, END = "<!-- bench:begin -->", "<!-- bench:end -->"


def write_markdown(path: Path, text: str) -> None:
    """Write text to a file or, if the file has marks for it, between them."""
    old = path.read_text("utf-8") if path.exists() else ""
    before, begin, rest = old.partition(BEGIN)
    _, end, after = rest.partition(END)
    path.write_text(f"{before}{BEGIN}\n{text}{END}{after}" if begin and end else text, "utf-8")
