"""`kubesched demo`: a small cluster, a mixed set of pods, and why each of them went where it went.

It creates the objects of `demo.yaml` in a simulated cluster and prints the decisions of its scheduler.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path

import click
import yaml
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.padding import Padding
from rich.table import Column, Table

from kubesched.base.clocks import VirtualClock, run_virtual
from kubesched.base.types import JSON
from kubesched.cli.output import data_console
from kubesched.config.duration import Duration
from kubesched.config.load import default
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.engine.outcome import Outcome
from kubesched.framework.diagnosis import Diagnosis
from kubesched.framework.status import Code
from kubesched.plugins import in_tree_registry
from kubesched.simulator.cluster import SimulatedCluster
from kubesched.simulator.scenario_client import ScenarioClient
from kubesched.simulator.settings import ClusterOptions
from kubesched.snapshots.reader import ManifestError, load

IN_FULL = "api-2"
"""The pod whose scores are shown plugin by plugin, for the best three nodes."""
REPLICAS = {
    "Pod": "",
    "Deployment": "replicas",
    "ReplicaSet": "replicas",
    "StatefulSet": "replicas",
    "ReplicationController": "replicas",
    "Job": "parallelism",
}
"""The kinds that have pods, and the field of their spec that says how many."""
NARROW = 80
"""Terminals with fewer columns get running text instead of columns."""
TIMEOUT = 60.0


@click.command()
@click.argument("files", nargs=-1, type=click.Path(exists=True, path_type=Path))
def command(files: tuple[Path, ...]) -> None:
    """Start a cluster in this process, run a mixed set of pods on it and explain each placement.

    With FILES, run your manifests instead: nodes, workloads, pods and whatever they need. Without nodes in them, the
    nodes are those of the demo.

    API server, controllers, simulated kubelets and scheduler are those of `kubesched up`, on a virtual clock, so it
    takes a second or two. The output shows every placement with its score, the runner-up and the plugins that made the
    difference; one decision in full, by node and plugin; a pod that fits nowhere, with kube-scheduler's message and the
    reasons behind it; and a pod that preempts another.

    The output is the same every time.
    """
    manifests = yaml.safe_load(resources.files("kubesched.cli").joinpath("demo.yaml").read_text("utf-8"))["items"]
    if files:
        own = _read(files)
        nodes = [each for each in manifests if each["kind"] == "Node"]
        manifests = own if any(each["kind"] == "Node" for each in own) else [*nodes, *own]
    out = data_console(highlight=False)
    run_virtual(lambda clock: _show(out, clock, manifests, "" if files else IN_FULL))


def _read(files: Iterable[Path]) -> list[JSON]:
    """The objects in files of manifests."""
    try:
        items = [each.body() for each in load(*files).at()]
    except (ManifestError, OSError) as error:
        raise click.ClickException(str(error)) from None
    if not any(each["kind"] in REPLICAS for each in items):
        raise click.ClickException(f"there is nothing to schedule: no {', '.join(REPLICAS)}")
    return items


async def _show(out: Console, clock: VirtualClock, manifests: list[JSON], in_full: str) -> None:
    demo = Demo(clock)
    await demo.cluster.start()
    try:
        await demo.prepare([each for each in manifests if each["kind"] not in REPLICAS])
        out.print(f"{_nodes(demo.engine)}, kube-scheduler's default plugins and configuration.")
        if out.width >= NARROW:
            out.print()
            _print_line(out, "pod", "node", "score", "runner-up", "", "what made the difference")
        for workload in (each for each in manifests if each["kind"] in REPLICAS):
            meta = workload["metadata"]
            attempts = await demo.deploy(workload)
            about = str((meta.get("annotations") or {}).get("demo", workload["kind"]))
            out.print(f"\n[bold]{escape(meta['name'])}[/]: {escape(about)}")
            for each in attempts:
                _print_line(out, *_placement(each.name, each.decisions[0]))
        chosen = in_full or next((name for name, each in demo.attempts.items() if each.decisions[0].scores), "")
        if chosen:
            _show_scores(out, demo.engine, chosen, demo.attempts[chosen].decisions[0])
        for each in demo.attempts.values():
            if each.decisions[0].outcome is not Outcome.SCHEDULED:
                _show_failure(out, demo, each)
        await _show_end(out, demo)
    finally:
        await demo.cluster.stop()


# --- playing ----------------------------------------------------------------------------------------------------------


@dataclass
class Attempts:
    """The decisions about one pod, in order."""

    name: str
    """The workload's name and a number, in the order of the first attempts: shorter than the pod's own name."""
    workload: str = ""
    decisions: list[Decision] = field(default_factory=list)


class Demo:
    """The cluster of a simulation, with a record of all decisions about the pods of its workloads."""

    def __init__(self, clock: VirtualClock) -> None:
        options = ClusterOptions(heartbeat=Duration.of(0), events=False)
        self.cluster = SimulatedCluster(clock, 0, options, default(), in_tree_registry(), watch=self._watch)
        self.attempts: dict[str, Attempts] = {}
        """By short name."""
        self._client = ScenarioClient(self.cluster)
        self._short_names: dict[str, str] = {}
        self._workloads: list[str] = []
        self._counts: Counter[str] = Counter()

    @property
    def engine(self) -> Engine:
        """The engine of the default profile, which knows the nodes."""
        assert self.cluster.scheduler is not None
        return self.cluster.scheduler.profiles["default-scheduler"].engine

    async def prepare(self, manifests: Iterable[JSON]) -> None:
        """Create everything that is there before the workload, and wait until the nodes are ready."""
        for manifest in manifests:
            await self._client.create(manifest)
        await self._client.sleep(1.0)

    async def deploy(self, workload: JSON) -> list[Attempts]:
        """Create a workload, wait until its pods run or have been found not to fit, and return its pods."""
        name = workload["metadata"]["name"]
        self._workloads.append(name)
        replicas = (workload.get("spec") or {}).get(REPLICAS[workload["kind"]], 1)
        await self._client.create(workload)
        with suppress(TimeoutError):  # the next pod of a StatefulSet waits for the one before
            await self.cluster.clock.run_until(lambda: self._counts[name] >= replicas, TIMEOUT)
        # Long enough for containers to start, for victims of preemption to end, and for a second attempt.
        await self._client.sleep(6.0)
        return [each for each in self.attempts.values() if each.workload == name]

    async def phases(self) -> dict[str, str]:
        """Each pod's phase, by its short name."""
        pods = await self._client.list("Pod", namespace=None)
        return {self.short_name(pod["metadata"]["name"]): pod["status"]["phase"] for pod in pods}

    def short_name(self, pod: str) -> str:
        """The workload's name and a number, the same for the same pod; `pod` is the pod's own name."""
        if pod not in self._short_names:
            workload = self._workload_of(pod)
            self._counts[workload] += 1
            own = pod == workload or pod.removeprefix(f"{workload}-").isdecimal()
            self._short_names[pod] = pod if own else f"{workload}-{self._counts[workload]}"
        return self._short_names[pod]

    def _watch(self, decision: Decision) -> None:
        name = self.short_name(decision.pod.name)
        found = self.attempts.setdefault(name, Attempts(name, self._workload_of(decision.pod.name)))
        found.decisions.append(decision)

    def _workload_of(self, pod: str) -> str:
        """The workload whose name the pod's begins with."""
        return max((each for each in self._workloads if f"{pod}-".startswith(f"{each}-")), key=len, default=pod)


