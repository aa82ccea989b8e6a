"""PodTopologySpread: Filter on hard constraints, Score on soft ones, both from counts per domain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.api.selectors import Selector, SelectorError
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import Ids, Ints, Mask
from kubesched.cluster.view import Nodes
from kubesched.config.args import PodTopologySpreadArgs
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import MAX_NODE_SCORE, Codes, Handle, Plugin, Verdicts, once_per_value
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable
from kubesched.plugins.pod_topology_spread.constraints import (
    HOSTNAME,
    SYSTEM_DEFAULTS,
    Constraints,
    SpreadConstraint,
    compile_constraints,
    default_selector,
    round_half_up,
)

HARD, SOFT = "DoNotSchedule", "ScheduleAnyway"
TOO_SKEWED = unschedulable("node(s) didn't match pod topology spread constraints")
NO_LABEL = unresolvable("node(s) didn't match pod topology spread constraints (missing required label)")
_SKEW, _LABEL = 1, 2
_NO_DOMAIN = 2**31 - 1
"""The minimum where there is no domain: no skew exceeds it."""


@dataclass(slots=True)
class DomainState:
    """Matching pods per domain for one constraint, as a cycle or one of its what-ifs sees them."""

    constraint: SpreadConstraint
    own: int
    ids: Ids
    counts: Ints
    present: Mask

    def skewed(self) -> Mask:
        """Per domain, whether one more pod would exceed the skew; the last element is for nodes without the label."""
        counted = self.counts[self.present]
        lowest = int(counted.min()) if len(counted) else _NO_DOMAIN
        if len(counted) < self.constraint.min_domains:
            lowest = 0
        over = np.zeros(len(self.counts) + 1, dtype=np.bool_)
        over[:-1] = self.counts + self.own - lowest > self.constraint.max_skew
        return over


@dataclass(slots=True)
class SpreadState:
    """What PreFilter found."""

    constraints: Constraints
    domains: list[DomainState]

    def clone(self) -> SpreadState:
        """A copy whose counts may change."""
        copies = [DomainState(d.constraint, d.own, d.ids, d.counts.copy(), d.present) for d in self.domains]
        return SpreadState(self.constraints, copies)


@dataclass(slots=True)
class ScoreState:
    """What PreScore found for the feasible nodes."""

    constraints: Constraints
    ignored: Mask | None
    weights: list[float] = field(default_factory=list)


class PodTopologySpread(Plugin):
    """Filter and Score on `spec.topologySpreadConstraints`, or on default constraints where a pod has none."""

    name = "PodTopologySpread"
    args_type = PodTopologySpreadArgs
    relies_on = frozenset(("preFilter", "preScore"))

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._system = args.defaulting_type == "System"
        self._defaults = SYSTEM_DEFAULTS if self._system else args.default_constraints
        self._default_actions = {constraint.when_unsatisfiable for constraint in self._defaults}
        self._sizes: dict[str, tuple[tuple[int, int], int]] = {}
        """How many domains a topology key has among all nodes, with the version and the number of the nodes."""

    def sign(self, pod: api.Pod) -> Signature | Status:
        if pod.spec.topology_spread_constraints:
            return unschedulable("pods with topology constraints are not signable")
        return unschedulable("pods with default topology constraints are not signable") if self._defaults else {}

    def events_to_register(self) -> list[EventHint]:
        pods = Action.ADD | Action.UPDATE_POD_LABEL | Action.UPDATE_POD_TOLERATION | Action.DELETE
        nodes = Action.ADD | Action.DELETE | Action.UPDATE_NODE_LABEL | Action.UPDATE_NODE_TAINT
        return [on(Resource.POD, pods, self._after_pod_change), on(Resource.NODE, nodes, self._after_node_change)]

    # Filter

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        try:
            constraints = self._constraints(state, pod, HARD)
        except SelectorError as problem:
            return error(f"get constraints from pod: obtaining pod's hard topology spread constraints: {problem}")
        if not constraints:
            return SKIP
        state.write(self, SpreadState(constraints, [self._domain(pod, constraints, c) for c in constraints.items]))
        return None

    def add_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        self._update(state, pod, info.pod, row, 1)

    def remove_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        self._update(state, pod, info.pod, row, -1)

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        domains = state.read(self, SpreadState).domains
        return other.namespace == pod.namespace and any(d.constraint.selector.matches(other.labels) for d in domains)

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        codes: Codes = np.zeros(0, dtype=np.int8)
        for domain in reversed(state.read(self, SpreadState).domains):
            by_domain = domain.skewed().astype(np.int8)  # True becomes _SKEW
            by_domain[-1] = _LABEL  # ids are -1 where the label is absent
            found = by_domain.take(nodes.of_rows(domain.ids))
            codes = np.where(found, found, codes) if len(codes) else found
        return Verdicts(codes, {_SKEW: TOO_SKEWED, _LABEL: NO_LABEL}.__getitem__) if codes.any() else None

    def _domain(self, pod: api.Pod, constraints: Constraints, constraint: SpreadConstraint) -> DomainState:
        found = constraints.domains(self.handle.cluster, pod.namespace, constraint)
        own = int(constraint.selector.matches(pod.labels))
        return DomainState(constraint, own, found.column.ids, found.counts, found.present)

    def _update(self, state: CycleState, pod: api.Pod, other: api.Pod, row: int, delta: int) -> None:
        """Count a pod in or out. As upstream, terminating pods count here, too."""
        if other.namespace != pod.namespace:
            return
        found = state.read(self, SpreadState)
        window = Nodes(self.handle.cluster.nodes, slice(row, row + 1))
        for domain in found.domains:
            matches = domain.constraint.selector.matches(other.labels)
            if matches and found.constraints.counts_node(window, domain.constraint)[0]:
                domain.counts[domain.ids[row]] += delta

    # Score

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        try:
            constraints = self._constraints(state, pod, SOFT)
        except SelectorError as problem:
            text = f"obtaining pod's soft topology spread constraints: {problem}"
            return error(f"calculating preScoreState: {text}")
        if not constraints:
            return SKIP
        ignored: Mask | None = _without_keys(constraints, nodes)
        if ignored is not None and not ignored.any():
            ignored = None
        found = ScoreState(constraints, ignored)
        counted = len(nodes) - (0 if ignored is None else int(np.count_nonzero(ignored)))
        for constraint in constraints.items:
            is_host = constraint.topology_key == HOSTNAME
            size = counted if is_host else self._distinct(nodes, constraint.topology_key, ignored)
            found.weights.append(math.log(size + 2))
        state.write((self, SOFT), found)
        return None

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        found = state.read((self, SOFT), ScoreState)
        rounded = self._score_by_domain(found, pod, nodes)
        if found.ignored is not None:
            rounded[_without_keys(found.constraints, nodes)] = 0
        return rounded

    def _score_by_domain(self, found: ScoreState, pod: api.Pod, nodes: Nodes) -> Ints:
        """The sum over all constraints, rounded. With one constraint it is rounded per domain, not per node."""
        cluster, items = self.handle.cluster, found.constraints.items
        total: npt.NDArray[np.float64] | float = 0.0
        for constraint, weight in zip(items, found.weights, strict=True):
            ids = nodes.label(constraint.topology_key)
            constant = float(constraint.max_skew - 1)
            if constraint.topology_key == HOSTNAME:
                counter = found.constraints.counter(cluster, pod.namespace, constraint)
                counts = nodes.of_rows(counter.on(nodes.table.size))
                total = total + np.where(ids >= 0, counts * weight + constant, 0.0)
                continue
            counts = found.constraints.counts(cluster, pod.namespace, constraint)
            by_domain = np.zeros(len(counts) + 1)  # the last one is for nodes without the label, whose id is -1
            by_domain[:-1] = counts * weight + constant
            if len(items) == 1:
                return round_half_up(by_domain).take(ids)
            total = total + by_domain.take(ids)
        return round_half_up(np.asarray(total))

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        ignored = state.read((self, SOFT), ScoreState).ignored
        counted = scores if ignored is None else scores[~ignored]
        highest = int(counted.max(initial=0))
        if highest == 0:
            scaled = np.full_like(scores, MAX_NODE_SCORE)
        else:
            most = highest + int(counted.min())
            scaled = once_per_value(scores, highest, lambda each: MAX_NODE_SCORE * (most - each) // highest)
        if ignored is not None:
            scaled[ignored] = 0
        return scaled

    def _distinct(self, nodes: Nodes, key: str, ignored: Mask | None) -> int:
        """How many values a label has among nodes. A missing label counts as the empty value."""
        table, rows = nodes.table, nodes.rows
        is_whole = isinstance(rows, slice) and rows == slice(0, table.size) and table is self.handle.cluster.nodes
        is_whole = is_whole and ignored is None
        stamp = (table.topology_version, table.size)
        cached = self._sizes.get(key)
        if is_whole and cached is not None and cached[0] == stamp:
            return cached[1]
        values, ids = nodes.label_column(key), nodes.label(key)
        seen = np.zeros(len(values.values) + 1, dtype=np.bool_)
        seen[ids if ignored is None else ids[~ignored]] = True
        empty = values.index.get("")
        if empty is not None and seen[-1]:
            seen[empty] = False
        size = int(np.count_nonzero(seen))
        if is_whole and key in table.label_columns:
            self._sizes[key] = (stamp, size)
        return size

    # Constraints of a pod

    def _constraints(self, state: CycleState, pod: api.Pod, action: str) -> Constraints:
        own = pod.spec.topology_spread_constraints
        if own:
            return state.pod_class.remember((self, action), lambda: self._compiled(pod, own, action))
        return self._default_constraints(state, pod, action)

    def _default_constraints(self, state: CycleState, pod: api.Pod, action: str) -> Constraints:
        """Default constraints apply to pods that services or controllers select, which may change with any of those."""
        if action not in self._default_actions:
            return _NONE
        cluster = self.handle.cluster
        stamp = (pod.metadata.owner_references, cluster.objects.selecting_version)
        memo = state.pod_class.memo
        cached = memo.get((self, action))
        if isinstance(cached, tuple) and cached[0] == stamp:
            return cached[1]  # type: ignore[no-any-return]  # stored below
        selector = default_selector(cluster, pod)
        constraints = _NONE
        if not selector.is_empty:
            constraints = self._compiled(pod, self._defaults, action, selector, all_keys=not self._system)
        memo[self, action] = (stamp, constraints)
        return constraints

    def _compiled(
        self,
        pod: api.Pod,
        constraints: Sequence[api.TopologySpreadConstraint],
        action: str,
        selector: Selector | None = None,
        *,
        all_keys: bool = True,
    ) -> Constraints:
        features = self.handle.features
        return compile_constraints(pod, constraints, action, selector=selector, all_keys=all_keys, features=features)

    # Hints

    def _hard(self, pod: api.Pod) -> Constraints:
        own = pod.spec.topology_spread_constraints
        if own:
            return self._compiled(pod, own, HARD)
        selector = default_selector(self.handle.cluster, pod)
        return _NONE if selector.is_empty else self._compiled(pod, self._defaults, HARD, selector)

    def _after_pod_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        others = [other for other in (old, new) if isinstance(other, api.Pod)]
        if not all(_involved(other, pod) for other in others):
            why = (
                "the added/updated/deleted pod is unscheduled or has different namespace with target pod, so it "
                "doesn't make the target pod schedulable"
            )
            return skip_because(log, 5, why, pod=pod, originalPod=old or "")
        if len(others) == 2:
            return self._after_pod_update(pod, *others)
        matches = any(c.selector.matches(others[0].labels) for c in self._hard(pod).items)
        if new is None:
            if matches:
                why = (
                    "a scheduled pod which matches with the pod's topology spread constraints was deleted, and the "
                    "pod may be schedulable now"
                )
                return queue_because(log, 5, why, pod=pod, deletedPod=old)
            why = "a scheduled pod was deleted, but it's unrelated to the pod's topology spread constraints"
            return skip_because(log, 5, why, pod=pod, deletedPod=old)
        if matches:
            why = "a scheduled pod was created and it matches with the pod's topology spread constraints"
            return queue_because(log, 5, why, pod=pod, createdPod=new)
        why = "a scheduled pod was created, but it doesn't matches with the pod's topology spread constraints"
        return skip_because(log, 5, why, pod=pod, createdPod=new)

    def _after_pod_update(self, pod: api.Pod, before: api.Pod, after: api.Pod) -> Hint:
        log, items = self.handle.log, self._hard(pod).items
        tolerates_more = after.uid == pod.uid and after.spec.tolerations != before.spec.tolerations
        if tolerates_more and any(c.honor_taints for c in items):
            why = "the unschedulable pod has got a new toleration, which could make it schedulable"
            return queue_because(log, 5, why, pod=pod, modifiedPod=after)
        if before.labels == after.labels:
            why = "the pod's update doesn't include the label update, which doesn't make the target pod schedulable"
            return skip_because(log, 5, why, pod=pod, modifiedPod=after)
        if any(c.selector.matches(before.labels) != c.selector.matches(after.labels) for c in items):
            why = (
                "a scheduled pod's label was updated and it makes the updated pod match or unmatch the pod's "
                "topology spread constraints"
            )
            return queue_because(log, 5, why, pod=pod, modifiedPod=after)
        why = (
            "a scheduled pod's label was updated, but it's a change unrelated to the pod's topology spread constraints"
        )
        return skip_because(log, 5, why, pod=pod, modifiedPod=after)

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        keys = [constraint.topology_key for constraint in self._hard(pod).items]

        def has_all(node: api.Object | None) -> bool:
            return node is not None and all(key in node.labels for key in keys)

        log, matched, matches = self.handle.log, has_all(old), has_all(new)
        if not (isinstance(old, api.Node) and isinstance(new, api.Node)):
            if matches:
                why = "the created node matches topology spread constraints, and the pod may be schedulable now"
                return queue_because(log, 5, why, pod=pod, node=new)
            if matched:
                why = "the deleted node matches topology spread constraints, and the pod may be schedulable now"
                return queue_because(log, 5, why, pod=pod, node=old)
            if new is None:
                why = "the deleted node doesn't match pod topology spread constraints"
                return skip_because(log, 5, why, pod=pod, node=old)
            return skip_because(
                log, 5, "the created node doesn't match pod topology spread constraints", pod=pod, node=new
            )
        if matched != matches:
            why = (
                "the node is updated and now pod topology spread constraints has changed, and the pod may be "
                "schedulable now"
            )
            return queue_because(log, 5, why, pod=pod, node=new, originalMatching=matched, newMatching=matches)
        moved = any(old.labels.get(key, "") != new.labels.get(key, "") for key in keys)
        if matches and (moved or old.spec.taints != new.spec.taints):
            why = "the node is updated and now has different taints or labels, and the pod may be schedulable now"
            return queue_because(log, 5, why, pod=pod, node=new)
        return Hint.SKIP


_NONE = compile_constraints(api.Pod(), (), SOFT)


def _without_keys(constraints: Constraints, nodes: Nodes) -> Mask | None:
    """Where one of the topology keys is missing; None if none is needed."""
    without: Mask | None = None
    for key in constraints.keys:
        here = nodes.label(key) < 0
        without = here if without is None else without | here
    return without


def _involved(other: api.Pod, pod: api.Pod) -> bool:
    if other.uid == pod.uid:
        return True
    return bool(other.node_name or other.nominated_node_name) and other.namespace == pod.namespace
