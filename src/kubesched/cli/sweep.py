"""`kubesched sweep`: scenarios x configurations x seeds, on all cores or many machines."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from kubesched.simulator.loading import load, scenario_files
from kubesched.simulator.scenario import ScenarioFileError
from kubesched.sweep.executors import PROCESSES, ExecutorError, opened_executor
from kubesched.sweep.jobs import METRICS, Job
from kubesched.sweep.results import ResultsFileError, Run, SweepResults
from kubesched.sweep.sweeping import Progress, Shown, summary
from kubesched.sweep.sweeping import sweep as run_sweep

OWN = "own"
"""The label of a scenario's own configuration."""


def seed_list(_context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    """``1-10``, ``1,2,7``, or both."""
    found: list[int] = []
    for part in text.split(","):
        first, _, last = part.strip().partition("-")
        if not first.isdigit() or not (last or first).isdigit() or int(last or first) < int(first):
            raise click.BadParameter(f"{part!r} is no seed and no range of seeds such as 1-10")
        found += range(int(first), int(last or first) + 1)
    return list(dict.fromkeys(found))


def shared_options(command: Callable[..., None]) -> Callable[..., None]:
    """The options of all commands with many runs."""
    for option in reversed(
        (
            click.option("--plugin", multiple=True, metavar="FILE.py", help="A plugin for all runs."),
            click.option(
                "--results",
                type=click.Path(dir_okay=False, path_type=Path),
                metavar="FILE",
                help="Keep results in this SQLite file. A sweep that was interrupted goes on from there.",
            ),
            click.option("-j", "--jobs", type=click.IntRange(1), help="Processes; as many as cores by default."),
            click.option(
                "--executor",
                default=PROCESSES,
                show_default=True,
                metavar="SPEC",
                help="Where to run: processes, dask:tcp://HOST:8786, or module:function that returns an executor.",
            ),
        )
    ):
        command = option(command)
    return command


@click.command()
@click.argument("scenarios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SCENARIO...")
@click.option(
    "--config",
    "configs",
    multiple=True,
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A KubeSchedulerConfiguration; give several to compare. Without any, each scenario's own.",
)
@click.option("--seeds", default="1-10", show_default=True, callback=seed_list, help="Such as 1-10 or 1,2,7.")
@shared_options
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
def command(
    scenarios: tuple[Path, ...],
    configs: tuple[Path, ...],
    seeds: list[int],
    plugin: tuple[str, ...],
    results: Path | None,
    jobs: int | None,
    executor: str,
    output: str,
) -> None:
    """Run every scenario with every configuration and every seed, side by side.

    Prints the mean of each metric over the seeds with its 95 % interval, or with -o json every run. The exit code is 1
    if a run failed. A scenario in Python draws its arrivals from client.random, so that they differ by seed.

    \b
    kubesched sweep day.py --config spread.yaml --config packed.yaml --seeds 1-20 --results day.db
    kubesched sweep scenarios/ --seeds 1-5 -o json | jq '.[] | [.config, .seed, .metrics.pending]'
    kubesched sweep day.py --seeds 1-1000 --executor dask:tcp://10.0.0.1:8786
    """
    files = scenario_paths(scenarios)
    labels = {str(each.absolute()): _label(each, configs) for each in configs} or {"": OWN}
    todo = [
        Job(str(file), config or None, label, seed, plugin_places(plugin))
        for file in files
        for config, label in labels.items()
        for seed in seeds
    ]
    with running(results, executor, jobs) as run_all:
        runs = run_all(todo)
    if output == "json":
        click.echo(json.dumps([as_row(each) for each in runs], indent=2))
    else:
        Console().print(*_tables(runs))
    failed = [each for each in runs if each.outcome.error]
    for each in failed[:10]:
        click.echo(f"Error: {each.job.label}, seed {each.job.seed}: {each.outcome.error}", err=True)
    if failed:
        raise SystemExit(1)


def scenario_paths(given: Sequence[Path]) -> list[Path]:
    """The files, folders resolved. All must load."""
    try:
        files = [file.absolute() for path in given for file in scenario_files(path)]
        for file in files:
            load(file).prepared()
    except ScenarioFileError as error:
        raise click.ClickException("\n".join(error.problems)) from None
    return files


def plugin_places(given: Sequence[str]) -> tuple[str, ...]:
    """Plugins with absolute file names, for workers in other folders."""
    return tuple(str(Path(each).absolute()) if each.partition(":")[0].endswith(".py") else each for each in given)


def as_row(run: Run) -> dict[str, object]:
    """A run as JSON."""
    job, outcome = run
    row = {"scenario": Path(job.scenario).name, "config": job.label, "seed": job.seed}
    return row | {"metrics": dict(outcome.metrics), "error": outcome.error, "seconds": round(outcome.seconds, 3)}


@contextmanager
def running(results: Path | None, executor: str, jobs: int | None) -> Iterator[Callable[[Sequence[Job]], list[Run]]]:
    """Runs jobs, with results, executor and a progress bar."""
    try:
        with SweepResults(results) as known, opened_executor(executor, jobs) as pool, _progress() as shown:
            yield lambda todo: run_sweep(todo, known, pool, shown)
    except (ResultsFileError, ExecutorError) as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def _progress() -> Iterator[Shown]:
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")

        def shown(progress: Progress) -> None:
            left = progress.seconds_left
            text = "" if left is None else f"{_span(left)} left"
            failed = f", {progress.failed} failed" if progress.failed else ""
            ended = progress.known + progress.done
            bar.update(task, total=progress.total, completed=ended, description=text + failed)

        yield shown


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02}m" if minutes >= 60 else f"{minutes}m{rest:02}s"


def _label(config: Path, configs: Sequence[Path]) -> str:
    """The name of a file without its ending; the whole path if another has the same."""
    return config.stem if [each.stem for each in configs].count(config.stem) == 1 else str(config)


def _tables(runs: Sequence[Run]) -> Iterator[Table]:
    """A table per scenario, with a row per metric and a column per configuration."""
    found = summary(runs)
    for scenario in dict.fromkeys(scenario for scenario, _ in found):
        configs = {label: each for (of, label), each in found.items() if of == scenario}
        table = Table("mean ± 95 % interval", *configs, title=Path(scenario).name)
        for metric in METRICS:
            table.add_row(metric, *(str(each[metric]) if each else "failed" for each in configs.values()))
        yield table


command.help = f"{command.help}\n\nMetrics:\n\n\b\n" + "\n".join(f"{name:<14} {METRICS[name]}" for name in METRICS)
