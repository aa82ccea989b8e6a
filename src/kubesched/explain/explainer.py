"""Answers about a cluster: why pods have no node, why they have the one they have, what a node holds, what fits."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.explain.commands import about
from kubesched.explain.evicting import Protection, protected_on, victims_on
from kubesched.explain.influence import influences
from kubesched.explain.nearness import closest
from kubesched.explain.report import Beside, LeftOut, NodeVerdict, Overview, PodReport, Refusal, ResidentVictim
from kubesched.explain.rules.known import details_of
from kubesched.explain.scoring import scored_rows
from kubesched.explain.standing import PENDING_STATES, Queued, Standing, State, standing
from kubesched.explain.suggest import MOST, Tried, suggest
from kubesched.explain.survey import Survey, is_resolvable

_FEW = 2
_Kind = tuple[PodClass, str, str]
"""Class, nominated node and standing of a pod. Pods that share them share an explanation."""


@dataclass(frozen=True, slots=True)
class _Wanted:
    """How much of a report is wanted."""

    fixes: int
    """The most suggestions to look for."""
    nodes: bool = True
    node: str = ""
    """If it is named, only this node counts."""


class Explainer:
    """Explains decisions about the pods of one cluster. The cluster is the same afterwards."""

    def __init__(
        self,
        cluster: ClusterState,
        engines: Mapping[str, Engine],
        pods: Sequence[api.Pod],
        *,
        now: float | None = None,
        queued: Callable[[api.Pod], Queued | None] = lambda pod: None,
        tries: Callable[[api.Pod], int | None] = lambda pod: None,
    ) -> None:
        """`pods` are all pods, pending ones included; `now` is for ages."""
        self.cluster = cluster
        self.engines = engines
        self.pods = pods
        self.tried: dict[str, list[Tried]] = {}
        """The suggestions with their changes, by the pod's key; for those who want to make them."""
        self._now = now
        self._queued = queued
        self._tries = tries
        self._beside: Explainer | None = None
        self._configuration = ""

    def beside(self, other: Explainer, configuration: str = "default") -> None:
        """Show the decisions of another configuration next to these, under this name."""
        self._beside, self._configuration = other, configuration

    @property
    def is_reconfigured(self) -> bool:
        """Whether decisions are made with another configuration than the one in force."""
        return self._beside is not None

    # Pods

    def find(self, key: str) -> api.Pod:
        """A pod by "namespace/name"; without a namespace, in "default" or wherever there is only one of that name."""
        named = [each for each in self.pods if each.key == key or (("/" not in key) and each.name == key)]
        preferred = [each for each in named if each.key == f"default/{key}"]
        if preferred or len({each.key for each in named}) == 1:
            return (preferred or named)[-1]  # a pod that was added in place of another comes last
        if named:
            raise LookupError(f"several pods are called {key!r}: {', '.join(sorted(p.key for p in named))}")
        raise LookupError(f"the cluster has no pod {key!r}; name it as NAMESPACE/NAME")

    def pending(self, enough: Callable[[], bool] = lambda: False) -> Overview:
        """All pods that wait for a node, and the smallest change that would help each.

        Pods of one kind share a report. Kinds with the most pods come first. Once `enough` says so, those that are left
        are explained without fixes and without preemption, which take most of the time.
        """
        kinds: dict[_Kind, list[tuple[api.Pod, Standing]]] = {}
        for pod in self.pods:
            place = self.standing(pod)
            if place.state in PENDING_STATES:
                kind = (self.cluster.classes.info(pod).pod_class, pod.nominated_node_name, place.words)
                kinds.setdefault(kind, []).append((pod, place))
        found: dict[str, PodReport] = {}
        searched = 0
        for members in sorted(kinds.values(), key=len, reverse=True):
            brief = enough()
            searched += not brief
            first, place = members[0]
            report = self._report(first, place, _Wanted(0 if brief else _FEW, nodes=False))
            for pod, _ in members:
                found[pod.key] = report if pod is first else self._named(report, first, pod)
        pods = tuple(found[pod.key] for pod in self.pods if pod.key in found)
        return Overview(nodes=self.cluster.nodes.valid_count, pods=pods, kinds=len(kinds), searched=searched)

    def pod(self, pod: api.Pod, node: str = "", *, fixes: bool = True) -> PodReport:
        """Everything about one pod; about one node alone if it is named. Without `fixes` it is much faster."""
        place = self.standing(pod)
        if place.state is State.BOUND:
            with self._without(pod) as free:
                return self._report(free, place, _Wanted(0, node=node))
        return self._report(pod, place, _Wanted(MOST if fixes else 0, node=node))

    def standing(self, pod: api.Pod) -> Standing:
        """Where a pod stands before any decision."""
        return standing(pod, self.cluster, self.engines.keys(), self._queued(pod))

    @contextmanager
    def _without(self, pod: api.Pod) -> Iterator[api.Pod]:
        """Suppose a pod on a node had not been scheduled yet."""
        known = self.cluster.pods.get(pod.uid)
        self.cluster.remove_pod(pod.uid)
        spec = msgspec.structs.replace(pod.spec, node_name="")
        try:
            yield msgspec.structs.replace(pod, spec=spec)
        finally:
            if known is not None:
                self.cluster.set(known.pod)

    def _named(self, report: PodReport, first: api.Pod, pod: api.Pod) -> PodReport:
        """The report of another pod of the same kind."""
        return msgspec.structs.replace(
            report,
            pod=pod.key,
            headline=report.headline.replace(first.key, pod.key, 1),
            age_seconds=self._age(pod),
            tries=self._tries(pod),
            queued=self._queued(pod),
            said=_said(pod) if report.state is State.SCHEDULABLE else "",
            suggestions=tuple(
                msgspec.structs.replace(each, commands=tuple(about(line, first, pod) for line in each.commands))
                for each in report.suggestions
            ),
        )

    def _report(self, pod: api.Pod, place: Standing, wanted: _Wanted) -> PodReport:
        plain = PodReport(
            pod=pod.key,
            state=place.state,
            headline=f"{pod.key}: {place.words or 'pending'}",
            words=place.words,
            age_seconds=self._age(pod),
            tries=self._tries(pod),
            queued=self._queued(pod),
        )
        if place.final:
            return plain
        supposed = pod
        for change in place.changes:
            assert change.edit is not None
            supposed = change.edit(supposed)
        engine = self.engines.get(supposed.scheduler_name)
        if engine is None:
            known = ", ".join(self.engines)
            return msgspec.structs.replace(
                plain, words=f"{place.words} It is for scheduler {pod.scheduler_name}; the configuration has {known}."
            )
        survey = Survey(engine, supposed)
        decision = Decision(survey.info, detailed=wanted.nodes)
        decision.skips_post_filter = not wanted.fixes and not wanted.nodes
        engine.decide(decision)
        decision.close()
        return self._decided(plain, pod, place, survey, decision, wanted)

    def _decided(
        self, plain: PodReport, pod: api.Pod, place: Standing, survey: Survey, decision: Decision, wanted: _Wanted
    ) -> PodReport:
        state = State.SCHEDULABLE if plain.state is State.PENDING and decision.node else plain.state
        tried: list[Tried] = []
        if wanted.fixes and not place.is_served and (place.changes or not decision.node):
            tried = self.tried[pod.key] = suggest(self.engines, pod, survey, place.changes, wanted.fixes)
        near = closest(survey)
        room = None if decision.node else decision.post_filter
        verdicts = tuple(self._verdicts(survey, decision, wanted))
        headline = _headline(pod, state, decision, survey, place)
        runner, gap = _runner_up(decision)
        report = msgspec.structs.replace(
            plain,
            state=state,
            headline=headline + _about_node(headline, verdicts[0]) if wanted.node else headline,
            message=decision.message,
            said=_said(pod) if state is State.SCHEDULABLE else "",
            node=place.node or decision.node,
            again=decision.node if place.node else "",
            runner_up=runner,
            gap=gap,
            evaluated=survey.table.valid_count,
            feasible=len(survey.feasible_without()),
            closest=None if near is None else verdict_on(survey, near, {}),
            nodes=verdicts,
            plugins={name: int(np.count_nonzero(each.mask)) for name, each in survey.verdicts.items()},
            without=tuple(_left_out(survey)),
            suggestions=tuple(each.suggestion for each in tried),
            nominated_node=room.nominated_node_name if room is not None else "",
            victims=tuple(self._victims(survey, room.victims if room is not None and room.nominated_node_name else ())),
            influence=tuple(influences(decision)) if wanted.nodes else (),
            beside=self._decided_beside(pod),
        )
        asked = survey.table.row_of[wanted.node] if wanted.node else near
        if asked is None or not survey.refusers(asked):
            return report
        return self._with_room(report, survey, asked, only=bool(wanted.node))

    def _with_room(self, report: PodReport, survey: Survey, row: int, *, only: bool) -> PodReport:
        """Which pods would have to leave a node, and which ones budgets protect."""
        refusers = survey.refusers(row)
        if any(each.whole is not None or not is_resolvable(each.status(row)) for each in refusers):
            return report
        victims = report.victims
        if only:
            found = victims_on(survey, row, Protection(survey.cluster))
            victims = tuple(ResidentVictim(each.key, each.priority) for each in found)
        protected = tuple(
            ResidentVictim(pod.key, pod.priority, budget.key, budget.status.disruptions_allowed)
            for pod, budget in protected_on(survey, row)
        )
        return msgspec.structs.replace(report, victims=victims, protected=protected)

    def _victims(self, survey: Survey, victims: Sequence[PodInfo]) -> Iterator[ResidentVictim]:
        protection = Protection(survey.cluster)
        for info in victims:
            pod = info.pod
            budget = protection.protects(pod)
            if budget is None:
                yield ResidentVictim(pod.key, pod.priority)
            else:
                yield ResidentVictim(pod.key, pod.priority, budget.key, budget.status.disruptions_allowed)

    def _verdicts(self, survey: Survey, decision: Decision, wanted: _Wanted) -> Iterator[NodeVerdict]:
        """The nodes that are wanted. A single one that does not fit gets the scores that it would have."""
        ranks = _ranks(decision)
        if wanted.node:
            row = survey.table.row_of[wanted.node]
            scored = ranks.get(wanted.node) or scored_rows(survey, row)
            yield verdict_on(survey, row, {} if scored is None else {wanted.node: scored})
        elif wanted.nodes:
            yield from (verdict_on(survey, row, ranks) for row in survey.rows.tolist())

    def _decided_beside(self, pod: api.Pod) -> Beside | None:
        other = self._beside
        if other is None or pod.scheduler_name not in other.engines:
            return None
        engine = other.engines[pod.scheduler_name]
        with other._without(pod) as free:
            decision = engine.schedule(other.cluster.classes.info(free))
        return Beside(decision.node, decision.message, self._configuration)

    def _age(self, pod: api.Pod) -> float | None:
        created = pod.metadata.creation_timestamp
        if self._now is None or created is None:
            return None
        try:
            return max(0.0, self._now - datetime.fromisoformat(created).timestamp())
        except ValueError:
            return None


