"""What must hold at every moment of a simulation, and what must be left of it in the end."""

from __future__ import annotations

from collections.abc import Callable, Container, Hashable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from kubesched.api import objects as api
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.base.types import JSON
from kubesched.client.informer import Informer
from kubesched.engine.outcome import Outcome
from kubesched.framework.status import Code
from kubesched.queue.pods import QueuedPodInfo
from kubesched.scheduler.attempt import Attempt, Dropped
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.subscribers.publisher import Subscriber
from kubesched.torture.moods import LIAR, LIE, MOODY
from kubesched.torture.oracle import SeenCluster, SeenStorage, fits, objections, required_terms
from kubesched.torture.workload import ZONE

if TYPE_CHECKING:
    from kubesched.torture.replica import Replica

Report = Callable[[str, str], None]
FOLLOWED = (api.Pod, api.Node)
JUDGED = frozenset(
    (
        *("InterPodAffinity", "NodeAffinity", "NodePorts", "NodeResourcesFit", "NodeUnschedulable"),
        *("PodTopologySpread", "TaintToleration"),
    )
)
"""Plugins whose rules the oracle knows completely."""
HELPED_BY_PODS = frozenset(("InterPodAffinity", "PodTopologySpread"))
"""Plugins that may let a pod pass because another pod was placed."""


