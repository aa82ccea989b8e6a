"""Pods that wait for an event, indexed by the plugins that rejected them.

A cluster may hold a hundred thousand pods that fit nowhere, and events come by the thousand per second. So a pod is
indexed by each plugin that rejected it, and an event looks up only the plugins that registered for it. A gated pod is
indexed by the plugin that gates it alone, because only that plugin can let it through.

Under each plugin, pods are grouped by spec and then by class: most hints return the same for all pods of a class, and
many for all pods with one spec.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from typing import Protocol

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClass, SharedSpec
from kubesched.queue.heap import PodHeap
from kubesched.queue.hooks import QueueMetrics
from kubesched.queue.pods import QueuedPodInfo

File = tuple[str, str, bool]
"""Profile, plugin, and whether the plugin holds pods back at PreEnqueue."""
ANY_EVENT: File = ("", "", False)
"""The index entry for pods that no known plugin rejected: any event may help them."""


class Group:
    """Pods of one class that wait for the same plugin."""

    __slots__ = ("pods", "sample")

    def __init__(self, sample: api.Pod) -> None:
        self.sample = sample
        """A pod of the class. It may no longer be waiting."""
        self.pods: dict[str, QueuedPodInfo] = {}


class Evaluation(Protocol):
    """What an event means for waiting pods, according to one plugin."""

    def could_help_spec(self, file: File, sample: api.Pod, pod_class: PodClass) -> bool:
        """Whether it may help pods with a spec."""
        ...

    def could_help(self, file: File, sample: api.Pod, pod_class: PodClass) -> bool:
        """Whether it may help pods of a class."""
        ...

    def only(self, file: File) -> Collection[str] | None:
        """The only pods that it can help; None if it can help any."""
        ...


Groups = dict[SharedSpec, dict[PodClass, Group]]


class UnschedulablePods:
    """All pods that wait for an event, gated ones included."""

    def __init__(self, metrics: QueueMetrics, *, longest: float) -> None:
        self._metrics = metrics
        self._longest = longest
        self.heap = self._pods = PodHeap(_waiting_since)
        self._files: dict[File, Groups] = {}
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

    def listening(self, files: Iterable[File], event: Evaluation) -> list[QueuedPodInfo]:
        """The pods filed under any of these that an event could help, each once."""
        found: dict[str, QueuedPodInfo] = {}
        for classes in self._files.get(ANY_EVENT, {}).values():
            for group in classes.values():
                found.update(group.pods)
        for file in files:
            targets = event.only(file) if file in self._files else ()
            if targets is not None:
                found.update({uid: pod for uid in targets if (pod := self._filed_under(uid, file)) is not None})
                continue
            for classes in self._files.get(file, {}).values():
                pod_class, group = next(iter(classes.items()))
                if event.could_help_spec(file, group.sample, pod_class):
                    for pod_class, group in classes.items():
                        if event.could_help(file, group.sample, pod_class):
                            found.update(group.pods)
        return list(found.values())

    @property
    def gated_count(self) -> int:
        """How many of the pods are held back by PreEnqueue."""
        return len(self._gated)

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
            classes = self._files.setdefault(file, {}).setdefault(pod_class.shared_spec, {})
            group = classes.get(pod_class)
            if group is None:
                group = classes[pod_class] = Group(queued.pod)
            group.pods[uid] = queued
        if queued.gated:
            self._gated.add(uid)

    def _unfile(self, uid: str) -> None:
        pod_class, files = self._filed.pop(uid)
        for file in files:
            specs = self._files[file]
            classes = specs[pod_class.shared_spec]
            group = classes[pod_class]
            del group.pods[uid]
            if not group.pods:
                del classes[pod_class]
            if not classes:
                del specs[pod_class.shared_spec]
        self._metrics.pending("gated" if uid in self._gated else "unschedulable", -1)
        self._gated.discard(uid)


def _waiting_since(queued: QueuedPodInfo) -> float:
    return max(queued.timestamp, queued.flush_timestamp)


def _files_of(queued: QueuedPodInfo) -> tuple[File, ...]:
    if queued.gated:
        return ((queued.profile, queued.gating_plugin, True),)
    return tuple((queued.profile, plugin, False) for plugin in sorted(queued.rejectors)) or (ANY_EVENT,)
