"""Cluster events that may make a rejected pod schedulable, and the hints that tell whether they do."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from enum import Enum, IntFlag
from functools import cache
from typing import Final

from kubesched.api import objects as api
from kubesched.api.custom import custom_kind, resource_name
from kubesched.base.log import Log


class Resource(Enum):
    """Kinds whose events plugins can register for, by the name that upstream prints."""

    POD = "Pod"
    ASSIGNED_POD = "AssignedPod"
    UNSCHEDULED_POD = "UnschedulablePod"
    NODE = "Node"
    NAMESPACE = "Namespace"
    PERSISTENT_VOLUME = "PersistentVolume"
    PERSISTENT_VOLUME_CLAIM = "PersistentVolumeClaim"
    CSI_NODE = "storage.k8s.io/CSINode"
    CSI_DRIVER = "storage.k8s.io/CSIDriver"
    CSI_STORAGE_CAPACITY = "storage.k8s.io/CSIStorageCapacity"
    STORAGE_CLASS = "storage.k8s.io/StorageClass"
    VOLUME_ATTACHMENT = "storage.k8s.io/VolumeAttachment"
    RESOURCE_CLAIM = "resource.k8s.io/ResourceClaim"
    RESOURCE_SLICE = "resource.k8s.io/ResourceSlice"
    DEVICE_CLASS = "resource.k8s.io/DeviceClass"
    POD_GROUP = "scheduling.k8s.io/PodGroup"
    WILDCARD = "*"


class Action(IntFlag):
    """What happened to the object; several may be combined.

    An update that is none of the precise kinds is reported as `UPDATE`, and only a registration for all of `UPDATE`
    covers it.
    """

    ADD = 1
    DELETE = 2
    UPDATE_NODE_ALLOCATABLE = 4
    UPDATE_NODE_LABEL = 8
    UPDATE_NODE_TAINT = 16
    UPDATE_NODE_CONDITION = 32
    UPDATE_NODE_ANNOTATION = 64
    UPDATE_NODE_DECLARED_FEATURE = 128
    UPDATE_POD_LABEL = 256
    UPDATE_POD_SCALE_DOWN = 512
    UPDATE_POD_TOLERATION = 1024
    UPDATE_POD_SCHEDULING_GATES_ELIMINATED = 2048
    UPDATE_POD_GENERATED_RESOURCE_CLAIM = 4096
    UPDATE = (
        UPDATE_NODE_ALLOCATABLE
        | UPDATE_NODE_LABEL
        | UPDATE_NODE_TAINT
        | UPDATE_NODE_CONDITION
        | UPDATE_NODE_ANNOTATION
        | UPDATE_NODE_DECLARED_FEATURE
        | UPDATE_POD_LABEL
        | UPDATE_POD_SCALE_DOWN
        | UPDATE_POD_TOLERATION
        | UPDATE_POD_SCHEDULING_GATES_ELIMINATED
        | UPDATE_POD_GENERATED_RESOURCE_CLAIM
    )
    ALL = ADD | DELETE | UPDATE


class Hint(Enum):
    """A queueing hint: leave the pod where it is, or try it again."""

    SKIP = "QueueSkip"
    QUEUE = "Queue"


Kind = Resource | type[api.Object]
"""A resource, or a class for all others: custom kinds, and built-in ones that scheduling does not read."""

HintFunction = Callable[[api.Pod, api.Object | None, api.Object | None], Hint]
"""(the waiting pod, the object before, the object after) → whether to try the pod again."""

TargetsFunction = Callable[[api.Object | None, api.Object | None], Collection[str] | None]
"""(the object before, the object after) → UIDs of the only pods that this can help; None if it can help any."""


def name_of(resource: Kind) -> str:
    """A kind as upstream's logs and metrics name it."""
    return resource.value if isinstance(resource, Resource) else resource_name(resource)


