"""Nodes and templates: who is on a node and why, what still fits there, and how many more pods fit anywhere."""

from __future__ import annotations

from collections import Counter

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.engine.decision import Decision
from kubesched.explain.amounts import requested, shown
from kubesched.explain.explainer import Explainer, verdict_on
from kubesched.explain.report import Amount, FitReport, NodeReport, Resident
from kubesched.explain.rules.nodes import taint_words
from kubesched.explain.standing import PENDING_STATES
from kubesched.explain.survey import Survey

MOST_FIT = 1000
MOST_PENDING = 50


def node_report(explainer: Explainer, name: str) -> NodeReport:
    """Who is on a node and why, and which pending pods fit."""
    cluster = explainer.cluster
    row = cluster.nodes.row_of.get(name)
    if row is None or not cluster.nodes.valid[row]:
        raise LookupError(f"the cluster has no node {name!r}")
    node = cluster.nodes.node(row)
    residents = [_resident(explainer, info.pod, name) for info in list(cluster.nodes.pods[row].values())]
    fitting, refused = _candidates(explainer, row)
    return NodeReport(
        node=name,
        conditions=(*(["cordoned"] if node.spec.unschedulable else []), *map(taint_words, node.spec.taints)),
        amounts=tuple(_amounts(explainer, row)),
        pods=tuple(sorted(residents, key=lambda each: (-each.priority, each.pod))),
        fitting=tuple(fitting),
        not_fitting=refused,
    )


def _amounts(explainer: Explainer, row: int) -> list[Amount]:
    table = explainer.cluster.nodes
    found = []
    for name, column in table.resource_columns.items():
        offered, used = int(table.allocatable[column, row]), int(table.used[column, row])
        if offered or used:
            found.append(Amount(name, shown(name, offered), shown(name, used), shown(name, offered - used)))
    return found


def _resident(explainer: Explainer, pod: api.Pod, node: str) -> Resident:
    """A pod on a node, decided again as if it were not there."""
    wanted = requested(explainer.cluster.classes.info(pod).pod_class.node_requests)
    requests = {name: shown(name, amount) for name, amount in wanted.items() if name != "pods"}
    if pod.scheduler_name not in explainer.engines:
        return Resident(pod.key, pod.priority, requests, "")
    report = explainer.pod(pod, node)
    rank = report.nodes[0].rank if report.nodes and report.nodes[0].fits else None
    return Resident(pod.key, pod.priority, requests, report.again, rank, report.feasible)


def _candidates(explainer: Explainer, row: int) -> tuple[list[str], dict[str, str]]:
    fitting: list[str] = []
    refused: dict[str, str] = {}
    for pod in explainer.pods:
        if pod.node_name or pod.scheduler_name not in explainer.engines or len(refused) >= MOST_PENDING:
            continue
        if explainer.standing(pod).state not in PENDING_STATES:
            continue
        verdict = verdict_on(Survey(explainer.engines[pod.scheduler_name], pod), row, {})
        if verdict.fits:
            fitting.append(pod.key)
        else:
            refused[pod.key] = "; ".join(verdict.reasons)
    return fitting, refused


def fit_report(explainer: Explainer, pod: api.Pod) -> FitReport:
    """Where a pod would go, how many more like it fit one after the other, and what runs out first."""
    report = explainer.pod(pod)
    engine = explainer.engines.get(pod.scheduler_name)
    if engine is None or pod.spec.scheduling_gates:
        return FitReport(report, 0, False, {}, {})
    cluster = engine.cluster
    # Nodes that never took one of them do not run out of anything.
    first = set(Survey(engine, pod).feasible_without().tolist())
    placed: list[Decision] = []
    try:
        while len(placed) < MOST_FIT:
            decision = engine.schedule(cluster.classes.info(_numbered(pod, len(placed))))
            if not decision.node or not engine.place(decision):
                break
            placed.append(decision)
        runs_out: Counter[str] = Counter()
        if len(placed) < MOST_FIT:
            survey = Survey(engine, pod)
            for row in first or survey.rows.tolist():
                runs_out.update({reason for each in survey.refusers(row) for reason in each.status(row).reasons})
    finally:
        for decision in reversed(placed):
            engine.take_back(decision)
    per_node = Counter(decision.chosen for decision in placed)
    return FitReport(
        report, len(placed), len(placed) == MOST_FIT, dict(per_node.most_common()), dict(runs_out.most_common())
    )


def _numbered(pod: api.Pod, number: int) -> api.Pod:
    return replace(pod, metadata=replace(pod.metadata, name=f"{pod.name}-{number}", uid=f"{pod.uid}:{number}"))
