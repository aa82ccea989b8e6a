"""NodePorts: a host port can be taken once per node, protocol and address."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.cluster.pods import ANY_ADDRESS, host_ports
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Plugin, Reads, Verdicts, reject
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, unschedulable

TAKEN = unschedulable("node(s) didn't have free ports for the requested pod ports")

Port = tuple[str, int, str]


class NodePorts(Plugin):
    """Filter on host ports, by looking up their users."""

    name = "NodePorts"
    reads = Reads.PODS
    relies_on = frozenset(("preFilter",))

    def sign(self, pod: api.Pod) -> Signature:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return {"v1.Pod.Spec.HostPorts()": sorted({p.host_port for c in containers for p in c.ports if p.host_port})}

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.DELETE, self._after_pod_deleted, by_spec=True),
            on(Resource.NODE, Action.ADD),
        ]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        return None if self._wanted(state, pod) else SKIP

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        taken = np.zeros(nodes.table.size, dtype=np.bool_)
        tagged = nodes.table.tagged
        for protocol, port, address in self._wanted(state, pod):
            for other in ("*",) if address == ANY_ADDRESS else (address, ANY_ADDRESS):
                rows = tagged.get(("port", protocol, port, other))
                if rows:
                    taken[list(rows)] = True
        return reject(taken[nodes.rows], TAKEN)

    def _wanted(self, state: CycleState, pod: api.Pod) -> tuple[Port, ...]:
        return state.pod_class.remember((self, "ports"), lambda: host_ports(pod.spec))

    def _after_pod_deleted(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if not isinstance(old, api.Pod):
            return Hint.SKIP
        if not (old.node_name or old.nominated_node_name):
            why = "the deleted pod is unscheduled and it doesn't make the target pod schedulable"
            return skip_because(log, 4, why, pod=pod, deletedPod=old)
        freed = host_ports(old.spec)
        if not freed:
            return Hint.SKIP
        if any(_collide(a, b) for a in host_ports(pod.spec) for b in freed):
            why = (
                "the deleted pod and the target pod have any common port(s), returning Queue as deleting this Pod "
                "may make the Pod schedulable"
            )
            return queue_because(log, 4, why, pod=pod, deletedPod=old)
        why = (
            "the deleted pod and the target pod don't have any common port(s), returning QueueSkip as deleting "
            "this Pod won't make the Pod schedulable"
        )
        return skip_because(log, 4, why, pod=pod, deletedPod=old)


def _collide(one: Port, other: Port) -> bool:
    same_port = one[:2] == other[:2]
    return same_port and (one[2] == other[2] or ANY_ADDRESS in (one[2], other[2]))
