"""Which CSI volumes are attached to which node, and how many each node may have, in columns per driver.

To count a node's volumes, every pod on it must be followed to its claims, their volumes and their classes. That is done
for a row when one of its inputs changes, not when it is needed: a pod with a volume costs only the changes since the
last one, however large the cluster.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import TypeVar

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints, Mask
from kubesched.plugins.csi_migration import (
    BY_PLUGIN,
    CSIVolume,
    Migration,
    TranslationError,
    inline_handle,
    migration_of,
    volume_handle,
)
from kubesched.plugins.volumes import ClaimUse, claim_key, claim_use, class_of_claim, not_found, not_owned

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"
K = TypeVar("K", bound=Hashable)

NO_LIMIT = -1
_FOLLOWED: tuple[type[api.Object], ...] = (
    api.PersistentVolumeClaim,
    api.PersistentVolume,
    api.StorageClass,
    api.CSINode,
    api.VolumeAttachment,
)

Source = tuple[type[api.Object], str]
"""An object that a result depends on: its kind and key."""


class VolumeError(Exception):
    """A pod's volumes cannot be counted; the text is upstream's."""


class ClaimMissingError(VolumeError):
    """A claim that the pod needs does not exist."""


class Resolver:
    """Follows a pod's volumes to their CSI volumes, and records the objects that it read."""

    def __init__(self, cluster: ClusterState, *, migrated: bool) -> None:
        self.cluster = cluster
        self.migrated = migrated
        """Whether the node has a CSINode. Without one, nothing in-tree is served by a CSI driver."""
        self.sources: set[Source] = set()

    def volumes(self, pod: api.Pod, *, must_exist: bool) -> Iterator[CSIVolume]:
        """The CSI volumes of a pod. Missing claims are skipped, unless `must_exist`."""
        for volume in pod.spec.volumes:
            use = claim_use(pod, volume)
            found = self._inline(volume) if use is None else self._claimed(pod, use, must_exist=must_exist)
            if found is not None and found.driver and found.handle:
                yield found

    def attached(self, attachment: api.VolumeAttachment) -> CSIVolume | None:
        """The volume of an attachment, if it is a CSI volume that exists."""
        name = attachment.spec.source.persistent_volume_name
        if not attachment.spec.attacher or name is None:
            return None
        volume = self._get(api.PersistentVolume, name)
        if volume is None or volume.spec.csi is None:
            return None
        return CSIVolume(attachment.spec.attacher, volume.spec.csi.volume_handle)

    def _claimed(self, pod: api.Pod, use: ClaimUse, *, must_exist: bool) -> CSIVolume | None:
        if not use.name:
            raise VolumeError("PersistentVolumeClaim had no name")
        claim = self._get(api.PersistentVolumeClaim, claim_key(pod.namespace, use.name))
        if claim is None:
            if must_exist:
                missing = not_found("persistentvolumeclaim", use.name)
                raise ClaimMissingError(f"looking up PVC {pod.namespace}/{use.name}: {missing}")
            return None
        if use.ephemeral and (problem := not_owned(pod, claim)):
            raise VolumeError(problem)
        return self._of_claim(claim)

    def _of_claim(self, claim: api.PersistentVolumeClaim) -> CSIVolume | None:
        name = claim.spec.volume_name
        volume = self._get(api.PersistentVolume, name) if name else None
        if volume is None:
            return self._to_be_provisioned(claim)
        if volume.spec.csi is not None:
            return CSIVolume(volume.spec.csi.driver, volume.spec.csi.volume_handle)
        migration = migration_of(volume.spec)
        if migration is None or not self._serves(migration):
            return None
        try:
            return volume_handle(volume, migration)
        except TranslationError:
            return None

    def _to_be_provisioned(self, claim: api.PersistentVolumeClaim) -> CSIVolume | None:
        """The volume that the class will provision. It has no handle yet, so the claim's key replaces it."""
        class_name = class_of_claim(claim)
        storage_class = self._get(api.StorageClass, class_name) if class_name else None
        if storage_class is None:
            return None
        handle = f"(unbound) {claim.key}"
        migration = BY_PLUGIN.get(storage_class.provisioner)
        if migration is None:
            return CSIVolume(storage_class.provisioner, handle)
        return CSIVolume(migration.driver, handle) if self._serves(migration) else None

    def _inline(self, volume: api.Volume) -> CSIVolume | None:
        migration = migration_of(volume)
        if migration is None or not self._serves(migration):
            return None
        try:
            return inline_handle(volume, migration)
        except TranslationError as problem:
            raise VolumeError(f"converting volume({volume.name}) from inline to csi: {problem}") from problem

    def _serves(self, migration: Migration) -> bool:
        return self.migrated and migration.is_on

    def _get(self, kind: type[O], key: str) -> O | None:
        self.sources.add((kind, key))
        return self.cluster.get(kind, key)


