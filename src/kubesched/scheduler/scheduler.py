"""The main loop, which schedules one pod at a time. `scheduler.build` builds a scheduler.

There is one thread and one event loop. Scheduling cycles run back to back and yield regularly, so that watches,
bindings and everything else in the process can run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from math import floor
from typing import TYPE_CHECKING, TypeVar

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.cluster.pods import PodInfo
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.queue.pods import QueuedPodInfo
from kubesched.scheduler.attempt import Profile
from kubesched.scheduler.debugger import CacheDebugger
from kubesched.scheduler.journal import PodCycle
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.sources import Sources
from kubesched.scheduler.statuses import StatusWriter

if TYPE_CHECKING:
    from kubesched.scheduler.extender import HTTPExtender

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"

SLICE_SECONDS = 0.005
SLICE_CYCLES = 32
"""The loop yields after either. On a virtual clock no time passes in a cycle, so only the number counts, and runs
are reproducible.
"""
UNSCHEDULABLE_FLUSH_SECONDS = 30
DRAIN_SECONDS = 10.0


class Scheduler:
    """Schedules the pods of its profiles. `run` it; `stop` ends it."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        shared: Shared,
        profiles: Mapping[str, Profile],
        cycle: PodCycle,
        sources: Sources,
        wake_up: asyncio.Event,
        statuses: StatusWriter,
        extenders: Sequence[HTTPExtender] = (),
    ) -> None:
        """`wake_up` is set whenever the queue may have a pod. The extenders are closed at the end."""
        self.config = config
        self.shared = shared
        self.cluster = shared.cluster
        self.queue = shared.queue
        self.log = shared.log
        self.metrics = shared.metrics
        self.recorder = shared.recorder
        self.profiles = profiles
        self._cycle = cycle
        self._sources = sources
        self._wake = wake_up
        self._statuses = statuses
        self._extenders = extenders
        self._stopping = False
        self._stopped = asyncio.Event()
        self._next_housekeeping: asyncio.TimerHandle | None = None
        self._next_second = 0
        self._started = 0
        self.synced = asyncio.Event()
        """Set once everything that was in the cluster at the start has been handled."""

    def debug(self) -> bool:
        """Log the cache and the queue, and where they differ from the informers; returns whether they agree. A
        difference between a successful binding and its watch event is normal.
        """
        debugger = CacheDebugger(self.shared)
        debugger.dump()
        pods = (pod for pod in self._sources.objects(api.Pod) if pod.node_name or pod.scheduler_name in self.profiles)
        return debugger.compare(self._sources.objects(api.Node), pods)

    def known(self, kind: type[O]) -> list[O]:
        """All objects of a kind that the API server last reported."""
        return self._sources.objects(kind)

    def pods(self) -> list[PodInfo]:
        """All pods that the API server last reported, including those of other schedulers."""
        cluster = self.cluster
        return [cluster.pods.get(pod.uid) or cluster.classes.info(pod) for pod in self._sources.objects(api.Pod)]

    # Running

    def unsynced(self) -> list[str]:
        """The kinds that have yet to be listed."""
        return [str(each.resource) for each in self._sources.informers if not each.synced.is_set()]

    async def run(self, turn: Awaitable[object] | None = None) -> None:
        """Watch the cluster and schedule until `stop`. Bindings in progress are completed.

        With `turn`, watch at once but schedule only after it is done: a standby replica knows the whole cluster
        when it takes over.
        """
        shared = self.shared
        sources = self._sources
        sources.start()
        self._started = floor(shared.clock.monotonic())
        self.queue.follow_waiting(self._plan_housekeeping)
        self._plan_housekeeping()
        try:
            if await self._unless_stopped(sources.synced()):
                self.synced.set()
                if turn is None or await self._unless_stopped(turn):
                    await self._loop()
        finally:
            self._stopping = True
            if self._next_housekeeping is not None:
                self._next_housekeeping.cancel()
            for waiting in shared.waiting:
                waiting.reject("", "the scheduler is stopping")
            self._statuses.drop_waiting()
            await shared.tasks.drain(DRAIN_SECONDS)
            await sources.stop()
            await self._close()
            self._stopped.set()

    async def _close(self) -> None:
        """Close the plugins, and the extenders that were made for this scheduler."""
        for profile in self.profiles.values():
            for problem in profile.engine.framework.close():
                self.log(ERROR, "Failed to close plugin", plugin=problem.plugin, err=problem, where=problem.place)
        for extender in self._extenders:
            await extender.close()

    async def stop(self) -> None:
        """End `run` and wait for its end."""
        self._stopping = True
        self._wake.set()
        await self._stopped.wait()

    async def _unless_stopped(self, work: Awaitable[object]) -> bool:
        """Wait for something, or until `stop`; returns whether it completed. Its exception is raised."""
        waiting = asyncio.ensure_future(work)
        try:
            while not self._stopping and not waiting.done():
                wake = asyncio.create_task(self._wake.wait())
                try:
                    await asyncio.wait((waiting, wake), return_when=asyncio.FIRST_COMPLETED)
                finally:
                    wake.cancel()
                if not self._stopping:
                    self._wake.clear()
            if not self._stopping:
                waiting.result()
            return not self._stopping
        finally:
            waiting.cancel()

    async def _loop(self) -> None:
        clock = self.shared.clock
        while not self._stopping:
            began, cycles = clock.monotonic(), 0
            while cycles < SLICE_CYCLES and clock.monotonic() - began < SLICE_SECONDS:
                if not await self._try(self.queue.pop()):
                    break
                cycles += 1
            else:
                await asyncio.sleep(0)
                continue
            self._wake.clear()
            if not self.queue.ready and not self._stopping:
                await self._wake.wait()

    async def _try(self, queued: QueuedPodInfo | None) -> bool:
        """Try a pod; False if there is none."""
        if queued is None:
            return False
        try:
            if self._cycle.may_wait:
                with self.shared.inbox.held():
                    await self._cycle.run(queued)
            else:
                await self._cycle.run(queued)
        except Exception as problem:
            # All expected failures are handled. After an unexpected one, the pod must still not be lost.
            self.log(ERROR, "Unexpected error in the scheduling loop", pod=queued.pod, err=problem)
            queued.rejected_by()
            self.queue.add_unschedulable_if_not_present(queued)
        return True

    # Being replayed: the caller does what `run` does, step by step

    @property
    def kinds(self) -> list[type[api.Object]]:
        """All kinds that this scheduler watches."""
        return [each.kind for each in self._sources.informers]

    def receive(self, old: api.Object | None, new: api.Object | None) -> None:
        """Handle an object that was created (no `old`), changed, or deleted (no `new`)."""
        self._sources.deliver(old, new)

    async def try_pod(self, uid: str) -> bool:
        """Try this pod next; False if it does not wait."""
        return await self._try(self.queue.pop_pod(uid))

    async def close(self) -> None:
        """End without having run: cancel bindings, close plugins."""
        await self.shared.tasks.drain(0)
        await self._close()

    # Housekeeping

    def _plan_housekeeping(self) -> None:
        """Plan it for the start of the next second in which something may be due. Upstream does it every second."""
        now = self.shared.clock.monotonic()
        second = floor(now) + 1
        if not self.metrics.is_sampled and not self.queue.backing_off:
            if not self.queue.unschedulable:
                return
            second += (self._started - second) % UNSCHEDULABLE_FLUSH_SECONDS
        if self._next_housekeeping is not None:
            if self._next_second <= second:
                return
            self._next_housekeeping.cancel()
        if not self._stopping:
            self._next_second = second
            self._next_housekeeping = asyncio.get_running_loop().call_later(second - now, self._keep_house)

    def _keep_house(self) -> None:
        self._next_housekeeping = None
        inbox = self.shared.inbox
        inbox.put(self.queue.flush_backoff)
        if (self._next_second - self._started) % UNSCHEDULABLE_FLUSH_SECONDS == 0:
            inbox.put(self.queue.flush_unschedulable)
        inbox.put(self._count)
        self._plan_housekeeping()

    def _count(self) -> None:
        metrics, cluster = self.metrics, self.cluster
        metrics.tidy()
        metrics.cache_size("nodes", cluster.nodes.valid_count)
        metrics.cache_size("pods", len(cluster.pods))
        metrics.cache_size("assumed_pods", len(cluster.assumed))
