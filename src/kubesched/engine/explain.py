"""A decision as text: the node and its scores by plugin, and which plugin rejected the others and why.

For failed tests, logs and terminals. Programs read the `Decision`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kubesched.engine.decision import Decision

MOST_NODES = 10
"""Nodes whose scores are shown, best first. `decision.scores` has all of them."""
MOST_NAMES = 5


def explain(decision: Decision) -> str:
    """The text of a recorded decision."""
    return "\n".join(_lines(decision))


def _lines(decision: Decision) -> Iterator[str]:
    pod = decision.pod.key
    if decision.node:
        yield f"{pod} goes to {decision.node}."
    elif decision.plugin:
        yield f"{pod} was not scheduled: plugin {decision.plugin} failed."
    elif decision.diagnosis is None:
        yield f"{pod} was not scheduled."
    else:
        yield f"{pod} fits nowhere."
    if decision.message:
        yield decision.message
    if decision.where and decision.where not in decision.message:
        yield f"That was at {decision.where}."
    if decision.feasible:
        yield f"{decision.feasible} of {decision.evaluated} nodes fit."
    if decision.scores is not None:
        yield ""
        yield from _scores(decision)
    rejections = _rejections(decision)
    if rejections:
        yield ""
        yield "Rejected:"
        yield from rejections
    if decision.post_filter is not None and decision.post_filter.nominated_node_name:
        victims = ", ".join(each.pod.key for each in decision.post_filter.victims) or "no pods"
        yield f"To make room on {decision.post_filter.nominated_node_name}, {victims} must go."


def _scores(decision: Decision) -> Iterator[str]:
    """A row per plugin and a column per node, as the one with more entries should go down the page."""
    assert decision.scores is not None
    scored = sorted(decision.scores.by_node(), key=lambda each: (each[0] != decision.node, -each[2], each[0]))
    shown = scored[:MOST_NODES]
    rows = [["score, weighted", *(node for node, _, _ in shown)]]
    rows += [[plugin, *(str(plugins[plugin]) for _, plugins, _ in shown)] for plugin in decision.scores.plugins]
    rows.append(["total", *(str(total) for _, _, total in shown)])
    yield from _aligned(rows)
    if len(scored) > len(shown):
        yield f"and {len(scored) - len(shown)} nodes more"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterator[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first = row[0].ljust(widths[0])
        yield "  ".join([f"  {first}", *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))])


def _rejections(decision: Decision) -> list[str]:
    said: dict[tuple[str, str, str], list[str]] = {}
    for node, status in decision.rejections.items():
        said.setdefault((status.plugin, status.message, status.code.upstream), []).append(node)
    lines = []
    for (plugin, message, code), nodes in said.items():
        names = ", ".join(sorted(nodes)[:MOST_NAMES])
        more = f" and {len(nodes) - MOST_NAMES} more" if len(nodes) > MOST_NAMES else ""
        lines.append(f"  {names}{more}: {message or 'no reason given'} ({plugin}, {code})")
    return lines