class Witness(Subscriber):
    """Follows the attempts of one scheduler process and checks each decision against what the process had seen."""

    def __init__(
        self,
        replica: Replica,
        report: Report,
        has_bound: Callable[[Witness, api.Pod, str], bool],
        bindings: Container[tuple[str, str]],
    ) -> None:
        """`bindings` has the UID and the node of every binding that the API server ever stored."""
        self.replica = replica
        self._bindings = bindings
        self._report = report
        self._has_bound = has_bound
        self._placed: dict[str, tuple[api.Pod, str]] = {}
        self._known_at: dict[str, Mapping[str, str]] = {}
        """The nodes and CSINodes, by UID, that the process knew when it last tried a pod (by its UID), with their
        zones."""
        self._promised: dict[str, list[api.Pod]] = {}
        """The pods that were nominated in memory only, not in their status, when the process last tried a pod (by its
        UID)."""
        self.decided_nodes: dict[str, set[str]] = {}
        """The nodes that were ever chosen for a pod, by UID."""
        self.knew_limits: set[str] = set()
        """Pods that were placed when the process knew how many volumes the node takes, and all claims there."""
        self.failed_preemptions: set[str] = set()
        """Pods for which PostFilter failed in their last attempt, for example because an extender did, or found nothing
        because a plugin lied to it. As upstream, such a pod waits for an event that helps one of its rejectors, or for
        the five-minute retry."""
        self.decisions = 0
        self.binding: dict[Attempt, str] = {}
        """The attempts whose bindings are under way, with the UIDs of their pods."""

    def decided(self, attempt: Attempt) -> None:
        self._note_known(attempt.pod)
        self.decisions += 1
        said = attempt.post_filter_status
        failed = said is not None and (said.code is Code.ERROR or LIE in said.message)
        (self.failed_preemptions.add if failed else self.failed_preemptions.discard)(attempt.pod.uid)
        if attempt.where and attempt.plugin not in (MOODY, LIAR):
            self._report("a plugin raised", f"{self.replica.name} tries {attempt.pod.key}: {attempt.message}")
        if attempt.outcome is not Outcome.SCHEDULED:
            return
        scheduler = self.replica.scheduler
        if scheduler is None or len(scheduler.shared.inbox):
            return  # news that arrived during the cycle does not count
        pod, node = attempt.pod, attempt.chosen
        view = self.view()
        if view.knows_volumes(node):
            self.knew_limits.add(pod.uid)
        problems = list(objections(pod, node, view))
        if problems and not self.is_clear:  # whether the scheduler still counted them depends on the moment
            problems = list(objections(pod, node, self.view(leaving=True)))
        for problem in problems:
            self._report("placed where it must not be", f"{self.replica.name} chose {node} for {pod.key}: {problem}")

    def _note_known(self, pod: api.Pod) -> None:
        if self.replica.scheduler is not None:
            cluster = self.replica.scheduler.cluster
            self._known_at[pod.uid] = {
                obj.uid: obj.labels.get(ZONE, "") for kind in (api.Node, api.CSINode) for obj in cluster.all(kind)
            }
            nominated = [info.pod for node in cluster.nominations.nodes for info in cluster.nominations.on(node)]
            known = [self.replica.seen_pod(each) for each in nominated if each.uid != pod.uid]
            self._promised[pod.uid] = [each for each in known if each is not None and not each.nominated_node_name]

    def is_new(self, obj: api.Object, pod: api.Pod) -> bool:
        """Whether a node or CSINode came after the last attempt at a pod."""
        return obj.uid not in self._known_at.get(pod.uid, {})

    def waits_as_upstream(self, queued: QueuedPodInfo, node: api.Node) -> bool:
        """Whether upstream has no event for a pod that fits now, so that it waits for the five-minute retry.

        One reason is a nomination that kept the place and ended before it was written to the pod's status. The other is
        that only the anti-affinity of others kept the pod away, until a node came or moved to another zone. It may be
        this node, or another one that took the others with it. Upstream's InterPodAffinity asks only whether such a
        node can satisfy the affinity terms of the pod itself.
        """
        if any(self._has_lost_promise(each) for each in self._promised.get(queued.pod.uid, ())):
            return True
        if "InterPodAffinity" not in queued.rejectors:
            return False
        known = self._known_at.get(queued.pod.uid, {})
        keys = {term.topology_key for term in required_terms(queued.pod)}
        if node.uid not in known:
            return not keys
        nodes = self.replica.seen(api.Node)
        return ZONE not in keys and any(known.get(each.uid) not in (None, each.labels.get(ZONE, "")) for each in nodes)

    def _has_lost_promise(self, pod: api.Pod) -> bool:
        """Whether a pod that was nominated is not any more, and has no node either."""
        scheduler, known = self.replica.scheduler, self.replica.seen_pod(pod)
        nominated = scheduler is not None and scheduler.cluster.nominations.node_of(pod.uid)
        return not nominated and (known is None or not known.node_name)

    def view(self, *, leaving: bool = False) -> SeenCluster:
        """What the process has seen, and what it has placed itself, `leaving` pods only if asked."""
        self.forget_known()
        pods = [(pod, pod.node_name) for pod in self.replica.seen(api.Pod) if pod.node_name and not pod.is_terminal]
        seen = self.replica.seen
        storage = SeenStorage(
            seen(api.PersistentVolumeClaim), seen(api.PersistentVolume), seen(api.StorageClass), seen(api.CSINode)
        )
        left_out = set() if leaving else self._leaving()
        placed = [each for uid, each in self._placed.items() if uid not in left_out]
        return SeenCluster(seen(api.Node), [*pods, *placed], storage)

    def _leaving(self) -> set[str]:
        """Placed pods that were deleted before they were bound. The API server refuses to bind them, so that their
        places are free."""
        known = ((uid, self.replica.seen_pod(pod)) for uid, (pod, _) in self._placed.items())
        return {uid for uid, pod in known if pod is not None and pod.is_terminating}

    @property
    def is_clear(self) -> bool:
        """Whether no pod leaves a place that it has not reached yet."""
        return not self._leaving()

    def forget_known(self) -> None:
        """Forget placed pods that the watch has delivered on their node, or as deleted."""
        for uid, (pod, _) in tuple(self._placed.items()):
            known = self.replica.seen_pod(pod)
            if known is None or known.node_name or known.is_terminal:
                del self._placed[uid]

    def binding_started(self, attempt: Attempt) -> None:
        pod = attempt.assumed
        self.binding[attempt] = pod.uid
        known, scheduler = self.replica.seen_pod(pod), self.replica.scheduler
        if known is not None and known.node_name and scheduler is not None and not len(scheduler.shared.inbox):
            self._report(
                "bound twice", f"{self.replica.name} binds {pod.key}, which it knows to be on {known.node_name}"
            )
        self.forget_known()
        if pod.uid in self._placed:
            self._report("bound twice", f"{self.replica.name} places {pod.key} while it has a place already")
        self._placed[pod.uid] = (pod, attempt.chosen)
        self.decided_nodes.setdefault(pod.uid, set()).add(attempt.chosen)

    def bound(self, attempt: Attempt) -> None:
        if (attempt.assumed.uid, attempt.chosen) not in self._bindings:
            self._report(
                "not bound",
                f"{self.replica.name} takes {attempt.assumed.key} for bound to {attempt.chosen}, which it is not",
            )

    def has_placed(self, uid: str, node: str) -> bool:
        """Whether the process has placed a pod on a node, and the watch has not delivered it yet."""
        return uid in self._placed and self._placed[uid][1] == node

    def finished(self, attempt: Attempt) -> None:
        self.binding.pop(attempt, None)

    def requeued(self, attempt: Attempt, pod: api.Pod) -> None:
        if attempt.pod.uid in self._placed and self._has_bound(self, attempt.pod, attempt.chosen):
            self._report(
                "bound and requeued", f"{self.replica.name} tries {pod.key} again; it has bound it to {attempt.chosen}"
            )
        self._placed.pop(attempt.pod.uid, None)

    def dropped(self, attempt: Attempt, reason: Dropped, known: api.Pod | None) -> None:
        self._placed.pop(attempt.pod.uid, None)


