"""How often plugins are asked, counted in a way that a cycle hardly notices.

kube-scheduler counts every call of a plugin. Here a plugin answers for all nodes at once, or its answer is kept from
the pod before, so what is counted is what calls there would have been: one per node that was looked at in Filter, one
per feasible node in Score, one per pod in PreFilter and PreScore unless the plugin skips. Nodes that a plugin further
up has rejected count for those further down too, and trials on behalf of a preemption do not count.

Decisions in which the same plugins had a say share a record of four numbers. They become counts by plugin when somebody
asks for the metrics.
"""

from __future__ import annotations

from kubesched.engine.decision import Decision, Outcome
from kubesched.engine.engine import Engine
from kubesched.framework.status import Code
from kubesched.scheduler.ports import Evaluations, Metrics

Key = tuple[frozenset[str], frozenset[str] | None, str]
"""Who skips Filter; who skips Score, if scores were asked for; who ended it in PreFilter, if anybody."""


class EvaluationCounter:
    """Counts for the plugins of one profile."""

    def __init__(self, engine: Engine, metrics: Metrics) -> None:
        self._engine = engine
        self._metrics = metrics
        self._known: dict[Key, Evaluations] = {}

    def count(self, decision: Decision) -> None:
        """Count what the engine has just decided."""
        if decision.outcome is Outcome.ERROR:
            return
        diagnosis = decision.diagnosis
        rejected = diagnosis.pre_filter if diagnosis is not None else None
        ended_by = ""
        if rejected is not None and rejected.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            ended_by = rejected.plugin
        key = (frozenset(decision.state.skip_filter), self._engine.unscored, ended_by)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._evaluations(*key)
            self._metrics.evaluations(found)
        found.decisions += 1
        found.nodes += decision.evaluated
        found.feasible += decision.feasible

    def _evaluations(self, unfiltered: frozenset[str], unscored: frozenset[str] | None, ended_by: str) -> Evaluations:
        framework = self._engine.framework
        asked = [plugin.name for plugin in framework.pre_filter]
        if ended_by in asked:
            asked = asked[: asked.index(ended_by) + 1]
        scored = () if unscored is None else [s.name for s in framework.scores if s.name not in unscored]
        prepared = () if unscored is None else [p.name for p in framework.pre_score if p.name not in unscored]
        return Evaluations(
            framework.profile_name,
            pre_filter=[name for name in asked if name not in unfiltered],
            filter=[f.name for f in framework.filters if f.name not in unfiltered],
            pre_score=prepared,
            score=scored,
        )
