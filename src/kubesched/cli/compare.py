"""`kubesched compare`: the same arrivals under several configurations."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console

from kubesched.cli.questions import expected_problems, print_answer
from kubesched.framework.errors import PluginStartError
from kubesched.simulator.comparison import check_condition, compare, holds
from kubesched.simulator.scenario import ScenarioFileError

FAILS = 3
"""The exit code if a condition of --fail-if holds."""
OUTPUTS = ("table", "json", "html", "markdown")


@click.command()
@click.argument("variants", nargs=-1, required=True, metavar="VARIANT...")
@click.option(
    "--from",
    "source",
    required=True,
    type=click.Path(exists=True, path_type=Path),
    metavar="FILE|FOLDER",
    help="What arrives: a scenario, a recording, a trace, or a snapshot whose pods are all scheduled anew.",
)
@click.option("--plugin", multiple=True, metavar="MODULE:NAME", help="A plugin for all variants, or a file.py.")
@click.option("--seeds", type=click.IntRange(1), default=1, show_default=True, help="Runs of each variant.")
@click.option("--first-seed", type=int, default=1, show_default=True)
@click.option("--keep", is_flag=True, help="Leave the pods of a snapshot where they are; schedule only pending ones.")
@click.option("--fail-if", multiple=True, metavar="CONDITION", help="Exit with 3 if this holds. May be repeated.")
@click.option("-o", "--output", type=click.Choice(OUTPUTS), default="table", show_default=True)
def command(
    variants: tuple[str, ...],
    source: Path,
    plugin: tuple[str, ...],
    seeds: int,
    first_seed: int,
    keep: bool,
    fail_if: tuple[str, ...],
    output: str,
) -> None:
    """Run the same arrivals with several configurations, and show what differs.

    A VARIANT is a file with a KubeSchedulerConfiguration, a file.py with plugins that are enabled beside the default
    ones, the word default, or the JSON of an earlier comparison, for example by another version. They are called A, B,
    C and so on. Each runs with the same seeds, so that differences are those of the variants; with several seeds they
    have 95% intervals.

    \b
    kubesched compare default packed.yaml --from monday.jsonl.gz --seeds 5
    kubesched compare default rule.py --from cluster.json.gz -o html > report.html
    kubesched compare before.json default --from day.py
    kubesched compare default new.yaml --from day.py --fail-if 'B.pending > A.pending'

    Measures in conditions: pending, bound, bind_mean, bind_p99, evictions, nodes_used, cpu, memory, fragmentation,
    spread, node_hours, cost, and moved, the pods that go to another node than with A. The exit code is 3 if a
    condition of --fail-if holds, 1 or 2 for errors.
    """
    chosen = range(first_seed, first_seed + seeds)
    console = Console(stderr=True)
    with expected_problems(), console.status("") as status:
        for each in fail_if:
            check_condition(each, len(variants))  # before the runs, which may take long
        try:
            found = compare(
                source,
                *variants,
                seeds=chosen,
                plugins=plugin,
                keep=keep,
                progress=lambda name, seed: status.update(f"{name}, seed {seed}"),
            )
        except (ScenarioFileError, PluginStartError) as error:
            raise click.ClickException(str(error)) from None
        failed = [each for each in fail_if if holds(found, each)]
    print_answer(output, "Comparison", found.to_dict(), found.document())
    for each in failed:
        click.echo(f"failed: {each}", err=True)
    errors = any(one.error for each in found.variants for one in each.runs)
    raise click.exceptions.Exit(FAILS if failed else int(errors))
