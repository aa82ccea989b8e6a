"""`kubesched simulate`: runs scenarios on a virtual clock and prints their reports."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from kubesched.cli.options import PLUGIN, PLUGIN_DIR, config_option, source_option
from kubesched.cli.output import data_console
from kubesched.cli.simulate_html import html_page
from kubesched.framework.errors import PluginStartError
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.loading import load, scenario_files
from kubesched.simulator.machine import as_junit, json_parts
from kubesched.simulator.replay import scenario_of, usual_mode
from kubesched.simulator.report import Report
from kubesched.simulator.run import run
from kubesched.simulator.scenario import Scenario, ScenarioFileError
from kubesched.simulator.settings import ReplayMode
from kubesched.simulator.tables import DEFAULT_ROWS, moment, show
from kubesched.snapshots.reader import ManifestError
from kubesched.snapshots.reader import load as load_contents

FAILED = 1
LONG_SECONDS = 1.0
"""A run that takes longer than this shows its progress."""
OUTPUTS = ("table", "json", "junit")


@click.command()
@click.argument("files", nargs=-1, type=click.Path(path_type=Path), metavar="FILE...")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True, help="What to print.")
@click.option(
    "--html",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Also write a report with charts to this file: one page that needs nothing else.",
)
@click.option("--seed", type=int, help="Use this seed instead of the scenario's own.")
@config_option("Use this KubeSchedulerConfiguration instead of the scenario's own.")
@PLUGIN
@PLUGIN_DIR
@click.option(
    "--rows",
    type=click.IntRange(1, 1_000_000),
    default=DEFAULT_ROWS,
    show_default=True,
    help="Rows per end of a table.",
)
@source_option("Begin with this cluster: a snapshot, kubectl get -o json, manifests. May be repeated.")
@click.option("--arrivals", is_flag=True, help="Of a recording, replay only what arrives, and decide here.")
@click.option(
    "--speed", type=click.FloatRange(0, min_open=True), metavar="FACTOR", help="Replay at this speed; 1 is real time."
)
@click.option("--check", is_flag=True, help="Only check the files; run nothing.")
def command(
    files: tuple[Path, ...],
    output: str,
    html: Path | None,
    seed: int | None,
    config: Path | None,
    plugin: tuple[str, ...],
    plugin_dir: tuple[str, ...],
    rows: int,
    source: tuple[Path, ...],
    arrivals: bool,
    speed: float | None,
    check: bool,
) -> None:
    """Run scenarios: API server, controllers, kubelets and scheduler in one process, on a virtual clock.

    A FILE is YAML (objects, and steps at virtual times), Python (async def scenario(client)), a folder with such files,
    or - for YAML on standard input. An hour of cluster time takes a second or two, and the same seed gives the same
    run. The exit code is 1 if an expectation fails or a scenario cannot be run.

    A FILE may also be a snapshot or a recording, ours or another tool's: kubectl get -o json, manifests, the files of
    kube-scheduler-simulator, kwok and simkube. A recording is replayed as it was; with --arrivals, pods arrive as they
    did and are scheduled here. A scenario begins with the cluster in --from. If the scheduler wrote the recording
    itself (kubesched run --record FILE), every decision is made again and compared; the exit code is 1 if one differs.

    Try another scheduler configuration with --config, and other plugins with --plugin and --plugin-dir. A configuration
    enables plugins; without one, all of these are enabled.

    \b
    kubesched simulate examples/scenarios/node10.yaml
    kubesched simulate scenarios/ -o junit > scenarios.xml
    kubesched simulate day.py --html day.html
    kubesched simulate day.py --config packed.yaml -o json | jq .utilisation
    kubesched simulate monday.jsonl.gz --arrivals --config packed.yaml

    A scenario in YAML:

    \b
    objects:
      - {apiVersion: v1, kind: Node, metadata: {name: node1}}
    steps:
      - create:
          apiVersion: v1
          kind: Pod
          metadata: {name: pod1}
          spec: {containers: [{name: main, image: nginx}]}
      - waitFor: {pod: pod1, onNode: node1, timeout: 5s}

    """
    progress, out = Console(stderr=True), data_console()
    scenarios = _loaded(files, source)
    for scenario in scenarios:
        if arrivals and scenario.contents.is_recording:
            scenario.replay = ReplayMode.ARRIVALS
        scenario.speed = speed
        scenario.vary(config, plugin, plugin_dir)
    _prepare(scenarios)
    if check:
        return
    reports: list[Report] = []
    for scenario in scenarios:
        report = _run(scenario, seed, progress)
        if output == "table":
            if reports:
                out.print()
            show(report, out, rows)
        reports.append(report)
    if output == "json":
        for part in json_parts(reports):
            click.echo(part, nl=False)
        click.echo()
    elif output == "junit":
        click.echo(as_junit(reports), nl=False)
    if html is not None:
        _write(html, html_page(reports))
    if not all(report.passed for report in reports):
        raise SystemExit(FAILED)


def _write(path: Path, page: str) -> None:
    try:
        path.write_text(page, "utf-8")
    except OSError as error:
        raise click.ClickException(f"--html: {path} cannot be written: {error.strerror}") from None


def _loaded(files: tuple[Path, ...], source: tuple[Path, ...]) -> list[Scenario]:
    if not files and not source:
        raise click.UsageError("give a scenario, a snapshot or a recording")
    problems: list[str] = []
    scenarios = []
    try:
        contents = load_contents(*source)
        if not files:
            scenarios.append(scenario_of(contents, source[0]))
    except ManifestError as error:
        problems += error.problems
    for path in files:
        try:
            scenarios += [load(file) for file in scenario_files(path)]
        except ScenarioFileError as error:
            problems += error.problems
    _refuse(problems)
    if files and source:
        for scenario in scenarios:
            scenario.contents.add(contents)
            scenario.replay = usual_mode(scenario.contents)
    return scenarios


def _prepare(scenarios: Sequence[Scenario]) -> None:
    """Check that every scenario can start, before any does."""
    problems: list[str] = []
    for scenario in scenarios:
        try:
            scenario.prepared()
        except ScenarioFileError as error:
            problems += error.problems
    _refuse(list(dict.fromkeys(problems)))


def _refuse(problems: Sequence[str]) -> None:
    if problems:
        for problem in problems:
            click.echo(f"Error: {problem}", err=True)
        raise SystemExit(FAILED)


def _run(scenario: Scenario, seed: int | None, console: Console) -> Report:
    with _shown(scenario, console) as started:
        try:
            return run(scenario, seed, started.append)
        except PluginStartError as error:
            raise click.ClickException(f"{scenario.source}: {error}") from None
        except ScenarioFileError as error:
            raise click.ClickException(str(error)) from None


@contextmanager
def _shown(scenario: Scenario, console: Console) -> Iterator[list[SimulatedCluster]]:
    """Show the progress of a run from rich's own thread: a timer in the event loop would change the run."""
    clusters: list[SimulatedCluster] = []
    began = time.monotonic()

    def state() -> Table | Text:
        if not clusters or time.monotonic() - began < LONG_SECONDS:
            return Text("")
        timeline = clusters[0].timeline
        line = Table.grid(padding=(0, 1))
        bar = ProgressBar(scenario.duration, timeline.seconds, width=30) if scenario.duration else ""
        line.add_row(scenario.name, bar, f"{moment(int(timeline.seconds))}, {timeline.bound:,} pods bound")
        return line

    if not console.is_terminal:
        yield clusters
        return
    with Live(get_renderable=state, console=console, refresh_per_second=5, transient=True):
        yield clusters
