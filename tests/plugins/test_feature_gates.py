"""Feature gates that change what plugins decide, each one on and off."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest
from msgspec.structs import replace as changed
from tests.builders import container, node, pod, spread
from tests.harness import default_engine, feasible, first_by_name, hint, make, schedule, scored
from tests.plugins.volumes.storage import DRIVER, claim, classes, csi_driver, csi_node, csi_volume, pool

from kubesched.api import objects as api
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.cluster.state import ClusterState
from kubesched.engine.decision import Decision
from kubesched.framework.events import Action, Hint, Resource
from kubesched.plugins.node_resources import NodeResourcesFit
from kubesched.plugins.taint_toleration import TaintToleration

COMPARE = Features(taint_toleration_comparison_operators=True)
NO_POD_LEVEL = Features(pod_level_resources=False, in_place_pod_level_resources_vertical_scaling=False)
NO_RESIZE = Features(in_place_pod_level_resources_vertical_scaling=False)


def _world(features: Features, *objects: api.Object) -> ClusterState:
    world = ClusterState(features)
    for each in objects:
        world.set(each)
    return world


def _decided(features: Features, objects: Iterable[api.Object], wanted: api.Pod) -> Decision:
    world = _world(features, *objects)
    return schedule(default_engine(world, choose=first_by_name(world)), wanted)


# --- TaintTolerationComparisonOperators -------------------------------------------------------------------------------


def _tolerating(operator: str, bound: str, *, effect: str = "NoSchedule", name: str = "p") -> api.Pod:
    return pod(name, tolerations=[api.Toleration("sla", operator, bound, effect)])


@pytest.mark.parametrize(("features", "names"), [(DEFAULT_FEATURES, {"plain"}), (COMPARE, {"plain", "high"})])
def test_comparisons_admit_pods_to_tainted_nodes(features: Features, names: set[str]) -> None:
    """A toleration for more than 90 covers a taint of 95, if the gate is on."""
    nodes = [node("high", taints=["sla=95:NoSchedule"]), node("low", taints=["sla=80:NoSchedule"]), node("plain")]
    assert feasible(_decided(features, nodes, _tolerating("Gt", "90"))) == names


@pytest.mark.parametrize(("features", "score"), [(DEFAULT_FEATURES, 0), (COMPARE, 100)])
def test_comparisons_count_for_the_score(features: Features, score: int) -> None:
    """A soft taint that a comparison covers costs nothing, if the gate is on."""
    world = _world(features, node("high", taints=["sla=95:PreferNoSchedule"]), node("plain"))
    wanted = _tolerating("Gt", "90", effect="PreferNoSchedule")
    assert scored(make(TaintToleration, world), world, wanted) == {"high": score, "plain": 100}


@pytest.mark.parametrize(("features", "expected"), [(DEFAULT_FEATURES, Hint.SKIP), (COMPARE, Hint.QUEUE)])
def test_comparisons_count_for_the_hint(features: Features, expected: Hint) -> None:
    """A node whose taint comes within bounds is worth an attempt, if the gate is on."""
    old, new = node("a", taints=["sla=80:NoSchedule"]), node("a", taints=["sla=95:NoSchedule"])
    plugin = make(TaintToleration, _world(features))
    assert hint(plugin, Resource.NODE, Action.UPDATE_NODE_TAINT, _tolerating("Gt", "90"), old, new) is expected


@pytest.mark.parametrize(("features", "name"), [(DEFAULT_FEATURES, "a"), (COMPARE, "b")])
def test_comparisons_count_for_spreading(features: Features, name: str) -> None:
    """A tainted node counts as a domain for a pod that honors taints only if its comparison covers the taint."""
    nodes = [
        node("a", zone="x"),
        node("b", zone="y", taints=["sla=95:NoSchedule"]),
    ]
    running = [pod(f"r{number}", labels={"app": "web"}, node="a") for number in range(2)]
    constraint = spread({"app": "web"}, skew=2, taints_policy="Honor")
    wanted = pod(
        "p", labels={"app": "web"}, spread=[constraint], tolerations=[api.Toleration("sla", "Gt", "90", "NoSchedule")]
    )
    assert _decided(features, [*nodes, *running], wanted).node == name


# --- MatchLabelKeysInPodTopologySpread --------------------------------------------------------------------------------


@pytest.mark.parametrize(("on", "name"), [(True, "a"), (False, "b")])
def test_match_label_keys_narrow_the_selector(on: bool, name: str) -> None:
    """Pods of another revision count against the skew only if the gate is off."""
    features = Features(match_label_keys_in_pod_topology_spread=on)
    nodes = [node("a", zone="x"), node("b", zone="y")]
    running = [pod("r", labels={"app": "web", "revision": "1"}, node="a")]
    constraint = spread({"app": "web"}, match_label_keys=["revision"])
    wanted = pod("p", labels={"app": "web", "revision": "2"}, spread=[constraint])
    decision = _decided(features, [*nodes, *running], wanted)
    assert feasible(decision) == ({"a", "b"} if on else {"b"})
    assert name in feasible(decision)


# --- PodLevelResources, InPlacePodLevelResourcesVerticalScaling -------------------------------------------------------


@pytest.mark.parametrize(("features", "names"), [(DEFAULT_FEATURES, {"large"}), (NO_POD_LEVEL, {"large", "small"})])
def test_pod_level_requests_count_only_with_their_gate(features: Features, names: set[str]) -> None:
    """Without the gate a pod takes what its containers request."""
    wanted = pod("p", cpu="1", pod_requests={"cpu": "3"})
    assert feasible(_decided(features, [node("large", cpu="4"), node("small", cpu="2")], wanted)) == names


@pytest.mark.parametrize(("features", "cpu"), [(DEFAULT_FEATURES, 3000), (NO_POD_LEVEL, 1000)])
def test_pod_level_requests_of_running_pods_count_only_with_their_gate(features: Features, cpu: int) -> None:
    """The node's account of its pods follows the gate, too."""
    world = _world(features, node("a"), pod("r", cpu="1", pod_requests={"cpu": "3"}, node="a"))
    assert world.nodes.used[0, world.nodes.row_of["a"]] == cpu


