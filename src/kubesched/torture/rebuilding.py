"""Compares what a scheduler process has built up, event by event, with the same built from scratch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Hashable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from kubesched.api import objects as api
from kubesched.api.resources import NodeResources, Requests, allocatable
from kubesched.base.features import Features
from kubesched.cluster.pods import PodClasses, PodInfo
from kubesched.cluster.state import ClusterState
from kubesched.cluster.table import NodeTable
from kubesched.engine.cache import CachedAnswers
from kubesched.engine.engine import Engine
from kubesched.framework.runtime import NOT_RECORDED
from kubesched.scheduler.handlers import KINDS
from kubesched.scheduler.scheduler import Scheduler
from kubesched.torture.invariants import state_of

Rows = dict[str, dict[str, Any]]
"""Everything about each row of a node table in plain values, without zeros."""


class _Share(NamedTuple):
    """What a pod adds to the row of its node."""

    amounts: Mapping[str, int]
    tags: tuple[Hashable, ...]


class Rebuilding:
    """Compares the schedulers of one world with what follows from their objects.

    What a pod adds to its node is found out once for each of its versions. A scheduler in which nothing has happened
    since a comparison that found nothing is not compared again.
    """

    def __init__(self, features: Features) -> None:
        self._classes = PodClasses(features)
        self._shares: dict[tuple[str, str], _Share] = {}
        self._compared: dict[Scheduler, Hashable] = {}
        self._answered: dict[CachedAnswers, Hashable] = {}
        """The state of the cluster in which cached answers were last compared."""

    def differences(self, scheduler: Scheduler, *, caches: bool, except_of: str = "") -> Iterator[str]:
        """Where the cluster state of a process differs from one that is made from its informers' objects.

        With `caches`, the cached answers of plugins are compared too, except those of one plugin.
        """
        state = (caches, state_of(scheduler, KINDS))
        if self._compared.get(scheduler) == state:
            return
        found = False
        for text in self._compare(scheduler, caches, except_of):
            found = True
            yield text
        if not found:
            self._compared[scheduler] = state

    def _compare(self, scheduler: Scheduler, caches: bool, except_of: str) -> Iterator[str]:
        cluster = scheduler.cluster
        yield from _tables(_contents(cluster.nodes), self._wanted(scheduler))
        yield from _counters(cluster)
        yield from _classes(cluster)
        yield from _objects(scheduler)
        yield from _groups(scheduler)
        yield from _index(scheduler)
        if caches:
            for profile in scheduler.profiles.values():
                yield from self._answers(scheduler, profile.engine, except_of)

    def _wanted(self, scheduler: Scheduler) -> Rows:
        """The rows made from what the informers hold, and from the pods that the process has assumed."""
        cluster = scheduler.cluster
        rows: dict[str, Counter[str]] = {}
        tags: dict[str, Counter[Hashable]] = {}
        pods: dict[str, list[str]] = {}

        def place(uid: str, share: _Share, node: str) -> None:
            rows.setdefault(node, Counter()).update(share.amounts)
            tags.setdefault(node, Counter()).update(share.tags)
            pods.setdefault(node, []).append(uid)

        for pod in scheduler.known(api.Pod):
            if pod.node_name and not pod.is_terminal:
                place(pod.uid, self._share(pod), pod.node_name)
        for uid in cluster.assumed:
            info = cluster.pods[uid]
            # Reserve may have changed what it takes, in the same version.
            place(uid, self._share_of(info.pod), cluster.nodes.names[info.row])
        wanted: Rows = {
            name: {
                **amounts,
                "pods": tuple(sorted(pods[name])),
                "tags": tuple(sorted(repr(each) for each in tags[name].items())),
            }
            for name, amounts in rows.items()
        }
        for node in scheduler.known(api.Node):
            wanted.setdefault(node.name, {}).update(_node_cells(node))
        counted = scheduler.cluster.nodes.resource_columns
        return {name: _without_zeros(_counted(cells, counted)) for name, cells in wanted.items()}

    def _share(self, pod: api.Pod) -> _Share:
        key = (pod.uid, pod.metadata.resource_version)
        found = self._shares.get(key)
        if found is None:
            found = self._shares[key] = self._share_of(pod)
        return found

    def _share_of(self, pod: api.Pod) -> _Share:
        pod_class = self._classes.info(pod).pod_class
        amounts = {f"used {name}": amount for name, amount in _amounts(pod_class.node_requests, 1).items()}
        return _Share(amounts, pod_class.tags)

    def _answers(self, scheduler: Scheduler, engine: Engine, except_of: str) -> Iterator[str]:
        """Cached answers of plugins, against answers that are made now, unless nothing that plugins read has changed
        since the last time."""
        cluster = scheduler.cluster
        state = tuple(cluster.version(kind) for kind in KINDS)
        infos: dict[Any, PodInfo] = {}
        queued = (scheduler.queue.get(pod.uid) for pod in scheduler.queue.pending_pods()[0])
        for info in (*cluster.pods.values(), *(each.info for each in queued if each is not None)):
            infos.setdefault(engine.framework.cache_class(info.pod_class), info)
        for pod_class, info in infos.items():
            cached = pod_class.memo.get(engine.filtering)
            if not isinstance(cached, CachedAnswers) or self._answered.get(cached) == (state, cached._scored):
                continue
            found = False
            for text in _answers_about(info, cached, CachedAnswers(engine.framework, pod_class), except_of):
                found = True
                yield text
            if not found:
                self._answered[cached] = (state, cached._scored)


def _amounts(resources: Requests | NodeResources, pods: int) -> dict[str, int]:
    return {
        "cpu": resources.milli_cpu,
        "memory": resources.memory,
        "ephemeral-storage": resources.ephemeral_storage,
        "pods": pods,
        **resources.scalar,
    }


def _node_cells(node: api.Node) -> dict[str, Any]:
    resources = allocatable(node)
    return {
        "valid": True,
        "unschedulable": node.spec.unschedulable,
        **{f"allocatable {name}": amount for name, amount in _amounts(resources, resources.pods).items()},
        "taints": node.spec.taints,
        "version": node.metadata.resource_version,
    }


def _counted(cells: Mapping[str, Any], resources: Container[str]) -> Mapping[str, Any]:
    """Without amounts of resources that have no column: no node offers them."""
    return {key: value for key, value in cells.items() if not key.startswith("used ") or key[5:] in resources}


def _without_zeros(cells: Mapping[str, Any]) -> dict[str, Any]:
    """Columns are made on demand, so that a zero may have none."""
    return {key: value for key, value in cells.items() if value}


def _tables(found: Rows, wanted: Rows) -> Iterator[str]:
    for name in sorted(found.keys() | wanted.keys()):
        mine, theirs = found.get(name, {}), wanted.get(name, {})
        for key in sorted(mine.keys() | theirs.keys()):
            if mine.get(key) != theirs.get(key):
                yield f"node {name}: {key} is {mine.get(key)} and not {theirs.get(key)}"


def _contents(table: NodeTable) -> Rows:
    found: Rows = {}
    for name, row in table.row_of.items():
        node = table.nodes[row]
        cells: dict[str, Any] = {
            "valid": bool(table.valid[row]),
            "unschedulable": bool(table.unschedulable[row]),
            "taints": table.taint_sets[table.taint_set[row]],
            "pods": tuple(sorted(table.pods[row])),
            "version": node.metadata.resource_version if node is not None else "",
            "tags": tuple(sorted(repr((tag, rows[row])) for tag, rows in table.tagged.items() if row in rows)),
        }
        offered, used = table.allocatable[:, row].tolist(), table.used[:, row].tolist()
        for resource, column in table.resource_columns.items():
            cells[f"allocatable {resource}"] = offered[column]
            cells[f"used {resource}"] = used[column]
        found[name] = _without_zeros(cells)
        labels = {} if node is None else node.labels
        for key, label in table.label_columns.items():
            value = int(label.ids[row])
            if (label.values[value] if value >= 0 else None) != labels.get(key):
                found[name][f"label {key}"] = "wrong"
    return found


def _counters(cluster: ClusterState) -> Iterator[str]:
    """Counts of pods by row and by domain, against a recount."""
    for key, counter in cluster.counts._counters.items():
        wanted: dict[int, int] = {}
        for info in cluster.pods.values():
            if counter.matches(info.pod_class) and not (counter.skip_terminating and info.terminating):
                wanted[info.row] = wanted.get(info.row, 0) + 1
        found = {row: int(count) for row, count in enumerate(counter.rows) if count}
        if found != wanted:
            yield f"counter {key}: {found} and not {wanted}"
        for label, domain in counter._domains.items():
            domain.refresh()
            sums = dict.fromkeys(range(len(domain.counts)), 0)
            for row, count in wanted.items():
                value = int(domain.column.ids[row])
                if value >= 0 and (domain.eligible is None or domain.eligible[row]):
                    sums[value] += count
            if [int(count) for count in domain.counts] != list(sums.values()):
                yield f"domains of {label} for {key}: {domain.counts} and not {sums}"
    for terms in cluster.counts.term_list:
        carriers = sum(terms in info.pod_class.counters for info in cluster.pods.values())
        if terms.total != carriers or int(terms.rows.sum()) != carriers:
            yield f"term {terms.term}: counted {terms.total} times and carried by {carriers} pods"


def _classes(cluster: ClusterState) -> Iterator[str]:
    """What a pod class knows of its pods, against a recount."""
    wanted: dict[Any, dict[int, int]] = {}
    for info in cluster.pods.values():
        rows = wanted.setdefault(info.pod_class, {})
        rows[info.row] = rows.get(info.row, 0) + 1
    if set(cluster.counts._live) != set(wanted):
        yield f"{len(cluster.counts._live)} classes count as live and {len(wanted)} are"
    for pod_class, rows in wanted.items():
        if pod_class.rows != rows or pod_class.pods != sum(rows.values()):
            yield f"class of {pod_class.labels}: rows {pod_class.rows} and not {rows}"


def _objects(scheduler: Scheduler) -> Iterator[str]:
    for kind in KINDS:
        if kind in (api.Pod, api.Node):
            continue
        found = {obj.key: obj.metadata.resource_version for obj in scheduler.cluster.all(kind)}
        wanted = {obj.key: obj.metadata.resource_version for obj in scheduler.known(kind)}
        if found != wanted:
            yield f"{kind.__name__}: {dict(found.items() ^ wanted.items())}"


def _groups(scheduler: Scheduler) -> Iterator[str]:
    cluster = scheduler.cluster
    if not cluster.features.generic_workload:
        return
    wanted: dict[str, tuple[set[str], set[str]]] = {}
    for pod in scheduler.known(api.Pod):
        ours = pod.node_name or pod.scheduler_name in scheduler.profiles
        if pod.pod_group and ours and not pod.is_terminal:
            members, scheduled = wanted.setdefault(pod.pod_group, (set(), set()))
            members.add(pod.uid)
            if pod.uid in cluster.pods:
                scheduled.add(pod.uid)
    found = {key: (set(group.pods), set(group.scheduled)) for key, group in cluster.pod_groups._groups.items()}
    if found != wanted:
        yield f"pod groups: {found} and not {wanted}"


def _index(scheduler: Scheduler) -> Iterator[str]:
    """The queue's index of the plugins that waiting pods wait for."""
    waiting = scheduler.queue._unschedulable
    for queued in waiting:
        found = {plugin for _, plugin, _ in waiting._filed[queued.uid][1]}
        wanted = {queued.gating_plugin} if queued.gated else set(queued.rejectors) or {""}
        if found != wanted:
            yield f"the queue has {queued.pod.key} under {sorted(found)} and not under {sorted(wanted)}"


