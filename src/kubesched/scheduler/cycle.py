"""The scheduling cycle: one pod from the queue to an assumed node, or back.

It waits only for extenders, and for victims if asynchronous preemption is off. Cluster events are deferred
meanwhile.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.engine.failure import Failure
from kubesched.engine.outcome import SCHEDULED
from kubesched.framework.extender import Extenders
from kubesched.framework.preemption_contract import PostFilterAnswer
from kubesched.framework.status import error
from kubesched.queue.pods import QueuedPodInfo
from kubesched.scheduler.attempt import Attempt, Profile, Skipped
from kubesched.scheduler.binding import BindingCycle
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.subscribers.logs import SCORES
from kubesched.scheduler.subscribers.publisher import Publisher
from kubesched.scheduler.victims import Preemptor
from kubesched.scheduler.waiting import WaitingPod

TIMED = 10
"""Every plugin call is timed in one cycle out of this many; timing all of them would cost too much."""


class SchedulingCycle:
    """Schedules one pod at a time."""

    def __init__(
        self,
        shared: Shared,
        profiles: Mapping[str, Profile],
        extenders: Extenders | None,
        publisher: Publisher,
        failures: FailureHandler,
        binding: BindingCycle,
        preemptor: Preemptor,
        *,
        detailed: bool = False,
    ) -> None:
        self._shared = shared
        self._profiles = profiles
        self._extenders = extenders
        self._publisher = publisher
        self._failures = failures
        self._binding = binding
        self._preemptor = preemptor
        self._detailed = detailed
        self._cycles = 0

    @property
    def may_wait(self) -> bool:
        """Whether a cycle may wait, for an extender or for victims, so that events have to be deferred."""
        return self._extenders is not None or not self._shared.cluster.features.scheduler_async_preemption

    async def run(self, queued: QueuedPodInfo) -> None:
        """Try a popped pod. Nothing may change the cluster meanwhile."""
        profile = self.profile_for(queued)
        if profile is None:
            return
        attempt = self.attempt(queued, profile)
        self._publisher.started(attempt)
        try:
            await self.search(attempt)
            self._publisher.decided(attempt)
            attempt.release()
            if attempt.outcome is not SCHEDULED:
                self._no_node(attempt)
            elif attempt.profile.engine.place(attempt):
                self.start_binding(attempt)
        except Exception as problem:
            self.unexpected(attempt, problem)
        if attempt.failure is not None:
            self.fail(attempt)

    def profile_for(self, queued: QueuedPodInfo) -> Profile | None:
        """The profile to try a popped pod with; None if the pod is skipped, which also finishes it."""
        pod = queued.info.pod
        profile = self._profiles.get(pod.scheduler_name)
        skipped = self._skipped(pod, profile)
        if profile is None or skipped is not None:
            self._publisher.skipped(pod, pod.scheduler_name, skipped or Skipped.UNKNOWN_PROFILE)
            self._shared.queue.done(pod.uid)
            return None
        return profile

    def attempt(self, queued: QueuedPodInfo, profile: Profile) -> Attempt:
        """A new attempt to schedule a pod."""
        detailed = self._detailed or self._shared.log.verbosity >= SCORES
        times_plugins = self._cycles % TIMED == 0
        self._cycles += 1
        attempt = Attempt(queued, profile, self._shared.clock, detailed=detailed, times_plugins=times_plugins)
        attempt.cycle = self._shared.queue.scheduling_cycle
        return attempt

    async def search(self, attempt: Attempt) -> None:
        """Let the engine decide. It also deletes the victims, unless that happens in the background."""
        in_background = self._shared.cluster.features.scheduler_async_preemption
        evict = None if in_background else partial(self._evict, attempt)
        await attempt.profile.engine.cycle(attempt, self._extenders, evict)
        self._publisher.searched(attempt)

    def _skipped(self, pod: api.Pod, profile: Profile | None) -> Skipped | None:
        if profile is None:
            return Skipped.UNKNOWN_PROFILE
        if pod.metadata.deletion_timestamp is not None:
            return Skipped.DELETING
        # An update from before its binding put it into the queue.
        return Skipped.PLACED if pod.metadata.uid in self._shared.cluster.pods else None

    def _no_node(self, attempt: Attempt) -> None:
        self.preempt(attempt)
        can_make_room = bool(attempt.profile.engine.framework.post_filter)
        attempt.failure = Failure.of_decision(attempt, can_make_room=can_make_room)

    def preempt(self, attempt: Attempt) -> None:
        """Begin to delete the victims in the background, if there are any."""
        made = attempt.post_filter
        if made is not None and made.victims and self._shared.cluster.features.scheduler_async_preemption:
            self._preemptor.start(attempt.profile, attempt.pod, made)

    async def _evict(self, attempt: Attempt, made: PostFilterAnswer) -> PostFilterAnswer:
        """Delete the victims now; an error becomes PostFilter's result, and no node is nominated."""
        result = made[0]
        assert result is not None
        problem = await self._preemptor.run(attempt.profile, attempt.pod, result)
        return made if problem is None else (None, error(f"preemption: {problem}"))

    def start_binding(self, attempt: Attempt) -> None:
        """Bind a pod that is assumed and reserved, and that Permit has allowed or put on hold."""
        if attempt.permit_timeouts:
            self._shared.waiting.add(WaitingPod(attempt.assumed, attempt.permit_timeouts))
        if attempt.to_activate:
            self._shared.queue.activate(list(attempt.to_activate.values()))
            attempt.to_activate.clear()
        self._binding.start(attempt)

    def fail(self, attempt: Attempt) -> None:
        """Put a pod back into the queue; `attempt.failure` says why."""
        try:
            self._failures.handle(attempt)
        finally:
            self._publisher.finished(attempt)

    def unexpected(self, attempt: Attempt, problem: Exception) -> None:
        """An error in our own code: the attempt fails, and the loop continues."""
        self._shared.log(ERROR, "Unexpected error in scheduling cycle", pod=attempt.pod, err=problem)
        if attempt.chosen and attempt.pod.uid in self._shared.cluster.assumed:
            attempt.profile.engine.take_back(attempt)
            self._shared.waiting.remove(attempt.pod.uid)
        attempt.refused(Failure(f"scheduling: {type(problem).__name__}: {problem}"))
