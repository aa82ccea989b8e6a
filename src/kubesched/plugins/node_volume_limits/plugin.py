"""NodeVolumeLimits: a node takes only as many volumes of a CSI driver as its CSINode says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.cluster.table import Ids, Mask
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Handle, Plugin, Reads, Verdicts
from kubesched.framework.signatures import Signature, volumes
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.csi_migration import CSIVolume, TranslationError, inline_handle, migration_of
from kubesched.plugins.node_volume_limits.attached import (
    AttachedVolumes,
    ClaimMissingError,
    Resolver,
    VolumeError,
    volume_limits,
)
from kubesched.plugins.volumes import after_claim_added, names_claim, uses_claim

EXCEEDED = unschedulable("node(s) exceed max volume count")


class NodeVolumeLimits(Plugin):
    """PreFilter and Filter on the number of attached volumes."""

    name = "NodeVolumeLimits"
    reads = Reads.ROW

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._attached = AttachedVolumes(handle.cluster)

    def sign(self, pod: api.Pod) -> Signature:
        return volumes(pod)

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.CSI_NODE, Action.ADD),
            on(Resource.CSI_NODE, Action.UPDATE, self._after_csi_node_update),
            on(Resource.POD, Action.DELETE, self._after_pod_deleted),
            on(Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD, self._after_claim_added),
            on(Resource.VOLUME_ATTACHMENT, Action.DELETE, self._after_attachment_deleted),
        ]

    def ignores(self, pod_class: PodClass) -> bool:
        return not any(_may_be_attached(volume) for volume in pod_class.spec.volumes)

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        return SKIP if self.ignores(state.pod_class) else None

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return bool(other.spec.volumes)

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        self._attached.sync()
        if self.name not in state:
            state.write(self.name, (self._wanted(pod, migrated=False), self._wanted(pod, migrated=True)))
        answer = _Answer(nodes)
        has_csi_node = self._attached.has_csi_node[nodes.rows]
        for has, wanted in zip((False, True), state.read(self.name, tuple), strict=True):
            rows = has_csi_node == has
            if isinstance(wanted, Status):
                answer.mark(rows, wanted)
            elif wanted:
                self._count(answer, rows, wanted)
                if self.handle.features.volume_limit_scaling:
                    self._require_drivers(answer, rows, wanted)
        return answer.verdicts()

    def _wanted(self, pod: api.Pod, *, migrated: bool) -> frozenset[CSIVolume] | Status:
        """The volumes that the pod brings to a node with, or without, a CSINode; or why that is unknown."""
        try:
            return frozenset(Resolver(self.handle.cluster, migrated=migrated).volumes(pod, must_exist=True))
        except ClaimMissingError as problem:
            return unresolvable(str(problem))
        except VolumeError as problem:
            return error(str(problem))

    def _count(self, answer: _Answer, rows: Mask, wanted: frozenset[CSIVolume]) -> None:
        """Reject rows among these where the wanted volumes would be too many."""
        attached = self._attached
        size = answer.nodes.table.size
        for driver, number in Counter(volume.driver for volume in wanted).items():
            limit = attached.limit(driver)
            if limit is None:
                continue
            new = np.full(size, number, dtype=np.int64)
            for volume in wanted:
                if volume.driver == driver:
                    new[list(attached.holders(volume))] -= 1
            over = (new > 0) & (limit[:size] >= 0) & (attached.count(driver)[:size] + new > limit[:size])
            answer.mark(rows & over[answer.nodes.rows], EXCEEDED)
        for row, problem in attached.errors.items():
            if attached.is_limited[row]:
                answer.mark(rows & answer.is_row(row), error(problem))

    def _require_drivers(self, answer: _Answer, rows: Mask, wanted: frozenset[CSIVolume]) -> None:
        """Reject rows that lack a wanted driver whose CSIDriver asks for that."""
        size = answer.nodes.table.size
        for name in sorted({volume.driver for volume in wanted}):
            driver = self.handle.cluster.get(api.CSIDriver, name)
            if driver is not None and driver.spec.prevent_pod_scheduling_if_missing:
                missing = self._attached.lacks(name)[:size][answer.nodes.rows]
                answer.mark(rows & missing, unschedulable(f"{name} CSI driver is not installed on the node"))

    def _after_csi_node_update(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(old, api.CSINode) or not isinstance(new, api.CSINode):
            return Hint.QUEUE
        before = volume_limits(old)
        for driver, limit in volume_limits(new).items():
            if limit > before.get(driver, 0):
                why = "CSINode driver limit increased, might make this pod schedulable"
                known = before.get(driver, 0)
                return queue_because(self.handle.log, 5, why, pod=pod, driver=driver, oldLimit=known, newLimit=limit)
        return Hint.SKIP

    def _after_pod_deleted(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(old, api.Pod):
            return Hint.QUEUE
        if not (old.node_name or old.nominated_node_name):
            return Hint.SKIP
        if any(_may_be_attached(volume) for volume in old.spec.volumes):
            return Hint.QUEUE
        why = "The deleted pod does not impact the scheduling of the unscheduled pod"
        return skip_because(self.handle.log, 5, why, pod=pod, deletedPod=old)

    def _after_claim_added(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        return after_claim_added(self.handle.log, pod, new, wanted=uses_claim(pod, new))

    def _after_attachment_deleted(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if not isinstance(old, api.VolumeAttachment):
            return Hint.QUEUE
        log, attacher = self.handle.log, old.spec.attacher
        for volume in pod.spec.volumes:
            if not _may_free(volume, attacher):
                continue
            if volume.persistent_volume_claim is None:
                why = (
                    "Pod volume is an Inline Migratable volume that matches the CSI driver, which might make this pod "
                    "schedulable due to VolumeAttachment deletion"
                )
                about = {"volumeAttachment": old, "volume": volume.name, "csiDriver": attacher}
                return queue_because(log, 5, why, pod=pod, **about)
            why = (
                "Pod volume uses PersistentVolumeClaim, which might make this pod schedulable due to VolumeAttachment "
                "deletion"
            )
            return queue_because(log, 5, why, pod=pod, volumeAttachment=old, volume=volume.name)
        why = (
            "the VolumeAttachment deletion wouldn't make this pod schedulable because the pod has no volume related "
            "to a deleted VolumeAttachment"
        )
        return skip_because(log, 5, why, pod=pod, volumeAttachment=old)


class _Answer:
    """Collects verdicts; a later mark replaces an earlier one."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._codes: Ids = np.zeros(len(nodes), dtype=np.int32)
        self._statuses: list[Status] = []

    def mark(self, rows: Mask, status: Status) -> None:
        if rows.any():
            self._statuses.append(status)
            self._codes[rows] = len(self._statuses)

    def is_row(self, row: int) -> Mask:
        mask = np.zeros(self.nodes.table.size, dtype=np.bool_)
        mask[row] = True
        return mask[self.nodes.rows]

    def verdicts(self) -> Verdicts | None:
        status_of: Callable[[int], Status] = lambda code: self._statuses[code - 1]  # noqa: E731
        return Verdicts(self._codes, status_of) if self._statuses else None


def _may_be_attached(volume: api.Volume) -> bool:
    return names_claim(volume) or migration_of(volume) is not None


def _may_free(volume: api.Volume, attacher: str) -> bool:
    """Whether a volume may have waited for the removal of an attachment of this driver."""
    if volume.persistent_volume_claim is not None:
        return True
    migration = migration_of(volume)
    if migration is None:
        return False
    try:
        return attacher == (inline_handle(volume, migration).driver if migration.is_on else migration.driver)
    except TranslationError:
        return True
