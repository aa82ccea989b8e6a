"""NodeResourceTopologyMatch: NUMA zones that fit, and how well, with cases of upstream's tables."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.contrib.support import only_scorer, profile, scores

from kubesched import Node, Pod
from kubesched.contrib.node_resource_topology_match import NodeResourceTopologyMatch
from kubesched.contrib.numa_reports import NodeResourceTopology, kubelet_settings, numa_id
from kubesched.testing import ConfigError, VirtualCluster, check_plugin, container, node, pod

NAME = "NodeResourceTopologyMatch"
NIC, PLAIN = "example.com/nic", "example.com/extended"
Zones = list[dict[str, Any]]


def topology(name: str, policy: str, zones: Zones, costs: list[list[int]] | None = None, **more: Any) -> Any:
    """A report about a node."""
    listed = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "costs": [
                {"name": f"node-{other}", "value": cost} for other, cost in enumerate((costs or [[]] * 9)[number])
            ],
            "resources": [
                {"name": each, "available": amount, "capacity": 99, "allocatable": 99} for each, amount in zone.items()
            ],
        }
        for number, zone in enumerate(zones)
    ]
    tree = {"metadata": {"name": name}, "topologyPolicies": [policy], "zones": listed, **more}
    return msgspec.convert(tree, NodeResourceTopology)


def machine(name: str = "n1", **resources: str) -> Node:
    """A large node, so that other plugins have nothing to object."""
    return node(name, cpu="64", memory="64Gi", resources={NIC: "60", "hugepages-2Mi": "1Gi", **resources})


def guaranteed(name: str = "p", *more: dict[str, Any], **wanted: Any) -> Pod:
    """A pod whose containers have limits equal to their requests."""
    each = [wanted, *more] if wanted else list(more)
    return pod(name, containers=[container(f"c{n}", limits=limits) for n, limits in enumerate(each)])


ROOMY: Zones = [{"cpu": "4", "memory": "8Gi", NIC: 10}, {"cpu": "8", "memory": "8Gi", NIC: 10}]
TIGHT: Zones = [{"cpu": "2", "memory": "4Gi", NIC: 5}, {"cpu": "4", "memory": "4Gi", NIC: 2}]
POD, CONTAINER = "cannot align pod", "cannot align container"
BY_POD, BY_CONTAINER = "SingleNUMANodePodLevel", "SingleNUMANodeContainerLevel"


def asked(requests: dict[str, Any], limits: dict[str, Any] | None = None) -> Pod:
    """A pod that is not Guaranteed."""
    return pod("p", requests=requests, limits=limits)


@pytest.mark.parametrize(
    ("policy", "zones", "wanted", "reason"),
    [
        (BY_CONTAINER, ROOMY, guaranteed(cpu="2", memory="2Gi"), ""),
        (BY_CONTAINER, ROOMY, guaranteed(cpu="8", memory="8Gi"), ""),
        (BY_CONTAINER, ROOMY, guaranteed(cpu="9", memory="2Gi"), CONTAINER),
        (BY_CONTAINER, ROOMY, guaranteed(cpu="2", memory="9Gi"), CONTAINER),
        (BY_CONTAINER, ROOMY, guaranteed(**{"cpu": "2", "memory": "2Gi", NIC: "3"}), ""),
        (BY_CONTAINER, ROOMY, guaranteed(**{"cpu": "2", "memory": "2Gi", NIC: "11"}), CONTAINER),
        (BY_CONTAINER, ROOMY, guaranteed(**{"cpu": "2", "memory": "2Gi", PLAIN: "1", NIC: "3"}), ""),
        (BY_CONTAINER, ROOMY, guaranteed(**{"cpu": "2", "memory": "2Gi", "example.com/none": "0"}), ""),
        (BY_CONTAINER, ROOMY, guaranteed(**{"cpu": "2", "memory": "2Gi", "hugepages-2Mi": "16Mi"}), CONTAINER),
        (BY_CONTAINER, ROOMY, guaranteed(**{"cpu": "2", "memory": "2Gi", "ephemeral-storage": "0"}), ""),
        (BY_CONTAINER, ROOMY, pod("p"), ""),
        (BY_CONTAINER, ROOMY, asked({NIC: "20"}), CONTAINER),
        (BY_CONTAINER, TIGHT, asked({NIC: "5"}), ""),
        (BY_POD, TIGHT, asked({NIC: "5"}), ""),
        (BY_POD, TIGHT, asked({NIC: "20"}), POD),
        (BY_POD, TIGHT, asked({"cpu": "1", "memory": "1Gi", NIC: "6"}, {"cpu": "2"}), POD),
        (BY_POD, TIGHT, asked({"cpu": "19", "memory": "5Gi", NIC: "5"}, {"cpu": "20"}), ""),
        (BY_POD, TIGHT, guaranteed(cpu="3", memory="4Gi"), ""),
        (BY_POD, TIGHT, guaranteed(**{"cpu": "3", "memory": "1Gi", NIC: "3"}), POD),
        (BY_POD, TIGHT, guaranteed("p", {"cpu": "2", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"}), POD),
        (BY_CONTAINER, TIGHT, guaranteed("p", {"cpu": "2", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"}), ""),
        (BY_CONTAINER, TIGHT, guaranteed("p", {"cpu": "3", "memory": "1Gi"}, {"cpu": "3", "memory": "1Gi"}), CONTAINER),
        (BY_CONTAINER, TIGHT, guaranteed("p", *[{"cpu": "2", "memory": "1Gi"}] * 3), ""),
        (BY_CONTAINER, TIGHT, guaranteed("p", *[{"cpu": "2", "memory": "1Gi"}] * 4), CONTAINER),
        ("BestEffortPodLevel", TIGHT, guaranteed(cpu="9", memory="9Gi"), ""),
        ("", TIGHT, guaranteed(cpu="9", memory="9Gi"), ""),
    ],
)
def test_what_fits_a_zone(cluster: VirtualCluster, policy: str, zones: Zones, wanted: Pod, reason: str) -> None:
    """CPU and memory must fit only for Guaranteed pods, devices for all; containers are placed one after the other."""
    cluster.configure(profile({"multiPoint": {"enabled": [{"name": NAME}]}}, {}))
    cluster.add(machine(**{PLAIN: "1"}), topology("n1", policy, zones))
    decision = cluster.schedule(wanted)
    assert decision.node == ("" if reason else "n1")
    assert not reason or decision.rejections["n1"].message == reason


def test_init_containers(cluster: VirtualCluster) -> None:
    """They run before the others, so what they use is free again; each must fit."""
    cluster.configure(profile({"multiPoint": {"enabled": [{"name": NAME}]}}, {}))
    cluster.add(machine(), topology("n1", BY_CONTAINER, TIGHT))
    small = container(limits={"cpu": "4", "memory": "1Gi"})
    fits = pod("p", containers=[small], init_containers=[container("i", limits={"cpu": "4", "memory": "1Gi"})])
    assert cluster.schedule(fits).node == "n1"
    large = container("i", limits={"cpu": "5", "memory": "1Gi"})
    decision = cluster.schedule(pod("q", containers=[small], init_containers=[large]))
    assert decision.rejections["n1"].message == "cannot align init container"
    sidecar = container("s", limits={"cpu": "5", "memory": "1Gi"}, sidecar=True)
    decision = cluster.schedule(pod("r", containers=[small], init_containers=[sidecar]))
    assert decision.rejections["n1"].message == "cannot align sidecar container"


def test_nodes_without_a_report_pass(cluster: VirtualCluster) -> None:
    """A node that comes or goes, and a report that changes, are followed."""
    cluster.configure(profile({"multiPoint": {"enabled": [{"name": NAME}]}}, {}))
    cluster.add(machine("n1"), topology("n1", BY_POD, TIGHT), topology("n2", BY_POD, ROOMY))
    assert cluster.schedule(guaranteed("p0", cpu="8", memory="1Gi")).node == ""
    cluster.add(machine("n2"))
    cluster.advance(2)
    assert cluster.node_of("p0") == "n2"
    cluster.add(machine("n3"))
    assert cluster.schedule(guaranteed("p1", cpu="16", memory="1Gi")).node == "n3"
    cluster.remove(machine("n3"))
    cluster.add(machine("n4"), topology("n4", BY_POD, TIGHT))
    assert cluster.schedule(guaranteed("p2", cpu="16", memory="1Gi")).node == ""
    cluster.add(topology("n4", BY_POD, [{"cpu": "16", "memory": "16Gi"}]))
    cluster.advance(12)
    assert cluster.node_of("p2") == "n4"


COSTS = [[10, 20], [20, 10]]
THREE = {
    "n1": [{"cpu": "4", "memory": "500Mi"}] * 2,
    "n2": [{"cpu": "2", "memory": "50Mi"}] * 2,
    "n3": [{"cpu": "6", "memory": "60Mi"}] * 2,
}


def scored(cluster: VirtualCluster, strategy: str, policy: str, wanted: Pod) -> list[int]:
    """The scores of three nodes."""
    cluster.configure(only_scorer(NAME, {"scoringStrategy": {"type": strategy}}))
    for name, zones in THREE.items():
        cluster.add(machine(name), topology(name, policy, zones, COSTS))
    return list(scores(cluster.schedule(wanted), NAME).values())


@pytest.mark.parametrize(
    ("strategy", "expected"),
    [("MostAllocated", [27, 70, 33]), ("BalancedAllocation", [89, 82, 100]), ("LeastAllocated", [73, 30, 66])],
)
def test_strategies(cluster: VirtualCluster, strategy: str, expected: list[int]) -> None:
    """Two CPUs and 20 MiB, on zones of different sizes."""
    assert scored(cluster, strategy, BY_CONTAINER, guaranteed(cpu="2", memory="20Mi")) == expected


@pytest.mark.parametrize(
    ("policy", "cpus", "expected"),
    [
        ("BestEffortContainerLevel", ["2"], [94, 94, 94]),
        ("BestEffortContainerLevel", ["4"], [94, 82, 94]),
        ("BestEffortContainerLevel", ["6"], [82, 0, 94]),
        ("BestEffortContainerLevel", ["2", "2"], [94, 94, 94]),
        ("BestEffortContainerLevel", ["1", "3"], [94, 82, 94]),
        ("BestEffortContainerLevel", ["5", "3"], [82, 0, 94]),
        ("BestEffortPodLevel", ["2", "2"], [94, 82, 82]),
        ("BestEffortPodLevel", ["1", "3"], [94, 82, 82]),
    ],
)
def test_the_fewest_zones(cluster: VirtualCluster, policy: str, cpus: list[str], expected: list[int]) -> None:
    """Each zone more costs an eighth of the score; zones that are as near as possible give half of that back."""
    wanted = guaranteed("p", *({"cpu": each, "memory": "50Mi"} for each in cpus))
    assert scored(cluster, "LeastNUMANodes", policy, wanted) == expected


@pytest.mark.parametrize(("gpus", "expected"), [([1, 1, 0, 0], 82), ([1, 0, 1, 0], 76)])
def test_zones_that_are_near(cluster: VirtualCluster, gpus: list[int], expected: int) -> None:
    """Two GPUs are in two zones, next to each other or not."""
    costs = [[10, 12, 20, 20], [12, 10, 20, 20], [20, 20, 10, 12], [20, 20, 12, 10]]
    zones = [{"cpu": "4", "memory": "5Gi", NIC: each} for each in gpus]
    cluster.configure(only_scorer(NAME, {"scoringStrategy": {"type": "LeastNUMANodes"}}))
    cluster.add(machine("n1"), machine("n2"), topology("n1", "RestrictedPodLevel", zones, costs))
    found = scores(cluster.schedule(guaranteed(**{"cpu": "2", "memory": "2Gi", NIC: "2"})), NAME)
    assert found == {"n1": expected, "n2": 0}


def test_pods_that_are_not_guaranteed_score_alike(cluster: VirtualCluster) -> None:
    """Every node is as good."""
    assert scored(cluster, "LeastAllocated", BY_POD, pod("p", cpu="2")) == [100, 100, 100]


def test_nodes_with_reserved_pods_are_left_out(cluster: VirtualCluster) -> None:
    """With discardReservedNodes a node is not used again until its pod is bound."""
    cluster.configure(profile({"multiPoint": {"enabled": [{"name": NAME}]}}, {NAME: {"discardReservedNodes": True}}))
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    cluster.start()
    plugins = cluster.scheduler.profiles["default-scheduler"].engine.framework.plugins
    plugin = next(each for each in plugins if isinstance(each, NodeResourceTopologyMatch))
    other = guaranteed("other", cpu="1", memory="1Gi")
    plugin.reserve(None, other, "n1")  # type: ignore[arg-type]
    assert (
        cluster.schedule(guaranteed("p", cpu="1", memory="1Gi")).rejections["n1"].message
        == "invalid node topology data"
    )
    cluster.run(plugin.post_bind(None, other, "n1"))  # type: ignore[arg-type]
    assert cluster.schedule(guaranteed("q", cpu="1", memory="1Gi")).node == "n1"


def test_settings_of_the_kubelet() -> None:
    """Attributes have precedence over the deprecated policies, and wrong values are ignored."""

    def settings(policy: str = "", **attributes: str) -> tuple[str, str, int]:
        given = [{"name": f"topologyManager{name}", "value": value} for name, value in attributes.items()]
        return kubelet_settings(topology("n", policy, [], attributes=given))

    assert settings() == ("none", "container", 8)
    assert settings("RestrictedPodLevel") == ("restricted", "pod", 8)
    assert settings("RestrictedPodLevel", Policy="single-numa-node") == ("single-numa-node", "pod", 8)
    assert settings(Scope="pod", Policy="best", MaxNUMANodes="16") == ("none", "pod", 16)
    assert settings(MaxNUMANodes="1") == settings(MaxNUMANodes="many") == ("none", "container", 8)
    assert settings(MaxNUMANodes="4096")[2] == 1024
    assert settings(MaxNUMANodes="9" * 5000)[2] == 8
    assert [numa_id(name) for name in ("node-0", "node-12", "socket-1", "node-75", "node")] == [0, 12, 1, -1, -1]
    assert [numa_id(name) for name in ("node-007", "node-000", "node-" + "9" * 5000)] == [7, 0, -1]


def test_a_distance_that_is_too_large(cluster: VirtualCluster) -> None:
    """An absurd number in a report fails no pod."""
    cluster.configure(profile({"multiPoint": {"enabled": [{"name": NAME}]}}, {NAME: {}}))
    cluster.add(machine(), topology("n1", BY_POD, ROOMY, costs=[[10, 10**30], [-(10**30), 10]]))
    assert cluster.schedule(guaranteed(cpu="6", memory="1Gi")).node == "n1"


def test_wrong_arguments(cluster: VirtualCluster) -> None:
    """The error names the field."""
    cluster.configure(only_scorer(NAME, {"scoringStrategy": {"type": "Most"}}))
    with pytest.raises(ConfigError, match=r"args.scoringStrategy.type: invalid enum value 'Most'"):
        cluster.start()


def test_the_contract() -> None:
    """Deterministic, and a row judged by itself."""
    check_plugin(NodeResourceTopologyMatch)