class StoreWatcher:
    """Checks every change of a pod as the API server stores it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.nodes: dict[str, str] = {}
        self.everyone: set[str] = set()
        """UIDs of all pods that ever were."""
        self.bindings: set[tuple[str, str]] = set()
        """The UID and the node of every pod that was ever bound."""
        self.bound = 0

    def on_pod(self, event: StoreEvent, pod: JSON) -> None:
        uid, node = pod["metadata"]["uid"], (pod.get("spec") or {}).get("nodeName") or ""
        self.everyone.add(uid)
        before = self.nodes.get(uid, "")
        if before and node != before:
            self._report("bound twice", f"{event.record.key} moves from {before} to {node or 'nowhere'}")
        if node and not before:
            self.bound += 1
            self.bindings.add((uid, node))
        if event.change is ChangeType.DELETED:
            self.nodes.pop(uid, None)
        else:
            self.nodes[uid] = node


class DeviceWatcher:
    """Which process gave which device to which claim."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._written: dict[str, str] = {}
        self._excused: set[tuple[str, str]] = set()

    def wrote(self, replica: Replica, name: str, args: tuple[Any, ...]) -> None:
        """A process sends a write."""
        if name == "merge_patch" and args[0] is api.ResourceClaim and "allocation" in (args[2].get("status") or {}):
            self._written[f"{args[3]}/{args[1]}"] = replica.process.name

    def on_claim(self, claims: list[dict[str, Any]], *, doubtful: bool) -> None:
        """Two claims must not have one device, if one process gave both.

        Soon after a restore it may be `doubtful` whether the process knew of an allocation that has come back.
        """
        owners: dict[tuple[str, str, str], str] = {}
        for claim in claims:
            allocation = (claim.get("status") or {}).get("allocation") or {}
            key = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
            for result in (allocation.get("devices") or {}).get("results") or ():
                device = (result["driver"], result["pool"], result["device"])
                other = owners.setdefault(device, key)
                if other == key or self._written.get(other) != self._written.get(key):
                    continue
                if doubtful:
                    self._excused.add((other, key))
                elif (other, key) not in self._excused:
                    self._report("device given twice", f"{device[2]} in {device[1]} belongs to {other} and to {key}")


