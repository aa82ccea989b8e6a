"""What becomes of a pod whose attempt has failed: back to the queue, with the world told why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Set
from dataclasses import dataclass, field

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.engine.decision import Decision, Outcome
from kubesched.engine.engine import NO_NODES
from kubesched.framework.status import Code, Status
from kubesched.framework.verdicts import fit_message
from kubesched.scheduler.context import Attempt, Context
from kubesched.scheduler.ports import WARNING
from kubesched.scheduler.statuses import POD_SCHEDULED, StatusWriter

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


@dataclass(frozen=True, slots=True)
class Failure:
    """How an attempt failed."""

    message: str
    rejected: bool = False
    """Whether somebody turned the pod down, as opposed to something having gone wrong."""
    fits_nowhere: bool = False
    """Whether it was turned down for what it asks for; then something in the cluster has to change."""
    unschedulable: Set[str] = field(default_factory=frozenset)
    pending: Set[str] = field(default_factory=frozenset)
    nominate: str | None = ""
    """The node it is promised from now on, an empty name for none, None to leave that as it is."""
    maybe_bound: bool = False
    """Whether a call to bind it was made. It may have taken effect, now or earlier, without our having heard of it."""

    @classmethod
    def of_decision(cls, decision: Decision, *, can_make_room: bool) -> Failure:
        """An attempt for which the engine found no node."""
        if decision.outcome is Outcome.ERROR or decision.diagnosis is None:
            return cls(decision.message, rejected=decision.message == NO_NODES)
        made = decision.post_filter
        return cls(
            decision.message,
            rejected=True,
            fits_nowhere=True,
            unschedulable=decision.diagnosis.unschedulable_plugins,
            pending=decision.diagnosis.pending_plugins,
            nominate=(None if made is None else made.nominated_node_name) if can_make_room else "",
        )

    @classmethod
    def of_status(cls, status: Status) -> Failure:
        """An attempt that something went wrong with after the decision."""
        return cls(status.message, rejected=status.is_rejected)

    @classmethod
    def of_refusal(cls, status: Status) -> Failure:
        """An attempt that Reserve or Permit ended. Upstream words a refusal as that of the one node there was."""
        if not status.is_rejected:
            return cls.of_status(status)
        plugins = frozenset((status.plugin,)) if status.plugin else frozenset()
        waits = status.code is Code.PENDING
        return cls(
            fit_message(1, Counter(status.reasons)),
            rejected=True,
            fits_nowhere=True,
            unschedulable=frozenset() if waits else plugins,
            pending=plugins if waits else frozenset(),
        )


class FailureHandler:
    """Takes pods back."""

    def __init__(self, context: Context, statuses: StatusWriter) -> None:
        self._context = context
        self._statuses = statuses

    def handle(self, attempt: Attempt, failure: Failure) -> None:
        """Put a pod back into the queue, unless it is gone, bound, or another by now."""
        context, queued, pod = self._context, attempt.queued, attempt.pod
        seconds = context.clock.monotonic() - attempt.started
        context.metrics.attempt("unschedulable" if failure.rejected else "error", attempt.profile.name, seconds)
        self._log(pod, failure)
        known = self._still_wanted(pod)
        if known is None:
            context.queue.done(pod.uid)
            return
        queued.rejected_by(failure.unschedulable, failure.pending)
        queued.info = context.cluster.classes.info(known)
        context.queue.add_unschedulable_if_not_present(queued)
        context.queue.nominate(queued.info, failure.nominate)
        self._tell(attempt.profile.name, known, failure)

    def _still_wanted(self, pod: api.Pod) -> api.Pod | None:
        """The pod as it is now, if it is still to be scheduled."""
        log, known = self._context.log, self._context.pods.get(pod.key)
        if known is None:
            log(0, "Pod doesn't exist in informer cache", pod=pod, err=f'pod "{pod.name}" not found')
        elif known.uid != pod.uid:
            why = "Pod was recreated while handling scheduling failure. Skip requeueing and status updates."
            log(2, why, pod=pod, oldUID=pod.uid, newUID=known.uid)
        elif known.node_name:
            why = "Pod has been assigned to node. Abort adding it back to queue."
            log(0, why, pod=pod, node=known.node_name)
        else:
            return known
        return None

    def _tell(self, profile: str, pod: api.Pod, failure: Failure) -> None:
        self._context.recorder.event(profile, pod, WARNING, "FailedScheduling", "Scheduling", failure.message)
        condition = api.PodCondition(
            type=POD_SCHEDULED,
            status="False",
            reason=UNSCHEDULABLE if failure.rejected else SCHEDULER_ERROR,
            message=failure.message,
        )
        self._statuses.update(pod, condition, failure.nominate, only_if_unchanged=failure.maybe_bound)

    def _log(self, pod: api.Pod, failure: Failure) -> None:
        log = self._context.log
        if failure.fits_nowhere:
            log(2, "Unable to schedule pod; no fit; waiting", pod=pod, err=failure.message)
        elif failure.message == NO_NODES:
            log(2, "Unable to schedule pod; no nodes are registered to the cluster; waiting", pod=pod)
        else:
            log(ERROR, "Error scheduling pod; retrying", pod=pod, err=failure.message)
