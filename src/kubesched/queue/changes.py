"""An update of a pod or node as precise events, so that only the pods that it may help are requeued."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.api.resources import pod_requests
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.framework.events import (
    ASSIGNED_POD_UPDATE,
    UNSCHEDULED_POD_UPDATE,
    Action,
    ClusterEvent,
    Resource,
)

RESIZE_PENDING = "PodResizePending"


def pod_changes(old: api.Pod, new: api.Pod, features: Features = DEFAULT_FEATURES) -> list[ClusterEvent]:
    """The events of a pod's update. An update of no precise kind is a plain update."""
    actions = []
    if old.labels != new.labels:
        actions.append(Action.UPDATE_POD_LABEL)
    if _scaled_down(old, new, features):
        actions.append(Action.UPDATE_POD_SCALE_DOWN)
    if old.spec.scheduling_gates and not new.spec.scheduling_gates:
        actions.append(Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED)
    if len(old.spec.tolerations) != len(new.spec.tolerations):
        # Tolerations can only be added, so counting them is enough.
        actions.append(Action.UPDATE_POD_TOLERATION)
    if old.status.resource_claim_statuses != new.status.resource_claim_statuses:
        actions.append(Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM)
    if not actions:
        return [ASSIGNED_POD_UPDATE if new.node_name else UNSCHEDULED_POD_UPDATE]
    resource = Resource.ASSIGNED_POD if new.node_name else Resource.UNSCHEDULED_POD
    return [ClusterEvent(resource, action) for action in actions]


def node_changes(old: api.Node, new: api.Node, features: Features = DEFAULT_FEATURES) -> list[ClusterEvent]:
    """The events of a node's update; none if nothing changed that could matter to a waiting pod."""
    actions = []
    if old.spec.unschedulable and not new.spec.unschedulable:
        actions.append(Action.UPDATE_NODE_TAINT)
    if old.status.allocatable != new.status.allocatable:
        actions.append(Action.UPDATE_NODE_ALLOCATABLE)
    if old.labels != new.labels:
        actions.append(Action.UPDATE_NODE_LABEL)
    if old.spec.taints != new.spec.taints:
        actions.append(Action.UPDATE_NODE_TAINT)
    if _conditions(old) != _conditions(new):
        actions.append(Action.UPDATE_NODE_CONDITION)
    if old.annotations != new.annotations:
        actions.append(Action.UPDATE_NODE_ANNOTATION)
    if features.node_declared_features and old.status.declared_features != new.status.declared_features:
        actions.append(Action.UPDATE_NODE_DECLARED_FEATURE)
    return [ClusterEvent(Resource.NODE, action) for action in actions]


def _conditions(node: api.Node) -> dict[str, str]:
    return {condition.type: condition.status for condition in node.status.conditions}


def _scaled_down(old: api.Pod, new: api.Pod, features: Features) -> bool:
    """Whether the pod requests less of anything than before."""
    if _granted(old.status) == _granted(new.status) and (
        old.spec == new.spec or _requesting(old.spec) == _requesting(new.spec)
    ):
        return False
    before, after = (pod_requests(pod, use_status=True, features=features) for pod in (old, new))
    return any(after.get(name, -1) < amount for name, amount in before.items())


def _holds(status: api.ContainerStatus) -> bool:
    """Whether the kubelet reports what it has granted. Most statuses do not."""
    return status.resources is not None or bool(status.allocated_resources)


def _requesting(spec: api.PodSpec) -> tuple[object, ...]:
    """The fields that a pod's requests are computed from. Comparing them is far cheaper than computing requests."""
    containers = [container.resources for container in (*spec.containers, *spec.init_containers)]
    return containers, spec.resources, spec.overhead


def _granted(status: api.PodStatus) -> tuple[object, ...]:
    """The same of its status."""
    return (
        *(status.resources, status.allocated_resources),
        [each for each in (*status.container_statuses, *status.init_container_statuses) if _holds(each)],
        [condition for condition in status.conditions if condition.type == RESIZE_PENDING],
    )
