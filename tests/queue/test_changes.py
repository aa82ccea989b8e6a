"""Updates as events: as specific as upstream's, and none for irrelevant changes."""

import msgspec
import pytest
from tests.queue.support import make_pod

from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.framework.events import Action, ClusterEvent, Resource
from kubesched.queue.changes import node_changes, pod_changes

PLAIN = make_pod("a", cpu="2")


def labels(events: list[ClusterEvent]) -> list[str]:
    return [event.label for event in events]


def granted(cpu: str) -> api.PodStatus:
    """The status of a pod whose container was allocated this much."""
    resources = api.ResourceRequirements(requests={"cpu": cpu})
    return api.PodStatus(container_statuses=(api.ContainerStatus(name="main", resources=resources),))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (PLAIN, make_pod("a", cpu="2", labels={"new": "label"}), ["UpdatePodLabel"]),
        (make_pod("a", labels={"k": "v"}), make_pod("a", labels={"k": "w"}), ["UpdatePodLabel"]),
        (PLAIN, make_pod("a", cpu="1"), ["UpdatePodScaleDown"]),
        (PLAIN, make_pod("a"), ["UpdatePodScaleDown"]),
        (PLAIN, make_pod("a", cpu="3"), ["Update"]),
        (make_pod("a", gates=["g", "h"]), make_pod("a"), ["UpdatePodSchedulingGatesEliminated"]),
        (make_pod("a", gates=["g", "h"]), make_pod("a", gates=["g"]), ["Update"]),
        (make_pod("a"), make_pod("a", tolerations=1), ["UpdatePodToleration"]),
        (make_pod("a"), make_pod("a", nominated="n"), ["Update"]),
        (PLAIN, PLAIN, ["Update"]),
        (
            make_pod("a", cpu="2", gates=["g"]),
            make_pod("a", cpu="1", labels={"new": "label"}, tolerations=1),
            ["UpdatePodLabel", "UpdatePodScaleDown", "UpdatePodSchedulingGatesEliminated", "UpdatePodToleration"],
        ),
    ],
)
def test_events_of_a_pods_update(old: api.Pod, new: api.Pod, expected: list[str]) -> None:
    """Each kind of change is a separate event, in upstream's order; any other change is a generic update."""
    assert labels(pod_changes(old, new)) == [f"UnschedulablePod{name}" for name in expected]


def test_a_bound_pods_update_says_so() -> None:
    """The event says whether the pod is bound."""
    event = pod_changes(make_pod("a", node="n"), make_pod("a", node="n", tolerations=1))[0]
    assert event.resource is Resource.ASSIGNED_POD


def test_a_resize_frees_resources_when_the_kubelet_says_so() -> None:
    """A resize frees resources only once the kubelet allocates less."""
    old = msgspec.structs.replace(make_pod("a", cpu="2", node="n"), status=granted("2"))
    wished = msgspec.structs.replace(make_pod("a", cpu="1", node="n"), status=granted("2"))
    done = msgspec.structs.replace(make_pod("a", cpu="1", node="n"), status=granted("1"))
    assert labels(pod_changes(old, wished)) == ["AssignedPodUpdate"]
    assert labels(pod_changes(wished, done)) == ["AssignedPodUpdatePodScaleDown"]


def node(
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    *,
    unschedulable: bool = False,
    taints: tuple[api.Taint, ...] = (),
    conditions: tuple[api.NodeCondition, ...] = (),
    allocatable: str = "1",
    capacity: str = "1",
) -> api.Node:
    return api.Node(
        metadata=api.ObjectMeta(name="n", labels=labels or {}, annotations=annotations or {}),
        spec=api.NodeSpec(unschedulable=unschedulable, taints=taints),
        status=api.NodeStatus(allocatable={"cpu": allocatable}, capacity={"cpu": capacity}, conditions=conditions),
    )


TAINTS = (api.Taint(key="k", effect="NoSchedule"),)
READY = (api.NodeCondition(type="Ready", status="True"),)
PRESSED = (*READY, api.NodeCondition(type="DiskPressure", status="False"))


@pytest.mark.parametrize(
    ("old", "new", "expected"),
    [
        (node(), node(), []),
        (node(), node(labels={"k": "v"}), [Action.UPDATE_NODE_LABEL]),
        (node(), node(annotations={"k": "v"}), [Action.UPDATE_NODE_ANNOTATION]),
        (node(), node(allocatable="2"), [Action.UPDATE_NODE_ALLOCATABLE]),
        (node(), node(capacity="2"), []),
        (node(), node(conditions=READY), [Action.UPDATE_NODE_CONDITION]),
        (node(conditions=PRESSED), node(conditions=PRESSED[::-1]), []),
        (node(taints=TAINTS), node(), [Action.UPDATE_NODE_TAINT]),
        (node(unschedulable=True), node(), [Action.UPDATE_NODE_TAINT]),
        (node(), node(unschedulable=True), []),
        (
            node(unschedulable=True, taints=TAINTS),
            node(labels={"k": "v"}),
            [Action.UPDATE_NODE_TAINT, Action.UPDATE_NODE_LABEL, Action.UPDATE_NODE_TAINT],
        ),
    ],
)
def test_events_of_a_nodes_update(old: api.Node, new: api.Node, expected: list[Action]) -> None:
    """A cordon or a heartbeat helps no pod and is no event; other changes are separate events, in upstream's order."""
    assert [event.action for event in node_changes(old, new)] == expected


def test_declared_features_are_an_event_of_their_own() -> None:
    """A node that declares a new feature may fit a pod that requires it."""
    new = api.Node(status=api.NodeStatus(declared_features=("feature",)))
    assert [event.action for event in node_changes(api.Node(), new)] == [Action.UPDATE_NODE_DECLARED_FEATURE]
    assert node_changes(api.Node(), new, Features(node_declared_features=False)) == []


def test_pod_level_resizes_free_resources_only_with_their_gate() -> None:
    """A finished pod-level resize is a scale-down, unless the gate is off."""
    without = Features(in_place_pod_level_resources_vertical_scaling=False)
    resources = api.ResourceRequirements(requests={"cpu": "1"})
    spec = api.PodSpec(node_name="n", resources=resources)

    def holding(cpu: str) -> api.Pod:
        status = api.PodStatus(resources=api.ResourceRequirements(requests={"cpu": cpu}))
        return api.Pod(spec=spec, status=status)

    assert labels(pod_changes(holding("2"), holding("1"))) == ["AssignedPodUpdatePodScaleDown"]
    assert labels(pod_changes(holding("2"), holding("1"), without)) == ["AssignedPodUpdate"]


def test_a_claim_made_from_a_template_is_an_event_of_its_own() -> None:
    """Adding the name of a generated claim to a pod's status wakes pods that wait for that claim."""
    status = api.PodStatus(
        resource_claim_statuses=(api.PodResourceClaimStatus(name="gpu", resource_claim_name="p-gpu-1"),)
    )
    old = api.Pod(metadata=api.ObjectMeta(name="p"))
    events = pod_changes(old, msgspec.structs.replace(old, status=status))
    assert [event.action for event in events] == [Action.UPDATE_POD_GENERATED_RESOURCE_CLAIM]
