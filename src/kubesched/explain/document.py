"""A report as headings, paragraphs, lists and tables, for terminals, Markdown and HTML alike."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from kubesched.explain.nearness import WEIGHTS
from kubesched.explain.report import FitReport, NodeReport, NodeVerdict, Overview, PodReport, Resident, ResidentVictim
from kubesched.explain.standing import State
from kubesched.explain.suggest import Suggestion

MOST_NODES = 10
"""Nodes in a table, unless it is to be wide."""
MOST_SCORED = 4
GROUPS: Final[Mapping[str, str]] = {
    State.FOREIGN: "for another scheduler",
    State.NO_SUCH_NODE: "on a node that does not exist",
    State.NOMINATED: "nominated, waiting for room",
    State.WAITING: "waiting at Permit",
    State.BACKOFF: "waiting for the next try",
    State.SCHEDULABLE: "a node fits now",
}


@dataclass(frozen=True, slots=True)
class Heading:
    """The title of a part; level 1 is the title of the whole."""

    text: str
    level: int = 2


@dataclass(frozen=True, slots=True)
class Text:
    """A paragraph."""

    text: str


@dataclass(frozen=True, slots=True)
class Items:
    """A list, each item perhaps with commands for a shell."""

    items: Sequence[tuple[str, tuple[str, ...]]]
    numbered: bool = False


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names."""

    columns: Sequence[str]
    rows: Sequence[Sequence[str]]


Block = Heading | Text | Items | Table


