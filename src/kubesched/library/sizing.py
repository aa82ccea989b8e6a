"""How many nodes of which type are needed: the cheapest mix by a solver, verified by scheduling the pods on it.

The solver (HiGHS through SciPy, an optional extra) counts amounts and which pods may go to which type. What it cannot
count, such as spreading and the shape of what is left on a node, is settled by scheduling: where a pod has no place, a
node is added, and nodes that turn out not to be needed are taken away again.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.util import find_spec
from itertools import count, islice
from typing import Any

from msgspec import structs

from kubesched.api import objects as api
from kubesched.api.resources import allocatable, scheduling_requests
from kubesched.cluster.pods import PodClass
from kubesched.explain.amounts import requested
from kubesched.library.core import ClusterCore
from kubesched.library.node_types import NodeType
from kubesched.library.results import Fate, Placement, Placements
from kubesched.library.tables import as_frame, as_html
from kubesched.library.trial import by_priority, fresh

HINT = "the cheapest mix needs SciPy; install kubesched[solver]. Without it, nodes are added one by one"
SOLVER_SECONDS = 20.0
EXISTING = ""
"""The room of the cluster's own nodes, for the solver. No type of nodes has this name."""


@dataclass(frozen=True, slots=True)
class NodesNeeded:
    """The nodes to add so that all pods fit."""

    nodes: dict[str, int]
    """By type, how many."""
    price: float
    """Of the added nodes, per hour."""
    bound: float | None
    """No mix is cheaper than this; None without a solver."""
    placements: Placements
    """Where the pods go: the verification."""
    solver: str

    @property
    def ok(self) -> bool:
        """Whether all pods fit."""
        return self.placements.ok

    def to_dict(self) -> dict[str, Any]:
        """The result as a dict that can be written as JSON."""
        return {
            "ok": self.ok,
            "nodes": self.nodes,
            "price": self.price,
            "bound": self.bound,
            "solver": self.solver,
            "pending": [each.to_dict() for each in self.placements.pending],
            "podsPerNode": self.placements.pods_per_node,
        }

    def to_frame(self) -> Any:
        """A data frame with a row per pod."""
        return self.placements.to_frame()

    def types_frame(self) -> Any:
        """A data frame with a row per type."""
        return as_frame(self._rows())

    def _rows(self) -> list[dict[str, object]]:
        return [{"type": name, "nodes": number} for name, number in self.nodes.items()]

    def _repr_html_(self) -> str:
        return as_html(str(self), self._rows())

    def __str__(self) -> str:
        nodes = ", ".join(f"{number} {name}" for name, number in self.nodes.items()) or "no more nodes"
        pending = len(self.placements.pending)
        return f"{nodes} for {self.price:g} an hour" + (f"; {pending} pods still have no place" if pending else "")


def nodes_needed(
    cluster: ClusterCore, pods: Sequence[api.Pod], types: Sequence[NodeType], *, solver: bool = True
) -> NodesNeeded:
    """The cheapest nodes on which, beside those of the cluster, all pods fit; without a `solver`, nearly so."""
    ordered = by_priority(pods)
    pending = [each.pod for each in cluster.copy().play(ordered) if each.fate is Fate.PENDING]
    machines = [_Machine(each, _daemons_on(cluster, each)) for each in types]
    classes = _classes(cluster, ordered, machines)
    counts, bound = _solved(cluster, classes, pending, machines) if solver else (Counter[str](), None)
    buyer = _Buyer(cluster, ordered, machines, classes)
    placements = buyer.complete(counts)
    counts, placements = buyer.reduce(counts, placements)
    price = sum(each.price * counts[each.name] for each in types)
    chosen = {each.name: counts[each.name] for each in types if counts[each.name]}
    how = "HiGHS" if solver and find_spec("scipy") else "greedy"
    return NodesNeeded(chosen, round(price, 6), bound, Placements(placements), how)


@dataclass(frozen=True, slots=True)
class _Machine:
    """A type of nodes, with the pods that the cluster's DaemonSets would put on each."""

    type: NodeType
    daemons: tuple[api.Pod, ...]

    @property
    def room(self) -> dict[str, int]:
        """What a node of this type has left for other pods."""
        left = _offered(self.type.node(1))
        for pod in self.daemons:
            for name, amount in _amounts(pod).items():
                left[name] = max(left.get(name, 0) - amount, 0)
        return left

    def add(self, cluster: ClusterCore, number: int) -> None:
        """Add a node with its pods."""
        node = self.type.node(number)
        cluster.set(node)
        for pod in self.daemons:
            cluster.set(_bound(pod, node.name))


