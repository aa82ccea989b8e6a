"""Plugins, profiles and engines for tests, each in one call, and what they say as plain dictionaries by node name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from random import Random
from typing import Any, TypeVar

import numpy as np

from kubesched.api import objects as api
from kubesched.base.features import Features
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import Nodes
from kubesched.config.load import load
from kubesched.config.types import API_VERSION, KIND, KubeSchedulerConfiguration
from kubesched.engine.decision import Decision
from kubesched.engine.engine import Engine
from kubesched.engine.profiles import build_engines
from kubesched.framework.adapters import lift_filter, lift_score
from kubesched.framework.events import Action, ClusterEvent, Hint, Resource
from kubesched.framework.handle import Services
from kubesched.framework.plugin import POINTS, Handle, Plugin, points_of
from kubesched.framework.runtime import Framework
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.framework.what_if import WhatIf
from kubesched.plugins import in_tree_registry

P = TypeVar("P", bound=Plugin)

Chooser = Callable[[Sequence[int]], int]
Spoken = tuple[str, ...]
"""A status in short: its code, then its reasons. Empty for success."""


# --- one plugin -------------------------------------------------------------------------------------------------------


def make(
    plugin: type[P],
    cluster: ClusterState,
    args: object = None,
    *,
    random: Random | None = None,
    services: Services | None = None,
) -> P:
    """A plugin by itself, with its default arguments unless others are given."""
    if args is None and plugin.args_type is not None:
        args = plugin.args_type()
    return plugin(args, Handle(cluster, random or Random(0), services=services))


def named(plugin: type[P], name: str) -> type[P]:
    """The same plugin under another name, to have it in a profile more than once."""
    renamed: type[P] = type(name, (plugin,), {"name": name})
    return renamed


def spoken(status: Status | None) -> Spoken:
    """A status as code and reasons."""
    return () if status is None or status.is_success else (status.code.upstream, *status.reasons)


def filtered(plugin: Any, cluster: ClusterState, pod: api.Pod) -> dict[str, Spoken]:
    """What a plugin's PreFilter and Filter say of every node; a PreFilter that rejects or skips speaks for all."""
    info = cluster.classes.info(pod)
    state = CycleState(info.pod_class)
    nodes = Nodes(cluster.nodes)
    names = [node.name for node in nodes]
    answer = plugin.pre_filter(state, info.pod, nodes) if hasattr(plugin, "pre_filter") else None
    if isinstance(answer, Status) and not answer.is_success:
        return dict.fromkeys(names, () if answer.is_skip else spoken(answer))
    verdicts = lift_filter(plugin)(state, info.pod, nodes)
    if verdicts is None:
        return dict.fromkeys(names, ())
    codes = {cluster.nodes.names[row]: int(code) for row, code in enumerate(verdicts.codes)}
    return {name: spoken(verdicts.status_of(codes[name])) if codes[name] else () for name in names}


def scored(plugin: Any, cluster: ClusterState, pod: api.Pod, *, normalized: bool = True) -> dict[str, int] | None:
    """What a plugin scores every node, before weighting; None if its PreScore wants no Score."""
    info = cluster.classes.info(pod)
    state = CycleState(info.pod_class)
    nodes = Nodes(cluster.nodes)
    answer = plugin.pre_score(state, info.pod, nodes) if hasattr(plugin, "pre_score") else None
    if answer is not None and answer.is_skip:
        return None
    assert answer is None, answer
    raw = lift_score(plugin)(state, info.pod, nodes)
    scores = np.full(len(nodes), raw, dtype=np.int64) if isinstance(raw, int) else raw
    if normalized and hasattr(plugin, "normalize"):
        scores = plugin.normalize(state, info.pod, scores)
    by_row = scores.tolist()
    return {node.name: by_row[node.row] for node in nodes}


def hint(
    plugin: Plugin,
    resource: Resource,
    action: Action,
    pod: api.Pod,
    old: api.Object | None = None,
    new: api.Object | None = None,
) -> Hint | None:
    """What a plugin's hint says to an event; None if it did not ask for such events."""
    happened = ClusterEvent(resource, action)
    asked = [each for each in plugin.events_to_register() if each.event.matches(happened)]
    if not asked:
        return None
    answers = {Hint.QUEUE if each.hint is None else each.hint(pod, old, new) for each in asked}
    return Hint.QUEUE if Hint.QUEUE in answers else Hint.SKIP


