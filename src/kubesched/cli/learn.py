"""`kubesched learn`: seven steps to read, run, compare and change."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from kubesched.cli.output import data_console
from kubesched.learn.steps import STEPS, Step
from kubesched.simulator.report import Report
from kubesched.simulator.run import run
from kubesched.simulator.tables import moment
from kubesched.simulator.timeline import TimelineEntry

FAILED = 1
VERBS = {"running": "runs on", "succeeded": "has ended on", "created": "is created"}


@click.command()
@click.argument("number", required=False, type=click.IntRange(1, len(STEPS)), metavar="[1-7]")
@click.option("--diff", is_flag=True, help="Show what changed from the step before.")
@click.option("--show", is_flag=True, help="Show the code.")
@click.option("--edit", is_flag=True, help="Copy the step to the current folder, to change it.")
@click.option("--seed", type=int, help="Seed of the random numbers.")
def command(number: int | None, diff: bool, show: bool, edit: bool, seed: int | None) -> None:
    """Learn how a scheduler works, in seven steps that start with a random choice.

    Without a number the steps are listed. With one, that step's scheduler runs on a simulated cluster and explains what
    it does.

    \b
    kubesched learn 3           run the third step
    kubesched learn 3 --diff    what it adds to the second
    kubesched learn 3 --edit    a copy of it, to change and run with kubesched simulate
    """
    out = data_console()
    if number is None:
        if diff or show or edit:
            raise click.UsageError("--diff, --show and --edit need the number of a step: kubesched learn 3 --diff")
        _list(out)
        return
    if diff + show + edit > 1:
        raise click.UsageError("use only one of --diff, --show and --edit")
    step = STEPS[number - 1]
    if diff:
        _show("\n".join(step.diff()), "diff", out)
    elif show:
        _show(step.code, "python", out)
    elif edit:
        _copy(step)
    else:
        _tell(step, seed, out)


def _list(out: Console) -> None:
    table = Table(box=None, pad_edge=False)
    for column in ("step", "what it is", "what happens in its scenario"):
        table.add_column(column)
    for step in STEPS:
        table.add_row(str(step.number), step.title, step.expected)
    out.print(table)
    out.print("\nRun one with: kubesched learn 1", highlight=False)


def _show(text: str, language: str, out: Console) -> None:
    if out.is_terminal:
        out.print(Syntax(text, language, background_color="default", word_wrap=True))
    else:  # a pipe or a file gets plain lines, for patch or an editor
        click.echo(text.rstrip("\n"))


def _copy(step: Step) -> None:
    target = Path(f"{step.name}.py")
    if target.exists():
        raise click.ClickException(f"{target} already exists; move it, or remove it to start again")
    target.write_text(step.code, "utf-8")
    click.echo(f"Wrote {target}. Change it, then run it: kubesched simulate {target}")


def _tell(step: Step, seed: int | None, out: Console) -> None:
    out.print(f"[bold]Step {step.number}: {escape(step.title)}[/]\n")
    out.print(escape(step.text) + "\n", highlight=False)
    report = run(step.scenario(), seed)
    out.print(_story(report), highlight=False)
    if report.error:
        out.print(f"[bold red]{escape(report.error)}[/]")
    held = "[green]confirmed[/]" if report.passed else "[bold red]not confirmed[/]"
    out.print(f"\nExpected: {escape(step.expected)}; {held}.", highlight=False)
    out.print(f"\nWhat is new in it:  kubesched learn {step.number} --diff", highlight=False)
    out.print(f"A copy to change:   kubesched learn {step.number} --edit", highlight=False)
    following = f"kubesched learn {step.number + 1}" if step.number < len(STEPS) else "kubesched up, and docs/guides"
    out.print(f"Go on with:         {following}", highlight=False)
    if not report.passed:
        raise SystemExit(FAILED)


def _story(report: Report) -> Table:
    """Return the timeline as a table. Bindings are left out, because the scheduler's own lines report them."""
    table = Table.grid(padding=(0, 2))
    table.add_column(justify="right", style="dim", min_width=5)
    table.add_column(min_width=9)
    table.add_column(overflow="fold")
    nodes: list[TimelineEntry] = []
    for entry in (each for each in report.timeline if each.what != "bound"):
        if entry.kind == "Node" and entry.what == "created":
            nodes.append(entry)
            continue
        _add_nodes(table, nodes)
        nodes = []
        table.add_row(moment(entry.time), *_sentence(entry))
    _add_nodes(table, nodes)
    return table


def _add_nodes(table: Table, nodes: list[TimelineEntry]) -> None:
    if nodes:
        first, last = nodes[0].name, nodes[-1].name
        there = f"{first} is there" if len(nodes) == 1 else f"{first} to {last} are there"
        table.add_row(moment(nodes[-1].time), "[cyan]cluster[/]", escape(there))


def _sentence(entry: TimelineEntry) -> tuple[str, str]:
    match entry.what:
        case "scheduler":
            return "[magenta]scheduler[/]", escape(entry.text)
        case "expected":
            return "[green]✓ expected[/]", escape(entry.text)
        case "FAILED":
            return "[bold red]✗ expected[/]", escape(entry.text)
        case "note":
            return "[bold]scenario[/]", escape(entry.text)
    verb = VERBS.get(entry.what, entry.what)
    return "[cyan]cluster[/]", escape(f"{entry.name.removeprefix('default/')} {verb} {entry.text}".rstrip())