class _Row:
    """What one node has attached."""

    __slots__ = ("counts", "sources", "volumes")

    def __init__(self) -> None:
        self.volumes: set[CSIVolume] = set()
        self.counts: dict[str, int] = {}
        self.sources: set[Source] = set()


class AttachedVolumes:
    """Counts and limits of all nodes, updated on demand."""

    def __init__(self, cluster: ClusterState) -> None:
        self.cluster = cluster
        self.errors: dict[int, str] = {}
        """Rows with a pod whose volumes cannot be counted, and why."""
        self._start()

    def _start(self) -> None:
        table = self.cluster.nodes
        self.errors.clear()
        self.has_csi_node: Mask = np.zeros(table.capacity, dtype=np.bool_)
        self.is_limited: Mask = np.zeros(table.capacity, dtype=np.bool_)
        self._limits: dict[str, Ints] = {}
        self._counts: dict[str, Ints] = {}
        self._installed: dict[str, Ints] = {}
        self._rows: dict[int, _Row] = {}
        self._users: dict[Source, set[int]] = {}
        self._holders: dict[CSIVolume, set[int]] = {}
        self._attachments: dict[str, dict[str, api.VolumeAttachment]] = {}
        self._attached_to: dict[str, str] = {}
        self._names: list[str] = []
        self._log_end = -1
        self._node_version = -1
        self._versions = dict.fromkeys(_FOLLOWED, -1)

    def limit(self, driver: str) -> Ints | None:
        """How many of a driver's volumes each row may have, `NO_LIMIT` where there is none."""
        return self._limits.get(driver)

    def count(self, driver: str) -> Ints:
        """How many of a driver's volumes each row has."""
        return self._column(self._counts, driver, 0)

    def lacks(self, driver: str) -> Mask:
        """Rows whose node does not have the driver."""
        lacking: Mask = self._column(self._installed, driver, 0) == 0
        return lacking

    def holders(self, volume: CSIVolume) -> Iterable[int]:
        """Rows where a pod uses this volume."""
        return self._holders.get(volume, ())

    def sync(self) -> None:
        """Process the changes since the last call."""
        table = self.cluster.nodes
        dirty = self._dirty()
        if dirty is None:
            self._start()
            self._names = list(table.names)
            self._follow_attachments(a.key for a in self.cluster.all(api.VolumeAttachment))
            dirty = set(range(table.size))
        self._log_end = table.log_end
        self._node_version = table.node_version
        self._versions = {kind: self.cluster.version(kind) for kind in _FOLLOWED}
        if dirty:
            self._grow(table.capacity)
            for row in dirty:
                self._refresh(row)

    def _dirty(self) -> set[int] | None:
        """Rows to refresh; None for all of them."""
        table = self.cluster.nodes
        moved = table.changed_since(self._log_end)
        changed = {kind: self.cluster.changed_since(kind, self._versions[kind]) for kind in _FOLLOWED}
        if moved is None or None in changed.values():
            return None
        dirty = set(moved)
        for kind, keys in changed.items():
            for key in keys or ():
                dirty |= self._users.get((kind, key), set())
        dirty |= self._rows_of(changed[api.CSINode] or ())
        dirty |= self._rows_of(self._follow_attachments(changed[api.VolumeAttachment] or ()))
        return dirty | self._renamed()

    def _rows_of(self, names: Iterable[str]) -> set[int]:
        row_of = self.cluster.nodes.row_of
        return {row_of[name] for name in names if name in row_of}

    def _renamed(self) -> set[int]:
        """Rows that now belong to another node, or are new."""
        table = self.cluster.nodes
        if table.node_version == self._node_version and len(self._names) == table.size:
            return set()
        before, self._names = self._names, list(table.names)
        return {row for row, name in enumerate(table.names) if row >= len(before) or before[row] != name}

    def _follow_attachments(self, keys: Iterable[str]) -> set[str]:
        """Process added and removed attachments; returns the nodes that they belong to."""
        nodes = set()
        for key in keys:
            node = self._attached_to.pop(key, None)
            if node is not None:
                del self._attachments[node][key]
                nodes.add(node)
            attachment = self.cluster.get(api.VolumeAttachment, key)
            if attachment is not None:
                node = self._attached_to[key] = attachment.spec.node_name
                self._attachments.setdefault(node, {})[key] = attachment
                nodes.add(node)
        return nodes

    def _refresh(self, row: int) -> None:
        name = self.cluster.nodes.names[row]
        csi_node = self.cluster.get(api.CSINode, name)
        self._forget(row)
        self._set_limits(row, csi_node)
        resolver = Resolver(self.cluster, migrated=csi_node is not None)
        entry = _Row()
        for info in self.cluster.nodes.pods[row].values():
            if info.pod_class.spec.volumes:
                self._add_pod(row, entry, resolver, info.pod)
        attachments = self._attachments.get(name, {}).values()
        others = {volume for a in attachments if (volume := resolver.attached(a)) is not None} - entry.volumes
        for volume in (*entry.volumes, *others):
            entry.counts[volume.driver] = entry.counts.get(volume.driver, 0) + 1
        entry.sources = resolver.sources
        if entry.sources or entry.counts:
            self._remember(row, entry)

    def _add_pod(self, row: int, entry: _Row, resolver: Resolver, pod: api.Pod) -> None:
        try:
            entry.volumes.update(resolver.volumes(pod, must_exist=False))
        except VolumeError as problem:
            self.errors.setdefault(row, str(problem))

    def _remember(self, row: int, entry: _Row) -> None:
        self._rows[row] = entry
        for source in entry.sources:
            self._users.setdefault(source, set()).add(row)
        for volume in entry.volumes:
            self._holders.setdefault(volume, set()).add(row)
        for driver, count in entry.counts.items():
            self.count(driver)[row] = count

    def _forget(self, row: int) -> None:
        self.errors.pop(row, None)
        entry = self._rows.pop(row, None)
        if entry is None:
            return
        for source in entry.sources:
            _discard(self._users, source, row)
        for volume in entry.volumes:
            _discard(self._holders, volume, row)
        for driver in entry.counts:
            self._counts[driver][row] = 0

    def _set_limits(self, row: int, csi_node: api.CSINode | None) -> None:
        for column in self._limits.values():
            column[row] = NO_LIMIT
        for column in self._installed.values():
            column[row] = 0
        for installed in csi_node.spec.drivers if csi_node is not None else ():
            self._column(self._installed, installed.name, 0)[row] = 1
        limits = volume_limits(csi_node)
        for driver, limit in limits.items():
            self._column(self._limits, driver, NO_LIMIT)[row] = limit
        self.has_csi_node[row] = csi_node is not None
        self.is_limited[row] = bool(limits)

    def _column(self, columns: dict[str, Ints], driver: str, blank: int) -> Ints:
        column = columns.get(driver)
        if column is None:
            column = columns[driver] = np.full(len(self.has_csi_node), blank, dtype=np.int64)
        return column

    def _grow(self, capacity: int) -> None:
        more = capacity - len(self.has_csi_node)
        if more <= 0:
            return
        self.has_csi_node = np.concatenate((self.has_csi_node, np.zeros(more, dtype=np.bool_)))
        self.is_limited = np.concatenate((self.is_limited, np.zeros(more, dtype=np.bool_)))
        for columns, blank in ((self._limits, NO_LIMIT), (self._counts, 0), (self._installed, 0)):
            for driver, column in columns.items():
                columns[driver] = np.concatenate((column, np.full(more, blank, dtype=np.int64)))


def volume_limits(csi_node: api.CSINode | None) -> Mapping[str, int]:
    """How many volumes of each driver a node takes; drivers without a limit are absent."""
    drivers = csi_node.spec.drivers if csi_node is not None else ()
    counts = ((d.name, d.allocatable.count) for d in drivers if d.allocatable is not None)
    return {name: count for name, count in counts if count is not None}


def _discard(index: dict[K, set[int]], key: K, row: int) -> None:
    rows = index[key]
    rows.discard(row)
    if not rows:
        del index[key]
