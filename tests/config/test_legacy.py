"""Files of the beta versions."""

import pytest
from tests.config.support import POINTS, names

from kubesched.config.args import (
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    RequestedToCapacityRatioParam,
    ResourceSpec,
    ScoringStrategy,
    UtilizationShapePoint,
)
from kubesched.config.errors import ConfigError
from kubesched.config.load import Loaded, default, load
from kubesched.config.plugins import expand
from kubesched.config.types import KIND

BETAS = ["v1beta1", "v1beta2", "v1beta3"]


def beta(version: str, **fields: object) -> Loaded:
    return load(
        {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": KIND, **fields}, "old.yaml", points=POINTS
    )


def scores(loaded: Loaded) -> dict[str, int]:
    return dict(expand(loaded.config.profiles[0], POINTS).score)


@pytest.mark.parametrize("version", BETAS)
def test_loads_with_a_warning_that_names_the_version_to_move_to(version: str) -> None:
    """An old file works, and a warning recommends v1."""
    (warning,) = beta(version).warnings
    assert warning == (
        f"old.yaml: apiVersion: kubescheduler.config.k8s.io/{version} is no longer served by kube-scheduler; "
        "move to kubescheduler.config.k8s.io/v1"
    )


@pytest.mark.parametrize(
    ("version", "weights"), [("v1beta1", (1, 1, 1)), ("v1beta2", (1, 1, 1)), ("v1beta3", (3, 2, 2))]
)
def test_default_weights_are_those_of_the_version(version: str, weights: tuple[int, int, int]) -> None:
    """The weights that v1beta3 raised are as they were before it."""
    found = scores(beta(version))
    assert (found["TaintToleration"], found["NodeAffinity"], found["InterPodAffinity"]) == weights
    assert found["PodTopologySpread"] == 2


def test_v1beta3_defaults_are_those_of_v1() -> None:
    """The last beta differs from v1 in its name only."""
    assert beta("v1beta3").config == default()


@pytest.mark.parametrize("version", ["v1beta1", "v1beta2"])
def test_addresses_that_became_flags_have_no_effect(version: str) -> None:
    """The two bind addresses are dropped, with a warning that names the flags."""
    loaded = beta(version, healthzBindAddress="0.0.0.0:10251", metricsBindAddress="0.0.0.0:10251")
    assert sum("--secure-port" in warning for warning in loaded.warnings) == 2


def test_addresses_were_gone_in_v1beta3() -> None:
    """There they are unknown fields like any other."""
    with pytest.raises(ConfigError, match="healthzBindAddress: unknown field"):
        beta("v1beta3", healthzBindAddress="0.0.0.0:10251")


def test_arguments_that_plugins_no_longer_have() -> None:
    """Connections of their own are dropped with a warning, whatever else is in the file."""
    args = {"kubeconfigpath": "/etc/kubernetes/scheduler.conf", "scoringStrategy": {"type": "MostAllocated"}}
    configs = [{"name": "NodeResourceTopologyMatch", "args": args}, {"name": "Coscheduling", "args": None}]
    loaded = beta("v1beta1", profiles=[{"pluginConfig": configs}])
    (config,) = (each for each in loaded.config.profiles[0].plugin_config if each.name == "NodeResourceTopologyMatch")
    assert config.args == {"scoringStrategy": {"type": "MostAllocated"}}
    assert [w for w in loaded.warnings if "profiles[0].pluginConfig[0].args.kubeconfigpath: has no effect" in w]


def test_old_locks_become_leases() -> None:
    """A lock on an object that is no longer used for it gives way to a lease."""
    loaded = beta("v1beta2", leaderElection={"resourceLock": "endpointsleases"})
    assert loaded.config.leader_election.resource_lock == "leases"
    assert any("endpointsleases" in warning for warning in loaded.warnings)


@pytest.mark.parametrize("version", BETAS)
def test_strategies_move_into_the_arguments_of_fit(version: str) -> None:
    """A scoring plugin that became a strategy keeps its weight and its resources."""
    loaded = beta(
        version,
        profiles=[
            {
                "plugins": {
                    "score": {
                        "disabled": names("NodeResourcesLeastAllocated"),
                        "enabled": [{"name": "NodeResourcesMostAllocated", "weight": 5}],
                    }
                },
                "pluginConfig": [
                    {"name": "NodeResourcesMostAllocated", "args": {"resources": [{"name": "cpu", "weight": 3}]}},
                    {"name": "NodeResourcesFit", "args": {"ignoredResources": ["a/b"]}},
                ],
            }
        ],
    )
    assert scores(loaded)["NodeResourcesFit"] == 5
    assert loaded.config.profiles[0].args_of("NodeResourcesFit") == NodeResourcesFitArgs(
        ignored_resources=("a/b",),
        scoring_strategy=ScoringStrategy(type="MostAllocated", resources=(ResourceSpec(name="cpu", weight=3),)),
    )
    assert any("profiles[0].plugins.score.enabled[0]: NodeResourcesMostAllocated" in each for each in loaded.warnings)


def test_the_ratio_brings_its_shape() -> None:
    """RequestedToCapacityRatio keeps the points of its function."""
    loaded = beta(
        "v1beta1",
        profiles=[
            {
                "plugins": {"score": {"enabled": names("RequestedToCapacityRatio")}},
                "pluginConfig": [
                    {"name": "RequestedToCapacityRatio", "args": {"shape": [{"utilization": 0, "score": 9}]}}
                ],
            }
        ],
    )
    fit = loaded.config.profiles[0].args_of("NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy == ScoringStrategy(
        type="RequestedToCapacityRatio",
        requested_to_capacity_ratio=RequestedToCapacityRatioParam(shape=(UtilizationShapePoint(score=9),)),
    )


def test_arguments_of_the_default_strategy_count_without_enabling_it() -> None:
    """NodeResourcesLeastAllocated was on by default, so its arguments alone had an effect."""
    config = {"name": "NodeResourcesLeastAllocated", "args": {"resources": [{"name": "memory", "weight": 2}]}}
    fit = beta("v1beta1", profiles=[{"pluginConfig": [config]}]).config.profiles[0].args_of("NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy.resources == (ResourceSpec(name="memory", weight=2),)


def test_of_several_strategies_the_last_stays() -> None:
    """They are one plugin now, which can have one strategy."""
    both = names("NodeResourcesLeastAllocated", "NodeResourcesMostAllocated")
    loaded = beta("v1beta1", profiles=[{"plugins": {"score": {"enabled": both}}}])
    fit = loaded.config.profiles[0].args_of("NodeResourcesFit")
    assert isinstance(fit, NodeResourcesFitArgs)
    assert fit.scoring_strategy.type == "MostAllocated"


@pytest.mark.parametrize(
    "plugin", ["NodeLabel", "ServiceAffinity", "NodePreferAvoidPods", "SelectorSpread", "EBSLimits"]
)
def test_plugins_without_successor_are_left_out_with_advice(plugin: str) -> None:
    """The file loads without them, and the warning names their replacements."""
    loaded = beta(
        "v1beta2", profiles=[{"plugins": {"score": {"enabled": names(plugin)}}, "pluginConfig": names(plugin)}]
    )
    assert loaded.config.profiles[0].plugins.score.enabled == ()
    assert sum(plugin in warning for warning in loaded.warnings) == 2


def test_constraints_were_enough_in_v1beta1() -> None:
    """There the defaulting type followed from the constraints; later it has to be given."""
    constraint = {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}
    profiles = [{"pluginConfig": [{"name": "PodTopologySpread", "args": {"defaultConstraints": [constraint]}}]}]
    spread = beta("v1beta1", profiles=profiles).config.profiles[0].args_of("PodTopologySpread")
    assert isinstance(spread, PodTopologySpreadArgs)
    assert spread.defaulting_type == "List"
    with pytest.raises(ConfigError, match="defaultingType"):
        beta("v1beta2", profiles=profiles)


@pytest.mark.parametrize("version", BETAS)
def test_arguments_may_carry_the_old_version(version: str) -> None:
    """Their apiVersion is that of the file they are in."""
    args = {"apiVersion": f"kubescheduler.config.k8s.io/{version}", "kind": "InterPodAffinityArgs"}
    assert beta(version, profiles=[{"pluginConfig": [{"name": "InterPodAffinity", "args": args}]}])


def test_mistakes_are_mistakes_in_old_files_too() -> None:
    """Strictness does not depend on the version, and paths are those of the file."""
    removed_first = {"filter": {"enabled": names("EBSLimits", "NodeNam")}}
    with pytest.raises(ConfigError, match=r"profiles\[0\].plugins.filter.enabled\[1\].name: no plugin has this name"):
        beta("v1beta1", profiles=[{"plugins": removed_first}])
