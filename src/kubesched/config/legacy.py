"""Configuration files of versions before v1, converted.

v1beta1, v1beta2 and v1beta3 are v1 with other names for a few things: plugins that have since been merged into others
or removed, two addresses that became flags, and smaller default weights. A converted file keeps its meaning as far as
possible, and every change is reported, so that its owner can move it to v1.
"""

from collections.abc import Iterable, Iterator

from msgspec.structs import replace

from kubesched.config.args import (
    ARGS,
    DEFAULT_RESOURCES,
    Args,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    ScoringStrategyType,
    UtilizationShapePoint,
)
from kubesched.config.defaults import DEFAULT_PLUGINS
from kubesched.config.types import (
    API_VERSION,
    GROUP,
    SECTIONS,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
    Plugin,
    PluginConfig,
    Plugins,
    PluginSet,
)
from kubesched.config.validation import REMOVED

VERSIONS = {f"{GROUP}/{version}": version for version in ("v1beta1", "v1beta2", "v1beta3")}

FIT = "NodeResourcesFit"
STRATEGIES: dict[str, ScoringStrategyType] = {
    "NodeResourcesLeastAllocated": "LeastAllocated",
    "NodeResourcesMostAllocated": "MostAllocated",
    "RequestedToCapacityRatio": "RequestedToCapacityRatio",
}
_ADDRESSES = ("healthzBindAddress", "metricsBindAddress")
_OLD_ARGS = {
    "CapacityScheduling": ("kubeConfigPath",),
    "Coscheduling": ("kubeConfigPath", "kubeMaster", "deniedPGExpirationTimeSeconds"),
    "NodeResourceTopologyMatch": ("kubeconfigpath", "masteroverride", "namespaces"),
}
"""Arguments by which plugins of scheduler-plugins had connections of their own, and a delay that is gone."""
_EARLY_WEIGHTS = {"TaintToleration": 1, "NodeAffinity": 1, "InterPodAffinity": 1}


class NodeResourcesLeastAllocatedArgs(Args, frozen=True, kw_only=True):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class NodeResourcesMostAllocatedArgs(Args, frozen=True, kw_only=True):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class RequestedToCapacityRatioArgs(Args, frozen=True, kw_only=True):
    shape: tuple[UtilizationShapePoint, ...] = ()
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


LEGACY_ARGS: dict[str, type[Args]] = {
    **ARGS,
    "NodeResourcesLeastAllocated": NodeResourcesLeastAllocatedArgs,
    "NodeResourcesMostAllocated": NodeResourcesMostAllocatedArgs,
    "RequestedToCapacityRatio": RequestedToCapacityRatioArgs,
}


def default_plugins(version: str) -> dict[str, int]:
    """The default plugins with that version's weights; v1beta3 introduced those of v1."""
    return DEFAULT_PLUGINS | _EARLY_WEIGHTS if version in ("v1beta1", "v1beta2") else DEFAULT_PLUGINS


def drop_old_fields(tree: dict[str, object], version: str, warnings: list[str]) -> dict[str, object]:
    """A file's content without the fields that v1 no longer has."""
    old = [] if version == "v1beta3" else [name for name in _ADDRESSES if name in tree]
    warnings += [f"{name}: has no effect; use the flags --bind-address and --secure-port" for name in old]
    kept = {name: value for name, value in tree.items() if name not in old}
    if isinstance(profiles := kept.get("profiles"), list):
        kept["profiles"] = [_without_old_args(each, f"profiles[{n}]", warnings) for n, each in enumerate(profiles)]
    return kept


def _without_old_args(profile: object, path: str, warnings: list[str]) -> object:
    """A profile without arguments that no version of v1 had. What is malformed is left to the decoder."""
    if not isinstance(profile, dict) or not isinstance(configs := profile.get("pluginConfig"), list):
        return profile
    kept = list(configs)
    for index, each in enumerate(configs):
        args = each.get("args") if isinstance(each, dict) else None
        if not isinstance(args, dict):
            continue
        old = [name for name in _OLD_ARGS.get(str(each.get("name")), ()) if name in args]
        if old:
            warnings += [f"{path}.pluginConfig[{index}].args.{name}: has no effect any more" for name in old]
            kept[index] = {**each, "args": {name: value for name, value in args.items() if name not in old}}
    return {**profile, "pluginConfig": kept}


