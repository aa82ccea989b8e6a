"""`kubesched capacity`: how many pods fit, what runs out first, and which nodes would be needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import click

from kubesched.cli.questions import QuestionFlags, alike, expected_problems, pods_of, print_answer, with_cluster_options
from kubesched.explain.document import Block, Heading, Table, Text
from kubesched.library.capacity import CapacityReport
from kubesched.library.sizing import HINT, NodesNeeded
from kubesched.snapshots.reader import Reader

DOES_NOT_FIT = 3
"""The exit code if not even one pod fits, or some have no place on the nodes that can be had."""
MOST_ROWS = 15


@click.command()
@click.option("-f", "--filename", multiple=True, type=click.File("rb"), metavar="FILE", help="Pods or workloads.")
@click.option("--sequence", is_flag=True, help="As many of the first as fit, then of the second.")
@click.option("--preempt", is_flag=True, help="Let less important pods make room, and count them.")
@click.option("--at-most", type=click.IntRange(1), default=10_000, show_default=True, help="Stop counting here.")
@click.option(
    "--nodes",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Types of nodes with prices: which to add so that all pods fit. Without -f, the pending ones.",
)
@with_cluster_options
def command(
    filename: tuple[Any, ...], sequence: bool, preempt: bool, at_most: int, nodes: Path | None, **given: Any
) -> None:
    """Count how many more pods fit, and say what runs out first.

    A FILE has pods or workloads. Several are placed in turn, in the proportion of their replicas, until one does not
    fit: spreading, affinity, volumes, devices and taints count as they do for the scheduler. Nothing is changed.

    \b
    kubesched capacity -f web.yaml --from cluster.json.gz
    kubesched capacity -f web.yaml -f db.yaml --sequence
    kubesched capacity -f batch.yaml --preempt -o json | jq .total

    --nodes asks the opposite: which nodes have to be added so that all these pods fit, at the lowest price? A solver
    (pip install 'kubesched[solver]') finds the mix, and the pods are scheduled on it to be sure.

    \b
    nodeTypes:
    - {name: small, cpu: 4, memory: 16Gi, price: 0.2}
    - {name: gpu, cpu: 16, memory: 64Gi, resources: {nvidia.com/gpu: 4}, price: 3.1, maximum: 5}

    The exit code is 3 if not even one pod fits or, with --nodes, if some pods have no place.
    """
    flags = QuestionFlags(**given)
    texts = [each.read() for each in filename]
    if not texts and nodes is None:
        raise click.UsageError("give pods with -f, or types of nodes with --nodes")
    with expected_problems():
        _check(filename, texts)
        cluster = flags.cluster()
        if nodes is not None:
            needed = cluster.nodes_needed(texts or None, nodes)
            if needed.solver == "greedy":
                click.echo(f"Warning: {HINT}", err=True)
            print_answer(flags.output, "NodesNeeded", needed.to_dict(), list(_needed_document(needed)))
            code = 0 if needed.ok else DOES_NOT_FIT
        else:
            found = cluster.capacity(*texts, sequence=sequence, preempt=preempt, at_most=at_most)
            print_answer(flags.output, "Capacity", found.to_dict(), list(_document(found)))
            code = 0 if found.total else DOES_NOT_FIT
    raise click.exceptions.Exit(code)


def _check(files: Iterable[Any], texts: Iterable[bytes]) -> None:
    """Raise `ManifestError` for files that are no manifests, with their names."""
    reader = Reader()
    for file, text in zip(files, texts, strict=True):
        reader.read_text(text, file.name)
    reader.finish()


def _document(found: CapacityReport) -> Iterator[Block]:
    yield Heading(str(found), 1)
    if found.rounds and len(found.templates) > 1:
        yield Text(f"{found.rounds} complete rounds fit.")
    if found.evicted:
        yield Text(f"{len(found.evicted)} less important pods make room for them.")
    for each in found.templates:
        yield Heading(f"{each.name}: {each.count}", 2)
        if each.message:
            yield Text(each.message)
        if each.runs_out:
            rows = [(reason, str(number)) for reason, number in each.runs_out.most_common()]
            yield Table(("what keeps the next one out", "nodes"), tuple(rows))
        names = sorted({*each.per_node, *each.limits}, key=lambda name: (-each.per_node[name], name))
        rows3 = [(name, str(each.per_node[name]), each.limits.get(name, "")) for name in names[:MOST_ROWS]]
        if rows3:
            yield Table(("node", "pods", "limit"), tuple(rows3))
        if len(names) > MOST_ROWS:
            yield Text(f"and {len(names) - MOST_ROWS} more nodes; -o json has them all")


def _needed_document(needed: NodesNeeded) -> Iterator[Block]:
    total, pending = sum(needed.nodes.values()), needed.placements.pending
    none = "no nodes of these types would help" if pending else "no more nodes are needed"
    more = "1 more node" if total == 1 else f"{total} more nodes"
    yield Heading(f"{more} for {needed.price:g} per hour" if total else none, 1)
    if needed.nodes:
        yield Table(("type", "nodes"), tuple((name, str(number)) for name, number in needed.nodes.items()))
    if needed.bound is not None and total:
        sure = "" if pending else " All pods have been scheduled on this one."
        yield Text(f"No mix is cheaper than {needed.bound:g}.{sure}")
    if pending:
        yield Heading(f"pods without a place on any of these types: {len(pending)}", 2)
        rows = [(pods_of(each), each[0].message) for each in alike(pending)[:MOST_ROWS]]
        yield Table(("pod", "why"), tuple(rows))
