"""`kubesched sweep`: scenarios x configurations x seeds, on all cores or many machines."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from inspect import cleandoc
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn
from rich.progress import Progress as Bar
from rich.table import Table

from kubesched.cli.output import data_console
from kubesched.simulator.scenario import ScenarioFileError
from kubesched.sweep.api import DEFAULT, Sweep
from kubesched.sweep.api import sweep as run_sweep
from kubesched.sweep.executors import PROCESSES, ExecutorError
from kubesched.sweep.jobs import METRICS
from kubesched.sweep.results import ResultsFileError
from kubesched.sweep.space import SpaceError
from kubesched.sweep.sweeping import Progress, Shown
from kubesched.sweep.tuning import TuningError

MOST_SEEDS = 1_000_000
"""Each seed is a run, and all runs are listed before the first."""
_SEEDS = re.compile(r"([0-9]{1,18})(?:-([0-9]{1,18}))?")


def seed_list(_context: click.Context, parameter: click.Parameter, text: str) -> list[int]:
    """``1-10``, ``1,2,7``, or both."""
    found: list[int] = []
    for part in text.split(","):
        span = _SEEDS.fullmatch(part.strip())
        first, last = (int(span[1]), int(span[2] or span[1])) if span is not None else (1, 0)
        if last < first:
            raise click.BadParameter(f"{part!r} is neither a seed nor a range of seeds such as 1-10")
        if len(found) + last - first >= MOST_SEEDS:
            raise click.BadParameter(f"{text!r} has more than {MOST_SEEDS} seeds")
        found += range(first, last + 1)
    return list(dict.fromkeys(found))


def config_list(_context: click.Context, _parameter: click.Parameter, configs: tuple[str, ...]) -> tuple[str, ...]:
    """Files that exist, and the word default."""
    for each in configs:
        if each != DEFAULT and not Path(each).is_file():
            raise click.BadParameter(f"file {each!r} does not exist; give a file or the word {DEFAULT}")
    return configs


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
                help="Where to run: processes, joblib, dask:tcp://HOST:8786, ray, ray:ADDRESS, or module:function that "
                "returns an executor.",
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
    metavar="FILE",
    callback=config_list,
    help="A KubeSchedulerConfiguration, or the word default; several are compared. Without any, each scenario's own.",
)
@click.option("--seeds", default="1-10", show_default=True, callback=seed_list, help="Such as 1-10 or 1,2,7.")
@shared_options
@click.option("-o", "--output", type=click.Choice(("table", "json")), default="table", show_default=True)
def command(
    scenarios: tuple[Path, ...],
    configs: tuple[str, ...],
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
    kubesched sweep day.py --config default --config packed.yaml --seeds 1-20 --results day.db
    kubesched sweep scenarios/ --seeds 1-5 -o json | jq '.[] | [.config, .seed, .metrics.pending]'
    kubesched sweep day.py --seeds 1-1000 --executor dask:tcp://10.0.0.1:8786
    """
    with expected_problems(), progress() as shown:
        runs = run_sweep(
            scenarios,
            configs=configs,
            seeds=seeds,
            plugins=plugin,
            results=results,
            executor=executor,
            workers=jobs,
            shown=shown,
        )
    if output == "json":
        click.echo(json.dumps(runs.to_dict(), indent=2))
    else:
        data_console().print(*_tables(runs))
    for each in runs.failed[:10]:
        click.echo(f"Error: {each.job.label}, seed {each.job.seed}: {each.outcome.error}", err=True)
    if runs.failed:
        raise SystemExit(1)


@contextmanager
def expected_problems() -> Iterator[None]:
    """What is wrong with files, executors and options is one line on stderr."""
    try:
        yield
    except (ScenarioFileError, ResultsFileError, ExecutorError, SpaceError, TuningError) as error:
        raise click.ClickException(str(error)) from None


@contextmanager
def progress() -> Iterator[Shown]:
    """Shows how many runs are done, and the time left."""
    console = Console(stderr=True)
    columns = (BarColumn(), MofNCompleteColumn(), TextColumn("{task.description}"))
    with Bar(*columns, console=console, transient=True, disable=not console.is_terminal) as bar:
        task = bar.add_task("")

        def shown(state: Progress) -> None:
            left = state.seconds_left
            text = "" if left is None else f"{_span(left)} left"
            failed = f", {state.failed} failed" if state.failed else ""
            bar.update(task, total=state.total, completed=state.known + state.done, description=text + failed)

        yield shown


def _span(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes // 60}h{minutes % 60:02}m" if minutes >= 60 else f"{minutes}m{rest:02}s"


def _tables(runs: Sweep) -> Iterator[Table]:
    """A table per scenario, with a row per metric and a column per configuration."""
    found = runs.summary()
    for scenario in dict.fromkeys(scenario for scenario, _ in found):
        configs = {label: each for (of, label), each in found.items() if of == scenario}
        table = Table("mean ± 95 % interval", *configs, title=Path(scenario).name)
        for metric in METRICS:
            table.add_row(metric, *(str(each[metric]) if each else "failed" for each in configs.values()))
        yield table


command.help = f"{cleandoc(command.help or '')}\n\nMetrics:\n\n\b\n" + "\n".join(
    f"{name:<14} {METRICS[name]}" for name in METRICS
)
