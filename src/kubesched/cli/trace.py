"""`kubesched trace`: public cluster traces as scenarios."""

from __future__ import annotations

from pathlib import Path

import click

from kubesched.api.quantity import QuantityError, milli, value
from kubesched.config.duration import Duration
from kubesched.traces.importing import Window, import_trace
from kubesched.traces.kinds import KINDS
from kubesched.traces.model import Source, TraceError, TraceOptions

WEEK = 7 * 86_400
LONG = 4 * WEEK
"""Seconds of a trace from which on pods that stay pending take long: they are tried again every five minutes."""


@click.group()
def command() -> None:
    """Replay public cluster traces: import one as a scenario, then simulate it."""


@command.command("import")
@click.argument("kind", type=click.Choice(list(KINDS)), metavar="KIND")
@click.argument("files", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="FILE...")
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    default="trace.py",
    show_default=True,
    metavar="FILE.py",
    help="The scenario. The arrivals go to FILE.trace.jsonl.gz beside it.",
)
@click.option("--from", "begin", default="0s", metavar="DURATION", help="Begin so long after the first arrival.")
@click.option("--until", metavar="DURATION", help="End so long after the first arrival.")
@click.option("--limit", type=click.IntRange(1), help="How many pods at most.")
@click.option("--nodes", type=click.IntRange(1), help="How many nodes, instead of those of the trace.")
@click.option(
    "--speed",
    type=click.FloatRange(min=0, min_open=True),
    default=1.0,
    help="Let pods arrive so many times faster, and run as much shorter: months of a trace take long to simulate.",
)
@click.option("--machine-cpu", default="96", show_default=True, help="Cores of a machine, where the trace has none.")
@click.option("--machine-memory", default="512Gi", show_default=True, help="Memory of a machine, likewise.")
def import_command(
    kind: str,
    files: tuple[Path, ...],
    output: Path,
    begin: str,
    until: str | None,
    limit: int | None,
    nodes: int | None,
    speed: float,
    machine_cpu: str,
    machine_memory: str,
) -> None:
    """Write a scenario with the machines and pods of a trace."""
    if output.suffix != ".py":
        raise click.BadParameter(f"{output} must end in .py", param_hint="--output")
    if not output.parent.is_dir():
        raise click.BadParameter(f"{output}: there is no folder {output.parent}", param_hint="--output")
    options = TraceOptions(
        _quantity(machine_cpu, "--machine-cpu", 1000), _quantity(machine_memory, "--machine-memory", 1)
    )
    end = _seconds(until, "--until") if until else float("inf")
    window = Window(_seconds(begin, "--from"), end, limit, nodes, speed)
    try:
        made = import_trace(KINDS[kind], Source(files, options), output, window)
    except TraceError as error:
        raise click.ClickException(str(error)) from None
    except OSError as error:
        raise click.ClickException(f"{error.filename or output}: {error.strerror}") from None
    seconds = int(made.head.seconds)
    played = f", played in {Duration.of(int(seconds / speed))}" if speed != 1 else ""
    pods = f"{_counted(made.head.pods, 'pod')} on {_counted(made.nodes, 'node')}"
    click.echo(f"{made.head.trace}: {pods}, {Duration.of(seconds)}{played}.")
    if seconds / speed > LONG:
        weeks = f"{seconds / speed / WEEK:.0f} weeks"
        click.echo(f"In {weeks}, pods that stay pending are tried often, which takes time; see --speed.", err=True)
    for reason, number in made.skipped.items():
        click.echo(f"Skipped {number:,}: {reason}.", err=True)
    if made.freed:
        freed = f"{_counted(made.freed, 'pod')} may use any GPU model"
        click.echo(f"The trace lists no machines: {freed}, not only those that the trace names.", err=True)
    click.echo(f"kubesched simulate {output}")


import_command.help = f"""Write a scenario with the machines and pods of a trace.

Pods arrive and end as in the trace; kubesched simulate decides where they go. Files may be compressed with gzip. Where
a trace lists no machines, there are enough of one kind for the pods to fill 80 % of them at the peak.

\b
{chr(10).join(f"{name:<20} {each.files}" for name, each in KINDS.items())}

\b
kubesched trace import openb nodes.csv pods.csv -o openb.py
kubesched trace import helios cluster_log.csv --from 720h --until 744h --nodes 100
kubesched simulate trace.py --config packed.yaml
"""


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _seconds(text: str, option: str) -> float:
    try:
        return Duration.parse(text).seconds
    except ValueError as error:
        raise click.BadParameter(f"{text!r}: {error}", param_hint=option) from None


def _quantity(text: str, option: str, times: int) -> int:
    try:
        amount = milli(text) if times == 1000 else value(text)
    except QuantityError as error:
        raise click.BadParameter(str(error), param_hint=option) from None
    if amount <= 0:
        raise click.BadParameter(f"{text} must be above 0", param_hint=option)
    return amount
