"""Runs the daemon: starts its tasks, stops them in order, and determines the exit code.

The HTTPS port is served while the informers sync: probes get answers early, and the first lists do not wait for the
server, which takes a third of the time to import. Informers also run on a replica that is not the leader, unless the
configuration delays them. SIGTERM stops scheduling, waits for bindings in progress,
releases the lease, then closes the port. A lost lease ends everything at once: another replica is already scheduling.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
from collections.abc import Callable, Iterable
from contextlib import AsyncExitStack, suppress
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kubesched.base.clocks import SystemClock
from kubesched.base.log import ERROR
from kubesched.client.connection import Connection
from kubesched.client.http import HttpClient
from kubesched.client.leader import Ended, LeaderElector
from kubesched.client.lease_candidate import LeaseCandidate
from kubesched.client.pool import MayWrite
from kubesched.client.whole import REPLACED, WholeObjects
from kubesched.config import dump
from kubesched.daemon import garbage_collection
from kubesched.daemon.flags.gates import known_gates
from kubesched.daemon.flags.options import CURRENT
from kubesched.daemon.hanging_plugins import HangingPlugins
from kubesched.daemon.history import DaemonHistory
from kubesched.daemon.plugin_reloading import plugins_changed
from kubesched.daemon.process_metrics import ProcessMetrics
from kubesched.daemon.serving.auth.client_authorities import Authorities
from kubesched.daemon.serving.preparation import authorities_of
from kubesched.daemon.serving.tls.context import ServingError
from kubesched.daemon.setup import Setup, SetupError
from kubesched.daemon.stalls import StallWatch
from kubesched.daemon.version import short_version
from kubesched.framework.registry import PluginSource
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.extender_settings import passed_on_whole
from kubesched.scheduler.journal import Journal
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.resource_metrics import resource_metrics
from kubesched.scheduler.urgent_calls import UrgentCalls
from kubesched.snapshots.journal_file import JournalFile

if TYPE_CHECKING:
    from kubesched.daemon.serving.pages.endpoints import Served
    from kubesched.daemon.serving.pages.health import Check
    from kubesched.daemon.serving.server import SecureServer

DONE, FAILED = 0, 1
SERVER = ("kubesched.daemon.serving.from_flags", "kubesched.daemon.serving.pages.scheduling")
"""Modules that load the HTTP server and everything it serves."""
RESTART = -1
"""Not an exit code: plugins or configuration have changed, and the caller should start a new process."""
REVIEW_QPS, REVIEW_BURST, REVIEW_SECONDS = 200.0, 400, 10.0
COUNT_SECONDS = 60.0
EVENT_SECONDS = 5.0
"""How long to wait for the last events to be written."""


class Process:
    """One run of the daemon."""

    def __init__(
        self,
        setup: Setup,
        plugins: Iterable[PluginSource] = (),
        when_serving: Callable[[], None] | None = None,
        when_stopping: Callable[[], None] | None = None,
    ) -> None:
        """`when_stopping` is called at SIGTERM, not when the run ends to begin anew."""
        self._setup = setup
        self._plugins = plugins
        self._when_serving = when_serving
        self._when_stopping = when_stopping
        self._restart = False
        self._log = setup.log
        self._clock = SystemClock()
        self._stopping = asyncio.Event()
        self._leading = asyncio.Event()
        self._tasks: list[asyncio.Task[Any]] = []
        self._server: SecureServer | None = None

    async def run(self) -> int:
        """Run until the end and return the exit code. Raises `SetupError` for problems found only now."""
        async with AsyncExitStack() as stack:
            self._stack = stack
            try:
                self._build()
            except (OSError, ValueError) as problem:
                # For example an extender's certificates that cannot be read.
                raise SetupError([str(problem)]) from None
            self._listen_for_signals()
            self._log(0, "Starting Kubernetes Scheduler", version=short_version())
            try:
                authorities = await self._authorities()
            except ServingError as problem:
                raise SetupError([str(problem)]) from None
            if self._hanging.is_needed:
                self._hanging.start()
                stack.callback(self._hanging.stop)
            self._stalls.start()
            stack.callback(self._stalls.stop)
            self._spawn(self._recorder.run(), "event recorder")
            self._spawn(self._settle(), "garbage")
            self._spawn(self._count_requests(), "metrics")
            self._spawn(self._log.flush_every(self._setup.options.logs.log_flush_frequency.seconds), "log flusher")
            if self._setup.options.plugins.plugin_dir:
                self._spawn(self._watch_plugins(), "plugin folders")
            serving = asyncio.create_task(self._serve(authorities), name="serving")
            serving.add_done_callback(self._stop_if_failed)
            try:
                code = await self._schedule()
                if serving.done():
                    serving.result()
                return RESTART if self._restart and code == DONE else code
            except ServingError as problem:
                raise SetupError([str(problem)]) from None
            finally:
                serving.cancel()
                await asyncio.wait((serving,))
                if self._server is not None:
                    await self._server.stop()
                if self._setup.socket is not None:
                    self._setup.socket.close()  # the server may not have come to it
                await self._cancel_all()

    # --- building -----------------------------------------------------------------------------------------------------

    def _build(self) -> None:
        setup = self._setup
        config = setup.config
        self._metrics = ProcessMetrics(setup.metrics)
        self._stalls = StallWatch(setup.metrics)
        for name, gate in known_gates().items():
            setup.metrics.feature(name, gate.stage.upper().replace("GA", ""), setup.options.gates.enabled(name))
        passed_on = passed_on_whole(config.extenders, {each.scheduler_name for each in config.profiles})
        whole = WholeObjects({**REPLACED, **passed_on})
        client = self._client(setup.connection, "scheduler", whole, self._may_write)
        events = self._client(setup.connection)
        calls = UrgentCalls()
        self._recorder = EventRecorder(events, self._clock, log=self._log, urgent_calls=calls)
        lost = "Number of events that were not written: the queue was full, or the API server did not take them."
        setup.metrics.count_from(
            "kubesched_events_lost_total", lost, lambda: self._recorder.dropped + self._recorder.abandoned
        )
        self._history = DaemonHistory(setup.options.history, client, self._clock, self._log)
        self._stack.push_async_callback(self._history.close)
        if (writer := self._history.writer) is not None:
            missing = "Number of attempts that are missing in the decision log."
            setup.metrics.count_from(
                "kubesched_decision_log_lost_total", missing, lambda: writer.dropped + writer.failed
            )
        journal = self._journal(setup.options.history.record)
        self._scheduler = build_scheduler(
            config,
            setup.registry,
            client,
            self._clock,
            random.Random(),
            recorder=self._recorder,
            metrics=setup.metrics,
            log=self._log,
            subscribers=self._history.subscribers,
            explain=self._history.explain,
            raw_objects=whole,
            may_write=self._may_write,
            urgent_calls=calls,
            journal=journal,
            features=setup.options.gates.features,
            max_in_unschedulable=setup.options.deprecated.pod_max_in_unschedulable_pods_duration.seconds,
        )
        if self._recording is not None:
            self._recording.is_synced = self._scheduler.synced.is_set
        self._hanging = HangingPlugins(
            [plugin for profile in self._scheduler.profiles.values() for plugin in profile.engine.framework.plugins],
            setup.options.plugins.plugin_time_limit.seconds,
            self._log,
            setup.options.plugins.plugin_dir,
        )
        self._elector: LeaderElector | None = None
        self._candidate: LeaseCandidate | None = None
        if setup.election is not None:
            self._metrics.leads(False)
            election_client = self._client(setup.connection, "leader-election")
            self._elector = LeaderElector(
                election_client,
                self._lead,
                setup.election,
                component=config.profiles[0].scheduler_name,
                on_new_leader=self._new_leader,
                clock=self._clock,
                log=self._log,
            )
            if setup.election.coordinated:
                self._candidate = LeaseCandidate(
                    election_client,
                    self._elector.identity,
                    f"{CURRENT}.0",
                    self._clock,
                    lease=setup.election.name,
                    log=self._log,
                )

    def _journal(self, path: str) -> Journal | None:
        """The journal that --record asks for."""
        self._recording: JournalFile | None = None
        if not path:
            return None
        setup = self._setup
        try:
            file = JournalFile(Path(path), setup.config, setup.options.gates.features, self._clock, self._log)
        except OSError as problem:
            raise ValueError(f"--record: {path} cannot be written: {problem.strerror}") from None
        self._recording = file
        self._stack.push_async_callback(asyncio.to_thread, file.close)
        return Journal(file, self._clock, random.Random())

    def _client(
        self,
        connection: Connection,
        agent: str = "",
        whole: WholeObjects | None = None,
        may_write: MayWrite | None = None,
    ) -> HttpClient:
        limits = self._setup.config.client_connection
        client = HttpClient(
            connection,
            qps=limits.qps,
            burst=limits.burst,
            agent=agent,
            clock=self._clock,
            observe=self._metrics.request,
            whole=whole,
            may_write=may_write,
        )
        self._stack.push_async_callback(client.close)
        return client

    def _may_write(self) -> bool:
        """Whether the lease is still held. Called just before each write: this process may have been suspended."""
        return self._elector is None or self._elector.is_leader()

    def _spawn(self, work: object, name: str) -> None:
        self._tasks.append(asyncio.create_task(work, name=name))  # type: ignore[arg-type]  # coroutines, all of them

    async def _cancel_all(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # --- serving ------------------------------------------------------------------------------------------------------

    async def _authorities(self) -> Authorities | None:
        """The authorities of client certificates, if anything is served."""
        setup = self._setup
        if setup.socket is None or setup.tls is None:
            return None
        self._authentication = self._reviewer(setup.authentication)
        return await authorities_of(setup.options, self._authentication, self._log)

    async def _serve(self, authorities: Authorities | None) -> None:
        """Start to serve."""
        if authorities is not None:
            # In a thread: meanwhile the first lists are on their way.
            await asyncio.to_thread(lambda: [import_module(each) for each in SERVER])
            self._server = self._make_server(authorities)
            self._spawn(authorities.watch_for_changes(self._clock), "client authorities")
            await self._server.start()
        if self._when_serving is not None:
            self._when_serving()

    def _make_server(self, authorities: Authorities) -> SecureServer:
        from kubesched.daemon.serving import from_flags
        from kubesched.daemon.serving.pages.endpoints import Endpoints

        setup = self._setup
        assert setup.socket is not None
        assert setup.tls is not None
        guard = from_flags.make_guard(
            Endpoints(self._served()),
            setup.options,
            authorities,
            self._authentication,
            self._reviewer(setup.authorization),
            self._clock,
            self._log,
            setup.metrics,
        )
        return from_flags.secure_server(guard, setup.socket, setup.tls, authorities, self._clock, self._log)

    def _stop_if_failed(self, serving: asyncio.Task[None]) -> None:
        if not serving.cancelled() and serving.exception() is not None:
            self._stopping.set()

    def _reviewer(self, connection: Connection | None) -> HttpClient | None:
        if connection is None:
            return None
        client = HttpClient(connection, qps=REVIEW_QPS, burst=REVIEW_BURST, timeout=REVIEW_SECONDS, clock=self._clock)
        self._stack.push_async_callback(client.close)
        return client

    def _served(self) -> Served:
        from kubesched.daemon.serving.pages import health
        from kubesched.daemon.serving.pages.endpoints import Served
        from kubesched.daemon.serving.pages.scheduling import SchedulingPages

        setup, scheduler = self._setup, self._scheduler
        gates = setup.options.gates
        plugins = health.plugin_check(self._hanging.problem)
        dogs: list[Check] = []
        if self._elector is not None:
            dogs = [health.watchdog(self._elector, self._elector.settings.name)]
        return Served(
            log=self._log,
            config=lambda: dump.to_builtins(setup.config),
            metrics=setup.metrics.render,
            reset_metrics=setup.metrics.reset,
            resource_metrics=self._resource_metrics,
            set_verbosity=self._log.set_verbosity,
            flags=setup.options.shown() if gates.enabled("ComponentFlagz") else None,
            statusz=gates.enabled("ComponentStatusz"),
            profiling=setup.config.enable_profiling,
            healthz=dogs,
            readyz=[
                *dogs,
                health.shutdown(self._stopping.is_set),
                health.handler_sync(scheduler.synced.is_set),
                plugins,
            ],
            more=() if self._history.history is None else SchedulingPages(scheduler, self._history.history).routes(),
            alone=[health.PING, health.log_check(self._log.flush), health.informer_sync(scheduler.unsynced)],
        )

    def _resource_metrics(self) -> str:
        return resource_metrics(self._scheduler.pods()) if self._leading.is_set() else ""

    # --- scheduling ---------------------------------------------------------------------------------------------------

    async def _schedule(self) -> int:
        try:
            if self._elector is None:
                self._leading.set()
                await self._until_stopped(self._scheduler.run())
                code = DONE
            else:
                code = await self._as_candidate(self._elector)
        except Exception as problem:
            self._log(ERROR, "The scheduler has failed", err=problem)
            return FAILED
        if code == DONE:
            await self._recorder.flush(EVENT_SECONDS)
            self._log(0, "Requested to terminate, exiting")
        return code

    async def _as_candidate(self, elector: LeaderElector) -> int:
        if not self._setup.config.delay_cache_until_active:
            turn = asyncio.create_task(self._leading.wait(), name="waiting for the lease")
            self._tasks.append(turn)
            self._running = asyncio.create_task(self._scheduler.run(turn), name="scheduler")
        if self._candidate is not None:
            period = elector.settings.retry_period
            self._tasks.append(asyncio.create_task(self._candidate.run(period), name="lease candidate"))
        candidacy = asyncio.create_task(elector.run(), name="leader election")
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((candidacy, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        if candidacy.done():
            ended = await candidacy
            if ended is Ended.LOST:
                self._log(ERROR, "Leaderelection lost")
                return FAILED
            return DONE if self._stopping.is_set() else FAILED
        # A leader finishes its bindings before it releases the lease; `_lead` then returns by itself.
        await self._stop_scheduling()
        if not self._leading.is_set():
            candidacy.cancel()
        with suppress(asyncio.CancelledError):
            await candidacy
        return DONE

    async def _lead(self) -> None:
        """Schedule as the leader until stopped or cancelled."""
        self._leading.set()
        self._metrics.leads(True)
        if self._setup.config.delay_cache_until_active:
            self._log(0, "Starting informers and waiting for sync...")
            self._running = asyncio.create_task(self._scheduler.run(), name="scheduler")
        try:
            await asyncio.shield(self._running)
        except asyncio.CancelledError:
            # The lease is lost. From now on nothing may be bound, not even by bindings in progress.
            self._running.cancel()
            await self._scheduler.shared.tasks.drain(0)
            raise

    async def _settle(self) -> None:
        garbage_collection.begin()
        await self._scheduler.synced.wait()
        garbage_collection.settle()

    async def _count_requests(self) -> None:
        """A standby whose scheduler has not started sends requests too. Their durations must not pile up."""
        while True:
            await self._clock.sleep(COUNT_SECONDS)
            self._setup.metrics.tidy()

    _running: asyncio.Task[None]
    _authentication: HttpClient | None

    async def _until_stopped(self, work: object) -> None:
        self._running = asyncio.create_task(work, name="scheduler")  # type: ignore[arg-type]  # a coroutine
        stop = asyncio.create_task(self._stopping.wait())
        await asyncio.wait((self._running, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()
        await self._stop_scheduling()

    async def _stop_scheduling(self) -> None:
        running = getattr(self, "_running", None)
        if running is None:
            return
        if not running.done():
            await self._scheduler.stop()
        await running

    # --- callbacks and signals ----------------------------------------------------------------------------------------

    def _new_leader(self, identity: str) -> None:
        self._log(3, "new leader elected", identity=identity)

    async def _watch_plugins(self) -> None:
        await plugins_changed(self._setup.options, self._plugins, self._clock, self._log)
        self.restart()

    def restart(self) -> None:
        """End this run with `RESTART`, unless it ends already."""
        if not self._stopping.is_set():
            self._restart = True
            self._stopping.set()

    def _listen_for_signals(self) -> None:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._stop)
            if self._hanging.is_needed:
                # The loop's own handler runs as soon as the loop does; a plugin that hangs must not keep it waiting.
                signal.signal(number, lambda _number, _frame: self._hanging.hurry())
        loop.add_signal_handler(signal.SIGUSR2, self._debug)

    def _stop(self) -> None:
        if self._stopping.is_set():
            # A second signal means: do not wait.
            self._log.flush()
            os._exit(FAILED)
        self._stopping.set()
        if self._when_stopping is not None:
            self._when_stopping()

    def _debug(self) -> None:
        if self._scheduler.debug():
            self._log(0, "Cache and queue agree with the API server")
