"""NodeResourceTopologyMatch: pods go to nodes where their resources fit one NUMA zone, if the kubelet there insists."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, Literal

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.api.quantity import milli_of, value_of
from kubesched.api.resources import is_native, pod_requests
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.config.args import DEFAULT_RESOURCES, ResourceSpec
from kubesched.contrib.numa_cache import CachedZones, TopologyCache
from kubesched.contrib.numa_reports import NodeResourceTopology, amount
from kubesched.contrib.numa_scoring import STRATEGIES, Columns, FewestZones, Request, worst_zone
from kubesched.contrib.numa_zones import ABSENT, ZoneColumns
from kubesched.contrib.qos_sort import BEST_EFFORT, GUARANTEED, qos_class
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.plugin import MAX_NODE_SCORE, Handle, Plugin, Verdicts
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable

Rows = slice | Ints
SupposePod = Callable[[CycleState, api.Pod, PodInfo, int], None]

STALE: Final = unschedulable("invalid node topology data")
POD: Final = unschedulable("cannot align pod")
CONTAINER: Final = unschedulable("cannot align container")
INIT: Final = unschedulable("cannot align init container")
SIDECAR: Final = unschedulable("cannot align sidecar container")
ALWAYS_THERE: Final = ("cpu", "memory", "ephemeral-storage", "pods")
"""Resources that every node has. Any other that a node does not offer at all rules it out."""
_NO_EVICTION: Final = "eviction simulation in NRT is not possible:"
NOTHING_FREED: Final = unschedulable(f"{_NO_EVICTION}no resources to add, cannot process eviction simulation")
TOO_MUCH_FREED: Final = unschedulable(f"{_NO_EVICTION}resource release request exceeds NUMA allocatable")
STALE_CODE, NOTHING_FREED_CODE, TOO_MUCH_FREED_CODE = 1, 6, 7
REASONS: Final = (None, STALE, POD, CONTAINER, INIT, SIDECAR, NOTHING_FREED, TOO_MUCH_FREED)


class NumaScoringStrategy(msgspec.Struct, frozen=True, rename="camel"):
    """How zones are scored, and how much each resource counts."""

    type: Literal["MostAllocated", "BalancedAllocation", "LeastAllocated", "LeastNUMANodes"] = "LeastAllocated"
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class NodeResourceTopologyMatchArgs(msgspec.Struct, frozen=True, rename="camel"):
    """How nodes are scored, and what counts beside their reports."""

    scoring_strategy: NumaScoringStrategy = NumaScoringStrategy()
    cache_resync_period_seconds: int = 0
    discard_reserved_nodes: bool = False
    cache: TopologyCache = TopologyCache()
    preemption_mode: Literal["Disabled", "Enabled"] = "Disabled"


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


class Victims:
    """The pods that are supposed to be evicted, by row and UID."""

    __slots__ = ("rows",)

    def __init__(self, rows: dict[int, dict[str, api.Pod]] | None = None) -> None:
        self.rows = {} if rows is None else rows

    def on_row(self, row: int) -> dict[str, api.Pod]:
        return self.rows.setdefault(row, {})

    def clone(self) -> Victims:
        return Victims({row: dict(pods) for row, pods in self.rows.items()})


class NodeResourceTopologyMatch(Plugin):
    """Filters and scores nodes by their NUMA zones."""

    name = "NodeResourceTopologyMatch"
    args_type = NodeResourceTopologyMatchArgs
    add_pod: SupposePod
    remove_pod: SupposePod

    def __init__(self, args: NodeResourceTopologyMatchArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._reserved: dict[str, set[str]] = {}
        """Nodes with pods that are being bound, if discardReservedNodes is set."""
        self._cache: CachedZones | None = None
        if args.cache_resync_period_seconds > 0 and not args.discard_reserved_nodes and hasattr(handle, "spawn"):
            self._cache = CachedZones(handle.cluster, handle.profile_name, args.cache, handle.log)
            handle.spawn(self._cache.follow(handle.clock, args.cache_resync_period_seconds))
        self._zones = handle.cluster.share(ZoneColumns) if self._cache is None else self._cache
        if self._cache is not None and args.preemption_mode == "Enabled":
            # Not methods of the class: plugins that have these are asked about one node at a time.
            self.add_pod, self.remove_pod = self._spare, self._evict
        strategy = args.scoring_strategy
        self._weights = {each.name: each.weight for each in strategy.resources or DEFAULT_RESOURCES}

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.DELETE),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_ALLOCATABLE),
            on(NodeResourceTopology, Action.ADD | Action.UPDATE),
        ]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        state.write(self, Victims())
        return None

    def _spare(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(self, Victims).on_row(row).pop(info.pod.uid, None)

    def _evict(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(self, Victims).on_row(row)[info.pod.uid] = info.pod

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        """What is available in a zone is what the node reports. Evicting pods changes that only with the next report,
        unless it is known which zones they are on."""
        return hasattr(self, "remove_pod")

    # Filter

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        demand = self._demand(state, pod)
        if demand.ignored:
            return None
        self._zones.refresh()
        if self._cache is None:
            codes = self._lasting(state, "codes", lambda: self._codes(demand, slice(None)))[nodes.rows]
        else:
            codes = self._codes_of_window(state, demand, nodes.rows, self._cache)
        return Verdicts(codes, _reason) if codes.any() else None

    def _codes_of_window(self, state: CycleState, demand: Demand, rows: Rows, cache: CachedZones) -> Ints:
        victims = state.read(self, Victims) if self in state else Victims()
        codes = self._codes(demand, rows, victims)
        numbers = np.arange(len(cache.reported))[rows]
        if not any(victims.rows.values()):
            cache.reject(numbers[codes > STALE_CODE])
        codes[(cache.has_foreign & cache.reported)[rows]] = STALE_CODE
        return codes

    def _codes(self, demand: Demand, rows: Rows, victims: Victims | None = None) -> Ints:
        zones, available = self._zones, self._available(demand, rows)
        codes = np.zeros(len(zones.reported[rows]), dtype=np.int64)
        problems = {} if victims is None else self._free(available, rows, victims)
        single, by_pod = zones.single[rows], zones.by_pod[rows]
        self._align(demand, available, rows, single & by_pod, single & ~by_pod, codes)
        for position, code in problems.items():
            codes[position] = code
        if self._reserved:
            codes[np.isin(np.arange(len(zones.reported))[rows], self._stale_rows())] = STALE_CODE
        return codes

    def _free(self, available: Columns, rows: Rows, victims: Victims) -> dict[int, int]:
        """Add what evicted pods leave to the columns. Returns the code of each position where that is not known."""
        assert self._cache is not None
        problems: dict[int, int] = {}
        for row, pods in victims.rows.items():
            position = np.flatnonzero(np.arange(len(self._zones.reported))[rows] == row)
            if not pods or not len(position) or not self._cache.zones_of(row):
                continue
            freed = self._cache.freed(row, pods.values())
            if not freed:
                problems[int(position[0])] = NOTHING_FREED_CODE
            elif self._exceeds(row, freed):
                problems[int(position[0])] = TOO_MUCH_FREED_CODE
            for (name, zone), more in freed.items():
                if name in available and available[name][zone, position[0]] != ABSENT:
                    available[name][zone, position[0]] += more
        return problems

    def _exceeds(self, row: int, freed: Mapping[tuple[str, int], int]) -> bool:
        """Whether a zone would have more than it can have: then its report does not fit its pods."""
        assert self._cache is not None
        most = self._cache.allocatable(row)
        now = {name: self._column(name, slice(row, row + 1)) for name, _ in freed}
        return any(
            key in most and max(int(now[key[0]][key[1], 0]), 0) + more > most[key] for key, more in freed.items()
        )

    def _align(
        self, demand: Demand, available: Columns, rows: Rows, by_pod: Mask, by_container: Mask, codes: Ints
    ) -> None:
        if by_pod.any():
            fits = self._fitting(demand, demand.pod, available, rows)
            codes[by_pod & ~fits.any(axis=0)] = 2
        if not by_container.any():
            return
        open_ = by_container.copy()
        for request, is_sidecar in demand.init:
            misfit = open_ & ~self._fitting(demand, request, available, rows).any(axis=0)
            codes[misfit], open_ = 5 if is_sidecar else 4, open_ & ~misfit
        for request in demand.containers:
            fits = self._fitting(demand, request, available, rows)
            misfit = open_ & ~fits.any(axis=0)
            codes[misfit], open_ = 3, open_ & ~misfit
            positions = np.flatnonzero(open_)
            self._take(demand, request, available, positions, fits[:, positions].argmax(axis=0))

    def _fitting(self, demand: Demand, request: Request, available: Columns, rows: Rows) -> Mask:
        """The zones that have room, by NUMA id and row. A resource that no zone has, such as storage, is that of the
        node as a whole."""
        table = self.handle.cluster.nodes
        size = len(self._zones.reported)
        found = np.ones(self._zones.zones[:, rows].shape, dtype=np.bool_)
        for name, wanted in request.items():
            if not wanted:
                continue
            column = available[name]
            present = column != ABSENT
            fits = present if _is_shared(demand.qos, name) else present & (column >= wanted)
            anywhere = present.any(axis=0) | (not _is_host_level(name))
            found &= np.where(anywhere, fits, True)
            if name not in ALWAYS_THERE:
                found &= table.allocatable[table.column_of(name), :size][rows] > 0
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
        self._zones.refresh()
        return self._lasting(state, "scores", lambda: self._scores(demand, self._zones))[nodes.rows]

    def _scores(self, demand: Demand, zones: ZoneColumns) -> Ints:
        available = self._available(demand, slice(None))
        kind = self.args.scoring_strategy.type
        if kind == "LeastNUMANodes":
            scored, by_pod, by_container = zones.reported, *self._fewest(demand, zones, available)
        else:
            scored, by_pod, by_container = zones.single, *self._worst(kind, demand, zones, available)
        scores = np.where(scored, np.where(zones.by_pod, by_pod, by_container), 0)
        scores[self._stale_rows()] = 0
        return scores if self._cache is None else np.where(self._cache.has_foreign, 0, scores)

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
        row = self.handle.cluster.nodes.row_of.get(node_name)
        if self._cache is not None and row is not None:
            self._cache.reserve(row, pod.uid, state.pod_class)
        if self.args.discard_reserved_nodes:
            self._reserved.setdefault(node_name, set()).add(pod.uid)
        return None

    def unreserve(self, state: CycleState, pod: api.Pod, node_name: str) -> None:
        row = self.handle.cluster.nodes.row_of.get(node_name)
        if self._cache is not None and row is not None:
            self._cache.unreserve(row, pod.uid)
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
        if self._cache is not None or self._reserved:
            return make()
        memo, key = state.pod_class.memo, (self._zones, self.handle.profile_name, what)
        known = memo.get(key)
        if not isinstance(known, tuple) or known[0] != self._zones.version:
            memo[key] = known = (self._zones.version, make())
        found: Ints = known[1]
        return found

    def _demand(self, state: CycleState, pod: api.Pod) -> Demand:
        return state.pod_class.remember("NodeResourceTopologyMatch", lambda: Demand(state.pod_class, pod))

    def _available(self, demand: Demand, rows: Rows) -> Columns:
        """Copies of the columns that the pod concerns."""
        return {name: self._column(name, rows) for name in demand.names}

    def _column(self, resource: str, rows: Rows) -> Ints:
        """What is available of a resource, without what is reserved."""
        column = self._zones.available(resource)[:, rows].copy()
        taken = None if self._cache is None else self._cache.taken(resource)
        if taken is None:
            return column
        return np.where(column == ABSENT, ABSENT, np.maximum(column - taken[rows], 0))


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