def verdict_on(survey: Survey, row: int, ranks: Mapping[str, tuple[dict[str, int], int, int]]) -> NodeVerdict:
    """One node: who rejects it and why, or what it scores."""
    name = survey.table.names[row]
    refusals = []
    for verdict in survey.refusers(row):
        status = verdict.status(row)
        details = tuple(details_of(survey, verdict, row))
        refusals.append(
            Refusal(verdict.plugin, status.message, details, verdict.whole is None and is_resolvable(status))
        )
    scores, total, rank = ranks.get(name, ({}, None, None))
    return NodeVerdict(name, tuple(refusals), scores, total, rank)


def _said(pod: api.Pod) -> str:
    """The scheduler's last words about a pod without a node."""
    found = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "False")
    return next((each.message for each in found), "")


def _ranks(decision: Decision) -> dict[str, tuple[dict[str, int], int, int]]:
    """Scores, total and rank of every scored node."""
    if decision.scores is None:
        return {}
    scored = sorted(decision.scores.by_node(), key=lambda each: (-each[2], each[0] != decision.node, each[0]))
    return {node: (plugins, total, rank) for rank, (node, plugins, total) in enumerate(scored, 1)}


def _runner_up(decision: Decision) -> tuple[str, int | None]:
    if decision.scores is None or not decision.node:
        return "", None
    totals = {node: total for node, _, total in decision.scores.by_node()}
    others = {node: total for node, total in totals.items() if node != decision.node}
    best = min(others, key=lambda node: (-others[node], node), default="")
    return best, totals[decision.node] - others[best] if best else None


