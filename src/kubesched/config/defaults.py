"""Filling in what a file leaves out, so that everything after this sees a complete configuration.

Most defaults are simply the structs' own. Here are the ones that need more: values whose zero means "not set", the
default plugins with a profile's changes merged into them, and arguments for every enabled plugin that has a type for
them.
"""

from collections.abc import Sequence
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.config.args import (
    ARGS,
    BINDING_TIMEOUT,
    DEFAULT_RESOURCES,
    FILTER_TIMEOUT,
    DynamicResourcesArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    ResourceSpec,
    UtilizationShapePoint,
    VolumeBindingArgs,
)
from kubesched.config.duration import Duration
from kubesched.config.types import (
    SECTIONS,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
    Section,
)

S = TypeVar("S", bound=Section)

DEFAULT_PLUGINS = {
    "SchedulingGates": 0,
    "PrioritySort": 0,
    "NodeUnschedulable": 0,
    "NodeName": 0,
    "TaintToleration": 3,
    "NodeAffinity": 2,
    "NodePorts": 0,
    "NodeResourcesFit": 1,
    "VolumeRestrictions": 0,
    "NodeVolumeLimits": 0,
    "VolumeBinding": 0,
    "VolumeZone": 0,
    "PodTopologySpread": 2,
    "InterPodAffinity": 2,
    "DynamicResources": 2,
    "DefaultPreemption": 0,
    "NodeResourcesBalancedAllocation": 1,
    "ImageLocality": 1,
    "DefaultBinder": 0,
    "NodeDeclaredFeatures": 0,
}
"""The default plugins, name → weight. All are enabled through multiPoint, in this order."""

EXTENDER_TIMEOUT = Duration.of(5)


EMPTIEST_FIRST = (UtilizationShapePoint(utilization=0, score=10), UtilizationShapePoint(utilization=100, score=0))
"""How VolumeBinding scores storage where the gate is on and the file gives no shape."""


def complete(
    config: KubeSchedulerConfiguration,
    default_plugins: dict[str, int] = DEFAULT_PLUGINS,
    features: Features = DEFAULT_FEATURES,
) -> KubeSchedulerConfiguration:
    """``config`` with every default filled in. Completing a complete configuration changes nothing."""
    if not features.node_declared_features:
        default_plugins = {name: weight for name, weight in default_plugins.items() if name != "NodeDeclaredFeatures"}
    if features.gang_scheduling:
        default_plugins = default_plugins | {"GangScheduling": 0}
    if features.topology_aware_workload_scheduling:
        default_plugins = default_plugins | {"TopologyPlacementGenerator": 0, "PodGroupPodsCount": 1}
    ignored = tuple(
        resource.name
        for extender in config.extenders
        for resource in extender.managed_resources
        if resource.ignored_by_scheduler
    )
    return replace(
        config,
        leader_election=_zeros_replaced(config.leader_election),
        client_connection=_zeros_replaced(config.client_connection),
        profiles=tuple(_profile(profile, default_plugins, ignored, features) for profile in config.profiles),
        extenders=tuple(_extender(extender) for extender in config.extenders),
    )


def _zeros_replaced(section: S) -> S:
    """A zero or an empty string means "not set" here; a boolean means what it says."""
    zeros = {
        field.name: field.default
        for field in msgspec.structs.fields(section)
        if not isinstance(value := getattr(section, field.name), bool) and not value
    }
    return replace(section, **zeros)


def _extender(extender: Extender) -> Extender:
    return extender if extender.http_timeout else replace(extender, http_timeout=EXTENDER_TIMEOUT)


# --- profiles ---------------------------------------------------------------------------------------------------------


def _profile(
    profile: KubeSchedulerProfile, default_plugins: dict[str, int], ignored: tuple[str, ...], features: Features
) -> KubeSchedulerProfile:
    plugins = merge(default_plugins, profile.plugins)
    given = [replace(each, args=_args(each.name, each.args, features)) for each in profile.plugin_config]
    missing = sorted(ARGS.keys() & set(plugins.names()) - {each.name for each in given})
    configs = [*given, *(PluginConfig(name=name, args=_args(name, None, features)) for name in missing)]
    return replace(profile, plugins=plugins, plugin_config=tuple(_ignoring(each, ignored) for each in configs))


def merge(default_plugins: dict[str, int], plugins: Plugins) -> Plugins:
    """The default plugins, which are all in multiPoint, with a profile's own sections applied."""
    defaults = tuple(Plugin(name=name, weight=weight) for name, weight in default_plugins.items())
    sections = {
        field: _merge_set(defaults if section == "multiPoint" else (), plugins[section])
        for section, field in SECTIONS.items()
    }
    return Plugins(**sections)


def _merge_set(defaults: Sequence[Plugin], custom: PluginSet) -> PluginSet:
    off = {plugin.name for plugin in custom.disabled}
    kept = [] if "*" in off else [plugin for plugin in defaults if plugin.name not in off]
    # A default plugin that is listed again is replaced by its last mention. Validation reports the other repetitions.
    index = {plugin.name: position for position, plugin in enumerate(custom.enabled)}
    replacing = {index[plugin.name] for plugin in kept if plugin.name in index}
    enabled = [custom.enabled[index[plugin.name]] if plugin.name in index else plugin for plugin in kept]
    enabled += [plugin for position, plugin in enumerate(custom.enabled) if position not in replacing]
    return PluginSet(enabled=tuple(enabled), disabled=tuple(Plugin(name=plugin.name) for plugin in custom.disabled))


def _args(name: str, args: object, features: Features) -> object:
    if args is None and name in ARGS:
        args = ARGS[name]()
    match args:
        case NodeResourcesFitArgs():
            strategy = replace(args.scoring_strategy, resources=_resources(args.scoring_strategy.resources))
            return replace(args, scoring_strategy=strategy)
        case NodeResourcesBalancedAllocationArgs():
            return replace(args, resources=_resources(args.resources))
        case DynamicResourcesArgs():
            return _device_timeouts(args, features)
        case VolumeBindingArgs() if features.storage_capacity_scoring and not args.shape:
            return replace(args, shape=EMPTIEST_FIRST)
    return args


def _device_timeouts(args: DynamicResourcesArgs, features: Features) -> DynamicResourcesArgs:
    if args.filter_timeout is None and features.dra_scheduler_filter_timeout:
        args = replace(args, filter_timeout=FILTER_TIMEOUT)
    if args.binding_timeout is None and features.binding_conditions:
        args = replace(args, binding_timeout=BINDING_TIMEOUT)
    return args


def _resources(resources: tuple[ResourceSpec, ...]) -> tuple[ResourceSpec, ...]:
    return tuple(replace(each, weight=each.weight or 1) for each in resources) or DEFAULT_RESOURCES


def _ignoring(config: PluginConfig, ignored: tuple[str, ...]) -> PluginConfig:
    """Resources that extenders manage and want ignored replace NodeResourcesFit's own list."""
    if ignored and isinstance(config.args, NodeResourcesFitArgs):
        return replace(config, args=replace(config.args, ignored_resources=ignored))
    return config
