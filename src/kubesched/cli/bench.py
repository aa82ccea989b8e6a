"""`kubesched bench`: decisions, pods through the whole loop, scheduler_perf workloads, and kube-scheduler beside it."""

from __future__ import annotations

import asyncio
import fnmatch
import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click
from rich.console import Console

from kubesched.bench import decisions, guard, loop
from kubesched.bench.flame import draw, flame_file, sample_run
from kubesched.bench.peers.control_plane import PartsMissingError, find_parts
from kubesched.bench.peers.measure import AS_WRITTEN, PENDING
from kubesched.bench.peers.processes import ending_with
from kubesched.bench.peers.report import LEGEND, PeerReport, write_markdown
from kubesched.bench.peers.session import PeerSettings, measure_peers
from kubesched.bench.perf.format import PerfFormatError, PerfRun, is_selected, load_runs
from kubesched.bench.perf_runs import EMBEDDED, IN_PROCESS, REAL, results_json, results_table, run_all
from kubesched.bench.workloads import WORKLOADS
from kubesched.cli.output import data_console

LOOP, CONTRIB = "loop", "contrib"
NAMES = (*dict.fromkeys(workload.name for workload in WORKLOADS if not workload.contrib), LOOP, CONTRIB)
CONTRIB_NAMES = tuple(workload.name for workload in WORKLOADS if workload.contrib)
EXAMPLES = """\b
Examples:
  kubesched bench plain loop
  kubesched bench contrib
  kubesched bench --nodes 100000 plain preferred-affinity
  kubesched bench --scheduler-perf bench/workloads --list
  kubesched bench --scheduler-perf bench/workloads --on embedded 'Plain/*'
  kubesched bench --scheduler-perf DIR --label-filter performance,short
  kubesched bench --scheduler-perf bench/workloads --peer 'Preemption/*'
  kubesched bench --scheduler-perf bench/workloads --peer --load 200 'Plain/*'
  kubesched bench --scheduler-perf bench/workloads --label-filter guard --check bench/instructions.json
"""


def _load(context: click.Context, parameter: click.Parameter, values: tuple[str, ...]) -> list[str]:
    loads = []
    for value in values:
        if value == "as-written":
            loads.append(AS_WRITTEN)
        elif value == PENDING or value.isdecimal():
            loads.append(value)
        else:
            raise click.BadParameter(f"{value!r} is neither pending, as-written nor a number of pods per second")
    return loads