def _left_out(survey: Survey) -> Iterator[LeftOut]:
    """How many nodes fit without one of the rejecting plugins; if that never helps, without two."""
    names = list(survey.verdicts)
    if len(survey.feasible_without()) or not names:
        return
    single = [LeftOut((name,), len(survey.feasible_without(name))) for name in names]
    yield from single
    if not any(each.nodes for each in single):
        for index, one in enumerate(names):
            for other in names[index + 1 :]:
                found = len(survey.feasible_without(one, other))
                if found:
                    yield LeftOut((one, other), found)


def _about_node(headline: str, verdict: NodeVerdict) -> str:
    """The answer about one node, at the end of a headline."""
    refusers = ", ".join(each.plugin for each in verdict.refusals)
    fits = "fits" if verdict.rank is None else f"fits, in place {verdict.rank}"
    separator = " " if headline.endswith(".") else "; "
    return f"{separator}{verdict.node} " + (f"is rejected by {refusers}" if refusers else fits)


def _headline(pod: api.Pod, state: State, decision: Decision, survey: Survey, place: Standing) -> str:
    total = survey.table.valid_count
    if state is State.BOUND:
        again = "would go there again" if decision.node == place.node else f"would go to {decision.node}"
        return f"{pod.key} is on {place.node}; today it {again if decision.node else 'would get no node'}"
    if place.words:
        return f"{pod.key}: {place.words}"
    if decision.node:
        return f"{pod.key} fits now and goes to {decision.node} at the next try"
    if not total:
        return f"{pod.key}: the cluster has no nodes"
    room = decision.post_filter.nominated_node_name if decision.post_filter is not None else ""
    helps = f"; preemption makes room on {room}" if room else ""
    return f"{pod.key} fits on none of {total} nodes{helps}"
