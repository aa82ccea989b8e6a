"""Loading: versions, strictness, defaults, and reports of mistakes."""

import pytest
from tests.config.support import POINTS, load_args, load_plugins, load_profile, load_v1, names, problems, v1, with_args

from kubesched.config.args import (
    ARGS,
    InterPodAffinityArgs,
    NodeResourcesBalancedAllocationArgs,
    NodeResourcesFitArgs,
    PodTopologySpreadArgs,
    ResourceSpec,
)
from kubesched.config.duration import Duration
from kubesched.config.errors import ConfigError
from kubesched.config.load import default, load
from kubesched.config.types import Extender, KubeSchedulerProfile


def profile(**fields: object) -> KubeSchedulerProfile:
    return load_profile(**fields).config.profiles[0]


# --- mistakes ---------------------------------------------------------------------------------------------------------

BROKEN = """
apiVersion: kubescheduler.config.k8s.io/v1
kind: KubeSchedulerConfiguration
parallelism: many
Parallelism: 3
percentageOfNodesToScore: 101
leaderElection:
  leaseDuration: 15
  renewDeadline: 15x
profiles:
- schedulerName: a
  plugins:
    score:
      enabled:
      - name: NodeResourceFit
      - {name: NodeAffinity, weight: 3000000000}
  pluginConfig:
  - name: NodeResourcesFit
    args: {scoringStrategy: {type: mostAllocated, resources: [{name: cpu, weight: 101}]}}
extenders:
- {enableHttps: true, tlsConfig: {certData: "***"}}
"""


def test_all_mistakes_are_reported_at_once() -> None:
    """One error has every mistake of a file, each with the file, the path, the value and what to do."""
    with pytest.raises(ConfigError) as error:
        load(BROKEN, "scheduler.yaml", points=POINTS)
    assert str(error.value).splitlines() == [
        "scheduler.yaml: Parallelism: unknown field; did you mean parallelism?",
        'scheduler.yaml: parallelism: expected an integer, got "many"',
        'scheduler.yaml: leaderElection.leaseDuration: expected a duration such as "15s" or "1m30s", got 15',
        'scheduler.yaml: leaderElection.renewDeadline: duration "15x" has an unknown unit "x"; '
        "the units are ns, us, ms, s, m and h",
        "scheduler.yaml: profiles[0].plugins.score.enabled[1].weight: "
        "expected an integer between -2147483648 and 2147483647, got 3000000000",
        "scheduler.yaml: extenders[0].enableHttps: unknown field; did you mean enableHTTPS?",
        "scheduler.yaml: extenders[0].tlsConfig.certData: not base64; "
        "encode the file's bytes, for example with base64 -w0",
        "scheduler.yaml: profiles[0].pluginConfig[0].args.scoringStrategy.type: expected one of LeastAllocated, "
        'MostAllocated, RequestedToCapacityRatio, got "mostAllocated"; did you mean MostAllocated or LeastAllocated?',
        "scheduler.yaml: profiles[0].plugins.score.enabled[0].name: no plugin has this name, "
        'got "NodeResourceFit"; did you mean NodeResourcesFit?',
        "scheduler.yaml: percentageOfNodesToScore: not in valid range [0, 100], got 101",
    ]


@pytest.mark.parametrize(
    ("fields", "path"),
    [
        ({"parallelism": True}, "parallelism"),
        ({"parallelism": 1.5}, "parallelism"),
        ({"parallelism": float("inf")}, "parallelism"),
        ({"enableProfiling": "yes"}, "enableProfiling"),
        ({"clientConnection": {"qps": "fast"}}, "clientConnection.qps"),
        ({"clientConnection": {"qps": 1e300}}, "clientConnection.qps"),
        ({"clientConnection": {"kubeconfig": 1}}, "clientConnection.kubeconfig"),
        ({"clientConnection": []}, "clientConnection"),
        ({"profiles": {}}, "profiles"),
        ({"profiles": ["x"]}, "profiles[0]"),
        ({"profiles": [{}, "x", {"schedulerName": 1}]}, "profiles[2].schedulerName"),
        ({"profiles": [{"plugins": {"filter": {"enabled": "x"}}}]}, "profiles[0].plugins.filter.enabled"),
        ({"profiles": [{"plugins": {"Filter": {}}}]}, "profiles[0].plugins.Filter"),
        ({"extenders": [{"tlsConfig": {"caData": 1}}]}, "extenders[0].tlsConfig.caData"),
        ({"extenders": [{"httpTimeout": "soon"}]}, "extenders[0].httpTimeout"),
        ({"healthzBindAddress": "0.0.0.0:1"}, "healthzBindAddress"),
    ],
)
def test_wrong_types_and_fields_are_refused_with_their_path(fields: dict[str, object], path: str) -> None:
    """Nothing is converted and nothing ignored: the path of the mistake is the one in the file."""
    assert path in problems(v1(**fields))


