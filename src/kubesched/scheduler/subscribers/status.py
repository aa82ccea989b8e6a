"""Failed attempts in the status of pods: the PodScheduled condition and the nominated node."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.scheduler.attempt import Attempt
from kubesched.scheduler.statuses import POD_SCHEDULED, StatusWriter
from kubesched.scheduler.subscribers.publisher import Subscriber

UNSCHEDULABLE = "Unschedulable"
SCHEDULER_ERROR = "SchedulerError"


class AttemptStatus(Subscriber):
    """Writes why a pod is not scheduled."""

    def __init__(self, statuses: StatusWriter) -> None:
        self._statuses = statuses

    def requeued(self, attempt: Attempt, pod: api.Pod) -> None:
        failure = attempt.failure
        assert failure is not None
        condition = api.PodCondition(
            type=POD_SCHEDULED,
            status="False",
            reason=UNSCHEDULABLE if failure.rejected else SCHEDULER_ERROR,
            message=failure.message,
        )
        self._statuses.update(pod, condition, failure.nominate, only_if_unchanged=failure.maybe_bound)
