"""Changes that may help a pod, and trying them out: they are made in the cluster's state, and afterwards undone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState

PodEdit = Callable[[api.Pod], api.Pod]
NodeEdit = Callable[[api.Node], api.Node]


@dataclass(frozen=True, slots=True)
class Change:
    """One change that a user could make. `cost` says how much it asks: 1 is a small thing, 10 a large one."""

    kind: str
    words: str
    cost: float
    edit: PodEdit | None = None
    """What changes in the pod itself."""
    node: str = ""
    node_edit: NodeEdit | None = None
    objects: tuple[api.Object, ...] = ()
    """Objects that are created or replaced."""
    removed: tuple[api.Pod, ...] = ()
    """Pods that have to go."""
    commands: tuple[str, ...] = ()
    """The same for a shell, where kubectl can do it."""


@contextmanager
def applied(cluster: ClusterState, changes: Sequence[Change], pod: api.Pod) -> Iterator[api.Pod]:
    """Suppose that the changes were made; gives the changed pod."""
    undo: list[Callable[[], None]] = []
    try:
        for change in changes:
            if change.edit is not None:
                pod = change.edit(pod)
            if change.node_edit is not None:
                node = cluster.get(api.Node, change.node)
                if node is not None:
                    _set(cluster, change.node_edit(node), undo)
            for each in change.objects:
                _set(cluster, each, undo)
            for victim in change.removed:
                _remove(cluster, victim, undo)
        yield pod
    finally:
        for each_undo in reversed(undo):
            each_undo()


def _set(cluster: ClusterState, obj: api.Object, undo: list[Callable[[], None]]) -> None:
    before = None if isinstance(obj, api.Pod) else cluster.get(type(obj), obj.key)
    cluster.set(obj)
    undo.append(lambda: cluster.remove(obj) if before is None else cluster.set(before))


def _remove(cluster: ClusterState, pod: api.Pod, undo: list[Callable[[], None]]) -> None:
    if pod.uid in cluster.pods:
        cluster.remove(pod)
        undo.append(lambda: cluster.set(pod))
