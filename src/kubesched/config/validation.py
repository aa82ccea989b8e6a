"""What kube-scheduler rejects in a configuration whose types are right.

There are three functions because they need different input. `validate` checks values alone. `validate_names` checks the
names of plugins in the profiles as written, so that its paths are the file's. `validate_profiles` checks the completed
profiles and needs every plugin's extension points.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from kubesched.api.names import label_key_errors
from kubesched.api.resources import is_extended
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.config.args import Args, NodeResourcesFitArgs
from kubesched.config.errors import Problem, suggest
from kubesched.config.plugins import ResolvedPlugins, expand
from kubesched.config.types import (
    SECTIONS,
    ClientConnection,
    Extender,
    KubeSchedulerConfiguration,
    KubeSchedulerProfile,
    LeaderElection,
    Plugins,
    Point,
)
from kubesched.config.validation_args import in_range, label_name, validate_args

REMOVED = {
    **dict.fromkeys(
        ("AzureDiskLimits", "CinderLimits", "EBSLimits", "GCEPDLimits"),
        "NodeVolumeLimits counts the volumes of all CSI drivers, which these have become",
    ),
    **dict.fromkeys(
        ("NodeResourcesLeastAllocated", "NodeResourcesMostAllocated", "RequestedToCapacityRatio"),
        "set scoringStrategy in the arguments of NodeResourcesFit",
    ),
    "SelectorSpread": "PodTopologySpread with defaultingType System does its work",
    "NodePreferAvoidPods": "put a taint with effect PreferNoSchedule on the nodes",
    "NodeLabel": "set addedAffinity in the arguments of NodeAffinity",
    "ServiceAffinity": "use pod affinity",
}
"""Plugins that kube-scheduler once had, and what to use now."""

_MAX_TOTAL_SCORE = 2**63 - 1
_MAX_SCORE = 100


def validate(config: KubeSchedulerConfiguration, features: Features = DEFAULT_FEATURES) -> list[Problem]:
    """Everything wrong with the values of a completed configuration, regardless of plugins."""
    return [
        *_client_connection(config.client_connection),
        *_leader_election(config.leader_election),
        *_limits(config),
        *_profiles(config.profiles, features),
        *_extenders(config.extenders),
        *_ignored_resources(config),
    ]


# --- values -----------------------------------------------------------------------------------------------------------


def _client_connection(connection: ClientConnection) -> Iterator[Problem]:
    if connection.burst < 0:
        yield Problem("clientConnection.burst", "must be non-negative", connection.burst)


def _leader_election(election: LeaderElection) -> Iterator[Problem]:
    if not election.leader_elect:
        return
    durations = {
        "leaseDuration": election.lease_duration,
        "renewDeadline": election.renew_deadline,
        "retryPeriod": election.retry_period,
    }
    for name, duration in durations.items():
        if duration <= 0:
            yield Problem(f"leaderElection.{name}", "must be greater than zero", str(duration))
    if election.lease_duration <= election.renew_deadline:
        message = f"must be greater than renewDeadline, which is {election.renew_deadline}"
        yield Problem("leaderElection.leaseDuration", message, str(election.lease_duration))
    if election.resource_lock != "leases":
        yield Problem("leaderElection.resourceLock", 'must be "leases"', election.resource_lock)


def _limits(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    initial, longest = config.pod_initial_backoff_seconds, config.pod_max_backoff_seconds
    if config.parallelism <= 0:
        yield Problem("parallelism", "should be an integer value greater than zero", config.parallelism)
    yield from in_range("percentageOfNodesToScore", config.percentage_of_nodes_to_score, 0, 100)
    if initial <= 0:
        yield Problem("podInitialBackoffSeconds", "must be greater than 0", initial)
    if longest < initial:
        message = f"must be greater than or equal to podInitialBackoffSeconds, which is {initial}"
        yield Problem("podMaxBackoffSeconds", message, longest)


def _profiles(profiles: Sequence[KubeSchedulerProfile], features: Features) -> Iterator[Problem]:
    if not profiles:
        yield Problem("profiles", "required, at least one profile")
    first: dict[str, int] = {}
    for index, profile in enumerate(profiles):
        path, name = f"profiles[{index}]", profile.scheduler_name
        if not name:
            yield Problem(f"{path}.schedulerName", "required, a name that pods can ask for")
        elif first.setdefault(name, index) != index:
            message = f"repeats the name of profiles[{first[name]}]"
            yield Problem(f"{path}.schedulerName", message, name, "give each profile a name of its own")
        if profile.percentage_of_nodes_to_score is not None:
            yield from in_range(f"{path}.percentageOfNodesToScore", profile.percentage_of_nodes_to_score, 0, 100)
        yield from _plugin_config(profile, path, features)
        yield from _same_queue_sort(profiles[0], profile, path)


def _plugin_config(profile: KubeSchedulerProfile, path: str, features: Features) -> Iterator[Problem]:
    seen: set[str] = set()
    for index, config in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        if config.name in seen:
            yield Problem(where, f"repeated config for plugin {config.name}", hint="keep one of them")
        seen.add(config.name)
        # Upstream reads NodeResourcesFit's arguments only when it builds the plugin. Otherwise invalid ones load.
        unread = isinstance(config.args, NodeResourcesFitArgs) and config.name not in profile.plugins.names()
        if isinstance(config.args, Args) and not unread:
            yield from validate_args(config.args, f"{where}.args", features)


def _same_queue_sort(first: KubeSchedulerProfile, profile: KubeSchedulerProfile, path: str) -> Iterator[Problem]:
    """One queue serves all profiles, so it can have only one order."""
    enabled = profile.plugins.queue_sort.enabled
    if len(enabled) > 1:
        names = [plugin.name for plugin in enabled]
        yield Problem(f"{path}.plugins.queueSort.enabled", "only one queue sort plugin can be enabled", names)
    if profile.plugins.queue_sort != first.plugins.queue_sort:
        yield Problem(f"{path}.plugins.queueSort", "must be the same for all profiles", hint="copy it from profiles[0]")


# --- extenders --------------------------------------------------------------------------------------------------------


def _extenders(extenders: Sequence[Extender]) -> Iterator[Problem]:
    binders = [f"extenders[{index}]" for index, extender in enumerate(extenders) if extender.bind_verb]
    if len(binders) > 1:
        yield Problem("extenders", "only one extender can implement bind", binders, "keep one bindVerb")
    seen: set[str] = set()
    for index, extender in enumerate(extenders):
        yield from _extender(extender, f"extenders[{index}]", seen)


def _ignored_resources(config: KubeSchedulerConfiguration) -> Iterator[Problem]:
    """Resources that the scheduler must ignore are passed to NodeResourcesFit, which therefore has to be enabled."""
    managed = [resource for extender in config.extenders for resource in extender.managed_resources]
    for index, profile in enumerate(config.profiles):
        fit = profile.args_of("NodeResourcesFit")
        if any(each.ignored_by_scheduler for each in managed) and not isinstance(fit, NodeResourcesFitArgs):
            message = "ignoredByScheduler of an extender needs NodeResourcesFit"
            yield Problem(f"profiles[{index}].pluginConfig", message, hint="add its args, or drop ignoredByScheduler")


def _extender(extender: Extender, path: str, seen: set[str]) -> Iterator[Problem]:
    if extender.prioritize_verb and extender.weight <= 0:
        yield Problem(f"{path}.weight", "must be positive where there is a prioritizeVerb", extender.weight)
    tls = extender.tls_config
    if tls and tls.insecure and (tls.ca_file or tls.ca_data):
        message = "not allowed together with root certificates"
        yield Problem(f"{path}.tlsConfig.insecure", message, True, "remove it, or caFile and caData")
    for index, resource in enumerate(extender.managed_resources):
        where = f"{path}.managedResources[{index}].name"
        yield from _extended_resource(where, resource.name)
        if resource.name in seen:
            yield Problem(where, "repeated, a resource can be managed only once", resource.name)
        seen.add(resource.name)


def _extended_resource(path: str, name: str) -> Iterator[Problem]:
    if label_key_errors(name):
        yield from label_name(path, name)
    elif not is_extended(name):
        yield Problem(path, "is an invalid extended resource name", name, "use one such as example.com/gpu")


# --- plugin names -----------------------------------------------------------------------------------------------------


def validate_names(
    profiles: Iterable[KubeSchedulerProfile],
    known: Collection[str] | None = None,
    points: Mapping[str, frozenset[str]] | None = None,
    refuse_removed: bool = True,
) -> Iterator[Problem]:
    """Everything wrong with the names under ``enabled``. Without ``known``, any name that was not removed is valid."""
    for index, profile in enumerate(profiles):
        for section in SECTIONS:
            seen: set[str] = set()
            for position, plugin in enumerate(profile.plugins[section].enabled):
                where = f"profiles[{index}].plugins.{section}.enabled[{position}].name"
                if plugin.name in seen:
                    if section != "multiPoint" or _is_twice_anywhere(plugin.name, profile.plugins, points):
                        yield Problem(where, "repeated in this section", plugin.name, "keep one of them")
                    continue
                seen.add(plugin.name)
                yield from _known(where, plugin.name, known, refuse_removed)
                if section != "multiPoint":
                    yield from _has_point(where, plugin.name, section, points or {})


def _is_twice_anywhere(name: str, plugins: Plugins, points: Mapping[str, frozenset[str]] | None) -> bool:
    """Whether a plugin that multiPoint names twice runs twice at a point: not where it is disabled or enabled
    separately."""
    at = set(Point) if points is None else points.get(name, frozenset())
    for point in at:
        off = {plugin.name for plugin in plugins[point].disabled}
        if off.isdisjoint((name, "*")) and name not in {plugin.name for plugin in plugins[point].enabled}:
            return True
    return False


def _known(path: str, name: str, known: Collection[str] | None, refuse_removed: bool) -> Iterator[Problem]:
    if not name:
        yield Problem(path, "required, the name of a plugin")
    elif known is not None and name in known:
        return
    elif refuse_removed and name in REMOVED:
        yield Problem(path, "this plugin was removed", name, REMOVED[name])
    elif known is not None:
        hint = suggest(name, known) or "give a plugin of your own with --plugin or --plugin-dir"
        yield Problem(path, "no plugin has this name", name, hint)


def _has_point(path: str, name: str, section: str, points: Mapping[str, frozenset[str]]) -> Iterator[Problem]:
    if name in points and section not in points[name]:
        hint = f"it can be enabled at {', '.join(sorted(points[name]))}"
        yield Problem(path, f"this plugin does not extend {section}", name, hint)


# --- completed profiles -----------------------------------------------------------------------------------------------


def validate_profiles(
    profiles: Iterable[KubeSchedulerProfile], points: Mapping[str, frozenset[str]] | None
) -> Iterator[Problem]:
    """Everything that prevents building completed profiles; nothing if the plugins' points are unknown."""
    if points is None:
        return
    order: tuple[str, object] | None = None
    for index, profile in enumerate(profiles):
        path, plugins = f"profiles[{index}].plugins", expand(profile, points)
        yield from _resolved(plugins, path)
        for sorter in plugins[Point.QUEUE_SORT][:1]:
            own = sorter, profile.args_of(sorter)
            order = order or own
            if own != order:
                message = f"must be {order[0]} with the same arguments, because all profiles share one queue"
                yield Problem(f"{path}.queueSort", message, sorter)


