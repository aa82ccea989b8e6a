"""The scheduler's picture of the cluster: nodes, pods on nodes, and everything else that plugins look up.

Events come in through `set`/`remove` (any kind), `update_pod`/`remove_pod` and `assume`/`forget`. They may come in any
order, a pod's before its node's included; the resulting state is the same as if it were built from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TypeVar, cast

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.cluster.counts import NO_LABELS, PodCounts
from kubesched.cluster.nominations import Nominations
from kubesched.cluster.objects import ObjectsByKind
from kubesched.cluster.pod_groups import PodGroups
from kubesched.cluster.pods import PodClasses, PodInfo, identified
from kubesched.cluster.table import NodeTable

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"
T = TypeVar("T")

PodObserver = Callable[[api.Pod | None, api.Pod | None], None]
"""Receives a pod before and after a change; None means that it did not exist."""
PlacementObserver = Callable[[PodInfo, int], None]
"""Receives a pod, and 1 if it was put on its node or -1 if it was taken off."""


class ClusterState:
    """Placement: which pods are on which nodes, assumed ones included; and a way to the rest."""

    def __init__(self, features: Features = DEFAULT_FEATURES, nodes: NodeTable | None = None) -> None:
        self.features = features
        self.nodes = NodeTable() if nodes is None else nodes
        self.classes = PodClasses(features)
        self.nominations = Nominations(self.nodes)
        self.objects = ObjectsByKind()
        self.counts = PodCounts(self.nodes, self.objects)
        self.pods: dict[str, PodInfo] = {}
        """Pods on nodes, assumed ones included, by UID."""
        self.assumed: set[str] = set()
        self.terminating: dict[str, PodInfo] = {}
        """Pods on nodes that are being deleted, by UID."""
        self.pod_groups = PodGroups()
        """Empty unless the gate GenericWorkload is on."""
        self.pod_observers: list[PodObserver] = []
        """Called for every pod that is created, changed or deleted, pods without a node included."""
        self.placement_observers: list[PlacementObserver] = []
        """Called for every pod that is put on a node or taken off, assumed ones included."""
        self._shared: dict[type, object] = {}
        self._relabelled = 0
        """How many pods got other labels on their node."""

    def share(self, kind: type[T]) -> T:
        """The one object of this class that the plugins of all profiles share; made from the cluster on first use."""
        found = self._shared.get(kind)
        if found is None:
            found = self._shared[kind] = kind(self)  # type: ignore[call-arg]  # classes that take a cluster
        return cast(T, found)

    # Objects of any kind

    def set(self, obj: api.Object) -> None:
        """Store an object's newest state."""
        if isinstance(obj, api.Pod):
            self.update_pod(obj)
        elif isinstance(obj, api.Node):
            self.nodes.set_node(obj)
        else:
            if isinstance(obj, api.Namespace):
                self.counts.namespace_changed(obj.name, obj.labels)
            self.objects.set(obj)
            self._class_changed(obj)

    def remove(self, obj: api.Object) -> None:
        """Remove an object."""
        if isinstance(obj, api.Pod):
            self.remove_pod(identified(obj).uid)
        elif isinstance(obj, api.Node):
            self.nodes.remove_node(obj.name)
        else:
            if isinstance(obj, api.Namespace):
                self.counts.namespace_changed(obj.name, None)
            self.objects.remove(obj)
            self._class_changed(obj)

    def _class_changed(self, obj: api.Object) -> None:
        """What a node offers of an extended resource depends on the device class behind it."""
        if isinstance(obj, api.DeviceClass):
            self.nodes.any_node_changed()

    def get(self, kind: type[O], key: str) -> O | None:
        """The object of this kind with this key ("namespace/name", or the name where there is no namespace).

        Only pods on nodes are found. They are stored by UID, so looking one up by key takes a search.
        """
        found: api.Object | None
        if kind is api.Node:
            row = self.nodes.row_of.get(key)
            found = None if row is None else self.nodes.nodes[row]
        elif kind is api.Pod:
            found = next((info.pod for info in reversed(self.pods.values()) if info.pod.key == key), None)
        else:
            found = self.objects.get(kind, key)
        return cast("O | None", found)

    def all(self, kind: type[O]) -> Collection[O]:
        """All objects of a kind; of pods, those on nodes."""
        found: Collection[api.Object]
        if kind is api.Node:
            found = [node for node in self.nodes.nodes if node is not None]
        elif kind is api.Pod:
            found = [info.pod for info in self.pods.values()]
        else:
            found = self.objects.all(kind)
        return cast("Collection[O]", found)

    def version(self, kind: type[api.Object]) -> int:
        """A number that grows whenever an object of this kind comes, goes, or changes in what scheduling reads."""
        if kind is api.Node:
            return self.nodes.node_version
        return self.nodes.log_end + self._relabelled if kind is api.Pod else self.objects.version(kind)

    def changed_since(self, kind: type[api.Object], version: int) -> list[str] | None:
        """Keys of the objects of a kind that came, changed or went since that version; None if that is not known."""
        if kind is api.Node or kind is api.Pod:
            return [] if version == self.version(kind) else None
        return self.objects.changed_since(kind, version)

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it is not known."""
        namespace = self.objects.get(api.Namespace, name)
        return NO_LABELS if namespace is None else namespace.labels

    # Pods on nodes

    def update_pod(self, pod: api.Pod, before: api.Pod | None = None) -> None:
        """Store a pod's newest state: on a node, ended, or only nominated to a node.

        `before` is the state that was stored last, if the caller knows it.
        """
        pod = identified(pod)
        uid, node_name = pod.metadata.uid, pod.spec.node_name
        known = self.pods.get(uid)
        if before is not None and known is not None and self._stays_in_class(known, before, pod):
            meta = replace(pod.metadata, labels=known.pod.metadata.labels)
            known.pod = replace(known.pod, metadata=meta, status=pod.status)
            self.nodes.pod_changed(known.row)
            return
        if not node_name or pod.is_terminal:
            # An update of an assumed pod from before its binding changes nothing; one from after it does.
            if known is not None and (node_name or uid not in self.assumed):
                self.remove_pod(uid)
            if pod.nominated_node_name:
                self.nominate(self.classes.info(pod), pod.nominated_node_name)
            else:
                self.nominations.remove(uid)
            return
        self.nominations.remove(uid)
        info = self.classes.info(pod)
        self.assumed.discard(uid)
        if known is not None:
            row = self.nodes.row_of.get(node_name, -1)
            if row == known.row and known.pod_class is info.pod_class and known.terminating == info.terminating:
                known.pod = info.pod
                self.nodes.pod_changed(row)
                return
            if row == known.row and self._only_labels_differ(known, info):
                self._relabel(known, info)
                return
            self._take_off(known)
        self._place(info, node_name)

    def _stays_in_class(self, known: PodInfo, before: api.Pod, pod: api.Pod) -> bool:
        """Whether an update of a pod on a node changes nothing that its class or its node depends on."""
        return (
            before.spec == pod.spec
            and before.metadata.labels == pod.metadata.labels
            and before.spec.node_name == self.nodes.names[known.row]
            and known.terminating == pod.is_terminating
            and pod.uid not in self.assumed
            and not pod.is_terminal
            and self.classes.only_spec_counts(before.status)
            and self.classes.only_spec_counts(pod.status)
        )

    def remove_pod(self, uid: str) -> None:
        """Remove a pod."""
        self.nominations.remove(uid)
        self.assumed.discard(uid)
        info = self.pods.get(uid)
        if info is not None:
            self._take_off(info)

    def assume(self, info: PodInfo, node_name: str) -> None:
        """Count a pod as on a node before the API server says so."""
        uid = info.pod.metadata.uid
        if uid in self.pods:
            raise ValueError(f"pod {info.pod.key} is on a node already")
        self.nominations.remove(uid)
        self.assumed.add(uid)
        self._place(info, node_name)

    def revise(self, pod: api.Pod) -> None:
        """Count an assumed pod anew: Reserve has found out what else it takes from its node."""
        self._take_off(self.pods[pod.uid])
        self._place(self.classes.info(pod), pod.node_name)

    def forget(self, uid: str) -> None:
        """Undo an assumption."""
        if uid in self.assumed:
            self.remove_pod(uid)

    def lift(self, info: PodInfo) -> None:
        """Suppose a pod were not on its node, until `put_back`."""
        self._take_off(info)

    def put_back(self, info: PodInfo, node_name: str) -> None:
        """Undo `lift`."""
        self._place(info, node_name)

    def nominate(self, info: PodInfo, node_name: str) -> None:
        """Nominate a pod to a node, instead of any earlier nomination; an empty name withdraws it.

        Every nomination is made here. A pod that is on a node or has ended is nominated nowhere.
        """
        if node_name and not info.pod.is_terminal and info.pod.uid not in self.pods:
            self.nominations.add(info, node_name)
        else:
            self.nominations.remove(info.pod.uid)

    def _place(self, info: PodInfo, node_name: str) -> None:
        row = info.row = self.nodes.row_for_pod(node_name)
        self.nodes.place(info, row)
        self.pods[info.pod.metadata.uid] = info
        if info.terminating:
            self.terminating[info.pod.metadata.uid] = info
        for observe in self.placement_observers:
            observe(info, 1)
        self.counts.placed(info, row)
        if len(self.pod_groups):
            self.pod_groups.placed(info.pod)

    def _only_labels_differ(self, known: PodInfo, info: PodInfo) -> bool:
        """Whether a pod takes from its node what it took before, and nothing follows placements one by one."""
        return (
            known.pod_class.without_labels is info.pod_class.without_labels
            and known.terminating == info.terminating
            and not self.placement_observers
            and not len(self.pod_groups)
        )

    def _relabel(self, known: PodInfo, info: PodInfo) -> None:
        """Put a pod with other labels in the place of `known`. The API server gives every bound pod the topology labels
        of its node. The row keeps its cached answers, which do not depend on labels."""
        row = info.row = known.row
        self.nodes.relabel(info, row)
        uid = info.pod.metadata.uid
        del self.pods[uid]  # the pod that changed last is the last
        self.pods[uid] = info
        if info.terminating:
            self.terminating.pop(uid, None)
            self.terminating[uid] = info
        self.counts.taken_off(known, row)
        self.counts.placed(info, row)
        self._relabelled += 1
        known.row = -1

    def _take_off(self, info: PodInfo) -> None:
        row = info.row
        self.nodes.take_off(info, row)
        del self.pods[info.pod.metadata.uid]
        if info.terminating:
            self.terminating.pop(info.pod.metadata.uid, None)
        for observe in self.placement_observers:
            observe(info, -1)
        self.counts.taken_off(info, row)
        if len(self.pod_groups):
            self.pod_groups.taken_off(info.pod)
        info.row = -1
        self.nodes.release_if_empty(row)
