"""A heap of queued pods that supports removing and reordering any pod."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

from kubesched.queue.pods import QueuedPodInfo

Entry = tuple[Any, int, QueuedPodInfo]
"""Key, number of arrival, pod. Keys are whatever the heap was given; the number keeps pods from being compared."""


class PodHeap:
    """Pods by UID, smallest key first; of pods with equal keys the one added first.

    Removing a pod from the middle leaves its entry in the heap; it is skipped when it reaches the top. That makes
    removal cheap and works with the standard library's heap.
    """

    SPARE = 64
    """Up to so many dead entries are not cleaned up."""
    COUNTED = 20_000
    """Pods that `turn` may look at."""

    def __init__(self, key: Callable[[QueuedPodInfo], Any]) -> None:
        self._key = key
        self._heap: list[Entry] = []
        self.live: dict[str, Entry] = {}
        """The entries by UID, to look into."""
        self._numbers = count()

    def __len__(self) -> int:
        return len(self.live)

    def __contains__(self, uid: str) -> bool:
        return uid in self.live

    def __iter__(self) -> Iterator[QueuedPodInfo]:
        """The pods, in no particular order."""
        return (entry[2] for entry in self.live.values())

    def get(self, uid: str) -> QueuedPodInfo | None:
        entry = self.live.get(uid)
        return None if entry is None else entry[2]

    def first_few(self, most: int) -> Iterator[QueuedPodInfo]:
        """The first pods in order, for people who look. Follows the heap's branches; the heap stays as it is."""
        ahead = [(self._heap[0][:2], 0)] if self._heap else []
        while ahead and most > 0:
            _, at = heapq.heappop(ahead)
            entry = self._heap[at]
            for child in (2 * at + 1, 2 * at + 2):
                if child < len(self._heap):
                    heapq.heappush(ahead, (self._heap[child][:2], child))
            if self.live.get(entry[2].uid) is entry:
                most -= 1
                yield entry[2]

    def turn(self, uid: str) -> int | None:
        """How many pods come before this one; None if it is not here, or if there are too many to count them."""
        entry = self.live.get(uid)
        if entry is None or len(self.live) > self.COUNTED:
            return None
        return sum(other[:2] < entry[:2] for other in self.live.values())

    def put(self, queued: QueuedPodInfo) -> None:
        """Add a pod, or reorder it. A pod whose key has not changed keeps its position."""
        key, uid = self._key(queued), queued.info.pod.metadata.uid
        known = self.live.get(uid)
        if known is not None and known[0] == key:
            return
        entry = self.live[uid] = (key, next(self._numbers), queued)
        heapq.heappush(self._heap, entry)
        self._clean()

    def remove(self, uid: str) -> QueuedPodInfo | None:
        """Remove a pod and return it, if it is here."""
        entry = self.live.pop(uid, None)
        if entry is None:
            return None
        self._clean()
        return entry[2]

    def first(self) -> QueuedPodInfo | None:
        """The pod that would be popped."""
        heap, live = self._heap, self.live
        while heap:
            queued = heap[0][2]
            if live.get(queued.uid) is heap[0]:
                return queued
            heapq.heappop(heap)
        return None

    def pop(self) -> QueuedPodInfo | None:
        """Remove and return the first pod."""
        heap, live = self._heap, self.live
        while heap:
            entry = heapq.heappop(heap)
            queued = entry[2]
            uid = queued.info.pod.metadata.uid
            if live.get(uid) is entry:
                del live[uid]
                return queued
        return None

    def _clean(self) -> None:
        if len(self._heap) > 2 * len(self.live) + self.SPARE:
            self._heap = list(self.live.values())
            heapq.heapify(self._heap)
