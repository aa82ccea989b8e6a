"""What must hold when nothing has gone wrong for a while, and what must be left when everything is deleted."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.engine.engine import Engine
from kubesched.engine.outcome import Outcome
from kubesched.engine.profiles import build_engines
from kubesched.plugins.default_preemption.search import CandidateSearch
from kubesched.plugins.dynamic_resources.devices import Devices
from kubesched.queue.heap import PodHeap
from kubesched.reconcile.access import DEPLOYMENTS, JOBS, PODS, STATEFUL_SETS
from kubesched.scheduler.handlers import KINDS
from kubesched.scheduler.recorder import EventRecorder
from kubesched.scheduler.scheduler import Scheduler
from kubesched.scheduler.statuses import StatusWriter
from kubesched.torture.invariants import Witness, sleepers
from kubesched.torture.leftovers import reachable_pods
from kubesched.torture.moods import KNOCK, LIAR, opens
from kubesched.torture.network import NetworkClient

if TYPE_CHECKING:
    from kubesched.torture.replica import Replica
    from kubesched.torture.world import World

QUIET_SECONDS = 20.0
"""After so long without a write, nothing happens any more: pods of jobs run for 15 s, backoffs last 10 s at most."""
WORKLOADS = (DEPLOYMENTS, STATEFUL_SETS, JOBS)
BOUNDED = (EventRecorder, StatusWriter, PodHeap, CandidateSearch)
"""What keeps a limited number of pods that may be gone."""


def is_quiet(world: World) -> bool:
    """Whether nothing has happened for a while, nothing is under way, and one scheduler leads."""
    leaders = [replica for replica in world.replicas if replica.leads]
    if len(leaders) != 1 or world.now < world.last_write + QUIET_SECONDS or world.server.away:
        return False
    scheduler = leaders[0].scheduler
    assert scheduler is not None
    lists, shared = scheduler.queue.pod_lists(), scheduler.shared
    under_way = (lists.active, lists.backoff, lists.in_flight, scheduler.cluster.assumed, list(shared.waiting))
    return not any(under_way) and not len(shared.tasks) and not len(shared.inbox)


def is_empty(world: World) -> bool:
    """Whether neither the API server nor a scheduler has pods."""
    schedulers = [replica.scheduler for replica in world.replicas]
    return not world.keys(PODS) and not any(each.known(api.Pod) for each in schedulers if each is not None)


def check_end(world: World) -> None:
    """After the faults: a leader acts, every pod that fits has a node, and nothing is left behind."""
    leaders = [replica for replica in world.replicas if replica.leads]
    if len(leaders) != 1:
        world.report("no leader", f"{len(leaders)} schedulers lead after the faults have stopped")
        return
    scheduler = leaders[0].scheduler
    assert scheduler is not None
    rebuilt = rebuild(world, scheduler)
    _check_liveness(world, leaders[0], scheduler, rebuilt)
    _check_gangs(world, scheduler)
    _check_leftovers(world, scheduler)
    for replica in world.replicas:
        if replica.scheduler is not None:
            _check_informers(world, replica.scheduler)
            check_rebuild(world, replica, caches=True)
            check_events(world, replica)


def _check_informers(world: World, scheduler: Scheduler) -> None:
    """What the informers hold is what the API server has."""
    for kind in KINDS:
        known = {obj.key: (obj.uid, obj.metadata.resource_version) for obj in scheduler.known(kind)}
        stored = {obj.key: (obj.uid, obj.metadata.resource_version) for obj in objects(world, kind)}
        if known != stored:
            names = sorted({key for key, _ in known.items() ^ stored.items()})
            world.report("informer", f"{kind.__name__}: differs from the API server in {', '.join(names)}")


def check_rebuild(world: World, replica: Replica, *, caches: bool) -> None:
    """What a process has built up event by event equals the same built from scratch."""
    scheduler = _settled(replica)
    if scheduler is None:
        return
    liar = LIAR if world.plan.liar else ""
    for text in world.rebuilding.differences(scheduler, caches=caches, except_of=liar):
        world.report("rebuild", f"{replica.name}: {text}")


def check_events(world: World, replica: Replica) -> None:
    """No pod waits for an event although it fits."""
    scheduler = _settled(replica)
    if scheduler is None or world.plan.extender or world.plan.liar:
        return
    for text in sleepers(scheduler, world.witness_of(replica)):
        world.report("missed event", f"{replica.name}: {text}")


def _settled(replica: Replica) -> Scheduler | None:
    """A process's scheduler, if it has taken in everything that arrived."""
    scheduler = replica.scheduler
    is_settled = scheduler is not None and scheduler.synced.is_set() and not len(scheduler.shared.inbox)
    return scheduler if is_settled else None


def rebuild(world: World, scheduler: Scheduler) -> ClusterState:
    """The cluster as a scheduler that starts now would see it."""
    state = ClusterState(scheduler.cluster.features)
    for kind in KINDS:
        for obj in objects(world, kind):
            if not isinstance(obj, api.Pod) or obj.node_name:
                state.set(obj)
    for pod in objects(world, api.Pod):
        assert isinstance(pod, api.Pod)
        # What a pod's status says, and the scheduler follows: a backup may bring a nomination back that keeps a place.
        if pod.nominated_node_name and scheduler.cluster.nominations.node_of(pod.uid) == pod.nominated_node_name:
            state.nominate(state.classes.info(pod), pod.nominated_node_name)
    return state


def objects(world: World, kind: type[api.Object]) -> list[api.Object]:
    return [each for each in world.server.client.stored(kind) if isinstance(each, kind)]


