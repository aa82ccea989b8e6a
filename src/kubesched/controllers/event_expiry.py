"""Deletes events after an hour. Upstream leaves that to etcd."""

from __future__ import annotations

from collections import deque

from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.reconcile.access import EVENTS
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

TTL_SECONDS = 3600.0
SWEEP_SECONDS = 60.0


class EventExpiry(Controller):
    """Deletes events that are older than an hour."""

    name = "event-expiry"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        access = self._access = context.access
        now = access.clock.monotonic()
        shelf = access.store.shelf(EVENTS)
        self._added: deque[tuple[float, str]] = deque((now, key) for key in shelf.sorted_keys())
        shelf.observers.append(self._on_event)
        if self._added:
            self.enqueue("", TTL_SECONDS)

    def _on_event(self, event: StoreEvent) -> None:
        if event.change is ChangeType.ADDED:
            if not self._added:
                self.enqueue("", TTL_SECONDS)
            self._added.append((self._access.clock.monotonic(), event.record.key))

    def sync(self, key: str) -> None:
        oldest = self._access.clock.monotonic() - TTL_SECONDS
        while self._added and self._added[0][0] <= oldest:
            _, name = self._added.popleft()
            if self._access.store.get(EVENTS, name) is not None:
                self._access.store.delete(EVENTS, name)
        if self._added:  # without events nothing is due: months of a simulated cluster have many minutes
            self.enqueue("", max(SWEEP_SECONDS, self._added[0][0] - oldest))
