"""Counts of pods per row, kept up to date as pods come and go: what spread constraints and pod affinity ask for.

A pod class knows the counters that count it, so placing a pod touches only those. Selector counters exist from the
first time they are asked for; the terms of pods on nodes are counted for the symmetric half of pod affinity.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import cast

from kubesched.api import objects as api
from kubesched.api.selectors import Selector
from kubesched.cluster.counters import RowCounter
from kubesched.cluster.objects import ObjectsByKind
from kubesched.cluster.pods import PodClass, PodInfo
from kubesched.cluster.table import NodeTable
from kubesched.cluster.terms import AffinityTerm

NO_LABELS: Mapping[str, str] = {}


class TermCounter(RowCounter):
    """Counts the pods that carry one affinity term, to find those whose term matches an incoming pod."""

    __slots__ = ("kind", "term", "weight")

    def __init__(self, table: NodeTable, kind: str, weight: int, term: AffinityTerm) -> None:
        super().__init__(table, lambda _: False, skip_terminating=False)
        self.kind = kind
        self.weight = weight
        self.term = term


class PodCounts:
    """All counters of a cluster."""

    MOST_COUNTERS = 2048
    """Selector counters kept; beyond it those not used lately are dropped and rebuilt on demand."""

    def __init__(self, nodes: NodeTable, objects: ObjectsByKind) -> None:
        self._nodes = nodes
        self._objects = objects
        self._live: dict[PodClass, None] = {}
        """Classes that have pods on nodes."""
        self._counters: dict[Hashable, RowCounter] = {}
        self._counter_list: list[RowCounter] = []
        self._generation = 0
        self._terms: dict[tuple[str, int, AffinityTerm], TermCounter] = {}
        self.term_list: list[TermCounter] = []
        """Terms that pods on nodes carry, or carried; only ever appended to while `terms_version` stays."""
        self.terms_version = 0
        self._keep_terms = self.MOST_COUNTERS

    def placed(self, info: PodInfo, row: int) -> None:
        """A pod has come to a row."""
        pod_class = info.pod_class
        if not pod_class.pods:
            self._live[pod_class] = None
        pod_class.pods += 1
        self._move(info, row, 1)

    def taken_off(self, info: PodInfo, row: int) -> None:
        """A pod has left its row."""
        pod_class = info.pod_class
        pod_class.pods -= 1
        if not pod_class.pods:
            del self._live[pod_class]
        self._move(info, row, -1)

    def _move(self, info: PodInfo, row: int, delta: int) -> None:
        pod_class = info.pod_class
        _bump(pod_class.rows, row, delta)
        if info.terminating:
            _bump(pod_class.terminating_rows, row, delta)
        self._count(info, row, delta)

    def namespace_changed(self, name: str, labels: Mapping[str, str] | None) -> None:
        """A namespace has other labels, or is gone (None): affinity terms may select other pods."""
        old = self._objects.get(api.Namespace, name)
        if (None if old is None else old.labels) != labels:
            self._drop_counters({key for key in self._counters if cast("tuple[str]", key)[0] == "affinity"})

    def count_pods(
        self, key: Hashable, matches: Callable[[PodClass], bool], *, skip_terminating: bool = False
    ) -> RowCounter:
        """A count, per row, of the pods whose class `matches`, kept up to date from now on. `key` identifies it."""
        counter = self._counters.get(key)
        if counter is None:
            if len(self._counters) >= self.MOST_COUNTERS:
                self._drop_counters(set(list(self._counters)[: self.MOST_COUNTERS // 2]))
            counter = self._counters[key] = RowCounter(self._nodes, matches, skip_terminating)
            for pod_class in self._live:
                if matches(pod_class):
                    self._count_present(counter, pod_class)
            self._counter_list.append(counter)
        return counter

    def spread(self, namespace: str, selector: Selector) -> RowCounter:
        """Counts the pods of a namespace that a selector matches and that are not being deleted."""
        return self.count_pods(
            ("spread", namespace, selector),
            lambda c: c.namespace == namespace and selector.matches(c.labels),
            skip_terminating=True,
        )

    def affinity(self, terms: tuple[AffinityTerm, ...]) -> RowCounter:
        """Counts the pods that all of an incoming pod's terms select."""
        return self.count_pods(("affinity", terms), lambda c: all(self.term_selects(t, c) for t in terms))

    def term_selects(self, term: AffinityTerm, pod_class: PodClass) -> bool:
        """Whether an incoming pod's term selects pods of this class.

        Upstream resolves a namespace selector to the namespaces that exist, and then matches it once more against no
        labels at all. A selector that matches no labels (an empty one, or DoesNotExist) selects every namespace.
        """
        if pod_class.namespace not in term.namespaces and not term.namespace_selector.matches(NO_LABELS):
            namespace = self._objects.get(api.Namespace, pod_class.namespace)
            if namespace is None or not term.namespace_selector.matches(namespace.labels):
                return False
        return term.selector.matches(pod_class.labels)

    def _count(self, info: PodInfo, row: int, delta: int) -> None:
        pod_class = info.pod_class
        if pod_class.synced != (self._generation, len(self._counter_list)):
            self._sync(pod_class)
        for counter in pod_class.counters:
            if not (counter.skip_terminating and info.terminating):
                counter.add(row, delta)

    def _sync(self, pod_class: PodClass) -> None:
        """Add the counters that were created since the last sync of this class."""
        generation, seen = pod_class.synced
        if generation != self._generation:
            pod_class.counters = list(self._term_counters(pod_class))
            seen = 0
        new = self._counter_list[seen:]
        pod_class.counters += [counter for counter in new if counter.matches(pod_class)]
        pod_class.synced = (self._generation, len(self._counter_list))

    def _count_present(self, counter: RowCounter, pod_class: PodClass) -> None:
        for row, pods in pod_class.rows.items():
            gone = pod_class.terminating_rows.get(row, 0) if counter.skip_terminating else 0
            counter.add(row, pods - gone)

    def _term_counters(self, pod_class: PodClass) -> list[TermCounter]:
        if len(self._terms) >= self._keep_terms:
            self._drop_idle_terms()
        terms = pod_class.terms
        return [
            *(self._term_counter("affinity", 0, t) for t in terms.required),
            *(self._term_counter("anti-affinity", 0, t) for t in terms.required_anti),
            *(self._term_counter("preferred", w.weight, w.term) for w in terms.preferred),
            *(self._term_counter("preferred", -w.weight, w.term) for w in terms.preferred_anti),
        ]

    def _term_counter(self, kind: str, weight: int, term: AffinityTerm) -> TermCounter:
        counter = self._terms.get((kind, weight, term))
        if counter is None:
            counter = self._terms[kind, weight, term] = TermCounter(self._nodes, kind, weight, term)
            self.term_list.append(counter)
        return counter

    def _drop_idle_terms(self) -> None:
        """Drop terms that no pod carries any more."""
        self._terms = {key: counter for key, counter in self._terms.items() if counter.total}
        self._keep_terms = max(self.MOST_COUNTERS, 2 * len(self._terms))
        self.term_list = list(self._terms.values())
        self.terms_version += 1
        self._generation += 1

    def _drop_counters(self, keys: Collection[Hashable]) -> None:
        """Drop counters. Every class looks up its counters again."""
        self._counters = {key: counter for key, counter in self._counters.items() if key not in keys}
        self._counter_list = list(self._counters.values())
        self._generation += 1


def _bump(counts: dict[int, int], row: int, delta: int) -> None:
    value = counts.get(row, 0) + delta
    if value:
        counts[row] = value
    else:
        del counts[row]