def _check_liveness(world: World, leader: Replica, scheduler: Scheduler, rebuilt: ClusterState) -> None:
    failed = world.witness_of(leader).failed_preemptions
    engines = build_engines(scheduler.config, world.around.registry(), rebuilt, Random(0))
    for pod in objects(world, api.Pod):
        assert isinstance(pod, api.Pod)
        engine = engines.get(pod.scheduler_name)
        waits = not pod.node_name and not pod.is_terminal and not pod.is_terminating
        if engine is None or not waits or pod.spec.scheduling_group is not None or pod.spec.scheduling_gates:
            continue
        if engine.framework.run_pre_enqueue(pod) is not None:
            continue
        if KNOCK in pod.labels and not any(opens(pod, each) for each in (pod, *rebuilt.all(api.Node))):
            continue
        decision = engine.schedule(rebuilt.classes.info(pod))
        if decision.outcome is Outcome.SCHEDULED and not _waits_as_upstream(world, scheduler, pod, decision.chosen):
            place = _place(scheduler, pod)
            world.report("pod not scheduled", f"{pod.key} fits on {decision.chosen} and waits ({place} in the queue)")
        elif decision.post_filter is not None and decision.post_filter.victims and pod.uid not in failed:
            place, victims = _place(scheduler, pod), [info.pod.key for info in decision.post_filter.victims]
            world.report("no preemption", f"{pod.key} could preempt {victims} and waits ({place} in the queue)")


def _waits_as_upstream(world: World, scheduler: Scheduler, pod: api.Pod, node: str) -> bool:
    """Whether a pod waits for the five-minute retry with upstream too.

    Such is a pod that only NodeVolumeLimits keeps from a node that came later, without a new CSINode: the plugin waits
    for CSINodes and not for nodes. The other case is InterPodAffinity's.
    """
    queued, leader, came = scheduler.queue.get(pod.uid), world.leader(), scheduler.cluster.get(api.Node, node)
    if queued is None or leader is None or came is None:
        return False
    witness, csi_node = world.witness_of(leader), scheduler.cluster.get(api.CSINode, node)
    if queued.rejectors == {"NodeVolumeLimits"}:
        return witness.is_new(came, pod) and (csi_node is None or not witness.is_new(csi_node, pod))
    return witness.waits_as_upstream(queued, came)


def _place(scheduler: Scheduler, pod: api.Pod) -> str:
    state = scheduler.queue.state_of(pod.uid)
    return "nowhere" if state is None else state.place


def _check_gangs(world: World, scheduler: Scheduler) -> None:
    """A gang of which enough members fit beside each other is scheduled."""
    for group in objects(world, api.PodGroup):
        assert isinstance(group, api.PodGroup)
        members = [pod for pod in objects(world, api.Pod) if isinstance(pod, api.Pod) and pod.pod_group == group.key]
        members = [pod for pod in members if not pod.is_terminal]
        missing = [pod for pod in members if not pod.node_name and not pod.is_terminating]
        if not missing or group.min_count is None:
            continue
        state = rebuild(world, scheduler)
        engines = build_engines(scheduler.config, world.around.registry(), state, Random(0))
        fitting = [pod for pod in missing if _fits_too(engines[pod.scheduler_name], state, pod)]
        if len(members) - len(missing) + len(fitting) >= max(group.min_count, 1) and fitting:
            places = {pod.name: _place(scheduler, pod) for pod in fitting}
            world.report("gang not scheduled", f"{group.key}: {len(fitting)} members fit and wait: {places}")


def _fits_too(engine: Engine, state: ClusterState, pod: api.Pod) -> bool:
    info = state.classes.info(pod)
    decision = engine.schedule(info)
    if decision.outcome is Outcome.SCHEDULED:
        state.assume(info, decision.chosen)
    return decision.outcome is Outcome.SCHEDULED


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
    if shared.pre_binding:
        world.report("left behind", f"in PreBind for ever: {', '.join(shared.pre_binding)}")
    if shared.queue._in_flight.event_count:
        world.report("left behind", "events are kept although no pod is in flight")
    _check_reservations(world, scheduler)
    for node in tuple(cluster.nominations.nodes):
        for info in cluster.nominations.on(node):
            if info.pod.uid not in pending:
                world.report("left behind", f"{info.pod.key} is nominated to {node} and does not wait")


def _check_reservations(world: World, scheduler: Scheduler) -> None:
    """Decisions about claims and volumes that were never written, nor taken back."""
    ledger = scheduler.cluster.share(Devices).ledger
    ledger.sync()
    if ledger._pending:
        world.report("left behind", f"devices are reserved for ever: {list(ledger._pending)}")
    bound = {pod.uid for pod in scheduler.known(api.Pod) if pod.node_name}
    for claim in objects(world, api.ResourceClaim):
        assert isinstance(claim, api.ResourceClaim)
        for consumer in claim.status.reserved_for:
            if consumer.uid not in bound and world.get(PODS, f"{claim.namespace}/{consumer.name}") is None:
                world.report("left behind", f"claim {claim.key} is reserved for {consumer.name}, which is gone")


def empty(world: World) -> None:
    """Delete all workloads and pods."""
    for storage in WORKLOADS:
        for key in world.keys(storage):
            world.delete(storage, key)
    for key in world.keys(PODS):
        world.let_go(key)
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
        if used.any() or cluster.nodes.tagged or cluster.counts._live:
            world.report("left behind", f"{replica.name} counts resources of pods that are gone")
        for pod, path in reachable_pods(
            scheduler, world.pods.everyone, (NetworkClient, Witness, type(world), *BOUNDED)
        ):
            world.report("memory", f"{replica.name} still holds {pod.key}: {path}")
            break
    return None
