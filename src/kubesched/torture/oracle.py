"""May this pod be placed on this node? Answered naively, one rule after the other, without any of the scheduler's code.

It knows the rules that the simulated workloads use. It reads plain objects and keeps nothing from one view of the
cluster to the next, so that it can contradict columns, counters and caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.api.resources import Requests, node_requests, scheduling_requests

GIGA = 10**9
HARD = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = api.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class SeenStorage:
    """The objects of storage that a scheduler has seen."""

    def __init__(
        self,
        claims: Iterable[api.PersistentVolumeClaim] = (),
        volumes: Iterable[api.PersistentVolume] = (),
        classes: Iterable[api.StorageClass] = (),
        csi_nodes: Iterable[api.CSINode] = (),
    ) -> None:
        self.claims = {claim.key: claim for claim in claims}
        self.volumes = {volume.name: volume for volume in volumes}
        self.classes = {each.name: each for each in classes}
        self.csi_nodes = {each.name: each for each in csi_nodes}

    def of(self, pod: api.Pod) -> list[api.PersistentVolumeClaim]:
        """The claims of a pod that exist."""
        names = (each.persistent_volume_claim.claim_name for each in pod.spec.volumes if each.persistent_volume_claim)
        found = (self.claims.get(f"{pod.namespace}/{name}") for name in names)
        return [claim for claim in found if claim is not None]

    def has_all(self, pod: api.Pod) -> bool:
        """Whether all claims of a pod exist."""
        return len(self.of(pod)) == sum(each.persistent_volume_claim is not None for each in pod.spec.volumes)

    def driver(self, claim: api.PersistentVolumeClaim) -> str:
        """The CSI driver of a claim's volume, or of the volume that it will get."""
        volume = self.volumes.get(claim.spec.volume_name or "")
        if volume is not None:
            return volume.spec.csi.driver if volume.spec.csi is not None else ""
        found = self.classes.get(claim.spec.storage_class_name or "")
        return "" if found is None else found.provisioner


class SeenCluster:
    """The objects that a scheduler has seen, and the pods that it has placed itself since."""

    def __init__(
        self, nodes: Iterable[api.Node], pods: Iterable[tuple[api.Pod, str]], storage: SeenStorage | None = None
    ) -> None:
        self.storage = storage or SeenStorage()
        self.nodes = {node.name: node for node in nodes}
        self.pods = list(pods)
        """Pods on nodes, with the names of the nodes."""
        self._on: dict[str, list[api.Pod]] = {}
        for pod, where in self.pods:
            self._on.setdefault(where, []).append(pod)
        self._used: dict[str, dict[str, dict[str, int]]] = {}
        """What each pod of a node uses, by the names of the nodes and the UIDs of the pods."""

    def on(self, node: str) -> list[api.Pod]:
        """The pods of a node."""
        return self._on.get(node, [])

    def used(self, node: str, except_of: api.Pod) -> Counter[str]:
        """What the pods of a node use together, without one of them."""
        amounts = self._used.get(node)
        if amounts is None:
            amounts = self._used[node] = {pod.uid: _amounts(node_requests(pod)) for pod in self.on(node)}
        total: Counter[str] = Counter()
        for uid, each in amounts.items():
            if uid != except_of.uid:
                total.update(each)
        return total

    def knows_volumes(self, node: str) -> bool:
        """Whether the limit of a node's volumes has been seen, and every claim of the pods there."""
        return node in self.storage.csi_nodes and all(self.storage.has_all(pod) for pod in self.on(node))


def objections(pod: api.Pod, node_name: str, view: SeenCluster) -> Iterator[str]:
    """Why a pod must not be on a node; nothing if it may. Rules that take little time come first."""
    node = view.nodes.get(node_name)
    if node is None:
        yield "the node does not exist"
        return
    others = [each for each in view.on(node_name) if each.uid != pod.uid]
    yield from (f"gate {gate.name} is closed" for gate in pod.spec.scheduling_gates)
    yield from _taints(pod, node)
    yield from _node_affinity(pod, node)
    yield from _resources(pod, node, len(others), view.used(node_name, pod))
    yield from _ports(pod, others)
    yield from _volume_limits(pod, node, others, view.storage)
    yield from _volume_places(pod, node, view.storage)
    yield from _anti_affinity(pod, node, view)
    yield from _affinity(pod, node, view)
    yield from _spread(pod, node, view)


