"""`kubesched bench`: decisions per second, and pods per second through the whole loop."""

from __future__ import annotations

import json
from pathlib import Path

import click
from rich.console import Console

from kubesched.bench import decisions, loop
from kubesched.bench.workloads import WORKLOADS

LOOP = "loop"
NAMES = (*dict.fromkeys(workload.name for workload in WORKLOADS), LOOP)


@click.command(epilog="\b\nNames:\n" + "\n".join(f"  {name}" for name in NAMES))
@click.argument("names", nargs=-1, type=click.Choice(NAMES), metavar="[NAME]...")
@click.option(
    "--output",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Also write the results of the decisions to FILE, as JSON.",
)
def command(names: tuple[str, ...], output: Path | None) -> None:
    """Measure decisions per second, and pods per second through the whole loop.

    The first table shows decisions, each workload in its own process, compared with the same plugins called for one
    node at a time. The second shows pods from the watch event to the binding and its Event, against an API server in
    the same process, with the time of each part. NAMEs select workloads; running all of them takes minutes.
    """
    progress, out = Console(stderr=True), Console()
    results: list[decisions.DecisionResult] = []
    for workload in WORKLOADS:
        if not names or workload.name in names:
            with progress.status(f"{workload.name} on {workload.nodes:,} nodes…"):
                results.append(decisions.measure_apart(workload))
    if results:
        out.print(decisions.table(results))
    if output is not None:
        output.write_text(json.dumps(results, indent=2) + "\n", "utf-8")
    if not names or LOOP in names:
        with progress.status("the whole loop…"):
            whole = loop.run()
        out.print(loop.table(whole))