# --- several plugins --------------------------------------------------------------------------------------------------


def profile(
    cluster: ClusterState,
    *plugins: type[Plugin] | Plugin,
    weights: Mapping[str, int] | None = None,
    random: Random | None = None,
) -> Framework:
    """A framework with just these plugins, each at every point it has, in this order."""
    framework: Framework | None = None

    def what_if() -> WhatIf | None:
        return None if framework is None else framework.what_if

    handle = Handle(cluster, random or Random(0), what_if=what_if)
    made = [p if isinstance(p, Plugin) else p(p.args_type() if p.args_type else None, handle) for p in plugins]
    points = {point: [p for p in made if point in points_of(type(p))] for point in POINTS}
    chosen = {p.name: 1 for p in made} | dict(weights or {})
    framework = Framework("test", cluster, points, chosen)
    return framework


def first_by_name(cluster: ClusterState) -> Chooser:
    """Break ties by the node's name."""
    return lambda rows: min(rows, key=lambda row: cluster.nodes.names[row])


def engine_of(
    cluster: ClusterState,
    *plugins: type[Plugin] | Plugin,
    weights: Mapping[str, int] | None = None,
    percentage: int = 0,
    choose: Chooser | None = None,
) -> Engine:
    """An engine with just these plugins."""
    framework = profile(cluster, *plugins, weights=weights)
    chooser = choose or first_by_name(cluster)
    return Engine(framework, Random(0), percentage_of_nodes_to_score=percentage, choose=chooser)


def default_engine(
    cluster: ClusterState,
    *extra: type[Plugin],
    config: Mapping[str, Any] | None = None,
    choose: Chooser | None = None,
    random: Random | None = None,
) -> Engine:
    """An engine of the default profile, or of one configured otherwise; `extra` plugins are enabled behind the rest.

    Ties go to the first node by name, unless a source of randomness is given.
    """
    registry = in_tree_registry()
    for plugin in extra:
        registry.add(plugin)
    loaded = _loaded(extra, cluster.features) if config is None else _load(extra, cluster.features, config)
    if random is None:
        choose = choose or first_by_name(cluster)
    engines = build_engines(loaded, registry, cluster, random or Random(0), choose=choose)
    return next(iter(engines.values()))


def _load(extra: Sequence[type[Plugin]], features: Features, config: Mapping[str, Any]) -> KubeSchedulerConfiguration:
    points = {**in_tree_registry().points, **{plugin.name: points_of(plugin) for plugin in extra}}
    only = {"plugins": {"multiPoint": {"enabled": [{"name": plugin.name} for plugin in extra]}}, **config}
    tree: dict[str, object] = {"apiVersion": API_VERSION, "kind": KIND, "profiles": [only]}
    return load(tree, points=points, features=features).config


@cache
def _loaded(extra: Sequence[type[Plugin]], features: Features) -> KubeSchedulerConfiguration:
    """Thousands of examples have the same configuration."""
    return _load(extra, features, {})


def schedule(engine: Engine, pod: api.Pod, *, record: bool = True) -> Decision:
    """Decide for a pod."""
    return engine.schedule(engine.cluster.classes.info(pod), record=record)


def place(engine: Engine, pods: Iterable[api.Pod]) -> dict[str, str]:
    """Schedule pods one after another, each assumed where it goes; where they went, or why not."""
    placed = {}
    for each in pods:
        decision = schedule(engine, each)
        placed[each.name] = decision.node or decision.message
        if decision.node:
            engine.cluster.assume(decision.info, decision.node)
    return placed


def feasible(decision: Decision) -> set[str]:
    """The nodes that a recorded decision found feasible."""
    table = decision.info and decision.scores.table if decision.scores else None
    assert decision.feasible_rows is not None
    assert decision.diagnosis is not None
    names = (table or decision.diagnosis.table).names
    return {names[row] for row in decision.feasible_rows.tolist()}
