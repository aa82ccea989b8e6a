"""Which registrations match which events, and the labels of events."""

from __future__ import annotations

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
    Hint,
    Resource,
    on,
)

NODE, POD = Resource.NODE, Resource.POD


@pytest.mark.parametrize(
    ("registered", "event", "covered"),
    [
        ((NODE, Action.ADD), (NODE, Action.ADD), True),
        ((NODE, Action.ADD), (NODE, Action.DELETE), False),
        ((NODE, Action.ADD), (POD, Action.ADD), False),
        ((NODE, Action.ADD | Action.UPDATE_NODE_LABEL), (NODE, Action.UPDATE_NODE_LABEL), True),
        ((NODE, Action.UPDATE), (NODE, Action.UPDATE_NODE_TAINT), True),
        ((NODE, Action.ADD | Action.UPDATE), (NODE, Action.UPDATE), True),
        ((NODE, Action.ALL), (NODE, Action.DELETE), True),
        # Every action of an event has to match.
        ((NODE, Action.UPDATE_NODE_LABEL), (NODE, Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT), False),
        ((NODE, Action.UPDATE_NODE_LABEL), (NODE, Action.UPDATE), False),
        # A registration for pods matches bound and pending pods, but not the reverse.
        ((POD, Action.DELETE), (Resource.ASSIGNED_POD, Action.DELETE), True),
        ((POD, Action.DELETE), (Resource.UNSCHEDULED_POD, Action.DELETE), True),
        ((Resource.ASSIGNED_POD, Action.DELETE), (Resource.UNSCHEDULED_POD, Action.DELETE), False),
        ((Resource.ASSIGNED_POD, Action.DELETE), (POD, Action.DELETE), False),
        # The wildcard matches all events, or all events with an action.
        ((Resource.WILDCARD, Action.ALL), (Resource.CSI_NODE, Action.ADD), True),
        ((Resource.WILDCARD, Action.ADD), (NODE, Action.ADD), True),
        ((Resource.WILDCARD, Action.ADD), (NODE, Action.DELETE), False),
        ((NODE, Action.ALL), (Resource.WILDCARD, Action.ALL), False),
    ],
)
def test_matching(registered: tuple[Resource, Action], event: tuple[Resource, Action], covered: bool) -> None:
    """A registration matches an event of its kind if it has every action of the event."""
    assert ClusterEvent(*registered).matches(ClusterEvent(*event)) is covered


@pytest.mark.parametrize(
    ("event", "label"),
    [
        (NODE_ADD, "NodeAdd"),
        (UNSCHEDULED_POD_ADD, "UnschedulablePodAdd"),
        (UNSCHEDULED_POD_UPDATE, "UnschedulablePodUpdate"),
        (ClusterEvent(POD, Action.UPDATE_POD_SCHEDULING_GATES_ELIMINATED), "PodUpdatePodSchedulingGatesEliminated"),
        (ClusterEvent(Resource.WILDCARD, Action.ALL), "*All"),
        (ClusterEvent(NODE, Action.UPDATE_NODE_TAINT), "NodeUpdateNodeTaint"),
        (ASSIGNED_POD_DELETE, "AssignedPodDelete"),
        (ClusterEvent(Resource.CSI_NODE, Action.UPDATE), "storage.k8s.io/CSINodeUpdate"),
        (UNSCHEDULABLE_TIMEOUT, "UnschedulableTimeout"),
        (FORCE_ACTIVATE, "ForceActivate"),
    ],
)
def test_labels_are_upstreams(event: ClusterEvent, label: str) -> None:
    """Logs and metrics name events as kube-scheduler does."""
    assert event.label == label


def test_only_all_of_everything_is_the_wildcard() -> None:
    """An event of any kind but with one action is not the wildcard."""
    assert UNSCHEDULABLE_TIMEOUT.is_wildcard
    assert not ClusterEvent(Resource.WILDCARD, Action.ADD).is_wildcard
    assert not ClusterEvent(NODE, Action.ALL).is_wildcard


def test_the_shorthand_registers() -> None:
    """`on` creates a registration, with a hint if given."""
    plain = on(NODE, Action.ADD)
    assert (plain.event, plain.hint, plain.by_class) == (ClusterEvent(NODE, Action.ADD), None, False)
    hinted = on(POD, Action.DELETE, lambda pod, old, new: Hint.SKIP, by_class=True)
    assert hinted.hint is not None
    assert hinted.by_class
