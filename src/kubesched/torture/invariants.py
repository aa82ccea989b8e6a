"""What must hold at every moment of a simulation, and what must be left of it in the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kubesched.api import objects as api
from kubesched.apiserver.storage.store import ChangeType, StoreEvent
from kubesched.cluster.view import NodeInfo
from kubesched.engine.outcome import Outcome
from kubesched.scheduler.attempt import Attempt, Dropped
from kubesched.scheduler.subscribers.publisher import Subscriber
from kubesched.torture.oracle import SeenCluster, objections

if TYPE_CHECKING:
    from kubesched.torture.replica import Replica

Report = Callable[[str, str], None]


class Witness(Subscriber):
    """Follows the attempts of one scheduler process and checks each decision against what the process had seen."""

    def __init__(self, replica: Replica, report: Report) -> None:
        self._replica = replica
        self._report = report
        self._placed: dict[str, tuple[api.Pod, str]] = {}
        self.decisions = 0

    def decided(self, attempt: Attempt) -> None:
        self.decisions += 1
        if attempt.outcome is not Outcome.SCHEDULED:
            return
        scheduler = self._replica.scheduler
        if scheduler is None or len(scheduler.shared.inbox):
            return  # news that arrived during the cycle does not count
        pod, node = attempt.pod, attempt.chosen
        for problem in objections(pod, node, self.view()):
            self._report("placed where it must not be", f"{self._replica.name} chose {node} for {pod.key}: {problem}")

    def view(self) -> SeenCluster:
        """What the process has seen, and what it has placed itself."""
        self.forget_known()
        seen = [pod for pod in self._replica.seen(api.Pod) if not pod.is_terminal]
        pods = [(pod, pod.node_name) for pod in seen if pod.node_name]
        return SeenCluster(self._replica.seen(api.Node), [*pods, *self._placed.values()])

    def forget_known(self) -> None:
        """Forget placed pods that the watch has delivered on their node, or as deleted."""
        if self._placed:
            waiting = {pod.uid for pod in self._replica.seen(api.Pod) if not pod.node_name and not pod.is_terminal}
            self._placed = {uid: placed for uid, placed in self._placed.items() if uid in waiting}

    def binding_started(self, attempt: Attempt) -> None:
        pod = attempt.assumed
        known = next((each for each in self._replica.seen(api.Pod) if each.uid == pod.uid), None)
        scheduler = self._replica.scheduler
        if known is not None and known.node_name and scheduler is not None and not len(scheduler.shared.inbox):
            self._report(
                "bound twice", f"{self._replica.name} binds {pod.key}, which it knows to be on {known.node_name}"
            )
        self.forget_known()
        if pod.uid in self._placed:
            self._report("bound twice", f"{self._replica.name} places {pod.key} while it has a place already")
        self._placed[pod.uid] = (pod, attempt.chosen)

    def requeued(self, attempt: Attempt, pod: api.Pod) -> None:
        self._placed.pop(attempt.pod.uid, None)

    def dropped(self, attempt: Attempt, reason: Dropped, known: api.Pod | None) -> None:
        self._placed.pop(attempt.pod.uid, None)


class StoreWatcher:
    """Checks every change of a pod as the API server stores it."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self.nodes: dict[str, str] = {}
        self.bound = 0

    def on_pod(self, event: StoreEvent) -> None:
        pod = event.record.load()
        uid, node = pod["metadata"]["uid"], (pod.get("spec") or {}).get("nodeName") or ""
        before = self.nodes.get(uid, "")
        if before and node != before:
            self._report("bound twice", f"{event.record.key} moves from {before} to {node or 'nowhere'}")
        if node and not before:
            self.bound += 1
        if event.change is ChangeType.DELETED:
            self.nodes.pop(uid, None)
        else:
            self.nodes[uid] = node


