"""The report as tables for people: timeline, placements, pending pods with reasons, utilisation of nodes."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import TypeVar

from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Table

from kubesched.config.duration import Duration
from kubesched.simulator.report import Agreement, Decisions, Fraction, PendingPod, PodPlacement, Report, Utilisation
from kubesched.simulator.timeline import TimelineEntry

T = TypeVar("T")

DEFAULT_ROWS = 20
STYLES = {
    "bound": "green",
    "expected": "green",
    "pending": "yellow",
    "FAILED": "bold red",
    "failed": "red",
    "note": "bold",
    "deleted": "dim",
}


def show(report: Report, out: Console, rows: int = DEFAULT_ROWS) -> None:
    """Print a report. Of a long table, only the first and last `rows` rows."""
    _show_table(_timeline(report.timeline, rows), out)
    if report.placements:
        _show_table(_placements(report.placements, rows), out)
    if report.pending:
        _show_table(_pending(report.pending, rows), out)
    if report.utilisation:
        _show_table(_utilisation(report.utilisation, rows), out)
    for each in report.expectations:
        if not each.holds:
            out.print(f"[bold red]✗[/] at {moment(each.time)} expected {escape(each.expected)}")
            for finding in each.findings:
                out.print(Padding(escape(str(finding)), (0, 0, 0, 4), expand=False))
    if report.agreement is not None:
        out.print(_agreement(report.agreement, rows))
    if report.decisions is not None:
        out.print(_decisions(report.decisions, rows))
    if report.error:
        out.print(f"[bold red]✗[/] {escape(report.error)}")
    out.print(_verdict(report))


def _show_table(table: Table, out: Console) -> None:
    """Print a table below its title, which may be wider than the table, and an empty line."""
    out.print(f"[bold]{table.title}[/]")
    table.title = None
    out.print(table)
    out.print()


def _verdict(report: Report) -> str:
    held = sum(each.holds for each in report.expectations)
    checked = f"{held} of {_counted(len(report.expectations), 'expectation')} held"
    if report.decisions is not None:
        checked = f"{_counted(len(report.decisions.differences), 'decision')} not as recorded"
    word = "[bold green]passed[/]" if report.passed else "[bold red]failed[/]"
    return (
        f"{escape(report.scenario)}: {word}: {checked}, "
        f"{_counted(report.bindings, 'pod')} bound, {len(report.pending)} pending "
        f"after {moment(report.virtual_seconds)} of cluster time (seed {report.seed}, run {report.digest[:12]})"
    )


def _agreement(agreement: Agreement, rows: int) -> str:
    moved = len(agreement.moved)
    head = f"{agreement.same:,} of {_counted(agreement.same + moved, 'pod')} went where the recording has them"
    lines = [f"  {pod}: {before or 'no node'} → {now or 'no node'}" for pod, before, now in agreement.moved[:rows]]
    more = [f"  and {moved - rows} more"] if moved > rows else []
    return escape("\n".join([head, *lines, *more]))


def _decisions(decisions: Decisions, rows: int) -> str:
    different = len(decisions.differences)
    head = (
        f"{decisions.same:,} of {_counted(decisions.same + different, 'decision')} as recorded, "
        f"{_counted(decisions.placed, 'pod')} on the recorded node"
    )
    lines = [
        f"  {moment(each.time)} {each.pod}: {each.recorded} → {each.here}" for each in decisions.differences[:rows]
    ]
    first = ["first differences:"] if lines else []
    more = [f"  and {different - rows} more"] if different > rows else []
    return escape("\n".join([head, *first, *lines, *more]))


def moment(seconds: float) -> str:
    """Format a time on the cluster's clock."""
    return str(Duration(round(seconds * 1000) * 1_000_000))


# --- the four tables --------------------------------------------------------------------------------------------------


def _table(title: str, *columns: str, right: Sequence[str] = ()) -> Table:
    table = Table(title=title, box=None, pad_edge=False)
    for column in columns:
        table.add_column(column, justify="right" if column in right else "left", overflow="fold")
    return table


