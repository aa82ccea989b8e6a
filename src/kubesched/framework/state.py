"""What plugins share within one scheduling cycle."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Protocol, TypeVar, cast, runtime_checkable

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass

T = TypeVar("T")

PODS_TO_ACTIVATE = "kubernetes.io/pods-to-activate"
"""The key of the CycleState under which plugins find a `PodsToActivate`."""


class PodsToActivate(dict[str, api.Pod]):
    """Pods to retry at once when this cycle succeeds, by key. Plugins add to it."""

    def add(self, pods: Iterable[api.Pod]) -> None:
        """Retry these pods."""
        self.update((pod.key, pod) for pod in pods)


@runtime_checkable
class Clonable(Protocol):
    """State that differs between a what-if and the cycle it was asked in."""

    def clone(self) -> Clonable:
        """A copy that may change without the original noticing."""
        ...


class CycleState:
    """A plugin's notes from one extension point to the next, for one pod and one cycle."""

    __slots__ = ("_data", "pod_class", "skip_filter")

    def __init__(self, pod_class: PodClass) -> None:
        self.pod_class = pod_class
        self.skip_filter: set[str] = set()
        self._data: dict[Hashable, object] = {}

    def write(self, key: Hashable, value: object) -> None:
        """Keep a value under a key."""
        self._data[key] = value

    def read(self, key: Hashable, kind: type[T]) -> T:
        """What was kept under a key; a KeyError that names it if nothing was."""
        try:
            return cast(T, self._data[key])
        except KeyError:
            message = f"nothing is kept under {key!r} in this cycle: did the plugin's earlier point run?"
            raise KeyError(message) from None

    def __contains__(self, key: Hashable) -> bool:
        return key in self._data

    def delete(self, key: Hashable) -> None:
        """Forget what was kept under a key."""
        self._data.pop(key, None)

    def adopt(self, other: CycleState) -> None:
        """Take over what was kept in another state: notes made for an earlier pod of the same class."""
        if other._data:
            self._data |= other._data

    def clone(self) -> CycleState:
        """A copy for a what-if: values that can be cloned are, the others are shared."""
        copy = CycleState(self.pod_class)
        copy.skip_filter = self.skip_filter
        copy._data = {k: v.clone() if isinstance(v, Clonable) else v for k, v in self._data.items()}
        return copy