@pytest.mark.parametrize(
    ("plugin", "args", "path"),
    [
        ("InterPodAffinity", 5, ""),
        ("InterPodAffinity", {"HardPodAffinityWeight": 1}, ".HardPodAffinityWeight"),
        ("InterPodAffinity", {"kind": "NodeAffinityArgs"}, ".kind"),
        ("InterPodAffinity", {"apiVersion": "kubescheduler.config.k8s.io/v1beta3"}, ".apiVersion"),
        ("NodeResourcesFit", {"scoringStrategy": {"resources": []}}, ".scoringStrategy.type"),
        ("NodeAffinity", {"addedAffinity": {"required": {}}}, ".addedAffinity.required"),
        (
            "PodTopologySpread",
            {"defaultConstraints": [{"labelSelector": {"matchLabels": {"a": 1}}}]},
            '.defaultConstraints[0].labelSelector.matchLabels["a"]',
        ),
    ],
)
def test_arguments_are_decoded_as_strictly(plugin: str, args: object, path: str) -> None:
    """A built-in plugin's arguments have a type, inside objects of the Kubernetes API as well."""
    assert f"profiles[0].pluginConfig[0].args{path}" in problems(with_args(plugin, args))


@pytest.mark.parametrize("text", ["", "[]", "just text", "a: ["])
def test_what_is_no_object_is_refused(text: str) -> None:
    """A file must hold one object."""
    assert "" in problems(text)


def test_type_is_required() -> None:
    """kind and apiVersion are required."""
    found = problems("parallelism: 1")
    assert set(found) == {"kind", "apiVersion"}
    assert "kubescheduler.config.k8s.io/v1" in found["apiVersion"].message


@pytest.mark.parametrize("version", ["kubescheduler.config.k8s.io/v1alpha2", "v1", "kubescheduler.config.k8s.io/v2", 1])
def test_other_versions_are_refused(version: object) -> None:
    """A version that never had this form, or no longer has, is an error that names the one to use."""
    assert "apiVersion" in problems({**v1(), "apiVersion": version})


def test_repeated_keys_are_refused() -> None:
    """A key that is given twice is an error even where both values are fine."""
    text = (
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 1\nparallelism: 1"
    )
    assert "parallelism" in problems(text)


# --- defaults ---------------------------------------------------------------------------------------------------------


def test_null_is_absent() -> None:
    """A field without a value has its default."""
    assert load_v1(parallelism=None, profiles=None, leaderElection={"leaseDuration": None}).config == default()


def test_zero_means_not_set_where_go_cannot_tell() -> None:
    """Zero values of the connection and of the leader election give way to the defaults."""
    zeros = load_v1(
        clientConnection={"qps": 0, "burst": 0, "contentType": ""},
        leaderElection={"leaseDuration": "0s", "resourceLock": "", "resourceName": ""},
    )
    assert zeros.config == default()


def test_false_means_false() -> None:
    """A boolean that is given stays, though it is a zero value too."""
    assert not load_v1(leaderElection={"leaderElect": False}).config.leader_election.leader_elect


@pytest.mark.parametrize(
    ("fields", "profiling"),
    [({}, True), ({"enableProfiling": False}, False), ({"enableContentionProfiling": True}, True)],
)
def test_contention_profiling_follows_profiling(fields: dict[str, object], profiling: bool) -> None:
    """It is on by default as long as profiling is on."""
    assert load_v1(**fields).config.enable_contention_profiling is profiling


def test_a_single_profile_is_named_by_default() -> None:
    """Only a single profile may omit its name."""
    assert profile().scheduler_name == "default-scheduler"
    assert "profiles[1].schedulerName" in problems(v1(profiles=[{"schedulerName": "a"}, {}]))
    assert "profiles[0].schedulerName" in problems(v1(profiles=[{"schedulerName": ""}]))


def test_every_enabled_plugin_gets_its_arguments() -> None:
    """The file's own come first, then the defaults of all others, by name."""
    configs = profile(pluginConfig=[{"name": "VolumeBinding"}, {"name": "Own", "args": {"x": [None]}}]).plugin_config
    assert [config.name for config in configs] == ["VolumeBinding", "Own", *sorted(ARGS.keys() - {"VolumeBinding"})]
    assert configs[0].args == ARGS["VolumeBinding"]()
    assert configs[1].args == {"x": [None]}


