"""Clusters and pods as nobody would think of writing them, for `check_plugin`.

Where everything comes from is a `Chance`: a seeded generator, or hypothesis where that is installed, which then also
finds the smallest cluster that shows a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol, TypeVar

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.builders import HOSTNAME, ZONE, node, pod, toleration
from kubesched.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    NODE_ADD,
    NODE_DELETE,
    Action,
    ClusterEvent,
)
from kubesched.queue.changes import node_changes, pod_changes
from kubesched.scheduler.handlers import RESOURCES

T = TypeVar("T")
Labels = Mapping[str, Sequence[str]]
"""Label keys and the values that they may have."""

COMMON: Labels = {ZONE: ("a", "b"), "disktype": ("ssd", "hdd"), "size": ("1", "20", "many")}
APPS = ("web", "db")
TAINTS = ("dedicated=gpu:NoSchedule", "flaky:PreferNoSchedule", "leaving:NoExecute")
GPU = "example.com/gpu"


class Chance(Protocol):
    """A source of choices that can be replayed."""

    def choice(self, options: Sequence[T]) -> T:
        """One of these; the first is the simplest."""
        ...

    def number(self, low: int, high: int) -> int:
        """An integer between these, both included."""
        ...


class SeededChance:
    """Choices of Python's own generator."""

    def __init__(self, seed: int) -> None:
        self._random = Random(seed)

    def choice(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)


class DrawnChance:
    """Choices of hypothesis."""

    def __init__(self, draw: Callable[[Any], Any], strategies: Any) -> None:
        self._draw = draw
        self._strategies = strategies

    def choice(self, options: Sequence[T]) -> T:
        return options[self.number(0, len(options) - 1)]

    def number(self, low: int, high: int) -> int:
        drawn: int = self._draw(self._strategies.integers(low, high))
        return drawn


@dataclass(frozen=True, slots=True)
class Change:
    """Something that happens."""

    words: str
    events: Sequence[ClusterEvent]
    old: api.Object | None
    new: api.Object | None
    then: Example
    """What there is afterwards."""