def _resolved(plugins: ResolvedPlugins, path: str) -> Iterator[Problem]:
    sorting, placing = plugins[Point.QUEUE_SORT], plugins[Point.PLACEMENT_GENERATE]
    if len(sorting) != 1:
        hint = "disable the others" if sorting else "enable one, such as PrioritySort"
        yield Problem(f"{path}.queueSort", "exactly one queue sort plugin is needed", sorting, hint)
    if not plugins[Point.BIND]:
        yield Problem(f"{path}.bind", "at least one bind plugin is needed", hint="enable DefaultBinder")
    if len(placing) > 1:
        yield Problem(f"{path}.placementGenerate", "at most one placement generate plugin is allowed", placing)
    for section, weights in (("score", plugins.weights), ("placementScore", plugins.placement_weights)):
        if _overflows(weights.values()):
            yield Problem(f"{path}.{section}", "total score could overflow", hint="use smaller, positive weights")


def _overflows(weights: Iterable[int]) -> bool:
    """Like kube-scheduler, treats a negative total as an overflow, too, unless it comes from the last plugin."""
    total = 0
    for weight in weights:
        if not 0 <= total <= _MAX_TOTAL_SCORE - weight * _MAX_SCORE:
            return True
        total += weight * _MAX_SCORE
    return False
