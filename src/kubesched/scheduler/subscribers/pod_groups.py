"""The cycles of pod groups in log lines, metrics and the condition PodGroupScheduled."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import msgspec

from kubesched.api import objects as api
from kubesched.api.workloads import POD_GROUP_SCHEDULED, Condition
from kubesched.base.log import ERROR
from kubesched.base.types import JSON
from kubesched.framework.status import Code, Status
from kubesched.scheduler.shared import Shared


class PodGroupReport:
    """Reports on the cycles of pod groups."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._conditions = PodGroupConditions(shared)

    def started(self, group: str) -> None:
        """A group is about to be tried."""
        self._shared.log(3, "Attempting to schedule pod group", podGroup=group)

    def tried(self, seconds: float) -> None:
        """The trial of a group has ended."""
        self._shared.metrics.group_algorithm(seconds)

    def finished(
        self, group: str, profile: str, status: Status | None, pods: int, bound: int, seconds: float, waits: bool
    ) -> None:
        """A group's pods are being bound, or are back in the queue. `waits` says that victims have to go first."""
        log, metrics = self._shared.log, self._shared.metrics
        left = pods - bound
        if status is None:
            message = "Successfully scheduled a pod group"
            log(2, message, podGroup=group, scheduledPods=bound, unschedulablePods=left)
            result, condition = "scheduled", ("True", "Scheduled", "")
        elif status.code is Code.ERROR:
            log(ERROR, "Error scheduling pod group", podGroup=group, errorPods=pods, err=status.message)
            result, condition = "error", ("False", "SchedulerError", status.message)
        else:
            message = "Pod group is waiting for preemption" if waits else "Unable to schedule a pod group"
            log(2, message, podGroup=group, unschedulablePods=left)
            result = "waiting_on_preemption" if waits else "unschedulable"
            condition = ("False", "Unschedulable", status.message)
        metrics.group_attempt(result, profile, seconds)
        self._conditions.write(group, *condition)


class PodGroupConditions:
    """Writes the condition PodGroupScheduled. Patches of one group are sent one after the other."""

    def __init__(self, shared: Shared) -> None:
        self._shared = shared
        self._last: dict[str, asyncio.Task[None]] = {}
        self._answers: dict[str, api.PodGroup] = {}
        """Groups as the last patch left them, until the watch is as far."""

    def write(self, group: str, status: str, reason: str, message: str) -> None:
        """Set the condition in the background."""
        previous = self._last.get(group)
        task = self._shared.tasks.spawn(self._send(previous, group, status, reason, message))
        self._last[group] = task
        task.add_done_callback(lambda done: self._forget(group, done))

    async def _send(
        self, previous: asyncio.Task[None] | None, group: str, status: str, reason: str, message: str
    ) -> None:
        if previous is not None:
            await asyncio.wait((previous,))
        found = self._newest(group)
        if found is None:
            name = group.rpartition("/")[2]
            problem = f'podgroup.scheduling.k8s.io "{name}" not found'
            self._shared.log(ERROR, "Failed to get PodGroup for status update", podGroup=group, err=problem)
            return
        patch = self._patch(found, status, reason, message)
        if patch is None:
            return
        try:
            self._answers[group] = await self._shared.client.merge_patch(
                api.PodGroup, found.name, patch, found.namespace, subresource="status"
            )
        except Exception as problem:
            self._shared.log(ERROR, "Failed to update PodGroup status", podGroup=group, err=problem)

    def _newest(self, group: str) -> api.PodGroup | None:
        known, answer = self._shared.cluster.get(api.PodGroup, group), self._answers.get(group)
        if known is None or answer is None or known.uid != answer.uid or _version(known) >= _version(answer):
            self._answers.pop(group, None)
            return known
        return answer

    def _patch(self, group: api.PodGroup, status: str, reason: str, message: str) -> JSON | None:
        """The status with the condition set; None if nothing changes. A group that was scheduled once stays so: a
        later cycle is about more pods than it needs."""
        old = next((each for each in group.status.conditions if each.type == POD_GROUP_SCHEDULED), Condition())
        if old.status == "True" and status != "True":
            return None
        since = old.last_transition_time if old.status == status else self._now()
        new = Condition(POD_GROUP_SCHEDULED, status, group.metadata.generation, since, reason, message)
        if new == old:
            return None
        others = [each for each in group.status.conditions if each.type != POD_GROUP_SCHEDULED]
        # reason, message and times are required, even where they are empty.
        body = [{"message": "", **msgspec.to_builtins(each)} for each in (*others, new)]
        return {"status": {"conditions": body}}

    def _forget(self, group: str, done: asyncio.Task[None]) -> None:
        if self._last.get(group) is done:
            del self._last[group]

    def _now(self) -> str:
        moment = datetime.fromtimestamp(int(self._shared.clock.now()), UTC)
        return moment.isoformat().replace("+00:00", "Z")


def _version(group: api.PodGroup) -> int:
    version = group.metadata.resource_version
    return int(version) if version.isdecimal() else 0
