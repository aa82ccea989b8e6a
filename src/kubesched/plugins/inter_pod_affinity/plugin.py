"""InterPodAffinity: Filter on required terms, Score on preferred ones, in both directions.

A required anti-affinity of a running pod keeps the incoming pod away just like the incoming pod's own, and the
preferences of running pods count as well. Everything is computed from counts per domain that the cluster maintains.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from kubesched.api import objects as api
from kubesched.cluster.counters import RowCounter
from kubesched.cluster.counts import NO_LABELS, TermCounter
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import Ints, LabelColumn
from kubesched.cluster.terms import AffinityTerm, AffinityTerms, affinity_terms
from kubesched.cluster.view import Nodes
from kubesched.config.args import InterPodAffinityArgs
from kubesched.framework.events import Action, EventHint, Hint, Resource, on, queue_because, skip_because
from kubesched.framework.plugin import MAX_NODE_SCORE, Codes, Plugin, Verdicts, once_per_value
from kubesched.framework.signatures import Signature
from kubesched.framework.state import CycleState
from kubesched.framework.status import SKIP, Status, error, unresolvable, unschedulable

EXISTING_ANTI = unschedulable("node(s) didn't satisfy existing pods anti-affinity rules")
NO_AFFINITY = unresolvable("node(s) didn't match pod affinity rules")
ANTI = unschedulable("node(s) didn't match pod anti-affinity rules")
FEW = 16
"""One of so many nodes are few."""
_STATUSES = {1: EXISTING_ANTI, 2: ANTI, 3: NO_AFFINITY}
"""By code. Of several that apply to a node, the highest counts."""


@dataclass(slots=True)
class KeyCounts:
    """Counts per domain of one topology key, and a 0 at the end for nodes without the label, whose id is -1."""

    column: LabelColumn
    counts: Ints

    def any(self) -> bool:
        return bool(self.counts.max() > 0)

    def add(self, row: int, delta: int) -> None:
        domain = self.column.ids[row]
        if domain >= 0:
            self.counts[domain] += delta


Counts = dict[str, KeyCounts]
Bytes = npt.NDArray[np.int8]


@dataclass(slots=True)
class AffinityState:
    """What PreFilter found, by topology key."""

    affinity: Counts
    anti_affinity: Counts
    existing_anti: Counts

    def clone(self) -> AffinityState:
        """A copy whose counts may change."""
        return AffinityState(
            *(
                {key: KeyCounts(c.column, c.counts.copy()) for key, c in counts.items()}
                for counts in (self.affinity, self.anti_affinity, self.existing_anti)
            )
        )


@dataclass(slots=True)
class _Selecting:
    """The terms of running pods that select one class, found in the cluster's list of terms so far."""

    version: int
    labels: Mapping[str, str]
    seen: int = 0
    by_kind: dict[str, list[TermCounter]] = field(default_factory=dict)


