"""TaintToleration: respect NoSchedule and NoExecute taints, and prefer nodes with fewer PreferNoSchedule ones."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.api.taints import HARD_EFFECTS, PREFER_NO_SCHEDULE, tolerates, untolerated
from kubesched.cluster.matching import per_taint_set, untolerated_mask
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Handle, Plugin, Reads, Verdicts, default_normalize, reject
from kubesched.framework.signatures import Signature, tolerations
from kubesched.framework.state import CycleState
from kubesched.framework.status import unresolvable

UNTOLERATED = unresolvable("node(s) had untolerated taint(s)")
NEW_TOLERATION = "a new toleration is added for the unschedulable Pod, and it may make it schedulable"
OF_ANOTHER_POD = (
    "a new toleration is added for a Pod, but it's an unrelated Pod and wouldn't change the TaintToleration "
    "plugin's decision"
)


class TaintToleration(Plugin):
    """Filter and Score on taints, evaluated once per distinct set of taints."""

    name = "TaintToleration"
    reads = Reads.NODE
    relies_on = frozenset(("preScore",))

    def __init__(self, args: object, handle: Handle) -> None:
        super().__init__(args, handle)
        self._compare = handle.features.taint_toleration_comparison_operators

    def sign(self, pod: api.Pod) -> Signature:
        return tolerations(pod)

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_TAINT, self._after_node_change, by_spec=True),
            on(Resource.POD, Action.UPDATE_POD_TOLERATION, self._after_toleration_change),
        ]

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        return reject(untolerated_mask(nodes, pod.spec.tolerations, HARD_EFFECTS, compare=self._compare), UNTOLERATED)

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> None:
        self._soft_tolerations(state, pod)

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        tolerations = self._soft_tolerations(state, pod)

        def intolerable(taints: tuple[api.Taint, ...]) -> int:
            soft = (taint for taint in taints if taint.effect == PREFER_NO_SCHEDULE)
            return sum(not any(tolerates(t, taint, compare=self._compare) for t in tolerations) for taint in soft)

        if not any(map(intolerable, nodes.table.taint_sets)):
            return 0
        counts = per_taint_set(nodes, intolerable)
        return counts if counts.any() else 0

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return default_normalize(scores, reverse=True)

    def _soft_tolerations(self, state: CycleState, pod: api.Pod) -> tuple[api.Toleration, ...]:
        return state.pod_class.remember(
            self, lambda: tuple(t for t in pod.spec.tolerations if t.effect in ("", PREFER_NO_SCHEDULE))
        )

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        def keeps_out(node: api.Object | None) -> bool:
            if not isinstance(node, api.Node):
                return True
            return untolerated(node.spec.taints, pod.spec.tolerations, compare=self._compare) is not None

        if keeps_out(old) and not keeps_out(new):
            why = (
                "node was created or updated, and this may make the Pod rejected by TaintToleration plugin in the "
                "previous scheduling cycle schedulable"
            )
            return queue_because(self.handle.log, 5, why, pod=pod, node=new)
        why = "node was created or updated, but it doesn't change the TaintToleration plugin's decision"
        return skip_because(self.handle.log, 5, why, pod=pod, node=new)

    def _after_toleration_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        if new is not None and new.uid == pod.uid:
            return queue_because(self.handle.log, 5, NEW_TOLERATION, pod=new)
        return skip_because(self.handle.log, 5, OF_ANOTHER_POD, pod=new)
