"""`kubesched demo`: a small cluster, a mixed set of pods, and why each of them went where it went.

The cluster is that of `kubesched up`: API server, controllers, simulated kubelets and the scheduler, in this process,
on a virtual clock. This module applies `demo.yaml` to it and prints what the decisions say.
"""

from __future__ import annotations

from importlib import resources
from typing import Any

import click
import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table

from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.engine.decision import Decision, Outcome
from kubesched.engine.engine import Engine
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.status import Code
from kubesched.local.rehearsal import Attempts, Rehearsal

IN_FULL = "api-2"
"""The pod whose scores are shown plugin by plugin, for the best three nodes."""
NARROW = 80
"""Terminals with fewer columns get running text instead of columns."""


@click.command()
def command() -> None:
    """Start a cluster in this process, run a mixed set of pods on it and show why each went where.

    API server, controllers, simulated kubelets and scheduler are those of `kubesched up`, on a clock of their own, so
    it takes a second or two. First every placement: the node, its score, the runner-up and the plugins that made the
    difference. Then one decision in full, node by node and plugin by plugin. Then a pod that fits nowhere, with
    kube-scheduler's message and what is behind each part of it. Last a pod for which another has to go.

    It prints the same every time.
    """
    manifests = yaml.safe_load(resources.files("kubesched.cli").joinpath("demo.yaml").read_text("utf-8"))["items"]
    out = Console(highlight=False)
    run_virtual(lambda clock: _show(out, clock, manifests))


async def _show(out: Console, clock: VirtualClock, manifests: list[dict[str, Any]]) -> None:
    rehearsal = Rehearsal(clock)
    await rehearsal.start()
    try:
        for manifest in manifests:
            if manifest["kind"] != "Deployment":
                await rehearsal.apply(manifest)
        await rehearsal.nodes_ready()
        table = rehearsal.engine.cluster.nodes
        zones = len(table.label("topology.kubernetes.io/zone").values)
        out.print(f"{table.valid_count} nodes in {zones} zones, kube-scheduler's default plugins and configuration.\n")
        if out.width >= NARROW:
            _print_line(out, "pod", "node", "score", "runner-up", "", "what made the difference")
        pods: dict[str, Attempts] = {}
        for deployment in (each for each in manifests if each["kind"] == "Deployment"):
            attempts = await rehearsal.deploy(deployment)
            meta = deployment["metadata"]
            out.print(f"\n[bold]{meta['name']}[/]: {escape(meta['annotations']['demo'])}")
            for each in attempts:
                pods[each.name] = each
                _print_line(out, *_placement(each.name, each.decisions[0]))
        _show_scores(out, rehearsal.engine, IN_FULL, pods[IN_FULL].decisions[0])
        for each in pods.values():
            if each.decisions[0].outcome is not Outcome.SCHEDULED:
                _show_failure(out, rehearsal, each)
        _show_end(out, rehearsal)
    finally:
        await rehearsal.stop()


# --- showing ----------------------------------------------------------------------------------------------------------


def _print_line(out: Console, *cells: str) -> None:
    """A line of the list of placements: in columns, or as running text where the terminal is too narrow for them."""
    if out.width < NARROW:
        out.print(Padding(" ".join(cell for cell in cells[:-1] if cell), (0, 0, 0, 2)))
        out.print(Padding(cells[-1], (0, 0, 0, 6)))
        return
    line = Table.grid(padding=(0, 1, 0, 0))
    for width in (10, 10, 5, 11, 4):
        line.add_column(width=width, justify="left" if width > 5 else "right")
    line.add_row(f"  {cells[0]}", cells[1], cells[2], f" {cells[3]}", *cells[4:])
    out.print(line)


