"""A cache of NUMA zones that is never too optimistic, for `cacheResyncPeriodSeconds`.

A node's report arrives some time after a pod was placed there. So the pods that this scheduler places are taken from
every zone of their node, and a node is not used at all once another scheduler's pod is seen there. Both last until a
report says, with a fingerprint of its pods, that it includes all pods that run on the node. Reports are checked every
so many seconds, and only those of nodes that were rejected or have pods of other schedulers.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Literal

import msgspec
import numpy as np

from kubesched.api import objects as api
from kubesched.base.clock import Clock
from kubesched.base.log import Log
from kubesched.cluster.pods import PodClass
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import Ints, Mask
from kubesched.contrib.numa_placement import ContainerKey, container_zones
from kubesched.contrib.numa_reports import (
    NodeResourceTopology,
    amount,
    attribute,
    exclusive_requests,
    has_exclusive_resources,
    kubelet_settings,
    lasting_containers,
    numa_id,
)
from kubesched.contrib.numa_zones import ZoneColumns, grown
from kubesched.contrib.pod_fingerprint import fingerprint

FINGERPRINT: Final = "nodeTopologyPodsFingerprint"
METHOD: Final = "nodeTopologyPodsFingerprintMethod"
ANNOTATION: Final = "topology.node.k8s.io/fingerprint"
ONLY_EXCLUSIVE: Final = "with-exclusive-resources"
AT_ONCE: Final = 50
"""How many nodes are looked at before others get their turn."""


class TopologyCache(msgspec.Struct, frozen=True, rename="camel"):
    """How reports are complemented by what was placed since."""

    foreign_pods_detect: Literal["None", "All", "OnlyExclusiveResources"] = "All"
    resync_method: Literal["Autodetect", "All", "OnlyExclusiveResources"] = "Autodetect"
    informer_mode: Literal["Shared", "Dedicated"] = "Dedicated"
    resync_scope: Literal["All", "OnlyResources"] = "All"


class OwnProfiles:
    """The names of the profiles that have such a cache. Pods of all others are foreign."""

    def __init__(self, cluster: ClusterState) -> None:
        self.names: set[str] = set()


class CachedZones(ZoneColumns):
    """The zones of all nodes by the last reports that were complete, with what was reserved since."""

    def __init__(self, cluster: ClusterState, profile: str, settings: TopologyCache, log: Log) -> None:
        super().__init__(cluster)
        self._settings = settings
        self._log = log
        self.has_foreign: Mask = np.zeros(0, dtype=np.bool_)
        """Rows with pods that other schedulers have placed."""
        self._rejected: Mask = np.zeros(0, dtype=np.bool_)
        self._reconfigured: set[int] = set()
        self._newest: dict[int, NodeResourceTopology] = {}
        self._used: dict[int, NodeResourceTopology] = {}
        self._reserved: dict[int, dict[str, PodClass]] = {}
        """By row and UID."""
        self._taken: dict[str, Ints] = {}
        """What the reserved pods request, by resource and row."""
        self._pinned: dict[int, list[ContainerKey]] = {}
        """The containers with exclusive resources that a row's report includes."""
        self._zones_of: dict[int, dict[ContainerKey, int]] = {}
        self._own = cluster.share(OwnProfiles).names
        self._foreign: dict[str, api.Pod] = {}
        """Pods of other schedulers that have changed and are yet to be looked at, by UID."""
        if settings.foreign_pods_detect != "None":
            self._own.add(profile)
            for info in cluster.pods.values():
                self._observe(None, info.pod)
            cluster.pod_observers.append(self._observe)

    # Reports

    def refresh(self) -> None:
        super().refresh()
        for pod in self._foreign.values():
            row = self._table.row_of.get(pod.node_name)
            # As upstream, only nodes with a report count. Without a row the pod is gone, and its node too.
            if row is not None and self.reported[row]:
                self.has_foreign[row] |= self._matters(pod, row)
        self._foreign.clear()

    def _receive(self, row: int, report: NodeResourceTopology) -> None:
        self._newest[row] = report
        used = self._used.get(row)
        if used is None:
            self._set(row, report)
        elif self._settings.resync_scope == "All" and kubelet_settings(used) != kubelet_settings(report):
            self._reconfigured.add(row)

    def _set(self, row: int, report: NodeResourceTopology) -> None:
        super()._set(row, report)
        self._used[row] = report

    def _lose(self, row: int) -> None:
        super()._lose(row)
        self._start_anew(row)
        for known in (self._newest, self._used):
            known.pop(row, None)

    def _grow(self, rows: int, width: int = 0) -> None:
        super()._grow(rows, width)
        shape = self.reported.shape
        self.has_foreign, self._rejected = grown(self.has_foreign, shape), grown(self._rejected, shape)

    # What is not in the reports

    def reserve(self, row: int, uid: str, pod_class: PodClass) -> None:
        """Take what a pod requests from every zone of a row.

        A pod that requests nothing would be kept for ever, as a row is looked at again only if it was rejected.
        """
        if not any(_amounts(pod_class).values()):
            return
        if self.reported[row] and uid not in self._reserved.setdefault(row, {}):
            self._reserved[row][uid] = pod_class
            self._take(row, pod_class, 1)

    def unreserve(self, row: int, uid: str) -> None:
        """Undo `reserve`."""
        pod_class = self._reserved.get(row, {}).pop(uid, None)
        if pod_class is not None:
            self._take(row, pod_class, -1)

    def _take(self, row: int, pod_class: PodClass, sign: int) -> None:
        for name, wanted in _amounts(pod_class).items():
            taken = self._taken.get(name, np.zeros(0, dtype=np.int64))
            if len(taken) <= row:
                taken = self._taken[name] = grown(taken, self.reported.shape)
            taken[row] += sign * wanted

    def taken(self, resource: str) -> Ints | None:
        """What is reserved of a resource on each row; None if nothing is."""
        found = self._taken.get(resource)
        return found if found is None or len(found) == len(self.reported) else grown(found, self.reported.shape)

    def reject(self, rows: Ints) -> None:
        """Note that these rows had no room. Perhaps they have, by a newer report."""
        self._rejected[rows] = True

    def _observe(self, old: api.Pod | None, new: api.Pod | None) -> None:
        pod = new or old
        if pod is not None and pod.node_name and pod.scheduler_name not in self._own:
            self._foreign[pod.uid] = pod

    def _matters(self, pod: api.Pod, row: int) -> bool:
        if self._settings.foreign_pods_detect == "All":
            return True
        return has_exclusive_resources(pod, self.resources(row))

    # Resync

    async def follow(self, clock: Clock, seconds: float) -> None:
        """Look at newer reports, over and over."""
        while True:
            await clock.sleep(seconds)
            self.refresh()
            rows = np.flatnonzero((self._rejected | self.has_foreign) & self.reported).tolist()
            for number, row in enumerate(sorted({*rows, *self._reconfigured})):
                if number % AT_ONCE == AT_ONCE - 1:
                    await clock.sleep(0)
                self._resync(row)

    def _resync(self, row: int) -> None:
        report = self._newest.get(row)
        if report is None:
            return
        pods = [info.pod for info in self._table.pods[row].values() if info.pod.status.phase not in ("", "Pending")]
        if row in self._reconfigured or self._is_complete(report, pods, self.resources(row)):
            self._start_anew(row)
            self._set(row, report)
            self._pinned[row] = [key for pod in pods for key in self._pinned_containers(pod, row)]
            self.version += 1
            self._log(2, "flushing", node=report.name)

    def _is_complete(self, report: NodeResourceTopology, pods: Iterable[api.Pod], in_zones: set[str]) -> bool:
        """Whether a report includes exactly these pods."""
        expected = attribute(report.attributes, FINGERPRINT)
        method = self._settings.resync_method
        only_exclusive = method == "OnlyExclusiveResources" or (
            method == "Autodetect" and attribute(report.attributes, METHOD) == ONLY_EXCLUSIVE
        )
        if not expected:
            expected, only_exclusive = report.annotations.get(ANNOTATION, ""), False
        if not expected:
            self._log(2, "missing NodeTopology podset fingerprint data", node=report.name)
            return False
        if only_exclusive:
            pods = [pod for pod in pods if has_exclusive_resources(pod, in_zones)]
        return expected == fingerprint((pod.namespace, pod.name) for pod in pods)

    def _start_anew(self, row: int) -> None:
        for uid in list(self._reserved.get(row, ())):
            self.unreserve(row, uid)
        self.has_foreign[row] = self._rejected[row] = False
        self._reconfigured.discard(row)
        for known in (self._reserved, self._pinned, self._zones_of):
            known.pop(row, None)

    # Preemption

    def _pinned_containers(self, pod: api.Pod, row: int) -> Iterable[ContainerKey]:
        in_zones = self.resources(row)
        for each in lasting_containers(pod):
            if exclusive_requests(pod, each, in_zones):
                yield pod.namespace, pod.name, each.name

    def zones_of(self, row: int) -> dict[ContainerKey, int]:
        """The zone of each container with exclusive resources; nothing if that is not known."""
        found = self._zones_of.get(row)
        if found is None:
            pinned, report = self._pinned.get(row), self._used.get(row)
            found = self._zones_of[row] = container_zones(report, pinned) if pinned and report is not None else {}
        return found

    def freed(self, row: int, victims: Iterable[api.Pod]) -> dict[tuple[str, int], int]:
        """What these pods would leave on a row if they were evicted, by resource and zone."""
        found: dict[tuple[str, int], int] = {}
        zones, in_zones = self.zones_of(row), self.resources(row)
        for pod in victims:
            for each in pod.spec.containers:
                zone = zones.get((pod.namespace, pod.name, each.name), -1)
                known = 0 <= zone < self.width
                for name, quantity in exclusive_requests(pod, each, in_zones).items() if known else ():
                    found[name, zone] = found.get((name, zone), 0) + amount(name, quantity)
        return found

    def allocatable(self, row: int) -> dict[tuple[str, int], int]:
        """What a row has in all, by resource and zone."""
        report = self._used.get(row)
        return {
            (each.name, numa_id(zone.name)): amount(each.name, each.allocatable)
            for zone in (() if report is None else report.zones)
            for each in zone.resources
        }


def _amounts(pod_class: PodClass) -> dict[str, int]:
    requests = pod_class.requests
    return {"cpu": requests.milli_cpu, "memory": requests.memory, **requests.scalar}