def test_disabled_plugins_get_none() -> None:
    """What is not enabled needs no arguments."""
    bare = profile(plugins={"multiPoint": {"disabled": names("NodeAffinity")}})
    assert bare.args_of("NodeAffinity") is None


def test_arguments_are_completed() -> None:
    """Values of the file stay, the rest is default, also one level down and for a weight of 0."""
    assert load_args("InterPodAffinity", hardPodAffinityWeight=0).config.profiles[0].args_of(
        "InterPodAffinity"
    ) == InterPodAffinityArgs(hard_pod_affinity_weight=0)
    fit = load_args("NodeResourcesFit", scoringStrategy={"type": "MostAllocated", "resources": []})
    strategy = fit.config.profiles[0].args_of("NodeResourcesFit")
    assert isinstance(strategy, NodeResourcesFitArgs)
    assert strategy.scoring_strategy.resources == (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))
    balanced = load_args("NodeResourcesBalancedAllocation", resources=[{"name": "x", "weight": 0}])
    assert balanced.config.profiles[0].args_of(
        "NodeResourcesBalancedAllocation"
    ) == NodeResourcesBalancedAllocationArgs(resources=(ResourceSpec(name="x", weight=1),))
    spread = load_args("PodTopologySpread", defaultingType="").config.profiles[0].args_of("PodTopologySpread")
    assert spread == PodTopologySpreadArgs()


def test_extenders_are_completed() -> None:
    """An extender without a timeout gets five seconds."""
    loaded = load_v1(extenders=[{"urlPrefix": "http://x", "enableHTTPS": True}, {"httpTimeout": "1m"}])
    assert loaded.config.extenders == (
        Extender(url_prefix="http://x", enable_https=True, http_timeout=Duration.of(5)),
        Extender(http_timeout=Duration.of(60)),
    )


def test_resources_that_extenders_have_ignored_reach_the_plugin() -> None:
    """They take the place of what NodeResourcesFit's own arguments say, in every profile."""
    managed = [{"name": "a.com/x", "ignoredByScheduler": True}, {"name": "a.com/y"}]
    fit = {"name": "NodeResourcesFit", "args": {"ignoredResources": ["a.com/z"]}}
    config = load_v1(
        extenders=[{"managedResources": managed}],
        profiles=[{"schedulerName": "a", "pluginConfig": [fit]}, {"schedulerName": "b"}],
    ).config
    for each in config.profiles:
        assert each.args_of("NodeResourcesFit") == NodeResourcesFitArgs(ignored_resources=("a.com/x",))


def test_bytes_are_read_from_base64() -> None:
    """Certificates are given in base64, with or without line breaks."""
    tls = load_v1(extenders=[{"tlsConfig": {"certData": "YWJj\nZGVm\n"}}]).config.extenders[0].tls_config
    assert tls is not None
    assert tls.cert_data == b"abcdef"


# --- warnings ---------------------------------------------------------------------------------------------------------


def test_the_default_has_no_warnings() -> None:
    """There are no warnings about defaults."""
    assert load_v1().warnings == []


def test_names_without_effect_warn() -> None:
    """A plugin that does not exist can be disabled or configured, but probably something else was meant."""
    loaded = load_profile(
        plugins={"score": {"disabled": names("NodeResourceFit", "*")}}, pluginConfig=[{"name": "Zzz", "args": {}}]
    )
    assert loaded.warnings == [
        "test.yaml: profiles[0].plugins.score.disabled[0]: no plugin is named NodeResourceFit, so this has no effect; "
        "did you mean NodeResourcesFit?",
        "test.yaml: profiles[0].pluginConfig[0]: no plugin is named Zzz, so this has no effect",
    ]


def test_names_are_not_judged_when_plugins_are_unknown() -> None:
    """Without the list of known plugins, no names are checked."""
    plugins = {"filter": {"enabled": names("Own"), "disabled": names("Other")}}
    loaded = load(v1(profiles=[{"plugins": plugins, "pluginConfig": [{"name": "Own"}]}]))
    assert loaded.warnings == []


def test_known_plugins_are_enough_to_judge_names() -> None:
    """A misspelt name is recognised by the list of names alone."""
    tree = v1(profiles=[{"plugins": {"filter": {"enabled": names("NodeNam")}}}])
    with pytest.raises(ConfigError, match="did you mean NodeName"):
        load(tree, known_plugins=["NodeName"])


def test_a_plugin_that_nobody_knows_has_to_be_given() -> None:
    """Where no name is similar, the hint names the flags that add plugins."""
    with pytest.raises(ConfigError, match=r'"Zyx"; give a plugin of your own with --plugin or --plugin-dir$'):
        load_plugins(multiPoint={"enabled": [{"name": "Zyx"}]})
