"""Protects pod groups from deletion while pods that have not ended name them."""

from __future__ import annotations

from kubesched.apiserver.admission.pod_groups import FINALIZER
from kubesched.base.types import JSON
from kubesched.reconcile.access import POD_GROUPS
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod, View


class PodGroupProtectionController(Controller):
    """Removes the finalizer of deleted groups whose pods have ended or are gone."""

    name = "podgroup-protection-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._pods = context.pods
        self._groups = Cache(self._access.store.shelf(POD_GROUPS), View)
        self._active: Index[Pod] = context.pods.index(_group_of)
        self._groups.watch(self._on_group)

    def _on_group(self, old: View | None, new: View | None) -> None:
        self._pods.watch_changes(self._on_pod)
        if new is not None and new.metadata.being_deleted:
            self.enqueue(new.key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        if old is not None and old.pod_group and (new is None or new.has_ended or old.metadata.uid != new.metadata.uid):
            self.enqueue(old.pod_group)

    def sync(self, key: str) -> None:
        group = self._groups.get(key)
        if group is None or not group.metadata.being_deleted or FINALIZER not in group.metadata.finalizers:
            return
        if not self._active.size(key):
            self._access.edit(POD_GROUPS, key, _release)


def _release(group: JSON) -> None:
    group["metadata"]["finalizers"].remove(FINALIZER)


def _group_of(pod: Pod) -> list[str]:
    """Return the group that a pod protects; none after it has ended."""
    return [pod.pod_group] if pod.pod_group and not pod.has_ended else []
