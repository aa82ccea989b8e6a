"""CapacityScheduling: namespaces have guaranteed amounts, lend what they do not use, and take it back by preemption."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Final

from kubesched.api import objects as api
from kubesched.cluster.pods import PodInfo
from kubesched.cluster.view import Nodes
from kubesched.config.args import DefaultPreemptionArgs
from kubesched.contrib.elastic_quotas import Amounts, ElasticQuota, QuotaSnapshot, QuotaUsage, amounts, total
from kubesched.contrib.preemption import SelectivePreemption
from kubesched.framework.events import Action, EventHint, Resource, on
from kubesched.framework.plugin import Handle
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status, unschedulable
from kubesched.framework.what_if import WhatIf
from kubesched.plugins.default_preemption.dry_run import OneRowProbe
from kubesched.plugins.default_preemption.victims import most_important_first

SNAPSHOT: Final = "ElasticQuotaSnapshot"
WANTED: Final = "PreFilterCapacityScheduling"
EXCEEDED: Final = unschedulable("global quota max exceeded")


class WantedAmounts:
    """What the pod requests, alone and with nominated pods that come before it."""

    def __init__(self, pod: Amounts, in_quota: Amounts, overall: Amounts) -> None:
        self.pod = pod
        self.in_quota = in_quota
        """With the nominated pods of its namespace that are at least as important."""
        self.overall = overall
        """Also with those of other namespaces that use no more than they are guaranteed."""


class CapacityScheduling(SelectivePreemption):
    """Keeps namespaces within their ElasticQuota."""

    name = "CapacityScheduling"
    args_type = None  # type: ignore[assignment]  # unlike DefaultPreemption it has no arguments

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(DefaultPreemptionArgs(), handle)
        self._usage = handle.cluster.share(QuotaUsage)

    def events_to_register(self) -> list[EventHint]:
        return [on(Resource.POD, Action.DELETE), on(ElasticQuota, Action.ALL)]

    # PreFilter

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        """Reject a pod whose namespace may not use so much, or if all that is guaranteed is in use."""
        snapshot = self._usage.snapshot()
        request = amounts(state.pod_class.requests)
        state.write(SNAPSHOT, snapshot)
        if pod.namespace not in snapshot:
            state.write(WANTED, WantedAmounts(request, request, request))
            return None
        wanted = self._wanted(snapshot, pod, request)
        state.write(WANTED, wanted)
        head = f"Pod {pod.namespace}/{pod.name} is rejected in PreFilter because"
        if snapshot.over_max(pod.namespace, wanted.in_quota):
            return unschedulable(f"{head} ElasticQuota {pod.namespace} is more than Max")
        if snapshot.total_over_min(wanted.overall):
            return unschedulable(f"{head} total ElasticQuota used is more than min")
        return None

    def _wanted(self, snapshot: QuotaSnapshot, pod: api.Pod, request: Amounts) -> WantedAmounts:
        in_quota, overall = [request], [request]
        nominations = self.handle.nominations
        for info in (each for node in nominations.nodes for each in nominations.on(node)):
            namespace = info.pod.namespace
            if info.pod.uid == pod.uid or namespace not in snapshot:
                continue
            if namespace == pod.namespace and info.pod.priority >= pod.priority:
                in_quota.append(amounts(info.pod_class.requests))
                overall.append(in_quota[-1])
            elif namespace != pod.namespace and not snapshot.over_min(namespace):
                overall.append(amounts(info.pod_class.requests))
        return WantedAmounts(request, total(in_quota), total(overall))

    def add_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(SNAPSHOT, QuotaSnapshot).add(info)

    def remove_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        state.read(SNAPSHOT, QuotaSnapshot).add(info, -1)

    def reserve(self, state: CycleState, pod: api.Pod, node_name: str) -> Status | None:
        """The pod counts already, since it is assumed to be on its node. Configurations name this point."""
        return None

    # PostFilter

    def evictable(self, state: CycleState, pod: api.Pod, infos: Collection[PodInfo]) -> list[PodInfo]:
        """Without a quota: pods without one, by priority. Beyond its guaranteed amount: pods of lower priority in its
        own namespace. Within it: pods of namespaces that borrow, the least important first, until they borrow no
        more."""
        snapshot, wanted = state.read(SNAPSHOT, QuotaSnapshot), state.read(WANTED, WantedAmounts)
        if pod.namespace not in snapshot:
            return [each for each in infos if each.pod.namespace not in snapshot and each.pod.priority < pod.priority]
        if snapshot.over_min(pod.namespace, wanted.in_quota):
            own = pod.namespace
            return [each for each in infos if each.pod.namespace == own and each.pod.priority < pod.priority]
        found, supposed = [], snapshot.clone()
        for info in reversed(most_important_first(list(infos))):
            namespace = info.pod.namespace
            if namespace != pod.namespace and namespace in supposed and supposed.over_min(namespace):
                found.append(info)
                supposed.add(info, -1)
        return found

    def probe(self, state: CycleState, pod: api.Pod) -> OneRowProbe:
        return QuotaProbe(self.handle.what_if, state, pod)

    def _enough(self, nodes: int) -> int:
        return nodes

    def _waits_for(self, pod: api.Pod, leaving: Sequence[api.Pod]) -> bool:
        snapshot = self._usage.snapshot()
        if pod.namespace not in snapshot:
            return any(each.namespace not in snapshot and each.priority < pod.priority for each in leaving)
        request = amounts(self.handle.cluster.classes.info(pod).pod_class.requests)
        borrows = snapshot.over_min(pod.namespace, self._wanted(snapshot, pod, request).in_quota)
        return any(
            each.priority < pod.priority
            if each.namespace == pod.namespace
            else not borrows and each.namespace in snapshot and snapshot.over_min(each.namespace)
            for each in leaving
        )


class QuotaProbe(OneRowProbe):
    """Also checks the quotas: first for the pod alone, then, while pods are added back, with the nominated ones."""

    def __init__(self, what_if: WhatIf, state: CycleState, pod: api.Pod) -> None:
        super().__init__(what_if, state, pod)
        self._wanted = state.read(WANTED, WantedAmounts)
        self._in_quota = self._overall = self._wanted.pod

    def statuses(self, rows: Sequence[int]) -> list[Status | None]:
        found = super().statuses(rows)
        snapshot, namespace = self._state.read(SNAPSHOT, QuotaSnapshot), self._pod.namespace
        if namespace in snapshot and (
            snapshot.over_max(namespace, self._in_quota) or snapshot.total_over_min(self._overall)
        ):
            found = [EXCEEDED if each is None else each for each in found]
        self._in_quota, self._overall = self._wanted.in_quota, self._wanted.overall
        return found