def modernize(config: KubeSchedulerConfiguration, version: str, warnings: list[str]) -> KubeSchedulerConfiguration:
    """A decoded configuration of ``version`` as the closest v1 configuration."""
    warnings.append(f"apiVersion: {GROUP}/{version} is no longer served by kube-scheduler; move to {API_VERSION}")
    profiles = [
        _profile(profile, f"profiles[{index}]", version, warnings) for index, profile in enumerate(config.profiles)
    ]
    election = _leader_election(config.leader_election, warnings)
    return replace(config, profiles=tuple(profiles), leader_election=election)


def _leader_election(election: LeaderElection, warnings: list[str]) -> LeaderElection:
    lock = election.resource_lock
    if lock not in ("endpoints", "configmaps", "endpointsleases", "configmapsleases"):
        return election
    warnings.append(f'leaderElection.resourceLock: "{lock}" no longer exists; using "leases"')
    return replace(election, resource_lock="leases")


def _profile(profile: KubeSchedulerProfile, path: str, version: str, warnings: list[str]) -> KubeSchedulerProfile:
    warnings += _removals(profile, path)
    sections = {
        field: PluginSet(
            enabled=_renamed(profile.plugins[section].enabled), disabled=_renamed(profile.plugins[section].disabled)
        )
        for section, field in SECTIONS.items()
    }
    configs = _with_strategy(profile)
    if version == "v1beta1":
        configs = [_spread_by_list(config) for config in configs]
    return replace(profile, plugins=Plugins(**sections), plugin_config=tuple(configs))


def _removals(profile: KubeSchedulerProfile, path: str) -> Iterator[str]:
    enabled = {
        f"{path}.plugins.{section}.enabled[{index}]": plugin.name
        for section in SECTIONS
        for index, plugin in enumerate(profile.plugins[section].enabled)
    }
    configured = {f"{path}.pluginConfig[{index}]": each.name for index, each in enumerate(profile.plugin_config)}
    for where, name in (enabled | configured).items():
        if name in REMOVED:
            done = f"{FIT} takes its place" if name in STRATEGIES else "left out"
            yield f"{where}: {name} was removed, {done}; {REMOVED[name]}"


def _renamed(plugins: Iterable[Plugin]) -> tuple[Plugin, ...]:
    """The plugins under today's names. Several strategies, which are one plugin today, become the last of them."""
    current = [plugin for plugin in plugins if plugin.name in STRATEGIES or plugin.name not in REMOVED]
    renamed = [replace(plugin, name=FIT) if plugin.name in STRATEGIES else plugin for plugin in current]
    last = {plugin.name: index for index, plugin in enumerate(renamed)}
    return tuple(plugin for index, plugin in enumerate(renamed) if plugin.name != FIT or index == last[FIT])


def _with_strategy(profile: KubeSchedulerProfile) -> list[PluginConfig]:
    """The arguments, with those of the former strategy plugins moved to NodeResourcesFit."""
    enabled = [plugin.name for plugin in profile.plugins.score.enabled if plugin.name in STRATEGIES]
    chosen = enabled[-1] if enabled else "NodeResourcesLeastAllocated"
    args = profile.args_of(chosen)
    current = [config for config in profile.plugin_config if config.name not in REMOVED]
    if not enabled and args is None:
        return current
    fit = profile.args_of(FIT)
    fit = fit if isinstance(fit, NodeResourcesFitArgs) else NodeResourcesFitArgs()
    merged = PluginConfig(name=FIT, args=replace(fit, scoring_strategy=_strategy(STRATEGIES[chosen], args)))
    return [*(config for config in current if config.name != FIT), merged]


def _strategy(kind: ScoringStrategyType, args: object) -> ScoringStrategy:
    match args:
        case RequestedToCapacityRatioArgs(shape=shape, resources=resources):
            ratio = RequestedToCapacityRatioParam(shape=shape)
            return ScoringStrategy(type=kind, resources=resources, requested_to_capacity_ratio=ratio)
        case NodeResourcesLeastAllocatedArgs(resources=resources) | NodeResourcesMostAllocatedArgs(resources=resources):
            return ScoringStrategy(type=kind, resources=resources)
    return ScoringStrategy(type=kind)


def _spread_by_list(config: PluginConfig) -> PluginConfig:
    """In v1beta1, giving constraints was enough to use them."""
    args = config.args
    if isinstance(args, PodTopologySpreadArgs) and args.default_constraints:
        return replace(config, args=replace(args, defaulting_type="List"))
    return config
