"""Node groups of a simulated cluster: nodes come when pods need them, and go when nothing runs on them.

Every few seconds the pods that fit nowhere are scheduled on nodes that are not there yet, and the cheapest ones are
ordered. An ordered node joins after its boot time. A node on which nothing but pods of DaemonSets has run for some time
goes. Spot nodes are interrupted and nodes fail after random times, from the seed of the run.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine, Iterator
from random import Random
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.api.decoding import decode_as
from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.apiserver.wire.status import StatusError
from kubesched.base.clocks import VirtualClock
from kubesched.base.types import JSON
from kubesched.config.duration import Duration
from kubesched.config.errors import Problem, join
from kubesched.explain.evicting import belongs_to_node
from kubesched.library.cluster import Cluster
from kubesched.library.node_types import NodeType
from kubesched.reconcile.access import NODES, PODS, Access
from kubesched.simulator.timeline import Timeline

SCAN_SECONDS = 10.0
FRESH_SECONDS = 30.0
"""For so long after a node has joined, pods that wait may still find it."""
MOST_PODS = 500
"""Pending pods that one scan looks at."""
NOTICE_SECONDS = 120.0
"""From the notice of an interruption until the node is gone."""
INTERRUPTED = {"key": "kubesched.io/interrupted", "effect": "NoSchedule"}


class NodeGroup(NodeType, frozen=True, rename="camel", kw_only=True):
    """A type of nodes of which there are as many as are needed."""

    minimum: int = 0
    boot: Duration = Duration.of(60)
    """From the order of a node until it joins."""
    idle: Duration = Duration.of(600)
    """How long a node may be empty before it goes."""
    spot: Duration | None = None
    """If these are spot nodes: after what time they are interrupted, on average."""
    failure: Duration | None = None
    """After what time a node fails, on average."""

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield invalid values."""
        yield from super().problems(path)
        if self.minimum < 0 or (self.maximum is not None and self.minimum > self.maximum):
            yield Problem(join(path, "minimum"), "must be between 0 and the maximum", self.minimum)
        for name in ("boot", "idle", "spot", "failure"):
            value: Duration | None = getattr(self, name)
            if value is not None and (value < 0 or (value == 0 and name in ("spot", "failure"))):
                yield Problem(join(path, name), "must be longer than nothing", str(value))


