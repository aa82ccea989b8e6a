"""What happened and when, noted at the moment it is stored, so that nothing is missed and nothing is polled for."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable
from typing import NamedTuple

from kubesched.apiserver.apiserver import ApiServer
from kubesched.apiserver.storage.store import Change, Event
from kubesched.engine.decision import Decision, Outcome
from kubesched.reconcile.access import NODES, PODS
from kubesched.simulator.usage import Usage

PHASES = {"Running": "running", "Succeeded": "succeeded", "Failed": "failed"}


class Entry(NamedTuple):
    """One thing that happened."""

    time: float
    what: str
    """In a word: created, bound, pending, running, succeeded, failed, deleted, expected, failed expectation, note."""
    kind: str
    name: str
    text: str = ""


class Timeline:
    """Follows a cluster's nodes and pods, and what its scheduler decides."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self._started = 0.0
        self.entries: list[Entry] = []
        self.attempts: Counter[str] = Counter()
        """Scheduling attempts by the pod's key."""
        self.created_at: dict[str, float] = {}
        self.bound_at: dict[str, float] = {}
        self.bound = 0
        self.changes = 0
        self.usage: Usage
        self._digest = hashlib.sha256()

    def follow(self, server: ApiServer) -> None:
        """Note every change from now on."""
        self._started = self._now()
        store = server.store
        self.usage = Usage(lambda: self.seconds, store)
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
        """A fingerprint of every version of every object, in order: two runs with the same one were the same run."""
        return self._digest.hexdigest()

    def note(self, what: str, text: str, kind: str = "", name: str = "") -> None:
        """Add something that is no change in the cluster."""
        self.entries.append(Entry(self.seconds, what, kind, name, text))

    def on_decision(self, decision: Decision) -> None:
        """Note an attempt, and of one that failed also why."""
        pod = decision.pod
        self.attempts[pod.key] += 1
        if decision.outcome is not Outcome.SCHEDULED:
            # A plugin's author wants to know where; the message, which is for the pod's owner, may not say.
            where = f" ({decision.where})" if decision.where not in decision.message else ""
            self.note("pending", decision.message + where, "Pod", pod.key)

    def _count(self, event: Event) -> None:
        self.changes += 1
        self._digest.update(event.change.value)
        self._digest.update(event.record.data)

    def _on_node(self, event: Event) -> None:
        if event.change is not Change.MODIFIED:
            what = "created" if event.change is Change.ADDED else "deleted"
            self.entries.append(Entry(self.seconds, what, "Node", event.record.key))

    def _on_pod(self, event: Event) -> None:
        record, previous, now = event.record, event.previous, self.seconds
        if event.change is Change.DELETED:
            self.entries.append(Entry(now, "deleted", "Pod", record.key))
            return
        if previous is None:
            self.created_at[record.key] = now
            self.bound_at.pop(record.key, None)
            self.entries.append(Entry(now, "created", "Pod", record.key))
        before = {} if previous is None else previous.fields
        node = record.fields.get("spec.nodeName", "")
        if node and not before.get("spec.nodeName"):
            self.bound += 1
            self.bound_at[record.key] = now
            self.entries.append(Entry(now, "bound", "Pod", record.key, node))
        phase = record.fields.get("status.phase", "")
        if phase in PHASES and phase != before.get("status.phase"):
            self.entries.append(Entry(now, PHASES[phase], "Pod", record.key, node))
