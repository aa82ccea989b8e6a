"""`kubesched simulate --html`: reports of runs as a page that stands by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from kubesched.cli.charts import Line, Point, line_chart, thinned
from kubesched.cli.output import Figure, as_html
from kubesched.explain.document import Block, Heading, Items, Table, Text
from kubesched.simulator.report import PendingPod, Report
from kubesched.simulator.tables import moment
from kubesched.simulator.timeline import TimelineEntry

MOST_ROWS = 1000
MOST_POINTS = 100_000
"""Far more than a chart has, so that thinning once more changes little."""
BLUE, ORANGE = "#2f7ed8", "#d9822b"
ENDS = ("succeeded", "failed", "deleted")


def html_page(reports: Sequence[Report]) -> str:
    """All runs on one page, one below the other."""
    title = ", ".join(each.scenario for each in reports)
    return as_html(f"kubesched simulate: {title}", [block for each in reports for block in _blocks(each)])


def _blocks(report: Report) -> Iterator[Block | Figure]:
    held = sum(each.holds for each in report.expectations)
    yield Heading(f"{report.scenario}: {'passed' if report.passed else 'failed'}", 1)
    yield Table(
        ["expectations held", "pods bound", "pods pending", "cluster time", "changes", "seed", "run"],
        [
            [
                f"{held} of {len(report.expectations)}",
                f"{report.bindings:,}",
                f"{len(report.pending):,}",
                moment(report.virtual_seconds),
                f"{report.changes:,}",
                str(report.seed),
                report.digest[:12],
            ]
        ],
    )
    yield from _failures(report)
    yield from _charts(report)
    yield from _pending(report.pending)
    yield from _placements(report)
    yield from _nodes(report)


def _failures(report: Report) -> Iterator[Block]:
    if report.error:
        yield Text(f"The scenario ended early: {report.error}")
    failed = [each for each in report.expectations if not each.holds]
    if failed:
        yield Heading("Expectations that did not hold")
        rows = [[moment(each.time), each.expected, "; ".join(map(str, each.findings))] for each in failed]
        yield Table(["time", "expected", "found"], rows)


def _charts(report: Report) -> Iterator[Figure]:
    end = report.virtual_seconds
    pending, bound = _counts(report.timeline)
    pods = [Line("bound", BLUE, bound), Line("pending", ORANGE, pending)]
    yield Figure(line_chart("Pods", pods, end, moment, lambda amount: f"{amount:,.0f}"))
    cpu = [(each.time, each.cpu) for each in report.usage]
    memory = [(each.time, each.memory) for each in report.usage]
    shares = [Line("cpu", BLUE, cpu), Line("memory", ORANGE, memory)]
    yield Figure(line_chart("Requested share of the cluster", shares, end, moment, lambda share: f"{share:.0%}"))


def _counts(timeline: Iterable[TimelineEntry]) -> tuple[list[Point], list[Point]]:
    """How many pods were pending and how many were on nodes, over time."""
    pending: set[str] = set()
    bound: set[str] = set()
    waits: list[Point] = [(0.0, 0)]
    runs: list[Point] = [(0.0, 0)]
    for entry in timeline:
        if entry.kind != "Pod":
            continue
        if entry.what == "created":
            pending.add(entry.name)
        elif entry.what == "bound":
            pending.discard(entry.name)
            bound.add(entry.name)
        elif entry.what in ENDS:
            pending.discard(entry.name)
            bound.discard(entry.name)
        else:
            continue
        for points, names in ((waits, pending), (runs, bound)):
            if points[-1][0] == entry.time:
                points.pop()
            points.append((entry.time, len(names)))
            if len(points) > MOST_POINTS:
                points[:] = thinned(points)
    return waits, runs


def _pending(pods: Sequence[PendingPod]) -> Iterator[Block]:
    if not pods:
        return
    yield Heading("Pending pods, by cause")
    causes = Counter(each.reason for each in pods)
    yield Items([(f"{_counted(count, 'pod')}: {reason}", ()) for reason, count in causes.most_common()])
    rows = [[each.pod, moment(each.waiting), str(each.attempts), each.reason] for each in pods]
    yield from _table(["pod", "for", "attempts", "why"], rows)


def _placements(report: Report) -> Iterator[Block]:
    if report.placements:
        yield Heading("Placements")
        rows = [
            [each.pod, each.node, each.phase, moment(each.bound_after), str(each.attempts)]
            for each in report.placements
        ]
        yield from _table(["pod", "node", "phase", "bound after", "attempts"], rows)


def _nodes(report: Report) -> Iterator[Block]:
    if report.utilisation:
        yield Heading("Requested share of each node")
        rows = [
            [each.node, str(each.pods)]
            + [f"{share:.0%}" for part in (each.cpu, each.memory) for share in (part.end, part.mean, part.peak)]
            for each in report.utilisation
        ]
        heads = [f"{name} {when}" for name in ("cpu", "memory") for when in ("at the end", "mean", "peak")]
        yield from _table(["node", "pods", *heads], rows)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[Block]:
    yield Table(columns, rows[:MOST_ROWS])
    if len(rows) > MOST_ROWS:
        yield Text(f"and {len(rows) - MOST_ROWS:,} more; -o json has them all")


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + "s" * (number != 1)
