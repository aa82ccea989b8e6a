"""A cluster in memory that answers: where would this pod go, how many fit, what if a node goes?"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any, Self

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.client.http import OnPage
from kubesched.cluster.view import Nodes
from kubesched.explain.explainer import Explainer
from kubesched.explain.standing import Queued
from kubesched.framework.registry import PluginSource
from kubesched.library import live
from kubesched.library.capacity import CapacityReport, count_fitting
from kubesched.library.configuration import Config
from kubesched.library.consolidation import Consolidation, consolidate
from kubesched.library.core import ClusterCore
from kubesched.library.decision import Decision
from kubesched.library.manifests import Source, read_objects, read_paths, read_pod, read_pods
from kubesched.library.moves import MovePlan, plan_moves
from kubesched.library.node_types import NodeType, read_node_types
from kubesched.library.results import Comparison, Fate, Placement, Placements
from kubesched.library.sizing import NodesNeeded, nodes_needed
from kubesched.library.suppose import PodEdit, apply, suppose
from kubesched.library.tables import Row, as_frame, as_html
from kubesched.library.templates import read_templates
from kubesched.library.trial import fresh
from kubesched.library.what_if import WhatIfResult, what_if

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
        self._core = ClusterCore(config, plugins, seed)
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
        found = read_paths(map(Path, paths))
        if not any(isinstance(each, api.Node | api.Pod) for each in found.objects):
            others = ", ".join(f"{number} {kind}" for kind, number in found.ignored.items())
            ignored = f"; ignored: {others}" if others else ""
            warnings.warn(f"no node and no pod in {', '.join(map(str, paths))}{ignored}", stacklevel=2)
        made._core.add(found)
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
            made._core.set(each)
        return made

    @classmethod
    def _of(cls, core: ClusterCore) -> Cluster:
        made = cls.__new__(cls)
        made._core = core
        return made

    def copy(self) -> Cluster:
        """A cluster with the same objects and the same configuration."""
        return self._of(self._core.copy())

    def reconfigured(self, config: Config, plugins: Iterable[PluginSource] = ()) -> Cluster:
        """A cluster with the same objects, another configuration and other plugins."""
        return self._of(self._core.reconfigured(config, plugins))

    # --- what is in it ------------------------------------------------------------------------------------------------

    @property
    def nodes(self) -> list[api.Node]:
        """All nodes."""
        return self._core.all(api.Node)

    @property
    def pods(self) -> list[api.Pod]:
        """All pods, pending ones included."""
        return self._core.all(api.Pod)

    @property
    def pending(self) -> list[api.Pod]:
        """The pods that have no node yet."""
        return self._core.pending

    @property
    def ignored(self) -> Mapping[str, int]:
        """Kinds that were given and that scheduling does not read, with the number of their objects."""
        return self._core.ignored

    def add(self, *objects: Source) -> None:
        """Add objects, or replace those of the same kind and name."""
        self._core.add(read_objects(objects))

    def remove(self, *objects: api.Object) -> None:
        """Remove objects of the cluster, such as those in `nodes` and `pods`."""
        self._core.remove(*objects)

    def node(self, name: str) -> api.Node:
        """A node by its name; raises LookupError if there is none."""
        return self._core.node(name)

    # --- questions ----------------------------------------------------------------------------------------------------

    def schedule(self, pod: Source) -> Decision:
        """Decide where a pod goes: a struct, a dict, or JSON or YAML text. Nothing changes unless you `place()` it."""
        return self._core.decide(self._core.incoming(read_pod(pod)))

    def schedule_all(self, pods: Iterable[Source]) -> Iterator[Placement]:
        """Schedule pods one after the other, and place each that has a node before the next one is scheduled.

        Pods are taken as the result is iterated over. Nothing is evicted for them.
        """
        return self._core.play(self._core.incoming(read_pod(each)) for each in pods)

    def how_many(self, pod: Source, *, at_most: int = AT_MOST) -> int:
        """How many such pods fit, scheduled one after the other, without evicting any other pod."""
        template = self._core.incoming(read_pod(pod))
        trial = self._core.copy()
        count = 0
        while count < at_most:
            attempt = trial.attempt(_numbered(template, count))
            if not attempt.node:
                break
            trial.place(attempt, attempt.node)
            count += 1
        return count

    def capacity(
        self, *pods: Source, sequence: bool = False, preempt: bool = False, at_most: int = AT_MOST
    ) -> CapacityReport:
        """How many of these fit, what runs out first, and what keeps the next one from each node.

        Pods, or workloads whose pods are taken. Several are placed in turn, in the proportion of their replicas; in
        `sequence`, as many of the first as fit, then of the second. With `preempt`, less important pods make room.
        """
        return count_fitting(self._core, read_templates(pods), sequence=sequence, preempt=preempt, at_most=at_most)

    def nodes_needed(
        self,
        pods: Source | Iterable[Source] | None,
        types: str | Path | Iterable[NodeType | Mapping[str, Any]],
        *,
        solver: bool = True,
    ) -> NodesNeeded:
        """The cheapest nodes to add so that all pods fit, those of workloads included. None: those that are pending.

        `types` are the types of nodes that can be had, each with a price: a list of them, or the file with one.
        Without a `solver` nodes are added one by one, which is quick and may cost more.
        """
        trial = self._core.copy()
        if pods is not None:
            trial.remove(*trial.pending)
            several = not isinstance(pods, api.Object | Mapping | str | bytes)
            trial.add(read_objects(pods if several else [pods]))  # type: ignore[arg-type, list-item]
        incoming = trial.pending
        trial.remove(*incoming)
        return nodes_needed(trial, incoming, read_node_types(types), solver=solver)

    def what_if(self, *changes: str, preempt: bool = True) -> WhatIfResult:
        """Who moves where if nodes are drained, fail or join, who stays pending, and which budgets hold.

        Changes are words: ``drain N``, ``cordon N``, ``taint N KEY=VALUE:EFFECT``, ``remove N``, ``fail zone Z``,
        ``add 3 like N``. A name may be a pattern such as ``pool-a-*``. Raises ValueError for a change that it cannot
        read.
        """
        trial = self._core.copy()
        return what_if(trial, changes, self._of(trial), preempt=preempt)

    def consolidate(self, nodes: Iterable[str] | None = None, *, bare: bool = False) -> Consolidation:
        """Which nodes could go, in a safe order, and where their pods go. `nodes` limits the choice.

        With `bare`, pods move that no controller would create again, such as those of a trace.
        """
        return consolidate(self._core, nodes, bare=bare)

    def plan(self, pod: Source) -> MovePlan:
        """The fewest moves of other pods that make a pod fit. Nothing is deleted, and budgets are respected."""
        given = read_pod(pod)
        known = next((each for each in self.pending if each.uid == given.uid and given.uid), None)
        return plan_moves(self._core, known or self._core.incoming(given))

    def drain(self, name: str) -> Placements:
        """Where the pods of a node would go if it were drained, as ``kubectl drain --ignore-daemonsets`` does.

        Pods are scheduled by priority. `ok` of the result says whether all of them find a place.
        """
        trial = self._core.copy()
        trial.remove(*trial.pending)  # pods that wait would take the room
        self.node(name)
        effect = apply(trial, [f"drain {name}"])
        moved = [fresh(each.pod) for each in effect.pods if each.fate is Fate.PENDING]
        stays = [each for each in effect.pods if each.fate is not Fate.PENDING]
        return Placements([*trial.play(moved), *stays])

    def compare(self, config_a: Config, config_b: Config, pods: Source | Iterable[Source] | None = None) -> Comparison:
        """Schedule pods, one after the other, with two configurations. Without `pods`, those that are pending.

        None stands for the default configuration, with the cluster's plugins if it has any.
        """
        given = self.pending if pods is None else read_pods(pods)
        incoming = [self._core.incoming(each) for each in given]
        plugins = self._core.plugins
        a, b = (Placements(self._core.reconfigured(each, plugins).play(incoming)) for each in (config_a, config_b))
        return Comparison(a, b)

    def suppose(self, *statements: str) -> list[PodEdit]:
        """Change this cluster as `what_if` would; pods that have to leave go where the scheduler puts them.

        Returns what statements such as ``pod.cpu=3`` do to a pod that you ask about.
        """
        return suppose(self._core, statements)

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
            self._core.state,
            self._core.engines,
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
        running = len(self._core.state.pods)
        ignored = ", ".join(f"{number} {kind}" for kind, number in sorted(self.ignored.items()))
        counts = f"{len(self._names())} nodes, {running} pods on them, {len(self.pending)} pending"
        return f"<Cluster: {counts}{f'; ignored: {ignored}' if ignored else ''}>"

    def _names(self) -> list[str]:
        return [each.name for each in self.nodes]

    def _amounts(self, name: str) -> Row:
        table = self._core.state.nodes
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


def _numbered(pod: api.Pod, number: int) -> api.Pod:
    return replace(pod, metadata=replace(pod.metadata, name=f"{pod.name}-{number}", uid=f"{pod.uid}:{number}"))


def _taint(taint: api.Taint) -> str:
    return f"{taint.key}={taint.value}:{taint.effect}" if taint.value else f"{taint.key}:{taint.effect}"
