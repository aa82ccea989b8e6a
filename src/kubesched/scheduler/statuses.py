"""Writes pod status: conditions and nominated nodes.

The patches of one pod are sent one at a time, because an old patch that overtook a new one would win. Each patch is
computed from the result of the previous one, which the watch may not have delivered yet. Nothing waits for the
patches; upstream blocks the next scheduling cycle on each of them. When many pods fail at once, only a few patches are
sent at a time, so that bindings get through; one that has not been sent when its pod is bound is dropped.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.base.types import JSON
from kubesched.client.protocol import ApiError
from kubesched.scheduler.api_calls import ApiCall, Dispatcher
from kubesched.scheduler.shared import Shared

POD_SCHEDULED = "PodScheduled"
DISRUPTION_TARGET = "DisruptionTarget"
MAX_SENDING = 8
"""How many patches to send at a time."""
MAX_PATCHED_PODS = 1000
"""How many patched pods to remember before dropping those that the watch has delivered since."""


class StatusWriter:
    """Patches the status of pods that differs from what it should be."""

    def __init__(self, shared: Shared, dispatcher: Dispatcher | None = None) -> None:
        """With a dispatcher, patches are queued behind, merged with or replaced by the pod's other calls."""
        self._shared = shared
        self._dispatcher = dispatcher
        self.log = shared.log
        self.turns = shared.turns
        self._last: dict[str, asyncio.Task[None]] = {}
        self._patched: dict[str, api.Pod] = {}
        self._sending = 0
        self._waiting: dict[str, asyncio.Future[bool]] = {}
        """Pods whose patch waits for its turn. The result is whether to send it."""
        self._binding: set[str] = set()
        self._is_ending = False

    def update(
        self,
        pod: api.Pod,
        condition: api.PodCondition | None = None,
        nominated: str | None = None,
        *,
        on_error: str = "Error updating pod",
        only_if_unchanged: bool = False,
    ) -> asyncio.Future[None] | None:
        """Set a condition and, unless it is None, the nominated node; an empty name clears it. With
        `only_if_unchanged`, the pod is not patched if it has changed since we read it.

        Returns the task that sends the patch, or None if there is nothing to do.
        """
        if self._dispatcher is not None:
            return self._dispatcher.add(StatusPatch(self, pod, condition, nominated, only_if_unchanged))
        fields: dict[str, object] = {"pod": pod}
        if condition is not None:
            fields |= {"conditionType": condition.type, "conditionStatus": condition.status}
            fields["conditionReason"] = condition.reason
        if nominated is not None:
            fields |= {"nominatedNodeName": nominated, "nominatingMode": 1}
        self._shared.log(3, "Updating pod condition and nominated node name", **fields)

        def due() -> JSON | None:
            return self.due(pod, condition, nominated, only_if_unchanged=only_if_unchanged)

        previous = self._last.get(pod.uid)
        if previous is None and due() is None:
            return None
        task = self._last[pod.uid] = self._shared.tasks.spawn(self._send(previous, pod, due, on_error))
        task.add_done_callback(lambda done: self._forget(pod.uid, done))
        return task

    @property
    def is_async(self) -> bool:
        """Whether a dispatcher orders the calls of a pod, so that callers need not wait for them."""
        return self._dispatcher is not None

    def due(
        self, pod: api.Pod, condition: api.PodCondition | None, nominated: str | None, *, only_if_unchanged: bool
    ) -> JSON | None:
        """The patch that brings the pod's status up to date; None if it already is."""
        newest = self.newest(pod)
        patch = self.patch(newest, condition, nominated)
        if patch is not None and only_if_unchanged:
            patch["metadata"]["resourceVersion"] = newest.metadata.resource_version
        return patch

    async def send(self, pod: api.Pod, patch: JSON) -> None:
        """Send a patch and remember the pod that it returned."""
        self._remember(await self._shared.client.patch_pod_status(pod, patch))

    def newest(self, pod: api.Pod) -> api.Pod:
        """The newest known version of a pod, from the watch or from the response to a patch."""
        known = self._shared.newest(pod) or pod
        answered = self._patched.get(pod.uid)
        return answered if answered is not None and _version(answered) > _version(known) else known

    def is_writing(self, uid: str) -> bool:
        """Whether a patch of a pod's status waits, or is on its way."""
        return uid in self._last or uid in self._waiting

    async def written(self, uid: str) -> None:
        """Before a pod is bound, drop the patches that have not been sent and wait for the one that has. A patch that
        arrived after the binding would mark a bound pod as unscheduled.
        """
        self._binding.add(uid)
        try:
            if (allowed := self._waiting.pop(uid, None)) is not None and not allowed.done():
                allowed.set_result(False)
            while (task := self._last.get(uid)) is not None and not task.done():
                await asyncio.wait((task,))
        finally:
            self._binding.discard(uid)

    def drop_waiting(self) -> None:
        """From now on, drop every patch that would have to wait for others: the scheduler ends, and the next one, which
        tries the pods again, writes the same. Thousands of them must not delay the end.
        """
        self._is_ending = True
        for allowed in self._waiting.values():
            if not allowed.done():
                allowed.set_result(False)
        self._waiting.clear()

    def patch(self, pod: api.Pod, condition: api.PodCondition | None, nominated: str | None = None) -> JSON | None:
        """The body of the patch; None if the pod is up to date. The body contains the UID, so that a newer pod of the
        same name is never patched.
        """
        status: JSON = {}
        if condition is not None and (changed := self._changed(pod, condition)) is not None:
            status["conditions"] = [changed]
            # A patch computed from two documents has this field; without it, a new condition would be placed first.
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

    async def _send(
        self, previous: asyncio.Task[None] | None, pod: api.Pod, due: Callable[[], JSON | None], on_error: str
    ) -> None:
        if previous is not None:
            await asyncio.wait((previous,))
        if not await self._may_send(pod.uid):
            return
        try:
            if (patch := due()) is not None:
                await self._try(pod, patch, on_error)
        finally:
            self._let_next_send()

    async def _try(self, pod: api.Pod, patch: JSON, on_error: str) -> None:
        try:
            await self.send(pod, patch)
        except Exception as problem:
            outdated = isinstance(problem, ApiError) and problem.code == 409 and "resourceVersion" in patch["metadata"]
            self._shared.log(4 if outdated else ERROR, on_error, pod=pod, err=problem)

    async def _may_send(self, uid: str) -> bool:
        """Wait until the patch of a pod may be sent; False if it is no longer needed."""
        await self.turns.take("status", uid)
        if uid in self._binding:
            return False
        if self._sending < MAX_SENDING:
            self._sending += 1
            return True
        if self._is_ending:
            return False
        allowed: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting[uid] = allowed
        if not await allowed:
            return False
        await self.turns.take("status", uid)
        return True

    def _let_next_send(self) -> None:
        while self._waiting:
            allowed = self._waiting.pop(next(iter(self._waiting)))
            if not allowed.done():  # its task may have been cancelled
                allowed.set_result(True)
                return
        self._sending -= 1

    def _remember(self, answer: api.Pod) -> None:
        self._patched[answer.uid] = answer
        if len(self._patched) > MAX_PATCHED_PODS:
            self._patched = {uid: each for uid, each in self._patched.items() if not self._watch_caught_up(each)}

    def _watch_caught_up(self, patched: api.Pod) -> bool:
        """Whether the watch has caught up with this version, or has reported the pod as deleted."""
        known = self._shared.newest(patched)
        return known is None or _version(known) >= _version(patched)

    def _forget(self, uid: str, done: asyncio.Task[None]) -> None:
        if self._last.get(uid) is done:
            del self._last[uid]

    def _now(self) -> str:
        moment = datetime.fromtimestamp(int(self._shared.clock.now()), UTC)
        return moment.isoformat().replace("+00:00", "Z")