def _daemons_on(cluster: ClusterCore, node_type: NodeType) -> tuple[api.Pod, ...]:
    """One pod of each DaemonSet that would run on a node of the type; the scheduler is asked."""
    found: dict[str, api.Pod] = {}
    for pod in cluster.all(api.Pod):
        for owner in pod.metadata.owner_references:
            if owner.kind == "DaemonSet" and owner.controller and not pod.is_terminal:
                found.setdefault(owner.uid, pod)
    bare = cluster.reconfigured(cluster.config, cluster.plugins)
    bare.remove(*bare.all(api.Pod), *bare.all(api.Node))
    node = node_type.node(next(_numbers(node_type, cluster)))
    bare.set(node)
    made = [_bound(pod, node.name) for pod in found.values() if pod.scheduler_name in bare.engines]
    return tuple(each for each in made if bare.attempt(fresh(each)).node)


def _bound(pod: api.Pod, node: str) -> api.Pod:
    """A DaemonSet's pod for a node: its controller names the node in every term of the affinity."""
    spec = structs.replace(pod.spec, node_name=node)
    affinity = spec.affinity.node_affinity if spec.affinity is not None else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity is not None else None
    if spec.affinity is not None and affinity is not None and required is not None:
        here = api.NodeSelectorRequirement(key="metadata.name", operator="In", values=(node,))
        terms = tuple(structs.replace(each, match_fields=(here,)) for each in required.node_selector_terms)
        required = structs.replace(required, node_selector_terms=terms)
        affinity = structs.replace(affinity, required_during_scheduling_ignored_during_execution=required)
        spec = structs.replace(spec, affinity=structs.replace(spec.affinity, node_affinity=affinity))
    metadata = structs.replace(pod.metadata, name=f"{pod.name}-{node}", uid=f"{pod.uid}:{node}")
    return structs.replace(pod, metadata=metadata, spec=spec)


@dataclass(frozen=True, slots=True)
class _PodKind:
    """Pods that are alike: what they request, how many there are, and the types of nodes they may go to."""

    requests: Mapping[str, int]
    count: int
    allowed: frozenset[str]
    fits_now: bool
    """Whether one may have a place on a node that the cluster has."""


def _classes(cluster: ClusterCore, pods: Sequence[api.Pod], machines: Sequence[_Machine]) -> dict[PodClass, _PodKind]:
    """Pods by class. Which types they may go to is asked of the scheduler, on a new node of the type."""
    infos = [cluster.state.classes.info(each) for each in pods]
    number = Counter(info.pod_class for info in infos)
    first = {info.pod_class: info.pod for info in reversed(infos)}
    allowed: dict[PodClass, set[str]] = {each: set() for each in number}
    for each in machines:
        bare = cluster.reconfigured(cluster.config, cluster.plugins)
        bare.remove(*bare.all(api.Node))
        each.add(bare, next(_numbers(each.type, cluster)))
        for pod_class, pod in first.items():
            if pod.scheduler_name in bare.engines and bare.attempt(pod).node:
                allowed[pod_class].add(each.type.name)
    now = cluster.copy()
    return {
        pod_class: _PodKind(_amounts(pod), count, frozenset(allowed[pod_class]), _may_fit(now, pod))
        for (pod_class, count), pod in zip(number.items(), map(first.__getitem__, number), strict=True)
    }


def _may_fit(cluster: ClusterCore, pod: api.Pod) -> bool:
    """Whether a pod has a place now, or might have one when other pods are there."""
    depends = pod.spec.affinity is not None and pod.spec.affinity.pod_affinity is not None
    return depends or (pod.scheduler_name in cluster.engines and bool(cluster.attempt(pod).node))


def _numbers(node_type: NodeType, cluster: ClusterCore) -> Iterator[int]:
    """Numbers for new nodes, without those that would give them the name of a node that is there."""
    return (number for number in count(1) if cluster.get(api.Node, node_type.node_name(number)) is None)


def _amounts(pod: api.Pod) -> dict[str, int]:
    return {**requested(scheduling_requests(pod)), "pods": 1}