class Autoscaler:
    """Orders and removes the nodes of all groups. `run` it as a task."""

    def __init__(
        self, groups: tuple[NodeGroup, ...], api_server: ApiServer, clock: VirtualClock, timeline: Timeline, seed: int
    ) -> None:
        self._groups = {each.name: each for each in groups}
        self._access = Access(api_server)
        self._clock = clock
        self._timeline = timeline
        self._random = Random(seed)
        self._numbers = dict.fromkeys(self._groups, 0)
        self._group_of: dict[str, NodeGroup] = {}
        """By node: ordered ones and those that have joined."""
        self._ordered_at: dict[str, float] = {}
        self._joined: dict[str, None] = {}
        self._pending: dict[str, None] = {}
        self._busy: dict[str, dict[str, None]] = {}
        """By node, the pods that keep it from being empty. Sets would have another order in every process."""
        self._node_of: dict[str, str] = {}
        self._empty_since: dict[str, float] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._spent = 0.0
        api_server.store.shelf(PODS).observers.append(self._on_pod)

    async def run(self) -> None:
        """Begin with the minimum of each group, then look again and again."""
        for group in self._groups.values():
            for _ in range(group.minimum):
                self._join(self._order(group))
        try:
            while True:
                await self._clock.sleep(SCAN_SECONDS)
                self._scale_up()
                self._scale_down()
        finally:
            for task in self._tasks:
                task.cancel()

    def cost(self) -> float:
        """The price of all nodes so far, from their order until they are gone."""
        now = self._clock.monotonic()
        return self._spent + sum(self._price(name, now) for name in self._ordered_at)

    def _price(self, name: str, now: float) -> float:
        return self._group_of[name].price * (now - self._ordered_at[name]) / 3600

    # --- what is observed ---------------------------------------------------------------------------------------------

    def _on_pod(self, event: StoreEvent) -> None:
        record = event.record
        ended = record.fields.get("status.phase") in ("Succeeded", "Failed")
        gone = event.change is ChangeType.DELETED or ended
        node = record.fields.get("spec.nodeName", "")
        if gone or node:
            self._pending.pop(record.key, None)
        else:
            self._pending[record.key] = None
        if gone:
            before = self._node_of.pop(record.key, "")
            self._busy.get(before, {}).pop(record.key, None)
        elif node and record.key not in self._node_of:
            self._node_of[record.key] = node
            if not belongs_to_node(decode_as(api.Pod, record.data)):
                self._busy.setdefault(node, {})[record.key] = None

    # --- more nodes ---------------------------------------------------------------------------------------------------

    def _scale_up(self) -> None:
        waiting = list(self._unschedulable())
        types = [each for each in map(self._remaining, self._groups.values()) if each.maximum != 0]
        if not waiting or not types:
            return
        needed = Cluster(*self._upcoming()).nodes_needed(waiting, types, solver=False)
        for name, number in needed.nodes.items():
            for _ in range(number):
                self._start(self._boot(self._order(self._groups[name])))
            self._timeline.note("note", f"node group {name}: {number} more for {len(waiting)} pending pods")

    def _upcoming(self) -> Iterator[api.Object]:
        """Nodes that have been ordered, and those that joined a moment ago with the pods that found them."""
        now = self._clock.monotonic()
        for name, ordered in self._ordered_at.items():
            if name in self._joined and now - ordered > self._group_of[name].boot.seconds + FRESH_SECONDS:
                continue
            yield self._node(name)
            for key in self._busy.get(name, ()):
                record = self._access.store.get(PODS, key)
                if record is not None:
                    yield decode_as(api.Pod, record.data)

    def _unschedulable(self) -> Iterator[api.Pod]:
        found = 0
        for key in self._pending:
            record = self._access.store.get(PODS, key)
            if record is None or found >= MOST_PODS:
                continue
            pod = decode_as(api.Pod, record.data)
            if any(each.type == "PodScheduled" and each.reason == "Unschedulable" for each in pod.status.conditions):
                found += 1
                # Its volumes and claims are the scheduler's business; here only the new node counts.
                yield msgspec.structs.replace(pod, status=api.PodStatus())

    def _remaining(self, group: NodeGroup) -> NodeType:
        """The group as a type of nodes of which there are no more than are left to be had."""
        if group.maximum is None:
            return group
        present = sum(each is group for each in self._group_of.values())
        return msgspec.structs.replace(group, maximum=max(group.maximum - present, 0))

    def _order(self, group: NodeGroup) -> str:
        while True:
            self._numbers[group.name] += 1
            name = group.node_name(self._numbers[group.name])
            if self._access.store.get(NODES, name) is None:  # the scenario may have one of this name
                break
        self._group_of[name] = group
        self._ordered_at[name] = self._clock.monotonic()
        return name

    def _node(self, name: str) -> api.Node:
        return self._group_of[name].node(int(name.rpartition("-")[2]))

    async def _boot(self, name: str) -> None:
        await self._clock.sleep(self._group_of[name].boot.seconds)
        self._join(name)

    def _join(self, name: str) -> None:
        body = msgspec.to_builtins(self._node(name))
        body["metadata"].pop("uid", None)
        self._access.create(NODES, body)
        self._joined[name] = None
        self._empty_since[name] = self._clock.monotonic()
        group = self._group_of[name]
        if group.spot is not None:
            self._start(self._interrupt(name, self._random.expovariate(1 / group.spot.seconds)))
        if group.failure is not None:
            self._start(self._fail(name, self._random.expovariate(1 / group.failure.seconds)))

    # --- fewer nodes --------------------------------------------------------------------------------------------------

    def _scale_down(self) -> None:
        now = self._clock.monotonic()
        numbers = Counter(self._group_of[name].name for name in self._joined)
        for name in list(self._joined):
            if self._busy.get(name):
                self._empty_since[name] = now
                continue
            group = self._group_of[name]
            if numbers[group.name] > group.minimum and now - self._empty_since[name] >= group.idle.seconds:
                self._remove(name, "is empty")
                numbers[group.name] -= 1

    async def _interrupt(self, name: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        if name in self._joined:
            self._access.edit(NODES, name, _taint)
            self._timeline.note("note", f"node {name} will be interrupted")
            await self._clock.sleep(NOTICE_SECONDS)
            self._replace(name, "is interrupted")

    async def _fail(self, name: str, seconds: float) -> None:
        await self._clock.sleep(seconds)
        self._replace(name, "fails")

    def _replace(self, name: str, why: str) -> None:
        """Remove a node; if its group has too few then, order another one."""
        if name not in self._joined:
            return
        group = self._group_of[name]
        self._remove(name, why)
        if sum(each is group for each in self._group_of.values()) < group.minimum:
            self._start(self._boot(self._order(group)))

    def _remove(self, name: str, why: str) -> None:
        """Delete a node with its pods. Their controllers create new ones."""
        self._timeline.note("note", f"node {name} {why} and goes")
        self._spent += self._price(name, self._clock.monotonic())
        for known in (self._joined, self._group_of, self._ordered_at, self._empty_since):
            known.pop(name, None)
        for key in [key for key, node in self._node_of.items() if node == name]:
            self._access.remove(PODS, key)
        self._busy.pop(name, None)
        try:
            self._access.delete(NODES, name)
        except StatusError as error:
            self._timeline.note("note", f"node {name} cannot be deleted: {error}")

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="node group")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _taint(node: JSON) -> None:
    spec = node.setdefault("spec", {})
    spec["taints"] = [*(spec.get("taints") or []), dict(INTERRUPTED)]
