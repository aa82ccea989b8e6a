"""Where a pod stands before any decision: gated, another scheduler's, leaving, nominated, waiting, or to be decided."""

from __future__ import annotations

from collections.abc import Collection
from enum import StrEnum

import msgspec
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.explain.change import Change
from kubesched.explain.commands import patch
from kubesched.explain.rules.rule import some


class State(StrEnum):
    """Where a pod stands."""

    BOUND = "bound"
    FINISHED = "finished"
    TERMINATING = "terminating"
    GATED = "gated"
    FOREIGN = "foreignScheduler"
    NO_SUCH_NODE = "noSuchNode"
    NOMINATED = "nominated"
    WAITING = "waitingAtPermit"
    BACKOFF = "backoff"
    SCHEDULABLE = "schedulable"
    """A node fits: the scheduler has not tried the pod again yet."""
    PENDING = "pending"
    """No node fits."""


PENDING_STATES = frozenset(State) - {State.BOUND, State.FINISHED, State.TERMINATING}


class Queued(msgspec.Struct, frozen=True, rename="camel"):
    """What a running scheduler says about a pod in its queue."""

    queue: str = ""
    """active, backoff, unschedulable, gated, inflight or waiting"""
    tries: int | None = None
    place: int | None = None
    until: str = ""
    """When the backoff, or the wait at Permit, ends."""
    plugins: tuple[str, ...] = ()
    """Permit plugins that have not allowed the pod yet."""
    wakes: tuple[str, ...] = ()
    """Events that would have the pod tried again."""


class Standing(msgspec.Struct, frozen=True):
    """A pod's state, in words, and what has to change before a decision is about it."""

    state: State
    words: str = ""
    changes: tuple[Change, ...] = ()
    node: str = ""
    """The node that the pod is on."""
    final: bool = False
    """Whether no decision will ever be made about the pod."""
    is_served: bool = False
    """Whether a node is chosen already, so that nothing has to change."""


def standing(pod: api.Pod, cluster: ClusterState, schedulers: Collection[str], queued: Queued | None) -> Standing:
    """Where a pod stands, from its object, and from the scheduler's queue if that is known."""
    if pod.is_terminal:
        return Standing(State.FINISHED, f"The pod has ended: its phase is {pod.status.phase}.", final=True)
    if pod.is_terminating:
        since = pod.metadata.deletion_timestamp
        return Standing(State.TERMINATING, f"The pod is being deleted (since {since}). It gets no node.", final=True)
    if pod.node_name:
        return _on_node(pod, cluster)
    for check in (_gated, _foreign):
        found = check(pod, schedulers)
        if found is not None:
            return found
    if queued is not None:
        found = _queued(queued)
        if found is not None:
            return found
    return _nominated(pod, cluster) or Standing(State.PENDING)


def _on_node(pod: api.Pod, cluster: ClusterState) -> Standing:
    if cluster.get(api.Node, pod.node_name) is not None:
        return Standing(State.BOUND, f"The pod is on {pod.node_name}.", node=pod.node_name)
    words = f"The pod names node {pod.node_name} in spec.nodeName, and the cluster has no such node. "
    words += "No scheduler looks at a pod with a node name."

    def drop(old: api.Pod) -> api.Pod:
        return replace(old, spec=replace(old.spec, node_name=""))

    change = Change("nodeName", "recreate the pod without spec.nodeName", 2, edit=drop)
    return Standing(State.NO_SUCH_NODE, words, (change,))


def _gated(pod: api.Pod, schedulers: Collection[str]) -> Standing | None:
    gates = [gate.name for gate in pod.spec.scheduling_gates]
    if not gates:
        return None
    words = f"The pod waits for its scheduling gates to be removed: {', '.join(gates)}."

    def remove(old: api.Pod) -> api.Pod:
        return replace(old, spec=replace(old.spec, scheduling_gates=()))

    command = patch(pod, [{"op": "remove", "path": "/spec/schedulingGates"}])
    what = f"remove the scheduling gate{'s' * (len(gates) > 1)} {', '.join(gates)}"
    return Standing(State.GATED, words, (Change("gate", what, 1, edit=remove, commands=(command,)),))


def _foreign(pod: api.Pod, schedulers: Collection[str]) -> Standing | None:
    name = pod.scheduler_name
    if name in schedulers:
        return None
    known = sorted(schedulers)
    words = f"The pod is for scheduler {name}, which the configuration does not have; it has {some(known)}."
    chosen = api.DEFAULT_SCHEDULER_NAME if api.DEFAULT_SCHEDULER_NAME in schedulers else known[0]

    def rename(old: api.Pod) -> api.Pod:
        return replace(old, spec=replace(old.spec, scheduler_name=chosen))

    what = f"start scheduler {name}, or recreate the pod with schedulerName {chosen}"
    return Standing(State.FOREIGN, words, (Change("scheduler", what, 2, edit=rename),))


def _nominated(pod: api.Pod, cluster: ClusterState) -> Standing | None:
    name = pod.nominated_node_name
    if not name:
        return None
    row = cluster.nodes.row_of.get(name)
    infos = cluster.nodes.pods[row].values() if row is not None else ()
    leaving = [info.pod.key for info in infos if info.pod.is_terminating]
    waits = f"It waits for {some(leaving)} to end." if leaving else "No pod there is ending any more."
    return Standing(State.NOMINATED, f"The pod is nominated to {name}. {waits}", is_served=bool(leaving))


def _queued(queued: Queued) -> Standing | None:
    until = f" until {queued.until}" if queued.until else ""
    if queued.queue == "waiting":
        whom = f" for {', '.join(queued.plugins)}" if queued.plugins else ""
        return Standing(State.WAITING, f"The pod has a node and waits at Permit{whom}{until}.", is_served=True)
    if queued.queue == "inflight":
        return Standing(State.WAITING, "The scheduler is at work: the pod is being bound, or waits at Permit.")
    if queued.queue == "backoff":
        tries = f" after {queued.tries} tries" if queued.tries else ""
        return Standing(State.BACKOFF, f"The scheduler waits{until} before it tries the pod again{tries}.")
    return None