def _offered(node: api.Node) -> dict[str, int]:
    found = allocatable(node)
    plain = {"cpu": found.milli_cpu, "memory": found.memory, "ephemeral-storage": found.ephemeral_storage}
    return {**plain, "pods": found.pods, **found.scalar}


# --- the solver -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Offer:
    """Something that has room: a type of nodes, or all nodes of the cluster together."""

    name: str
    nodes: Sequence[Mapping[str, int]]
    """What each node has left; of a type, a new one."""
    price: float
    maximum: int | None

    @property
    def amounts(self) -> Counter[str]:
        """What all of the nodes have together."""
        return sum(map(Counter, self.nodes), Counter())

    def fits(self, requests: Mapping[str, int]) -> int:
        """How many pods that are alike the nodes take at most: a pod is not divided among two of them."""
        wanted = [(name, amount) for name, amount in requests.items() if amount]
        return sum(min(each.get(name, 0) // amount for name, amount in wanted) for each in self.nodes)


def _solved(
    cluster: ClusterCore,
    classes: Mapping[PodClass, _PodKind],
    pending: Sequence[api.Pod],
    machines: Sequence[_Machine],
) -> tuple[Counter[str], float | None]:
    """The solver's mix for the pods that do not fit now, and a price that no mix can undercut; nothing without it.

    The mix relies on the places that pods have on existing nodes now. Beside other nodes they could have others, so the
    second result counts all pods and all room, as if the existing nodes were one.
    """
    if find_spec("scipy") is None:
        return Counter(), None
    offers = [_Offer(each.type.name, (each.room,), each.type.price, each.type.maximum) for each in machines]
    left = Counter(cluster.state.classes.info(each).pod_class for each in pending)
    kinds = [replace(kind, count=left[each]) for each, kind in classes.items() if left[each] and kind.allowed]
    counts, bound = _mix(kinds, offers)
    if bound and len(pending) < sum(each.count for each in classes.values()):
        room = _Offer(EXISTING, _free(cluster), 0.0, 1)
        also = frozenset((EXISTING,))
        every = [replace(each, allowed=each.allowed | also) if each.fits_now else each for each in classes.values()]
        bound = _mix([each for each in every if each.allowed], [*offers, room])[1]
    return counts, bound


def _free(cluster: ClusterCore) -> list[Counter[str]]:
    """What each node of the cluster has left."""
    found = []
    for node in cluster.all(api.Node):
        left = Counter(_offered(node))
        for pod in cluster.pods_on(node.name):
            left.subtract(_amounts(pod))
        found.append(+left)
    return found


def _mix(kinds: Sequence[_PodKind], offers: Sequence[_Offer]) -> tuple[Counter[str], float | None]:
    """How many of each offer the pods need at the lowest price, and that price; no price if there is not enough."""
    if not kinds:
        return Counter(), 0.0
    numpy, optimize = import_module("numpy"), import_module("scipy.optimize")
    pairs = [(k, o) for k, kind in enumerate(kinds) for o, each in enumerate(offers) if each.name in kind.allowed]
    width = len(offers) + len(pairs)  # how many of each offer, then pods of each kind on each offer
    rows: list[Any] = []
    low: list[float] = []
    high: list[float] = []
    for k, kind in enumerate(kinds):  # every pod is somewhere
        row = numpy.zeros(width)
        row[[len(offers) + i for i, pair in enumerate(pairs) if pair[0] == k]] = 1
        rows, low, high = [*rows, row], [*low, kind.count], [*high, kind.count]
    for i, (k, o) in enumerate(pairs):  # a node takes whole ones
        row = numpy.zeros(width)
        row[o], row[len(offers) + i] = -offers[o].fits(kinds[k].requests), 1
        rows, low, high = [*rows, row], [*low, -math.inf], [*high, 0.0]
    for o, each in enumerate(offers):  # and no offer has more than its nodes have
        amounts = each.amounts
        for resource in {name for kind in kinds for name in kind.requests}:
            row = numpy.zeros(width)
            row[o] = -amounts.get(resource, 0)
            for i, (k, other) in enumerate(pairs):
                if other == o:
                    row[len(offers) + i] = kinds[k].requests.get(resource, 0)
            scale = max(abs(row).max(), 1.0)
            rows, low, high = [*rows, row / scale], [*low, -math.inf], [*high, 0.0]
    cost = numpy.zeros(width)
    cost[: len(offers)] = [each.price for each in offers]
    upper = [math.inf if each.maximum is None else each.maximum for each in offers] + [math.inf] * len(pairs)
    solved = optimize.milp(
        cost,
        constraints=optimize.LinearConstraint(numpy.array(rows), low, high),
        bounds=optimize.Bounds(0, upper),
        integrality=[1] * width,
        options={"time_limit": SOLVER_SECONDS, "mip_rel_gap": 1e-4},
    )
    if solved.x is None:
        return Counter(), None
    counts = Counter({each.name: round(solved.x[o]) for o, each in enumerate(offers)})
    bound = getattr(solved, "mip_dual_bound", None)
    return counts, round(float(solved.fun if bound is None else bound), 6)


# --- scheduling -------------------------------------------------------------------------------------------------------


class _Buyer:
    """Schedules the pods on a mix of nodes, and changes the mix until it is enough and nothing is too much."""

    def __init__(
        self,
        cluster: ClusterCore,
        pods: Sequence[api.Pod],
        machines: Sequence[_Machine],
        classes: Mapping[PodClass, _PodKind],
    ) -> None:
        self._cluster = cluster
        self._pods = pods
        self._machines = machines
        self._types = [each.type for each in machines]
        self._classes = classes
        self._amounts = {each.type.name: each.room for each in machines}

    def complete(self, counts: Counter[str]) -> list[Placement]:
        """Add nodes until every pod that may go to some type has a place."""
        while True:
            placements = self._schedule(counts)
            wanted = self._cheapest_for(placements, counts)
            if not wanted:
                return placements
            counts.update(wanted)

    def reduce(self, counts: Counter[str], placements: list[Placement]) -> tuple[Counter[str], list[Placement]]:
        """Take away nodes without which the pods still fit, or for which cheaper ones do, the dearest first."""
        pending = sum(each.fate is Fate.PENDING for each in placements)
        by_price = sorted(self._types, key=lambda each: -each.price)
        for each in by_price:
            cheaper = [other for other in by_price if other.price < each.price]
            while counts[each.name]:
                without = counts - Counter({each.name: 1})
                options = [without, *(without + Counter({other.name: 1}) for other in reversed(cheaper))]
                found = next((tried for tried in map(self._tried, options) if tried and tried[2] <= pending), None)
                if found is None:
                    break
                counts, placements, _ = found
        return counts, placements

    def _tried(self, counts: Counter[str]) -> tuple[Counter[str], list[Placement], int] | None:
        """Schedule on a mix; also how many pods have no place. None if there are not so many nodes to be had."""
        if any(each.maximum is not None and counts[each.name] > each.maximum for each in self._types):
            return None
        placements = self._schedule(counts)
        return counts, placements, sum(each.fate is Fate.PENDING for each in placements)

    def _schedule(self, counts: Mapping[str, int]) -> list[Placement]:
        trial = self._cluster.copy()
        for each in self._machines:
            for number in islice(_numbers(each.type, self._cluster), counts.get(each.type.name, 0)):
                each.add(trial, number)
        return list(trial.play(self._pods))

    def _cheapest_for(self, placements: Sequence[Placement], counts: Mapping[str, int]) -> Counter[str]:
        """Nodes for the pods that have no place: as many as their amounts need at least, of the cheapest type."""
        waiting: Counter[str] = Counter()
        needs: dict[str, Counter[str]] = {}
        room = [t for t in self._types if t.maximum is None or counts.get(t.name, 0) < t.maximum]
        for each in placements:
            if each.fate is not Fate.PENDING:
                continue
            kind = self._classes.get(self._cluster.state.classes.info(each.pod).pod_class)
            fitting = [t for t in room if kind is not None and t.name in kind.allowed]
            if kind is None or not fitting:
                continue
            best = min(fitting, key=lambda t: (t.price * _share(kind.requests, self._amounts[t.name]), t.price, t.name))
            waiting[best.name] += 1
            needs.setdefault(best.name, Counter()).update(kind.requests)
        found: Counter[str] = Counter()
        for t in room:
            if waiting[t.name]:
                number = max(1, math.floor(_share(needs[t.name], self._amounts[t.name]) / 2))
                found[t.name] = number if t.maximum is None else min(number, t.maximum - counts.get(t.name, 0))
        return found


def _share(wanted: Mapping[str, int], offered: Mapping[str, int]) -> float:
    """How much of a node amounts take: their largest share."""
    return max((amount / offered[name] for name, amount in wanted.items() if offered.get(name)), default=0.0)
