"""Clusters and pods as nobody would think of writing them, for `check_plugin`.

Where everything comes from is a `Chance`: a seeded generator, or hypothesis where that is installed, which then also
finds the smallest cluster that shows a mistake.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, Protocol, TypeVar

from kubesched.api import objects as api
from kubesched.testing.builders import HOSTNAME, ZONE, node, pod, toleration

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


class Example:
    """Nodes, pods on them, and a pod to be scheduled."""

    def __init__(self, chance: Chance, labels: Labels, nodes: Sequence[api.Node], pods: Sequence[api.Pod]) -> None:
        self._chance = chance
        self._labels = {**COMMON, **labels}
        count = chance.number(1, 5)
        self.nodes = [self._node(f"node-{number}", nodes) for number in range(count)]
        self.running = [self._running(f"running-{number}") for number in range(chance.number(0, 4))]
        self.pod = self._pod(chance.choice(["pod-1", "pod-2", "pod"]), pods)

    def another_node(self) -> api.Node:
        """A node that is not there yet."""
        return self._node("node-9", ())

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
    from msgspec.structs import replace

    labels = original.labels | ({HOSTNAME: name} if HOSTNAME in original.labels else {})
    meta = replace(original.metadata, name=name, uid=f"node.{name}", labels=labels)
    return replace(original, metadata=meta)


def _shown(labels: Mapping[str, str]) -> str:
    return "{" + ", ".join(f"{key}={value}" for key, value in labels.items() if key != HOSTNAME) + "}"
