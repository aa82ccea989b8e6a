"""What the tests of the configuration share: kube-scheduler's extension points, and short ways to a configuration."""

from kubesched.config.errors import ConfigError, Problem
from kubesched.config.load import Loaded, load
from kubesched.config.types import API_VERSION, KIND

POINTS = {
    name: frozenset(points.split())
    for name, points in {
        "SchedulingGates": "preEnqueue",
        "PrioritySort": "queueSort",
        "NodeUnschedulable": "filter",
        "NodeName": "filter",
        "TaintToleration": "filter preScore score",
        "NodeAffinity": "preFilter filter preScore score",
        "NodePorts": "preFilter filter",
        "NodeResourcesFit": "preFilter filter preScore score placementScore",
        "VolumeRestrictions": "preFilter filter",
        "NodeVolumeLimits": "preFilter filter",
        "VolumeBinding": "preFilter filter preScore score reserve preBind",
        "VolumeZone": "preFilter filter",
        "PodTopologySpread": "preFilter filter preScore score",
        "InterPodAffinity": "preFilter filter preScore score",
        "DynamicResources": "preEnqueue preFilter filter postFilter score reserve preBind",
        "DefaultPreemption": "preEnqueue postFilter",
        "NodeResourcesBalancedAllocation": "preScore score",
        "ImageLocality": "score",
        "DefaultBinder": "bind",
        "NodeDeclaredFeatures": "preFilter filter",
    }.items()
}

Tree = dict[str, object]


def load_v1(points: dict[str, frozenset[str]] | None = None, /, **fields: object) -> Loaded:
    return load({"apiVersion": API_VERSION, "kind": KIND, **fields}, "test.yaml", points=points or POINTS)


def load_profile(points: dict[str, frozenset[str]] | None = None, /, **profile: object) -> Loaded:
    return load_v1(points, profiles=[profile])


def load_plugins(points: dict[str, frozenset[str]] | None = None, /, **sections: object) -> Loaded:
    return load_profile(points, plugins=sections)


def load_args(plugin: str, **args: object) -> Loaded:
    return load_profile(pluginConfig=[{"name": plugin, "args": args}])


def problems(text: str | bytes | Tree) -> dict[str, Problem]:
    """The problems of a whole file, by path; fails the test if there are none."""
    try:
        load(text, "test.yaml", points=POINTS)
    except ConfigError as error:
        return {problem.path: problem for problem in error.problems}
    raise AssertionError("the configuration loads")


def v1(**fields: object) -> Tree:
    return {"apiVersion": API_VERSION, "kind": KIND, **fields}


def with_args(plugin: str, args: object) -> Tree:
    return v1(profiles=[{"pluginConfig": [{"name": plugin, "args": args}]}])


def with_plugins(**sections: object) -> Tree:
    return v1(profiles=[{"plugins": sections}])


def names(*plugins: str) -> list[Tree]:
    return [{"name": plugin} for plugin in plugins]