def _resizing(granted: str) -> api.Pod:
    """A pod that asks for 1 CPU and still holds more than that."""
    made = pod("r", pod_requests={"cpu": "1"}, containers=[container()], node="a")
    resources = api.ResourceRequirements(requests={"cpu": granted})
    return changed(made, status=changed(made.status, resources=resources))


@pytest.mark.parametrize(("features", "cpu"), [(DEFAULT_FEATURES, 3000), (NO_RESIZE, 1000)])
def test_resizes_of_pod_level_requests_count_only_with_their_gate(features: Features, cpu: int) -> None:
    """Without the gate the status says nothing about pod-level requests."""
    world = _world(features, node("a"), _resizing("3"))
    assert world.nodes.used[0, world.nodes.row_of["a"]] == cpu


@pytest.mark.parametrize(("features", "expected"), [(DEFAULT_FEATURES, Hint.QUEUE), (NO_RESIZE, Hint.SKIP)])
def test_finished_resizes_queue_pods_only_with_their_gate(features: Features, expected: Hint) -> None:
    """A pod-level resize that ends frees something only where its status counts."""
    plugin = make(NodeResourcesFit, _world(features))
    said = hint(plugin, Resource.POD, Action.UPDATE_POD_SCALE_DOWN, pod("p", cpu="1"), _resizing("3"), _resizing("1"))
    assert said is expected


def test_scale_down_hints_count_pod_level_requests_whatever_the_gate() -> None:
    """Upstream's hint does not look at the gate."""
    plugin = make(NodeResourcesFit, _world(NO_POD_LEVEL))
    before, after = (pod("r", pod_requests={"cpu": cpu}, node="a") for cpu in ("3", "1"))
    assert hint(plugin, Resource.POD, Action.UPDATE_POD_SCALE_DOWN, pod("p", cpu="1"), before, after) is Hint.QUEUE


# --- StorageCapacityScoring, VolumeLimitScaling -----------------------------------------------------------------------


@pytest.mark.parametrize(("on", "scores"), [(True, {"a": 50, "b": 90}), (False, None)])
def test_storage_counts_for_the_score_only_with_its_gate(on: bool, scores: dict[str, int] | None) -> None:
    """With the gate a pod prefers the node whose storage has more room; without it VolumeBinding does not score."""
    pools = [
        pool(f"pool-{name}", capacity=size, where=api.LabelSelector({"kubernetes.io/hostname": name}))
        for name, size in (("a", "20Gi"), ("b", "100Gi"))
    ]
    objects = [node("a"), node("b"), *classes(), csi_driver(), *pools, claim("c", size="10Gi")]
    decision = _decided(Features(storage_capacity_scoring=on), objects, pod("p", claims=["c"]))
    assert decision.scores is not None
    found = decision.scores.plugins.get("VolumeBinding")
    if scores is None:
        assert found is None
    else:
        names = [decision.scores.table.names[row] for row in decision.scores.rows.tolist()]
        assert found is not None
        assert dict(zip(names, found.tolist(), strict=True)) == scores


def _driver(required: bool | None) -> api.CSIDriver:
    made = csi_driver()
    return changed(made, spec=changed(made.spec, prevent_pod_scheduling_if_missing=required))


@pytest.mark.parametrize(
    ("on", "required", "names"),
    [
        (True, True, {"has"}),
        (True, False, {"has", "lacks", "bare"}),
        (True, None, {"has", "lacks", "bare"}),
        (False, True, {"has", "lacks", "bare"}),
    ],
)
def test_nodes_must_have_the_driver_of_a_volume(on: bool, required: bool | None, names: set[str]) -> None:
    """With the gate, a driver may ask that its pods go only where it is installed."""
    objects = [
        *(node(name) for name in ("has", "lacks", "bare")),
        csi_node("has", csi_example_com=None),
        csi_node("lacks", other=1),
        _driver(required),
        claim("c", volume="v"),
        csi_volume("v"),
    ]
    decision = _decided(Features(volume_limit_scaling=on), objects, pod("p", claims=["c"]))
    assert feasible(decision) == names


def test_a_driver_that_is_installed_later_is_noticed() -> None:
    """The node becomes feasible when its CSINode lists the driver, and stops being so when it is removed."""
    features = replace(DEFAULT_FEATURES, volume_limit_scaling=True)
    world = _world(features, node("a"), _driver(True), claim("c", volume="v"), csi_volume("v"))
    engine = default_engine(world)
    wanted = pod("p", claims=["c"])
    installed = csi_node("a", csi_example_com=None)
    decision = schedule(engine, wanted)
    assert decision.message.startswith(f"0/1 nodes are available: 1 {DRIVER} CSI driver is not installed on the node.")
    world.set(installed)
    assert schedule(engine, wanted).node == "a"
    world.remove(installed)
    assert schedule(engine, wanted).node == ""
