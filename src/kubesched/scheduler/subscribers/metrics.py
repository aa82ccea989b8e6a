"""Attempts in kube-scheduler's metrics."""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.engine.decision import BatchReport
from kubesched.engine.outcome import NOT_STARTED, SCHEDULED, UNSCHEDULABLE, Outcome
from kubesched.framework.runtime import Framework
from kubesched.framework.status import Code
from kubesched.scheduler.attempt import Attempt, Profile
from kubesched.scheduler.ports import Evaluations, MetricsSink
from kubesched.scheduler.subscribers.publisher import Subscriber

CALLS = {
    "NormalizeScore": "ScoreExtensionNormalize",
    "PreFilter AddPod": "PreFilterExtensionAddPod",
    "PreFilter RemovePod": "PreFilterExtensionRemovePod",
}
"""The names of some plugin calls in metrics."""


VOLUMES = "VolumeBinding"
STAGES = {"Reserve": "assume", "PreBind": "bind"}
"""What upstream calls the points at which VolumeBinding can fail."""


class AttemptMetrics(Subscriber):
    """Counts attempts."""

    def __init__(self, metrics: MetricsSink, profiles: Mapping[str, Profile]) -> None:
        self._metrics = metrics
        self._evaluations = {
            name: EvaluationCounter(profile.engine.framework, metrics) for name, profile in profiles.items()
        }

    def decided(self, attempt: Attempt) -> None:
        self._metrics.algorithm(attempt.now() - attempt.started)
        if attempt.post_filter_status is not None:
            self._metrics.preemption_attempted()
        outcome = attempt.outcome
        if outcome is SCHEDULED or outcome is UNSCHEDULABLE:
            self._evaluations[attempt.profile.name].count(attempt)
        if attempt.batch is not None and attempt.batch.hint_seconds is not None:
            self._batch(attempt.profile.name, attempt.batch, attempt.batch.hint_seconds)

    def _batch(self, profile: str, batch: BatchReport, hint_seconds: float) -> None:
        self._metrics.node_hint("hint" if batch.hint else "no_hint", profile, hint_seconds)
        self._metrics.batch(profile, batch.results, batch.flushes)
        if batch.store_seconds is not None:
            self._metrics.batch_stored(profile, batch.store_seconds)

    def binding_started(self, attempt: Attempt) -> None:
        self._metrics.goroutines("binding", 1)

    def bound(self, attempt: Attempt) -> None:
        queued, metrics = attempt.queued, self._metrics
        metrics.attempt("scheduled", attempt.profile.name, attempt.ended - attempt.started)
        first = queued.initial_attempt_timestamp
        waited = None if first is None else attempt.ended - first
        metrics.scheduled(queued.attempts, waited, after_flush=queued.was_flushed)

    def failed(self, attempt: Attempt) -> None:
        assert attempt.failure is not None
        self._volumes(attempt)
        result = "unschedulable" if attempt.failure.rejected else "error"
        self._metrics.attempt(result, attempt.profile.name, attempt.ended - attempt.started)

    def _volumes(self, attempt: Attempt) -> None:
        """Count the stage at which VolumeBinding failed."""
        if attempt.outcome is Outcome.ERROR and attempt.plugin == VOLUMES and not attempt.chosen:
            self._metrics.volume_error("predicate")
        for objection in attempt.objections:
            if objection.plugin == VOLUMES and objection.point in STAGES:
                self._metrics.volume_error(STAGES[objection.point])

    def finished(self, attempt: Attempt) -> None:
        metrics, profile = self._metrics, attempt.profile.name
        if attempt.runs:
            metrics.extension_points(profile, attempt.runs)
        for call in attempt.calls:
            metrics.plugin(call.plugin, CALLS.get(call.point, call.point), call.status, call.seconds)
        if attempt.permit_seconds is not None:
            code = Code.SUCCESS if attempt.permit_result is None else attempt.permit_result.code
            metrics.permit_wait(code.upstream, attempt.permit_seconds)
        if attempt.binding is not NOT_STARTED:
            metrics.goroutines("binding", -1)


Key = tuple[frozenset[str], frozenset[str] | None, str]
"""The plugins that skip Filter; those that skip Score, if nodes were scored; the one that rejected the pod in
PreFilter."""


class EvaluationCounter:
    """Counts how often the plugins of one profile would have been called.

    kube-scheduler counts every call of a plugin. Here a plugin answers for all nodes at once, or its answer is cached,
    so the calls that upstream would have made are counted: one per filtered node in Filter, one per feasible node in
    Score, one per pod in PreFilter and PreScore unless the plugin skips. Nodes that an earlier plugin has rejected
    count for the later ones too; trials for a preemption do not count.

    Attempts with the same active plugins share three numbers. They become counts by plugin when metrics are read.
    """

    def __init__(self, framework: Framework, metrics: MetricsSink) -> None:
        self._framework = framework
        self._metrics = metrics
        self._known: dict[Key, Evaluations] = {}

    def count(self, attempt: Attempt) -> None:
        """Count an attempt that the engine has just decided."""
        rejected = attempt.diagnosis.pre_filter if attempt.diagnosis is not None else None
        ended_by = ""
        if rejected is not None and rejected.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            ended_by = rejected.plugin
        key = (frozenset(attempt.state.skip_filter), attempt.skip_score, ended_by)
        found = self._known.get(key)
        if found is None:
            found = self._known[key] = self._evaluations(*key)
            self._metrics.evaluations(found)
        found.decisions += 1
        found.nodes += attempt.evaluated
        found.feasible += attempt.feasible

    def _evaluations(
        self, skip_filter: frozenset[str], skip_score: frozenset[str] | None, ended_by: str
    ) -> Evaluations:
        framework = self._framework
        called = [plugin.name for plugin in framework.pre_filter]
        if ended_by in called:
            called = called[: called.index(ended_by) + 1]
        scores = () if skip_score is None else [s.name for s in framework.scores if s.name not in skip_score]
        pre_scores = () if skip_score is None else [p.name for p in framework.pre_score if p.name not in skip_score]
        return Evaluations(
            framework.profile_name,
            pre_filter=[name for name in called if name not in skip_filter],
            filter=[f.name for f in framework.filters if f.name not in skip_filter],
            pre_score=pre_scores,
            score=scores,
        )
