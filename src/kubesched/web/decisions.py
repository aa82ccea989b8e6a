"""A decision about one pod in columns: nodes by plugins, with every text once."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kubesched.base.types import JSON
from kubesched.explain.report import NodeVerdict, PodReport
from kubesched.web.columns import Interned, packed


@dataclass(slots=True)
class DecisionColumns:
    """Collects nodes: first those that fit, by rank, then the others. `filters` are all Filter plugins, in order."""

    filters: Sequence[str] = ()
    names: list[str] = field(default_factory=list)
    scores: list[dict[str, int]] = field(default_factory=list)
    totals: list[int] = field(default_factory=list)
    refusals: list[tuple[int, int, int]] = field(default_factory=list)
    """Node, plugin and text, by number. A node's first refusal comes first."""
    plugins: Interned = field(default_factory=Interned)
    texts: Interned = field(default_factory=Interned)

    def fits(self, node: str, scores: dict[str, int], total: int) -> None:
        """Add a node that fits."""
        self.names.append(node)
        self.scores.append(scores)
        self.totals.append(total)

    def rejected(self, node: str, refusals: Iterable[tuple[str, str]]) -> None:
        """Add a node that plugins reject, with their reasons."""
        number = len(self.names)
        self.names.append(node)
        for plugin, text in refusals:
            self.refusals.append((number, self.plugins.number(plugin), self.texts.number(text)))

    def data(self) -> JSON:
        """The columns."""
        scoring = list(dict.fromkeys(name for each in self.scores for name in each))
        values = [[each.get(name, 0) for each in self.scores] for name in scoring]
        nodes, plugins, texts = zip(*self.refusals, strict=True) if self.refusals else ((), (), ())
        return {
            "filters": list(self.filters),
            "names": self.names,
            "fitting": len(self.scores),
            "scorePlugins": scoring,
            "scores": packed(values, "i4"),
            "totals": packed(self.totals, "i4"),
            "refusals": {
                "plugins": self.plugins.texts,
                "texts": self.texts.texts,
                "node": packed(nodes, "u4"),
                "plugin": packed(plugins, "u1"),
                "text": packed(texts, "u4"),
            },
        }


def of_report(report: PodReport, filters: Sequence[str]) -> JSON:
    """A report with its nodes in columns."""
    made = DecisionColumns(filters)
    for each in sorted(report.nodes, key=_order):
        if each.fits:
            made.fits(each.node, each.scores, each.total or 0)
        else:
            made.rejected(each.node, ((refusal.plugin, _text(refusal)) for refusal in each.refusals))
    return {**head_of(report), "columns": made.data()}


def head_of(report: PodReport) -> JSON:
    """A report without its nodes."""
    data: dict[str, Any] = msgspec.to_builtins(msgspec.structs.replace(report, nodes=()))
    return {**data, "blockedBy": report.blocked_by, "cause": report.cause}


def of_attempt(attempt: JSON) -> JSON:
    """An attempt with columns, as the scheduler's page has it, in the form of a report."""
    columns = attempt["columns"]
    names: list[str] = columns["nodes"]
    filters = columns["filters"]
    made = DecisionColumns([each["plugin"] for each in filters])
    feasible: list[int] = columns["feasible"]
    scored = [(each["plugin"], each["final"]) for each in columns["scores"]]
    totals = [sum(final[place] for _, final in scored) for place in range(len(feasible))]
    for place in sorted(range(len(feasible)), key=lambda at: (names[feasible[at]] != attempt["node"], -totals[at])):
        made.fits(names[feasible[place]], {plugin: final[place] for plugin, final in scored}, totals[place])
    fitting = set(feasible)
    overruled = columns["overruled"]
    for row, name in enumerate(names):
        if row in fitting or not columns["filtered"][row]:
            continue
        said = [(overruled[name]["plugin"], _reasons(overruled[name]))] if name in overruled else []
        for each in filters:
            verdict = each["verdicts"].get(str(each["codes"][row]))
            if verdict is not None:
                said.append((each["plugin"], _reasons(verdict)))
        if said:
            made.rejected(name, said)
    return {**_head_of_attempt(attempt), "columns": made.data()}


def of_logged(attempt: PodReport) -> JSON:
    """An attempt from a decision log, which has the best nodes and some of the others."""
    return {**of_report(attempt, list(attempt.plugins)), "partial": True}


def _head_of_attempt(attempt: JSON) -> JSON:
    scheduled = attempt["outcome"] == "scheduled"
    best = attempt["scores"]
    runner = best[1] if scheduled and len(best) > 1 else None
    what = f"went to {attempt['node']}" if scheduled else "got no node"
    return {
        "pod": f"{attempt['namespace']}/{attempt['pod']}",
        "state": "bound" if scheduled else "pending",
        "headline": f"{attempt['namespace']}/{attempt['pod']} {what} in try {attempt['attempt']}",
        "source": "recorded",
        "time": attempt["time"],
        "tries": attempt["attempt"],
        "message": attempt["message"],
        "node": attempt["node"],
        "runnerUp": runner["node"] if runner else "",
        "gap": best[0]["total"] - runner["total"] if runner else None,
        "evaluated": attempt["evaluatedNodes"],
        "feasible": attempt["feasibleNodes"],
        "nominatedNode": attempt["nominatedNode"],
        "victims": [{"pod": each, "priority": None} for each in attempt["victims"]],
        "plugins": {each["plugin"]: each["count"] for each in attempt["rejections"]},
    }


def _order(each: NodeVerdict) -> tuple[int, int, str]:
    return len(each.refusals), each.rank or 0, each.node


def _text(refusal: Any) -> str:
    return "; ".join(detail.text for detail in refusal.details) or str(refusal.message)


def _reasons(verdict: JSON) -> str:
    return ", ".join(verdict["reasons"]) or str(verdict["code"])
