"""Compiled spread constraints, and the default selector of a pod, from its services and its controller."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kubesched.api import objects as api
from kubesched.api.selectors import (
    NOTHING,
    RequiredNodeAffinity,
    Selector,
    SelectorError,
    equals,
    label_selector,
    required_node_affinity,
    selector_from_map,
    with_requirements,
)
from kubesched.api.taints import HARD_EFFECTS
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.cluster.counters import DomainCounts, RowCounter
from kubesched.cluster.matching import required_affinity_mask, untolerated_mask
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints, Mask
from kubesched.cluster.view import Nodes

HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"
HONOR = "Honor"

SYSTEM_DEFAULTS = (
    api.TopologySpreadConstraint(max_skew=3, topology_key=HOSTNAME, when_unsatisfiable="ScheduleAnyway"),
    api.TopologySpreadConstraint(max_skew=5, topology_key=ZONE, when_unsatisfiable="ScheduleAnyway"),
)


@dataclass(frozen=True, slots=True)
class SpreadConstraint:
    """One compiled constraint of a pod."""

    max_skew: int
    topology_key: str
    selector: Selector
    min_domains: int
    honor_affinity: bool
    honor_taints: bool


@dataclass(frozen=True, slots=True)
class Constraints:
    """The constraints of one kind (hard or soft) of a pod class, and which nodes count for them."""

    items: tuple[SpreadConstraint, ...]
    keys: tuple[str, ...]
    """The topology keys a node must have to count; none for the system's default constraints."""
    required: RequiredNodeAffinity
    tolerations: tuple[api.Toleration, ...]
    compare: bool = False
    """Whether tolerations may compare numbers."""

    def __bool__(self) -> bool:
        return bool(self.items)

    def counter(self, cluster: ClusterState, namespace: str, constraint: SpreadConstraint) -> RowCounter:
        """Counts the pods that a constraint selects. As upstream, an empty selector counts none."""
        return cluster.counts.spread(namespace, NOTHING if constraint.selector.is_empty else constraint.selector)

    def domains(self, cluster: ClusterState, namespace: str, constraint: SpreadConstraint) -> DomainCounts:
        """The counts per domain, over the nodes that count."""
        affinity = self.required if constraint.honor_affinity and self.required != _ANY_NODE else None
        tolerations = self.tolerations if constraint.honor_taints else None
        keys = tuple(key for key in self.keys if key != constraint.topology_key)
        key: Hashable = None
        eligible: Callable[[], Mask] | None = None
        if affinity is not None or tolerations is not None or keys:
            key = (affinity, tolerations, keys)

            def eligible() -> Mask:
                return _eligible(Nodes(cluster.nodes), affinity, tolerations, keys, self.compare)

        return self.counter(cluster, namespace, constraint).by_domain(constraint.topology_key, eligible, key)

    def counts(self, cluster: ClusterState, namespace: str, constraint: SpreadConstraint) -> Ints:
        """Pods per domain, for scoring. Where a node may lack the label, it counts as having the empty value."""
        domains = self.domains(cluster, namespace, constraint)
        empty = domains.column.index.get("")
        if empty is None or constraint.topology_key in self.keys:
            return domains.counts
        nodes = Nodes(cluster.nodes)
        without = self.counts_node(nodes, constraint) & ~nodes.has_label(constraint.topology_key)
        counts = domains.counts.copy()
        counts[empty] += self.counter(cluster, namespace, constraint).on(len(nodes))[without].sum()
        return counts

    def counts_node(self, nodes: Nodes, constraint: SpreadConstraint) -> Mask:
        """Which nodes of a window count for a constraint."""
        affinity = self.required if constraint.honor_affinity else None
        tolerations = self.tolerations if constraint.honor_taints else None
        return _eligible(nodes, affinity, tolerations, self.keys, self.compare)


_ANY_NODE = RequiredNodeAffinity()


