"""Writing to pods' status: conditions and nominated nodes.

Patches of one pod are sent one after the other, because an old one that overtakes a new one would stay. Nobody waits
for them: upstream holds up the next scheduling cycle for each.
"""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

from kubesched.api import objects as api
from kubesched.client.protocol import JSON, ApiError
from kubesched.scheduler.context import Context
from kubesched.scheduler.ports import ERROR

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"


class StatusWriter:
    """Patches pods' status where it is not yet as it should be."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._last: dict[str, asyncio.Task[None]] = {}

    def update(
        self,
        pod: api.Pod,
        condition: api.PodCondition | None = None,
        nominated: str | None = None,
        *,
        on_error: str = "Error updating pod",
        only_if_unchanged: bool = False,
    ) -> asyncio.Task[None] | None:
        """Set a condition and, unless it is None, the nominated node; the empty name clears it. With
        `only_if_unchanged`, a pod that is no longer as we know it is left as it is.

        Answers with the task that does so, or None if there is nothing to do.
        """
        fields: dict[str, object] = {"pod": pod}
        if condition is not None:
            fields |= {"conditionType": condition.type, "conditionStatus": condition.status}
            fields["conditionReason"] = condition.reason
        if nominated is not None:
            fields |= {"nominatedNodeName": nominated, "nominatingMode": 1}
        self._context.log(3, "Updating pod condition and nominated node name", **fields)
        patch = self.patch(pod, condition, nominated)
        if patch is None:
            return None
        if only_if_unchanged:
            patch["metadata"]["resourceVersion"] = pod.metadata.resource_version
        work = self._send(self._last.get(pod.uid), pod, patch, on_error)
        task = self._last[pod.uid] = self._context.tasks.spawn(work)
        task.add_done_callback(lambda done: self._forget(pod.uid, done))
        return task

    async def written(self, uid: str) -> None:
        """Wait until nothing about a pod is under way any more. One that arrives after the pod is bound would say of a
        pod on its node that it has none."""
        while (task := self._last.get(uid)) is not None and not task.done():
            await asyncio.wait((task,))

    def patch(self, pod: api.Pod, condition: api.PodCondition | None, nominated: str | None = None) -> JSON | None:
        """The body of such a patch; None if the pod is as it should be. It names the UID: a pod of the same name made
        since must not get it."""
        status: JSON = {}
        if condition is not None and (changed := self._changed(pod, condition)) is not None:
            status["conditions"] = [changed]
            # As a patch made from two documents has it; without, a new condition would come first.
            types = dict.fromkeys((*(each.type for each in pod.status.conditions), condition.type))
            status["$setElementOrder/conditions"] = [{"type": each} for each in types]
        if nominated is not None and nominated != pod.nominated_node_name:
            status["nominatedNodeName"] = nominated or None
        return {"metadata": {"uid": pod.uid}, "status": status} if status else None

    def _changed(self, pod: api.Pod, new: api.PodCondition) -> JSON | None:
        old = next((each for each in pod.status.conditions if each.type == new.type), None)
        body: JSON = {"type": new.type, "status": new.status, "reason": new.reason, "message": new.message}
        if old is not None and (old.status, old.reason, old.message) == (new.status, new.reason, new.message):
            return None
        same = old is not None and old.status == new.status
        body["lastTransitionTime"] = old.last_transition_time if same and old is not None else self._now()
        if pod.metadata.generation:
            body["observedGeneration"] = pod.metadata.generation
        return body

    async def _send(self, previous: asyncio.Task[None] | None, pod: api.Pod, patch: JSON, on_error: str) -> None:
        if previous is not None:
            await asyncio.wait((previous,))
        try:
            await self._context.client.patch_pod_status(pod, patch)
        except Exception as problem:
            outdated = isinstance(problem, ApiError) and problem.code == 409 and "resourceVersion" in patch["metadata"]
            self._context.log(4 if outdated else ERROR, on_error, pod=pod, err=problem)

    def _forget(self, uid: str, done: asyncio.Task[None]) -> None:
        if self._last.get(uid) is done:
            del self._last[uid]

    def _now(self) -> str:
        moment = datetime.fromtimestamp(int(self._context.clock.now()), UTC)
        return moment.isoformat().replace("+00:00", "Z")
