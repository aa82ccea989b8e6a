"""What happens in a run, and when. Changes are recorded as they are stored, so none is missed and nothing polls."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.engine.decision import Decision
from kubesched.engine.outcome import Outcome
from kubesched.reconcile.access import NODES, PODS
from kubesched.simulator.long_list import LongList
from kubesched.simulator.usage import ClusterUsage

PHASES = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


class TimelineEntry(NamedTuple):
    """One line of the timeline."""

    time: float
    what: str
    """One word: created, bound, pending, running, succeeded, failed, deleted, expected, FAILED, note or scheduler."""
    kind: str
    name: str
    text: str = ""
    cpu: int = 0
    """What a pod that is bound requests: thousandths of cores."""
    memory: int = 0
    """The same in bytes."""


class Timeline:
    """Records changes to nodes and pods, and the scheduler's decisions."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._started = 0.0
        self.entries = LongList(TimelineEntry)
        self.attempts: Counter[str] = Counter()
        """Scheduling attempts by the pod's key, of pods that exist."""
        self.all_attempts = 0
        self.created = 0
        """Pods that were created."""
        self.created_at: dict[str, float] = {}
        self.bound_at: dict[str, float] = {}
        self.bound = 0
        self.evictions = 0
        """Pods that were preempted."""
        self.changes = 0
        self.usage: ClusterUsage
        self._digest = hashlib.sha256()

    def follow(self, server: ApiServer) -> None:
        """Record every change from now on."""
        self._started = self._now()
        store = server.store
        self.usage = ClusterUsage(lambda: self._now() - self._started, store)
        for storage in sorted({resource.storage for resource in server.registry if resource.is_stored}):
            store.shelf(storage).observers.append(self._count)
        store.shelf(NODES).observers.append(self._on_node)
        store.shelf(PODS).observers.append(self._on_pod)

    @property
    def seconds(self) -> float:
        """Virtual seconds since the start."""
        return self._now() - self._started

    @property
    def digest(self) -> str:
        """A hash over every version of every object, in order. Two runs with the same digest were identical."""
        return self._digest.hexdigest()

    def note(self, what: str, text: str, kind: str = "", name: str = "") -> None:
        """Add a line that is not a change in the cluster."""
        self.entries.append(TimelineEntry(round(self.seconds, 3), what, kind, name, text))

    def on_decision(self, decision: Decision) -> None:
        """Count an attempt. If it failed, record why."""
        pod = decision.pod
        self.attempts[pod.key] += 1
        self.all_attempts += 1
        room = decision.post_filter
        if room is not None and room.nominated_node_name and not decision.node:
            self.evictions += len(room.victims)
        if decision.outcome is not Outcome.SCHEDULED:
            # Plugin authors want to know which plugin it was. The message is for the pod's owner and may not name it.
            where = f" ({decision.where})" if decision.where not in decision.message else ""
            self.note("pending", decision.message + where, "Pod", pod.key)

    def _count(self, event: StoreEvent) -> None:
        self.changes += 1
        self._digest.update(event.change.line)
        self._digest.update(event.record.data)

    def _on_node(self, event: StoreEvent) -> None:
        if event.change is not ChangeType.MODIFIED:
            what = "created" if event.change is ChangeType.ADDED else "deleted"
            self.entries.append(TimelineEntry(round(self.seconds, 3), what, "Node", event.record.key))

    def _on_pod(self, event: StoreEvent) -> None:
        record, previous, now = event.record, event.previous, self._now() - self._started
        time = round(now, 3)
        if event.change is ChangeType.DELETED:
            for known in (self.attempts, self.created_at, self.bound_at):
                known.pop(record.key, None)
            self.entries.append(TimelineEntry(time, "deleted", "Pod", record.key))
            return
        if previous is None:
            self.created += 1
            self.created_at[record.key] = now
            self.entries.append(TimelineEntry(time, "created", "Pod", record.key))
        before = {} if previous is None else previous.fields
        node = record.fields.get("spec.nodeName", "")
        if node and not before.get("spec.nodeName"):
            self.bound += 1
            self.bound_at[record.key] = now
            requests = self.usage.requests_of(record.key)
            self.entries.append(TimelineEntry(time, "bound", "Pod", record.key, node, *requests))
        phase = record.fields.get("status.phase", "")
        if phase in PHASES and phase != before.get("status.phase"):
            self.entries.append(TimelineEntry(time, PHASES[phase], "Pod", record.key, node))
