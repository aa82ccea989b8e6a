"""The status of Coscheduling's PodGroups: their phase, and how many of their pods run or have ended.

As in scheduler-plugins' controller, except that a group is taken through its first phases at once.
"""

from __future__ import annotations

from collections import Counter

from kubesched.base.types import JSON
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.context import ControllerContext
from kubesched.reconcile.loop import Controller
from kubesched.reconcile.views import Pod, View

GANGS = "scheduling.x-k8s.io/podgroups"
GANG_LABEL = "scheduling.x-k8s.io/pod-group"
PENDING, SCHEDULING, RUNNING, FINISHED, FAILED = "Pending", "Scheduling", "Running", "Finished", "Failed"


class GangController(Controller):
    """Maintains the status of PodGroups. A group that has finished or failed stays so."""

    name = "gang-controller"

    def __init__(self, context: ControllerContext) -> None:
        super().__init__(context.loop)
        self._access = context.access
        self._all_pods = context.pods
        self._pods: Index[Pod] = context.pods.index(_gangs_of)
        self._groups = Cache(self._access.store.shelf(GANGS), View)
        self._groups.watch(self._on_group)

    def _on_group(self, old: View | None, new: View | None) -> None:
        self._all_pods.watch_changes(self._on_pod)
        if new is not None:
            self.enqueue(new.key)

    def _on_pod(self, old: Pod | None, new: Pod | None) -> None:
        for pod in (old, new):
            for key in () if pod is None else _gangs_of(pod):
                self.enqueue_one_of(key, self._pods.size(key))

    def sync(self, key: str) -> None:
        self._access.edit_status(GANGS, key, lambda group: _update(group, self._pods.get(key)))


def _update(group: JSON, pods: list[Pod]) -> None:
    status, needed = group["status"], (group.get("spec") or {}).get("minMember", 0)
    phase = status.get("phase", "")
    if phase in (FINISHED, FAILED):
        return
    if phase in ("", PENDING):
        status["phase"] = PENDING
        if len(pods) < needed:
            return
        if owners := [
            f"{pod.metadata.namespace}/{each.name}" for pod in pods[:1] for each in pod.metadata.owner_references
        ]:
            status["occupiedBy"] = ",".join(sorted(owners))
    phases = Counter(pod.status.phase for pod in pods)
    running, succeeded, failed = (phases[each] for each in ("Running", "Succeeded", "Failed"))
    for name, count in (("running", running), ("succeeded", succeeded), ("failed", failed)):
        status.pop(name, None)
        if count:  # upstream writes no zeros
            status[name] = count
    status["phase"] = _phase(len(pods), needed, running, succeeded, failed)


def _phase(pods: int, needed: int, running: int, succeeded: int, failed: int) -> str:
    if pods < needed:
        return PENDING
    if succeeded >= needed:
        return FINISHED
    if failed and failed + running + succeeded >= needed:
        return FAILED
    return RUNNING if succeeded + running >= needed else SCHEDULING


def _gangs_of(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.labels.get(GANG_LABEL)
    return (f"{pod.metadata.namespace}/{name}",) if name else ()
