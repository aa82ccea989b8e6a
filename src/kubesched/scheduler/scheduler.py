"""The scheduler: everything put together, and the loop that takes one pod after the other.

One thread, one event loop. Scheduling cycles run back to back and yield now and then, so that watches, bindings and
whatever else is in the process get their turn.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from math import floor
from random import Random

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.base.log import ERROR, Log, SilentLog
from kubesched.client.protocol import Client
from kubesched.cluster.cluster import Cluster
from kubesched.cluster.pods import PodInfo
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.decision import Decision
from kubesched.engine.profiles import build_engines
from kubesched.framework.handle import Handle
from kubesched.framework.registry import Registry
from kubesched.queue.build import build_queue
from kubesched.scheduler.binding import BindingCycle
from kubesched.scheduler.context import Context, Profile
from kubesched.scheduler.cycle import SchedulingCycle
from kubesched.scheduler.debugger import CacheDebugger
from kubesched.scheduler.evaluations import EvaluationCounter
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.handlers import EventHandlers
from kubesched.scheduler.inbox import Inbox
from kubesched.scheduler.plugin_client import PluginClient
from kubesched.scheduler.points import Points
from kubesched.scheduler.ports import Extender, Metrics, Recorder, Uncounted, Unrecorded
from kubesched.scheduler.preemption import Preemptor
from kubesched.scheduler.sources import Sources
from kubesched.scheduler.statuses import StatusWriter
from kubesched.scheduler.tasks import Tasks
from kubesched.scheduler.waiting import WaitingPods

SLICE_SECONDS = 0.005
SLICE_CYCLES = 32
"""The loop yields after whichever comes first. On a virtual clock, where no time passes, only the number counts, and a
run can be repeated."""
UNSCHEDULABLE_FLUSH_SECONDS = 30
DRAIN_SECONDS = 10.0


class Scheduler:
    """Schedules the pods of its profiles. `run` it; `stop` ends it."""

    def __init__(
        self,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        client: Client,
        clock: Clock,
        random: Random,
        *,
        recorder: Recorder | None = None,
        metrics: Metrics | None = None,
        log: Log | None = None,
        extenders: Sequence[Extender] = (),
        choose: Callable[[Sequence[int]], int] | None = None,
        max_in_unschedulable: float = 300.0,
        features: Features = DEFAULT_FEATURES,
    ) -> None:
        self.config = config
        self.cluster = Cluster(features)
        self.log: Log = SilentLog() if log is None else log
        self.metrics: Metrics = Uncounted() if metrics is None else metrics
        self.recorder: Recorder = Unrecorded() if recorder is None else recorder
        self.on_decision: Callable[[Decision], None] | None = None
        """Told of every attempt that came to a decision, for whoever wants to explain or display it."""
        waiting, unsure = WaitingPods(), set[str]()

        def equip(handle: Handle) -> None:
            """Give a profile's plugins what they may use beside the cluster, before they are made."""
            profile = handle.profile_name
            handle.client = PluginClient(client, unsure)
            handle.clock = clock
            handle.log = self.log
            handle.recorder = lambda *event, **more: self.recorder.event(profile, *event, **more)
            handle.spawn = lambda work: self.context.tasks.spawn(work)
            handle.waiting_pods = waiting
            handle.activate = lambda pods: self.context.inbox.put(self.queue.activate, list(pods))

        engines = build_engines(config, registry, self.cluster, random, choose=choose, equip=equip)
        frameworks = {name: engine.framework for name, engine in engines.items()}
        self.queue = build_queue(
            frameworks,
            self.cluster,
            clock,
            extenders=bool(extenders),
            initial_backoff=config.pod_initial_backoff_seconds,
            max_backoff=config.pod_max_backoff_seconds,
            max_in_unschedulable=max_in_unschedulable,
            metrics=self.metrics,
            log=self.log,
        )
        self.context = Context(
            self.cluster,
            self.queue,
            client,
            clock,
            self.log,
            self.recorder,
            self.metrics,
            Inbox(self.log),
            Tasks(self.log),
            waiting,
            extenders,
            unsure=unsure,
        )
        self.profiles: dict[str, Profile] = {}
        for name, engine in engines.items():
            engine.timer = clock.monotonic
            engine.extended = any(each.is_filter or each.is_prioritizer for each in extenders)
            points = Points(engine.framework, clock, self.metrics, self.log)
            self.profiles[name] = Profile(name, engine, points, EvaluationCounter(engine, self.metrics))
        statuses = StatusWriter(self.context)
        failures = FailureHandler(self.context, statuses)
        self._binding = BindingCycle(self.context, failures, statuses)
        preemptor = Preemptor(self.context, statuses)
        self._cycle = SchedulingCycle(self.context, self.profiles, failures, self._binding, preemptor)
        self._handlers = EventHandlers(self.context, self.profiles)
        self._sources = Sources(client, self.deliver, clock, random, self.log)
        self._wake = asyncio.Event()
        self.queue.on_ready = self._wake.set
        self._stopping = False
        self._stopped = asyncio.Event()
        self.synced = asyncio.Event()
        """Set once everything that was in the cluster at the start has been taken in."""

    @property
    def binds_waiting(self) -> int:
        """Bind calls that have yet to be answered. Whoever has less urgent calls to make lets them go first."""
        return self._binding.calls

    # News

    def deliver(self, old: api.Object | None, new: api.Object | None) -> None:
        """An object has come, changed or gone. Taken in at once, or after the scheduling cycle under way."""
        self.context.inbox.put(self._handlers.handle, old, new)

    def debug(self) -> bool:
        """Log what is in the cache and the queue, and where that differs from what the informers have; whether it does
        not. Between the news of a binding's success and the watch's, a difference is no mistake."""
        debugger = CacheDebugger(self.context)
        debugger.dump()
        pods = (pod for pod in self._sources.objects(api.Pod) if pod.node_name or pod.scheduler_name in self.profiles)
        return debugger.compare(self._sources.objects(api.Node), pods)

    def pods(self) -> list[PodInfo]:
        """All pods that the API server was last heard to have, also those that are others' to schedule."""
        cluster = self.cluster
        return [cluster.pods.get(pod.uid) or cluster.classes.info(pod) for pod in self._sources.objects(api.Pod)]

    # Running

    def unsynced(self) -> list[str]:
        """The kinds that have yet to be listed."""
        return [str(each.resource) for each in self._sources.informers if not each.synced.is_set()]

    async def run(self, turn: Awaitable[object] | None = None) -> None:
        """Watch the cluster and schedule until `stop`. Bindings that have begun are seen through.

        With `turn`, watch from now on but schedule only when it has come: a replica that stands by has the whole
        picture when it takes over.
        """
        context = self.context
        sources = self._sources
        sources.start()
        housekeeping = asyncio.create_task(self._housekeeping(), name="scheduling queue housekeeping")
        try:
            if await self._unless_stopped(sources.synced()):
                self.synced.set()
                if turn is None or await self._unless_stopped(turn):
                    await self._loop()
        finally:
            housekeeping.cancel()
            for waiting in context.waiting:
                waiting.reject("", "the scheduler is stopping")
            await context.tasks.drain(DRAIN_SECONDS)
            await sources.stop()
            self._stopped.set()

    async def stop(self) -> None:
        """End `run` and wait for its end."""
        self._stopping = True
        self._wake.set()
        await self._stopped.wait()

    async def _unless_stopped(self, work: Awaitable[object]) -> bool:
        """Wait for something, but not when asked to stop; whether it came. If it failed instead, that is raised."""
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
        clock = self.context.clock
        while not self._stopping:
            began, cycles = clock.monotonic(), 0
            while cycles < SLICE_CYCLES and clock.monotonic() - began < SLICE_SECONDS:
                if not await self._one():
                    break
                cycles += 1
            else:
                await asyncio.sleep(0)
                continue
            self._wake.clear()
            if not self.queue.ready and not self._stopping:
                await self._wake.wait()

    async def _one(self) -> bool:
        """Try the next pod; False if there is none."""
        queued = self.queue.pop()
        if queued is None:
            return False
        try:
            if self.context.extenders:
                with self.context.inbox.held():
                    decision = await self._cycle.run_with_extenders(queued)
            else:
                decision = self._cycle.run(queued)
            self._report(decision)
        except Exception as problem:
            # What can fail has been seen to; this is for what cannot. The pod must not be lost for it.
            self.log(ERROR, "Unexpected error in the scheduling loop", pod=queued.pod, err=problem)
            self.queue.add_unschedulable_if_not_present(queued)
        return True

    def _report(self, decision: Decision | None) -> None:
        """Show a decision to whoever wants to see it; the pod is on its way whatever they make of it."""
        if decision is None or self.on_decision is None:
            return
        try:
            self.on_decision(decision)
        except Exception as problem:
            self.log(ERROR, "Unexpected error while a decision was reported", pod=decision.pod, err=problem)

    async def _housekeeping(self) -> None:
        """What has to be done from time to time, at the beginning of a second as upstream does."""
        clock, since_flush = self.context.clock, 0
        while True:
            now = clock.monotonic()
            await clock.sleep(floor(now) + 1 - now)
            self.context.inbox.put(self.queue.flush_backoff)
            since_flush += 1
            if since_flush >= UNSCHEDULABLE_FLUSH_SECONDS:
                since_flush = 0
                self.context.inbox.put(self.queue.flush_unschedulable)
            self.context.inbox.put(self._count)

    def _count(self) -> None:
        metrics, cluster = self.metrics, self.cluster
        metrics.cache_size("nodes", cluster.nodes.valid_count)
        metrics.cache_size("pods", len(cluster.pods))
        metrics.cache_size("assumed_pods", len(cluster.assumed))