def fits(pod: api.Pod, node_name: str, view: SeenCluster) -> bool:
    """Whether a pod may be on a node."""
    return next(objections(pod, node_name, view), None) is None


def _amounts(requests: Requests) -> dict[str, int]:
    return {
        "cpu": requests.milli_cpu,
        "memory": requests.memory,
        "ephemeral-storage": requests.ephemeral_storage,
        **requests.scalar,
    }


def _resources(pod: api.Pod, node: api.Node, others: int, used: Mapping[str, int]) -> Iterable[str]:
    allocatable = node.status.allocatable
    if others + 1 > nanos(allocatable.get("pods", 0)) // GIGA:
        yield f"the node has {others} pods already"
    for name, amount in _amounts(scheduling_requests(pod)).items():
        if not amount:
            continue
        unit = GIGA // 1000 if name == "cpu" else GIGA
        have = nanos(allocatable.get(name, 0)) // unit
        if used.get(name, 0) + amount > have:
            yield f"{name}: {used.get(name, 0)} are used and {amount} requested of {have}"


def _ports_of(pod: api.Pod) -> set[tuple[str, int]]:
    return {
        (port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    }


def _ports(pod: api.Pod, others: Sequence[api.Pod]) -> Iterable[str]:
    mine = _ports_of(pod)
    for other in others if mine else ():
        if both := mine & _ports_of(other):
            yield f"{other.key} has host port {next(iter(both))[1]}"


def _volume_limits(pod: api.Pod, node: api.Node, others: Sequence[api.Pod], storage: SeenStorage) -> Iterable[str]:
    csi_node = storage.csi_nodes.get(node.name)
    attached = {claim.key: claim for other in others for claim in storage.of(other)}
    new = {claim.key: claim for claim in storage.of(pod) if claim.key not in attached}
    for driver in csi_node.spec.drivers if csi_node is not None else ():
        limit = driver.allocatable.count if driver.allocatable is not None else None
        mine = sum(storage.driver(claim) == driver.name for claim in new.values())
        theirs = sum(storage.driver(claim) == driver.name for claim in attached.values())
        if limit is not None and mine and mine + theirs > limit:
            yield f"{theirs} volumes of {driver.name} are attached and {mine} wanted; the node takes {limit}"


def _volume_places(pod: api.Pod, node: api.Node, storage: SeenStorage) -> Iterable[str]:
    for claim in storage.of(pod):
        volume = storage.volumes.get(claim.spec.volume_name or "")
        affinity = volume.spec.node_affinity if volume is not None else None
        required = affinity.required if affinity is not None else None
        if required is not None and not any(_term(term, node) for term in required.node_selector_terms):
            yield f"the volume of claim {claim.key} cannot be reached from there"


def _tolerates(pod: api.Pod, taint: api.Taint) -> bool:
    return any(
        (not each.key or each.key == taint.key)
        and (not each.effect or each.effect == taint.effect)
        and (each.operator == "Exists" or each.value == taint.value)
        for each in pod.spec.tolerations
    )


def _taints(pod: api.Pod, node: api.Node) -> Iterable[str]:
    taints = [*node.spec.taints, *((UNSCHEDULABLE,) if node.spec.unschedulable else ())]
    for taint in taints:
        if taint.effect in HARD and not _tolerates(pod, taint):
            yield f"taint {taint.key}:{taint.effect} is not tolerated"


def _node_affinity(pod: api.Pod, node: api.Node) -> Iterable[str]:
    for key, value in pod.spec.node_selector.items():
        if node.labels.get(key) != value:
            yield f"label {key} is {node.labels.get(key)} and not {value}"
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    required = affinity and affinity.required_during_scheduling_ignored_during_execution
    if required and not any(_term(term, node) for term in required.node_selector_terms):
        yield "no term of the node affinity matches"


def _term(term: api.NodeSelectorTerm, node: api.Node) -> bool:
    for each in term.match_expressions:
        value = node.labels.get(each.key)
        if each.operator == "In" and value not in each.values:
            return False
        if each.operator == "NotIn" and value in each.values:
            return False
        if each.operator == "Exists" and value is None:
            return False
        if each.operator == "DoesNotExist" and value is not None:
            return False
    return bool(term.match_expressions)


def _selects(selector: api.LabelSelector | None, labels: Mapping[str, str]) -> bool:
    return selector is not None and selector.match_labels.items() <= labels.items()


def _away(pod: api.Pod) -> Sequence[api.PodAffinityTerm]:
    affinity = pod.spec.affinity and pod.spec.affinity.pod_anti_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def _near(pod: api.Pod) -> Sequence[api.PodAffinityTerm]:
    affinity = pod.spec.affinity and pod.spec.affinity.pod_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else ()


def required_terms(pod: api.Pod) -> Sequence[api.PodAffinityTerm]:
    """The terms of a pod's affinity and anti-affinity that must hold."""
    return (*_near(pod), *_away(pod))


def _anti_affinity(pod: api.Pod, node: api.Node, view: SeenCluster) -> Iterable[str]:
    own = _away(pod)
    for other, where in view.pods:
        others = _away(other)
        if not own and not others:
            continue
        if other.uid == pod.uid or other.namespace != pod.namespace or where not in view.nodes:
            continue
        for terms, theirs, whose in ((own, other, "its"), (others, pod, f"{other.key}'s")):
            for term in terms:
                domain = node.labels.get(term.topology_key)
                same = domain is not None and view.nodes[where].labels.get(term.topology_key) == domain
                if same and _selects(term.label_selector, theirs.labels):
                    yield f"{whose} anti-affinity forbids {other.key} beside it in {term.topology_key}={domain}"


def _affinity(pod: api.Pod, node: api.Node, view: SeenCluster) -> Iterable[str]:
    for term in _near(pod):
        domain = node.labels.get(term.topology_key)
        if domain is None:
            yield f"the node has no label {term.topology_key}"
            continue
        others = [
            view.nodes[where].labels.get(term.topology_key)
            for other, where in view.pods
            if other.uid != pod.uid
            and other.namespace == pod.namespace
            and where in view.nodes
            and _selects(term.label_selector, other.labels)
        ]
        first = not any(each is not None for each in others) and _selects(term.label_selector, pod.labels)
        if domain not in others and not first:
            yield f"no pod that its affinity wants is in {term.topology_key}={domain}"


def _spread(pod: api.Pod, node: api.Node, view: SeenCluster) -> Iterable[str]:
    for rule in pod.spec.topology_spread_constraints:
        if rule.when_unsatisfiable != "DoNotSchedule":
            continue
        key = rule.topology_key
        if key not in node.labels:
            yield f"the node has no label {key}"
            continue
        keys = [
            each.topology_key
            for each in pod.spec.topology_spread_constraints
            if each.when_unsatisfiable == "DoNotSchedule"
        ]
        eligible = [
            each
            for each in view.nodes.values()
            if all(k in each.labels for k in keys) and not [*_node_affinity(pod, each)]
        ]
        counts: Counter[str] = Counter({each.labels[key]: 0 for each in eligible})
        names = {each.name for each in eligible}
        for other, where in view.pods:
            if other.uid == pod.uid or where not in names or other.namespace != pod.namespace:
                continue
            if not other.is_terminating and _selects(rule.label_selector, other.labels):
                counts[view.nodes[where].labels[key]] += 1
        own = 1 if _selects(rule.label_selector, pod.labels) else 0
        here = counts[node.labels[key]] + own
        if here - min(counts.values(), default=0) > rule.max_skew:
            yield f"{here} matching pods in {key}={node.labels[key]}, {min(counts.values())} elsewhere"
