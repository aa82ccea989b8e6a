"""Requested resources per node over time. Amounts are integrated over time, so that means are exact."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.api.decoding import InvalidObject, decode_as
from kubesched.api.resources import allocatable, node_requests
from kubesched.apiserver.storage.store import ChangeType, Record, Store, StoreEvent
from kubesched.reconcile.access import NODES, PODS

ENDED = ("Succeeded", "Failed")
MOST_SAMPLES = 1000
MOST_KINDS = 4096
"""Of how many kinds of pods the requests are remembered. In a trace every pod may be of another kind."""


@dataclass(slots=True)
class Load:
    """An amount that changes over time."""

    now: float = 0.0
    peak: float = 0.0
    _sum: float = 0.0
    _since: float = 0.0

    def change(self, amount: float, time: float) -> None:
        self._sum += self.now * (time - self._since)
        self._since = time
        self.now += amount
        if self.now > self.peak:
            self.peak = self.now

    def mean(self, begin: float, end: float) -> float:
        """Return the mean between `begin` and `end`. The amount was 0 before `begin`."""
        total = self._sum + self.now * (end - self._since)
        return total / (end - begin) if end > begin else self.now


class UsageSample(msgspec.Struct, frozen=True):
    """The requested share of the whole cluster from a time on."""

    time: float
    cpu: float
    memory: float


class NodeUsage:
    """One node: its capacity and the requests of its pods."""

    def __init__(self, began: float) -> None:
        self.began = began
        self.is_present = True
        self.allocatable: dict[str, Any] | None = None
        """What it offers, as its status has it."""
        self.milli_cpu = 0
        self.memory = 0
        self.max_pods = 0
        self.cpu_load = Load(_since=began)
        self.memory_load = Load(_since=began)
        self.pods_load = Load(_since=began)


class _NodeStatus(api.Part, frozen=True):
    allocatable: dict[str, Any] | None = None


class _Node(api.Part, frozen=True):
    """What determines a node's capacity. Most changes of a node are of something else."""

    status: _NodeStatus = _NodeStatus()


class _Container(api.Part, frozen=True):
    resources: dict[str, Any] | None = None
    restart_policy: str = ""


class _Spec(api.Part, frozen=True):
    containers: tuple[_Container, ...] = ()
    init_containers: tuple[_Container, ...] = ()
    overhead: dict[str, Any] | None = None
    resources: dict[str, Any] | None = None


class _Pod(api.Part, frozen=True):
    """The fields that determine a pod's requests. Most pods equal another pod in them, so results are cached."""

    spec: _Spec = _Spec()


class ClusterUsage:
    """Tracks all nodes and the pods on them."""

    def __init__(self, now: Callable[[], float], store: Store) -> None:
        self._now = now
        self.nodes: dict[str, NodeUsage] = {}
        self._placed: dict[str, tuple[NodeUsage, int, int]] = {}
        """By pod key, for pods that occupy resources."""
        self._past_seconds = 0.0
        """How long nodes existed that are gone."""
        self._past_samples: list[UsageSample] = []
        self._sample_time: float | None = None
        """The time of the last sample, whose shares are computed when it is certain that none takes its place."""
        self._sample_gap = 0.0
        self._requested_now = [0.0, 0.0]
        self._allocatable_now = [0.0, 0.0]
        store.shelf(NODES).observers.append(self._on_node)
        store.shelf(PODS).observers.append(self._on_pod)

    @property
    def samples(self) -> list[UsageSample]:
        """The cluster over time: every change, or of a long run as many as `MOST_SAMPLES`."""
        return self._past_samples if self._sample_time is None else [*self._past_samples, self._last_sample()]

    def requests_of(self, key: str) -> tuple[int, int]:
        """Thousandths of cores and bytes that a pod on a node requests; zeros if it is on none."""
        _, cpu, memory = self._placed.get(key, (None, 0, 0))
        return cpu, memory

    def node_seconds(self, end: float) -> float:
        """For how long all nodes existed, together."""
        return self._past_seconds + sum(end - each.began for each in self.nodes.values())

    def _on_node(self, event: StoreEvent) -> None:
        name = event.record.key
        if event.change is ChangeType.DELETED:
            gone = self.nodes.pop(name, None)
            if gone is not None:
                gone.is_present = False
                now = self._now()
                self._sample(self._allocatable_now, -gone.milli_cpu, -gone.memory, now)
                self._sample(self._requested_now, -gone.cpu_load.now, -gone.memory_load.now, now)
                self._past_seconds += now - gone.began
            return
        usage = self.nodes.get(name)
        if usage is None:
            usage = self.nodes[name] = NodeUsage(self._now())
        offered = decode_as(_Node, event.record.data).status.allocatable
        if offered == usage.allocatable:
            return
        resources = allocatable(decode_as(api.Node, event.record.data))
        usage.allocatable = offered
        more = resources.milli_cpu - usage.milli_cpu, resources.memory - usage.memory
        usage.milli_cpu, usage.memory, usage.max_pods = resources.milli_cpu, resources.memory, resources.pods
        if any(more):
            self._sample(self._allocatable_now, *more, self._now())

    def _on_pod(self, event: StoreEvent) -> None:
        record = event.record
        holds = event.change is not ChangeType.DELETED and record.fields.get("status.phase") not in ENDED
        name = record.fields.get("spec.nodeName", "") if holds else ""
        if (record.key in self._placed) == bool(name):
            return
        if name:
            self._place(name, record)
        else:
            self._change(*self._placed.pop(record.key), -1)

    def _place(self, name: str, record: Record) -> None:
        usage = self.nodes.get(name)
        if usage is None:
            return
        try:
            cpu, memory = _requested(msgspec.json.encode(decode_as(_Pod, record.data)))
        except InvalidObject:
            return
        self._placed[record.key] = (usage, cpu, memory)
        self._change(usage, cpu, memory, 1)

    def _change(self, usage: NodeUsage, cpu: int, memory: int, sign: int) -> None:
        now = self._now()
        usage.cpu_load.change(sign * cpu, now)
        usage.memory_load.change(sign * memory, now)
        usage.pods_load.change(sign, now)
        if usage.is_present:
            self._sample(self._requested_now, sign * cpu, sign * memory, now)

    def _sample(self, amounts: list[float], cpu: float, memory: float, now: float) -> None:
        """Change the cluster's amounts and note its shares. If there are many samples, they get farther apart."""
        time, last, past = round(now, 3), self._sample_time, self._past_samples
        if last is not None and time != last and not (past and time - past[-1].time < self._sample_gap):
            past.append(self._last_sample())
            if len(past) >= MOST_SAMPLES:
                del past[1::2]
                self._sample_gap = time / (MOST_SAMPLES / 2)
        self._sample_time = time
        amounts[0] += cpu
        amounts[1] += memory

    def _last_sample(self) -> UsageSample:
        assert self._sample_time is not None
        (used_cpu, used_memory), (all_cpu, all_memory) = self._requested_now, self._allocatable_now
        cpu_share = round(used_cpu / all_cpu, 6) if all_cpu else 0.0
        memory_share = round(used_memory / all_memory, 6) if all_memory else 0.0
        return UsageSample(self._sample_time, cpu_share, memory_share)


@lru_cache(maxsize=MOST_KINDS)
def _requested(fields: bytes) -> tuple[int, int]:
    """The CPU and memory requests of pods with these fields of `_Pod`."""
    requests = node_requests(decode_as(api.Pod, fields))
    return requests.milli_cpu, requests.memory
