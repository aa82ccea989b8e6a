"""VolumeRestrictions: unshareable disks are mounted once per node, ReadWriteOncePod claims used by one pod."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass, PodInfo, Tag, disks
from kubesched.cluster.table import NodeTable
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Plugin, Verdicts
from kubesched.framework.signatures import Signature, volumes
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.volumes import after_claim_added, claim_key, claim_names, names_claim, not_found

DISK_CONFLICT = unschedulable("node(s) had no available disk")
CLAIM_CONFLICT = unschedulable(
    "node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode already in-use by another pod"
)
READ_WRITE_ONCE_POD = "ReadWriteOncePod"
NOT_PREPARED = error('cannot read "PreFilterVolumeRestrictions" from cycleState')
_DISK, _CLAIM, _NOT_PREPARED = 1, 2, 3
_STATUSES = {_DISK: DISK_CONFLICT, _CLAIM: CLAIM_CONFLICT, _NOT_PREPARED: NOT_PREPARED}


class VolumeRestrictions(Plugin):
    """PreFilter and Filter on disks and exclusive claims, by looking up their users."""

    name = "VolumeRestrictions"

    def sign(self, pod: api.Pod) -> Signature:
        return volumes(pod)

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.DELETE, self._after_pod_deleted),
            on(Resource.NODE, Action.ADD),
            on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, self._after_claim_added),
        ]

    def ignores(self, pod_class: PodClass) -> bool:
        return not any(_is_disk(volume) or names_claim(volume) for volume in pod_class.spec.volumes)

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        if not pod.spec.volumes:
            return SKIP
        exclusive: set[str] = set()
        for name in claim_names(pod):
            claim = self.handle.cluster.get(api.PersistentVolumeClaim, claim_key(pod.namespace, name))
            if claim is None:
                return unresolvable(not_found("persistentvolumeclaim", name))
            if READ_WRITE_ONCE_POD in claim.spec.access_modes:
                exclusive.add(name)
        conflicts = sum(_in_use(nodes.table, ("claim", pod.namespace, name)) for name in exclusive)
        if not conflicts and not any(_is_disk(volume) for volume in pod.spec.volumes):
            return SKIP
        state.write(self.name, _ExclusiveClaims(frozenset(exclusive), conflicts))
        return None

    def add_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(self.name, _ExclusiveClaims).count(info, 1)

    def remove_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(self.name, _ExclusiveClaims).count(info, -1)

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return bool(other.spec.volumes)

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        codes = np.full(nodes.table.size, self._claim_code(state), dtype=np.int8)
        for disk in self._conflicting(state, pod):
            rows = nodes.table.tagged.get(disk)
            if rows:
                codes[list(rows)] = _DISK
        codes = codes[nodes.rows]
        return Verdicts(codes, _STATUSES.__getitem__) if codes.any() else None

    def _claim_code(self, state: CycleState) -> int:
        """The verdict on exclusive claims, the same for every node."""
        if self.name not in state:
            return _NOT_PREPARED
        return _CLAIM if state.read(self.name, _ExclusiveClaims).conflicts > 0 else 0

    def _conflicting(self, state: CycleState, pod: api.Pod) -> tuple[Tag, ...]:
        """The disks of other pods that conflict with this pod's disks."""
        return state.pod_class.remember((self.name, "conflicting"), lambda: tuple(_conflicting_disks(pod)))

    def _after_pod_deleted(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(old, api.Pod):
            return Hint.QUEUE
        if old.namespace != pod.namespace:
            return Hint.SKIP
        log = self.handle.log
        freed = {disk for volume in old.spec.volumes for disk in disks(volume)}
        if freed.intersection(_conflicting_disks(pod)):
            why = "Pod with the volume that the target pod requires was deleted, which might make this pod schedulable"
            return queue_because(log, 5, why, pod=pod, deletedPod=old)
        if set(claim_names(pod)).intersection(claim_names(old)):
            why = (
                "Pod with the same PVC that the target pod requires was deleted, which might make this pod schedulable"
            )
            return queue_because(log, 5, why, pod=pod, deletedPod=old)
        why = "An irrelevant Pod was deleted, which doesn't make this pod schedulable"
        return skip_because(log, 5, why, pod=pod, deletedPod=old)

    def _after_claim_added(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        wanted = new is not None and new.namespace == pod.namespace and new.name in claim_names(pod)
        return after_claim_added(self.handle.log, pod, new, wanted=wanted)


class _ExclusiveClaims:
    """The pod's ReadWriteOncePod claims, and how many other uses of them exist."""

    __slots__ = ("conflicts", "names")

    def __init__(self, names: frozenset[str], conflicts: int) -> None:
        self.names = names
        self.conflicts = conflicts

    def clone(self) -> _ExclusiveClaims:
        return _ExclusiveClaims(self.names, self.conflicts)

    def count(self, info: PodInfo, sign: int) -> None:
        """Count a pod's uses in or out. As upstream, by name alone: claims of the same name in other namespaces count,
        too."""
        self.conflicts += sign * sum(name in self.names for name in claim_names(info.pod))


def _is_disk(volume: api.Volume) -> bool:
    sources = (volume.gce_persistent_disk, volume.aws_elastic_block_store, volume.rbd, volume.iscsi)
    return any(source is not None for source in sources)


def _in_use(table: NodeTable, tag: Tag) -> bool:
    return any(table.valid[row] for row in table.tagged.get(tag, ()))


def _conflicting_disks(pod: api.Pod) -> Iterable[Tag]:
    for volume in pod.spec.volumes:
        for *disk, read_only in disks(volume):
            yield (*disk, False)
            if not read_only:
                yield (*disk, True)
