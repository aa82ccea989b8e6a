"""What plugins share within one scheduling cycle."""

from __future__ import annotations

from collections.abc import Collection, Hashable, Iterable
from typing import Any, TypeVar

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.framework.record import CycleRecord

T = TypeVar("T")

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"
"""The key of the CycleState under which plugins find a `PodsToActivate`."""


class PodsToActivate(dict[str, api.Pod]):
    """Pods to retry at once when this cycle succeeds, by key. Plugins add to it."""

    def add(self, pods: Iterable[api.Pod]) -> None:
        """Retry these pods."""
        self.update((pod.key, pod) for pod in pods)


POD_GROUP_CYCLE = "kubernetes.io/pod-group-cycle"
"""The key of the CycleState under which plugins find a `GroupCycleState`, for a pod that is tried with its group."""


class GroupCycleState:
    """What plugins share within the scheduling cycle of a pod group."""

    def __init__(self) -> None:
        self.placed: set[str] = set()
        """The UIDs of pods that are on nodes only for trial."""
        self.pending_claims: set[str] = set()
        """The UIDs of claims to which this cycle has allocated devices; its pods may share them."""


class CycleState:
    """What plugins pass from one extension point to the next, for one pod and one cycle."""

    __slots__ = ("_data", "pod_class", "record", "skip_filter", "skip_score")

    def __init__(self, pod_class: PodClass, record: CycleRecord | None = None) -> None:
        self.pod_class = pod_class
        self.record = CycleRecord() if record is None else record
        """What has run in this cycle."""
        self.skip_filter: set[str] = set()
        self.skip_score: set[str] = set()
        """Plugins that found at PreFilter that they have nothing to score."""
        self._data: dict[Hashable, Any] = {}

    def write(self, key: Hashable, value: object) -> None:
        """Store a value under a key."""
        self._data[key] = value

    def read(self, key: Hashable, kind: type[T]) -> T:
        """The value of a key; a KeyError that names it if there is none."""
        try:
            found: T = self._data[key]
        except KeyError:
            message = f"nothing is kept under {key!r} in this cycle: did the plugin's earlier point run?"
            raise KeyError(message) from None
        return found

    def __contains__(self, key: Hashable) -> bool:
        return key in self._data

    def delete(self, key: Hashable) -> None:
        """Remove a key."""
        self._data.pop(key, None)

    def keys(self) -> Collection[Hashable]:
        """All keys."""
        return self._data.keys()

    def adopt(self, other: CycleState) -> None:
        """Take over the values of another state, written for an earlier pod of the same class."""
        if other._data:
            self._data |= other._data

    def clone(self) -> CycleState:
        """A copy for a what-if: values that have a `clone` method are cloned, the others are shared."""
        copy = CycleState(self.pod_class, self.record)
        copy.skip_filter = self.skip_filter
        copy.skip_score = self.skip_score
        # Not isinstance: that of a protocol takes ten times as long, and preemption clones once per node.
        copy._data = {k: v.clone() if hasattr(v, "clone") else v for k, v in self._data.items()}
        return copy
