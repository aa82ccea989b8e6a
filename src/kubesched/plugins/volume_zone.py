"""VolumeZone: a pod goes where the zone and region labels of its bound volumes allow it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Mask
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Plugin, Reads, Verdicts, reject
from kubesched.framework.signatures import Signature, volumes
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, unresolvable
from kubesched.plugins.volumes import (
    BETA_REGION,
    BETA_ZONE,
    REGION,
    WAIT_FOR_FIRST_CONSUMER,
    ZONE,
    ZONE_SEPARATOR,
    claim_key,
    claim_names,
    class_of_claim,
    names_claim,
    not_found,
)

CONFLICT = unresolvable("node(s) had no available volume zone")
NO_CLAIM_NAME = unresolvable("PersistentVolumeClaim had no name")
NO_VOLUME_OR_CLASS = unresolvable("PersistentVolumeClaim had no pv name and storageClass name")
NO_VOLUME_NAME = unresolvable("PersistentVolume had no name")

TOPOLOGY_LABELS = (BETA_ZONE, BETA_REGION, ZONE, REGION)
_SUCCESSOR = {BETA_ZONE: ZONE, BETA_REGION: REGION}


class Topology(NamedTuple):
    """A label of a volume that a node must have with any of these values."""

    key: str
    values: frozenset[str]


class VolumeZone(Plugin):
    """PreFilter and Filter on the topology labels of volumes."""

    name = "VolumeZone"
    reads = Reads.ROW

    def sign(self, pod: api.Pod) -> Signature:
        return volumes(pod)

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.STORAGE_CLASS, Action.ADD, self._after_class_added),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
            on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD | Action.UPDATE, self._after_claim_change),
            on(Resource.PERSISTENT_VOLUME, Action.ADD | Action.UPDATE, self._after_volume_change),
        ]

    def ignores(self, pod_class: PodClass) -> bool:
        return not any(names_claim(volume) for volume in pod_class.spec.volumes)

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        if not pod.spec.volumes:
            return SKIP
        wanted = self._wanted(pod)
        if not wanted:
            return SKIP
        state.write(self.name, wanted)
        return wanted if isinstance(wanted, Status) else None

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return False

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        # A profile may have this plugin at Filter without PreFilter.
        wanted = state.read(self.name, tuple) if self.name in state else self._wanted(pod)
        if isinstance(wanted, Status):
            return reject(np.ones(len(nodes), dtype=np.bool_), wanted)
        agree = np.ones(len(nodes), dtype=np.bool_)
        for topology in wanted:
            agree &= _agrees(nodes, topology)
        constrained = np.zeros(len(nodes), dtype=np.bool_)
        for key in TOPOLOGY_LABELS:
            constrained |= nodes.has_label(key)
        return reject(constrained & ~agree, CONFLICT)

    def _wanted(self, pod: api.Pod) -> tuple[Topology, ...] | Status:
        """What the pod's bound volumes require of a node, or what is wrong with its claims."""
        wanted: list[Topology] = []
        for name in claim_names(pod):
            found = self._claim_topologies(pod.namespace, name)
            if isinstance(found, Status):
                return found
            wanted += found
        return tuple(dict.fromkeys(wanted))

    def _claim_topologies(self, namespace: str, name: str) -> list[Topology] | Status:
        if not name:
            return NO_CLAIM_NAME
        cluster = self.handle.cluster
        claim = cluster.get(api.PersistentVolumeClaim, claim_key(namespace, name))
        if claim is None:
            return unresolvable(not_found("persistentvolumeclaim", name))
        if not claim.spec.volume_name:
            return self._unbound(class_of_claim(claim)) or []
        volume = cluster.get(api.PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return unresolvable(not_found("persistentvolume", claim.spec.volume_name))
        return topologies(volume)

    def _unbound(self, class_name: str) -> Status | None:
        """What is wrong with a claim without a volume; None if the claim waits for its pod to be placed."""
        if not class_name:
            return NO_VOLUME_OR_CLASS
        storage_class = self.handle.cluster.get(api.StorageClass, class_name)
        if storage_class is None:
            return unresolvable(not_found("storageclass.storage.k8s.io", class_name))
        if storage_class.volume_binding_mode is None:
            return unresolvable(f'VolumeBindingMode not set for StorageClass "{class_name}"')
        return None if storage_class.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER else NO_VOLUME_NAME

    def _after_class_added(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if isinstance(new, api.StorageClass) and new.volume_binding_mode == WAIT_FOR_FIRST_CONSUMER:
            why = "StorageClass with waitForFirstConsumer mode was created and it might make this pod schedulable"
            return queue_because(log, 5, why, pod=pod, StorageClass=new)
        why = (
            "StorageClass is created, but its VolumeBindingMode is not waitForFirstConsumer, which doesn't make the "
            "pod schedulable"
        )
        return skip_because(log, 5, why, storageClass=new, pod=pod)

    def _after_claim_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if new is not None and new.namespace == pod.namespace:
            if new.name in claim_names(pod):
                log(5, "PVC is referred from the pod", pod=pod, PVC=new)
                why = "PVC that is referred from the pod was created or updated, which might make this pod schedulable"
                return queue_because(log, 5, why, pod=pod, PVC=new)
            log(5, "PVC is not referred from the pod", pod=pod, PVC=new)
        why = "PVC irrelevant to the Pod was created or updated, which doesn't make this pod schedulable"
        return skip_because(log, 5, why, pod=pod, PVC=new)

    def _after_volume_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if old is None or new is None:
            return queue_because(log, 5, "PV is newly created, which might make the pod schedulable")
        if topologies(old) != topologies(new):
            why = "PV's topology was updated, which might make the pod schedulable."
            return queue_because(log, 5, why, pod=pod, PV=new)
        why = "PV was updated, but the topology is unchanged, which it doesn't make the pod schedulable"
        return skip_because(log, 5, why, pod=pod, PV=new)


def topologies(volume: api.Object) -> list[Topology]:
    """What a volume's labels require. A label with an empty item among its values is ignored."""
    found = []
    for key in TOPOLOGY_LABELS:
        value = volume.labels.get(key)
        values = frozenset(item.strip() for item in value.split(ZONE_SEPARATOR)) if value is not None else frozenset()
        if values and "" not in values:
            found.append(Topology(key, values))
    return found


def _agrees(nodes: Nodes, topology: Topology) -> Mask:
    agree = nodes.label_in(topology.key, *topology.values)
    successor = _SUCCESSOR.get(topology.key)
    if successor is not None:
        agree |= ~nodes.has_label(topology.key) & nodes.label_in(successor, *topology.values)
    return agree
