"""Every rule about values, names and profiles, by the path at which it is reported."""

import pytest
from msgspec.structs import replace
from tests.config.support import POINTS, load_args, load_plugins, load_v1, names, problems, v1, with_args, with_plugins

from kubesched.config.load import default, load
from kubesched.config.plugins import expand
from kubesched.config.types import KubeSchedulerConfiguration, Plugin, Plugins, PluginSet
from kubesched.config.validation import REMOVED, validate, validate_names, validate_profiles


def test_the_default_is_valid() -> None:
    """The default configuration is valid."""
    assert validate(default()) == []
    assert [*validate_names(default().profiles, POINTS, POINTS)] == []
    assert [*validate_profiles(default().profiles, POINTS)] == []


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"parallelism": 0}, "parallelism"),
        ({"parallelism": -1}, "parallelism"),
        ({"percentageOfNodesToScore": -1}, "percentageOfNodesToScore"),
        ({"percentageOfNodesToScore": 101}, "percentageOfNodesToScore"),
        ({"podInitialBackoffSeconds": 0}, "podInitialBackoffSeconds"),
        ({"podInitialBackoffSeconds": 11}, "podMaxBackoffSeconds"),
        ({"clientConnection": {"burst": -1}}, "clientConnection.burst"),
        ({"leaderElection": {"leaseDuration": "-1s"}}, "leaderElection.leaseDuration"),
        ({"leaderElection": {"renewDeadline": "-1s"}}, "leaderElection.renewDeadline"),
        ({"leaderElection": {"retryPeriod": "-1s"}}, "leaderElection.retryPeriod"),
        ({"leaderElection": {"leaseDuration": "10s"}}, "leaderElection.leaseDuration"),
        ({"leaderElection": {"resourceLock": "endpoints"}}, "leaderElection.resourceLock"),
        ({"profiles": [{"percentageOfNodesToScore": 101}]}, "profiles[0].percentageOfNodesToScore"),
        ({"profiles": [{"schedulerName": "a"}, {"schedulerName": "a"}]}, "profiles[1].schedulerName"),
        ({"profiles": [{"pluginConfig": names("X", "X")}]}, "profiles[0].pluginConfig[1]"),
        ({"extenders": [{"prioritizeVerb": "p"}]}, "extenders[0].weight"),
        ({"extenders": [{"bindVerb": "b"}, {"bindVerb": "b"}]}, "extenders"),
        ({"extenders": [{"managedResources": names("cpu")}]}, "extenders[0].managedResources[0].name"),
        ({"extenders": [{"managedResources": names("a b")}]}, "extenders[0].managedResources[0].name"),
        ({"extenders": [{"managedResources": names("requests.a/b")}]}, "extenders[0].managedResources[0].name"),
        ({"extenders": [{"managedResources": names("kubernetes.io/x")}]}, "extenders[0].managedResources[0].name"),
        ({"extenders": [{"managedResources": names("a/b", "a/b")}]}, "extenders[0].managedResources[1].name"),
        ({"extenders": [{"tlsConfig": {"insecure": True, "caFile": "f"}}]}, "extenders[0].tlsConfig.insecure"),
    ],
)
def test_bad_values_are_refused(fields: dict[str, object], path: str) -> None:
    """Each value that kube-scheduler refuses is refused, at its path."""
    assert path in problems(v1(**fields))


def test_leader_election_that_is_off_is_not_checked() -> None:
    """What has no effect need not make sense."""
    assert load_v1(leaderElection={"leaderElect": False, "leaseDuration": "1s", "resourceLock": "x"})


def test_a_configuration_needs_a_profile() -> None:
    """One that was built by hand, without loading, may have none."""
    assert [problem.path for problem in validate(KubeSchedulerConfiguration())] == ["profiles"]


def test_ignoring_resources_needs_the_plugin_that_does_it() -> None:
    """An extender's ignoredByScheduler is for NodeResourcesFit, which therefore must be there."""
    extenders = [{"managedResources": [{"name": "a/b", "ignoredByScheduler": True}]}]
    profiles = [{"plugins": {"multiPoint": {"disabled": names("NodeResourcesFit")}}}]
    assert "profiles[0].pluginConfig" in problems(v1(extenders=extenders, profiles=profiles))


