"""What must hold when nothing has gone wrong for a while, and what must be left when everything is deleted."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kubesched.api import objects as api
from kubesched.apiserver.inprocess.reader import StoreReader
from kubesched.cluster.state import ClusterState
from kubesched.engine.outcome import Outcome
from kubesched.engine.profiles import build_engines
from kubesched.reconcile.access import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS
from kubesched.scheduler.handlers import KINDS
from kubesched.scheduler.scheduler import Scheduler

if TYPE_CHECKING:
    from kubesched.torture.world import World

WORKLOADS = (DEPLOYMENTS, STATEFUL_SETS, JOBS)


def check_end(world: World) -> None:
    """After the faults: a leader acts, every pod that fits has a node, and nothing is left behind."""
    leaders = [replica for replica in world.replicas if replica.leads]
    if len(leaders) != 1:
        world.report("no leader", f"{len(leaders)} schedulers lead after the faults have stopped")
        return
    scheduler = leaders[0].scheduler
    assert scheduler is not None
    rebuilt = rebuild(world, scheduler)
    _check_liveness(world, scheduler, rebuilt)
    _check_leftovers(world, scheduler)
    _check_counters(world, scheduler)


def rebuild(world: World, scheduler: Scheduler) -> ClusterState:
    """The cluster as a scheduler that starts now would see it."""
    state = ClusterState(scheduler.cluster.features)
    for kind in KINDS:
        for obj in objects(world, kind):
            if not isinstance(obj, api.Pod) or obj.node_name:
                state.set(obj)
    return state


def objects(world: World, kind: type[api.Object]) -> list[api.Object]:
    client: StoreReader = world.server.client
    shelf = client._shelf(kind)
    found = [client._decode(kind, record) for record in shelf.records.values()]
    return [each for each in found if isinstance(each, kind)]


def _check_liveness(world: World, scheduler: Scheduler, rebuilt: ClusterState) -> None:
    engines = build_engines(scheduler.config, world.around.registry(), rebuilt, Random(0))
    for pod in objects(world, api.Pod):
        assert isinstance(pod, api.Pod)
        engine = engines.get(pod.scheduler_name)
        waits = not pod.node_name and not pod.is_terminal and not pod.is_terminating
        if engine is None or not waits or pod.spec.scheduling_group is not None or pod.spec.scheduling_gates:
            continue
        if engine.framework.run_pre_enqueue(pod) is not None:
            continue
        decision = engine.schedule(rebuilt.classes.info(pod))
        if decision.outcome is Outcome.SCHEDULED:
            where = scheduler.queue.pod_lists()
            place = next(
                (
                    name
                    for name in ("active", "backoff", "unschedulable", "gated", "in_flight")
                    if any(each.uid == pod.uid for each in getattr(where, name))
                ),
                "nowhere",
            )
            world.report("pod not scheduled", f"{pod.key} fits on {decision.chosen} and waits ({place} in the queue)")


def _check_leftovers(world: World, scheduler: Scheduler) -> None:
    shared, cluster = scheduler.shared, scheduler.cluster
    if cluster.assumed:
        names = sorted(cluster.pods[uid].pod.key for uid in cluster.assumed)
        world.report("left behind", f"assumed for ever: {', '.join(names)}")
    if list(shared.waiting):
        world.report("left behind", "pods wait on Permit for ever")
    if len(shared.tasks):
        world.report("left behind", f"{len(shared.tasks)} background tasks")
    if flying := scheduler.queue.pod_lists().in_flight:
        world.report("left behind", f"in flight for ever: {', '.join(pod.key for pod in flying)}")
    pending = {pod.uid for pod in scheduler.known(api.Pod) if not pod.node_name}
    for node in tuple(cluster.nominations.nodes):
        for info in cluster.nominations.on(node):
            if info.pod.uid not in pending:
                world.report("left behind", f"{info.pod.key} is nominated to {node} and does not wait")


def _check_counters(world: World, scheduler: Scheduler) -> None:
    """Counts of pods by row, against a recount."""
    cluster = scheduler.cluster
    for key, counter in cluster.counts._counters.items():
        wanted: dict[int, int] = {}
        for info in cluster.pods.values():
            if counter.matches(info.pod_class) and not (counter.skip_terminating and info.terminating):
                wanted[info.row] = wanted.get(info.row, 0) + 1
        found = {row: int(count) for row, count in enumerate(counter.rows) if count}
        if found != wanted:
            world.report("counters", f"counter {key}: {found} and not {wanted}")
        for label, domain in counter._domains.items():
            domain.refresh()
            sums = dict.fromkeys(range(len(domain.counts)), 0)
            for row, count in wanted.items():
                value = int(domain.column.ids[row])
                if value >= 0 and (domain.eligible is None or domain.eligible[row]):
                    sums[value] += count
            if [int(count) for count in domain.counts] != list(sums.values()):
                world.report("counters", f"domains of {label} for {key}: {domain.counts} and not {sums}")


def empty(world: World) -> None:
    """Delete all workloads and pods."""
    for storage in WORKLOADS:
        for key in world.keys(storage):
            world.delete(storage, key)
    for key in world.keys(PODS):
        world.delete(PODS, key, grace=0)


def check_emptiness(world: World) -> None:
    """Nothing is left of pods that are gone."""
    for key in world.keys(PODS):
        world.delete(PODS, key, grace=0)
    if left := world.keys(PODS):
        return world.report("left behind", f"pods that cannot be deleted: {left}")
    for replica in world.replicas:
        scheduler = replica.scheduler
        if scheduler is None:
            continue
        cluster, lists = scheduler.cluster, scheduler.queue.pod_lists()
        pods = [info.pod.key for info in cluster.pods.values()]
        waiting = [pod.key for pod in (*lists.active, *lists.backoff, *lists.unschedulable, *lists.gated)]
        if pods or waiting or len(cluster.nominations) or cluster.assumed:
            world.report("left behind", f"{replica.name} still has {pods or waiting or 'nominations'}")
        used = cluster.nodes.used
        if used.any():
            world.report("left behind", f"{replica.name} counts resources of pods that are gone")
    return None