class ProcessCheck:
    """Compares the parts of one scheduler process with each other and with what its informers hold."""

    def __init__(
        self, replica: Replica, report: Report, reserved: Mapping[str, Container[str]], witness: Witness
    ) -> None:
        """`reserved` has the pods, by UID, for which a plugin of a process has reserved something."""
        self._replica = replica
        self._report = report
        self._reserved = reserved
        self._witness = witness
        self._alive: set[str] = set()
        """The pods that were assumed at the last check and had not been deleted."""
        self._informers: list[Informer[api.Object]] | None = None
        self._seen: Hashable = None
        self._seen_table: Hashable = None

    def run(self) -> None:
        """Check, unless nothing has changed since the last time."""
        scheduler = self._replica.scheduler
        if scheduler is None or not scheduler.synced.is_set() or len(scheduler.shared.inbox):
            return
        if self._informers is None:
            self._informers = [each for each in scheduler._sources.informers if each.kind in FOLLOWED]
        state = (*(each.resource_version for each in self._informers), *_state_inside(scheduler))
        if state == self._seen:
            return
        self._seen = state
        seen = {pod.metadata.uid: pod for pod in scheduler.known(api.Pod) if not pod.is_terminal}
        self._check_queue(scheduler, seen)
        self._check_cluster(scheduler, seen)
        self._check_assumed(scheduler, seen)
        table = scheduler.cluster.nodes
        version = (scheduler.cluster.version(api.Pod), table.node_version)
        if version != self._seen_table:
            self._seen_table = version
            self._check_table(scheduler)

    def _wrong(self, invariant: str, message: str) -> None:
        self._report(invariant, f"{self._replica.name}: {message}")

    def _check_queue(self, scheduler: Scheduler, seen: Mapping[str, api.Pod]) -> None:
        lists = scheduler.queue.pod_lists()
        waiting = [*lists.active, *lists.backoff, *lists.unschedulable, *lists.gated]
        places = [pod.metadata.uid for pod in (*waiting, *lists.in_flight)]
        here = set(places)
        reserved = self._reserved.get(self._replica.process.name, ())
        # A pod may come back, with a backup, while its last binding is still under way.
        binding = self._witness.binding.values()
        if len(places) != len(here):
            twice = sorted({uid for uid in places if places.count(uid) > 1})
            self._wrong("queue", f"in two places of the queue: {twice}")
        placed = scheduler.cluster.pods
        for uid, pod in zip(places, waiting, strict=False):
            known = seen.get(uid)
            if known is None:
                self._wrong("queue", f"{pod.key} waits although it does not exist")
            elif known.node_name:
                self._wrong("queue", f"{pod.key} waits although it is on {known.node_name}")
            elif uid in placed:
                self._wrong("queue", f"{pod.key} waits although it has a place")
            elif uid in reserved and uid not in binding and not known.is_terminating:  # else a pop skips it
                self._wrong(
                    "reserved", f"{pod.key} waits; Reserve was called for it, and neither Unreserve nor PostBind"
                )
            elif known.metadata.resource_version != pod.metadata.resource_version:
                self._wrong("queue", f"the queue has an old state of {pod.key}")
        for pod in lists.unschedulable:
            queued = scheduler.queue.get(pod.uid)
            if queued is not None and not queued.rejectors:
                self._wrong("queue", f"{pod.key} waits for an event although no plugin has rejected it")
        for uid, pod in seen.items():
            if uid in placed or uid in here or pod.node_name:
                continue
            if pod.scheduler_name in scheduler.profiles and not pod.is_terminating:
                self._wrong("pod lost", f"{pod.key} is neither in the queue nor assumed")

    def _check_cluster(self, scheduler: Scheduler, seen: Mapping[str, api.Pod]) -> None:
        cluster = scheduler.cluster
        names, placed, assumed = cluster.nodes.names, cluster.pods, cluster.assumed
        for uid, pod in seen.items():
            if node := pod.spec.node_name:
                info = placed.get(uid)
                if info is None:
                    self._wrong("cluster", f"{pod.key} on {node} is not counted")
                elif names[info.row] != node:
                    self._wrong("cluster", f"{pod.key} on {node} is counted on {names[info.row]}")
                elif uid in assumed:
                    self._wrong("cluster", f"{pod.key} is on {node} and still assumed")
        for uid in placed.keys() - assumed:
            known = seen.get(uid)
            if known is None or not known.node_name:
                self._wrong("cluster", f"{placed[uid].pod.key} is counted although it does not exist on a node")

    def _check_assumed(self, scheduler: Scheduler, seen: Mapping[str, api.Pod]) -> None:
        """A pod that is deleted while it is assumed loses its place at once, or when it hears that it is not permitted.
        One that is deleted while it is tried is assumed all the same, until its binding fails."""
        cluster, waiting = scheduler.cluster, scheduler.shared.waiting
        for uid in self._alive & cluster.assumed:
            if (uid not in seen or seen[uid].is_terminating) and waiting.get(uid) is None:
                self._wrong("cluster", f"{cluster.pods[uid].pod.key} keeps its place although it was deleted")
        self._alive = {uid for uid in cluster.assumed if uid in seen and not seen[uid].is_terminating}

    def _check_table(self, scheduler: Scheduler) -> None:
        cluster = scheduler.cluster
        table = cluster.nodes
        rows = [info.row for info in cluster.pods.values()]
        usages = [table.usage(info.pod_class) for info in cluster.pods.values()]
        wanted = np.zeros_like(table.used)
        if rows:
            np.add.at(wanted.T, rows, usages)
        if not np.array_equal(wanted, table.used):
            for row in np.flatnonzero((wanted != table.used).any(axis=0)).tolist():
                counted, sums = table.used[:, row].tolist(), wanted[:, row].tolist()
                self._wrong("counters", f"{table.names[row]} counts {counted}; its pods sum up to {sums}")
        for name, row in table.row_of.items():
            if len(table.pods[row]) != rows.count(row):
                self._wrong("counters", f"{name} lists {len(table.pods[row])} pods and has {rows.count(row)}")
        nodes = {node.name for node in scheduler.known(api.Node)}
        valid = {name for name, row in table.row_of.items() if table.valid[row]}
        if nodes != valid:
            self._wrong("cluster", f"nodes {sorted(nodes ^ valid)} are known in one place only")