def _timeline(entries: Sequence[TimelineEntry], rows: int) -> Table:
    table = _table("Timeline", "time", "what", "", right=("time",))
    lines = _grouped(entries)
    first = list(islice(lines, 2 * rows))
    last = deque(enumerate(lines, len(first) + 1), 2 * rows + 2)
    number = last[-1][0] if last else len(first)
    for line in _ends([*first, *(line for _, line in last)], 2 * rows):
        if line is None:
            table.add_row("", "…", _omitted(number - 4 * rows, "line"), style="dim")
        else:
            time, what, text = line
            table.add_row(moment(time), f"[{STYLES.get(what, 'none')}]{what}[/]", escape(text))
    return table


def _grouped(entries: Sequence[TimelineEntry]) -> Iterator[tuple[float, str, str]]:
    """Merge entries of the same kind and time into one line."""
    for (time, what, kind, text), same in groupby(entries, lambda e: (e.time, e.what, e.kind, e.text)):
        names = [each.name.removeprefix("default/") for each in same]
        if not kind:
            yield time, what, text
            continue
        who = names[0] if len(names) == 1 else f"{names[0]} … {names[-1]} ({len(names)})"
        arrow = " → " if what == "bound" else ": " if what == "pending" else " on "
        yield time, what, f"{kind.lower()} {who}" + (f"{arrow}{text}" if text else "")


def _placements(placements: Sequence[PodPlacement], rows: int) -> Table:
    table = _table("Placements", "pod", "node", "phase", "bound after", "attempts", right=("bound after", "attempts"))
    for each in _ends(placements, rows):
        if each is None:
            table.add_row(_omitted(len(placements) - 2 * rows, "pod"), style="dim")
        else:
            pod = each.pod.removeprefix("default/")
            table.add_row(pod, each.node, each.phase, moment(each.bound_after), str(each.attempts))
    return table


def _pending(pending: Sequence[PendingPod], rows: int) -> Table:
    table = _table("Pending", "pod", "for", "attempts", "why", right=("for", "attempts"))
    for each in _ends(pending, rows):
        if each is None:
            table.add_row(_omitted(len(pending) - 2 * rows, "pod"), style="dim")
        else:
            pod = each.pod.removeprefix("default/")
            table.add_row(pod, moment(each.waiting), str(each.attempts), escape(each.reason))
    return table


def _utilisation(nodes: Sequence[Utilisation], rows: int) -> Table:
    heads = ("pods", "CPU", "mean", "peak", "memory", "mean ", "peak ")
    table = _table("Requested share of each node: at the end, mean, peak", "node", *heads, right=heads)
    for each in _ends(nodes, rows):
        if each is None:
            table.add_row(_omitted(len(nodes) - 2 * rows, "node"), style="dim")
        else:
            table.add_row(each.node, str(each.pods), *_parts(each.cpu), *_parts(each.memory))
    if len(nodes) > 1:
        table.add_section()
        whole = [each.cpu for each in nodes], [each.memory for each in nodes]
        means = (share for parts in whole for share in _parts(_mean(parts)))
        table.add_row("all, on average", str(sum(each.pods for each in nodes)), *means)
    return table


def _mean(parts: Sequence[Fraction]) -> Fraction:
    number = len(parts)
    return Fraction(
        sum(each.end for each in parts) / number,
        sum(each.peak for each in parts) / number,
        sum(each.mean for each in parts) / number,
    )


def _parts(part: Fraction) -> tuple[str, str, str]:
    return f"{part.end:.0%}", f"{part.mean:.0%}", f"{part.peak:.0%}"


def _ends(items: Sequence[T], rows: int) -> Iterator[T | None]:
    """Yield a short list in full; of a long one both ends, with None in between."""
    if len(items) <= 2 * rows + 1:
        yield from items
    else:
        yield from items[:rows]
        yield None
        yield from items[-rows:]


def _omitted(number: int, noun: str) -> str:
    return f"… {number:,} more {noun}s: -o json has them, --rows shows more"


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
