"""Pods that wait for something to happen, filed under whose word they wait for.

A cluster may hold a hundred thousand pods that fit nowhere, and events come by the thousand per second. So a pod is
filed under each plugin that rejected it, and an event looks only into the files of plugins that registered for it. A
gated pod is filed under the plugin that gates it and nowhere else: nobody else's word would let it through.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from kubesched.queue.heap import PodHeap
from kubesched.queue.hooks import QueueMetrics
from kubesched.queue.pods import QueuedPodInfo

File = tuple[str, str]
"""Profile and plugin."""
ANY_EVENT: File = ("", "")
"""Where a pod goes that no plugin is known to have rejected: whatever happens may help it."""


class UnschedulablePods:
    """All pods that wait for an event, gated ones included."""

    def __init__(self, metrics: QueueMetrics, *, longest: float) -> None:
        self._metrics = metrics
        self._longest = longest
        self._pods = PodHeap(_waiting_since)
        self._files: dict[File, dict[str, QueuedPodInfo]] = {}
        self._filed: dict[str, tuple[File, ...]] = {}
        self._gated: set[str] = set()

    def __len__(self) -> int:
        return len(self._pods)

    def __contains__(self, uid: str) -> bool:
        return uid in self._pods

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        return iter(self._pods)

    @property
    def gated_count(self) -> int:
        return len(self._gated)

    def get(self, uid: str) -> QueuedPodInfo | None:
        return self._pods.get(uid)

    def put(self, queued: QueuedPodInfo, event: str) -> None:
        """Add a pod, or file it anew after a change to it."""
        uid = queued.uid
        if uid in self._pods:
            self._unfile(uid)
        else:
            self._metrics.incoming("unschedulable", event)
        self._pods.put(queued)
        files = self._filed[uid] = _files_of(queued)
        for file in files:
            self._files.setdefault(file, {})[uid] = queued
        if queued.gated:
            self._gated.add(uid)
        self._metrics.pending("gated" if queued.gated else "unschedulable", 1)

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Take out a pod, if it is here."""
        queued = self._pods.remove(uid)
        if queued is not None:
            self._unfile(uid)
        return queued

    def listening(self, files: Iterable[File]) -> list[QueuedPodInfo]:
        """The pods filed under any of these, each once."""
        found = dict(self._files.get(ANY_EVENT, ()))
        for file in files:
            found.update(self._files.get(file, ()))
        return list(found.values())

    def overdue(self, now: float) -> list[QueuedPodInfo]:
        """Take out the pods that have waited longer than any pod should without being tried."""
        found = []
        while (queued := self._pods.first()) is not None and now - _waiting_since(queued) > self._longest:
            self.remove(queued.uid)
            found.append(queued)
        return found

    def _unfile(self, uid: str) -> None:
        for file in self._filed.pop(uid):
            pods = self._files[file]
            del pods[uid]
            if not pods:
                del self._files[file]
        self._metrics.pending("gated" if uid in self._gated else "unschedulable", -1)
        self._gated.discard(uid)


def _waiting_since(queued: QueuedPodInfo) -> float:
    return max(queued.timestamp, queued.flush_timestamp)


def _files_of(queued: QueuedPodInfo) -> tuple[File, ...]:
    if queued.gated:
        return ((queued.profile, queued.gating_plugin),)
    return tuple((queued.profile, plugin) for plugin in sorted(queued.rejectors)) or (ANY_EVENT,)
