"""AppGroups and NetworkTopologies of diktyo: which workloads depend on which, and what distance costs."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable
from typing import ClassVar, Final

import numpy as np

from kubesched.api import objects as api
from kubesched.api.meta import Part
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints

GROUP_LABEL: Final = "appgroup.diktyo.x-k8s.io"
WORKLOAD_LABEL: Final = "appgroup.diktyo.x-k8s.io.workload"
NOTHING: Final[Ints] = np.zeros(0, dtype=np.int64)


class AppWorkload(Part, frozen=True):
    kind: str = ""
    name: str = ""
    selector: str = ""


class AppDependency(Part, frozen=True):
    workload: AppWorkload = AppWorkload()
    max_network_cost: int = 0


class AppMember(Part, frozen=True):
    workload: AppWorkload = AppWorkload()
    dependencies: tuple[AppDependency, ...] = ()


class AppGroupSpec(Part, frozen=True):
    num_members: int = 0
    topology_sorting_algorithm: str = ""
    workloads: tuple[AppMember, ...] = ()


class AppOrder(Part, frozen=True):
    workload: AppWorkload = AppWorkload()
    index: int = 0


class AppGroupStatus(Part, frozen=True):
    topology_order: tuple[AppOrder, ...] = ()


class AppGroup(api.Object, frozen=True):
    """An application of several workloads."""

    api_version: ClassVar[str] = "appgroup.diktyo.x-k8s.io/v1alpha1"
    kind: ClassVar[str] = "AppGroup"
    plural: ClassVar[str] = "appgroups"

    spec: AppGroupSpec = AppGroupSpec()
    status: AppGroupStatus = AppGroupStatus()


class DestinationCost(Part, frozen=True):
    destination: str = ""
    network_cost: int = 0


class OriginCosts(Part, frozen=True):
    origin: str = ""
    cost_list: tuple[DestinationCost, ...] = ()


class TopologyCosts(Part, frozen=True):
    topology_key: str = ""
    origin_list: tuple[OriginCosts, ...] = ()


class NamedWeights(Part, frozen=True):
    name: str = ""
    topology_list: tuple[TopologyCosts, ...] = ()


class NetworkTopologySpec(Part, frozen=True):
    weights: tuple[NamedWeights, ...] = ()


class NetworkTopology(api.Object, frozen=True):
    """What it costs to talk between regions, and between zones."""

    api_version: ClassVar[str] = "networktopology.diktyo.x-k8s.io/v1alpha1"
    kind: ClassVar[str] = "NetworkTopology"
    plural: ClassVar[str] = "networktopologies"

    spec: NetworkTopologySpec = NetworkTopologySpec()

    def costs(self, weights: str, topology_key: str) -> dict[tuple[str, str], int]:
        """Costs by origin and destination."""
        return {
            (origin.origin, each.destination): each.network_cost
            for named in self.spec.weights
            if named.name == weights
            for topology in named.topology_list
            if topology.topology_key == topology_key
            for origin in topology.origin_list
            for each in origin.cost_list
        }


def find_app_group(cluster: ClusterState, name: str, namespaces: Iterable[str]) -> AppGroup | None:
    """The group of this name, in the first of these namespaces that has it."""
    found = (cluster.get(AppGroup, f"{namespace}/{name}") for namespace in namespaces)
    return next((each for each in found if each is not None), None)


def workload_order(group: AppGroup) -> dict[str, int]:
    """The place of each workload, by its selector. If no controller has written it, workloads come before those that
    they depend on; with an algorithm whose name begins with Reverse, after them."""
    if group.status.topology_order:
        return {each.workload.selector: each.index for each in group.status.topology_order}
    order = _sorted(group)
    if group.spec.topology_sorting_algorithm.startswith("Reverse"):
        order.reverse()
    return {selector: place for place, selector in enumerate(order, 1)}


def _sorted(group: AppGroup) -> list[str]:
    """Kahn's algorithm. Workloads in a circle come last."""
    needs = {each.workload.selector: [d.workload.selector for d in each.dependencies] for each in group.spec.workloads}
    users = Counter(selector for each in needs.values() for selector in each)
    ready = deque(selector for selector in needs if not users[selector])
    order: list[str] = []
    while ready:
        order.append(selector := ready.popleft())
        for needed in needs.get(selector, ()):
            users[needed] -= 1
            if not users[needed]:
                ready.append(needed)
    return order + [selector for selector in needs if selector not in order]


class AppGroupPods:
    """How many pods of each workload of a group are on which row. All profiles share one."""

    def __init__(self, cluster: ClusterState) -> None:
        self._table = cluster.nodes
        self._counts: dict[tuple[str, str], Ints] = {}
        for info in cluster.pods.values():
            self._observe(info, 1)
        cluster.placement_observers.append(self._observe)

    def _observe(self, info: PodInfo, sign: int) -> None:
        group = info.pod.labels.get(GROUP_LABEL)
        if group:
            key = (group, info.pod.labels.get(WORKLOAD_LABEL, ""))
            counts = self._counts.get(key, NOTHING)
            if len(counts) <= info.row:
                counts = np.concatenate((counts, np.zeros(self._table.capacity - len(counts), dtype=np.int64)))
                self._counts[key] = counts
            counts[info.row] += sign

    def on_rows(self, group: str, selector: str) -> tuple[Ints, Ints]:
        """The rows with pods of a workload, and how many there are on each."""
        counts = self._counts.get((group, selector), NOTHING)
        rows = np.flatnonzero(counts)
        return rows, counts[rows]
