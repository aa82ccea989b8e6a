"""PrioritySort: pods of higher priority first, then those that have waited longer."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.framework.plugin import Plugin, Reads


class PrioritySort(Plugin):
    """QueueSort by `spec.priority`; the queue breaks ties by the time a pod entered it."""

    name = "PrioritySort"
    reads = Reads.NODE

    def sort_key(self, pod: api.Pod) -> int:
        return -pod.priority