def _answers_about(info: PodInfo, cached: CachedAnswers, fresh: CachedAnswers, except_of: str) -> Iterator[str]:
    scored = cached._scored
    cached.refresh(info.pod, NOT_RECORDED)
    fresh.refresh(info.pod, NOT_RECORDED)
    found, wanted = _passing(cached), _passing(fresh)
    for name in sorted(found.keys() | wanted.keys()):
        mine, theirs = found.get(name, []), wanted.get(name, [])
        if name != except_of and mine != theirs:
            yield f"cached answers of {name} about {info.pod.key}: it rejects {mine} and not {theirs}"
    if scored and cached._scored and not except_of:
        fresh.score(info.pod, NOT_RECORDED)
        valid = cached._table.valid[: cached._table.size]
        for what in ("base", "ranked"):
            mine, theirs = getattr(cached, what)[valid].tolist(), getattr(fresh, what)[valid].tolist()
            if mine != theirs:
                yield f"cached scores of {info.pod.key}: {mine} and not {theirs}"


def _passing(answers: CachedAnswers) -> dict[str, list[int]]:
    """The rows that each plugin rejects, of those that have a node."""
    valid = answers._table.valid
    rejected = {each.plugin.name: np.flatnonzero(each.codes).tolist() for each in answers.filters}
    return {name: [row for row in rows if valid[row]] for name, rows in rejected.items()}
