"""How attempts end."""

from __future__ import annotations

from enum import Enum


class Outcome(Enum):
    """How an attempt ended, or how it stands."""

    UNDECIDED = "undecided"
    SCHEDULED = "scheduled"
    """A node was chosen. `Decision.binding` tells whether the pod is bound to it."""
    UNSCHEDULABLE = "unschedulable"
    NO_NODES = "no nodes"
    """The cluster has no nodes at all."""
    ERROR = "error"


class BindingState(Enum):
    """How far the binding cycle of an attempt is."""

    NOT_STARTED = "not started"
    STARTED = "started"
    BOUND = "bound"
    FAILED = "failed"


# Members of an enumeration are slow to look up; these are needed for every pod.
SCHEDULED = Outcome.SCHEDULED
UNSCHEDULABLE = Outcome.UNSCHEDULABLE
NOT_STARTED = BindingState.NOT_STARTED
STARTED = BindingState.STARTED
BOUND = BindingState.BOUND