class InterPodAffinity(Plugin):
    """Filter and Score on `spec.affinity.podAffinity` and `podAntiAffinity`, of this pod and of those running."""

    name = "InterPodAffinity"
    args_type = InterPodAffinityArgs
    relies_on = frozenset(("preFilter", "preScore"))

    def sign(self, pod: api.Pod) -> Signature | Status:
        affinity = pod.spec.affinity
        if affinity is not None and (affinity.pod_affinity is not None or affinity.pod_anti_affinity is not None):
            return unschedulable("pods with InterPodAffinity are not signable")
        ignored = self.args.ignore_preferred_terms_of_existing_pods
        return {} if ignored else {"v1.Pod.Labels": pod.metadata.labels}

    def events_to_register(self) -> list[EventHint]:
        return [
            on(Resource.POD, Action.ADD | Action.DELETE, self._after_pod_change, by_class=True),
            on(Resource.POD, Action.UPDATE_POD_LABEL, self._after_pod_change),
            on(Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL, self._after_node_change, by_class=True),
        ]

    # Filter

    def pre_filter(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        terms = state.pod_class.terms
        if terms.error is not None:
            return unresolvable(f"parsing pod: {terms.error}")
        existing: Counts = {}
        for counter in self._selecting(state.pod_class).get("anti-affinity", ()):
            if counter.total:
                self._sum(existing, counter, counter.term.topology_key)
        existing = {key: counts for key, counts in existing.items() if counts.any()}
        if not existing and not terms.required and not terms.required_anti:
            return SKIP
        affinity: Counts = {}
        if terms.required:
            matching = self.handle.cluster.counts.affinity(terms.required)
            for term in terms.required:
                self._sum(affinity, matching, term.topology_key)
        anti: Counts = {}
        for term in terms.required_anti:
            self._sum(anti, self.handle.cluster.counts.affinity((term,)), term.topology_key)
        state.write(self, AffinityState(affinity, anti, existing))
        return None

    def add_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        self._update(state, info, row, 1)

    def remove_pod(self, state: CycleState, pod: api.Pod, info: PodInfo, row: int) -> None:
        self._update(state, info, row, -1)

    def filter_depends_on(self, state: CycleState, pod: api.Pod, other: PodClass) -> bool:
        return next(self._relations(state.pod_class, other), None) is not None

    def filter_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Verdicts | None:
        codes: Codes | None = None
        for column, by_domain in self._codes_by_domain(state.read(self, AffinityState), state.pod_class).values():
            here = nodes.of_label(column, by_domain)
            codes = here if codes is None else np.maximum(codes, here)
        return None if codes is None or not codes.any() else Verdicts(codes, _STATUSES.__getitem__)

    def _codes_by_domain(self, found: AffinityState, pod_class: PodClass) -> dict[str, tuple[LabelColumn, Bytes]]:
        """By topology key, a code per domain. The last one is for nodes without the label."""
        existing = {key: (counts.counts > 0).view(np.int8) for key, counts in found.existing_anti.items()}
        own = {key: (counts.counts > 0).view(np.int8) * np.int8(2) for key, counts in found.anti_affinity.items()}
        codes: dict[str, tuple[LabelColumn, Bytes]] = {}
        for counts_of, codes_of in (
            (found.existing_anti, existing),
            (found.anti_affinity, own),
            (found.affinity, self._unmet(found.affinity, pod_class)),
        ):
            for key, here in codes_of.items():
                codes[key] = counts_of[key].column, np.maximum(codes[key][1], here) if key in codes else here
        return codes

    def _unmet(self, affinity: Counts, pod_class: PodClass) -> dict[str, Bytes]:
        """Where the required affinity fails: a label is missing, or the domain has no pod that all terms select.

        A pod that its own terms select may be the first of its kind anywhere.
        """
        codes = {key: (counts.counts <= 0).view(np.int8) * np.int8(3) for key, counts in affinity.items()}
        if affinity and not any(counts.any() for counts in affinity.values()) and self._is_own_kind(pod_class):
            for each in codes.values():
                each[:-1] = 0
        return codes

    def _is_own_kind(self, pod_class: PodClass) -> bool:
        return all(self.handle.cluster.counts.term_selects(term, pod_class) for term in pod_class.terms.required)

    def _update(self, state: CycleState, info: PodInfo, row: int, delta: int) -> None:
        """Count a pod in or out of every relation that it is part of."""
        found = state.read(self, AffinityState)
        for counts, key in self._relations(state.pod_class, info.pod_class):
            self._key(getattr(found, counts), key).add(row, delta)

    def _relations(self, pod_class: PodClass, other: PodClass) -> Iterator[tuple[str, str]]:
        """The counts in `AffinityState` that a pod of another class is part of, with their topology keys."""
        cluster = self.handle.cluster
        labels = cluster.namespace_labels(pod_class.namespace)
        for term in other.terms.required_anti:
            if term.matches(pod_class.namespace, pod_class.labels, labels):
                yield "existing_anti", term.topology_key
        own = pod_class.terms
        if own.required and all(cluster.counts.term_selects(term, other) for term in own.required):
            for term in own.required:
                yield "affinity", term.topology_key
        for term in own.required_anti:
            if cluster.counts.term_selects(term, other):
                yield "anti_affinity", term.topology_key

    # Score

    def pre_score(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Status | None:
        terms = state.pod_class.terms
        preferred = [(w.weight, w.term) for w in terms.preferred] + [(-w.weight, w.term) for w in terms.preferred_anti]
        if not preferred and self.args.ignore_preferred_terms_of_existing_pods and not _wants_preferred(pod):
            return SKIP
        if terms.error is not None:
            return error(f"failed to parse pod: {terms.error}")
        scores: Counts = {}
        for weight, term in preferred:
            self._weigh(scores, self.handle.cluster.counts.affinity((term,)), term.topology_key, weight)
        existing = self._selecting(state.pod_class)
        for counter in existing.get("preferred", ()):
            self._weigh(scores, counter, counter.term.topology_key, counter.weight)
        if self.args.hard_pod_affinity_weight > 0:
            for counter in existing.get("affinity", ()):
                self._weigh(scores, counter, counter.term.topology_key, self.args.hard_pod_affinity_weight)
        if not scores:
            return SKIP
        state.write((self, "score"), scores)
        return None

    def score_all(self, state: CycleState, pod: api.Pod, nodes: Nodes) -> Ints:
        scores: Ints | None = None
        for counts in state.read((self, "score"), dict).values():
            here = nodes.of_label(counts.column, counts.counts)
            scores = here if scores is None else scores + here
        assert scores is not None  # without counts, PreScore skips Score
        # A view of the counts would follow the next pod.
        return scores if scores.base is None else scores.copy()

    def normalize(self, state: CycleState, pod: api.Pod, scores: Ints) -> Ints:
        lowest = int(scores.min())
        spread = int(scores.max()) - lowest
        if spread <= 0:
            return np.zeros_like(scores)

        def scaled(above: Ints) -> Ints:
            return (float(MAX_NODE_SCORE) * (above / float(spread))).astype(np.int64)

        if not lowest:
            others = (scores != 0).nonzero()[0]
            if len(others) * FEW < len(scores):  # as with host names: most nodes have no such pod, and score 0
                normalized = np.zeros_like(scores)
                normalized[others] = scaled(scores[others])
                return normalized
        return once_per_value(scores - lowest if lowest else scores, spread, scaled)

    # Counts

    def _selecting(self, pod_class: PodClass) -> Mapping[str, list[TermCounter]]:
        """Terms of running pods that select pods of this class, by their kind. Some may count no pod at present."""
        cluster = self.handle.cluster
        known = cluster.counts.term_list
        if not known:
            return {}
        labels = cluster.namespace_labels(pod_class.namespace)
        cached = pod_class.memo.get(self)
        if (
            not isinstance(cached, _Selecting)
            or cached.version != cluster.counts.terms_version
            or cached.labels != labels
        ):
            cached = pod_class.memo[self] = _Selecting(cluster.counts.terms_version, labels)
        for counter in known[cached.seen :] if cached.seen < len(known) else ():
            if counter.term.matches(pod_class.namespace, pod_class.labels, labels):
                cached.by_kind.setdefault(counter.kind, []).append(counter)
        cached.seen = len(known)
        return cached.by_kind

    def _sum(self, into: Counts, counter: RowCounter, key: str) -> None:
        """Add a counter's domains to the sum of a topology key."""
        domains = counter.by_domain(key)
        known = into.get(key)
        into[key] = KeyCounts(domains.column, domains.padded if known is None else known.counts + domains.padded)

    def _weigh(self, into: Counts, counter: RowCounter, key: str, weight: int) -> None:
        """The same with a weight, if any pod is counted in a domain at all."""
        domains = counter.by_domain(key)
        if not domains.total:
            return
        counts = domains.padded if weight == 1 else domains.padded * weight
        known = into.get(key)
        into[key] = KeyCounts(domains.column, counts if known is None else known.counts + counts)

    def _key(self, counts: Counts, key: str) -> KeyCounts:
        if key not in counts:
            column = self.handle.cluster.nodes.label(key)
            counts[key] = KeyCounts(column, np.zeros(len(column.values) + 1, dtype=np.int64))
        return counts[key]

    # Hints

    def _after_pod_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        log = self.handle.log
        if old is not None and new is not None and new.uid == pod.uid:
            return queue_because(log, 5, "the target pod labels have changed and it may be schedulable now", pod=pod)
        others = [other for other in (old, new) if isinstance(other, api.Pod)]
        if not all(other.node_name or other.nominated_node_name for other in others):
            why = "the added/updated/deleted pod is unscheduled, so it doesn't make the target pod schedulable"
            return skip_because(log, 5, why, pod=pod, originalPod=old or "", modifiedPod=new or "")
        own = affinity_terms(pod.namespace, pod.spec.affinity)
        if own.bad_required:
            return Hint.QUEUE  # upstream cannot decide, and queues the pod
        if len(others) == 2:
            return self._after_pod_update(pod, own, *others)
        if new is None:
            return self._after_pod_deleted(pod, own, others[0])
        if _all_match(own.required, others[0]):
            why = "a scheduled pod was added and it matches the target pod's affinity"
            return queue_because(log, 5, why, pod=pod, modifiedPod=new)
        why = "a scheduled pod was added and it doesn't match the target pod's affinity"
        return skip_because(log, 5, why, pod=pod, modifiedPod=new)

    def _after_pod_update(self, pod: api.Pod, own: AffinityTerms, before: api.Pod, after: api.Pod) -> Hint:
        log = self.handle.log
        if not _all_match(own.required, before) and _all_match(own.required, after):
            why = "a scheduled pod was updated to match the target pod's affinity, and the pod may be schedulable now"
            return queue_because(log, 5, why, pod=pod, modifiedPod=after)
        if _all_match(own.required_anti, before) and not _all_match(own.required_anti, after):
            why = (
                "a scheduled pod was updated not to match the target pod's anti affinity, and the pod may be "
                "schedulable now"
            )
            return queue_because(log, 5, why, pod=pod, modifiedPod=after)
        why = (
            "a scheduled pod was updated but it doesn't match the target pod's affinity or does match the target "
            "pod's anti-affinity"
        )
        return skip_because(log, 5, why, pod=pod, modifiedPod=after)

    def _after_pod_deleted(self, pod: api.Pod, own: AffinityTerms, gone: api.Pod) -> Hint:
        log = self.handle.log
        if _all_match(own.required_anti, gone):
            why = (
                "a scheduled pod was deleted and it matches the target pod's anti-affinity. The pod may be "
                "schedulable now"
            )
            return queue_because(log, 5, why, pod=pod, originalPod=gone)
        terms = affinity_terms(gone.namespace, gone.spec.affinity)
        if terms.bad_required:
            return Hint.QUEUE
        if _all_match(terms.required_anti, pod):
            why = (
                "a scheduled pod was deleted and the target pod matches the deleted pod's anti-affinity. The pod "
                "may be schedulable now"
            )
            return queue_because(log, 5, why, pod=pod, originalPod=gone)
        why = "a scheduled pod was deleted but it doesn't match the target pod's anti-affinity, nor vice versa"
        return skip_because(log, 5, why, pod=pod, originalPod=gone)

    def _after_node_change(self, pod: api.Pod, old: api.Object | None, new: api.Object | None) -> Hint:
        own = affinity_terms(pod.namespace, pod.spec.affinity)
        if new is None:
            return Hint.SKIP
        if own.bad_required:
            return Hint.QUEUE
        why = _why_after_node_change(own, None if old is None else old.labels, new.labels)
        if why is not None:
            return queue_because(self.handle.log, 5, why, pod=pod, node=new)
        why = "a node is added/updated but doesn't have any topologyKey which matches pod affinity/anti-affinity"
        return skip_because(self.handle.log, 5, why, pod=pod, node=new)


def _why_after_node_change(own: AffinityTerms, old: Mapping[str, str] | None, new: Mapping[str, str]) -> str | None:
    """Why a node that was added or has changed may help a pod with these terms; None if it does not."""
    if old is None:
        if any(term.topology_key in new for term in own.required):
            return "A node with a matched pod affinity topologyKey was added and it may make the pod schedulable"
        return "A node was added and it may make the pod schedulable" if own.required_anti else None
    for term in own.required:
        if term.topology_key in new and _moved(term, old, new):
            if term.topology_key in old:
                return "A node is moved to a different domain of pod affinity, which may make the pod schedulable"
            return "A node got updated to have the topology key of pod affinity, which may make the pod schedulable"
    for term in own.required_anti:
        if term.topology_key in old and _moved(term, old, new):
            if term.topology_key in new:
                return "A node is moved to a different domain of pod anti-affinity, which may make the pod schedulable"
            return (
                "A node got updated to not have the topology key of pod anti-affinity, which may make the pod "
                "schedulable"
            )
    return None


def _wants_preferred(pod: api.Pod) -> bool:
    affinity = pod.spec.affinity
    sides = (affinity.pod_affinity, affinity.pod_anti_affinity) if affinity is not None else ()
    return any(side is not None and side.preferred_during_scheduling_ignored_during_execution for side in sides)


def _all_match(terms: Sequence[AffinityTerm], pod: api.Pod) -> bool:
    return bool(terms) and all(term.matches(pod.namespace, pod.labels, NO_LABELS) for term in terms)


def _moved(term: AffinityTerm, before: Mapping[str, str], after: Mapping[str, str]) -> bool:
    return before.get(term.topology_key) != after.get(term.topology_key)