def _placement(name: str, decision: Decision) -> tuple[str, ...]:
    """Pod, node, score, runner-up, how far behind that is, and the plugins that made the difference."""
    if decision.outcome is not Outcome.SCHEDULED:
        return name, "[red]none[/]", "", "", "", "fits nowhere: see below"
    node = f"[green]{decision.node}[/]"
    if decision.scores is None:
        return name, node, "", "", "", "the only node that fits"
    scores = {node: (total, plugins) for node, plugins, total in decision.scores.by_node()}
    total, plugins = scores.pop(decision.node)
    runner_up = max(sorted(scores), key=lambda other: scores[other][0])
    second, second_plugins = scores[runner_up]
    if total == second:
        equals = 1 + sum(each == total for each, _ in scores.values())
        return name, node, str(total), runner_up, "=", f"a draw between {equals}"
    leads = {plugin: score - second_plugins[plugin] for plugin, score in plugins.items()}
    telling = sorted((plugin for plugin in leads if leads[plugin]), key=lambda plugin: -abs(leads[plugin]))[:2]
    why = "\n".join(f"{leads[plugin]:+} {plugin}" for plugin in telling)
    return name, node, str(total), runner_up, str(second - total), why


def _show_scores(out: Console, engine: Engine, name: str, decision: Decision) -> None:
    """Every plugin's score for every feasible node, and why the others were not feasible."""
    assert decision.scores is not None
    assert decision.diagnosis is not None
    best = sorted(decision.scores.by_node(), key=lambda scored: (scored[0] != decision.node, -scored[2]))[:3]
    table = Table(box=box.SIMPLE, show_footer=True)
    table.add_column("plugin", footer="total", overflow="fold")
    table.add_column("weight", justify="right")
    for node, _, total in best:
        style = "green" if node == decision.node else ""
        table.add_column(node, footer=str(total), justify="right", style=style, footer_style=style, overflow="fold")
    for plugin in decision.scores.plugins:
        weight = str(engine.framework.weights[plugin])
        table.add_row(plugin, weight, *(str(plugins[plugin]) for _, plugins, _ in best))
    _heading(out, f"{name} in full")
    out.print(f"{decision.feasible} of {decision.evaluated} nodes fit. Scores of the best three, weights included:")
    out.print(table)
    out.print(f"{decision.evaluated - decision.feasible} do not:")
    out.print(_reasons(decision.diagnosis))


def _show_failure(out: Console, rehearsal: Rehearsal, attempts: Attempts) -> None:
    """The message that kube-scheduler would send, what each plugin said, and what came of preemption."""
    decision, *later = attempts.decisions
    assert decision.diagnosis is not None
    _heading(out, f"{attempts.name} fits nowhere")
    out.print(decision.message, style="yellow", markup=False, soft_wrap=True)
    out.print("\nThat is kube-scheduler's message, word for word. What is behind it:")
    out.print(_reasons(decision.diagnosis))
    if decision.post_filter is None or not decision.post_filter.victims:
        out.print("Preemption: removing other pods would not make room.")
        return
    victims = ", ".join(rehearsal.name_of(victim.pod.name) for victim in decision.post_filter.victims)
    node = decision.post_filter.nominated_node_name
    out.print(f"Preemption: {node} has the victims that matter least. [red]{victims}[/] has to go.")
    if again := next((each for each in later if each.outcome is Outcome.SCHEDULED), None):
        out.print(f"Second attempt: {attempts.name} goes to [green]{again.node}[/].")


def _show_end(out: Console, rehearsal: Rehearsal) -> None:
    """What runs and what waits when it is over."""
    phases = rehearsal.phases()
    waiting = [name for name, phase in phases.items() if phase != "Running"]
    out.print(f"\nIn the end {len(phases) - len(waiting)} pods run. Without a node: {', '.join(sorted(waiting))}.")


def _heading(out: Console, text: str) -> None:
    out.print()
    out.rule(f"[bold]{text}[/]", align="left")


def _reasons(diagnosis: Diagnosis) -> Table:
    """A row per distinct answer: who said it, in which words, of which nodes, and whether preemption may change it."""
    said = Column("plugin and reason", overflow="fold")
    table = Table(said, Column("nodes", max_width=27), "preemption", box=box.SIMPLE)
    for status, rows in diagnosis.statuses():
        names = " ".join(sorted(diagnosis.table.names[row] for row in rows.tolist()))
        may_help = "may help" if status.code is Code.UNSCHEDULABLE else "cannot help"
        table.add_row(f"[bold]{status.plugin}[/]\n{escape(status.message)}", names, may_help)
    return table