def age(seconds: float | None) -> str:
    """An age as kubectl writes it."""
    if seconds is None:
        return "-"
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{int(seconds // size)}{unit}"
    return f"{int(seconds)}s"


def overview_document(overview: Overview, *, wide: bool = False) -> Iterator[Block]:
    """All pending pods, by cause."""
    count = len(overview.pods)
    yield Heading(f"{_counted(count, 'pod')} pending in a cluster of {_counted(overview.nodes, 'node')}", 1)
    folded = False
    for cause, pods in overview.groups().items():
        yield Heading(f"{GROUPS.get(cause, cause)}: {_counted(len(pods), 'pod')}")
        columns = ["pod", "age", "tries", "blocked by", "closest node", "cheapest fix"]
        beside = [each.beside for each in overview.pods if each.beside is not None]
        columns += [f"node with {beside[0].configuration} configuration"] if beside else []
        columns += ["node then"] if wide else []
        rows = [_overview_row(each, wide=wide, beside=bool(beside)) for each in pods]
        shown = rows if wide else _folded(rows)
        folded = folded or len(shown) < len(rows)
        yield Table(columns, shown)
    if folded:
        yield Text("Pods that wait alike share a row. -o wide lists each of them.")
    if overview.searched < overview.kinds:
        yield Text(
            f"Fixes were looked for {overview.searched} of {overview.kinds} kinds of pods, the most frequent first. "
            "-o wide looks for all, and explain pod NAME for one."
        )


def _folded(rows: Iterable[list[str]]) -> list[list[str]]:
    """Pods of one namespace that differ only in name, age and tries share the row of the first of them."""
    alike: dict[tuple[str, ...], list[list[str]]] = {}
    for row in rows:
        alike.setdefault((row[0].partition("/")[0], *row[3:]), []).append(row)
    return [[_with_others(found[0][0], len(found) - 1), *found[0][1:]] for found in alike.values()]


def _with_others(name: str, others: int) -> str:
    return f"{name} and {others:,} more" if others else name


def _overview_row(report: PodReport, *, wide: bool, beside: bool) -> list[str]:
    first = report.suggestions[0] if report.suggestions else None
    near = report.closest.node if report.closest is not None and report.is_blocked else "-"
    tries = "-" if report.tries is None else str(report.tries)
    blocked = report.blocked_by or report.headline.removeprefix(f"{report.pod} ")
    blocked += f"; the scheduler last said: {report.said.partition('. ')[0]}" if report.said else ""
    row = [report.pod, age(report.age_seconds), tries, blocked, near, first.words if first else "-"]
    row += [report.beside.node if report.beside is not None and report.beside.node else "-"] if beside else []
    row += [first.node if first else "-"] if wide else []
    return row


def pod_document(report: PodReport, *, wide: bool = False) -> Iterator[Block]:
    """Everything about one pod."""
    yield Heading(report.headline, 1)
    facts = [f"age {age(report.age_seconds)}"] if report.age_seconds is not None else []
    facts += [f"tried {_times(report.tries)}"] if report.tries is not None else []
    facts += [f"{report.feasible} of {report.evaluated} nodes fit"] if report.evaluated else []
    if facts:
        yield Text(", ".join(facts))
    yield from _source(report)
    if report.said:
        yield Text(f"The scheduler last said: {report.said}")
    if report.message:
        yield Text(report.message)
    yield from _queued(report)
    if report.beside is not None:
        beside = report.beside
        result = f"it goes to {beside.node}." if beside.node else f"it gets no node: {beside.message}"
        yield Text(f"With the {beside.configuration} configuration {result}")
    if report.suggestions:
        yield Heading("What would help, the smallest change first")
        yield Items([_suggestion(each) for each in report.suggestions], numbered=True)
    yield from _room(report)
    yield from _causes(report)
    yield from _nodes(report.nodes, wide)
    yield from _influence(report)


def _source(report: PodReport) -> Iterator[Block]:
    if report.state is State.BOUND and report.source == "decided":
        text = "The scheduler's own decision is not recorded here. "
        yield Text(text + "This one was made again, on the cluster as it is now without the pod.")
    elif report.source != "decided":
        yield Text("This is the scheduler's own record of the decision.")
    if report.runner_up and report.gap is not None:
        what = f"{_counted(report.gap, 'point')} behind" if report.gap else "with the same score"
        yield Text(f"The runner-up is {report.runner_up}, {what}.")


def _queued(report: PodReport) -> Iterator[Block]:
    queued = report.queued
    if queued is None:
        return
    place = f", place {queued.place}" if queued.place is not None else ""
    text = f"In the scheduler's queue: {queued.queue}{place}."
    yield Text(text + (f" It would be tried again after: {_events(queued.wakes)}." if queued.wakes else ""))


def _events(wakes: Sequence[str]) -> str:
    """Events in words: kinds of which any change counts come first, without their groups."""
    any_change = [each.removesuffix(" *").rpartition("/")[2] for each in wakes if each.endswith(" *")]
    others = [each for each in wakes if not each.endswith(" *")]
    parts = [f"any change of {', '.join(any_change)}"] if any_change else []
    return "; ".join([*parts, ", ".join(others)] if others else parts)


def _suggestion(each: Suggestion) -> tuple[str, tuple[str, ...]]:
    nodes = f"; {each.nodes} nodes fit then" if each.nodes > 1 else ""
    return f"{each.words}: it goes to {each.node}{nodes}", each.commands


def _room(report: PodReport) -> Iterator[Block]:
    if report.nominated_node:
        yield Text(f"Preemption makes room on {report.nominated_node}: {_victims(report.victims)} must go.")
    elif report.victims:
        yield Text(f"Without {_victims(report.victims)} there would be room.")
    if report.protected:
        yield Text(f"Protected by disruption budgets: {_victims(report.protected)}.")


def _victims(victims: Iterable[ResidentVictim]) -> str:
    def words(each: ResidentVictim) -> str:
        budget = f", budget {each.budget} allows {each.disruptions_allowed}" if each.budget else ""
        return f"{each.pod} (priority {each.priority}{budget})"

    return ", ".join(map(words, victims))


def _causes(report: PodReport) -> Iterator[Block]:
    if not report.plugins:
        return
    yield Heading("Plugins that reject nodes")
    alone = {each.plugins[0]: each.nodes for each in report.without if len(each.plugins) == 1}
    rows = [[name, str(count), str(alone.get(name, "-"))] for name, count in report.plugins.items()]
    yield Table(["plugin", "rejects", "nodes that fit without it"], rows)
    pairs = [each for each in report.without if len(each.plugins) == 2]
    if pairs:
        yield Items([(f"without {' and '.join(each.plugins)}: {_counted(each.nodes, 'node')}", ()) for each in pairs])


def _against(node: NodeVerdict) -> float:
    """How much speaks against a node, as for the closest one."""
    return sum(WEIGHTS.get(each.plugin, 1) for each in node.refusals)


def _nodes(nodes: Sequence[NodeVerdict], wide: bool) -> Iterator[Block]:
    """Nodes one by one: those that fit by rank, then those that are closest to it."""
    order = sorted(nodes, key=lambda each: (_against(each), each.rank or 0, each.node))
    shown = order if wide else order[:MOST_NODES]
    fitting = [each for each in shown if each.total is not None]
    rejected = [each for each in shown if each.refusals]
    if fitting:
        plugins = list(dict.fromkeys(plugin for each in fitting for plugin in each.scores))
        yield Heading("Scores, weighted")
        fitting = fitting if wide else fitting[:MOST_SCORED]
        yield _turned(fitting, plugins)
    if rejected:
        yield Heading("Node by node")
        yield Table(["node", "plugin", "why"], [row for each in rejected for row in _refusal_rows(each)])
    if len(order) > len(shown):
        yield Text(f"and {_counted(len(order) - len(shown), 'node')} more; -o wide shows them all")


def _turned(nodes: Sequence[NodeVerdict], plugins: Sequence[str]) -> Table:
    """A column per node: few nodes have many plugins."""
    rows = [[plugin, *(str(each.scores.get(plugin, "")) for each in nodes)] for plugin in plugins]
    return Table(["plugin", *(each.node for each in nodes)], [*rows, ["total", *(str(each.total) for each in nodes)]])


def _refusal_rows(each: NodeVerdict) -> Iterator[list[str]]:
    for index, refusal in enumerate(each.refusals):
        yield [each.node if not index else "", refusal.plugin, "; ".join(d.text for d in refusal.details)]


def _influence(report: PodReport) -> Iterator[Block]:
    if not report.influence:
        return
    yield Heading("What each Score plugin changes")
    rows = [
        [
            each.plugin,
            each.winner if each.winner_changes else "the same",
            f"{each.overlap:.0%}",
            f"{each.mean_shift:g}",
            f"{each.lowest} to {each.highest}",
        ]
        for each in report.influence
    ]
    yield Table(["left out", "winner", "top 10 kept", "rank shift", "its scores"], rows)


def node_document(report: NodeReport, *, wide: bool = False) -> Iterator[Block]:
    """Who is on a node and why, and what still fits."""
    yield Heading(f"{report.node}: {_counted(len(report.pods), 'pod')}", 1)
    if report.conditions:
        yield Text(", ".join(report.conditions))
    rows = [[each.resource, each.allocatable, each.requested, each.free] for each in report.amounts]
    yield Table(["resource", "allocatable", "requested", "free"], rows)
    if report.pods:
        yield Heading("Pods here, and where they would go today")
        yield Table(
            ["pod", "priority", "requests", "would go to", "rank of this node"],
            [
                [
                    each.pod,
                    str(each.priority),
                    ", ".join(f"{name} {amount}" for name, amount in each.requests.items()) or "-",
                    each.would_go or "-",
                    _rank(each),
                ]
                for each in report.pods
            ],
        )
    if report.fitting:
        yield Heading("Pending pods that fit here")
        yield Items([(each, ()) for each in report.fitting])
    if report.not_fitting:
        yield Heading("Pending pods that do not")
        yield Table(["pod", "why"], [[pod, why] for pod, why in report.not_fitting.items()])


def _rank(each: Resident) -> str:
    if each.rank is not None:
        return f"{each.rank} of {each.feasible}"
    return "only one" if each.feasible else "-"


def fit_document(report: FitReport, *, wide: bool = False) -> Iterator[Block]:
    """Where a pod would go and how many more like it."""
    blocks = iter(pod_document(report.pod, wide=wide))
    yield next(blocks)
    least = "at least " if report.at_least else ""
    yield Text(f"{least}{report.count} of them fit, one after the other, on {_counted(len(report.per_node), 'node')}.")
    if report.runs_out and report.count:
        first = [f"{reason} ({_counted(count, 'node')})" for reason, count in list(report.runs_out.items())[:3]]
        yield Text(f"What runs out: {', '.join(first)}.")
    if report.per_node:
        rows = [[node, str(count)] for node, count in report.per_node.items()]
        yield Table(["node", "pods"], rows if wide else rows[:MOST_NODES])
    yield from blocks


def _times(number: int) -> str:
    return "once" if number == 1 else f"{number} times"


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + "s" * (number != 1)
