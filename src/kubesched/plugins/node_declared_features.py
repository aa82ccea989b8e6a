"""NodeDeclaredFeatures: a pod that needs a feature of the kubelet goes only to nodes that declare it.

Which features a pod needs follows from its spec. Features that nodes declare for other reasons, such as the variants of
in-place resize, which matter only when a running pod is updated, have no rule here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Plugin, Reads, Verdicts, reject
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable

UNDECLARED: Final = unresolvable("node(s) didn't match Pod's required features")
NOT_PREPARED: Final = error('error reading "PreFilterNodeDeclaredFeatures" from cycle-state: not found')


def _restarts_all_containers(spec: api.PodSpec) -> bool:
    containers = (*spec.containers, *spec.init_containers)
    return any(rule.action == "RestartAllContainers" for c in containers for rule in c.restart_policy_rules)


def _has_user_namespace_on_host_network(spec: api.PodSpec) -> bool:
    return spec.host_network and spec.host_users is False


RULES: Final[dict[str, Callable[[api.PodSpec], bool]]] = {
    "RestartAllContainersOnContainerExits": _restarts_all_containers,
    "UserNamespacesHostNetworkSupport": _has_user_namespace_on_host_network,
}
"""Feature → whether a pod needs it to be scheduled."""


def required_features(spec: api.PodSpec) -> tuple[str, ...]:
    """The features that a node must declare to run a pod with this spec."""
    return tuple(feature for feature, needs in RULES.items() if needs(spec))


class NodeDeclaredFeatures(Plugin):
    """Filter on `status.declaredFeatures`. With its gate off it does nothing, even where a profile enables it."""

    name = "NodeDeclaredFeatures"
    reads = Reads.NODE

    def sign(self, pod: api.Pod) -> Signature:
        return {"v1.Pod.Spec.RequiredFeatures()": required_features(pod.spec)}

    def events_to_register(self) -> list[EventHint]:
        if not self.handle.features.node_declared_features:
            return []
        nodes = Action.ADD | Action.UPDATE_NODE_DECLARED_FEATURE
        return [
            on(Resource.NODE, nodes, self._after_node_change, by_spec=True),
            on(Resource.POD, Action.UPDATE, self._after_pod_update),
        ]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        if not self.handle.features.node_declared_features:
            return SKIP
        required = state.pod_class.remember(self, lambda: required_features(pod.spec))
        return None if required else SKIP

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        if not self.handle.features.node_declared_features:
            return None
        if self not in state.pod_class.memo:  # a profile may have this plugin at Filter without PreFilter
            return reject(np.ones(len(nodes), dtype=np.bool_), NOT_PREPARED)
        required = state.pod_class.remember(self, lambda: required_features(pod.spec))
        missing = np.zeros(len(nodes), dtype=np.bool_)
        for feature in required:
            missing |= ~nodes.declares(feature)
        return reject(missing, UNDECLARED)

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if isinstance(old, api.Node) and isinstance(new, api.Node) and _declared(old) == _declared(new):
            why = "node's declared features didn't change, skipping queueing"
            return skip_because(log, 5, why, pod=pod, node=new)
        return queue_because(log, 4, "Node declared features updated, queueing", pod=pod, node=new)

    def _after_pod_update(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(old, api.Pod) or not isinstance(new, api.Pod):
            return Hint.QUEUE
        log = self.handle.log
        if new.uid != pod.uid:
            return skip_because(log, 5, "the update event is not for targetPod, skipping queueing", pod=new)
        if required_features(old.spec) == required_features(new.spec):
            return skip_because(log, 5, "pod feature requirements didn't change, skipping queueing", pod=new)
        return queue_because(log, 4, "pod feature requirements changed, queueing", pod=pod)


def _declared(node: api.Node) -> tuple[str, ...]:
    return node.status.declared_features