@cache
def _label(resource: Kind, action: Action) -> str:
    words = (action.name or "").split("_")
    return name_of(resource) + "".join(word.capitalize() for word in words)


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A change of objects of a kind."""

    resource: Kind
    action: Action
    custom_label: str = ""
    """The event's name in logs and metrics, if it is not kind and action."""
    label: str = field(init=False, compare=False)
    """The event as logs and metrics have it, in upstream's words."""
    is_wildcard: bool = field(init=False, compare=False)
    """Whether this covers every event."""
    _hash: int = field(init=False, compare=False, repr=False)
    """Events are looked up for every pod, and the hash of an enumeration is computed in Python."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "label", self.custom_label or _label(self.resource, self.action))
        object.__setattr__(self, "is_wildcard", self.resource is Resource.WILDCARD and self.action == Action.ALL)
        object.__setattr__(self, "_hash", hash((self.resource, self.action, self.custom_label)))

    def __hash__(self) -> int:
        return self._hash

    def matches(self, happened: ClusterEvent) -> bool:
        """Whether this registration covers an event that happened.

        The whole event must be covered: a plugin that registered for labels is not notified of an update of no precise
        kind.
        """
        if self.is_wildcard:
            return True
        same = self.resource in (Resource.WILDCARD, happened.resource) or (
            self.resource is Resource.POD and happened.resource in (Resource.ASSIGNED_POD, Resource.UNSCHEDULED_POD)
        )
        return same and self.action & happened.action == happened.action


ASSIGNED_POD_ADD: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.ADD)
ASSIGNED_POD_UPDATE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.UPDATE)
ASSIGNED_POD_DELETE: Final = ClusterEvent(Resource.ASSIGNED_POD, Action.DELETE)
UNSCHEDULED_POD_ADD: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.ADD)
UNSCHEDULED_POD_UPDATE: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.UPDATE)
UNSCHEDULED_POD_DELETE: Final = ClusterEvent(Resource.UNSCHEDULED_POD, Action.DELETE)
NODE_ADD: Final = ClusterEvent(Resource.NODE, Action.ADD)
NODE_DELETE: Final = ClusterEvent(Resource.NODE, Action.DELETE)
UNSCHEDULABLE_TIMEOUT: Final = ClusterEvent(Resource.WILDCARD, Action.ALL, "UnschedulableTimeout")
FORCE_ACTIVATE: Final = ClusterEvent(Resource.WILDCARD, Action.ALL, "ForceActivate")

SCHEDULE_ATTEMPT_FAILURE: Final = "ScheduleAttemptFailure"
"""Like the next two not an event of the cluster, but a reason why a pod moves between queues."""
BACKOFF_COMPLETE: Final = "BackoffComplete"
POP_FROM_BACKOFF: Final = "PopFromBackoffQ"


@dataclass(frozen=True, slots=True)
class EventHint:
    """An event that a plugin registers for, and its hint whether the event helps. Without a hint it always does."""

    event: ClusterEvent
    hint: HintFunction | None = None
    by_class: bool = False
    """Whether the hint reads nothing of the waiting pod but what its class shares: namespace, labels, spec. (Events
    about the waiting pod itself do not count.) Then the hint is called for one of a thousand waiting pods from a
    template."""
    only: TargetsFunction | None = None
    """The only pods that an event can help, so that the hint is not called for any other."""
    by_spec: bool = False
    """Whether the hint reads nothing of the waiting pod but its spec. Then the hint is called once for all pods with
    the same spec, also if each has a label of its own."""
    gated: bool = True
    """Whether the event may change what the plugin's PreEnqueue returns. If not, pods held back there are skipped."""


def queue_because(log: Log, level: int, message: str, /, **fields: object) -> Hint:
    """Hint.QUEUE, with upstream's log line that says why."""
    if log.verbosity >= level:
        log(level, message, **fields)
    return Hint.QUEUE


def skip_because(log: Log, level: int, message: str, /, **fields: object) -> Hint:
    """Hint.SKIP, with upstream's log line that says why."""
    if log.verbosity >= level:
        log(level, message, **fields)
    return Hint.SKIP


def on(
    resource: Kind | str,
    action: Action,
    hint: HintFunction | None = None,
    *,
    by_class: bool = False,
    only: TargetsFunction | None = None,
    by_spec: bool = False,
    gated: bool = True,
) -> EventHint:
    """Shorthand for registering an event.

    A kind that is not among the resources is named by its class, derived from `Object`, or by plural, version and group
    as in ``foos.v1.example.com``. The scheduler then watches it, and ``handle.cluster`` has its objects.
    """
    kind = custom_kind(resource) if isinstance(resource, str) else resource
    return EventHint(ClusterEvent(kind, action), hint, by_class or by_spec, only, by_spec, gated)
