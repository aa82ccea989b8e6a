"""How many pods fit: of one template or several, in proportion or one after the other, and what runs out first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.explain.explainer import verdict_on
from kubesched.explain.survey import Survey
from kubesched.library.core import ClusterCore
from kubesched.library.results import Fate
from kubesched.library.tables import as_frame, as_html
from kubesched.library.templates import PodTemplate


@dataclass(slots=True)
class TemplateCapacity:
    """How many pods of a template fit."""

    name: str
    count: int = 0
    per_node: Counter[str] = field(default_factory=Counter)
    message: str = ""
    """Why the next one does not fit, in kube-scheduler's words; empty if counting stopped before that."""
    runs_out: Counter[str] = field(default_factory=Counter)
    """What rejects the next one: the reason, and on how many nodes."""
    limits: dict[str, str] = field(default_factory=dict)
    """For every node, what keeps the next one from it."""


@dataclass(slots=True)
class CapacityReport:
    """How many pods fit."""

    templates: list[TemplateCapacity]
    rounds: int = 0
    """Of several templates in proportion, how many complete rounds fit."""
    evicted: list[api.Pod] = field(default_factory=list)
    """The pods that were preempted for them."""
    at_least: bool = False
    """Whether counting stopped at the limit."""

    @property
    def total(self) -> int:
        """All pods together."""
        return sum(each.count for each in self.templates)

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict that can be written as JSON."""
        return {
            "total": self.total,
            "rounds": self.rounds,
            "atLeast": self.at_least,
            "evicted": [each.key for each in self.evicted],
            "templates": [
                {
                    "name": each.name,
                    "count": each.count,
                    "perNode": dict(each.per_node.most_common()),
                    "message": each.message,
                    "runsOut": dict(each.runs_out.most_common()),
                    "limits": each.limits,
                }
                for each in self.templates
            ],
        }

    def to_frame(self) -> Any:
        """A data frame with a row per node and template."""
        return as_frame(self._rows())

    def _rows(self) -> list[dict[str, object]]:
        return [
            {"template": each.name, "node": node, "pods": each.per_node[node], "limit": each.limits.get(node, "")}
            for each in self.templates
            for node in sorted({*each.per_node, *each.limits})
        ]

    def _repr_html_(self) -> str:
        return as_html(str(self), self._rows())

    def __str__(self) -> str:
        more = "at least " if self.at_least else ""
        return f"{more}{self.total} pods fit: " + ", ".join(f"{each.count} {each.name}" for each in self.templates)


def count_fitting(
    cluster: ClusterCore, templates: Sequence[PodTemplate], *, sequence: bool, preempt: bool, at_most: int
) -> CapacityReport:
    """Place copies until one does not fit: of each template in turn by its count, or of one after the other."""
    trial = cluster.copy()
    for template in templates:
        for each in template.others:
            trial.set(each)
    prepared = [replace_pod(template, trial.incoming(template.pod)) for template in templates]
    result = CapacityReport([TemplateCapacity(each.name) for each in prepared])
    filler = _Filler(trial, result, preempt, at_most)
    if sequence:
        for template, found in zip(prepared, result.templates, strict=True):
            while filler.add(template, found):
                pass
    else:
        while all(
            filler.add(template, found)
            for template, found in zip(prepared, result.templates, strict=True)
            for _ in range(template.count)
        ):
            result.rounds += 1
    return result


def replace_pod(template: PodTemplate, pod: api.Pod) -> PodTemplate:
    """The template with the pod as an API server would store it."""
    return PodTemplate(pod, template.count, template.claims, template.others)


class _Filler:
    def __init__(self, trial: ClusterCore, result: CapacityReport, preempt: bool, at_most: int) -> None:
        self._trial = trial
        self._result = result
        self._preempt = preempt
        self._at_most = at_most
        self._made: set[str] = set()

    def add(self, template: PodTemplate, found: TemplateCapacity) -> bool:
        """Place one more pod; False if it does not fit."""
        if self._result.total >= self._at_most:
            self._result.at_least = True
            return False
        pod = template.copy(self._trial, found.count)
        (placement,) = self._trial.play([pod])
        node = placement.node
        if placement.fate is not Fate.PLACED and self._preempt:
            node = self._evict_for(pod)
        if not node:
            found.message = placement.message
            self._note_limits(pod, found)
            return False
        self._made.add(pod.uid)
        found.count += 1
        found.per_node[node] += 1
        return True

    def _evict_for(self, pod: api.Pod) -> str:
        decision = self._trial.decide(self._trial.incoming(replace(pod, spec=replace(pod.spec, node_name=""))))
        # To push away what was placed here before would be to count the same room twice.
        if not decision.nominated_node or any(each.uid in self._made for each in decision.victims):
            return ""
        decision.place(evict=True)
        self._result.evicted += decision.victims
        return decision.nominated_node

    def _note_limits(self, pod: api.Pod, found: TemplateCapacity) -> None:
        engine = self._trial.engines.get(pod.scheduler_name)
        if engine is None or pod.spec.scheduling_gates:
            return
        survey = Survey(engine, pod)
        for row in survey.rows.tolist():
            verdict = verdict_on(survey, row, {})
            found.limits[verdict.node] = "; ".join(verdict.reasons)
            plain = {reason for each in survey.refusers(row) for reason in each.status(row).reasons}
            found.runs_out.update(plain)
