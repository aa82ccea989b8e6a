"""The cluster as one object: nodes, pods, and everything else that plugins look up.

Events come in through `set`/`remove` (any kind), `add_pod`/`update_pod`/`remove_pod` and `assume`/`forget`. They may
come in any order, a pod's before its node's included; the state after is the same as if it were built from scratch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Mapping
from typing import TypeVar, cast

from kubesched.api import objects as api
from kubesched.api.selectors import Selector
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.cluster.counters import RowCounter
from kubesched.cluster.nominations import Nominations
from kubesched.cluster.pods import PodClass, PodClasses, PodInfo, identified
from kubesched.cluster.table import NodeTable
from kubesched.cluster.terms import AffinityTerm

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"

NO_LABELS: Mapping[str, str] = {}

SELECTING_KINDS = (api.Service, api.ReplicationController, api.ReplicaSet, api.StatefulSet)
"""Kinds of which scheduling reads the selector alone. Their status changes with every pod that comes or goes."""


class TermCounter(RowCounter):
    """Counts the pods that carry one affinity term, for asking which of them speak of an incoming pod."""

    __slots__ = ("kind", "term", "weight")

    def __init__(self, table: NodeTable, kind: str, weight: int, term: AffinityTerm) -> None:
        super().__init__(table, lambda _: False, skip_terminating=False)
        self.kind = kind
        self.weight = weight
        self.term = term


class Cluster:
    """The scheduler's picture of the cluster."""

    MOST_COUNTERS = 2048
    """Selector counts kept up to date; beyond it those not asked for lately are dropped and rebuilt on demand."""
    LOG = 8192
    """Changes of a kind remembered by key; who asks for older ones has to look at all objects."""

    def __init__(self, features: Features = DEFAULT_FEATURES) -> None:
        self.features = features
        self.nodes = NodeTable()
        self.classes = PodClasses(features)
        self.nominations = Nominations()
        self.pods: dict[str, PodInfo] = {}
        """Pods on nodes, assumed ones included, by UID."""
        self.assumed: set[str] = set()
        self._objects: dict[type[api.Object], dict[str, api.Object]] = {}
        self._versions: dict[type[api.Object], int] = {}
        self._logs: dict[type[api.Object], list[str]] = {}
        self._live: dict[PodClass, None] = {}
        self._counters: dict[Hashable, RowCounter] = {}
        self._counter_list: list[RowCounter] = []
        self._generation = 0
        self._terms: dict[tuple[str, int, AffinityTerm], TermCounter] = {}
        self.term_list: list[TermCounter] = []
        """Terms that pods on nodes carry, or carried; only ever appended to while `terms_version` stays."""
        self.terms_version = 0
        self._keep_terms = self.MOST_COUNTERS

    # Objects of any kind

    def set(self, obj: api.Object) -> None:
        """Take an object's newest state."""
        if isinstance(obj, api.Pod):
            self.update_pod(obj)
            return
        if isinstance(obj, api.Node):
            self.nodes.set_node(obj)
            return
        kind = type(obj)
        if isinstance(obj, api.Namespace):
            self._namespace_changed(obj.name, obj.labels)
        key = obj.key
        known = self._objects.setdefault(kind, {})
        old, known[key] = known.get(key), obj
        if not (isinstance(obj, SELECTING_KINDS) and isinstance(old, SELECTING_KINDS) and old.spec == obj.spec):
            self._changed(kind, key)

    def remove(self, obj: api.Object) -> None:
        """Forget an object."""
        if isinstance(obj, api.Pod):
            self.remove_pod(identified(obj).uid)
        elif isinstance(obj, api.Node):
            self.nodes.remove_node(obj.name)
        elif obj.key in self._objects.get(type(obj), {}):
            if isinstance(obj, api.Namespace):
                self._namespace_changed(obj.name, None)
            del self._objects[type(obj)][obj.key]
            self._changed(type(obj), obj.key)

    def get(self, kind: type[O], key: str) -> O | None:
        """The object of this kind with this key ("namespace/name", or the name where there is no namespace).

        Of pods, one that is on a node; they are filed by UID, and looked through one by one for a key.
        """
        found: api.Object | None
        if kind is api.Node:
            row = self.nodes.row_of.get(key)
            found = None if row is None else self.nodes.nodes[row]
        elif kind is api.Pod:
            found = next((info.pod for info in reversed(self.pods.values()) if info.pod.key == key), None)
        else:
            found = self._objects.get(kind, {}).get(key)
        return cast("O | None", found)

    def all(self, kind: type[O]) -> Collection[O]:
        """All objects of a kind; of pods, those on nodes."""
        found: Collection[api.Object]
        if kind is api.Node:
            found = [node for node in self.nodes.nodes if node is not None]
        elif kind is api.Pod:
            found = [info.pod for info in self.pods.values()]
        else:
            found = self._objects.get(kind, {}).values()
        return cast("Collection[O]", found)

    def version(self, kind: type[api.Object]) -> int:
        """A number that moves whenever an object of this kind comes, goes, or changes in what scheduling reads."""
        if kind is api.Node:
            return self.nodes.node_version
        return self.nodes.log_end if kind is api.Pod else self._versions.get(kind, 0)

    def changed_since(self, kind: type[api.Object], version: int) -> list[str] | None:
        """Keys of the objects of a kind that came, changed or went since that version; None if that is too long ago."""
        count = self.version(kind) - version
        log = self._logs.get(kind, [])
        return log[len(log) - count :] if count <= len(log) else None

    def _changed(self, kind: type[api.Object], key: str) -> None:
        self._versions[kind] = self._versions.get(kind, 0) + 1
        log = self._logs.setdefault(kind, [])
        log.append(key)
        if len(log) > self.LOG:
            del log[: self.LOG // 2]

    def namespace_labels(self, name: str) -> Mapping[str, str]:
        """The labels of a namespace; none if it is not known."""
        namespace = self.get(api.Namespace, name)
        return NO_LABELS if namespace is None else namespace.labels

    # Pods on nodes

    def update_pod(self, pod: api.Pod) -> None:
        """Take a pod's newest state: on a node, done, or only nominated to one."""
        pod = identified(pod)
        known = self.pods.get(pod.uid)
        if not pod.node_name or pod.is_terminal:
            # News of an assumed pod from before its binding change nothing; those from after it do.
            if known is not None and (pod.node_name or pod.uid not in self.assumed):
                self.remove_pod(pod.uid)
            self._nominate(pod)
            return
        self.nominations.remove(pod.uid)
        info = self.classes.info(pod)
        self.assumed.discard(pod.uid)
        if known is not None:
            row = self.nodes.row_of.get(pod.node_name, -1)
            if row == known.row and known.pod_class is info.pod_class and known.terminating == info.terminating:
                known.pod = info.pod
                self.nodes.pod_changed(row)
                return
            self._take_off(known)
        self._place(info, pod.node_name)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that is gone."""
        self.nominations.remove(uid)
        self.assumed.discard(uid)
        info = self.pods.get(uid)
        if info is not None:
            self._take_off(info)

    def assume(self, info: PodInfo, node_name: str) -> None:
        """Count a pod as on a node before the API server says so."""
        if info.pod.uid in self.pods:
            raise ValueError(f"pod {info.pod.key} is on a node already")
        self.nominations.remove(info.pod.uid)
        self.assumed.add(info.pod.uid)
        self._place(info, node_name)

    def forget(self, uid: str) -> None:
        """Undo an assumption."""
        if uid in self.assumed:
            self.remove_pod(uid)

    def _nominate(self, pod: api.Pod) -> None:
        if pod.nominated_node_name and not pod.is_terminal and pod.uid not in self.pods:
            self.nominations.add(self.classes.info(pod), pod.nominated_node_name)
        else:
            self.nominations.remove(pod.uid)

    def _place(self, info: PodInfo, node_name: str) -> None:
        nodes, pod_class = self.nodes, info.pod_class
        row = info.row = nodes.row_for_pod(node_name)
        nodes.place(info, row)
        self.pods[info.pod.metadata.uid] = info
        if not pod_class.pods:
            self._live[pod_class] = None
        pod_class.pods += 1
        _bump(pod_class.rows, row, 1)
        if info.terminating:
            _bump(pod_class.terminating_rows, row, 1)
        self._count(info, row, 1)

    def _take_off(self, info: PodInfo) -> None:
        nodes, pod_class, row = self.nodes, info.pod_class, info.row
        nodes.take_off(info, row)
        del self.pods[info.pod.metadata.uid]
        pod_class.pods -= 1
        if not pod_class.pods:
            del self._live[pod_class]
        _bump(pod_class.rows, row, -1)
        if info.terminating:
            _bump(pod_class.terminating_rows, row, -1)
        self._count(info, row, -1)
        info.row = -1
        nodes.release_if_empty(row)

    # Counting pods

    def count_pods(
        self, key: Hashable, matches: Callable[[PodClass], bool], *, skip_terminating: bool = False
    ) -> RowCounter:
        """A count, per row, of the pods whose class `matches`, kept up to date from now on. `key` identifies it."""
        counter = self._counters.get(key)
        if counter is None:
            if len(self._counters) >= self.MOST_COUNTERS:
                self._drop_counters(set(list(self._counters)[: self.MOST_COUNTERS // 2]))
            counter = self._counters[key] = RowCounter(self.nodes, matches, skip_terminating)
            for pod_class in self._live:
                if matches(pod_class):
                    self._count_present(counter, pod_class)
            self._counter_list.append(counter)
        return counter

    def spread_counter(self, namespace: str, selector: Selector) -> RowCounter:
        """Counts the pods of a namespace that a selector matches and that are not on their way out."""
        return self.count_pods(
            ("spread", namespace, selector),
            lambda c: c.namespace == namespace and selector.matches(c.labels),
            skip_terminating=True,
        )

    def affinity_counter(self, terms: tuple[AffinityTerm, ...]) -> RowCounter:
        """Counts the pods that every one of an incoming pod's terms speaks of."""
        return self.count_pods(("affinity", terms), lambda c: all(self.term_selects(t, c) for t in terms))

    def term_selects(self, term: AffinityTerm, pod_class: PodClass) -> bool:
        """Whether an incoming pod's term speaks of pods of this class.

        Upstream resolves a namespace selector to the namespaces that exist and then asks it once more, of no labels
        at all: a selector content with that (an empty one, or one of what must be absent) takes in every namespace.
        """
        if pod_class.namespace not in term.namespaces and not term.namespace_selector.matches(NO_LABELS):
            namespace = self.get(api.Namespace, pod_class.namespace)
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
        """Find the counters made since this class last looked."""
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
            counter = self._terms[kind, weight, term] = TermCounter(self.nodes, kind, weight, term)
            self.term_list.append(counter)
        return counter

    def _drop_idle_terms(self) -> None:
        """Forget terms that no pod carries any more."""
        self._terms = {key: counter for key, counter in self._terms.items() if counter.total}
        self._keep_terms = max(self.MOST_COUNTERS, 2 * len(self._terms))
        self.term_list = list(self._terms.values())
        self.terms_version += 1
        self._generation += 1

    def _drop_counters(self, keys: Collection[Hashable]) -> None:
        """Stop counting; every class looks for its counters anew."""
        self._counters = {key: counter for key, counter in self._counters.items() if key not in keys}
        self._counter_list = list(self._counters.values())
        self._generation += 1

    def _namespace_changed(self, name: str, labels: Mapping[str, str] | None) -> None:
        old = self.get(api.Namespace, name)
        if (None if old is None else old.labels) != labels:
            self._drop_counters({key for key in self._counters if cast("tuple[str]", key)[0] == "affinity"})


def _bump(counts: dict[int, int], row: int, delta: int) -> None:
    value = counts.get(row, 0) + delta
    if value:
        counts[row] = value
    else:
        del counts[row]
