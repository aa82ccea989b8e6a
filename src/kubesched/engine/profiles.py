"""From a configuration to engines: one per profile, all on the same cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from random import Random

import msgspec

from kubesched.cluster.state import ClusterState
from kubesched.config.plugins import expand
from kubesched.config.types import KubeSchedulerConfiguration, KubeSchedulerProfile
from kubesched.engine.engine import Engine
from kubesched.engine.tie_breaking import Choose
from kubesched.framework.errors import start_of
from kubesched.framework.handle import Services
from kubesched.framework.plugin import Handle, Plugin, is_built_in
from kubesched.framework.registry import Registry
from kubesched.framework.runtime import Framework
from kubesched.framework.what_if import WhatIf

LISTED_POINTS = (
    "preEnqueue",
    "queueSort",
    "preFilter",
    "filter",
    "postFilter",
    "preScore",
    "score",
    "reserve",
    "permit",
    "preBind",
    "bind",
    "postBind",
    "multiPoint",
    "placementGenerate",
    "placementScore",
)


def build_engines(
    config: KubeSchedulerConfiguration,
    registry: Registry,
    cluster: ClusterState,
    random: Random,
    *,
    choose: Choose | None = None,
    services: Services | None = None,
    extended: bool = False,
    extenders: bool = False,
) -> dict[str, Engine]:
    """An engine for every profile, by scheduler name. `services` are for plugins; decisions alone need none."""
    engines = {}
    for profile in config.profiles:
        percentage = profile.percentage_of_nodes_to_score
        if percentage is None:
            percentage = config.percentage_of_nodes_to_score
        engines[profile.scheduler_name] = Engine(
            build_framework(profile, registry, cluster, random, services, choose),
            random,
            percentage_of_nodes_to_score=percentage or 0,
            choose=choose,
            extended=extended,
            extenders=extenders,
        )
    return engines


def build_framework(
    profile: KubeSchedulerProfile,
    registry: Registry,
    cluster: ClusterState,
    random: Random,
    services: Services | None = None,
    choose: Choose | None = None,
) -> Framework:
    """A profile's plugins, made with their arguments and put at their points. The cluster follows every field of nodes
    and pods if a plugin of others caches answers: ours read columns only, theirs may read anything."""
    framework: Framework | None = None

    def what_if() -> WhatIf | None:
        return None if framework is None else framework.what_if

    resolved = expand(profile, registry.points, registry.weights)
    handle = Handle(cluster, random, profile.scheduler_name, services=services, what_if=what_if, choose=choose)
    plugins = {name: _make(registry[name], profile, handle) for name in resolved.names()}
    if any(each.reads.is_cacheable and not is_built_in(type(each)) for each in plugins.values()):
        cluster.nodes.exact = cluster.classes.exact = True
    points: Mapping[str, Sequence[Plugin]] = {
        str(point): [plugins[name] for name in names] for point, names in resolved.points.items()
    }
    framework = Framework(profile.scheduler_name, cluster, points, resolved.weights, resolved.placement_weights)
    if handle.log.verbosity >= 2:
        handle.log(2, "the scheduler starts to work with those plugins", Plugins=_listed(framework))
    return framework


def _listed(framework: Framework) -> dict[str, object]:
    """The plugins at each point, as kube-scheduler logs them."""
    listed: dict[str, object] = {}
    for point in LISTED_POINTS:
        plugins = framework.points.get(point, ())
        weights = {"score": framework.weights, "placementScore": framework.placement_weights}.get(point, {})
        enabled = [{"Name": plugin.name, "Weight": weights.get(plugin.name, 0)} for plugin in plugins]
        listed[point[0].upper() + point[1:]] = {"Enabled": enabled or None, "Disabled": None}
    return listed


def _make(plugin: type[Plugin], profile: KubeSchedulerProfile, handle: Handle) -> Plugin:
    args = profile.args_of(plugin.name)
    if plugin.args_type is not None and not isinstance(args, plugin.args_type):
        args = msgspec.convert(args or {}, plugin.args_type)
    with start_of(plugin, "__init__"):
        return plugin(args, handle)
