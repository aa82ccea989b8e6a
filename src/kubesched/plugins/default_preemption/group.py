"""Workload-aware preemption: which pods have to go, anywhere in the cluster, for a pod group to be schedulable.

All pods of lower priority are removed tentatively. If the group then is schedulable, they are added back one by one as
long as it stays so: first those that a disruption budget protects, then the rest, the most important first. A pod group
that is disrupted as a whole counts as one.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

from kubesched.api import objects as api
from kubesched.api.workloads import DISRUPTED_TOGETHER
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.framework.status import Status, unresolvable, unschedulable

NEVER = unschedulable("not eligible due to preemptionPolicy=Never.")
NO_VICTIMS = unresolvable("No preemption victims found for incoming preemptor")
NOT_STARTED = "~"
"""Later than any time: upstream takes a pod that has not started as starting now."""

Schedulable = Callable[[], Awaitable[Status | None]]
"""Tries the group on the cluster as it is; None if it is schedulable."""
Violating = Callable[[Sequence[PodInfo]], list[PodInfo]]
"""The pods whose eviction would violate a disruption budget, counted in this order."""


@dataclass(slots=True, eq=False)
class EvictionUnit:
    """Pods that go together, and their nodes."""

    priority: int
    pods: list[PodInfo] = field(default_factory=list)
    nodes: list[str] = field(default_factory=list)

    @property
    def order(self) -> tuple[int, bool, int, str]:
        """The most important first: by priority; groups before pods; larger groups; those that started earlier."""
        in_group = self.pods[0].pod.spec.scheduling_group is not None
        started = min(info.pod.status.start_time or NOT_STARTED for info in self.pods)
        return -self.priority, not in_group, -len(self.pods) if in_group else 0, started

    def remove(self, cluster: ClusterState) -> None:
        """Suppose the pods were gone."""
        for info in self.pods:
            cluster.lift(info)

    def add_back(self, cluster: ClusterState) -> None:
        """Suppose the pods stayed."""
        for info, node in zip(self.pods, self.nodes, strict=True):
            cluster.put_back(info, node)


async def victims_for_group(
    cluster: ClusterState,
    group: api.PodGroup,
    pods: Sequence[api.Pod],
    violating: Violating,
    schedulable: Schedulable,
) -> list[PodInfo] | Status:
    """The pods to evict, the most important first, or why that would not help."""
    if any(pod.spec.preemption_policy == "Never" for pod in pods):
        return NEVER
    victims = [victim for victim in _victims(cluster) if victim.priority < group.priority]
    if not victims:
        return NO_VICTIMS
    victims.sort(key=lambda victim: victim.order)
    protected = {id(info) for info in violating([info for victim in victims for info in victim.pods])}
    # Sorting is stable: within each half the most important come first.
    spared_first = sorted(victims, key=lambda victim: not any(id(info) in protected for info in victim.pods))
    removed = list(victims)
    for victim in victims:
        victim.remove(cluster)
    try:
        status = await schedulable()
        if status is not None:
            return status
        for victim in spared_first:
            victim.add_back(cluster)
            removed.remove(victim)
            if await schedulable() is not None:
                victim.remove(cluster)
                removed.append(victim)
        chosen = [info for victim in victims if victim in removed for info in victim.pods]
    finally:
        for victim in removed:
            victim.add_back(cluster)
    return chosen


def _victims(cluster: ClusterState) -> list[EvictionUnit]:
    """All pods on nodes, those of groups that are disrupted as a whole together."""
    alone: list[EvictionUnit] = []
    together: dict[str, EvictionUnit] = {}
    for info in cluster.pods.values():
        group = cluster.get(api.PodGroup, info.pod.pod_group) if info.pod.spec.scheduling_group is not None else None
        if group is not None and group.spec.disruption_mode == DISRUPTED_TOGETHER:
            victim = together.setdefault(group.key, EvictionUnit(group.priority))
        else:
            victim = EvictionUnit(info.pod.priority)
            alone.append(victim)
        victim.pods.append(info)
        victim.nodes.append(cluster.nodes.names[info.row])
    return [*alone, *together.values()]
