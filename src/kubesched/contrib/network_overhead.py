"""NetworkOverhead: pods go near the pods that they depend on, in terms of what the network between nodes costs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ints, NodeTable
from kubesched.cluster.view import Nodes
from kubesched.contrib.app_groups import (
    GROUP_LABEL,
    WORKLOAD_LABEL,
    AppDependency,
    AppGroup,
    AppGroupPods,
    NetworkTopology,
    find_app_group,
)
from kubesched.contrib.scaling import lowest_best
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.plugin import Handle, Plugin, Verdicts
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable

REGION: Final = "topology.kubernetes.io/region"
ZONE: Final = "topology.kubernetes.io/zone"
UNKNOWN_COST, SAME_ZONE_COST = 100, 1
SATISFIED, VIOLATED, COST = range(3)
SAME_NODE: Final = np.array([[1], [0], [0]])
STATE: Final = "PreFilterNetworkOverhead"

Place = tuple[str, str]
"""A region and a zone; empty where the node has no such label."""


class NetworkOverheadArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where AppGroups and the NetworkTopology are looked for, and which weights count."""

    namespaces: tuple[str, ...] = ("default",)
    weights_name: str = "UserDefined"
    network_topology_name: str = "nt-default"


class NetworkOverhead(Plugin):
    """Filters nodes from which more dependencies are too far than near enough, and scores by the sum of costs."""

    name = "NetworkOverhead"
    args_type = NetworkOverheadArgs
    relies_on = frozenset({"preFilter"})

    def __init__(self, args: NetworkOverheadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pods = handle.cluster.share(AppGroupPods)
        self._known: tuple[tuple[int, int], list[Place], Ints] = ((-1, -1), [], np.zeros(0, dtype=np.int64))
        """The version of the node table's labels, and the places then."""

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.ASSIGNED_POD, Action.ADD | Action.DELETE | Action.UPDATE_POD_LABEL),
            on(Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL),  # the pod itself
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            on(AppGroup, Action.ALL),
            on(NetworkTopology, Action.ALL),
        ]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        """Count, for every row, dependencies that are satisfied and violated, and what they cost."""
        state.write(STATE, self._counts(pod, nodes))
        return None

    def _counts(self, pod: api.Pod, nodes: Nodes) -> Ints | None:
        """The three numbers for all rows; None if the pod depends on nothing that is placed already."""
        name, cluster, args = pod.labels.get(GROUP_LABEL, ""), self.handle.cluster, self.args
        namespaces = args.namespaces or ("default",)
        group = find_app_group(cluster, name, namespaces) if name else None
        keys = (f"{namespace}/{args.network_topology_name}" for namespace in namespaces)
        topology = next((found for key in keys if (found := cluster.get(NetworkTopology, key)) is not None), None)
        if group is None or topology is None:
            return None
        needed = [
            (each, *self._pods.on_rows(name, each.workload.selector))
            for member in group.spec.workloads
            if member.workload.selector == pod.labels.get(WORKLOAD_LABEL)
            for each in member.dependencies
        ]
        return self._summed(needed, topology) if any(len(rows) for _, rows, _ in needed) else None

    def _summed(self, needed: Sequence[tuple[AppDependency, Ints, Ints]], topology: NetworkTopology) -> Ints:
        places, place_of = self._places()
        costs = NetworkCosts(topology, self.args.weights_name)
        found = np.zeros((3, len(place_of)), dtype=np.int64)
        for dependency, rows, counts in needed:
            most = dependency.max_network_cost
            by_place = np.bincount(place_of[rows], weights=counts, minlength=len(places)).astype(np.int64)
            sums = np.zeros((3, len(places)), dtype=np.int64)
            for target in np.flatnonzero(by_place).tolist():
                between = [costs.between(origin, places[target], most) for origin in places]
                sums += by_place[target] * np.array(between, dtype=np.int64).T
            found += sums[:, place_of]
            # Pods on the same node are nearer than those of the same place.
            within = np.array([costs.between(place, place, most) for place in places], dtype=np.int64).T
            found[:, rows] += counts * (SAME_NODE - within)[:, place_of[rows]]
        return found

    def _places(self) -> tuple[list[Place], Ints]:
        """The distinct places of nodes, and which one each row is in."""
        table = self.handle.cluster.nodes
        now = (table.topology_version, table.size)
        if self._known[0] != now:
            self._known = (now, *self._find_places(table))
        return self._known[1:]

    def _find_places(self, table: NodeTable) -> tuple[list[Place], Ints]:
        regions, zones = table.label(REGION), table.label(ZONE)
        width = len(zones.values) + 1
        keys = (regions.ids[: table.size].astype(np.int64) + 1) * width + zones.ids[: table.size] + 1
        distinct, place_of = np.unique(keys, return_inverse=True)
        names = [(("", *regions.values)[key // width], ("", *zones.values)[key % width]) for key in distinct.tolist()]
        return names, np.asarray(place_of, dtype=np.int64)

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        """What PreFilter has counted is not changed by what-ifs, as upstream has it."""
        return False

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        counts: Ints | None = state.read(STATE, np.ndarray)
        if counts is None:
            return None
        names = self.handle.cluster.nodes.names

        def status_of(code: int) -> Status:
            satisfied, violated, _ = counts[:, code - 1].tolist()
            return unschedulable(
                f"Node {names[code - 1]} does not meet several network requirements from Workload dependencies: "
                f"Satisfied: {satisfied} Violated: {violated}"
            )

        rejected = counts[VIOLATED] > counts[SATISFIED]
        codes = np.where(rejected, np.arange(1, counts.shape[1] + 1), 0)[nodes.rows]
        return Verdicts(codes, status_of) if codes.any() else None

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        counts: Ints | None = state.read(STATE, np.ndarray)
        return 0 if counts is None else counts[COST, nodes.rows]

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return lowest_best(scores)


class NetworkCosts:
    """What it costs to talk from one place to another."""

    def __init__(self, topology: NetworkTopology, weights: str) -> None:
        self._regions = topology.costs(weights, REGION)
        self._zones = topology.costs(weights, ZONE)

    def between(self, origin: Place, target: Place, most: int) -> tuple[int, int, int]:
        """Whether a dependency is satisfied, whether it is violated, and its cost. Where no cost is known it is
        neither, but costly."""
        if target == ("", ""):
            return 0, 1, UNKNOWN_COST
        if origin == target:
            return 1, 0, SAME_ZONE_COST
        same_region = origin[0] == target[0]
        known = self._zones.get((origin[1], target[1])) if same_region else self._regions.get((origin[0], target[0]))
        if known is None:
            return 0, 0, UNKNOWN_COST
        return int(known <= most), int(known > most), known
