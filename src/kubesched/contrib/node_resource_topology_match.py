"""NodeResourceTopologyMatch: pods go to nodes where their resources fit one NUMA zone, if the kubelet there insists."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Final, Literal

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import milli_of, value_of
from kubesched.api.resources import is_native, pod_requests
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.config.args import DEFAULT_RESOURCES, ResourceSpec
from kubesched.contrib.numa_scoring import STRATEGIES, Columns, FewestZones, Request, worst_zone
from kubesched.contrib.numa_zones import (
    ABSENT,
    ForeignPods,
    NodeResourceTopology,
    PlacedSinceReport,
    ZoneColumns,
    amount,
)
from kubesched.contrib.qos_sort import BEST_EFFORT, GUARANTEED, qos_class
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.plugin import MAX_NODE_SCORE, Handle, Plugin, Verdicts
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable

STALE: Final = unschedulable("invalid node topology data")
POD: Final = unschedulable("cannot align pod")
CONTAINER: Final = unschedulable("cannot align container")
INIT: Final = unschedulable("cannot align init container")
SIDECAR: Final = unschedulable("cannot align sidecar container")
ALWAYS_THERE: Final = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that every node has. Any other that a node does not offer at all rules it out."""
REASONS: Final = (None, STALE, POD, CONTAINER, INIT, SIDECAR)


class NumaScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """How zones are scored, and how much each resource counts."""

    type: Literal["MostAllocated", "BalancedAllocation", "LeastAllocated", "LeastNUMANodes"] = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class TopologyCache(msgspec.Struct, frozen=True, rename="camel"):
    """How reports are complemented by what was placed since."""

    foreign_pods_detect: ForeignPods = "All"
    resync_method: Literal["Autodetect", "All", "OnlyExclusiveResources"] = "Autodetect"
    informer_mode: Literal["Shared", "Dedicated"] = "Dedicated"
    resync_scope: Literal["All", "OnlyResources"] = "All"


class NodeResourceTopologyMatchArgs(msgspec.Struct, frozen=True, rename="camel"):
    """How nodes are scored, and what counts beside their reports."""

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: TopologyCache = TopologyCache()
    preemption_mode: Literal["Disabled", "Enabled"] = "Disabled"

    def without_effect(self) -> Iterator[tuple[str, str]]:
        """Settings that were changed although they do not matter here, and why they do not."""
        if self.cache.resync_method != "Autodetect":
            yield "cache.resyncMethod", "a report counts as soon as it arrives, whatever its fingerprint of pods"
        if self.cache.resync_scope != "All":
            yield "cache.resyncScope", "every change of a report counts, that of attributes too"
        if self.cache.informer_mode != "Dedicated":
            yield "cache.informerMode", "the scheduler has one watch of pods for all plugins"
        if self.preemption_mode != "Disabled":
            yield "preemptionMode", "what evicted pods leave in a zone is known with the next report of the node"


class Demand:
    """What a pod requests, pod by pod and container by container."""

    def __init__(self, pod_class: PodClass, pod: api.Pod) -> None:
        self.qos = qos_class(pod)
        exact = pod_requests(pod, use_status=False)
        self.pod = {name: milli_of(each) if name == "cpu" else value_of(each) for name, each in exact.items()}
        spec = pod_class.spec
        self.init = [
            (_amounts(each.resources.requests), each.restart_policy == "Always") for each in spec.init_containers
        ]
        self.containers = [_amounts(each.resources.requests) for each in spec.containers]
        named = {name for each in (*(each for each, _ in self.init), *self.containers) for name in each}
        self.names = sorted(named | set(self.pod))
        self.ignored = self.qos == BEST_EFFORT and all(map(is_native, self.names))
        """Whether NUMA zones do not matter to the pod."""


