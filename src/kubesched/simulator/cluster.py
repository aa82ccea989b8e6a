"""A whole cluster in one process and on one clock: API, controllers, kubelets, and the scheduler of production.

Everything that could differ between two runs comes from one seed: names and UIDs that the API server makes, container
IDs, ties between nodes, the jitter of retries. No thread, no socket and no real time takes part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from random import Random
from typing import Protocol

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.base.clock import Clock
from kubesched.base.clocks import VirtualClock
from kubesched.client.protocol import Client
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.embedded import EmbeddedCluster
from kubesched.engine.decision import Decision
from kubesched.framework.registry import Registry
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.scheduler import Scheduler
from kubesched.simulator.settings import ClusterOptions
from kubesched.simulator.timeline import Timeline

HOST = "simulator"
START_SECONDS = 10.0


class OwnScheduler(Protocol):
    """A scheduler of one's own, to run in place of the one of production."""

    async def run(self) -> None:
        """Schedule until cancelled."""
        ...


Tell = Callable[[str], None]
"""Takes a line that is worth telling about what a scheduler of one's own does."""
MakeScheduler = Callable[[Client, Clock, Random, Tell], OwnScheduler]


class SimulatedCluster:
    """Started, it runs until it is stopped; `timeline` knows what has happened."""

    def __init__(
        self,
        clock: VirtualClock,
        seed: int,
        options: ClusterOptions,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        own_scheduler: MakeScheduler | None = None,
        watch: Callable[[Decision], None] | None = None,
    ) -> None:
        """`watch` is called with every decision of the scheduler, with all scores and reasons."""
        self.clock = clock
        self.api = ApiServer(clock=clock, random=Random(seed))
        self.embedded = EmbeddedCluster(self.api, options.for_cluster(seed))
        self.timeline = Timeline(clock.monotonic)
        self.scheduler: Scheduler | None = None
        self._client = DirectClient(self.api)
        self._tasks: list[asyncio.Task[None]] = []
        chance = Random(seed)
        self._own: OwnScheduler | None = None
        self._recorder: EventRecorder | None = None
        if own_scheduler is not None:
            self._own = own_scheduler(self._client, clock, chance, lambda text: self.timeline.note("scheduler", text))
            return
        if options.events:
            self._recorder = EventRecorder(
                self._client, clock, hostname=HOST, chance=Random(seed + 1), binds_waiting=self._binds_waiting
            )
        self.scheduler = Scheduler(config, registry, self._client, clock, chance, recorder=self._recorder)
        self._watch = watch
        self.scheduler.on_decision = self.timeline.on_decision if watch is None else self._watched
        for profile in self.scheduler.profiles.values():
            profile.engine.record = watch is not None

    def _watched(self, decision: Decision) -> None:
        assert self._watch is not None
        self.timeline.on_decision(decision)
        self._watch(decision)

    def _binds_waiting(self) -> int:
        return 0 if self.scheduler is None else self.scheduler.binds_waiting

    async def start(self) -> None:
        """Begin; returns when the scheduler has seen what there is. That moment is the scenario's time 0."""
        self.embedded.start()
        if self._own is not None:
            self._tasks.append(asyncio.create_task(self._own.run(), name="scheduler"))
        elif self.scheduler is not None:
            self._tasks.append(asyncio.create_task(self.scheduler.run(), name="scheduler"))
            if self._recorder is not None:
                self._tasks.append(asyncio.create_task(self._recorder.run(), name="events"))
            await self.clock.run_until(self.scheduler.synced.is_set, START_SECONDS)
        await self.clock.settle()
        self.timeline.follow(self.api)

    @property
    def crash(self) -> BaseException | None:
        """What ended the scheduler, if something did."""
        ended = [task for task in self._tasks if task.done() and not task.cancelled()]
        return next((problem for task in ended if (problem := task.exception()) is not None), None)

    def check(self) -> None:
        """Raise what ended the scheduler, if something did: a scenario must not wait for one that is no more."""
        if (problem := self.crash) is not None:
            raise problem

    async def stop(self) -> None:
        """End everything. What ended before is `crash`'s to tell."""
        if self.scheduler is not None:
            await self.scheduler.stop()
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        for task in running:
            with suppress(asyncio.CancelledError):
                await task
        await self.embedded.stop()
