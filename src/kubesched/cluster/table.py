"""The node table: one row per node, one NumPy column per thing that plugins compare.

Rows are reused. A row may exist without its node: a pod's event can arrive before its node's, and a node can go
while its pods are still there. Such a row is not `valid` and no plugin's answer for it counts.

Whatever repeats among nodes (label values, taint sets) is interned, so that a plugin evaluates each distinct value
once and gathers. There are columns only for labels and resources that nodes have, whatever names pods use, so that
those who may create pods cannot make the table grow.

`pod_log` tells which rows' pods changed since a position; `node_version` moves when anything else about any node
changes that a cached answer may depend on, and `node_log` tells for which row. `stamps` has a number per row that is
new after any change of the row: of its node, its pods, or the pods nominated to it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.api.resources import NodeResources, Requests, allocatable
from kubesched.cluster.node_changes import same_for_scheduling, same_object, topology
from kubesched.cluster.pods import PodClass, PodInfo, Tag

Ints = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]
Mask = npt.NDArray[np.bool_]

CPU: Final = 0
MEMORY: Final = 1
EPHEMERAL_STORAGE: Final = 2
PODS: Final = 3
# Requests with the defaults that scoring assumes for containers that ask for nothing; allocatable repeats cpu and
# memory there, so that a scorer may use one column number on both sides.
NONZERO_CPU: Final = 4
NONZERO_MEMORY: Final = 5
NOTHING: Final = 6
"""A column of zeros, for every resource that has none."""
_FIXED: Final = 7
HUGE_CAPACITY: Final = 1 << 50
HUGE_REQUEST: Final = 1 << 46
"""Below these, sums of a node's amounts and their hundredfold are exact in 64-bit integers and in doubles."""
_NATIVE: Final = {"cpu": CPU, "memory": MEMORY, "ephemeral-storage": EPHEMERAL_STORAGE, "pods": PODS}


class LabelColumn:
    """The values of one label key: an id per row, -1 where the label is absent."""

    __slots__ = ("ids", "index", "rows_by_id", "values")

    def __init__(self, capacity: int) -> None:
        self.ids: Ids = np.full(capacity, -1, dtype=np.int32)
        self.rows_by_id = 0
        """How many rows have their own number as id: usually all, if each node has a value of its own."""
        self.values: list[str] = []
        self.index: dict[str, int] = {}

    def set(self, row: int, value: str | None) -> None:
        """Set or clear the value of `row`."""
        self.rows_by_id -= int(self.ids[row] == row)
        self.ids[row] = new = -1 if value is None else self.intern(value)
        self.rows_by_id += new == row

    def intern(self, value: str) -> int:
        """The id of `value`, a new one if it was never seen."""
        found = self.index.get(value)
        if found is None:
            found = self.index[value] = len(self.values)
            self.values.append(value)
        return found

    def compact(self) -> None:
        """Forget the values that no node has any more; the others get new ids."""
        used, ids = np.unique(self.ids, return_inverse=True)
        absent = int(used[0] == -1)
        self.ids = (ids - absent).astype(np.int32)
        self.values = [self.values[old] for old in used[absent:].tolist()]
        self.index = {value: new for new, value in enumerate(self.values)}
        self.rows_by_id = int(np.count_nonzero(self.ids == np.arange(len(self.ids))))


@dataclass(slots=True)
class ImageState:
    """An image and the rows that have it; its size is what the first node to report it said."""

    size: int
    rows: set[int] = field(default_factory=set)


