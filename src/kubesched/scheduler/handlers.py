"""Cluster events: how an object that is added, changed or deleted affects the cluster state and the queue."""

from __future__ import annotations

from collections.abc import Container
from typing import Final

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.base.log import ERROR
from kubesched.engine.engine import on_node
from kubesched.framework.events import (
    ASSIGNED_POD_ADD,
    ASSIGNED_POD_DELETE,
    ASSIGNED_POD_UPDATE,
    NODE_ADD,
    NODE_DELETE,
    UNSCHEDULED_POD_ADD,
    UNSCHEDULED_POD_DELETE,
    UNSCHEDULED_POD_UPDATE,
    Action,
    ClusterEvent,
    Kind,
    Resource,
)
from kubesched.queue.changes import node_changes, pod_changes
from kubesched.scheduler.device_class_log import log_device_class
from kubesched.scheduler.shared import Shared

RESOURCES: Final[dict[type[api.Object], Resource | None]] = {
    api.Namespace: Resource.NAMESPACE,
    api.PersistentVolume: Resource.PERSISTENT_VOLUME,
    api.PersistentVolumeClaim: Resource.PERSISTENT_VOLUME_CLAIM,
    api.StorageClass: Resource.STORAGE_CLASS,
    api.CSINode: Resource.CSI_NODE,
    api.CSIDriver: Resource.CSI_DRIVER,
    api.CSIStorageCapacity: Resource.CSI_STORAGE_CAPACITY,
    api.VolumeAttachment: Resource.VOLUME_ATTACHMENT,
    api.ResourceClaim: Resource.RESOURCE_CLAIM,
    api.ResourceSlice: Resource.RESOURCE_SLICE,
    api.DeviceClass: Resource.DEVICE_CLASS,
    api.PodGroup: Resource.POD_GROUP,
    api.Service: None,
    api.ReplicationController: None,
    api.ReplicaSet: None,
    api.StatefulSet: None,
    api.PodDisruptionBudget: None,
}
"""Kinds other than pods and nodes, with the events that plugins can register for. Some are looked up but have no
events.
"""

KINDS: Final[tuple[type[api.Object], ...]] = (
    api.Pod,
    api.Node,
    *(kind for kind in RESOURCES if kind is not api.PodGroup),
)
"""All kinds that a scheduler watches, whatever its feature gates."""


