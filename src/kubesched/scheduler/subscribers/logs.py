"""Attempts in the log, with kube-scheduler's messages."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.base.log import ERROR, Log
from kubesched.engine.decision import BatchReport
from kubesched.engine.outcome import SCHEDULED, Outcome
from kubesched.framework.extender import ExtenderCall
from kubesched.framework.record import Objection
from kubesched.framework.status import Code
from kubesched.scheduler.attempt import Attempt, Dropped, Skipped
from kubesched.scheduler.subscribers.publisher import Subscriber

SCORES = 10
"""The verbosity at which every score is logged."""
REJECTED = {"PreBind": "Pod rejected by PreBind plugin", "Bind": "Pod rejected by Bind plugin"}
FAILED = {"Bind": "Plugin Failed"}
"""Upstream's messages where they differ from those at other points."""
IGNORED_EXTENDER = {
    "filter": "Skipping extender as it returned error and has ignorable flag set",
    "preempt": "Skipped extender as it returned error and has ignorable flag set",
    "bind": "Skipping extender in bind as it returned error and has ignorable flag set",
}


class AttemptLog(Subscriber):
    """Logs attempts."""

    def __init__(self, log: Log) -> None:
        self._log = log

    def skipped(self, pod: api.Pod, profile: str, reason: Skipped) -> None:
        log = self._log
        log(4, "About to try and schedule pod", pod=pod)
        if reason is Skipped.UNKNOWN_PROFILE:
            log(ERROR, "Error occurred", pod=pod, err=f'profile not found for scheduler name "{profile}"')
        elif reason is Skipped.DELETING:
            log(3, "Skip schedule deleting pod", pod=pod)

    def started(self, attempt: Attempt) -> None:
        log = self._log
        if attempt.group:
            message = "Attempting to schedule a pod belonging to a pod group"
            log(4, message, podGroup=attempt.group, pod=attempt.pod)
        elif log.verbosity >= 3:
            log(4, "About to try and schedule pod", pod=attempt.pod)
            log(3, "Attempting to schedule pod", pod=attempt.pod)

    def decided(self, attempt: Attempt) -> None:
        for call in attempt.extender_calls:
            self._extender(attempt.pod, call)
        if attempt.batch is not None:
            self._batch(attempt, attempt.batch)
        if attempt.scores is not None and self._log.verbosity >= SCORES:
            self._scores(attempt)
        if attempt.outcome is not SCHEDULED:
            self._no_node(attempt)

    def _batch(self, attempt: Attempt, batch: BatchReport) -> None:
        if batch.sign_error:
            self._log(ERROR, "SignPod failed for plugin", err=batch.sign_error, plugin=batch.failed_signer)
        if batch.refusal[0] and self._log.verbosity >= 5:
            plugin, why = batch.refusal
            self._log(5, "SignPod can't sign pod due to plugin", plugin=plugin, status=why)
        if self._log.verbosity >= 3:
            pod, profile, cycle = attempt.pod, attempt.profile.name, attempt.cycle
            for level, message, fields in batch.lines:
                # The pod comes first where it is a value of upstream's logger, not of the line itself.
                start = {"profile": profile, "pod": pod} if "pod" in fields else {"pod": pod, "profile": profile}
                self._log(level, message, **(start | {"cycleCount": cycle} | fields))

    def _no_node(self, attempt: Attempt) -> None:
        log, pod = self._log, attempt.pod
        if attempt.outcome is Outcome.ERROR:
            where = {"where": attempt.where} if attempt.where else {}
            log(ERROR, "Error selecting node for pod", pod=pod, err=attempt.message, **where)
        rejected = attempt.diagnosis.pre_filter if attempt.diagnosis is not None else None
        if rejected is not None:
            log(5, "Status after running PreFilter plugins for pod", pod=pod, status=rejected.message)
        if attempt.outcome is Outcome.UNSCHEDULABLE and not attempt.profile.engine.framework.post_filter:
            log(3, "No PostFilter plugins are registered, so no preemption will be performed")
        made = attempt.post_filter_status
        if made is not None:
            level = ERROR if made.code is Code.ERROR else 5
            log(level, "Status after running PostFilter plugins for pod", pod=pod, status=made.message)

    def _scores(self, attempt: Attempt) -> None:
        assert attempt.scores is not None
        log, nodes = self._log, list(attempt.scores.by_node())
        plugins = [each.name for each in attempt.profile.engine.framework.scores if each.name in attempt.scores.plugins]
        for node, given, _ in nodes:
            for plugin in plugins:
                fields = {"pod": attempt.pod, "plugin": plugin, "node": node, "score": given[plugin]}
                log(SCORES, "Plugin scored node for pod", **fields)
        for node, _, total in nodes:
            log(SCORES, "Calculated node's final score for pod", pod=attempt.pod, node=node, score=total)

    def _extender(self, pod: api.Pod, call: ExtenderCall) -> None:
        log = self._log
        if call.error is None:
            if log.verbosity >= SCORES:
                for node, score in call.scores.items():
                    fields = {"pod": pod, "extender": call.extender, "node": node, "score": score}
                    log(SCORES, "Extender scored node for pod", **fields)
        elif call.verb == "prioritize":
            message = "Failed to run extender's priority function. No score given by this extender."
            log(5, message, error=call.error, pod=pod, extender=call.extender)
        else:
            log(0, IGNORED_EXTENDER[call.verb], extender=call.extender, err=call.error)

    def binding_started(self, attempt: Attempt) -> None:
        if attempt.permit_timeouts:
            message = "One or more plugins asked to wait and no plugin rejected pod"
            self._log(4, message, logger="Permit", pod=attempt.assumed, node=attempt.chosen)

    def waiting(self, attempt: Attempt) -> None:
        self._log(4, "Pod waiting on permit", pod=attempt.assumed)

    def bound(self, attempt: Attempt) -> None:
        log, pod, queued = self._log, attempt.assumed, attempt.queued
        self._ignored_binders(attempt)
        if log.verbosity >= 2:
            log(5, "Finished binding for pod, can be expired", podKey=pod.uid, pod=pod)
            fields = {"evaluatedNodes": attempt.evaluated, "feasibleNodes": attempt.feasible}
            log(2, "Successfully bound pod to node", pod=pod, node=attempt.chosen, **fields)
        if queued.was_flushed:
            plugins = {"unschedulablePlugins": queued.unschedulable_plugins, "pendingPlugins": queued.pending_plugins}
            log(4, "Pod scheduled after flush from unschedulablePods", pod=pod, **plugins)

    def failed(self, attempt: Attempt) -> None:
        log, failure, waited = self._log, attempt.failure, attempt.permit_result
        assert failure is not None
        self._ignored_binders(attempt)
        for objection in attempt.objections:
            self._objection(attempt, objection)
        if waited is not None and waited.is_rejected:
            log(4, "Pod rejected while waiting on permit", pod=attempt.assumed, status=waited.message)
        elif waited is not None:
            log(ERROR, "Failed waiting on permit for pod", pod=attempt.assumed, err=waited.message)
        if failure.maybe_bound:
            log(1, "Failed to bind pod", pod=attempt.assumed)
        if failure.of_group:
            message = "Unable to schedule pod belonging to a pod group; waiting"
            log(2, message, pod=attempt.pod, err=failure.message)
        elif failure.fits_nowhere:
            log(2, "Unable to schedule pod; no fit; waiting", pod=attempt.pod, err=failure.message)
        elif attempt.outcome is Outcome.NO_NODES:
            log(2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=attempt.pod)
        else:
            log(ERROR, "Error scheduling pod; retrying", pod=attempt.pod, err=failure.message)

    def dropped(self, attempt: Attempt, reason: Dropped, known: api.Pod | None) -> None:
        log, pod = self._log, attempt.pod
        if known is None:
            log(0, "Pod doesn't exist in informer cache", pod=pod, err=f'pod "{pod.name}" not found')
        elif reason is Dropped.RECREATED:
            message = "Pod was recreated while handling scheduling failure. Skip requeueing and status updates."
            log(2, message, pod=pod, oldUID=pod.uid, newUID=known.uid)
        else:
            message = "Pod has been assigned to node. Abort adding it back to queue."
            log(0, message, pod=pod, node=known.node_name)

    def finished(self, attempt: Attempt) -> None:
        if attempt.failure is None:
            for objection in attempt.objections:
                self._objection(attempt, objection)

    def _ignored_binders(self, attempt: Attempt) -> None:
        for call in attempt.extender_calls:
            if call.verb == "bind":
                self._extender(attempt.pod, call)

    def _objection(self, attempt: Attempt, objection: Objection) -> None:
        log, pod, point = self._log, attempt.assumed, objection.point
        if objection.status.is_rejected:
            message = REJECTED.get(point, "Pod rejected by plugin")
            log(4, message, pod=pod, plugin=objection.plugin, status=objection.reason)
            return
        more = {"where": objection.place} if objection.place else {}
        if point == "PreBindPreFlight":
            more = {"node": attempt.chosen}
        log(ERROR, FAILED.get(point, "Plugin failed"), plugin=objection.plugin, pod=pod, err=objection.reason, **more)
