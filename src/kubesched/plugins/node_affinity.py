"""NodeAffinity: `nodeSelector`, required and preferred node affinity, and affinity added by the configuration."""

from __future__ import annotations

import numpy as np

from kubesched.api import objects as api
from kubesched.api.selectors import (
    IN,
    NAME_FIELD,
    CompiledNodeSelector,
    PreferredSchedulingTerms,
    RequiredNodeAffinity,
    SelectorError,
    preferred_terms,
    required_node_affinity,
    strict_node_selector,
)
from kubesched.cluster.matching import node_selector_mask, required_affinity_mask, term_mask
from kubesched.cluster.table import Ints
from kubesched.cluster.view import Nodes
from kubesched.config.args import NodeAffinityArgs
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import Handle, Plugin, Reads, Verdicts, default_normalize
from kubesched.framework.signatures import Signature, unordered
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable

NOT_POD = unresolvable("node(s) didn't match Pod's node affinity/selector")
NOT_ENFORCED = unresolvable("node(s) didn't match scheduler-enforced node affinity")
CONFLICT = unresolvable("pod affinity terms conflict")
_ENFORCED, _POD = 1, 2


class NodeAffinity(Plugin):
    """PreFilter, Filter and Score on node labels and names."""

    name = "NodeAffinity"
    args_type = NodeAffinityArgs
    reads = Reads.NODE

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added_affinity
        required = added and added.required_during_scheduling_ignored_during_execution
        preferred = added and added.preferred_during_scheduling_ignored_during_execution
        self._enforced: CompiledNodeSelector | None = strict_node_selector(required) if required else None
        self._added: PreferredSchedulingTerms | None = preferred_terms(preferred) if preferred else None

    def sign(self, pod: api.Pod) -> Signature:
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        return {
            "v1.Pod.Spec.Affinity.NodeAffinity": unordered(affinity),
            "v1.Pod.Spec.Affinity.NodeSelector": pod.spec.node_selector,
        }

    def events_to_register(self) -> list[EventHint]:
        return [on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node_change, by_spec=True)]

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | frozenset[str] | None:
        required = _required(pod)
        if required is None:
            return None if self._enforced is not None or pod.spec.node_selector else SKIP
        names = _named_nodes(required)
        if names is None:
            return None
        return names or CONFLICT

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        codes = np.zeros(len(nodes), dtype=np.int8)
        codes[~required_affinity_mask(nodes, self._wanted(state, pod))] = _POD
        if self._enforced is not None:
            codes[~node_selector_mask(nodes, self._enforced)] = _ENFORCED
        return Verdicts(codes, {_ENFORCED: NOT_ENFORCED, _POD: NOT_POD}.__getitem__) if codes.any() else None

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        try:
            preferred = self._preferred(state, pod)
        except SelectorError as problem:
            return error(str(problem))
        return SKIP if preferred is None and self._added is None else None

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints | int:
        scores = np.zeros(len(nodes), dtype=np.int64)
        for terms in (self._added, self._preferred(state, pod)):
            for preferred in terms.terms if terms is not None else ():
                scores += preferred.weight * term_mask(nodes, preferred.term)
        return scores

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        return default_normalize(scores)

    def _wanted(self, state: CycleState, pod: api.Pod) -> RequiredNodeAffinity:
        return state.pod_class.remember((self, "required"), lambda: required_node_affinity(pod))

    def _preferred(self, state: CycleState, pod: api.Pod) -> PreferredSchedulingTerms | None:
        affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
        terms = affinity.preferred_during_scheduling_ignored_during_execution if affinity else ()
        return state.pod_class.remember((self, "preferred"), lambda: preferred_terms(terms)) if terms else None

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if new is None:
            return Hint.SKIP
        if self._enforced is not None and not self._enforced.matches(new.labels, new.name):
            why = (
                "added or modified node didn't match scheduler-enforced node affinity and this event won't make "
                "the Pod schedulable"
            )
            return skip_because(log, 4, why, pod=pod, node=new)
        wanted = required_node_affinity(pod)
        if not wanted.matches(new.labels, new.name):
            # With a term that does not parse, upstream cannot decide and queues the pod.
            if wanted.affinity is not None and wanted.affinity.error and wanted.selector.matches(new.labels):
                return Hint.QUEUE
            why = "node was created or updated, but the pod's NodeAffinity doesn't match"
            return skip_because(log, 5, why, pod=pod, node=new)
        if old is None:
            return queue_because(log, 5, "node was created, and matches with the pod's NodeAffinity", pod=pod, node=new)
        if wanted.matches(old.labels, old.name):
            return skip_because(log, 5, "node updated, but the pod's NodeAffinity hasn't changed", pod=pod, node=new)
        return queue_because(
            log, 5, "node was updated and the pod's NodeAffinity changed to matched", pod=pod, node=new
        )


def _required(pod: api.Pod) -> api.NodeSelector | None:
    affinity = pod.spec.affinity and pod.spec.affinity.node_affinity
    return affinity.required_during_scheduling_ignored_during_execution if affinity else None


def _named_nodes(selector: api.NodeSelector) -> frozenset[str] | None:
    """The only nodes that can match, if every term names nodes; None if some term does not."""
    union: set[str] = set()
    for term in selector.node_selector_terms:
        named = [set(f.values) for f in term.match_fields if f.key == NAME_FIELD and f.operator == IN]
        if not named:
            return None
        union |= set.intersection(*named)
    return frozenset(union) if selector.node_selector_terms else None
