"""TopologicalSort: pods of an application are tried in the order of their workloads' dependencies."""

from __future__ import annotations

import msgspec

from kubesched.api import objects as api
from kubesched.contrib.app_groups import GROUP_LABEL, WORKLOAD_LABEL, AppGroup, find_app_group, workload_order
from kubesched.contrib.coscheduling import PodInQueue
from kubesched.framework.events import Action, EventHint, Hint, on
from kubesched.framework.plugin import Handle, Plugin


class TopologicalSortArgs(msgspec.Struct, frozen=True, rename="camel"):
    """Where AppGroups are looked for."""

    namespaces: tuple[str, ...] = ("default",)


class TopologicalSort(Plugin):
    """Sorts pods of one AppGroup by the order of their workloads; others by priority and time, as PrioritySort."""

    name = "TopologicalSort"
    args_type = TopologicalSortArgs

    def __init__(self, args: TopologicalSortArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._orders: dict[str, dict[str, int]] = {}
        self._version = -1

    def events_to_register(self) -> list[EventHint]:
        # QueueSort rejects no pod. Registering makes the scheduler watch the kind.
        return [on(AppGroup, Action.ALL, lambda pod, old, new: Hint.SKIP)]

    def less(self, a: PodInQueue, b: PodInQueue) -> bool:
        group = a.pod.labels.get(GROUP_LABEL)
        if group and group == b.pod.labels.get(GROUP_LABEL):
            first, second = self._place(group, a.pod), self._place(group, b.pod)
            return (first, a.timestamp) < (second, b.timestamp)
        return (-a.pod.priority, a.timestamp) < (-b.pod.priority, b.timestamp)

    def _place(self, group: str, pod: api.Pod) -> int:
        """The place of the pod's workload; -1, before all others, if the group does not name it."""
        cluster = self.handle.cluster
        if self._version != cluster.version(AppGroup):
            self._version = cluster.version(AppGroup)
            self._orders.clear()
        if group not in self._orders:
            found = find_app_group(cluster, group, self.args.namespaces or ("default",))
            self._orders[group] = {} if found is None else workload_order(found)
        return self._orders[group].get(pod.labels.get(WORKLOAD_LABEL, ""), -1)
