"""One scheduler process of the simulation: the production scheduler with leader election, as the daemon runs it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Container, Mapping, Sequence
from contextvars import Context
from random import Random
from typing import Any, cast

from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.base.log import ERROR
from kubesched.client.faults import Faults
from kubesched.client.leader import ElectionSettings, LeaderElector
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.framework.extender import Extender
from kubesched.framework.registry import Registry
from kubesched.plugins.dynamic_resources.devices import Devices
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.subscribers.publisher import Subscriber
from kubesched.scheduler.urgent_calls import UrgentCalls
from kubesched.torture.network import Met, NetworkClient, Server
from kubesched.torture.processes import ProcessClock, ProcessLoop, ProcessState, SimulatedProcess

ELECTION = ElectionSettings()
NEVER = 100_000.0
"""Seconds after which a pod is tried although nothing woke it. Not in a simulation: a missed event must show."""
RESTART_SECONDS = 3.0


class ReplicaLog:
    """Keeps the errors of one process, and the last lines of everything."""

    verbosity = 2

    def __init__(self, report: Callable[[str, str], None]) -> None:
        self._report = report

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        if level == ERROR and message.startswith("Unexpected"):
            problem = fields.get("err")
            self._report("unexpected error", f"{message}: {type(problem).__name__}: {problem}")


class Surroundings:
    """What every scheduler process of a world is built with."""

    def __init__(
        self,
        loop: ProcessLoop,
        clock: ProcessClock,
        server: Server,
        met: Met,
        outside: Context,
        config: KubeSchedulerConfiguration,
        registry: Callable[[], Registry],
        features: Features,
        extenders: Callable[[], Sequence[Extender]],
        report: Callable[[str, str], None],
    ) -> None:
        self.loop = loop
        self.clock = clock
        self.server = server
        self.met = met
        self.outside = outside
        self.config = config
        self.registry = registry
        self.features = features
        self.extenders = extenders
        self.report = report


class Replica:
    """A place where a scheduler process runs, and runs again after it ended."""

    def __init__(self, number: int, around: Surroundings, seed: int) -> None:
        self.name = f"scheduler-{number}"
        self.around = around
        self.faults = Faults(Random(seed * 1000 + number))
        self.lives = 0
        self.process: SimulatedProcess = SimulatedProcess(self.name, around.loop)
        self.rate = 1.0
        self.buried: list[SimulatedProcess] = []
        self.scheduler: Scheduler | None = None
        self.elector: LeaderElector | None = None
        self.client: NetworkClient | None = None
        self.subscriber: Callable[[Replica], Subscriber] | None = None
        self.on_sent: Callable[[Replica, str, tuple[Any, ...]], None] | None = None
        self.stopping = False
        self._seed = seed * 1000 + number
        self._ended = asyncio.Event()

    @property
    def is_up(self) -> bool:
        """Whether its process runs, and is built."""
        return self.process.state is ProcessState.RUNNING and self.scheduler is not None

    @property
    def leads(self) -> bool:
        """Whether the process believes that it is the leader, by its own clock."""
        elector = self.elector
        return elector is not None and self.process.run(elector.is_leader)

    @property
    def has_terminating_pods(self) -> bool:
        """Whether the scheduler counts pods that are being deleted."""
        return self.scheduler is not None and bool(self.scheduler.cluster.terminating)

    def relies_on_undone(self, pods: Container[str], claims: Mapping[str, int]) -> bool:
        """Whether the scheduler counts on a write that a restored backup has undone: on the binding of one of these
        pods, or on a claim in a newer version than this one.

        So it is if the restore came before the watch had delivered the write. Only a restart helps, as with
        kube-scheduler.
        """
        if self.scheduler is None:
            return False
        cluster = self.scheduler.cluster
        assumed = cluster.share(Devices).ledger._assumed
        return any(uid in pods for uid in cluster.assumed) or any(
            int(claim.metadata.resource_version) > claims.get(key, 0) for key, claim in assumed.items()
        )

    def start(self) -> None:
        """Start a new process."""
        self.lives += 1
        self.process = SimulatedProcess(f"{self.name}.{self.lives}", self.around.loop, self.rate)
        self.process.start(self._main(), "main")

    def kill(self) -> None:
        """Kill the process; `revive` starts another."""
        self.process.kill()
        self.buried.append(self.process)
        self.scheduler = self.elector = None

    # --- inside the process -------------------------------------------------------------------------------------------

    async def _main(self) -> None:
        around = self.around
        chance = Random(self._seed * 1000 + self.lives)
        outside = around.outside

        def report(invariant: str, text: str) -> None:
            around.report(invariant, f"{self.name}: {text}")

        elections = NetworkClient(
            around.server, self.faults, Random(chance.random()), outside, around.met, report=report
        )
        elector = LeaderElector(
            elections,
            self._lead,
            ELECTION,
            identity=self.process.name,
            clock=around.clock,
            chance=Random(chance.random()),
        )
        client = NetworkClient(
            around.server,
            self.faults,
            Random(chance.random()),
            outside,
            around.met,
            may_write=elector.is_leader,
            on_sent=lambda name, args: self.on_sent and self.on_sent(self, name, args),
            report=report,
        )
        log = ReplicaLog(around.report)
        calls = UrgentCalls()
        recorder = EventRecorder(
            client, around.clock, hostname=self.name, urgent_calls=calls, log=log, chance=Random(chance.random())
        )
        subscribers = [] if self.subscriber is None else [self.subscriber(self)]
        scheduler = build_scheduler(
            around.config,
            around.registry(),
            client,
            around.clock,
            Random(chance.random()),
            recorder=recorder,
            log=log,
            subscribers=subscribers,
            extenders=around.extenders() or None,
            may_write=elector.is_leader,
            urgent_calls=calls,
            max_in_unschedulable=NEVER,
            features=around.features,
        )
        self.scheduler, self.elector, self.client = scheduler, elector, client
        self._leading = asyncio.Event()
        self.process.start(recorder.run(), "events")
        self._running = self.process.start(scheduler.run(self.process.start(self._leading.wait(), "turn")), "scheduler")
        candidacy = self.process.start(elector.run(), "candidate")
        await asyncio.wait((candidacy, self._running), return_when=asyncio.FIRST_COMPLETED)
        # As the daemon: a process that lost the lease ends, and its supervisor starts another.
        if self._running.done() and not self._running.cancelled() and self._running.exception() is not None:
            around.report("the scheduler ended", repr(self._running.exception()))
        around.met.note("lease lost", "torture.replica")
        self.process.run(lambda: around.loop.call_later(0.0, self._exit))

    def _exit(self) -> None:
        if self.process.state is ProcessState.RUNNING:
            self.kill()
            self.around.outside.copy().run(self.around.loop.call_later, RESTART_SECONDS, self.revive)

    def revive(self) -> None:
        """Start the process again, if it is dead."""
        if self.process.state is ProcessState.DEAD and not self.stopping:
            self.start()

    async def _lead(self) -> None:
        self._leading.set()
        try:
            await asyncio.shield(self._running)
        except asyncio.CancelledError:
            self._running.cancel()
            assert self.scheduler is not None
            await self.scheduler.shared.tasks.drain(0)
            raise

    # --- what it has seen ---------------------------------------------------------------------------------------------

    def seen(self, kind: type[api.Object]) -> list[Any]:
        """The objects of a kind as the process knows them."""
        assert self.scheduler is not None
        return self.scheduler.known(kind)

    def seen_pod(self, pod: api.Pod) -> api.Pod | None:
        """A pod as the process knows it."""
        assert self.scheduler is not None
        informer = next(each for each in self.scheduler._sources.informers if each.kind is api.Pod)
        known = cast("api.Pod | None", informer.store.get(pod.key))
        return known if known is not None and known.uid == pod.uid else None
