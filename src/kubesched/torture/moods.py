"""A plugin and an extender that misbehave on request: they raise, refuse, take their time, or lie."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, MutableSet, Sequence
from random import Random

from kubesched.api import objects as api
from kubesched.cluster.view import NodeInfo, Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on
from kubesched.framework.extender import ExtenderError, ExtenderFilterResult, ExtenderVictims
from kubesched.framework.plugin import Plugin, Reads
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code, Status, unschedulable
from kubesched.torture.network import Met
from kubesched.torture.processes import PROCESS

POINTS = ("pre_filter", "filter", "score", "reserve", "unreserve", "permit", "pre_bind", "post_bind", "hint")
WAYS = ("raises", "refuses", "is slow")
MOODY = "Moody"
LIAR = "Liar"
LIES = "liar"
LIE = "not this one"
KNOCK, OPEN = "knock", "open"
KNOCK_SECONDS = 3.0


class Mood:
    """How plugins and extenders of a world behave now. Quiet unless a fault says otherwise."""

    def __init__(self, met: Met) -> None:
        self._met = met
        self._ways: dict[str, tuple[str, float]] = {}
        self._random = Random(0)
        self.was_bad = False
        self.reserved: dict[str, set[str]] = {}
        """The pods, by UID, for which each process, by name, has called Reserve, and neither Unreserve nor PostBind."""

    def set(self, point: str, way: str, probability: float, seed: int) -> None:
        self.was_bad = True
        self._ways[point] = (way, probability)
        self._random = Random(seed)

    def calm(self, point: str = "") -> None:
        """Behave again, at one point or everywhere."""
        if point:
            self._ways.pop(point, None)
        else:
            self._ways.clear()

    def reserved_here(self) -> MutableSet[str]:
        """What the process that is running has reserved."""
        process = PROCESS.get()
        return self.reserved.setdefault("" if process is None else process.name, set())

    @property
    def is_calm(self) -> bool:
        """Whether everything behaves."""
        return not self._ways

    def now(self, point: str) -> str:
        """How to behave in this call: one of `WAYS`, or nothing."""
        way, probability = self._ways.get(point, ("", 0.0))
        if not way or self._random.random() >= probability:
            return ""
        who = "plugin" if point in POINTS or point == LIES else "extender"
        self._met.note(f"{who} {way}", point)
        return way


class SulkError(Exception):
    """What a moody plugin raises."""


def opens(pod: api.Pod, obj: api.Object | None) -> bool:
    """Whether an object lets a pod in that knocks: the pod itself, or a node, with a label for it."""
    if isinstance(obj, api.Pod):
        return obj.uid == pod.uid and OPEN in obj.labels
    return obj is not None and f"{OPEN}-{pod.labels[KNOCK]}" in obj.labels


def moody_plugin(mood: Mood) -> type[Plugin]:
    """The plugin class of a world."""

    class Moody(Plugin):
        """Takes part everywhere. On Permit, pods with the label "wait" wait a moment. Pods with the label "knock" wait
        in vain until a label lets them in; this may happen while they are still in flight."""

        name = MOODY
        reads = Reads.PODS

        def events_to_register(self) -> list[EventHint]:
            return [
                on(Resource.NODE, Action.ADD | Action.UPDATE, self._hint),
                on(Resource.ASSIGNED_POD, Action.DELETE, self._hint),
                on(Resource.POD, Action.UPDATE_POD_LABEL, self._hint),
            ]

        def _hint(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
            self._behave("hint")
            if KNOCK in pod.labels:
                return Hint.QUEUE if opens(pod, new) and not opens(pod, old) else Hint.SKIP
            return Hint.QUEUE

        def _behave(self, point: str) -> Status | None:
            way = mood.now(point)
            if way == "raises":
                raise SulkError(f"{point} does not want to")
            return Status(Code.ERROR, "not today") if way else None

        def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
            return self._behave("pre_filter")

        def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
            return self._behave("filter")

        def score(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
            self._behave("score")
            return 100 - min(100, len(node.pods))

        def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            mood.reserved_here().add(pod.uid)
            return self._behave("reserve")

        def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
            mood.reserved_here().discard(pod.uid)
            self._behave("unreserve")

        def permit(self, state: CycleState, pod: api.Pod, node_name: str) -> tuple[Status, float] | Status | None:
            if KNOCK in pod.labels:
                opened = any(opens(pod, each) for each in (pod, *self.handle.cluster.all(api.Node)))
                return None if opened else (Status(Code.WAIT), KNOCK_SECONDS)
            way = mood.now("permit")
            if way == "raises":
                raise SulkError("permit does not want to")
            if way == "refuses":
                return unschedulable("not now")
            if way or "wait" in pod.labels:
                self.handle.spawn(self._allow(pod))
                return Status(Code.WAIT), 4.0 if way else 30.0
            return None

        async def _allow(self, pod: api.Pod) -> None:
            await self.handle.clock.sleep(1.5)
            waiting = self.handle.waiting_pods.get(pod.uid)
            if waiting is not None and not mood.now("permit"):
                waiting.allow(self.name)

        async def pre_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
            if mood.now("pre_bind") == "is slow":
                await self.handle.clock.sleep(2.0)
            return self._behave("pre_bind")

        async def post_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
            mood.reserved_here().discard(pod.uid)
            self._behave("post_bind")

    return Moody


def lying_plugin(mood: Mood) -> type[Plugin]:
    """A plugin class that declares to read only nodes, and answers by its mood and by the pods on a node."""

    class Liar(Plugin):
        """Wrong answers may cost places. They must not cost anything else."""

        name = LIAR
        reads = Reads.NODE

        def events_to_register(self) -> list[EventHint]:
            return [on(Resource.NODE, Action.ADD | Action.UPDATE)]

        def filter(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> Status | None:
            return unschedulable(LIE) if mood.now(LIES) else None

        def score(self, state: CycleState, pod: api.Pod, node: NodeInfo) -> int:
            return min(100, len(node.pods)) if mood.now(LIES) else 50

    return Liar


Bind = Callable[[api.Pod, str], bool]
"""Binds a pod to a node; False if that is refused."""


class MoodyExtender:
    """Filters nothing and likes all nodes, unless it is in a mood."""

    name = "http://moody"
    weight = 1
    ignorable = False
    is_filter = True
    is_prioritizer = True

    def __init__(self, mood: Mood, bind: Bind, *, binds: bool, preempts: bool) -> None:
        self._mood = mood
        self._bind = bind
        self.is_binder = binds
        self.supports_preemption = preempts

    def is_interested(self, pod: api.Pod) -> bool:
        return True

    async def filter(self, pod: api.Pod, nodes: Sequence[api.Node]) -> ExtenderFilterResult:
        await self._behave("extender filter")
        return ExtenderFilterResult([node.name for node in nodes])

    async def prioritize(self, pod: api.Pod, nodes: Sequence[api.Node]) -> Mapping[str, int]:
        await self._behave("extender prioritize")
        return {node.name: len(node.name) % 10 for node in nodes}

    async def process_preemption(
        self, pod: api.Pod, victims: Mapping[str, ExtenderVictims]
    ) -> Mapping[str, ExtenderVictims]:
        await self._behave("extender preempt")
        if self._mood.now("extender preempt") == "is slow" and len(victims) > 1:
            return dict(list(victims.items())[1:])
        return victims

    async def bind(self, pod: api.Pod, node_name: str) -> None:
        await self._behave("extender bind")
        if not self._bind(pod, node_name):
            raise ExtenderError("the API server refuses the binding")
        if self._mood.now("extender bind"):
            raise ExtenderError("the answer got lost")

    async def _behave(self, verb: str) -> None:
        await asyncio.sleep(0.002)
        way = self._mood.now(verb)
        if way == "is slow":
            await asyncio.sleep(1.0)
        elif way:
            raise ExtenderError(f"{verb} does not want to")
