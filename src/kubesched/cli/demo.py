"""`kubesched demo`: a small cluster, a mixed set of pods, and why each of them went where it went.

The engine decides, with its default configuration. This module reads `demo.yaml` and prints what the decisions say.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib import resources
from random import Random
from typing import Any

import click
import msgspec
import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table

from kubesched.api import objects as api
from kubesched.cluster.cluster import Cluster
from kubesched.config.load import default
from kubesched.engine.decision import Decision, Outcome
from kubesched.engine.engine import Engine
from kubesched.engine.profiles import build_engines
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.status import Code
from kubesched.plugins import in_tree_registry

IN_FULL = "api-2"
"""The pod whose scores are shown plugin by plugin, for the best three nodes."""
NARROW = 80
"""Terminals with fewer columns get running text instead of columns."""


@click.command()
def command() -> None:
    """Schedule a mixed set of pods on an in-memory cluster and show why each went where.

    First every placement: the node, its score, the runner-up and the plugins that made the difference. Then one
    decision in full, node by node and plugin by plugin. Then a pod that fits nowhere, with kube-scheduler's message and
    what is behind each part of it. Last a pod for which another has to go.

    The cluster is made up, the decisions are not: they come from the engine with the default configuration. It prints
    the same every time.
    """
    manifests = yaml.safe_load(resources.files("kubesched.cli").joinpath("demo.yaml").read_text("utf-8"))["items"]
    engine = _engine(manifest for manifest in manifests if manifest["kind"] != "Deployment")
    deployments = [manifest for manifest in manifests if manifest["kind"] == "Deployment"]
    out = Console(highlight=False)
    table = engine.cluster.nodes
    zones = len(table.label("topology.kubernetes.io/zone").values)
    out.print(f"{table.valid_count} nodes in {zones} zones, kube-scheduler's default plugins and configuration.\n")
    if out.width >= NARROW:
        _print_line(out, "pod", "node", "score", "runner-up", "", "what made the difference")
    decisions: dict[str, Decision] = {}
    for deployment in deployments:
        attempts = {pod.name: _schedule(engine, pod) for pod in _pods(deployment)}
        decisions |= attempts
        meta = deployment["metadata"]
        out.print(f"\n[bold]{meta['name']}[/]: {escape(meta['annotations']['demo'])}")
        for decision in attempts.values():
            _print_line(out, *_placement(decision))
    _show_scores(out, engine, decisions[IN_FULL])
    for decision in decisions.values():
        if decision.outcome is not Outcome.SCHEDULED:
            _show_failure(out, engine, decision)


# --- deciding ---------------------------------------------------------------------------------------------------------


def _engine(manifests: Iterator[dict[str, Any]]) -> Engine:
    cluster = Cluster()
    for manifest in manifests:
        cluster.set(api.decode(manifest))
    return build_engines(default(), in_tree_registry(), cluster, Random(0))["default-scheduler"]


def _pods(deployment: dict[str, Any]) -> Iterator[api.Pod]:
    """The pods that a Deployment comes to."""
    name, template = deployment["metadata"]["name"], deployment["spec"]["template"]
    for number in range(1, deployment["spec"]["replicas"] + 1):
        own = {"name": f"{name}-{number}", "namespace": "default", "uid": f"{name}-{number}"}
        yield api.decode_as(api.Pod, template | {"metadata": template["metadata"] | own})


def _schedule(engine: Engine, pod: api.Pod) -> Decision:
    decision = engine.schedule(engine.cluster.classes.info(pod), record=True)
    if decision.outcome is Outcome.SCHEDULED:
        engine.cluster.assume(decision.info, decision.node)
    return decision


def _schedule_again(engine: Engine, decision: Decision) -> Decision:
    """What happens once the victims are gone: the pod is tried again, first of all on the node it was promised."""
    assert decision.post_filter is not None
    for victim in decision.post_filter.victims:
        engine.cluster.remove_pod(victim.pod.uid)
    promised = msgspec.structs.replace(
        decision.pod.status, nominated_node_name=decision.post_filter.nominated_node_name
    )
    return _schedule(engine, msgspec.structs.replace(decision.pod, status=promised))


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


def _placement(decision: Decision) -> tuple[str, ...]:
    """Pod, node, score, runner-up, how far behind that is, and the plugins that made the difference."""
    name = decision.pod.name
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


def _show_scores(out: Console, engine: Engine, decision: Decision) -> None:
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
    _heading(out, f"{decision.pod.name} in full")
    out.print(f"{decision.feasible} of {decision.evaluated} nodes fit. Scores of the best three, weights included:")
    out.print(table)
    out.print(f"{decision.evaluated - decision.feasible} do not:")
    out.print(_reasons(decision.diagnosis))


def _show_failure(out: Console, engine: Engine, decision: Decision) -> None:
    """The message that kube-scheduler would send, what each plugin said, and what preemption makes of it."""
    assert decision.diagnosis is not None
    _heading(out, f"{decision.pod.name} fits nowhere")
    out.print(decision.message, style="yellow", markup=False, soft_wrap=True)
    out.print("\nThat is kube-scheduler's message, word for word. What is behind it:")
    out.print(_reasons(decision.diagnosis))
    if decision.post_filter is None or not decision.post_filter.victims:
        out.print("Preemption: removing other pods would not make room.")
        return
    victims = ", ".join(victim.pod.name for victim in decision.post_filter.victims)
    node = decision.post_filter.nominated_node_name
    again = _schedule_again(engine, decision)
    out.print(f"Preemption: {node} has the victims that matter least. [red]{victims}[/] has to go.")
    out.print(f"Second attempt: {again.pod.name} goes to [green]{again.node}[/].")


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
