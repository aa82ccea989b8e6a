"""The composition root: from a configuration and its surroundings to a scheduler.

Daemon, local cluster, simulator, test kit and benchmark all build their scheduler here. Every part gets what it needs
by its constructor.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from random import Random

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.custom import resource_name
from kubesched.base.clock import Clock
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.base.log import SILENT, Log
from kubesched.client.pool import MayWrite
from kubesched.client.protocol import Client
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.config.types import KubeSchedulerConfiguration
from kubesched.engine.engine import Engine
from kubesched.engine.profiles import build_engines
from kubesched.engine.tie_breaking import Choose
from kubesched.framework.extender import Extender
from kubesched.framework.handle import Services
from kubesched.framework.registry import Registry
from kubesched.queue.build import build_queue
from kubesched.scheduler.api_calls import Dispatcher
from kubesched.scheduler.attempt import Attempt, Profile
from kubesched.scheduler.binding import BindingCycle, UnclearBinds
from kubesched.scheduler.cycle import SchedulingCycle
from kubesched.scheduler.extender_settings import make_extenders, with_ignored_resources
from kubesched.scheduler.extender_wire import RawObject
from kubesched.scheduler.extenders import ExtenderSet
from kubesched.scheduler.failure import FailureHandler
from kubesched.scheduler.handlers import KINDS, EventHandlers
from kubesched.scheduler.inbox import Inbox
from kubesched.scheduler.journal import Journal, NotedClient, PodCycle
from kubesched.scheduler.plugin_client import PluginClient
from kubesched.scheduler.pod_groups import PodGroupCycle
from kubesched.scheduler.ports import EventSink, MetricsSink, NoEvents, NoSchedulerMetrics
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.shared import Shared
from kubesched.scheduler.sources import Deliver, Sources
from kubesched.scheduler.statuses import StatusWriter
from kubesched.scheduler.subscribers.events import AttemptEvents
from kubesched.scheduler.subscribers.logs import AttemptLog
from kubesched.scheduler.subscribers.metrics import AttemptMetrics
from kubesched.scheduler.subscribers.pod_groups import PodGroupReport
from kubesched.scheduler.subscribers.preemption import PreemptionReport
from kubesched.scheduler.subscribers.publisher import Publisher, Subscriber
from kubesched.scheduler.subscribers.status import AttemptStatus
from kubesched.scheduler.tasks import Tasks
from kubesched.scheduler.turns import FreeTurns, Turns
from kubesched.scheduler.urgent_calls import UrgentCalls
from kubesched.scheduler.victims import Preemptor
from kubesched.scheduler.waiting import WaitingPods


def build_scheduler(
    config: KubeSchedulerConfiguration,
    registry: Registry,
    client: Client,
    clock: Clock,
    random: Random,
    *,
    recorder: EventSink | None = None,
    metrics: MetricsSink | None = None,
    log: Log = SILENT,
    subscribers: Iterable[Subscriber] = (),
    explain: Callable[[Attempt], str] | None = None,
    detailed: bool = False,
    extenders: Sequence[Extender] | None = None,
    raw_objects: RawObject | None = None,
    may_write: MayWrite | None = None,
    urgent_calls: UrgentCalls | None = None,
    choose: Choose | None = None,
    journal: Journal | None = None,
    turns: Turns | None = None,
    max_in_unschedulable: float = 300.0,
    features: Features = DEFAULT_FEATURES,
) -> Scheduler:
    """Build a scheduler; `run` it.

    `subscribers` are notified of attempts after log, metrics, events and status. What `explain` returns is added to the
    Scheduled event. With `detailed`, every attempt keeps all scores and rejections. Extenders are made from the
    configuration, unless given; they get pods and nodes as `raw_objects` has them, and make no call that changes
    something unless `may_write`. `urgent_calls` counts binds and deletions of victims, so that the recorder of events
    can wait for them. `choose` breaks ties between nodes. A `journal` notes everything that decisions depend on; a
    replay grants the `turns` that it noted. A pod that nothing wakes is tried again after `max_in_unschedulable`
    seconds.
    """
    recorder = NoEvents() if recorder is None else recorder
    metrics = NoSchedulerMetrics() if metrics is None else metrics
    if journal is not None:
        client, subscribers, turns = NotedClient(client, journal.called), (*subscribers, journal), journal
    cluster = ClusterState(features)
    inbox, tasks, waiting, unclear, wake_up = Inbox(log), Tasks(log), WaitingPods(), UnclearBinds(), asyncio.Event()
    owned_extenders = (
        make_extenders(config.extenders, pods_on=_pods_on(cluster), raw=raw_objects, clock=clock, may_write=may_write)
        if extenders is None
        else []
    )
    for each in owned_extenders:
        log(2, "Creating extender", extender=each.name)
    extenders = owned_extenders if extenders is None else extenders

    dispatcher = Dispatcher(tasks, metrics, clock) if features.scheduler_async_api_calls else None
    services = Services(
        client=PluginClient(client, unclear.note, dispatcher),
        clock=clock,
        spawn=tasks.spawn,
        log=log,
        event=recorder.event,
        waiting_pods=waiting,
        claim_metrics=metrics,
        activate=lambda pods: inbox.put(queue.activate, list(pods)),  # plugins exist before the queue, which asks them
    )
    engines = build_engines(
        replace(config, profiles=with_ignored_resources(config.profiles, config.extenders)),
        registry,
        cluster,
        random,
        choose=choose,
        services=services,
        extended=any(each.is_filter or each.is_prioritizer for each in extenders),
        extenders=bool(extenders),
    )
    if features.opportunistic_batching:
        for engine in engines.values():
            for message, fields in engine.batching.obstacles():
                log(0, message, **fields)
    queue = build_queue(
        {name: engine.framework for name, engine in engines.items()},
        cluster,
        clock,
        extenders=bool(extenders),
        initial_backoff=config.pod_initial_backoff_seconds,
        max_backoff=config.pod_max_backoff_seconds,
        max_in_unschedulable=max_in_unschedulable,
        metrics=metrics,
        log=log,
        on_ready=wake_up.set,
    )
    shared = Shared(cluster, queue, client, clock, log, recorder, metrics, inbox, tasks, waiting, turns or FreeTurns())
    profiles = _profiles(engines)
    statuses = StatusWriter(shared, dispatcher)
    reports = (
        AttemptLog(log),
        AttemptMetrics(metrics, profiles),
        AttemptEvents(recorder, explain),
        AttemptStatus(statuses),
    )
    publisher = Publisher((*reports, *subscribers), log)
    failures = FailureHandler(shared, publisher)
    calls = UrgentCalls() if urgent_calls is None else urgent_calls
    binding = BindingCycle(shared, extenders, publisher, failures, statuses, calls, unclear)
    preemptor = Preemptor(shared, statuses, PreemptionReport(shared), calls)
    pods = SchedulingCycle(
        shared,
        profiles,
        ExtenderSet(extenders, metrics) if extenders else None,
        publisher,
        failures,
        binding,
        preemptor,
        detailed=detailed,
    )
    grouped = features.generic_workload
    cycle: PodCycle = (
        PodGroupCycle(shared, pods, publisher, PodGroupReport(shared), preemptor, random) if grouped else pods
    )
    handlers = EventHandlers(shared, profiles)
    receive: Deliver = handlers.receive
    if journal is not None:
        cycle, receive = journal.around(cycle, random), journal.receiver(inbox, handlers.handle)
    kinds: list[type[api.Object]] = list(KINDS)
    if features.dra_device_taint_rules:
        kinds.append(api.DeviceTaintRule)
    if features.generic_workload:
        kinds.append(api.PodGroup)
    kinds += sorted(queue.awaited_kinds.difference(kinds), key=resource_name)
    sources = Sources(client, receive, clock, random, log, kinds)
    return Scheduler(config, shared, profiles, cycle, sources, wake_up, statuses, owned_extenders)


def _profiles(engines: dict[str, Engine]) -> dict[str, Profile]:
    return {name: Profile(name, engine) for name, engine in engines.items()}


def _pods_on(cluster: ClusterState) -> Callable[[str], list[PodInfo] | None]:
    """Looks up the pods on a node, for extenders that get victims by name."""

    def pods_on(node: str) -> list[PodInfo] | None:
        row = cluster.nodes.row_of.get(node)
        return None if row is None else list(cluster.nodes.pods[row].values())

    return pods_on