# --- showing ----------------------------------------------------------------------------------------------------------


def _nodes(engine: Engine) -> str:
    """How many nodes there are, and in how many zones if they have any."""
    table = engine.cluster.nodes
    nodes, zones = table.valid_count, len(table.label("topology.kubernetes.io/zone").values)
    text = "1 node" if nodes == 1 else f"{nodes} nodes"
    return text + (f" in {zones} zone{'s' * (zones > 1)}" if zones else "")


def _print_line(out: Console, *cells: str) -> None:
    """Print a line of the list of placements: in columns, or as running text if the terminal is too narrow."""
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
    """Return the pod, node, score, runner-up, its distance, and the plugins that made the difference."""
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
    """Print every plugin's scores for the best nodes, and the reasons against the nodes that do not fit."""
    assert decision.scores is not None
    narrow = out.width < NARROW
    best = sorted(decision.scores.by_node(), key=lambda scored: (scored[0] != decision.node, -scored[2]))
    best = best[: 2 if narrow else 3]
    table = Table(box=box.SIMPLE, show_footer=True)
    table.add_column("plugin", footer="total", overflow="fold")
    if not narrow:
        table.add_column("weight", justify="right")
    for node, _, total in best:
        style = "green" if node == decision.node else ""
        table.add_column(node, footer=str(total), justify="right", style=style, footer_style=style, overflow="fold")
    for plugin in decision.scores.plugins:
        weight = [] if narrow else [str(engine.framework.weights[plugin])]
        table.add_row(plugin, *weight, *(str(plugins[plugin]) for _, plugins, _ in best))
    _heading(out, f"{name} in full")
    which = "two" if len(best) == 2 else "three"
    out.print(f"{decision.feasible} of {decision.evaluated} nodes fit. Scores of the best {which}, weights included:")
    out.print(table)
    if decision.evaluated > decision.feasible and decision.diagnosis is not None:
        out.print(f"{decision.evaluated - decision.feasible} do not:")
        out.print(_reasons(decision.diagnosis))