class StatusPatch(ApiCall):
    """A patch of a pod's status, sent in the background."""

    call_type = "pod_status_patch"
    relevance = 1

    def __init__(
        self,
        writer: StatusWriter,
        pod: api.Pod,
        condition: api.PodCondition | None,
        nominated: str | None,
        only_if_unchanged: bool,
    ) -> None:
        super().__init__(pod.uid)
        self._writer, self._pod = writer, pod
        self.condition, self.nominated = condition, nominated
        self._only_if_unchanged = only_if_unchanged

    def merge(self, older: ApiCall) -> None:
        assert isinstance(older, StatusPatch)
        self.condition = older.condition if self.condition is None else self.condition
        self.nominated = older.nominated if self.nominated is None else self.nominated

    def _due(self) -> JSON | None:
        only = self._only_if_unchanged
        return self._writer.due(self._pod, self.condition, self.nominated, only_if_unchanged=only)

    def has_effect(self) -> bool:
        return self._due() is not None

    async def execute(self) -> None:
        new, log = self.condition, self._writer.log
        if new is not None:
            fields = {"conditionType": new.type, "conditionStatus": new.status, "conditionReason": new.reason}
            log(3, "Updating pod condition", pod=self._pod, **fields)
        await self._writer.turns.take("status", self.uid)
        patch = self._due()
        if patch is None:
            log(5, "Pod status patch call does not need to be executed because it has no effect", pod=self._pod)
            return
        try:
            await self._writer.send(self._pod, patch)
        except Exception as problem:
            log(ERROR, "Failed to patch pod status", pod=self._pod, err=problem)
            raise


def _version(pod: api.Pod) -> int:
    """Resource versions of one kind can be compared as numbers; a pod that was never stored has none."""
    version = pod.metadata.resource_version
    return int(version) if version.isdecimal() else 0
