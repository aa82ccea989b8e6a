"""From sections to lists: which plugin runs where, in which order, with which weight."""

from hypothesis import given
from hypothesis import strategies as st
from tests.config.support import POINTS, load_plugins, names

from kubesched.config.defaults import DEFAULT_PLUGINS, merge
from kubesched.config.load import default
from kubesched.config.plugins import ResolvedPlugins, expand
from kubesched.config.types import SECTIONS, KubeSchedulerProfile, Plugin, Plugins, PluginSet, Point


def expanded(points: dict[str, frozenset[str]] | None = None, **sections: object) -> ResolvedPlugins:
    points = points or POINTS
    return expand(load_plugins(points, **sections).config.profiles[0], points)


OWN = POINTS | {"Own": frozenset({"filter", "score"})}


def test_default_plugins_run_where_they_can() -> None:
    """By default, every default plugin is at each of its points, in the default order."""
    resolved = expand(default().profiles[0], POINTS)
    for point in Point:
        assert resolved[point] == tuple(name for name in DEFAULT_PLUGINS if point in POINTS[name])
    assert dict(resolved.score) == {
        "TaintToleration": 3,
        "NodeAffinity": 2,
        "NodeResourcesFit": 1,
        "VolumeBinding": 1,
        "PodTopologySpread": 2,
        "InterPodAffinity": 2,
        "DynamicResources": 2,
        "NodeResourcesBalancedAllocation": 1,
        "ImageLocality": 1,
    }
    assert resolved.placement_score == (("NodeResourcesFit", 1),)
    assert set(resolved.names()) == set(POINTS)


def test_plugins_that_are_not_there_are_left_out() -> None:
    """Default plugins without an implementation do not run, and nothing else changes."""
    there = {name: points for name, points in POINTS.items() if name != "ImageLocality"}
    assert set(expand(default().profiles[0], there).names()) == set(there)


def test_order_is_overriding_then_general_then_own() -> None:
    """What overrides multiPoint comes first, then multiPoint's, then what is only at this point."""
    resolved = expanded(OWN, filter={"enabled": names("Own", "VolumeZone", "NodeName")})
    others = [name for name in DEFAULT_PLUGINS if "filter" in POINTS[name] and name not in ("VolumeZone", "NodeName")]
    assert resolved[Point.FILTER] == ("VolumeZone", "NodeName", *others, "Own")


def test_disabling_removes_from_one_point() -> None:
    """A plugin that is disabled at a point stays at its others."""
    resolved = expanded(score={"disabled": names("TaintToleration")})
    assert "TaintToleration" not in resolved[Point.SCORE]
    assert "TaintToleration" in resolved[Point.FILTER]


def test_disabling_everything_leaves_what_is_enabled_here() -> None:
    """After an asterisk only the section's own plugins run, in its order."""
    resolved = expanded(filter={"disabled": names("*"), "enabled": names("NodePorts", "NodeName")})
    assert resolved[Point.FILTER] == ("NodePorts", "NodeName")


def test_disabled_and_enabled_again_comes_last() -> None:
    """To disable a plugin and enable it again moves it behind the others."""
    resolved = expanded(filter={"disabled": names("NodeName"), "enabled": names("NodeName")})
    assert resolved[Point.FILTER][-1] == "NodeName"


def test_multi_point_replaces_a_default_in_place() -> None:
    """A default plugin that is listed again keeps its place and takes the new weight."""
    resolved = expanded(multiPoint={"enabled": [{"name": "NodeAffinity", "weight": 9}]})
    assert resolved.score[:2] == (("TaintToleration", 3), ("NodeAffinity", 9))


def test_multi_point_adds_at_the_end() -> None:
    """A plugin that is new runs after the default ones."""
    resolved = expanded(OWN, multiPoint={"enabled": [{"name": "Own", "weight": 4}]})
    assert resolved[Point.FILTER][-1] == "Own"
    assert resolved.score[-1] == ("Own", 4)


def test_multi_point_starts_afresh_after_an_asterisk() -> None:
    """Everything default goes, and what the file lists runs in its order."""
    wanted = ("DefaultBinder", "PrioritySort", "NodeName")
    assert expanded(multiPoint={"disabled": names("*"), "enabled": names(*wanted)}).names() == (
        "PrioritySort",
        "NodeName",
        "DefaultBinder",
    )


def test_the_weight_at_the_point_wins_even_when_left_out() -> None:
    """A plugin listed under score without a weight has weight 1, whatever multiPoint says."""
    assert dict(expanded(score={"enabled": names("TaintToleration")}).score)["TaintToleration"] == 1


# --- for any profile --------------------------------------------------------------------------------------------------

plugin_sets = st.builds(
    PluginSet,
    enabled=st.lists(
        st.builds(Plugin, name=st.sampled_from(sorted(OWN)), weight=st.integers(0, 9)),
        unique_by=lambda plugin: plugin.name,
        max_size=5,
    ).map(tuple),
    disabled=st.lists(st.sampled_from([*sorted(OWN), "*"]).map(lambda name: Plugin(name=name)), max_size=3).map(tuple),
)
profiles = st.fixed_dictionaries({}, optional=dict.fromkeys(SECTIONS.values(), plugin_sets)).map(
    lambda sections: KubeSchedulerProfile(plugins=merge(DEFAULT_PLUGINS, Plugins(**sections)))
)


@given(profiles)
def test_each_plugin_runs_once_and_only_where_it_can(profile: KubeSchedulerProfile) -> None:
    """No list has a plugin twice, or one without that point; and every scoring plugin has a weight."""
    resolved = expand(profile, OWN)
    for point in Point:
        assert len(set(resolved[point])) == len(resolved[point])
        assert all(point in OWN[name] for name in resolved[point])
    assert all(weight for _, weight in resolved.score)


@given(profiles)
def test_what_is_enabled_at_a_point_runs_there(profile: KubeSchedulerProfile) -> None:
    """No other section removes a plugin from where it is enabled; what is disabled stays disabled."""
    resolved = expand(profile, OWN)
    for point in Point:
        section = profile.plugins[point]
        own = [plugin.name for plugin in section.enabled if point in OWN[plugin.name]]
        assert set(own) <= set(resolved[point])
        off = {plugin.name for plugin in section.disabled}
        if "*" in off:
            assert resolved[point] == tuple(own)
        assert not (off & set(resolved[point])) - set(own)


@given(profiles)
def test_merging_again_changes_nothing(profile: KubeSchedulerProfile) -> None:
    """A completed profile, written out and loaded, stays as it is."""
    assert merge(DEFAULT_PLUGINS, profile.plugins) == profile.plugins