@click.command(epilog=EXAMPLES + "\n\b\nNames without --scheduler-perf:\n" + "\n".join(f"  {name}" for name in NAMES))
@click.argument("names", nargs=-1, metavar="[NAME]...")
@click.option(
    "--scheduler-perf",
    "perf",
    type=click.Path(exists=True, path_type=Path),
    metavar="DIR",
    help="Run the workloads in DIR, in the format of Kubernetes' scheduler_perf. NAMEs select some by pattern.",
)
@click.option(
    "--nodes", type=click.IntRange(min=1), metavar="N", help="Without --scheduler-perf: decide for N nodes instead."
)
@click.option("--label-filter", default="", help="Only workloads with these labels, for example performance,-short.")
@click.option("--list", "listing", is_flag=True, help="List the selected workloads and why some cannot run.")
@click.option(
    "--on",
    type=click.Choice((IN_PROCESS, EMBEDDED, REAL)),
    default=IN_PROCESS,
    show_default=True,
    help="The API server: in this process, the embedded one over HTTPS, or a real kube-apiserver with etcd.",
)
@click.option("--peer", is_flag=True, help="Measure kube-scheduler and a null binder too, on a real API server.")
@click.option(
    "--load",
    "loads",
    multiple=True,
    callback=_load,
    metavar="pending|as-written|RATE",
    help="With --peer: pods that wait at the start (the default), as the workload is written, or RATE pods per second."
    " Repeatable.",
)
@click.option("--rounds", default=1, show_default=True, help="With --peer: how often to measure everything.")
@click.option("--seconds", default=120.0, show_default=True, help="How long one measurement may take.")
@click.option("--minutes", default=math.inf, help="With --peer: begin no further workload after this time.")
@click.option(
    "--parts",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    metavar="DIR",
    help="The folder with etcd, kube-apiserver and kube-scheduler. Default: where make parts puts them.",
)
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Also write the results to FILE, as JSON.",
)
@click.option(
    "--markdown",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="With --peer: also write the tables to FILE, as Markdown; in a page, between its bench:begin and bench:end.",
)
@click.option(
    "--ratios",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="With --peer: also write a short table of ratios to kube-scheduler to FILE, like --markdown.",
)
@click.option(
    "--flame",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Draw a flame graph of the scheduler for each workload instead, as an SVG file in DIR.",
)
@click.option(
    "--check",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Count bytecode instructions per pod instead, and fail if a workload needs a tenth more than FILE says.",
)
@click.option("--update", is_flag=True, help="With --check: write the counts to FILE instead of comparing them.")
def command(
    names: tuple[str, ...],
    perf: Path | None,
    nodes: int | None,
    label_filter: str,
    listing: bool,
    on: str,
    peer: bool,
    loads: list[str],
    rounds: int,
    seconds: float,
    minutes: float,
    parts: Path | None,
    output: Path | None,
    markdown: Path | None,
    ratios: Path | None,
    flame: Path | None,
    check: Path | None,
    update: bool,
) -> None:
    """Measure decisions per second, and pods per second through the whole loop.

    The first table shows decisions, each workload in its own process, compared with the same plugins called for one
    node at a time. The second shows pods from the watch event to the binding and its Event, against an API server in
    the same process, with the time of each part. NAMEs select workloads; running all of them takes minutes.

    With --scheduler-perf, workloads come from files. With --peer, each runs with kubesched, with the real
    kube-scheduler and with a null binder, a client that only posts bindings. Its rate is the ceiling.
    """
    if check is not None:
        _check(perf, label_filter, check, update=update)
        return
    if perf is None:
        if peer or listing or flame is not None or on != IN_PROCESS:
            raise click.UsageError("--peer, --list, --flame and --on need workloads: add --scheduler-perf DIR")
        _built_in(names, nodes, output)
        return
    if nodes is not None:
        raise click.UsageError("--nodes is for workloads without --scheduler-perf; a workload of a file has its own")
    try:
        runs = _selected(load_runs(perf), names, label_filter)
        found = find_parts(parts) if (peer or on == REAL) and not listing else None
    except (PerfFormatError, PartsMissingError) as error:
        raise click.ClickException(str(error)) from None
    if listing:
        _list(runs)
    elif flame is not None:
        _draw_flames(runs, flame)
    elif peer and found is not None:
        settings = PeerSettings(found, loads=loads, rounds=rounds, seconds=seconds, minutes=minutes)
        _measure_peers(runs, settings, PeerFiles(output, markdown, ratios))
    else:
        _run_perf(runs, on, found, seconds, output)


def _check(perf: Path | None, label_filter: str, file: Path, *, update: bool) -> None:
    """Compare the instructions per pod with the committed ones."""
    if perf is None:
        raise click.UsageError("--check needs workloads: add --scheduler-perf DIR")
    with Console(stderr=True).status("counting instructions…"):
        counts = guard.count_apart(perf, label_filter)
    committed = guard.read_counts(file)
    if update:
        guard.write_counts(file, counts)
        click.echo(f"{file}: counts for Python {guard.VERSION} written; commit them", err=True)
        return
    if not committed:
        click.echo(
            f"{file} has no counts for Python {guard.VERSION}, so nothing is compared; --update adds them", err=True
        )
    for name, count in counts.items():
        click.echo(f"{name}: {count:,} instructions per pod ({_change(committed.get(name), count)})")
    worse = guard.too_many(counts, committed)
    if worse:
        raise click.ClickException(
            f"slower by more than a tenth: {', '.join(worse)}. Make it faster, or accept it with --update and say why"
        )


