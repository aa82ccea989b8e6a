"""`kubesched learn`: the seven steps, each to read, to run, to compare and to play with."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.markup import escape
from rich.syntax import Syntax
from rich.table import Table

from kubesched.learn.steps import STEPS, Step
from kubesched.simulator.report import Report
from kubesched.simulator.run import run
from kubesched.simulator.tables import moment

FAILED = 1
VERBS = {"bound": "bound to", "running": "runs on", "succeeded": "has ended on", "created": "is created"}


@click.command()
@click.argument("number", required=False, type=click.IntRange(1, len(STEPS)), metavar="[1-7]")
@click.option("--diff", is_flag=True, help="Show what changed from the step before.")
@click.option("--show", is_flag=True, help="Show the code.")
@click.option("--edit", is_flag=True, help="Copy the step to where you are, to play with.")
@click.option("--seed", type=int, help="Another seed: other dice.")
def command(number: int | None, diff: bool, show: bool, edit: bool, seed: int | None) -> None:
    """Learn how a scheduler works, in seven steps from one that throws dice.

    Without a number the steps are listed. With one, that step's scheduler runs on a simulated cluster and tells what it
    does.

    \b
    kubesched learn 3           run the third step
    kubesched learn 3 --diff    what it adds to the second
    kubesched learn 3 --edit    a copy of it, to change and run with kubesched simulate
    """
    out = Console()
    if number is None:
        if diff or show or edit:
            raise click.UsageError("--diff, --show and --edit need a step: kubesched learn 3 --diff")
        _list(out)
        return
    step = STEPS[number - 1]
    if diff:
        out.print(Syntax("\n".join(step.diff()), "diff", background_color="default", word_wrap=True))
    elif show:
        out.print(Syntax(step.code, "python", background_color="default", word_wrap=True))
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


def _copy(step: Step) -> None:
    target = Path(f"{step.name}.py")
    if target.exists():
        raise click.ClickException(f"{target} is here already; move it, or remove it to start afresh")
    target.write_text(step.code, "utf-8")
    click.echo(f"{target} is yours. Change it, then run it: kubesched simulate {target}")


def _tell(step: Step, seed: int | None, out: Console) -> None:
    out.print(f"[bold]Step {step.number}: {escape(step.title)}[/]\n")
    out.print(escape(step.text) + "\n")
    report = run(step.scenario(), seed)
    for line in _story(report):
        out.print(line)
    held = "[green]and so it is[/]" if report.passed else "[bold red]but it is not so[/]"
    out.print(f"\nExpected: {escape(step.expected)}; {held}.")
    following = f"kubesched learn {step.number + 1}" if step.number < len(STEPS) else "kubesched simulate, kubesched up"
    out.print(f"Next: kubesched learn {step.number} --diff, --edit; {following}", highlight=False)
    if not report.passed:
        raise SystemExit(FAILED)


def _story(report: Report) -> list[str]:
    """The timeline in sentences."""
    lines: list[str] = []
    nodes: list[str] = []
    for entry in report.timeline:
        time = f"[dim]{moment(entry.time):>7}[/]"
        if entry.kind == "Node" and entry.what == "created":
            nodes.append(entry.name)
            continue
        if nodes:
            lines.append(f"{time}  [cyan]cluster[/]    {_named(nodes)}")
            nodes = []
        lines.append(f"{time}  {_sentence(entry.what, entry.name, entry.text)}")
    if report.error:
        lines.append(f"[bold red]{escape(report.error)}[/]")
    return lines


def _named(nodes: list[str]) -> str:
    return f"{nodes[0]} is there" if len(nodes) == 1 else f"{nodes[0]} to {nodes[-1]} are there"


def _sentence(what: str, name: str, text: str) -> str:
    match what:
        case "scheduler":
            return f"[magenta]scheduler[/]  {escape(text)}"
        case "expected":
            return f"[green]✓[/]          {escape(text)}"
        case "FAILED":
            return f"[bold red]✗[/]          {escape(text)}"
        case "note":
            return f"[bold]scenario[/]   {escape(text)}"
    return f"[cyan]cluster[/]    {name.removeprefix('default/')} {VERBS.get(what, what)} {text}".rstrip()
