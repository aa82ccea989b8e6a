"""NodeUnschedulable: keep pods off cordoned nodes, unless they tolerate the unschedulable taint."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.api.taints import tolerates_unschedulable
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on
from kubesched.framework.plugin import Plugin, Reads, Verdicts, reject
from kubesched.framework.signatures import Signature, tolerations
from kubesched.framework.state import CycleState
from kubesched.framework.status import unresolvable

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
        return Hint.QUEUE if is_open and not was_open else Hint.SKIP

    def _after_toleration_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        changed = isinstance(new, api.Pod) and new.uid == pod.uid and tolerates_unschedulable(new.spec.tolerations)
        return Hint.QUEUE if changed else Hint.SKIP
