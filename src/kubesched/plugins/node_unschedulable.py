"""NodeUnschedulable: keep pods off cordoned nodes, unless they tolerate the unschedulable taint."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.api.taints import tolerates_unschedulable
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Plugin, Reads, Verdicts, reject
from kubesched.framework.signatures import Signature, tolerations
from kubesched.framework.state import CycleState
from kubesched.framework.status import unresolvable
from kubesched.plugins.taint_toleration import NEW_TOLERATION, OF_ANOTHER_POD

UNSCHEDULABLE = unresolvable("node(s) were unschedulable")


class NodeUnschedulable(Plugin):
    """Filter on `spec.unschedulable`."""

    name = "NodeUnschedulable"
    reads = Reads.NODE

    def sign(self, pod: api.Pod) -> Signature:
        return tolerations(pod)

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._after_node_change, by_spec=True),
            on(Resource.POD, Action.UPDATE_POD_TOLERATION, self._after_toleration_change),
        ]

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        cordoned = nodes.unschedulable
        if not cordoned.any() or tolerates_unschedulable(pod.spec.tolerations):
            return None
        return reject(cordoned, UNSCHEDULABLE)

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        was_open = isinstance(old, api.Node) and not old.spec.unschedulable
        is_open = isinstance(new, api.Node) and not new.spec.unschedulable
        log = self.handle.log
        if is_open and not was_open:
            why = "node was created or updated, pod may be schedulable now"
            return queue_because(log, 5, why, pod=pod, node=new)
        why = "node was created or updated, but it doesn't make this pod schedulable"
        return skip_because(log, 5, why, pod=pod, node=new)

    def _after_toleration_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if not isinstance(new, api.Pod):
            return Hint.SKIP
        if new.uid != pod.uid:
            return skip_because(log, 5, OF_ANOTHER_POD, pod=new)
        if tolerates_unschedulable(new.spec.tolerations):
            return queue_because(log, 5, NEW_TOLERATION, pod=new)
        why = "a new toleration is added for the unschedulable Pod, but it's an unrelated toleration"
        return skip_because(log, 5, why, pod=new)