def _change(before: int | None, after: int) -> str:
    return "new" if before is None else f"{100 * (after / before - 1):+.1f} %"


def _selected(runs: Sequence[PerfRun], names: Sequence[str], label_filter: str) -> list[PerfRun]:
    chosen = [
        run
        for run in runs
        if is_selected(label_filter, run.labels)
        and (not names or any(fnmatch.fnmatchcase(run.name, name) or run.name.startswith(f"{name}/") for name in names))
    ]
    if not chosen:
        raise PerfFormatError("no workload is selected; --list without NAMEs and filter shows all")
    return chosen


def _list(runs: Sequence[PerfRun]) -> None:
    for run in runs:
        labels = f" [{', '.join(run.labels)}]" if run.labels else ""
        click.echo(f"{run.name}{labels}" + (f": cannot run: {run.problem}" if run.problem else ""))


@dataclass(frozen=True, slots=True)
class PeerFiles:
    """Where to write a report to, besides the terminal."""

    json: Path | None
    markdown: Path | None
    ratios: Path | None


def _measure_peers(runs: Sequence[PerfRun], settings: PeerSettings, files: PeerFiles) -> None:
    report = PeerReport()
    try:
        with Console(stderr=True).status("…") as status:
            asyncio.run(
                ending_with(measure_peers(runs, settings, report, status.update, partial(click.echo, err=True)))
            )
    finally:
        # What was measured before an interruption is shown too.
        _show_peers(report, files)


def _show_peers(report: PeerReport, files: PeerFiles) -> None:
    for table in report.tables():
        data_console().print(table)
    if report.rows:
        click.echo(LEGEND)
    for name, why in report.skipped.items():
        click.echo(f"not run: {name}: {why}", err=True)
    for row in report.rows:
        for problem in row.problems():
            click.echo(problem, err=True)
    if not report.rows:
        return
    if files.json is not None:
        files.json.write_text(report.json(), "utf-8")
    if files.markdown is not None:
        write_markdown(files.markdown, report.markdown())
    if files.ratios is not None:
        write_markdown(files.ratios, report.ratios())


def _draw_flames(runs: Sequence[PerfRun], folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for run in runs:
        with Console(stderr=True).status(f"{run.name}…"):
            samples = asyncio.run(sample_run(run))
        path = flame_file(folder, run)
        path.write_text(draw(run.name, samples), "utf-8")
        click.echo(path)


def _run_perf(runs: Sequence[PerfRun], on: str, parts: Path | None, seconds: float, output: Path | None) -> None:
    with Console(stderr=True).status("…") as status:
        results = asyncio.run(ending_with(run_all(runs, on, parts, seconds, status.update)))
    data_console().print(results_table(results))
    for result in results:
        if result["problem"]:
            click.echo(f"not run: {result['name']}: {result['problem']}", err=True)
    if output is not None:
        output.write_text(results_json(results, on), "utf-8")


def _built_in(names: tuple[str, ...], nodes: int | None, output: Path | None) -> None:
    """Decisions, then the whole loop."""
    for name in names:
        if name not in (*NAMES, *CONTRIB_NAMES):
            raise click.UsageError(f"{name!r} is not one of {', '.join(map(repr, (*NAMES, *CONTRIB_NAMES)))}")
    progress, out = Console(stderr=True), data_console()
    results: list[decisions.DecisionResult] = []
    once = {workload.name: workload for workload in reversed(WORKLOADS)}  # some are there with two numbers of nodes
    for workload in WORKLOADS if nodes is None else reversed(once.values()):
        wanted = CONTRIB in names if workload.contrib else not names
        if wanted or workload.name in names:
            with progress.status(f"{workload.name} on {nodes or workload.nodes:,} nodes…"):
                results.append(decisions.measure_apart(workload, nodes))
    if results:
        out.print(decisions.table(results))
    if output is not None:
        output.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    if not names or LOOP in names:
        with progress.status("the whole loop…"):
            whole = loop.run()
        out.print(loop.table(whole))
