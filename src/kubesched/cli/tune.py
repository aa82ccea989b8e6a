"""`kubesched tune`: searches weights and arguments of plugins, and says honestly what was gained."""

from __future__ import annotations

import json
from itertools import groupby
from pathlib import Path

import click
import yaml
from rich.table import Table

from kubesched.base.intervals import in_digits
from kubesched.cli.output import data_console
from kubesched.cli.sweep import expected_problems, progress, seed_list, shared_options
from kubesched.sweep.api import tune
from kubesched.sweep.jobs import METRICS
from kubesched.sweep.tuning import Tuned


@click.command()
@click.argument("scenarios", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SCENARIO...")
@click.option(
    "--config",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Begin with this KubeSchedulerConfiguration instead of the default one.",
)
@click.option("--weight", multiple=True, metavar="PLUGIN=0..10", help="Search the weight of a Score plugin; 0 is off.")
@click.option("--arg", multiple=True, metavar="PLUGIN.PATH=VALUES", help="Search an argument: 1..5, 0.1..0.9 or A|B.")
@click.option("--minimise", multiple=True, metavar="METRIC", help="Make this small; may be given several times.")
@click.option("--maximise", multiple=True, metavar="METRIC", help="Make this large.")
@click.option("--trials", type=click.IntRange(1), default=30, show_default=True, help="How many configurations to try.")
@click.option("--seeds", default="1-5", show_default=True, callback=seed_list, help="Seeds to tune on.")
@click.option(
    "--held-out", default="1001-1010", show_default=True, callback=seed_list, help="Seeds to measure the gain on."
)
@shared_options
@click.option(
    "--output", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write the configuration here."
)
@click.option("-o", "--format", "form", type=click.Choice(("table", "json")), default="table", show_default=True)
def command(
    scenarios: tuple[Path, ...],
    config: Path | None,
    weight: tuple[str, ...],
    arg: tuple[str, ...],
    minimise: tuple[str, ...],
    maximise: tuple[str, ...],
    trials: int,
    seeds: list[int],
    held_out: list[int],
    plugin: tuple[str, ...],
    results: Path | None,
    jobs: int | None,
    executor: str,
    output: Path | None,
    form: str,
) -> None:
    """Search for weights of Score plugins and arguments of plugins that do better on a scenario.

    Every configuration is tried with the same seeds. With several objectives, the table shows the configurations that
    no other beats in all of them, and the one closest to the best of each is taken. The gain is then measured with
    other seeds, in pairs, and shown with its 95 % interval: if that includes 0, no gain has been shown. A scenario in
    Python must draw its arrivals from client.random, so that they differ by seed. Needs Optuna: pip install
    'kubesched[tune]'.

    \b
    kubesched tune day.py --weight NodeResourcesFit=0..10 --weight PodTopologySpread=0..10 \\
        --arg 'NodeResourcesFit.scoringStrategy.type=LeastAllocated|MostAllocated' \\
        --minimise pending --minimise nodesUsed --output tuned.yaml
    """
    if not minimise and not maximise:
        raise click.UsageError(f"give --minimise METRIC or --maximise METRIC; the metrics are {', '.join(METRICS)}")
    with expected_problems(), progress() as shown:
        found = tune(
            scenarios,
            weights=weight,
            arguments=arg,
            minimise=minimise,
            maximise=maximise,
            config=config,
            trials=trials,
            seeds=seeds,
            held_out=held_out,
            plugins=plugin,
            results=results,
            executor=executor,
            workers=jobs,
            shown=shown,
        )
    text = yaml.safe_dump(found.config, sort_keys=False)
    if output is not None:
        try:
            output.write_text(text, "utf-8")
        except OSError as error:
            click.echo(text, nl=False)  # it took long to find
            raise click.ClickException(f"{output}: {error.strerror}; the configuration is above") from None
    if form == "json":
        click.echo(json.dumps(found.to_dict(), indent=2))
        return
    _show(found, len(held_out))
    if output is None:
        click.echo(text, nl=False)


def _show(found: Tuned, held_out: int) -> None:
    metrics = [each.metric for each in found.objectives]
    console = data_console()
    table = Table("", *metrics, title="Configurations that none beats, on the seeds they were tuned on")
    table.add_column("values", overflow="fold")
    table.add_row("base", *(in_digits(each) for each in found.base), "")
    for result, equal in groupby(sorted(found.pareto, key=lambda each: each.values), lambda each: each.values):
        same = list(equal)
        shown = found.best if found.best in same else same[0]
        lines = [f"{name}={value}" for name, value in shown.named.items()] or ["as before"]
        if len(same) > 1:
            lines.append(f"or {len(same) - 1} more with the same result")
        table.add_row("taken" if shown is found.best else "", *(in_digits(value) for value in result), "\n".join(lines))
    console.print(table)
    gains = Table("metric", "base", "tuned", "gain", "", title=f"With {held_out} other seeds, in pairs")
    for gain in found.gains:
        verdict = "better" if gain.is_shown else "worse" if gain.gain.high < 0 else "no difference shown"
        gains.add_row(gain.objective.metric, in_digits(gain.base), in_digits(gain.tuned), str(gain.gain), verdict)
    console.print(gains)
