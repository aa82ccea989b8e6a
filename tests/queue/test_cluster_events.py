"""Cluster events: their names in logs and metrics, and which registration covers which event."""

import pytest

from kubesched.framework.events import (
    ASSIGNED_POD_DELETE,
    FORCE_ACTIVATE,
    NODE_ADD,
    UNSCHEDULABLE_TIMEOUT,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_UPDATE,
    Action,
    ClusterEvent,
    Resource,
)


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (UNSCHEDULED_POD_ADD, "UnschedulablePodAdd"),
        (UNSCHEDULED_POD_UPDATE, "UnschedulablePodUpdate"),
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (NODE_ADD, "NodeAdd"),
        (ClusterEvent(Resource.NODE, Action.UPDATE_NODE_ALLOCATABLE), "NodeUpdateNodeAllocatable"),
        (
            ClusterEvent(Resource.POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED),
            "PodUpdatePodSchedulingGatesEliminated",
        ),
        (ClusterEvent(Resource.CSI_NODE, Action.UPDATE), "storage.k8s.io/CSINodeUpdate"),
        (ClusterEvent(Resource.WILDCARD, Action.ALL), "*All"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_events_have_upstreams_names(event: ClusterEvent, label: str) -> None:
    """Whoever reads kube-scheduler's logs and metrics finds the same words."""
    assert event.label == label


@pytest.mark.parametrize(
    ("registered", "happened", "covered"),
    [
        ((Resource.NODE, Action.ADD), (Resource.NODE, Action.ADD), True),
        ((Resource.NODE, Action.ADD), (Resource.NODE, Action.DELETE), False),
        ((Resource.NODE, Action.ADD), (Resource.PERSISTENT_VOLUME, Action.ADD), False),
        ((Resource.NODE, Action.UPDATE), (Resource.NODE, Action.UPDATE_NODE_LABEL), True),
        ((Resource.NODE, Action.UPDATE_NODE_LABEL), (Resource.NODE, Action.UPDATE), False),
        ((Resource.NODE, Action.ADD | Action.UPDATE), (Resource.NODE, Action.UPDATE), True),
        ((Resource.POD, Action.DELETE), (Resource.ASSIGNED_POD, Action.DELETE), True),
        ((Resource.POD, Action.UPDATE_POD_LABEL), (Resource.UNSCHEDULED_POD, Action.UPDATE_POD_LABEL), True),
        ((Resource.ASSIGNED_POD, Action.DELETE), (Resource.POD, Action.DELETE), False),
        ((Resource.WILDCARD, Action.ALL), (Resource.NODE, Action.DELETE), True),
        ((Resource.WILDCARD, Action.ADD), (Resource.NODE, Action.ADD), True),
        ((Resource.WILDCARD, Action.ADD), (Resource.NODE, Action.DELETE), False),
        ((Resource.NODE, Action.ALL), (Resource.WILDCARD, Action.ALL), False),
    ],
)
def test_a_registration_covers_an_event(
    registered: tuple[Resource, Action], happened: tuple[Resource, Action], covered: bool
) -> None:
    """The kind must be the same, or stand for it, and every bit of what happened must have been asked for."""
    assert ClusterEvent(*registered).matches(ClusterEvent(*happened)) is covered
