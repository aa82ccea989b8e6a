"""Deletes pods that have ended if there are very many of them, as upstream's pod garbage collector does."""

from __future__ import annotations

from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.reconcile.access import PODS
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller

CHECK_SECONDS = 20.0
ENDED = ("Succeeded", "Failed")


class EndedPodCollector(Controller):
    """Keeps the newest `kept` of the pods that have ended. Evicted ones go first."""

    name = "ended-pod-collector"

    def __init__(self, context: ControllerContext, kept: int) -> None:
        super().__init__(context.loop)
        self._context, self._kept = context, kept
        shelf = context.access.store.shelf(PODS)
        self._ended = {key for key, record in shelf.records.items() if record.fields.get("status.phase") in ENDED}
        shelf.observers.append(self._on_event)
        self._check_again()

    def _on_event(self, event: StoreEvent) -> None:
        if event.change is ChangeType.DELETED:
            self._ended.discard(event.record.key)
        elif event.record.fields.get("status.phase") in ENDED:
            before = len(self._ended)
            self._ended.add(event.record.key)
            if before <= self._kept:  # else a check is due already
                self._check_again()

    def _check_again(self) -> None:
        if len(self._ended) > self._kept:
            self.enqueue("", CHECK_SECONDS)

    def sync(self, key: str) -> None:
        pods = [pod for each in self._ended if (pod := self._context.pods.get(each)) is not None]
        pods.sort(key=lambda pod: (pod.status.reason != "Evicted", pod.metadata.creation_timestamp, pod.key))
        for pod in pods[: max(0, len(pods) - self._kept)]:
            self._context.access.delete(PODS, pod.key, uid=pod.metadata.uid, grace=0)
        self._check_again()  # finalizers may hold some
