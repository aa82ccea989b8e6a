"""The cluster as the page shows it: nodes in columns, pods by where they wait, and what has happened.

It belongs to the event loop and is cheap to keep up to date. Explanations need more, and have a cluster of their own in
a thread (`questions.py`), which takes over the changes that are collected here.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import PODS, NodeTable
from kubesched.explain.amounts import requested
from kubesched.web.columns import packed, shares
from kubesched.web.moments import Moment, Moments, What, seconds_of
from kubesched.web.placements import PlacementLog
from kubesched.web.rates import Rates

VALID, CORDONED, NOT_READY, TAINTED = 1, 2, 4, 8
NOT_READY_TAINTS = frozenset({"node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"})
Key = tuple[type[api.Object], str]


@dataclass(frozen=True, slots=True)
class NodeFrame:
    """What the page has of the nodes at one time."""

    resources: tuple[str, ...]
    shares: npt.NDArray[np.uint16]
    """A row per resource, a column per node."""
    flags: npt.NDArray[np.uint8]
    structure: tuple[object, ...]
    """Changes when the page must read everything anew: names, labels, taints, resources."""


@dataclass(slots=True)
class ClusterModel:
    """Takes objects as they come, change and go."""

    clock: Callable[[], float] = time.time
    state: ClusterState = field(default_factory=ClusterState)
    pods: dict[str, api.Pod] = field(default_factory=dict)
    """All pods that have not ended, by namespace/name."""
    unbound: dict[str, api.Pod] = field(default_factory=dict)
    """Those without a node."""
    moments: Moments = field(default_factory=Moments)
    placements: PlacementLog = field(default_factory=PlacementLog)
    rates: Rates = field(default_factory=Rates)
    changes: dict[Key, tuple[api.Object, bool]] = field(default_factory=dict)
    """Objects that have changed since they were last taken over, and whether they are still there."""
    taken: set[Key] = field(default_factory=set)
    """What was there when changes were last taken over."""
    version: int = 0

    # --- changes ------------------------------------------------------------------------------------------------------

    def set(self, obj: api.Object, *, initial: bool = False) -> None:
        """An object is there, or has changed. With `initial`, it has been there before."""
        self.version += 1
        if isinstance(obj, api.Pod):
            self._set_pod(obj, initial)
        elif isinstance(obj, api.Node) and obj.name not in self.state.nodes.row_of and not initial:
            self.moments.add(Moment(self.clock(), What.NODE_ADDED, "", obj.name))
        self.state.set(obj)
        self.changes[_key(obj)] = (obj, True)

    def load(self, obj: api.Object) -> None:
        """Take an object over without a word in the timeline, which comes from elsewhere."""
        self.version += 1
        if isinstance(obj, api.Pod) and not obj.is_terminal:
            (self.pods if obj.node_name else self.unbound)[obj.key] = self.pods[obj.key] = obj
        self.state.set(obj)
        self.changes[_key(obj)] = (obj, True)

    def remove(self, obj: api.Object) -> None:
        """An object has gone."""
        self.version += 1
        if isinstance(obj, api.Pod):
            self._pod_gone(obj, What.DELETED)
        elif isinstance(obj, api.Node):
            self.moments.add(Moment(self.clock(), What.NODE_REMOVED, "", obj.name))
        self.state.remove(obj)
        key = _key(obj)
        if key in self.taken:
            self.changes[key] = (obj, False)
        else:
            # It came and went between two questions. Without any, such objects would be kept for ever.
            self.changes.pop(key, None)

    def take_changes(self) -> Mapping[Key, tuple[api.Object, bool]]:
        """The changes since this was last called."""
        changes, self.changes = self.changes, {}
        for key, (_, there) in changes.items():
            if there:
                self.taken.add(key)
            else:
                self.taken.discard(key)
        return changes

    def _set_pod(self, pod: api.Pod, initial: bool) -> None:
        known = self.pods.get(pod.key)
        if pod.is_terminal:
            self._pod_gone(pod, What.ENDED)
            return
        created = seconds_of(pod.metadata.creation_timestamp)
        now = self.clock()
        if known is None or known.uid != pod.uid:
            self.moments.add(Moment(created or now, What.CREATED, pod.key))
        self.pods[pod.key] = pod
        if pod.node_name:
            self.unbound.pop(pod.key, None)
        else:
            self.unbound[pod.key] = pod
        if pod.node_name and (known is None or not known.node_name):
            moment = bound_time(pod) if initial or known is None else now
            self.moments.add(Moment(moment or created or now, What.BOUND, pod.key, pod.node_name))
            row = self.state.nodes.row_for_pod(pod.node_name)
            requests = requested(self.state.classes.info(pod).pod_class.node_requests)
            self.placements.placed(pod.uid, row, requests, moment or created or now)
            if not initial:
                self.rates.bound(now, max(0.0, now - created) if created else None)

    def _pod_gone(self, pod: api.Pod, what: What) -> None:
        known = self.pods.pop(pod.key, None)
        self.unbound.pop(pod.key, None)
        self.placements.ended(pod.uid, self.clock())
        if known is not None:
            self.moments.add(Moment(self.clock(), what, pod.key, pod.node_name))

    # --- what the page gets -------------------------------------------------------------------------------------------

    def frame(self) -> NodeFrame:
        """The nodes as they are now."""
        table = self.state.nodes
        size = table.size
        names = tuple(
            name for name, column in table.resource_columns.items() if column < 4 or table.allocatable[column].any()
        )
        columns = [table.resource_columns[name] for name in names]
        offered = int(table.allocatable[columns, :size].sum())
        structure = (size, table.valid_count, table.topology_version, offered, names)
        return NodeFrame(
            names,
            shares(table.used[columns, :size], table.allocatable[columns, :size]),
            _flags(table),
            structure,
        )

    def snapshot(self, frame: NodeFrame) -> dict[str, Any]:
        """Everything about all nodes, in columns."""
        table = self.state.nodes
        size = table.size
        columns = [table.resource_columns[name] for name in frame.resources]
        return {
            "size": size,
            "names": table.names[:size],
            "resources": frame.resources,
            "shares": packed(frame.shares, "u2"),
            "allocatable": packed(table.allocatable[columns, :size], "f8"),
            "pods": packed(np.clip(table.used[PODS, :size], 0, 65535), "u2"),
            "flags": packed(frame.flags, "u1"),
            "taints": packed(table.taint_set[:size], "u2"),
            "taintSets": [", ".join(map(taint_text, each)) for each in table.taint_sets],
        }

    def labels(self) -> dict[str, int]:
        """The label keys of nodes, with the number of different values."""
        values: dict[str, set[str]] = {}
        for node in self.state.nodes.nodes:
            for key, value in node.labels.items() if node is not None else ():
                values.setdefault(key, set()).add(value)
        return {key: len(found) for key, found in sorted(values.items())}

    def label(self, key: str) -> dict[str, Any]:
        """One label of all nodes: a number per node, 0 where it is absent."""
        size = self.state.nodes.size
        column = self.state.nodes.label(key)
        return {"values": ["", *column.values], "ids": packed(column.ids[:size] + 1, "u4")}


def delta(before: NodeFrame, after: NodeFrame) -> dict[str, Any] | None:
    """The nodes that differ, in columns; None if none does. The structure must be the same."""
    changed = (before.shares != after.shares).any(axis=0) | (before.flags != after.flags)
    rows = np.flatnonzero(changed)
    if not len(rows):
        return None
    return {
        "rows": packed(rows, "u2" if len(changed) <= 65536 else "u4"),
        "shares": packed(after.shares[:, rows], "u2"),
        "flags": packed(after.flags[rows], "u1"),
    }


def bound_time(pod: api.Pod) -> float:
    """When a pod got its node, as its status says; 0 if it does not."""
    scheduled = (each for each in pod.status.conditions if each.type == "PodScheduled" and each.status == "True")
    return seconds_of(next((each.last_transition_time for each in scheduled), None))


def taint_text(taint: api.Taint) -> str:
    """A taint as kubectl writes it."""
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"


def _flags(table: NodeTable) -> npt.NDArray[np.uint8]:
    size = table.size
    by_set = np.array([_taint_flags(each) for each in table.taint_sets], dtype=np.uint8)
    flags = table.valid[:size].astype(np.uint8) * VALID
    flags |= table.unschedulable[:size].astype(np.uint8) * CORDONED
    return flags | by_set[table.taint_set[:size]]


def _taint_flags(taints: tuple[api.Taint, ...]) -> int:
    found = NOT_READY if any(each.key in NOT_READY_TAINTS for each in taints) else 0
    return found | (TAINTED if any(each.effect in ("NoSchedule", "NoExecute") for each in taints) else 0)


def _key(obj: api.Object) -> Key:
    return type(obj), obj.uid if isinstance(obj, api.Pod) else obj.key
