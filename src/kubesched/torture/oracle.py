"""May this pod be placed on this node? Answered naively, one rule after the other, without any of the scheduler's code.

It knows the rules that the simulated workloads use. It reads plain objects and keeps nothing between two questions, so
that it can contradict columns, counters and caches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from kubesched.api import objects as api
from kubesched.api.quantity import nanos
from kubesched.api.resources import Requests, node_requests, scheduling_requests

GIGA = 10**9
HARD = ("NoSchedule", "NoExecute")
UNSCHEDULABLE = api.Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")


class SeenCluster:
    """The objects that a scheduler has seen, and the pods that it has placed itself since."""

    def __init__(self, nodes: Iterable[api.Node], pods: Iterable[tuple[api.Pod, str]]) -> None:
        self.nodes = {node.name: node for node in nodes}
        self.pods = list(pods)
        """Pods on nodes, with the names of the nodes."""

    def on(self, node: str) -> list[api.Pod]:
        return [pod for pod, where in self.pods if where == node]


def objections(pod: api.Pod, node_name: str, view: SeenCluster) -> list[str]:
    """Why a pod must not be on a node; empty if it may."""
    node = view.nodes.get(node_name)
    if node is None:
        return ["the node does not exist"]
    others = [each for each in view.on(node_name) if each.uid != pod.uid]
    found = [*_resources(pod, node, others), *_ports(pod, others), *_taints(pod, node), *_node_affinity(pod, node)]
    return [*found, *_anti_affinity(pod, node, view), *_spread(pod, node, view)]


def _amounts(requests: Requests) -> dict[str, int]:
    return {
        "cpu": requests.milli_cpu,
        "memory": requests.memory,
        "ephemeral-storage": requests.ephemeral_storage,
        **requests.scalar,
    }


def _resources(pod: api.Pod, node: api.Node, others: Sequence[api.Pod]) -> Iterable[str]:
    allocatable = node.status.allocatable
    used: Counter[str] = Counter()
    for each in others:
        used.update(_amounts(node_requests(each)))
    if len(others) + 1 > nanos(allocatable.get("pods", 0)) // GIGA:
        yield f"the node has {len(others)} pods already"
    for name, amount in _amounts(scheduling_requests(pod)).items():
        unit = GIGA // 1000 if name == "cpu" else GIGA
        have = nanos(allocatable.get(name, 0)) // unit
        if amount and used[name] + amount > have:
            yield f"{name}: {used[name]} are used and {amount} requested of {have}"


def _ports_of(pod: api.Pod) -> set[tuple[str, int]]:
    return {
        (port.protocol or "TCP", port.host_port)
        for container in pod.spec.containers
        for port in container.ports
        if port.host_port
    }


def _ports(pod: api.Pod, others: Sequence[api.Pod]) -> Iterable[str]:
    for other in others:
        if both := _ports_of(pod) & _ports_of(other):
            yield f"{other.key} has host port {next(iter(both))[1]}"


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


def _anti_affinity(pod: api.Pod, node: api.Node, view: SeenCluster) -> Iterable[str]:
    for other, where in view.pods:
        if other.uid == pod.uid or other.namespace != pod.namespace or where not in view.nodes:
            continue
        for mine, theirs, whose in ((pod, other, "its"), (other, pod, f"{other.key}'s")):
            for term in _away(mine):
                domain = node.labels.get(term.topology_key)
                same = domain is not None and view.nodes[where].labels.get(term.topology_key) == domain
                if same and _selects(term.label_selector, theirs.labels):
                    yield f"{whose} anti-affinity forbids {other.key} beside it in {term.topology_key}={domain}"


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