class DeviceWatcher:
    """Which process gave which device to which claim."""

    def __init__(self, report: Report) -> None:
        self._report = report
        self._written: dict[str, str] = {}

    def wrote(self, replica: Replica, name: str, args: tuple[Any, ...]) -> None:
        """A process sends a write."""
        if name == "merge_patch" and args[0] is api.ResourceClaim and "allocation" in (args[2].get("status") or {}):
            self._written[f"{args[3]}/{args[1]}"] = replica.process.name

    def on_claim(self, claims: list[dict[str, Any]]) -> None:
        """Two claims must not have one device, if one process gave both."""
        owners: dict[tuple[str, str, str], str] = {}
        for claim in claims:
            allocation = (claim.get("status") or {}).get("allocation") or {}
            key = f"{claim['metadata']['namespace']}/{claim['metadata']['name']}"
            for result in (allocation.get("devices") or {}).get("results") or ():
                device = (result["driver"], result["pool"], result["device"])
                other = owners.setdefault(device, key)
                if other != key and self._written.get(other) == self._written.get(key):
                    self._report("device given twice", f"{device[2]} in {device[1]} belongs to {other} and to {key}")


def check_process(replica: Replica, report: Report) -> None:
    """The parts of a scheduler agree with each other and with what its informers hold."""
    scheduler = replica.scheduler
    if scheduler is None or not scheduler.synced.is_set() or len(scheduler.shared.inbox):
        return
    cluster, queue = scheduler.cluster, scheduler.queue
    seen = {pod.uid: pod for pod in scheduler.known(api.Pod) if not pod.is_terminal}
    lists = queue.pod_lists()
    waiting = [*lists.active, *lists.backoff, *lists.unschedulable, *lists.gated]
    places = [*(pod.uid for pod in waiting), *(pod.uid for pod in lists.in_flight)]
    if len(places) != len(set(places)):
        twice = sorted({uid for uid in places if places.count(uid) > 1})
        report("queue", f"{replica.name}: in two places of the queue: {twice}")
    for pod in waiting:
        if pod.uid not in seen:
            report("queue", f"{replica.name}: {pod.key} waits although it does not exist")
        elif seen[pod.uid].node_name:
            report("queue", f"{replica.name}: {pod.key} waits although it is on {seen[pod.uid].node_name}")
        elif seen[pod.uid].metadata.resource_version != pod.metadata.resource_version:
            report("queue", f"{replica.name}: the queue has an old state of {pod.key}")
    known = {*places, *cluster.pods}
    for uid, pod in seen.items():
        ours = pod.scheduler_name in scheduler.profiles and not pod.is_terminating
        if not pod.node_name and ours and uid not in known:
            report("pod lost", f"{replica.name}: {pod.key} is neither in the queue nor assumed")
        if pod.node_name and uid not in cluster.pods:
            report("cluster", f"{replica.name}: {pod.key} on {pod.node_name} is not counted")
    for uid, info in cluster.pods.items():
        if uid not in seen and uid not in cluster.assumed:
            report("cluster", f"{replica.name}: {info.pod.key} is counted although it does not exist")
    _check_table(replica, report)


def _check_table(replica: Replica, report: Report) -> None:
    scheduler = replica.scheduler
    assert scheduler is not None
    table, cluster = scheduler.cluster.nodes, scheduler.cluster
    wanted: dict[int, list[int]] = {}
    for info in cluster.pods.values():
        sums = wanted.setdefault(info.row, [0, 0, 0])
        requests = info.pod_class.node_requests
        sums[0] += requests.milli_cpu
        sums[1] += requests.memory
        sums[2] += 1
    for name, row in table.row_of.items():
        cpu, memory, pods = wanted.get(row, [0, 0, 0])
        found = NodeInfo(table, row).requested
        if (found.milli_cpu, found.memory, len(table.pods[row])) != (cpu, memory, pods):
            counted = f"{found.milli_cpu}m, {found.memory}, {len(table.pods[row])} pods"
            wanted_text = f"{cpu}m, {memory}, {pods} pods"
            report("counters", f"{replica.name}: {name} counts {counted}; its pods sum up to {wanted_text}")
    nodes = {node.name for node in scheduler.known(api.Node)}
    valid = {name for name, row in table.row_of.items() if table.valid[row]}
    if nodes != valid:
        report("cluster", f"{replica.name}: nodes {sorted(nodes ^ valid)} are known in one place only")
