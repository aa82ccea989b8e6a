"""A whole cluster in one process, on one clock: API server, controllers, kubelets and the production scheduler.

One seed determines everything that could differ between two runs: generated names and UIDs, container IDs, tie-breaking
between nodes, retry jitter. There are no threads and no sockets, and real time plays no part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from random import Random
from typing import Protocol

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.inprocess.direct import DirectClient
from kubesched.base.clock import Clock
from kubesched.base.clocks import VirtualClock
from kubesched.client.faults import Faults, FaultyClient
from kubesched.client.protocol import Client
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.contrib.crds import DEFINITIONS
from kubesched.embedded import EmbeddedCluster
from kubesched.engine.decision import Decision
from kubesched.framework.registry import Registry
from kubesched.plugins import OFFERED
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.journal import Journal
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.subscribers.publisher import OnDecision, Subscriber
from kubesched.scheduler.urgent_calls import UrgentCalls
from kubesched.simulator.autoscaler import Autoscaler
from kubesched.simulator.settings import ClusterOptions, ReplayMode
from kubesched.simulator.timeline import Timeline

HOST = "simulator"
START_SECONDS = 10.0


class CustomScheduler(Protocol):
    """A custom scheduler that replaces the production scheduler."""

    async def run(self) -> None:
        """Schedule until cancelled."""
        ...


LogLine = Callable[[str], None]
"""Adds a line from a custom scheduler to the timeline."""
MakeScheduler = Callable[[Client, Clock, Random, LogLine], CustomScheduler]


class TieChooser(Subscriber):
    """Breaks ties between nodes for the pod whose attempt has started."""

    row_of: Mapping[str, int] = {}
    """The rows of nodes; set when the scheduler has been built."""

    def choose(self, rows: Sequence[int]) -> int:
        """One of these rows."""
        raise NotImplementedError


class SimulatedCluster:
    """Runs from `start` to `stop`. `timeline` records what happens."""

    def __init__(
        self,
        clock: VirtualClock,
        seed: int,
        options: ClusterOptions,
        config: KubeSchedulerConfiguration,
        registry: Registry,
        custom_scheduler: MakeScheduler | None = None,
        watch: Callable[[Decision], None] | None = None,
        faults: Faults | None = None,
        replay: ReplayMode | None = None,
        follow: TieChooser | None = None,
        workloads: bool = True,
        journal: Journal | None = None,
    ) -> None:
        """`watch` is called with every decision of the scheduler, with all scores and reasons.

        `faults` disturb the calls of the scheduler; controllers, kubelets and scenario are not affected. If all is
        replayed as recorded, nothing else runs. `follow` breaks ties. Without `workloads`, their controllers are off.
        A `journal` notes what the scheduler's decisions depend on.
        """
        self._replay = replay
        self.clock = clock
        self.seed = seed
        self.api = ApiServer(clock=clock, random=Random(seed))
        self.embedded = EmbeddedCluster(self.api, options.for_cluster(seed, workloads=workloads))
        self.timeline = Timeline(clock.monotonic)
        self.scheduler: Scheduler | None = None
        groups = options.node_groups
        self._autoscaler = Autoscaler(groups, self.api, clock, self.timeline, seed + 2) if groups else None
        direct = DirectClient(self.api)
        self._client: Client = direct if faults is None else FaultyClient(direct, faults)
        self._tasks: list[asyncio.Task[None]] = []
        chance = Random(seed)
        self._custom: CustomScheduler | None = None
        self._recorder: EventRecorder | None = None
        if replay is ReplayMode.RECORDED:
            return
        if custom_scheduler is not None:
            self._custom = custom_scheduler(
                self._client, clock, chance, lambda text: self.timeline.note("scheduler", text)
            )
            return
        calls = UrgentCalls()
        if options.events:
            self._recorder = EventRecorder(
                self._client, clock, hostname=HOST, chance=Random(seed + 1), urgent_calls=calls
            )
        observers = [OnDecision(each) for each in (self.timeline.on_decision, watch) if each is not None]
        self.scheduler = build_scheduler(
            config,
            registry,
            self._client,
            clock,
            chance,
            recorder=self._recorder,
            urgent_calls=calls,
            subscribers=[*observers, *((follow,) if follow is not None else ())],
            detailed=watch is not None,
            choose=None if follow is None else follow.choose,
            journal=journal,
        )
        if any(name in OFFERED for profile in config.profiles for name in profile.plugins.names()):
            for definition in DEFINITIONS:
                self.api.bootstrap.define(definition)
        if follow is not None:
            follow.row_of = self.scheduler.cluster.nodes.row_of

    async def start(self, fill: Callable[[], None] | None = None) -> None:
        """Start. Returns when the scheduler's caches are filled; that moment is the scenario's time 0.

        `fill` stores the objects that exist at the start. The scheduler starts after it, and knows all of them when it
        decides about the first pod.
        """
        if self._replay is not ReplayMode.RECORDED:
            self.embedded.start()
            await self.clock.settle()
        self.timeline.follow(self.api)
        if fill is not None:
            fill()
        if self._custom is not None:
            self._tasks.append(asyncio.create_task(self._custom.run(), name="scheduler"))
        elif self.scheduler is not None:
            self._tasks.append(asyncio.create_task(self.scheduler.run(), name="scheduler"))
            if self._recorder is not None:
                self._tasks.append(asyncio.create_task(self._recorder.run(), name="events"))
            await self.clock.run_until(self.scheduler.synced.is_set, START_SECONDS)
        await self.clock.settle()
        if self._autoscaler is not None:
            self._tasks.append(asyncio.create_task(self._autoscaler.run(), name="autoscaler"))

    @property
    def cost(self) -> float:
        """The price of the nodes of node groups so far."""
        return 0.0 if self._autoscaler is None else self._autoscaler.cost()

    @property
    def crash(self) -> BaseException | None:
        """The exception that ended the scheduler, if any."""
        for task in self._tasks:
            if task.done() and not task.cancelled() and (problem := task.exception()) is not None:
                return problem
        return None

    def check(self) -> None:
        """Raise the exception that ended the scheduler, if any. A scenario must not wait for a dead scheduler."""
        if (problem := self.crash) is not None:
            raise problem

    async def stop(self) -> None:
        """Stop everything. Errors of tasks that ended earlier are in `crash`."""
        if self.scheduler is not None:
            await self.scheduler.stop()
        running = [task for task in self._tasks if not task.done()]
        for task in running:
            task.cancel()
        for task in running:
            with suppress(asyncio.CancelledError):
                await task
        await self.embedded.stop()