class EventHandlers:
    """Handles changes one at a time."""

    def __init__(self, shared: Shared, profiles: Container[str]) -> None:
        self._shared = shared
        self._cluster = shared.cluster
        self._queue = shared.queue
        self._log = shared.log
        self._profiles = profiles
        self._awaited = shared.queue.awaited_kinds
        self._now = shared.clock.monotonic
        self._count_event = shared.metrics.event_handled

    def receive(self, old: api.Object | None, new: api.Object | None) -> None:
        """Take an object that was created (no `old`), changed, or deleted (no `new`). It is handled at once, or after
        the current scheduling cycle.
        """
        self._shared.inbox.put(self.handle, old, new)

    def handle(self, old: api.Object | None, new: api.Object | None) -> None:
        """Update the cluster and the queue."""
        if isinstance(new, api.Pod) or isinstance(old, api.Pod):
            # Use the stored pod and not the last state that was delivered: the stored one occupies resources.
            before = None if old is None else _unless_ended(old) or self._known(old)
            self._pod(before, None if new is None else _unless_ended(new))
        elif isinstance(new, api.Node) or isinstance(old, api.Node):
            self._node(old, new)  # type: ignore[arg-type]  # an object does not change its kind
        else:
            self._other(old, new)

    # Pods

    def _known(self, pod: api.Object | None) -> api.Pod | None:
        """The pod as it was last handled."""
        known = None if pod is None else self._shared.pods.get(pod.key)
        return known if known is not None and pod is not None and known.uid == pod.uid else None

    def _pod(self, old: api.Pod | None, new: api.Pod | None) -> None:
        if old is not None and new is not None and old.metadata.uid != new.metadata.uid:
            # Deleted and recreated during a gap in the watch.
            self._pod(old, None)
            old = None
        if self._cluster.features.generic_workload:
            self._group_member(old, new)
        for observe in self._cluster.pod_observers:
            observe(old, new)
        if new is not None:
            self._shared.pods[new.key] = new
            if old is None:
                self._pod_added(new)
            else:
                self._pod_updated(old, new)
        elif old is not None:
            self._shared.pods.pop(old.key, None)
            self._pod_deleted(old)

    def _group_member(self, old: api.Pod | None, new: api.Pod | None) -> None:
        """Pods of other schedulers count only once they are bound."""
        if new is not None and (new.node_name or self._is_ours(new)):
            self._cluster.pod_groups.set(new)
        elif new is None and old is not None:
            self._cluster.pod_groups.remove(old)

    def _is_ours(self, pod: api.Pod) -> bool:
        return pod.scheduler_name in self._profiles

    def _pod_added(self, pod: api.Pod) -> None:
        if pod.spec.node_name:
            self._assigned(pod)
        elif self._is_ours(pod):
            started = self._now()
            if self._log.verbosity >= 3:
                self._log(3, "Add event for unscheduled pod", pod=pod)
            self._queue.add(pod)
            if self._cluster.features.gang_scheduling:
                self._queue.move_all(UNSCHEDULED_POD_ADD, None, pod)
            self._handled(UNSCHEDULED_POD_ADD.label, started)

    def _pod_updated(self, old: api.Pod, new: api.Pod) -> None:
        was_on, is_on = old.spec.node_name, new.spec.node_name
        if was_on and not is_on:
            # The API server has gone back to an earlier state, for example to that of a backup.
            self._pod_deleted(old)
            self._pod_added(new)
        elif was_on:
            self._assigned_updated(old, new)
        elif is_on:
            self._bound(old, new)
        elif self._is_ours(old):
            self._pending_updated(old, new)

    def _pod_deleted(self, pod: api.Pod) -> None:
        if pod.node_name:
            self._log(3, "Delete event for scheduled pod", pod=pod)
            started = self._now()
            self._cluster.remove_pod(pod.uid)
            self._queue.assigned_pod_deleted(pod)
            self._handled(ASSIGNED_POD_DELETE.label, started)
        elif self._is_ours(pod):
            self._unqueue(pod)
            self._pending_gone(pod)

    def _assigned(self, pod: api.Pod) -> None:
        """Handle a pod that was bound, by us or by another scheduler, or that was already bound when first seen."""
        started = self._now()
        if self._log.verbosity >= 3:
            self._log(3, "Add event for scheduled pod", pod=pod)
        assumed = self._cluster.pods.get(pod.metadata.uid)
        if assumed is not None and (node := self._cluster.nodes.names[assumed.row]) != pod.spec.node_name:
            message = "Pod was added to a different node than it was assumed"
            self._log(ERROR, message, podKey=pod.uid, pod=pod, assumedNode=node, currentNode=pod.node_name)
        self._cluster.update_pod(pod)
        self._queue.assigned_pod_added(pod)
        self._handled(ASSIGNED_POD_ADD.label, started)

    def _bound(self, old: api.Pod, new: api.Pod) -> None:
        """Handle a binding.

        If another scheduler has chosen a node other than the one that was kept for the pod, retry the pods that counted
        it there. If the pod has lost a label while it was assumed, retry the pods that the label kept away. Upstream
        does neither (kubernetes issue 134859), and they wait for five minutes.
        """
        uid = old.metadata.uid
        assumed, nominated = self._cluster.pods.get(uid), self._cluster.nominations.node_of(uid)
        kept = nominated if assumed is None else self._cluster.nodes.names[assumed.row]
        self._assigned(new)
        if self._is_ours(old):
            self._unqueue(old)
        if kept and kept != new.spec.node_name:
            if assumed is None:
                self._nomination_freed(on_node(old, kept))
            else:
                self._queue.assigned_pod_deleted(on_node(assumed.pod, kept))
        elif assumed is not None and not assumed.pod.metadata.labels.items() <= new.metadata.labels.items():
            self._queue.assigned_pod_updated(on_node(assumed.pod, new.node_name), new)

    def _assigned_updated(self, old: api.Pod, new: api.Pod) -> None:
        started = self._now()
        if self._log.verbosity >= 4:
            self._log(4, "Update event for scheduled pod", pod=old)
        self._cluster.update_pod(new, old)
        self._all_handled(ASSIGNED_POD_UPDATE, self._queue.assigned_pod_updated(old, new), started)

    def _pending_updated(self, old: api.Pod, new: api.Pod) -> None:
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        started = self._now()
        if new.uid in self._cluster.assumed:
            # The pod is already assumed, so it must not be queued. The update counts if its binding fails.
            self._queue.update_in_flight(old, new)
            if new.is_terminating and not old.is_terminating:
                self._assumed_pod_deleted(new)
            self._all_handled(UNSCHEDULED_POD_UPDATE, pod_changes(old, new, self._cluster.features), started)
            return
        self._log(4, "Update event for unscheduled pod", pod=new)
        self._queue.update(old, new)
        nominated = old.nominated_node_name
        if nominated and nominated != new.nominated_node_name:
            self._nomination_freed(old)
        self._all_handled(UNSCHEDULED_POD_UPDATE, pod_changes(old, new, self._cluster.features), started)

    def _unqueue(self, pod: api.Pod) -> None:
        started = self._now()
        if self._log.verbosity >= 3:
            self._log(3, "Delete event for unscheduled pod", pod=pod)
        self._queue.delete(pod)
        self._handled(UNSCHEDULED_POD_DELETE.label, started)

    def _pending_gone(self, pod: api.Pod) -> None:
        if pod.uid in self._cluster.pods:
            self._assumed_pod_deleted(pod)
        elif pod.nominated_node_name:
            self._nomination_freed(pod)

    def _assumed_pod_deleted(self, pod: api.Pod) -> None:
        """An assumed pod was deleted: free its node now, although its binding has yet to fail."""
        info = self._cluster.pods[pod.uid]
        gone = on_node(info.pod, self._cluster.nodes.names[info.row])
        if not self._shared.waiting.reject(pod.uid):
            self._cluster.remove_pod(pod.uid)
        self._queue.assigned_pod_deleted(gone)

    def _nomination_freed(self, pod: api.Pod) -> None:
        """Retry pods of equal or lower priority: they counted this pod as running on its nominated node."""
        self._queue.move_all(ASSIGNED_POD_DELETE, pod, None, check=lambda waiting: waiting.priority <= pod.priority)

    # Nodes and everything else

    def _node(self, old: api.Node | None, new: api.Node | None) -> None:
        started = self._now()
        if new is None:
            assert old is not None
            self._queue.move_all(NODE_DELETE, old, None)
            self._log(3, "Delete event for node", node=old)
            self._cluster.remove(old)
            self._log_zone("Removed node from NodeTree", old)
            self._handled(NODE_DELETE.label, started)
        elif old is None:
            self._log(3, "Add event for node", node=new)
            self._cluster.set(new)
            self._log_zone("Added node to NodeTree", new)
            self._queue.move_all(NODE_ADD, None, new)
            self._handled(NODE_ADD.label, started)
        else:
            if self._log.verbosity >= 4:
                self._log(4, "Update event for node", node=new)
            self._cluster.set(new)
            if _zone(old) != _zone(new):
                self._log_zone("Removed node from NodeTree", old)
                self._log_zone("Added node to NodeTree", new)
            for event in node_changes(old, new, self._cluster.features):
                self._queue.move_all(event, old, new)
                self._handled(event.label, started)

    def _log_zone(self, message: str, node: api.Node) -> None:
        if self._log.verbosity >= 2:
            self._log(2, message, node=node, zone=_zone(node))

    def _other(self, old: api.Object | None, new: api.Object | None) -> None:
        started = self._now()
        obj = new if new is not None else old
        assert obj is not None
        if new is not None:
            self._cluster.set(new)
        else:
            self._cluster.remove(obj)
        if (
            isinstance(obj, api.DeviceClass)
            and self._log.verbosity >= 5
            and self._cluster.features.dra_extended_resource
        ):
            log_device_class(self._log, self._cluster, old, new)  # type: ignore[arg-type]  # the same kind both times
        resource: Kind | None = RESOURCES.get(type(obj))
        if isinstance(obj, api.DeviceTaintRule):
            resource = Resource.RESOURCE_SLICE
        elif type(obj) in self._awaited:
            resource = type(obj)
        if resource is None:
            return
        action = Action.ADD if old is None else Action.DELETE if new is None else Action.UPDATE
        if new is None and isinstance(obj, api.ResourceClaim) and obj.status.allocation is not None:
            # A gap in the watch hid that its devices were given back first. Upstream's pods wait for five minutes.
            action, new = Action.UPDATE, replace(obj, status=replace(obj.status, allocation=None))
        if isinstance(obj, api.DeviceTaintRule):
            action = Action.UPDATE  # the slices whose devices it taints are updated
        event = ClusterEvent(resource, action)
        self._queue.move_all(event, old, new)
        self._handled(event.label, started)

    def _all_handled(self, update: ClusterEvent, precisely: list[ClusterEvent], started: float) -> None:
        """An update event counts as itself and as each of its more specific kinds."""
        for label in {update.label, *(event.label for event in precisely)}:
            self._handled(label, started)

    def _handled(self, label: str, started: float) -> None:
        self._count_event(label, self._now() - started)


def _unless_ended(pod: api.Object) -> api.Pod | None:
    """Return None for a pod that has ended: it uses no resources and needs no node, so it counts as deleted."""
    return pod if isinstance(pod, api.Pod) and not pod.is_terminal else None


def _zone(node: api.Node) -> str:
    """A node's place in upstream's tree of nodes: region and zone, of which either may be missing."""
    region, zone = (node.labels.get(f"topology.kubernetes.io/{part}", "") for part in ("region", "zone"))
    return f"{region}:\x00:{zone}" if region or zone else ""
