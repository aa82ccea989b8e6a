"""The scheduling cycle: one pod from the queue to an assumed place on a node, or back.

It never waits, but for extenders; then everything else is held back until it is through.
"""

from __future__ import annotations

from collections.abc import Mapping

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.engine.decision import Decision, Outcome, Scores
from kubesched.engine.engine import NO_NODES
from kubesched.framework.state import PODS_TO_ACTIVATE, CycleState, PodsToActivate
from kubesched.queue.pods import QueuedPodInfo
from kubesched.scheduler.binding import BindingCycle
from kubesched.scheduler.context import Attempt, Context, Profile, on_node
from kubesched.scheduler.extending import decide_with_extenders
from kubesched.scheduler.failure import Failure, FailureHandler
from kubesched.scheduler.points import PLUGINS_TIMED
from kubesched.scheduler.ports import WARNING
from kubesched.scheduler.preemption import Preemptor
from kubesched.scheduler.waiting import WaitingPod

PART_OF = {"NormalizeScore": "Score", "PreFilter AddPod": "Filter", "PreFilter RemovePod": "PostFilter"}
"""What a plugin does, and the extension point in whose course it does it."""
TIMED = 10
"""One cycle in so many has each of its plugins timed, which would be too much in all of them."""


class SchedulingCycle:
    """Schedules one pod after the other."""

    def __init__(
        self,
        context: Context,
        profiles: Mapping[str, Profile],
        failures: FailureHandler,
        binding: BindingCycle,
        preemptor: Preemptor,
    ) -> None:
        self._context = context
        self._profiles = profiles
        self._failures = failures
        self._binding = binding
        self._preemptor = preemptor
        self._cycles = 0

    def run(self, queued: QueuedPodInfo) -> Decision | None:
        """Try a popped pod. None if it was not worth it."""
        attempt = self._begin(queued)
        if attempt is None:
            return None
        try:
            decision = attempt.profile.engine.schedule(queued.info, state=attempt.state, record=attempt.scores_told)
            self._conclude(attempt, decision)
            return decision
        except Exception as problem:
            self._give_back(attempt, problem)
            return None

    async def run_with_extenders(self, queued: QueuedPodInfo) -> Decision | None:
        """Try a popped pod, asking extenders too. Nothing may change meanwhile."""
        attempt = self._begin(queued)
        if attempt is None:
            return None
        try:
            decision = await decide_with_extenders(self._context, attempt)
            self._conclude(attempt, decision)
            return decision
        except Exception as problem:
            self._give_back(attempt, problem)
            return None

    def _begin(self, queued: QueuedPodInfo) -> Attempt | None:
        context, pod = self._context, queued.info.pod
        verbose = context.log.verbosity >= 3
        if verbose:
            context.log(4, "About to try and schedule pod", pod=pod)
        profile = self._profiles.get(pod.scheduler_name)
        if profile is None:
            why = f'profile not found for scheduler name "{pod.scheduler_name}"'
            context.log(ERROR, "Error occurred", pod=pod, err=why)
        if profile is None or self._skipped(profile, pod):
            context.queue.done(pod.uid)
            return None
        if verbose:
            context.log(3, "Attempting to schedule pod", pod=pod)
        to_activate = PodsToActivate()
        state = CycleState(queued.info.pod_class)
        state.write(PODS_TO_ACTIVATE, to_activate)
        timed = self._cycles % TIMED == 0
        self._cycles += 1
        profile.engine.framework.watch = profile.points.watch if timed else None
        if timed:
            state.write(PLUGINS_TIMED, True)
        attempt = Attempt(queued, profile, state, context.clock.monotonic(), to_activate)
        attempt.scores_told = verbose and context.log.verbosity >= 10
        return attempt

    def _skipped(self, profile: Profile, pod: api.Pod) -> bool:
        """A pod being deleted is not worth a place; one that has a place already came into the queue by an update."""
        if pod.metadata.deletion_timestamp is not None:
            note = f"skip schedule deleting pod: {pod.namespace}/{pod.name}"
            self._context.recorder.event(profile.name, pod, WARNING, "FailedScheduling", "Scheduling", note)
            self._context.log(3, "Skip schedule deleting pod", pod=pod)
            return True
        return pod.metadata.uid in self._context.cluster.pods

    def _conclude(self, attempt: Attempt, decision: Decision) -> None:
        """From a decision to a binding, or to the queue."""
        attempt.decision = decision
        context = self._context
        context.metrics.algorithm(context.clock.monotonic() - attempt.started)
        self._report_points(attempt.profile, decision)
        attempt.profile.evaluations.count(decision)
        if attempt.scores_told and decision.scores is not None:
            self._tell_scores(attempt, decision.scores)
        if decision.outcome is not Outcome.SCHEDULED:
            self._undecided(attempt, decision)
            return
        attempt.node = decision.node
        refusal = self._take_place(attempt)
        if refusal is not None:
            self._failures.handle(attempt, refusal)
            return
        if attempt.to_activate:
            context.queue.activate(list(attempt.to_activate.values()))
            attempt.to_activate.clear()
        self._binding.start(attempt)

    def _tell_scores(self, attempt: Attempt, scores: Scores) -> None:
        log, nodes = self._context.log, list(scores.by_node())
        plugins = [each.name for each in attempt.profile.engine.framework.scores if each.name in scores.plugins]
        for node, given, _ in nodes:
            for plugin in plugins:
                log(10, "Plugin scored node for pod", pod=attempt.pod, plugin=plugin, node=node, score=given[plugin])
        for node, _, total in nodes:
            log(10, "Calculated node's final score for pod", pod=attempt.pod, node=node, score=total)

    def _report_points(self, profile: Profile, decision: Decision) -> None:
        """Tell metrics how long each extension point took, and how it ended."""
        laps = profile.engine.laps
        for number, (point, seconds) in enumerate(laps, 1):
            status = "Success"
            if point == "PostFilter" and decision.post_filter_status is not None:
                status = decision.post_filter_status.code.upstream
                self._context.metrics.preemption_attempted()
            elif point == "PreFilter" and decision.diagnosis is not None and decision.diagnosis.pre_filter is not None:
                status = decision.diagnosis.pre_filter.code.upstream
            elif decision.plugin and number == len(laps):
                status = "Error"
            self._context.metrics.extension_point(PART_OF.get(point, point), status, profile.name, seconds)

    def _undecided(self, attempt: Attempt, decision: Decision) -> None:
        context, framework = self._context, attempt.profile.engine.framework
        if decision.outcome is Outcome.ERROR and decision.message != NO_NODES:
            where = {"where": decision.where} if decision.where else {}
            context.log(ERROR, "Error selecting node for pod", pod=attempt.pod, err=decision.message, **where)
        rejected = decision.diagnosis.pre_filter if decision.diagnosis is not None else None
        if rejected is not None:
            message = "Status after running PreFilter plugins for pod"
            context.log(5, message, pod=attempt.pod, status=rejected.message)
        if decision.outcome is Outcome.UNSCHEDULABLE and not framework.post_filter:
            context.log(3, "No PostFilter plugins are registered, so no preemption will be performed")
        if decision.post_filter_status is not None:
            level = ERROR if decision.post_filter_status.code.upstream == "Error" else 5
            message = "Status after running PostFilter plugins for pod"
            context.log(level, message, pod=attempt.pod, status=decision.post_filter_status.message)
        if decision.post_filter is not None and decision.post_filter.victims:
            self._preemptor.start(attempt.profile, attempt.pod, decision.post_filter)
        self._failures.handle(attempt, Failure.of_decision(decision, can_make_room=bool(framework.post_filter)))

    def _take_place(self, attempt: Attempt) -> Failure | None:
        """Assume the pod on its node, and ask Reserve and Permit; if one refuses, everything is as before."""
        context, points, state, node = self._context, attempt.profile.points, attempt.state, attempt.node
        pod = attempt.assumed = on_node(attempt.pod, node)
        context.cluster.assume(attempt.queued.info, node)
        refusal = points.reserve(state, pod, node)
        timeouts: dict[str, float] = {}
        if refusal is None:
            refusal, timeouts = points.permit(state, pod, node)
        if refusal is not None:
            self._leave_place(attempt)
            return Failure.of_refusal(refusal)
        if timeouts:
            context.waiting.add(WaitingPod(pod, timeouts))
        return None

    def _leave_place(self, attempt: Attempt) -> None:
        attempt.profile.points.unreserve(attempt.state, attempt.assumed, attempt.node)
        self._context.cluster.forget(attempt.assumed.uid)
        self._context.waiting.remove(attempt.assumed.uid)

    def _give_back(self, attempt: Attempt, problem: Exception) -> None:
        """Something went wrong that nobody foresaw: the pod is tried again, the loop goes on."""
        self._context.log(ERROR, "Unexpected error in scheduling cycle", pod=attempt.pod, err=problem)
        if attempt.node and attempt.pod.uid in self._context.cluster.assumed:
            self._leave_place(attempt)
        self._failures.handle(attempt, Failure(f"scheduling: {type(problem).__name__}: {problem}"))