def _eligible(
    nodes: Nodes,
    affinity: RequiredNodeAffinity | None,
    tolerations: tuple[api.Toleration, ...] | None,
    keys: Iterable[str],
    compare: bool,
) -> Mask:
    mask = nodes.valid.copy()
    for key in keys:
        mask &= nodes.has_label(key)
    if affinity is not None:
        mask &= required_affinity_mask(nodes, affinity)
    if tolerations is not None:
        mask &= ~untolerated_mask(nodes, tolerations, HARD_EFFECTS, compare=compare)
    return mask


def compile_constraints(
    pod: api.Pod,
    constraints: Sequence[api.TopologySpreadConstraint],
    action: str,
    *,
    selector: Selector | None = None,
    all_keys: bool = True,
    features: Features = DEFAULT_FEATURES,
) -> Constraints:
    """The constraints with this action. `selector` replaces their own, since default constraints have none."""
    labels = pod.labels if features.match_label_keys_in_pod_topology_spread else {}
    items = tuple(_compile(c, labels, selector) for c in constraints if c.when_unsatisfiable == action)
    keys = tuple(dict.fromkeys(item.topology_key for item in items)) if all_keys else ()
    compare = features.taint_toleration_comparison_operators
    return Constraints(items, keys, required_node_affinity(pod), pod.spec.tolerations, compare)


def _compile(
    constraint: api.TopologySpreadConstraint, labels: Mapping[str, str], selector: Selector | None
) -> SpreadConstraint:
    """`labels` are those of the pod that matchLabelKeys may refer to."""
    own = label_selector(constraint.label_selector)
    extra = [equals(key, labels[key]) for key in constraint.match_label_keys if key in labels]
    return SpreadConstraint(
        max_skew=constraint.max_skew,
        topology_key=constraint.topology_key,
        selector=selector if selector is not None else with_requirements(own, extra),
        min_domains=1 if constraint.min_domains is None else constraint.min_domains,
        honor_affinity=(constraint.node_affinity_policy or HONOR) == HONOR,
        honor_taints=constraint.node_taints_policy == HONOR,
    )


def default_selector(cluster: ClusterState, pod: api.Pod) -> Selector:
    """The default selector of a pod, from the services that select it and the controller that owns it."""
    labels: dict[str, str] = {}
    for service in cluster.all(api.Service):
        wanted = service.spec.selector
        if service.namespace == pod.namespace and _subset(wanted, pod.labels):
            labels |= wanted
    owner = next((o for o in pod.metadata.owner_references if o.controller), None)
    if owner is None:
        return selector_from_map(labels)
    key = f"{pod.namespace}/{owner.name}"
    if (owner.api_version, owner.kind) == ("v1", "ReplicationController"):
        controller = cluster.get(api.ReplicationController, key)
        return selector_from_map(labels | (controller.spec.selector or {}) if controller is not None else labels)
    return _narrowed(selector_from_map(labels), _owner_selector(cluster, owner, key))


def _owner_selector(cluster: ClusterState, owner: api.OwnerReference, key: str) -> api.LabelSelector | None:
    if owner.api_version != "apps/v1":
        return None
    if owner.kind == "ReplicaSet":
        replica_set = cluster.get(api.ReplicaSet, key)
        return replica_set.spec.selector if replica_set is not None else None
    stateful_set = cluster.get(api.StatefulSet, key) if owner.kind == "StatefulSet" else None
    return stateful_set.spec.selector if stateful_set is not None else None


def _narrowed(selector: Selector, own: api.LabelSelector | None) -> Selector:
    try:
        return with_requirements(selector, label_selector(own).requirements)
    except SelectorError:
        return selector


def _subset(wanted: Mapping[str, str], labels: Mapping[str, str]) -> bool:
    return all(labels.get(key) == value for key, value in wanted.items())


def round_half_up(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """Round as Go's math.Round does, for values that are not negative."""
    whole = np.trunc(values)
    return (whole + (values - whole >= 0.5)).astype(np.int64)
