"""`kubesched conformance`: compares our decisions with kube-scheduler's."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import click

from kubesched.conformance.compare import ConformanceReport, Difference, check_file


@click.command()
@click.argument("files", nargs=-1, required=True, type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option(
    "--show",
    default=10,
    show_default=True,
    type=click.IntRange(min=0),
    metavar="N",
    help="How many differences to print in full.",
)
def command(files: tuple[Path, ...], show: int) -> None:
    """Replay recorded kube-scheduler decisions and report any difference.

    FILES are corpus files (JSON lines, gzipped or not). Each line has a cluster, the pods to schedule and
    kube-scheduler's decisions, down to each plugin's score. The output has a line per file, the first differences and a
    line of totals. The exit code is 1 if there is any difference.
    """
    total = ConformanceReport()
    for path in files:
        try:
            report = check_file(path)
        except ValueError as problem:
            raise click.ClickException(f"{problem}; give files in the corpus format") from None
        total.add(report)
        click.echo(f"{path.name}: {_counts(report)}")
    for difference in total.differences[:show]:
        click.echo(_describe(difference))
    if len(total.differences) > show:
        click.echo(f"… and {len(total.differences) - show} more; see them with --show {len(total.differences)}")
    click.echo(_counts(total))
    sys.exit(1 if total.differences else 0)


def _counts(report: ConformanceReport) -> str:
    return f"{report.scenarios} scenarios, {report.attempts} attempts, {len(report.differences)} differences"


def _describe(difference: Difference) -> str:
    where = f"{difference.scenario}"
    if difference.pod:
        where += f", pod {difference.pod}, attempt {difference.attempt}"
    lines = [f"\n{where}: {difference.field}"]
    lines += [
        f"  {path}: expected {old}, got {new}" for path, old, new in _leaves("", difference.expected, difference.got)
    ]
    return "\n".join(lines)


def _leaves(path: str, expected: Any, got: Any) -> list[tuple[str, str, str]]:
    """Return the paths at which two values differ, with both values."""
    if isinstance(expected, dict) and isinstance(got, dict):
        found = []
        for key in dict.fromkeys((*expected, *got)):
            if expected.get(key) != got.get(key):
                found += _leaves(f"{path}.{key}" if path else str(key), expected.get(key), got.get(key))
        return found
    return [(path or "value", json.dumps(expected), json.dumps(got))]