def _show_failure(out: Console, demo: Demo, attempts: Attempts) -> None:
    """Print kube-scheduler's message, the reasons behind it, and the result of preemption."""
    decision, *later = attempts.decisions
    _heading(out, f"{attempts.name} fits nowhere")
    out.print(decision.message, style="yellow", markup=False, soft_wrap=True)
    if decision.diagnosis is not None:
        out.print("\nThat is kube-scheduler's message, word for word. What is behind it:")
        out.print(_reasons(decision.diagnosis))
    if decision.post_filter is None or not decision.post_filter.victims:
        out.print("Preemption: removing other pods would not make room.")
        return
    victims = ", ".join(demo.short_name(victim.pod.name) for victim in decision.post_filter.victims)
    node = decision.post_filter.nominated_node_name
    out.print(f"Preemption: {node} has the victims that matter least. [red]{victims}[/] has to go.")
    if again := next((each for each in later if each.outcome is Outcome.SCHEDULED), None):
        out.print(f"Second attempt: {attempts.name} goes to [green]{again.node}[/].")


async def _show_end(out: Console, demo: Demo) -> None:
    """Print what runs and what is still pending at the end."""
    phases = await demo.phases()
    waiting = sorted(name for name, phase in phases.items() if phase == "Pending")
    running = sum(phase == "Running" for phase in phases.values())
    run = "1 pod runs" if running == 1 else f"{running} pods run"
    out.print(f"\nIn the end {run}." + (f" Without a node: {', '.join(waiting)}." if waiting else ""))


def _heading(out: Console, text: str) -> None:
    out.print()
    out.rule(f"[bold]{text}[/]", align="left")


def _reasons(diagnosis: Diagnosis) -> Table:
    """Return a row per distinct status: the plugin, the message, the nodes, and whether preemption may help."""
    said = Column("plugin and reason", overflow="fold")
    table = Table(said, Column("nodes", max_width=27), "preemption", box=box.SIMPLE)
    for status, rows in diagnosis.statuses():
        names = " ".join(sorted(diagnosis.table.names[row] for row in rows.tolist()))
        may_help = "may help" if status.code is Code.UNSCHEDULABLE else "cannot help"
        table.add_row(f"[bold]{status.plugin}[/]\n{escape(status.message)}", names, may_help)
    return table
