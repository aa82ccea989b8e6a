"""Decisions that a scheduler recorded, as reports: what was decided at the time, and not what would be today."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path

import numpy as np

from kubesched.explain.influence import Influence, influences_of
from kubesched.explain.report import NodeVerdict, Overview, PodReport, Refusal, ResidentVictim
from kubesched.explain.rules.rule import Detail
from kubesched.explain.standing import State
from kubesched.history.reader import LoggedAttempt, RejectedNodes, load

SCHEDULED = "scheduled"
RECORDED = "recorded"


def attempts(files: Iterable[Path], key: str = "") -> list[LoggedAttempt]:
    """The recorded attempts of a pod ("namespace/name"; without a namespace, in any), the newest first; or all."""
    namespace, _, name = key.rpartition("/")
    found = [each for file in files for each in load(file, namespace or None, name or None)]
    return sorted(found, key=lambda each: each.time, reverse=True)


def recorded_pod(files: Iterable[Path], key: str) -> PodReport:
    """The newest recorded attempt of a pod; raises LookupError if there is none."""
    found = attempts(files, key)
    if not found:
        raise LookupError(f"no decision about pod {key!r} is recorded")
    return report_of(found[0])


def recorded_pending(files: Iterable[Path], now: float | None = None) -> Overview:
    """The pods whose newest recorded attempt failed."""
    newest: dict[tuple[str, str], LoggedAttempt] = {}
    for each in attempts(files):
        newest.setdefault((each.namespace, each.pod), each)
    failed = [each for each in newest.values() if each.outcome != SCHEDULED]
    nodes = max((each.evaluated_nodes for each in newest.values()), default=0)
    return Overview(nodes=nodes, pods=tuple(report_of(each, now) for each in failed))


def report_of(attempt: LoggedAttempt, now: float | None = None) -> PodReport:
    """One recorded attempt as a report."""
    runner = attempt.runner_up
    total = next((each.total for each in attempt.scores if each.node == attempt.node), None)
    key, scheduled = f"{attempt.namespace}/{attempt.pod}", attempt.outcome == SCHEDULED
    what = f"went to {attempt.node}" if scheduled else "got no node"
    verdicts = [*_scored(attempt), *_rejected(attempt)]
    plugins = Counter[str]()
    for each in attempt.rejections:
        plugins[each.plugin] += each.count
    return PodReport(
        pod=key,
        state=State.BOUND if scheduled else State.PENDING,
        headline=f"{key} {what} at {attempt.time}, in try {attempt.attempt}",
        age_seconds=None if now is None else now - datetime.fromisoformat(attempt.time).timestamp(),
        tries=attempt.attempt,
        message=attempt.message,
        source=RECORDED,
        node=attempt.node,
        runner_up=runner.node if scheduled and runner is not None else "",
        gap=total - runner.total if scheduled and runner is not None and total is not None else None,
        evaluated=attempt.evaluated_nodes,
        feasible=attempt.feasible_nodes,
        closest=None if scheduled else _closest(attempt),
        nodes=tuple(verdicts),
        plugins=dict(plugins),
        nominated_node=attempt.nominated_node,
        influence=tuple(_influences(attempt)),
        victims=tuple(ResidentVictim(each, 0) for each in attempt.victims),
    )


def _scored(attempt: LoggedAttempt) -> Iterator[NodeVerdict]:
    for rank, each in enumerate(attempt.scores, 1):
        scores = {name: given.final for name, given in each.plugins.items()}
        yield NodeVerdict(each.node, scores=scores, total=each.total, rank=rank)


def _influences(attempt: LoggedAttempt) -> list[Influence]:
    """What each Score plugin changed. Unknown if only the best nodes were recorded."""
    nodes = attempt.scores
    if not nodes or not attempt.node or len(nodes) < attempt.feasible_nodes:
        return []
    columns = {name: np.array([each.plugins[name].final for each in nodes]) for name in nodes[0].plugins}
    return influences_of([each.node for each in nodes], columns, np.array([each.total for each in nodes]), attempt.node)


def _rejected(attempt: LoggedAttempt) -> Iterator[NodeVerdict]:
    """The nodes that are named. A cycle records only the first plugin that rejects a node."""
    whole = attempt.pre_filter
    if whole is not None:
        details = tuple(map(Detail, whole.reasons))
        yield NodeVerdict("all nodes", (Refusal(whole.plugin, ", ".join(whole.reasons), details),))
    for each in attempt.rejections:
        for node in each.nodes:
            yield NodeVerdict(node, (_refusal(each),))


def _closest(attempt: LoggedAttempt) -> NodeVerdict | None:
    """A node for the commonest reason. Reasons that preemption could remove come first."""
    named = [each for each in attempt.rejections if each.nodes]
    if attempt.pre_filter is not None or not named:
        return next(_rejected(attempt), None)
    chosen = max(named, key=lambda each: (_is_resolvable(each), each.count))
    return NodeVerdict(chosen.nodes[0], (_refusal(chosen),))


def _is_resolvable(rejected: RejectedNodes) -> bool:
    return rejected.code == "Unschedulable"


def _refusal(rejected: RejectedNodes) -> Refusal:
    details = tuple(map(Detail, rejected.reasons))
    return Refusal(rejected.plugin, ", ".join(rejected.reasons), details, _is_resolvable(rejected))
