"""A small cluster with a scheduler, on virtual time, and the invariants that are checked at the end of every test."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from random import Random
from typing import Any

from kubesched.api import objects as api
from kubesched.api.quantity import milli, value
from kubesched.api.resources import node_requests
from kubesched.base.clocks import VirtualClock
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.config.load import load
from kubesched.framework.extender import Extender
from kubesched.framework.plugin import Plugin
from kubesched.plugins import in_tree_registry
from kubesched.scheduler.build import build_scheduler
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.subscribers.publisher import Subscriber
from kubesched.scheduler.urgent_calls import UrgentCalls
from kubesched.testing.faulty_api import FaultyApi


@dataclass(frozen=True, slots=True)
class Event:
    """An event as the recorder receives it."""

    profile: str
    pod: str
    kind: str
    reason: str
    note: str


class Events(list[Event]):
    """A recorder that keeps everything in memory."""

    def event(
        self,
        profile: str,
        regarding: api.Pod,
        kind: str,
        reason: str,
        action: str,
        note: str,
        related: api.Pod | None = None,
    ) -> None:
        self.append(Event(profile, regarding.name, kind, reason, note))

    def of(self, reason: str) -> list[tuple[str, str]]:
        """Pod and note of all events with this reason."""
        return [(event.pod, event.note) for event in self if event.reason == reason]


class Lines(list[tuple[int, str, dict[str, object]]]):
    """A log that keeps everything in memory."""

    def __init__(self, verbosity: int = 5) -> None:
        super().__init__()
        self.verbosity = verbosity

    def __call__(self, level: int, message: str, /, **fields: object) -> None:
        if level <= self.verbosity:
            self.append((level, message, fields))

    def about(self, name: str) -> list[str]:
        """The messages about a pod."""
        return [text for _, text, fields in self if getattr(fields.get("pod"), "name", "") == name]

    def errors(self) -> list[str]:
        return [f"{text} {fields.get('err')!r}" for level, text, fields in self if level < 0]


class World:
    """The cluster, the scheduler and its output."""

    def __init__(self, clock: VirtualClock, api_server: FaultyApi, scheduler: Scheduler) -> None:
        self.clock = clock
        self.api = api_server
        self.scheduler = scheduler
        assert isinstance(scheduler.recorder, Events)
        assert isinstance(scheduler.log, Lines)
        self.events = scheduler.recorder
        self.log = scheduler.log

    def create(self, *objects: api.Object) -> None:
        for obj in objects:
            self.api.create(obj)

    async def settle(self, seconds: float = 0) -> None:
        """Run everything that is due within these seconds."""
        await self.clock.advance(seconds)

    def pod(self, name: str) -> api.Pod:
        """The pod as stored in the API server."""
        found = self.api.get(api.Pod, f"default/{name}")
        assert found is not None, f"there is no pod {name}"
        return found

    def node_of(self, name: str) -> str:
        """The node of a pod, or the empty string."""
        return self.pod(name).node_name

    def condition(self, name: str, kind: str = "PodScheduled") -> api.PodCondition | None:
        return next((each for each in self.pod(name).status.conditions if each.type == kind), None)

    def message(self, name: str) -> str:
        """The message of the pod's condition."""
        condition = self.condition(name)
        return condition.message if condition is not None else ""

    def attempts(self, name: str) -> int:
        """How often a pod was tried."""
        return self.log.about(name).count("Attempting to schedule pod")

    def check(self) -> None:
        """Check that pods are bound once, no node is overcommitted, and our state matches the API server's."""
        bound = Counter(uid for _, uid, _ in self.api.bindings)
        assert all(times == 1 for times in bound.values()), f"bound more than once: {bound}"
        self._check_room()
        self._check_picture()

    def _check_room(self) -> None:
        used: dict[str, Counter[str]] = {}
        for pod in self.api.objects(api.Pod):
            if pod.node_name and not pod.is_terminal:
                requests = node_requests(pod)
                amounts = {"cpu": requests.milli_cpu, "memory": requests.memory, "pods": 1}
                used.setdefault(pod.node_name, Counter()).update(amounts)
        for node in self.api.objects(api.Node):
            room = node.status.allocatable
            limits = {"cpu": milli(room["cpu"]), "memory": value(room["memory"]), "pods": value(room["pods"])}
            for name, limit in limits.items():
                taken = used.get(node.name, Counter())[name]
                assert taken <= limit, f"{node.name} is overfull of {name}: {taken} of {limit}"

    def _check_picture(self) -> None:
        cluster, queue = self.scheduler.cluster, self.scheduler.queue
        living = [pod for pod in self.api.objects(api.Pod) if not pod.is_terminal]
        assert {pod.uid for pod in living if pod.node_name} == cluster.pods.keys()
        assert not cluster.assumed
        assert not len(self.scheduler.shared.waiting)
        lists = queue.pod_lists()
        assert not lists.in_flight
        waiting = [pod.uid for pod in (*lists.active, *lists.backoff, *lists.unschedulable, *lists.gated)]
        ours = {p.uid for p in living if not p.node_name and p.scheduler_name in self.scheduler.profiles}
        assert sorted(waiting) == sorted(ours)


@asynccontextmanager
async def world(
    clock: VirtualClock,
    *objects: api.Object,
    plugins: Sequence[type[Plugin]] = (),
    profiles: Iterable[Mapping[str, Any]] | None = None,
    extenders: Sequence[Extender] = (),
    subscribers: Sequence[Subscriber] = (),
    detailed: bool = False,
    urgent_calls: UrgentCalls | None = None,
    seed: int = 0,
    verbosity: int = 5,
    check: bool = True,
    features: Features = DEFAULT_FEATURES,
    **config: Any,
) -> AsyncIterator[World]:
    """A running scheduler. `plugins` are enabled at all their points, after the default ones, in every profile."""
    registry = in_tree_registry()
    for plugin in plugins:
        registry.add(plugin)
    enabled = {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in plugins]}}
    described = [{"schedulerName": "default-scheduler"}] if profiles is None else list(profiles)
    tree: dict[str, object] = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": enabled, **each} for each in described],
        **config,
    }
    api_server = FaultyApi(clock, seed=seed)
    for obj in objects:
        api_server.create(obj)
    scheduler = build_scheduler(
        load(tree, points=registry.points, features=features).config,
        registry,
        api_server,
        clock,
        Random(seed),
        recorder=Events(),
        log=Lines(verbosity),
        extenders=extenders,
        subscribers=subscribers,
        detailed=detailed,
        urgent_calls=urgent_calls,
        features=features,
    )
    running = asyncio.create_task(scheduler.run())
    try:
        await clock.settle()
        here = World(clock, api_server, scheduler)
        yield here
        if check:
            await clock.settle()
            here.check()
    finally:
        api_server.heal()
        await scheduler.stop()
        await running