# --- arguments --------------------------------------------------------------------------------------------------------

CONSTRAINT = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}


def spread(**changes: object) -> dict[str, object]:
    return {"defaultingType": "List", "defaultConstraints": [{**CONSTRAINT, **changes}]}


def strategy(kind: str, **fields: object) -> dict[str, object]:
    return {"scoringStrategy": {"type": kind, **fields}}


def shape(*points: tuple[int, int]) -> dict[str, object]:
    steps = [{"utilization": utilization, "score": score} for utilization, score in points]
    return strategy("RequestedToCapacityRatio", requestedToCapacityRatio={"shape": steps})


def required(**expression: object) -> dict[str, object]:
    term = {"matchExpressions": [{"key": "a", **expression}]}
    return {"addedAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}}


def preferred(weight: int) -> dict[str, object]:
    term = {"weight": weight, "preference": {"matchFields": [{"key": "a", "operator": "Exists"}]}}
    return {"addedAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": [term]}}


SHAPE = "scoringStrategy.requestedToCapacityRatio.shape"


@pytest.mark.parametrize(
    ("plugin", "args", "path"),
    [
        ("DefaultPreemption", {"minCandidateNodesPercentage": 101}, "minCandidateNodesPercentage"),
        ("DefaultPreemption", {"minCandidateNodesPercentage": -1}, "minCandidateNodesPercentage"),
        ("DefaultPreemption", {"minCandidateNodesAbsolute": -1}, "minCandidateNodesAbsolute"),
        (
            "DefaultPreemption",
            {"minCandidateNodesPercentage": 0, "minCandidateNodesAbsolute": 0},
            "minCandidateNodesAbsolute",
        ),
        ("DynamicResources", {"filterTimeout": "-1s"}, "filterTimeout"),
        ("DynamicResources", {"bindingTimeout": "999ms"}, "bindingTimeout"),
        ("InterPodAffinity", {"hardPodAffinityWeight": 101}, "hardPodAffinityWeight"),
        ("InterPodAffinity", {"hardPodAffinityWeight": -1}, "hardPodAffinityWeight"),
        ("NodeAffinity", required(operator="Is"), "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
        ("NodeAffinity", required(operator="In"), "addedAffinity.requiredDuringSchedulingIgnoredDuringExecution"),
        ("NodeAffinity", preferred(1), "addedAffinity.preferredDuringSchedulingIgnoredDuringExecution"),
        ("NodeResourcesBalancedAllocation", {"resources": names("cpu", "cpu")}, "resources[1].name"),
        ("NodeResourcesBalancedAllocation", {"resources": [{"name": "cpu", "weight": 2}]}, "resources[0].weight"),
        ("NodeResourcesFit", {"ignoredResources": ["a b"]}, "ignoredResources[0]"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a/b"]}, "ignoredResourceGroups[0]"),
        ("NodeResourcesFit", {"ignoredResourceGroups": ["a b"]}, "ignoredResourceGroups[0]"),
        (
            "NodeResourcesFit",
            strategy("LeastAllocated", resources=[{"name": "cpu", "weight": 101}]),
            "scoringStrategy.resources[0].weight",
        ),
        (
            "NodeResourcesFit",
            strategy("LeastAllocated", requestedToCapacityRatio={}),
            "scoringStrategy.requestedToCapacityRatio",
        ),
        ("NodeResourcesFit", strategy("RequestedToCapacityRatio"), "scoringStrategy.requestedToCapacityRatio"),
        ("NodeResourcesFit", shape(), SHAPE),
        ("NodeResourcesFit", shape((0, 0), (0, 1)), f"{SHAPE}[1].utilization"),
        ("NodeResourcesFit", shape((0, 0), (101, 1)), f"{SHAPE}[1].utilization"),
        ("NodeResourcesFit", shape((0, 11)), f"{SHAPE}[0].score"),
        ("PodTopologySpread", spread() | {"defaultingType": "System"}, "defaultingType"),
        ("PodTopologySpread", {"defaultingType": "list"}, "defaultingType"),
        ("PodTopologySpread", spread(maxSkew=0), "defaultConstraints[0].maxSkew"),
        ("PodTopologySpread", spread(topologyKey=""), "defaultConstraints[0].topologyKey"),
        ("PodTopologySpread", spread(topologyKey="a b"), "defaultConstraints[0].topologyKey"),
        ("PodTopologySpread", spread(whenUnsatisfiable=""), "defaultConstraints[0].whenUnsatisfiable"),
        ("PodTopologySpread", spread(labelSelector={}), "defaultConstraints[0].labelSelector"),
        (
            "PodTopologySpread",
            {"defaultingType": "List", "defaultConstraints": [CONSTRAINT, CONSTRAINT]},
            "defaultConstraints[1]",
        ),
        ("VolumeBinding", {"bindTimeoutSeconds": -1}, "bindTimeoutSeconds"),
        ("VolumeBinding", {"shape": [{"score": 1}]}, "shape"),
    ],
)
def test_bad_arguments_are_refused(plugin: str, args: dict[str, object], path: str) -> None:
    """Each argument that kube-scheduler or its plugin refuses is refused, at its path."""
    assert f"profiles[0].pluginConfig[0].args.{path}" in problems(with_args(plugin, args))


@pytest.mark.parametrize(
    ("plugin", "args"),
    [
        ("DefaultPreemption", {"minCandidateNodesPercentage": 0}),
        ("DynamicResources", {"filterTimeout": "0s", "bindingTimeout": "1s"}),
        ("NodeAffinity", required(operator="Exists")),
        ("NodeAffinity", preferred(0)),
        ("NodeResourcesFit", shape((0, 0), (100, 10))),
        ("NodeResourcesFit", {"ignoredResources": ["a/b"], "ignoredResourceGroups": ["a.com"]}),
        ("PodTopologySpread", spread()),
        ("PodTopologySpread", {"defaultingType": "List"}),
        ("VolumeBinding", {"bindTimeoutSeconds": 0}),
    ],
)
def test_good_arguments_are_accepted(plugin: str, args: dict[str, object]) -> None:
    """The edges of what is allowed are allowed; a preferred term without weight is not even looked at."""
    assert load_args(plugin, **args)


# --- plugins ----------------------------------------------------------------------------------------------------------

SORTERS = POINTS | {"Sort": frozenset({"queueSort"}), "Place": frozenset({"placementGenerate"})}


@pytest.mark.parametrize(
    ("sections", "path"),
    [
        ({"filter": {"enabled": names("Nope")}}, "filter.enabled[0].name"),
        ({"multiPoint": {"enabled": names("NodeName", "Nope")}}, "multiPoint.enabled[1].name"),
        ({"filter": {"enabled": names("")}}, "filter.enabled[0].name"),
        ({"score": {"enabled": names("NodeName")}}, "score.enabled[0].name"),
        ({"score": {"enabled": names("NodeDeclaredFeatures")}}, "score.enabled[0].name"),
        ({"score": {"enabled": names("ImageLocality", "ImageLocality")}}, "score.enabled[1].name"),
        ({"multiPoint": {"enabled": names("NodeName", "NodeName")}}, "multiPoint.enabled[1].name"),
        ({"queueSort": {"disabled": names("*")}}, "queueSort"),
        ({"queueSort": {"disabled": names("PrioritySort")}}, "queueSort"),
        ({"queueSort": {"enabled": names("PrioritySort", "PrioritySort")}}, "queueSort.enabled[1].name"),
        ({"bind": {"disabled": names("*")}}, "bind"),
        ({"multiPoint": {"disabled": names("DefaultBinder")}}, "bind"),
        ({"score": {"enabled": [{"name": "ImageLocality", "weight": -1}]}}, "score"),
    ],
)
def test_bad_plugins_are_refused(sections: dict[str, object], path: str) -> None:
    """What would prevent building a profile is found before, at its path."""
    assert f"profiles[0].plugins.{path}" in problems(with_plugins(**sections))


@pytest.mark.parametrize(
    "at_filter", [{"disabled": names("NodeName")}, {"disabled": names("*")}, {"enabled": names("NodeName")}]
)
def test_a_plugin_twice_in_multi_point_may_be_nowhere_twice(at_filter: dict[str, object]) -> None:
    """Where a plugin is off, or enabled by itself, multiPoint may name it twice, as upstream has it."""
    sections = {"multiPoint": {"enabled": names("NodeName", "NodeName")}, "filter": at_filter}
    assert load(with_plugins(**sections), points=POINTS)


@pytest.mark.parametrize("plugin", sorted(REMOVED))
def test_removed_plugins_are_refused_with_advice(plugin: str) -> None:
    """In v1 a removed plugin is an error that names its replacement."""
    found = problems(with_plugins(score={"enabled": names(plugin)}))
    assert found["profiles[0].plugins.score.enabled[0].name"].hint == REMOVED[plugin]


def test_two_queue_sorts_are_one_too_many() -> None:
    """A second one, next to the default, is refused until the default is disabled."""
    sections = {"enabled": names("Sort")}
    with pytest.raises(ValueError, match="exactly one queue sort plugin"):
        load_plugins(SORTERS, queueSort=sections)
    assert load_plugins(SORTERS, queueSort={**sections, "disabled": names("*")})


def test_profiles_must_sort_alike() -> None:
    """All profiles share one queue: the same section is needed, the same plugin, the same arguments."""
    own = {"queueSort": {"enabled": names("PrioritySort"), "disabled": names("*")}}
    profiles: list[object] = [{"schedulerName": "a"}, {"schedulerName": "b", "plugins": own}]
    assert "profiles[1].plugins.queueSort" in problems(v1(profiles=profiles))
    general = {"multiPoint": {"enabled": names("Sort"), "disabled": names("PrioritySort")}}
    for second in ({}, {"plugins": general, "pluginConfig": [{"name": "Sort", "args": {"x": 1}}]}):
        first = {"schedulerName": "a", "plugins": general}
        with pytest.raises(ValueError, match=r"profiles\[1\].plugins.queueSort: must be Sort with the same arguments"):
            load_v1(SORTERS, profiles=[first, {"schedulerName": "b", **second}])


def test_one_plugin_places() -> None:
    """At most one plugin generates placements."""
    points = SORTERS | {"Other": SORTERS["Place"]}
    with pytest.raises(ValueError, match="at most one placement generate plugin"):
        load_plugins(points, placementGenerate={"enabled": names("Place", "Other")})


def test_weights_must_not_overflow() -> None:
    """The sum of all weighted scores must fit 64 bits."""
    huge = tuple(Plugin(name=name, weight=2**56) for name in ("NodeAffinity", "ImageLocality"))
    config = default()
    plugins = replace(config.profiles[0].plugins, score=PluginSet(enabled=huge))
    found = validate_profiles([replace(config.profiles[0], plugins=plugins)], POINTS)
    assert [problem.path for problem in found] == ["profiles[0].plugins.score"]


def test_a_weight_of_zero_counts_as_one() -> None:
    """To have no score, a profile must disable the plugin."""
    loaded = load_plugins(score={"enabled": [{"name": "NodeAffinity", "weight": 0}]})
    assert dict(expand(loaded.config.profiles[0], POINTS).score)["NodeAffinity"] == 1


def test_a_profile_built_by_hand_is_checked_too() -> None:
    """Without loading, names and completed profiles are checked on the configuration itself."""
    plugins = Plugins(filter=PluginSet(enabled=(Plugin(name="Nope"),)))
    profiles = (replace(default().profiles[0], plugins=plugins),)
    found = [*validate_names(profiles, POINTS, POINTS), *validate_profiles(profiles, POINTS)]
    assert [problem.path for problem in found] == [
        "profiles[0].plugins.filter.enabled[0].name",
        "profiles[0].plugins.queueSort",
        "profiles[0].plugins.bind",
    ]
