"""Pods that wait for an event, indexed by the plugins that rejected them.

A cluster may hold a hundred thousand pods that fit nowhere, and events come by the thousand per second. So a pod is
indexed by each plugin that rejected it, and an event looks up only the plugins that registered for it. A gated pod is
indexed by the plugin that gates it alone, because only that plugin can let it through.

Under each plugin, pods are grouped by class: most hints return the same for all pods of a class.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass
from kubesched.queue.heap import PodHeap
from kubesched.queue.hooks import QueueMetrics
from kubesched.queue.pods import QueuedPodInfo

File = tuple[str, str]
"""Profile and plugin."""
ANY_EVENT: File = ("", "")
"""The index entry for pods that no known plugin rejected: any event may help them."""


class Group:
    """Pods of one class that wait for the same plugin."""

    __slots__ = ("pods", "sample")

    def __init__(self, sample: api.Pod) -> None:
        self.sample = sample
        """A pod of the class. It may no longer be waiting."""
        self.pods: dict[str, QueuedPodInfo] = {}


class UnschedulablePods:
    """All pods that wait for an event, gated ones included."""

    def __init__(self, metrics: QueueMetrics, *, longest: float) -> None:
        self._metrics = metrics
        self._longest = longest
        self._pods = PodHeap(_waiting_since)
        self._files: dict[File, dict[PodClass, Group]] = {}
        self._filed: dict[str, tuple[PodClass, tuple[File, ...]]] = {}
        self._gated: set[str] = set()

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._pods)

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self._pods.get(uid)

    def put(self, queued: QueuedPodInfo, event: str) -> None:
        """Add a pod, or index it again after it changed."""
        uid = queued.uid
        if uid in self._pods:
            self._unfile(uid)
        else:
            self._metrics.incoming("unschedulable", event)
        self._pods.put(queued)
        self._file(queued)
        self._metrics.pending("gated" if queued.gated else "unschedulable", 1)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Remove a pod and return it, if it is here."""
        queued = self._pods.remove(uid)
        if queued is not None:
            self._unfile(uid)
        return queued

    def listening(
        self,
        files: Iterable[File],
        could_help: Callable[[File, api.Pod, PodClass], bool],
        only: Callable[[File], Collection[str] | None] = lambda _: None,
    ) -> list[QueuedPodInfo]:
        """The pods filed under any of these, each once; but not those of a class that could not be helped, nor any but
        the `only` ones that could be."""
        found: dict[str, QueuedPodInfo] = {}
        for group in self._files.get(ANY_EVENT, {}).values():
            found.update(group.pods)
        for file in files:
            targets = only(file) if file in self._files else ()
            if targets is not None:
                found.update({uid: pod for uid in targets if (pod := self._filed_under(uid, file)) is not None})
                continue
            for pod_class, group in self._files.get(file, {}).items():
                if could_help(file, group.sample, pod_class):
                    found.update(group.pods)
        return list(found.values())

    def retried_at(self, queued: QueuedPodInfo) -> float:
        """When a pod has waited long enough to be tried without an event."""
        return _waiting_since(queued) + self._longest

    def _filed_under(self, uid: str, file: File) -> QueuedPodInfo | None:
        return self._pods.get(uid) if uid in self._filed and file in self._filed[uid][1] else None

    def overdue(self, now: float) -> list[QueuedPodInfo]:
        """Remove and return the pods that have waited longer than the limit."""
        found = []
        while (queued := self._pods.first()) is not None and now - _waiting_since(queued) > self._longest:
            self.remove(queued.uid)
            found.append(queued)
        return found

    def _file(self, queued: QueuedPodInfo) -> None:
        uid, pod_class = queued.uid, queued.info.pod_class
        files = _files_of(queued)
        self._filed[uid] = (pod_class, files)
        for file in files:
            groups = self._files.setdefault(file, {})
            group = groups.get(pod_class)
            if group is None:
                group = groups[pod_class] = Group(queued.pod)
            group.pods[uid] = queued
        if queued.gated:
            self._gated.add(uid)

    def _unfile(self, uid: str) -> None:
        pod_class, files = self._filed.pop(uid)
        for file in files:
            groups = self._files[file]
            group = groups[pod_class]
            del group.pods[uid]
            if not group.pods:
                del groups[pod_class]
        self._metrics.pending("gated" if uid in self._gated else "unschedulable", -1)
        self._gated.discard(uid)


def _waiting_since(queued: QueuedPodInfo) -> float:
    return max(queued.timestamp, queued.flush_timestamp)


def _files_of(queued: QueuedPodInfo) -> tuple[File, ...]:
    if queued.gated:
        return ((queued.profile, queued.gating_plugin),)
    return tuple((queued.profile, plugin) for plugin in sorted(queued.rejectors)) or (ANY_EVENT,)
