"""`kubesched whatif`: what drains, failures and new nodes would do, and which nodes could go."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import click

from kubesched.cli.questions import QuestionFlags, alike, expected_problems, pods_of, print_answer, with_cluster_options
from kubesched.explain.document import Block, Heading, Items, Table, Text
from kubesched.library.cluster import Cluster
from kubesched.library.consolidation import Consolidation
from kubesched.library.draining import BudgetUse
from kubesched.library.moves import MovePlan
from kubesched.library.results import Fate, Placement, Placements
from kubesched.library.suppose import FORMS
from kubesched.library.what_if import WhatIfResult

NOT_OK = 3
"""The exit code if a pod stays pending, a budget does not hold, or there is no plan."""
MOST_ROWS = 40
MOST_NAMES = 5


@click.command()
@click.argument("changes", nargs=-1, metavar="[CHANGE]...")
@click.option("--consolidate", is_flag=True, help="Which nodes could go, in a safe order.")
@click.option("--only", multiple=True, metavar="NODE", help="With --consolidate: only these may go.")
@click.option("--bare", is_flag=True, help="With --consolidate: move pods that no controller would create again, too.")
@click.option("--fit", metavar="[NAMESPACE/]POD", help="The fewest moves that make this pending pod fit.")
@click.option("--no-preemption", is_flag=True, help="Let no pod push others away.")
@with_cluster_options
def command(
    changes: tuple[str, ...],
    consolidate: bool,
    only: tuple[str, ...],
    bare: bool,
    fit: str | None,
    no_preemption: bool,
    **given: Any,
) -> None:
    """Say what changes would do to a cluster: which pods move where, which stay pending, which budgets hold.

    \b
    kubesched whatif 'drain node-7'
    kubesched whatif 'fail zone a' 'add 2 like node-3' --from cluster.json.gz
    kubesched whatif 'taint pool-a-* dedicated=gpu:NoExecute' -o json

    A CHANGE is one of the following. N is a node's name or a pattern such as pool-a-*. A drain respects disruption
    budgets; a failure and a removal do not.

    \b
    drain N      cordon N     uncordon N    taint N KEY=VALUE:EFFECT     untaint N KEY
    remove N     fail N       fail zone Z   add 3 like N                 delete pod X

    It can also look for changes itself: --consolidate finds the nodes that could go, and --fit the
    fewest moves after which a pending pod fits. Nothing is changed in the cluster.

    \b
    kubesched whatif --consolidate
    kubesched whatif --fit shop/web-1

    The exit code is 3 if a pod stays pending, a budget does not hold, or no plan is found.
    """
    if sum((bool(changes), consolidate, fit is not None)) != 1:
        raise click.UsageError(f"give changes ({', '.join(FORMS[:4])}, …), or --consolidate, or --fit")
    flags = QuestionFlags(**given)
    with expected_problems():
        cluster = flags.cluster()
        if consolidate:
            found = cluster.consolidate(only or None, bare=bare)
            print_answer(flags.output, "Consolidation", found.to_dict(), list(_consolidation(found, cluster)))
            ok = True
        elif fit is not None:
            plan = cluster.plan(cluster.explainer().find(fit))
            print_answer(flags.output, "MovePlan", plan.to_dict(), list(_plan(plan)))
            ok = plan.ok
        else:
            result = cluster.what_if(*changes, preempt=not no_preemption)
            print_answer(flags.output, "WhatIf", result.to_dict(), list(_what_if(result)))
            ok = result.ok
    raise click.exceptions.Exit(0 if ok else NOT_OK)


def _what_if(result: WhatIfResult) -> Iterator[Block]:
    yield Heading(str(result).partition("\n")[0], 1)
    yield from _moves(result.moved, "Pods that have to leave")
    yield from _moves(result.preempted, "Pods that others push away")
    gained = Placements(each for each in result.waiting if each.fate is Fate.PLACED)
    yield from _moves(gained, "Pending pods that get a node")
    if len(result.waiting.pending):
        count = len(result.waiting.pending)
        yield Text("1 pod was pending and stays so." if count == 1 else f"{count} pods were pending and stay so.")
    if result.budgets:
        yield Heading("Disruption budgets", 2)
        rows = [
            (each.budget, str(each.allowed), str(each.used), str(each.lost), _holds(each)) for each in result.budgets
        ]
        yield Table(("budget", "allowed", "evicted", "lost", ""), tuple(rows))


def _holds(budget: BudgetUse) -> str:
    refused = [f"refuses {budget.refused}"] if budget.refused else []
    missing = [f"broken: {budget.missing} more gone than allowed"] if budget.missing else []
    return ", ".join(refused + missing) or "holds"


def _moves(placements: Placements, title: str) -> Iterator[Block]:
    if not placements:
        return
    yield Heading(title, 2)
    order = alike(sorted(placements, key=lambda each: (each.fate is Fate.PLACED, each.fate.value)))
    yield Table(("pod", "from", "to", "why not"), tuple(_row(each) for each in order[:MOST_ROWS]))
    if len(order) > MOST_ROWS:
        yield Text(f"and {len(order) - MOST_ROWS} more; -o json has them all")


def _row(same: Sequence[Placement]) -> tuple[str, str, str, str]:
    first = same[0]
    place = first.node if first.fate is Fate.PLACED else first.fate.value
    origins = {each.origin or each.pod.node_name or "-" for each in same}
    return (pods_of(same), origins.pop() if len(origins) == 1 else f"{len(origins)} nodes", place, first.message)


def _consolidation(found: Consolidation, cluster: Cluster) -> Iterator[Block]:
    yield Heading(f"{len(found.nodes)} of {len(cluster.nodes)} nodes could go", 1)
    if found.removals:
        yield Text("Cordon all of them first, then drain and delete one after the other, in this order:")
        items = tuple(
            (f"{each.node}: {_counted(len(each.moves))}", (f"kubectl drain --ignore-daemonsets {each.node}",))
            for each in found.removals[:MOST_ROWS]
        )
        yield Items(items, numbered=True)
        if len(found.removals) > MOST_ROWS:
            yield Text(f"and {len(found.removals) - MOST_ROWS} more; -o json has them all")
    if found.kept:
        yield Heading("Nodes that stay", 2)
        reasons: dict[str, list[str]] = {}
        for name, why in sorted(found.kept.items()):
            reasons.setdefault(why, []).append(name)
        rows = sorted(reasons.items(), key=lambda each: -len(each[1]))
        table = [(why, str(len(names)), _listed(names)) for why, names in rows[:MOST_ROWS]]
        yield Table(("why", "nodes", "which"), tuple(table))
        if len(rows) > MOST_ROWS:
            yield Text(f"and {len(rows) - MOST_ROWS} more reasons; -o json has them all")


def _counted(moves: int) -> str:
    return "1 pod moves" if moves == 1 else f"{moves} pods move"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:MOST_NAMES]) + (", …" if len(names) > MOST_NAMES else "")


def _plan(plan: MovePlan) -> Iterator[Block]:
    if not plan.ok:
        yield Heading(f"no plan makes {plan.pod.key} fit", 1)
        yield Text(plan.message)
        return
    moves = len(plan.moves)
    how = f"after {moves} move{'' if moves == 1 else 's'}" if moves else "without any move"
    yield Heading(f"{plan.pod.key} fits on {plan.node} {how}", 1)
    yield from _moves(plan.moves, "Moves")