class NodeTable:
    """All nodes in columns, with the pods on each."""

    ANY_ROW = -1
    MOST_NODE_CHANGES = 1024
    """How many changes of nodes are remembered."""
    MOST_POD_CHANGES = 65536
    SPARE = 1024
    """How many label values or taint sets of former nodes are remembered before they are dropped."""

    def __init__(self, capacity: int = 64) -> None:
        self.capacity = capacity
        self.size = 0
        self.valid_count = 0
        self.node_version = 0
        self.node_log: list[int] = []
        """The rows of the last changes of `node_version`; `ANY_ROW` if answers for other rows may change as well."""
        self.topology_version = 0
        self.exact = False
        """Whether a cached answer may depend on any field of nodes and pods, such as annotations, not only on columns
        and pod classes."""
        self.row_of: dict[str, int] = {}
        self.names: list[str] = []
        self.nodes: list[api.Node | None] = []
        self.pods: list[dict[str, PodInfo]] = []
        self.valid: Mask = np.zeros(capacity, dtype=np.bool_)
        self.unschedulable: Mask = np.zeros(capacity, dtype=np.bool_)
        self.taint_set: Ids = np.zeros(capacity, dtype=np.int32)
        self.taint_sets: list[tuple[api.Taint, ...]] = [()]
        self.resource_columns: dict[str, int] = dict(_NATIVE)
        self.allocatable: Ints = np.zeros((_FIXED, capacity), dtype=np.int64)
        self.used: Ints = np.zeros((_FIXED, capacity), dtype=np.int64)
        self.has_huge_amounts = False
        """Whether a node or a pod ever had an amount that is huge or negative, so that arithmetic may overflow."""
        self.label_columns: dict[str, LabelColumn] = {}
        self._label_keys: dict[str, int] = {}
        """How many nodes have each label."""
        self._no_label = LabelColumn(capacity)
        """The column of all labels that no node has."""
        self.declared: dict[str, Mask] = {}
        self.images: dict[str, ImageState] = {}
        self.tagged: dict[Tag, dict[int, int]] = {}
        self.pod_log: list[int] = []
        self.pod_log_start = 0
        self.stamps: Ints = np.zeros(capacity, dtype=np.int64)
        self._last_stamp = 0
        self._taint_ids: dict[tuple[api.Taint, ...], int] = {(): 0}
        self._free: list[int] = []
        self._row_images: list[tuple[str, ...]] = []

    # Nodes

    def set_node(self, node: api.Node) -> int:
        """Add a node or take its new state; returns its row."""
        resources = allocatable(node)  # refuses a malformed quantity before anything is touched
        row = self._row_for(node.name)
        old = self.nodes[row]
        if old is not None and (same_object if self.exact else same_for_scheduling)(old, node):
            self.nodes[row] = node
            return row
        if old is None or topology(old) != topology(node):
            self.topology_version += 1
            self._count_labels({} if old is None else old.metadata.labels, node.metadata.labels)
        self.nodes[row] = node
        self.touch(row)
        # How much an image counts depends on how many nodes have it, of how many there are.
        alone = old is not None and old.status.images == node.status.images
        self._node_changed(row if alone else self.ANY_ROW)
        self.valid_count += not self.valid[row]
        self.valid[row] = True
        self.unschedulable[row] = node.spec.unschedulable
        self.taint_set[row] = self._intern_taints(node.spec.taints)
        self._set_allocatable(row, resources)
        for key, column in self.label_columns.items():
            column.set(row, node.metadata.labels.get(key))
            if len(column.values) > 2 * self.size + self.SPARE:
                column.compact()
                self.topology_version += 1  # counts that are based on ids are rebuilt
        for feature, declaring in self.declared.items():
            declaring[row] = feature in node.status.declared_features
        self._set_images(row, node.status.images)
        return row

    def remove_node(self, name: str) -> None:
        """Forget a node; its row stays, invalid, while pods are on it."""
        row = self.row_of.get(name)
        old = None if row is None else self.nodes[row]
        if row is None or old is None:
            return
        self.touch(row)
        self.any_node_changed()
        self.topology_version += 1
        self._count_labels(old.metadata.labels, {})
        self.nodes[row] = None
        self.valid[row] = False
        self.valid_count -= 1
        self.unschedulable[row] = False
        self.taint_set[row] = 0
        self.allocatable[:, row] = 0
        for column in self.label_columns.values():
            column.set(row, None)
        for declaring in self.declared.values():
            declaring[row] = False
        self._set_images(row, ())
        self._release(row)

    def node(self, row: int) -> api.Node:
        """The node of a valid row."""
        node = self.nodes[row]
        if node is None:
            raise LookupError(f"row {row} has no node")
        return node

    # Columns made on demand

    def label(self, key: str) -> LabelColumn:
        """The column of a label key, built by a pass over the nodes on first use.

        It may be another one after `topology_version` has changed.
        """
        column = self.label_columns.get(key)
        if column is None:
            if key not in self._label_keys:
                return self._no_label
            column = self.label_columns[key] = LabelColumn(self.capacity)
            for row, node in enumerate(self.nodes):
                if node is not None and key in node.metadata.labels:
                    column.set(row, node.metadata.labels[key])
        return column

    def declares(self, feature: str) -> Mask:
        """Which rows' nodes declare a feature; made by one pass over the nodes, then kept up to date."""
        declaring = self.declared.get(feature)
        if declaring is None:
            declaring = self.declared[feature] = np.zeros(self.capacity, dtype=np.bool_)
            for row, node in enumerate(self.nodes):
                declaring[row] = node is not None and feature in node.status.declared_features
        return declaring

    def resource(self, name: str) -> int:
        """The column number of a resource, made on first use: for what nodes offer and what plugins name, not for what
        pods request (see `column_of`)."""
        column = self.resource_columns.get(name)
        if column is None:
            column = self.resource_columns[name] = self.allocatable.shape[0]
            blank = np.zeros((1, self.capacity), dtype=np.int64)
            self.allocatable = np.concatenate((self.allocatable, blank))
            self.used = np.concatenate((self.used, blank))
            self.used[column, : self.size] = [self.requested_on(row, name) for row in range(self.size)]
        return column

    def column_of(self, name: str) -> int:
        """The column number of a resource that a pod requests, `NOTHING` if no node offers it.

        It may be another one when there are more `resource_columns`.
        """
        return self.resource_columns.get(name, NOTHING)

    def requested_on(self, row: int, name: str) -> int:
        """What the pods of a row request of a resource that is neither cpu, memory nor ephemeral storage."""
        return sum(info.pod_class.node_requests.scalar.get(name, 0) for info in self.pods[row].values())

    # Pods

    def usage(self, pod_class: PodClass) -> Ints:
        """What one pod of this class adds to the `used` columns of its row."""
        vector = pod_class.usage
        if not isinstance(vector, np.ndarray) or len(vector) != self.used.shape[0]:
            vector = pod_class.usage = self._usage_vector(pod_class.node_requests)
        return vector

    def place(self, info: PodInfo, row: int) -> None:
        """Put a pod on a row."""
        pod_class = info.pod_class
        self.used[:, row] += self.usage(pod_class)
        self.pods[row][info.pod.metadata.uid] = info
        if pod_class.tags:
            self._tag(pod_class, row)
        self._log(row)

    def take_off(self, info: PodInfo, row: int) -> None:
        """Take a pod off a row."""
        pod_class = info.pod_class
        self.used[:, row] -= self.usage(pod_class)
        del self.pods[row][info.pod.metadata.uid]
        if pod_class.tags:
            self._untag(pod_class, row)
        self._log(row)

    def place_each(self, moves: Sequence[tuple[PodInfo, int]]) -> None:
        """Put pods on rows, all at once."""
        if not moves:
            return
        usages, rows = self._usages(moves), [row for _, row in moves]
        np.add.at(self.used.T, rows, usages)  # unlike +=, it counts every pod where several are on one row
        for info, row in moves:
            self.pods[row][info.pod.metadata.uid] = info
            if info.pod_class.tags:
                self._tag(info.pod_class, row)
        self._log_each(rows)

    def take_off_each(self, moves: Sequence[tuple[PodInfo, int]]) -> None:
        """Take pods off rows, all at once."""
        if not moves:
            return
        usages, rows = self._usages(moves), [row for _, row in moves]
        np.subtract.at(self.used.T, rows, usages)
        for info, row in moves:
            del self.pods[row][info.pod.metadata.uid]
            if info.pod_class.tags:
                self._untag(info.pod_class, row)
        self._log_each(rows)

    def restore(self, pods: Mapping[int, dict[str, PodInfo]], used: Ints, stamps: Ints) -> None:
        """Give rows back the pods, the used columns and the stamps they had before a what-if."""
        rows = list(pods)
        self.used[: len(used), rows] = used
        for row, before in pods.items():
            now = self.pods[row]
            for uid, info in now.items():
                if info.pod_class.tags and uid not in before:
                    self._untag(info.pod_class, row)
            for uid, info in before.items():
                if info.pod_class.tags and uid not in now:
                    self._tag(info.pod_class, row)
            self.pods[row] = before
        for name, column in self.resource_columns.items():
            if column >= len(used):  # it came up meanwhile
                self.used[column, rows] = [self.requested_on(row, name) for row in rows]
        self._log_each(rows)
        self.stamps[rows] = stamps

    def relabel(self, info: PodInfo, row: int) -> None:
        """A pod on a row has other labels, and takes from it what it took before."""
        uid, pods = info.pod.metadata.uid, self.pods[row]
        del pods[uid]  # as in `ClusterState.pods`, the pod that changed last is the last
        pods[uid] = info
        self.pod_changed(row)

    def pod_changed(self, row: int) -> None:
        """A pod on a row has changed in something that is not part of its class."""
        if self.exact:
            self._log(row)
        else:
            self.touch(row)

    def touch(self, row: int) -> None:
        """Give a row a new stamp."""
        self._last_stamp += 1
        self.stamps[row] = self._last_stamp

    def row_for_pod(self, node_name: str) -> int:
        """The row of a node that a pod names, made (not valid yet) if the node is not known."""
        return self._row_for(node_name)

    def release_if_empty(self, row: int) -> None:
        """Give back a row that has lost its node and now its last pod."""
        if self.nodes[row] is None:
            self._release(row)

    def changed_since(self, position: int) -> list[int] | None:
        """Rows whose pods changed since `position` in the log; None when the log does not reach back that far."""
        start = position - self.pod_log_start
        return self.pod_log[start:] if start >= 0 else None

    def nodes_changed_since(self, version: int) -> list[int] | None:
        """Rows whose nodes changed since a `node_version`; None if that is not known, or if more rows are affected."""
        count = self.node_version - version
        if count > len(self.node_log):
            return None
        rows = self.node_log[-count:] if count else []
        return None if self.ANY_ROW in rows else rows

    def any_node_changed(self) -> None:
        """Something has changed that answers for any row may depend on."""
        self._node_changed(self.ANY_ROW)

    @property
    def log_end(self) -> int:
        """The position after the newest entry of the pod log."""
        return self.pod_log_start + len(self.pod_log)

    # Internals

    def _node_changed(self, row: int) -> None:
        self.node_version += 1
        self.node_log.append(row)
        if len(self.node_log) > self.MOST_NODE_CHANGES:
            del self.node_log[: len(self.node_log) // 2]

    def _log(self, row: int) -> None:
        self.touch(row)
        self.pod_log.append(row)
        if len(self.pod_log) > self.MOST_POD_CHANGES:
            self._cut_log()

    def _log_each(self, rows: Sequence[int]) -> None:
        """The same for several rows; one that occurs twice counts once."""
        rows = list(dict.fromkeys(rows))
        self.stamps[rows] = np.arange(self._last_stamp + 1, self._last_stamp + len(rows) + 1)
        self._last_stamp += len(rows)
        self.pod_log += rows
        if len(self.pod_log) > self.MOST_POD_CHANGES:
            self._cut_log()

    def _cut_log(self) -> None:
        half = len(self.pod_log) // 2
        del self.pod_log[:half]
        self.pod_log_start += half

    def _usages(self, moves: Sequence[tuple[PodInfo, int]]) -> Ints:
        vectors = {pod_class: self.usage(pod_class) for pod_class in {info.pod_class for info, _ in moves}}
        return np.array([vectors[info.pod_class] for info, _ in moves])

    def _tag(self, pod_class: PodClass, row: int) -> None:
        for tag in pod_class.tags:
            rows = self.tagged.setdefault(tag, {})
            rows[row] = rows.get(row, 0) + 1

    def _untag(self, pod_class: PodClass, row: int) -> None:
        for tag in pod_class.tags:
            rows = self.tagged[tag]
            rows[row] -= 1
            if not rows[row]:
                del rows[row]
                if not rows:
                    del self.tagged[tag]

    def _usage_vector(self, requests: Requests) -> Ints:
        vector = np.zeros(self.used.shape[0], dtype=np.int64)
        vector[CPU] = requests.milli_cpu
        vector[MEMORY] = requests.memory
        vector[EPHEMERAL_STORAGE] = requests.ephemeral_storage
        vector[PODS] = 1
        vector[NONZERO_CPU] = requests.nonzero_cpu
        vector[NONZERO_MEMORY] = requests.nonzero_memory
        for name, amount in requests.scalar.items():
            vector[self.column_of(name)] = amount
        vector[NOTHING] = 0
        self.has_huge_amounts |= bool(vector.min() < 0 or vector.max() >= HUGE_REQUEST)
        return vector

    def _set_allocatable(self, row: int, resources: NodeResources) -> None:
        columns = {self.resource(name): amount for name, amount in resources.scalar.items()}
        cells = self.allocatable[:, row]
        cells[:] = 0
        cells[CPU] = cells[NONZERO_CPU] = resources.milli_cpu
        cells[MEMORY] = cells[NONZERO_MEMORY] = resources.memory
        cells[EPHEMERAL_STORAGE] = resources.ephemeral_storage
        cells[PODS] = resources.pods
        for column, amount in columns.items():
            cells[column] = amount
        self.has_huge_amounts |= bool(cells.min() < 0 or cells.max() >= HUGE_CAPACITY)

    def _count_labels(self, old: Mapping[str, str], new: Mapping[str, str]) -> None:
        """Follow which labels nodes have; columns of labels that none has any more are dropped."""
        counts = self._label_keys
        for key in new:
            counts[key] = counts.get(key, 0) + 1
        for key in old:
            counts[key] -= 1
            if not counts[key]:
                del counts[key]
                self.label_columns.pop(key, None)

    def _intern_taints(self, taints: tuple[api.Taint, ...]) -> int:
        found = self._taint_ids.get(taints)
        if found is None:
            if len(self.taint_sets) > 2 * self.size + self.SPARE:
                self._compact_taints()
            found = self._taint_ids[taints] = len(self.taint_sets)
            self.taint_sets.append(taints)
        return found

    def _compact_taints(self) -> None:
        """Forget the sets of taints that no node has any more; the empty one stays the first."""
        used, ids = np.unique(np.append(self.taint_set, 0), return_inverse=True)
        self.taint_set = ids[:-1].astype(np.int32)
        self.taint_sets = [self.taint_sets[old] for old in used.tolist()]
        self._taint_ids = {taints: new for new, taints in enumerate(self.taint_sets)}

    def _set_images(self, row: int, images: Iterable[api.ContainerImage]) -> None:
        for name in self._row_images[row]:
            state = self.images[name]
            state.rows.discard(row)
            if not state.rows:
                del self.images[name]
        names: list[str] = []
        for image in images:
            for name in image.names:
                self.images.setdefault(name, ImageState(image.size_bytes)).rows.add(row)
                names.append(name)
        self._row_images[row] = tuple(dict.fromkeys(names))

    def _row_for(self, name: str) -> int:
        row = self.row_of.get(name)
        if row is not None:
            return row
        if self._free:
            row = self._free.pop()
            self.names[row] = name
        else:
            row = self.size
            if row == self.capacity:
                self._grow()
            self.size += 1
            self.names.append(name)
            self.nodes.append(None)
            self.pods.append({})
            self._row_images.append(())
        self.row_of[name] = row
        return row

    def _release(self, row: int) -> None:
        if not self.pods[row]:
            del self.row_of[self.names[row]]
            self._free.append(row)

    def _grow(self) -> None:
        more = self.capacity
        self.capacity += more
        self.valid = np.concatenate((self.valid, np.zeros(more, dtype=np.bool_)))
        self.unschedulable = np.concatenate((self.unschedulable, np.zeros(more, dtype=np.bool_)))
        self.taint_set = np.concatenate((self.taint_set, np.zeros(more, dtype=np.int32)))
        self.stamps = np.concatenate((self.stamps, np.zeros(more, dtype=np.int64)))
        blank = np.zeros((self.allocatable.shape[0], more), dtype=np.int64)
        self.allocatable = np.concatenate((self.allocatable, blank), axis=1)
        self.used = np.concatenate((self.used, blank), axis=1)
        for feature, declaring in self.declared.items():
            self.declared[feature] = np.concatenate((declaring, np.zeros(more, dtype=np.bool_)))
        for column in (self._no_label, *self.label_columns.values()):
            column.ids = np.concatenate((column.ids, np.full(more, -1, dtype=np.int32)))