def sleepers(scheduler: Scheduler, witness: Witness) -> Iterator[str]:
    """Pods that wait for an event although they fit: the event was missed.

    Nominated pods, terminating pods and pods on nodes that are gone count for some rules only. Nothing is said while
    there are any, nor while the end of a nomination is being written: the event comes when the watch shows it.
    """
    view = witness.view()
    unclear = any(pod.is_terminating or node not in view.nodes for pod, node in view.pods)
    ending = any(pod.nominated_node_name and not pod.node_name for pod in scheduler.known(api.Pod))
    if unclear or ending or not witness.is_clear or len(scheduler.cluster.nominations):
        return
    for pod in scheduler.queue.pod_lists().unschedulable:
        queued = scheduler.queue.get(pod.uid)
        if queued is None or queued.in_group or not queued.rejectors <= JUDGED:
            continue
        if scheduler.cluster.assumed and queued.rejectors & HELPED_BY_PODS:
            continue  # a pod that was just placed may help; the event comes when the watch shows its binding
        for name, node in view.nodes.items():
            if fits(pod, name, view) and not witness.waits_as_upstream(queued, node):
                yield f"{pod.key} waits for {sorted(queued.rejectors)} although it fits on {name}"
                break


def state_of(scheduler: Scheduler, kinds: Container[type[api.Object]]) -> Hashable:
    """Something that is different whenever objects of these kinds, the queue or the cluster have changed."""
    informers = (each.resource_version for each in scheduler._sources.informers if each.kind in kinds)
    return *informers, *_state_inside(scheduler)


def _state_inside(scheduler: Scheduler) -> tuple[Hashable, ...]:
    cluster, queue = scheduler.cluster, scheduler.queue
    counts = queue.counts().values()
    versions = cluster.version(api.Pod), cluster.nodes.node_version
    return *counts, queue.scheduling_cycle, *versions, len(cluster.assumed)