class Example:
    """Nodes, pods on them, and a pod to be scheduled."""

    def __init__(self, chance: Chance, labels: Labels, nodes: Sequence[api.Node], pods: Sequence[api.Pod]) -> None:
        self._chance = chance
        self._labels = {**COMMON, **labels}
        self._given_nodes = nodes
        self._given_pods = pods
        count = chance.number(1, 5)
        self.nodes = [self._node(f"node-{number}", nodes) for number in range(count)]
        self.running = [self._running(f"running-{number}") for number in range(chance.number(0, 4))]
        self.pod = self._pod(chance.choice(["pod-1", "pod-2", "pod"]), pods)

    def changes(self) -> Iterator[Change]:
        """Things that may happen next, each with what there is then."""
        yield self._with_node(self._node("node-9", self._given_nodes))
        was = self._chance.choice(self.nodes)
        yield self._with_node(self._changed(was), was)
        yield Change(f"node {was.name} goes", [NODE_DELETE], was, None, self)
        comes = self._running("running-9")
        yield self._with_running(f"a pod {_shown(comes.labels)} comes to a node", [ASSIGNED_POD_ADD], None, comes)
        for goes in self.running[:1]:
            yield self._with_running(f"pod {goes.name} goes", [ASSIGNED_POD_DELETE], goes, None)
        others = [{**self.pod.labels, "app": app} for app in ("new", *APPS)] + [
            each.labels for each in self._given_pods
        ]
        yield self._with_pod(labels=self._chance.choice(others))
        yield self._with_pod(tolerations=(*self.pod.spec.tolerations, toleration("*")))

    def only(self, name: str) -> Example:
        """The same with one of its nodes, and the pods there."""
        then = copy(self)
        then.nodes = [each for each in self.nodes if each.name == name]
        then.running = [each for each in self.running if each.node_name == name]
        return then

    def _changed(self, was: api.Node) -> api.Node:
        """A node that differs in one respect from what it was."""
        other = self._node(was.name, self._given_nodes)
        match self._chance.choice(["labels", "taints", "cordon", "amounts", "annotations"]):
            case "labels":
                return replace(was, metadata=replace(was.metadata, labels=other.labels))
            case "taints":
                return replace(was, spec=replace(was.spec, taints=other.spec.taints))
            case "cordon":
                return replace(was, spec=replace(was.spec, unschedulable=not was.spec.unschedulable))
            case "annotations":
                return replace(was, metadata=replace(was.metadata, annotations=other.annotations))
            case _:
                return replace(was, status=other.status)

    def _with_node(self, new: api.Node, old: api.Node | None = None) -> Change:
        then = copy(self)
        then.nodes = [*(each for each in self.nodes if each is not old), new]
        if old is None:
            return Change(f"a node {_shown(new.labels)} comes", [NODE_ADD], None, new, then)
        events = node_changes(old, new)
        what = ", ".join((event.action.name or "").lower().removeprefix("update_node_") for event in events)
        return Change(f"node {new.name} changes ({what or 'nothing'})", events, old, new, then)

    def _with_running(
        self, words: str, events: Sequence[ClusterEvent], old: api.Pod | None, new: api.Pod | None
    ) -> Change:
        then = copy(self)
        then.running = [*(each for each in self.running if each is not old), *([] if new is None else [new])]
        return Change(words, events, old, new, then)

    def _with_pod(
        self, labels: Mapping[str, str] | None = None, tolerations: Sequence[api.Toleration] | None = None
    ) -> Change:
        """The pod itself changes, in one of the few things that may."""
        then, old, new = copy(self), self.pod, self.pod
        if labels is not None:
            new = replace(new, metadata=replace(new.metadata, labels=dict(labels)))
        if tolerations is not None:
            new = replace(new, spec=replace(new.spec, tolerations=tuple(tolerations)))
        then.pod = new
        what = "labels" if labels is not None else "tolerations"
        return Change(f"the pod's own {what} change", pod_changes(old, new), old, new, then)

    def others(self) -> Iterator[Change]:
        """Things that happen to objects of other kinds. What they would do to the plugin, nobody here knows."""
        for kind, resource in RESOURCES.items():
            if resource is None:
                continue
            old = kind(metadata=api.ObjectMeta(name="other", uid="other"))
            new = kind(metadata=api.ObjectMeta(name="other", uid="other", labels={"app": "new"}))
            for action, before, after in (
                (Action.ADD, None, new),
                (Action.UPDATE, old, new),
                (Action.DELETE, old, None),
            ):
                yield Change(f"a {resource.value} changes", [ClusterEvent(resource, action)], before, after, self)

    def _node(self, name: str, given: Sequence[api.Node]) -> api.Node:
        chance = self._chance
        if given and chance.number(0, 2):
            return renamed(chance.choice(given), name)
        values = {key: chance.choice([None, *values]) for key, values in self._labels.items()}
        return node(
            name,
            cpu=chance.choice(["4", "1", "250m", "0"]),
            memory=chance.choice(["8Gi", "512Mi", "0"]),
            pods=chance.choice([110, 1, 0]),
            resources=chance.choice([{}, {GPU: 2}]),
            labels={key: value for key, value in values.items() if value is not None},
            taints=chance.choice([(), TAINTS[:1], TAINTS[1:2], TAINTS[1:]]),
            unschedulable=chance.choice([False, False, True]),
        )

    def _running(self, name: str) -> api.Pod:
        where = self._chance.choice(self.nodes).name
        app = self._chance.choice(APPS)
        return pod(name, node=where, cpu=self._chance.choice(["100m", None, "2"]), labels={"app": app})

    def _pod(self, name: str, given: Sequence[api.Pod]) -> api.Pod:
        chance = self._chance
        if given and chance.number(0, 2):
            return chance.choice(given)
        return pod(
            name,
            cpu=chance.choice([None, "100m", "2"]),
            memory=chance.choice([None, "1Gi"]),
            requests=chance.choice([{}, {GPU: 1}]),
            labels=chance.choice([{}, {"app": APPS[0]}, {"app": APPS[1]}]),
            priority=chance.choice([None, 0, 1000]),
            tolerations=[toleration(each) for each in chance.choice([(), ("dedicated",), ("*",)])],
            node_selector=chance.choice([{}, {ZONE: "a"}]),
        )

    def __str__(self) -> str:
        nodes = ", ".join(f"{each.name} {_shown(each.labels)}" for each in self.nodes)
        running = ", ".join(f"{each.name} on {each.node_name}" for each in self.running)
        return f"pod {self.pod.name} {_shown(self.pod.labels)}; nodes: {nodes}; running: {running or 'nothing'}"


def renamed(original: api.Node, name: str) -> api.Node:
    """The same node under another name."""
    labels = original.labels | ({HOSTNAME: name} if HOSTNAME in original.labels else {})
    meta = replace(original.metadata, name=name, uid=f"node.{name}", labels=labels)
    return replace(original, metadata=meta)


def _shown(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in labels.items() if key != HOSTNAME) + "}"
