"""Changes of pods, for the controllers of workloads: each is notified of the pods that its kind manages."""

from __future__ import annotations

from collections.abc import Callable

from kubesched.reconcile.cache import Cache
from kubesched.reconcile.views import Owner, Pod

OnOwned = Callable[[Owner, Pod, bool], None]
"""Called with the managing owner, the pod before or after the change, and whether the pod's labels changed."""
OnOrphan = Callable[[Pod], None]
"""Called with a new pod, or one with new metadata, that no owner manages."""


class OwnedPods:
    """Looks up the owner of a changed pod once for all controllers."""

    def __init__(self, pods: Cache[Pod]) -> None:
        self._pods = pods
        self._by_kind: dict[str, OnOwned] = {}
        self._on_orphan: list[OnOrphan] = []

    def watch(self, kind: str, on_owned: OnOwned, on_orphan: OnOrphan | None = None) -> None:
        """Call a controller for all pods that a kind of owner manages: the existing ones, then at each change."""
        if not self._by_kind:
            self._pods.watch(self._on_pod)
        self._by_kind[kind] = on_owned
        if on_orphan is not None:
            self._on_orphan.append(on_orphan)
        for pod in list(self._pods.objects.values()):
            owner = pod.metadata.controller
            if owner is not None and owner.kind == kind:
                on_owned(owner, pod, False)
            elif owner is None and on_orphan is not None:
                on_orphan(pod)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            if pod is None or not pod.metadata.owner_references:
                continue
            if (owner := pod.metadata.controller) is not None and owner.kind in self._by_kind:
                relabelled = old is not None and new is not None and old.metadata.labels != new.metadata.labels
                self._by_kind[owner.kind](owner, pod, relabelled)
        if new is None or (old is not None and (old.metadata is new.metadata or old.metadata == new.metadata)):
            return
        if new.metadata.controller is None:
            for on_orphan in self._on_orphan:
                on_orphan(new)
