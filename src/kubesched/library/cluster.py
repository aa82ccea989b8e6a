"""A cluster in memory that answers: where would this pod go, how many fit, what if a node goes?"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.client.http import OnPage
from kubesched.cluster.pods import identified
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import Nodes
from kubesched.engine.decision import Decision as Attempt
from kubesched.engine.outcome import Outcome
from kubesched.engine.profiles import build_engines
from kubesched.explain.explainer import Explainer
from kubesched.explain.standing import Queued
from kubesched.framework.registry import PluginSource
from kubesched.library import live
from kubesched.library.admission import admitted
from kubesched.library.capacity import CapacityReport, count_fitting
from kubesched.library.configuration import Config, configuration, known_plugins
from kubesched.library.consolidation import Consolidation, MovePlan, consolidate, plan_moves
from kubesched.library.decision import Decision
from kubesched.library.manifests import (
    Manifests,
    Source,
    completed,
    decoded,
    read_objects,
    read_paths,
    read_pod,
    read_pods,
)
from kubesched.library.node_types import read_node_types
from kubesched.library.results import Comparison, Fate, Placement, Placements
from kubesched.library.sizing import NodesNeeded, nodes_needed
from kubesched.library.suppose import apply
from kubesched.library.tables import Row, as_frame, as_html
from kubesched.library.templates import read_templates
from kubesched.library.trial import fresh
from kubesched.library.what_if import WhatIfResult, what_if
from kubesched.snapshots.contents import Item
from kubesched.snapshots.implied import WORKLOADS, implied

O = TypeVar("O", bound=api.Object)  # noqa: E741  # the one-letter name for "some kind of object"

AT_MOST = 10_000
GIB = 2**30


class Cluster:
    """Nodes, pods and everything else that scheduling reads, with kube-scheduler's decisions about them.

    `objects` are structs, dicts, or JSON or YAML text. `config` is a KubeSchedulerConfiguration. Without one, `plugins`
    are enabled beside the default plugins; a configuration enables them by name. The same cluster gives the same
    decisions: `seed` decides between nodes that are equally good.
    """

    def __init__(
        self, *objects: Source, config: Config = None, plugins: Iterable[PluginSource] = (), seed: int = 0
    ) -> None:
        self._plugins = tuple(plugins)
        self._config = config
        self._seed = seed
        self._random = Random(seed)
        self._state = ClusterState()
        self._objects: dict[tuple[type[api.Object], str], api.Object] = {}
        self._changes = 0
        self._made = 0
        self.ignored: dict[str, int] = {}
        """Kinds that were given and that scheduling does not read, with the number of their objects."""
        registry = known_plugins(self._plugins)
        self._configuration = configuration(config, registry, self._plugins)
        if self._configuration.extenders:
            warnings.warn("extenders are not called: decisions are made without them", stacklevel=2)
        self._engines = build_engines(self._configuration, registry, self._state, self._random)
        self.add(*objects)

    # --- where clusters come from -------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        *paths: str | PathLike[str],
        config: Config = None,
        plugins: Iterable[PluginSource] = (),
        seed: int = 0,
    ) -> Self:
        """A cluster from files: ``kubectl get -o json``, JSON or YAML with any number of documents, or folders of them.

        Raises `ManifestError` with everything that is wrong in the files.
        """
        made = cls(config=config, plugins=plugins, seed=seed)
        made._add(read_paths(map(Path, paths)))
        return made

    @classmethod
    def from_kubeconfig(
        cls,
        path: str | PathLike[str] | None = None,
        *,
        context: str | None = None,
        config: Config = None,
        plugins: Iterable[PluginSource] = (),
        seed: int = 0,
        on_page: OnPage | None = None,
    ) -> Self:
        """A copy of a running cluster, read once. Without a `path` the kubeconfig is found as kubectl finds it.

        `on_page` is called for every page of a list that has arrived, with the kind and the number of objects so far.
        """
        made = cls(config=config, plugins=plugins, seed=seed)
        for each in live.fetch(path, context, on_page):
            made._set(each)
        return made

    def copy(self) -> Cluster:
        """A cluster with the same objects and the same configuration."""
        return self._with(self._config)

    def _with(self, config: Config) -> Cluster:
        made = self.reconfigured(config, self._plugins)
        made._made, made.ignored = self._made, dict(self.ignored)
        return made

    # --- what is in it ------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[api.Node]:
        """All nodes."""
        return self._all(api.Node)

    @property
    def pods(self) -> list[api.Pod]:
        """All pods, pending ones included."""
        return self._all(api.Pod)

    @property
    def pending(self) -> list[api.Pod]:
        """The pods that have no node yet."""
        return [each for each in self.pods if not each.node_name and not each.is_terminal]

    def add(self, *objects: Source) -> None:
        """Add objects, or replace those of the same kind and name."""
        self._add(read_objects(objects))

    def remove(self, *objects: api.Object) -> None:
        """Remove objects of the cluster, such as those in `nodes` and `pods`."""
        for each in objects:
            obj = _identified(completed(each))
            if self._objects.pop(_key(obj), None) is None:
                raise ValueError(f"the cluster has no {obj.kind} {obj.key}")
            self._state.remove(obj)
            self._changes += 1

    def node(self, name: str) -> api.Node:
        """A node by its name; raises LookupError if there is none."""
        found = self._objects.get((api.Node, name))
        if not isinstance(found, api.Node):
            raise LookupError(f"the cluster has no node {name!r}")
        return found

    # --- questions ----------------------------------------------------------------------------------------------------

    def schedule(self, pod: Source) -> Decision:
        """Decide where a pod goes: a struct, a dict, or JSON or YAML text. Nothing changes unless you `place()` it."""
        attempt = self._attempt(self._incoming(read_pod(pod)), record=True)
        made_at = self._changes

        def place(evict: bool) -> None:
            self._place_decided(attempt, made_at, evict)

        return Decision(attempt, place)

    def schedule_all(self, pods: Iterable[Source]) -> Iterator[Placement]:
        """Schedule pods one after the other, and place each that has a node before the next one is scheduled.

        Pods are taken as the result is iterated over. Nothing is evicted for them.
        """
        return self._play(self._incoming(read_pod(each)) for each in pods)

    def how_many(self, pod: Source, *, at_most: int = AT_MOST) -> int:
        """How many such pods fit, scheduled one after the other, without evicting any other pod."""
        template = self._incoming(read_pod(pod))
        trial = self.copy()
        count = 0
        while count < at_most:
            attempt = trial._attempt(_numbered(template, count))
            if not attempt.node:
                break
            trial._place(attempt, attempt.node)
            count += 1
        return count

    def capacity(
        self, *pods: Source, sequence: bool = False, preempt: bool = False, at_most: int = AT_MOST
    ) -> CapacityReport:
        """How many of these fit, what runs out first, and what keeps the next one from each node.

        Pods, or workloads whose pods are taken. Several are placed in turn, in the proportion of their replicas; in
        `sequence`, as many of the first as fit, then of the second. With `preempt`, less important pods make room.
        """
        return count_fitting(self, read_templates(pods), sequence=sequence, preempt=preempt, at_most=at_most)

    def nodes_needed(self, pods: Source | Iterable[Source] | None, types: str | Path | list[Any]) -> NodesNeeded:
        """The cheapest nodes to add so that all pods fit, those of workloads included. None: those that are pending.

        `types` are the types of nodes that can be had, each with a price: a list of dicts, or the file with one.
        """
        trial = self.copy()
        if pods is not None:
            trial.remove(*trial.pending)
            several = not isinstance(pods, api.Object | Mapping | str | bytes)
            trial.add(*(pods if several else [pods]))  # type: ignore[misc]
        incoming = trial.pending
        trial.remove(*incoming)
        return nodes_needed(trial, incoming, read_node_types(types))

    def what_if(self, *changes: str, preempt: bool = True) -> WhatIfResult:
        """Who moves where if nodes are drained, fail or join, who stays pending, and which budgets hold.

        Changes are words: ``drain N``, ``cordon N``, ``taint N KEY=VALUE:EFFECT``, ``remove N``, ``fail zone Z``,
        ``add 3 like N``. A name may be a pattern such as ``pool-a-*``. Raises ValueError for a change that it cannot
        read.
        """
        return what_if(self, changes, preempt=preempt)

    def consolidate(self, nodes: Iterable[str] | None = None) -> Consolidation:
        """Which nodes could go altogether, in a safe order, and where their pods go. `nodes` limits the choice."""
        return consolidate(self, nodes)

    def plan(self, pod: Source) -> MovePlan:
        """The fewest moves of other pods that make a pod fit. Nothing is deleted, and budgets are respected."""
        given = read_pod(pod)
        known = next((each for each in self.pending if each.uid == given.uid and given.uid), None)
        return plan_moves(self, known or self._incoming(given))

    def drain(self, name: str) -> Placements:
        """Where the pods of a node would go if it were drained, as ``kubectl drain --ignore-daemonsets`` does.

        Pods are scheduled by priority. `ok` of the result says whether all of them find a place.
        """
        trial = self.copy()
        trial.remove(*trial.pending)  # pods that wait would take the room
        self.node(name)
        effect = apply(trial, [f"drain {name}"])
        moved = [fresh(each.pod) for each in effect.pods if each.fate is Fate.PENDING]
        stays = [each for each in effect.pods if each.fate is not Fate.PENDING]
        return Placements([*trial._play(moved), *stays])

    def compare(self, config_a: Config, config_b: Config, pods: Source | Iterable[Source] | None = None) -> Comparison:
        """Schedule pods, one after the other, with two configurations. Without `pods`, those that are pending.

        None stands for the default configuration, with the cluster's plugins if it has any.
        """
        given = self.pending if pods is None else read_pods(pods)
        incoming = [self._incoming(each) for each in given]
        a, b = (Placements(self._with(each)._play(incoming)) for each in (config_a, config_b))
        return Comparison(a, b)

    def reconfigured(self, config: Config, plugins: Iterable[PluginSource] = ()) -> Cluster:
        """A cluster with the same objects, another configuration and other plugins."""
        made = Cluster(config=config, plugins=plugins, seed=self._seed)
        for each in self._objects.values():
            made._set(each)
        return made

    def explainer(
        self,
        *,
        now: float | None = None,
        tries: Mapping[str, int] | None = None,
        queue: Mapping[str, Queued] | None = None,
    ) -> Explainer:
        """Explains why pods have no node, or have the one they have.

        `now`, in seconds since 1970, is for ages; `tries` says how often pods were tried, and `queue` what a running
        scheduler has in its queue, both by UID.
        """
        tried, waiting = tries or {}, queue or {}

        def tries_of(pod: api.Pod) -> int | None:
            queued = waiting.get(pod.uid)
            return tried.get(pod.uid) if queued is None else queued.tries

        return Explainer(
            self._state,
            self._engines,
            self.pods,
            now=now,
            queued=lambda pod: waiting.get(pod.uid),
            tries=tries_of,
        )

    # --- as a table ---------------------------------------------------------------------------------------------------

    def to_frame(self) -> Any:
        """A data frame with a row per node: amounts in cores, bytes and pods."""
        return as_frame([self._amounts(name) for name in sorted(self._names())])

    def _repr_html_(self) -> str:
        return as_html(repr(self).strip("<>"), [self._shown(name) for name in sorted(self._names())])

    def __repr__(self) -> str:
        running = len(self._state.pods)
        ignored = ", ".join(f"{number} {kind}" for kind, number in sorted(self.ignored.items()))
        counts = f"{len(self._names())} nodes, {running} pods on them, {len(self.pending)} pending"
        return f"<Cluster: {counts}{f'; ignored: {ignored}' if ignored else ''}>"

    def _names(self) -> list[str]:
        return [key for kind, key in self._objects if kind is api.Node]

    def _amounts(self, name: str) -> Row:
        table = self._state.nodes
        row = table.row_of[name]
        window = Nodes(table, slice(row, row + 1))
        free = {each: (int(window.requested(each)[0]), int(window.allocatable(each)[0])) for each in ("cpu", "memory")}
        node = self.node(name)
        return {
            "node": name,
            "cpu requested": free["cpu"][0] / 1000,
            "cpu": free["cpu"][1] / 1000,
            "memory requested": free["memory"][0],
            "memory": free["memory"][1],
            "pods": int(window.pod_count[0]),
            "pods allowed": int(window.allocatable("pods")[0]),
            "unschedulable": node.spec.unschedulable,
            "taints": ", ".join(_taint(each) for each in node.spec.taints),
        }

    def _shown(self, name: str) -> Row:
        amounts: dict[str, Any] = dict(self._amounts(name))
        return {
            "node": name,
            "cpu": f"{amounts['cpu requested']:g} of {amounts['cpu']:g}",
            "memory": f"{amounts['memory requested'] / GIB:.3g} of {amounts['memory'] / GIB:.3g} GiB",
            "pods": f"{amounts['pods']} of {amounts['pods allowed']}",
            "taints": ", ".join(filter(None, ("cordoned" if amounts["unschedulable"] else "", amounts["taints"]))),
        }

    # --- inside -------------------------------------------------------------------------------------------------------

    def _all(self, kind: type[O]) -> list[O]:
        return [each for each in self._objects.values() if isinstance(each, kind)]

    def _add(self, manifests: Manifests) -> None:
        """Add objects, and what they imply: the pods of a Deployment that do not exist yet."""
        for each in sorted(manifests.objects, key=lambda each: not isinstance(each, api.PriorityClass)):
            self._set(each)  # pods refer to priority classes
        for each in decoded(implied(manifests.items, self._context(manifests.items))):
            self._set(each)
        written = Counter(each.kind for each in manifests.items if each.kind in WORKLOADS and not each.was_read)
        for kind, number in (manifests.ignored - written).items():
            self.ignored[kind] = self.ignored.get(kind, 0) + number

    def _context(self, items: Sequence[Item]) -> list[Item]:
        """What the pods of new workloads depend on."""
        if not any(each.kind in WORKLOADS for each in items):
            return []
        kinds = (api.Namespace, api.Node, api.PriorityClass, api.StorageClass)
        found = (each for each in self._objects.values() if isinstance(each, kinds))
        return [Item(each.api_version, each.kind, msgspec.to_builtins(each)) for each in found]

    def _set(self, obj: api.Object) -> None:
        obj = _identified(obj)
        if isinstance(obj, api.Pod):
            obj = admitted(obj, self._priority_classes)
        self._objects[_key(obj)] = obj
        self._state.set(obj)
        self._changes += 1

    def _priority_classes(self) -> dict[str, api.PriorityClass]:
        return {each.name: each for each in self._state.all(api.PriorityClass)}

    def _incoming(self, pod: api.Pod) -> api.Pod:
        """A pod to be scheduled, as the API server would have stored it, with a UID of its own."""
        running = self._state.pods.get(pod.uid)
        if pod.node_name or running is not None:
            node = pod.node_name if running is None else running.pod.node_name
            hint = "remove() it and leave out spec.nodeName to ask where it would go"
            raise ValueError(f"pod {pod.key} is on node {node} already; {hint}")
        if pod.scheduler_name not in self._engines:
            known = ", ".join(map(repr, self._engines))
            raise ValueError(f"pod {pod.key} wants scheduler {pod.scheduler_name!r}; the configuration has {known}")
        if not pod.uid:
            self._made += 1
            pod = replace(pod, metadata=replace(pod.metadata, uid=f"pod:{pod.key}:{self._made}"))
        return admitted(pod, self._priority_classes)

    def _attempt(self, pod: api.Pod, *, record: bool = False) -> Attempt:
        engine = self._engines[pod.scheduler_name]
        self._random.seed(self._seed)
        info = self._state.classes.info(pod)
        gated = engine.framework.run_pre_enqueue(pod)
        if gated is not None:
            attempt = Attempt(info)
            attempt.outcome, attempt.message = Outcome.UNSCHEDULABLE, gated.message
            return attempt
        return engine.schedule(info, record=record)

    def _place_decided(self, attempt: Attempt, made_at: int, evict: bool) -> None:
        pod = attempt.pod
        if self._changes != made_at:
            raise ValueError(f"the cluster has changed since the decision about pod {pod.key}; schedule it again")
        room = attempt.post_filter
        if attempt.node:
            self._place(attempt, attempt.node)
        elif evict and room is not None and room.nominated_node_name:
            self.remove(*(victim.pod for victim in room.victims))
            promised = replace(pod.status, nominated_node_name=room.nominated_node_name)
            again = self._attempt(replace(pod, status=promised))
            self._place(again, again.node)
        else:
            hint = "; place(evict=True) makes room for it" if room is not None and room.nominated_node_name else ""
            raise ValueError(f"pod {pod.key} has no node: {attempt.message}{hint}")

    def _place(self, attempt: Attempt, node: str) -> None:
        pod = attempt.pod
        status = self._engines[pod.scheduler_name].framework.run_reserve(attempt.state, pod, node)
        if status is not None and not status.is_success:
            raise ValueError(f"pod {pod.key} cannot be placed: plugin {status.plugin}: {status.message}")
        bound = replace(pod, spec=replace(pod.spec, node_name=node))
        self._objects[_key(bound)] = bound
        self._state.set(bound)
        self._changes += 1

    def _play(self, pods: Iterable[api.Pod]) -> Iterator[Placement]:
        """Schedule and place pods in this order."""
        for pod in pods:
            if pod.scheduler_name not in self._engines:
                yield Placement(pod, Fate.PENDING, message=f"no profile is called {pod.scheduler_name!r}")
                continue
            attempt = self._attempt(pod)
            if attempt.node:
                self._place(attempt, attempt.node)
            fate = Fate.PLACED if attempt.node else Fate.PENDING
            yield Placement(pod, fate, attempt.node, attempt.message)


def _key(obj: api.Object) -> tuple[type[api.Object], str]:
    return type(obj), obj.uid if isinstance(obj, api.Pod) else obj.key


def _identified(obj: api.Object) -> api.Object:
    return identified(obj) if isinstance(obj, api.Pod) else obj


def _numbered(pod: api.Pod, number: int) -> api.Pod:
    return replace(pod, metadata=replace(pod.metadata, name=f"{pod.name}-{number}", uid=f"{pod.uid}:{number}"))


def _taint(taint: api.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