class NodeResourceTopologyMatch(Plugin):
    """Filters and scores nodes by their NUMA zones."""

    name = "NodeResourceTopologyMatch"
    args_type = NodeResourceTopologyMatchArgs

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._zones = handle.cluster.share(ZoneColumns)
        self._reserved: dict[str, set[str]] = {}
        """Nodes with pods that are being bound, if discardReservedNodes is set."""
        self._placed: PlacedSinceReport | None = None
        if args.cache_resync_period_seconds > 0 and not args.discard_reserved_nodes:
            self._placed = PlacedSinceReport(handle.cluster, self._zones, args.cache.foreign_pods_detect)
        for setting, reason in args.without_effect():
            handle.log(0, "A setting of NodeResourceTopologyMatch has no effect", setting=setting, reason=reason)
        strategy = args.scoring_strategy
        self._weights = {each.name: each.weight for each in strategy.resources or DEFAULT_RESOURCES}

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.DELETE),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
            on(NodeResourceTopology, Action.ADD | Action.UPDATE),
        ]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        """There is nothing to prepare. Configurations name this point."""
        return None

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        """What is available in a zone is what the node reports. Evicting pods changes it only with the next report."""
        return False

    # Filter

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        demand = self._demand(state, pod)
        if demand.ignored:
            return None
        codes = self._lasting(state, "codes", lambda: self._codes(demand, self._zones))[nodes.rows]
        return Verdicts(codes, _reason) if codes.any() else None

    def _codes(self, demand: Demand, zones: ZoneColumns) -> Ints:
        codes = np.zeros(len(zones.reported), dtype=np.int64)
        self._align(demand, zones, zones.single & zones.by_pod, zones.single & ~zones.by_pod, codes)
        codes[self._stale_rows()] = 1
        return codes

    def _align(self, demand: Demand, zones: ZoneColumns, by_pod: Mask, by_container: Mask, codes: Ints) -> None:
        available = self._available(demand, zones)
        if by_pod.any():
            fits = self._fitting(demand, demand.pod, available)
            codes[by_pod & ~fits.any(axis=0)] = 2
        if not by_container.any():
            return
        open_ = by_container.copy()
        for request, is_sidecar in demand.init:
            misfit = open_ & ~self._fitting(demand, request, available).any(axis=0)
            codes[misfit], open_ = 5 if is_sidecar else 4, open_ & ~misfit
        for request in demand.containers:
            fits = self._fitting(demand, request, available)
            misfit = open_ & ~fits.any(axis=0)
            codes[misfit], open_ = 3, open_ & ~misfit
            rows = np.flatnonzero(open_)
            self._take(demand, request, available, rows, fits[:, rows].argmax(axis=0))

    def _fitting(self, demand: Demand, request: Request, available: Columns) -> Mask:
        """The zones that have room, by NUMA id and row. A resource that no zone has, such as storage, is that of the
        node as a whole."""
        table = self.handle.cluster.nodes
        shape = next(iter(available.values())).shape if available else self._zones.zones.shape
        found = np.ones(shape, dtype=np.bool_)
        for name, wanted in request.items():
            if not wanted:
                continue
            column = available[name]
            present = column != ABSENT
            fits = present if _is_shared(demand.qos, name) else present & (column >= wanted)
            anywhere = present.any(axis=0) | (not _is_host_level(name))
            found &= np.where(anywhere, fits, True)
            if name not in ALWAYS_THERE:
                found &= table.allocatable[table.resource(name), : shape[1]] > 0
        return found

    def _take(self, demand: Demand, request: Request, available: Columns, rows: Ints, zones: Ints) -> None:
        """Take a container's resources from the zone that the kubelet would choose, the lowest that fits."""
        for name, wanted in request.items():
            column = available[name]
            there = column[zones, rows] != ABSENT
            if wanted and not _is_shared(demand.qos, name):
                column[zones[there], rows[there]] -= wanted

    # Score

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        demand = self._demand(state, pod)
        if demand.qos != GUARANTEED:
            return MAX_NODE_SCORE
        return self._lasting(state, "scores", lambda: self._scores(demand, self._zones))[nodes.rows]

    def _scores(self, demand: Demand, zones: ZoneColumns) -> Ints:
        available = self._available(demand, zones)
        kind = self.args.scoring_strategy.type
        if kind == "LeastNUMANodes":
            scored, by_pod, by_container = zones.reported, *self._fewest(demand, zones, available)
        else:
            scored, by_pod, by_container = zones.single, *self._worst(kind, demand, zones, available)
        scores = np.where(scored, np.where(zones.by_pod, by_pod, by_container), 0)
        scores[self._stale_rows()] = 0
        return scores

    def _fewest(self, demand: Demand, zones: ZoneColumns, available: Columns) -> tuple[Ints, Ints]:
        whole, parts = FewestZones(zones, available), FewestZones(zones, available)
        whole.add(demand.pod)
        for request in (*(each for each, _ in demand.init), *demand.containers):
            parts.add(request)
        return whole.scores(), parts.scores()

    def _worst(self, kind: str, demand: Demand, zones: ZoneColumns, available: Columns) -> tuple[Ints, Ints]:
        score = STRATEGIES[kind]
        by_pod = worst_zone(score, demand.pod, zones, available, self._weights)
        requests = (*(each for each, _ in demand.init), *demand.containers)
        each = [worst_zone(score, request, zones, available, self._weights) for request in requests]
        return by_pod, np.sum(each, axis=0) // len(each)

    # What counts beside the reports

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        if self.args.discard_reserved_nodes:
            self._reserved.setdefault(node_name, set()).add(pod.uid)
        return None

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        self._release(pod, node_name)

    async def post_bind(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        self._release(pod, node_name)

    def _release(self, pod: api.Pod, node_name: str) -> None:
        pods = self._reserved.get(node_name, set())
        pods.discard(pod.uid)
        if not pods:
            self._reserved.pop(node_name, None)

    def _stale_rows(self) -> list[int]:
        row_of = self.handle.cluster.nodes.row_of
        return [row_of[name] for name in self._reserved if name in row_of]

    def _lasting(self, state: CycleState, what: str, make: Callable[[], Ints]) -> Ints:
        """A result for all rows. If it depends on the pod's class and on reports alone, it is kept with the class until
        a report or a node changes."""
        self._zones.refresh()
        if self._placed is not None:
            self._placed.forget_reported()
            return make()
        if self._reserved:
            return make()
        memo, key = state.pod_class.memo, (self._zones, self.handle.profile_name, what)
        known = memo.get(key)
        if not isinstance(known, tuple) or known[0] != self._zones.version:
            memo[key] = known = (self._zones.version, make())
        found: Ints = known[1]
        return found

    def _demand(self, state: CycleState, pod: api.Pod) -> Demand:
        return state.pod_class.remember("NodeResourceTopologyMatch", lambda: Demand(state.pod_class, pod))

    def _available(self, demand: Demand, zones: ZoneColumns) -> Columns:
        """Copies of the columns that the pod concerns."""
        found: Columns = {}
        for name in demand.names:
            column = zones.available(name).copy()
            taken = None if self._placed is None else self._placed.taken(name, column.shape[1])
            if taken is not None:
                column = np.where(column == ABSENT, ABSENT, np.maximum(column - taken, 0))
            found[name] = column
        return found


def _reason(code: int) -> Status:
    found = REASONS[code]
    assert found is not None
    return found


def _is_shared(qos: int, resource: str) -> bool:
    """Whether pods share a resource of a zone: CPU and memory, unless the pod is Guaranteed."""
    return qos != GUARANTEED and (resource in ("cpu", "memory") or resource.startswith("hugepages-"))


def _is_host_level(resource: str) -> bool:
    """Whether a resource may belong to no zone."""
    return resource in ("ephemeral-storage", "storage") or not is_native(resource)


def _amounts(given: Mapping[str, api.Quantity]) -> dict[str, int]:
    return {name: amount(name, quantity) for name, quantity in given.items()}
