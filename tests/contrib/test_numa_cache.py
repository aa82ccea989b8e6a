"""The cache of NodeResourceTopologyMatch: pods that are not in reports yet, fingerprints, preemption by zone."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from tests.contrib.support import profile
from tests.contrib.test_node_resource_topology_match import (
    BY_CONTAINER,
    BY_POD,
    NAME,
    NIC,
    PLAIN,
    ROOMY,
    asked,
    guaranteed,
    machine,
    topology,
)

from kubesched import CycleState, Plugin, Pod, Status, unschedulable
from kubesched.contrib.node_resource_topology_match import NodeResourceTopologyMatch
from kubesched.contrib.numa_cache import CachedZones
from kubesched.contrib.numa_placement import METADATA, VECTOR, container_zones
from kubesched.contrib.numa_reports import NodeResourceTopology
from kubesched.contrib.pod_fingerprint import fingerprint, xxh64
from kubesched.testing import VirtualCluster, pod

PERIOD = 5
LESS = [{"cpu": "4", "memory": "8Gi", NIC: 10}, {"cpu": "2", "memory": "7Gi", NIC: 10}]


def configure(cluster: VirtualCluster, cache: dict[str, Any] | None = None, **args: Any) -> None:
    """The plugin with its cache."""
    args = {"cacheResyncPeriodSeconds": PERIOD, "cache": cache or {}, **args}
    cluster.configure(profile({"multiPoint": {"enabled": [{"name": NAME}]}}, {NAME: args}))


def signed(*names: str, zones: list[dict[str, Any]] | None = None, method: str = "", policy: str = BY_POD) -> Any:
    """A report about n1 that includes these pods."""
    attributes = [
        {"name": "nodeTopologyPodsFingerprint", "value": fingerprint(("default", name) for name in names)},
        {"name": "nodeTopologyPodsFingerprintMethod", "value": method},
    ]
    return topology("n1", policy, zones or LESS, attributes=attributes)


def run_on(cluster: VirtualCluster, name: str, scheduler: str = "") -> None:
    """Let a pod run, as its kubelet would; that of another scheduler is created on n1."""
    found = pod(name, cpu=1) if scheduler else cluster.pod(name)
    spec = msgspec.structs.replace(found.spec, node_name="n1", scheduler_name=scheduler or found.spec.scheduler_name)
    cluster.add(
        msgspec.structs.replace(found, spec=spec, status=msgspec.structs.replace(found.status, phase="Running"))
    )


def fits(cluster: VirtualCluster, name: str, cpu: str = "4") -> bool:
    """Whether another pod finds room."""
    return cluster.schedule(guaranteed(name, cpu=cpu, memory="1Gi")).node == "n1"


def test_hashes_are_those_of_the_agents() -> None:
    """XXH64 as published, and fingerprints that the agents' own library has made."""
    assert xxh64(b"") == 0xEF46DB3751D8E999
    assert xxh64(b"abc") == 0x44BC2CF5AD770999
    pods = ("jaeger-dpgjk", "nginx-rt684", "envoy-g9m22")
    assert fingerprint(("production", name) for name in pods) == "pfp0v001607b76a0e9d3aeb4"
    many = [
        ("analytics", "controller-69dkj"),
        ("kube-public", "subscriber-tq6v7"),
        ("kube-public", "transformer-hfbng"),
        ("kube-public", "validator-c6pn5"),
        ("kube-system", "proxy-wszrd"),
        ("middleware", "processor-jkrl4"),
        ("network", "gateway-vsll5"),
        ("network", "importer-kzdfr"),
        ("network", "importer-q5vt9"),
        ("staging", "prometheus-bwgbn"),
    ]
    assert fingerprint(reversed(many)) == "pfp0v001567144e4a561bb5a"


def test_placed_pods_count_against_every_zone(cluster: VirtualCluster) -> None:
    """Until a report has the fingerprint of the pods that run: not before, and not for a report about others."""
    configure(cluster)
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    assert fits(cluster, "p", "6")
    assert not fits(cluster, "q1")
    run_on(cluster, "p")
    cluster.add(signed("somebody-else"))
    cluster.advance(PERIOD + 1)
    assert not fits(cluster, "q2")
    cluster.add(signed("p"))
    assert not fits(cluster, "q3")  # the next resync is to come
    cluster.advance(PERIOD + 1)
    assert fits(cluster, "q4")


def test_a_report_without_a_fingerprint_does_not_count(cluster: VirtualCluster) -> None:
    """As it may be older than the pod. The log says what is missing."""
    configure(cluster)
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    assert fits(cluster, "p", "6")
    run_on(cluster, "p")
    assert not fits(cluster, "q1")
    cluster.add(topology("n1", BY_POD, LESS))
    cluster.advance(PERIOD + 1)
    assert not fits(cluster, "q2")
    cluster.add(topology("n1", BY_POD, LESS, metadata={"name": "n1", "annotations": annotated("p")}))
    cluster.advance(PERIOD + 1)
    assert fits(cluster, "q3")


def annotated(name: str) -> dict[str, str]:
    """The older way to give a fingerprint."""
    return {"topology.node.k8s.io/fingerprint": fingerprint([("default", name)])}


def test_nodes_that_were_not_rejected_are_not_resynced(cluster: VirtualCluster) -> None:
    """As upstream: only a rejection makes the scheduler look at a newer report."""
    configure(cluster)
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    assert fits(cluster, "p", "2")
    run_on(cluster, "p")
    cluster.add(signed("p", zones=[{"cpu": "1", "memory": "8Gi"}]))
    cluster.advance(PERIOD + 1)
    assert fits(cluster, "q", "4")


@pytest.mark.parametrize(("scope", "changed"), [("All", True), ("OnlyResources", False)])
def test_a_change_of_the_kubelets_settings(cluster: VirtualCluster, scope: str, changed: bool) -> None:
    """It counts at the next resync, whatever the fingerprint; not with resyncScope OnlyResources."""
    configure(cluster, {"resyncScope": scope})
    cluster.add(machine(), topology("n1", BY_POD, [{"cpu": "2", "memory": "8Gi"}]))
    assert not fits(cluster, "p0")
    cluster.add(topology("n1", "BestEffortPodLevel", [{"cpu": "2", "memory": "8Gi"}]))
    cluster.advance(PERIOD + 1)
    assert fits(cluster, "p") is changed


@pytest.mark.parametrize(
    ("method", "of_report", "included", "complete"),
    [
        ("Autodetect", "", ("p", "shared"), True),
        ("Autodetect", "", ("p",), False),
        ("Autodetect", "with-exclusive-resources", ("p",), True),
        ("Autodetect", "with-exclusive-resources", ("p", "shared"), False),
        ("All", "with-exclusive-resources", ("p", "shared"), True),
        ("OnlyExclusiveResources", "", ("p",), True),
    ],
)
def test_which_pods_a_fingerprint_includes(
    cluster: VirtualCluster, method: str, of_report: str, included: tuple[str, ...], complete: bool
) -> None:
    """All pods or those with exclusive resources: the report says which, unless a setting does."""
    configure(cluster, {"resyncMethod": method})
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    assert fits(cluster, "p", "6")
    assert cluster.schedule(pod("shared", cpu="100m")).node == "n1"
    for name in ("p", "shared"):
        run_on(cluster, name)
    assert not fits(cluster, "q1")
    cluster.add(signed(*included, method=of_report))
    cluster.advance(PERIOD + 1)
    assert fits(cluster, "q2") is complete


@pytest.mark.parametrize(
    ("mode", "other", "usable"),
    [
        ("All", asked({"cpu": "100m"}), False),
        ("None", guaranteed(cpu="6", memory="1Gi"), True),
        ("OnlyExclusiveResources", guaranteed(cpu="6", memory="1Gi"), False),
        ("OnlyExclusiveResources", asked({"cpu": "6"}), True),
        ("OnlyExclusiveResources", asked({"cpu": "5", NIC: 10}), False),
        ("OnlyExclusiveResources", asked({"cpu": "6", PLAIN: 1}), True),
    ],
)
def test_pods_of_other_schedulers(cluster: VirtualCluster, mode: str, other: Pod, usable: bool) -> None:
    """Which of them make a node unusable is a setting: all, none, or those with resources of their own."""
    configure(cluster, {"foreignPodsDetect": mode})
    cluster.add(machine(**{PLAIN: "9"}), topology("n1", BY_POD, ROOMY))
    cluster.start()
    spec = msgspec.structs.replace(other.spec, node_name="n1", scheduler_name="other")
    cluster.add(msgspec.structs.replace(other, metadata=pod("foreign").metadata, spec=spec))
    decision = cluster.schedule(guaranteed("q", cpu="4", memory="1Gi"))
    assert decision.node == ("n1" if usable else "")
    assert usable or decision.rejections["n1"].message == "invalid node topology data"


def test_a_node_with_foreign_pods_is_usable_again(cluster: VirtualCluster) -> None:
    """When a report includes them; pods that are there before the scheduler starts count, too."""
    configure(cluster)
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    run_on(cluster, "foreign", "other")
    assert not fits(cluster, "q1")
    cluster.add(signed("foreign"))
    cluster.advance(PERIOD + 1)
    assert fits(cluster, "q2")


def cache_of(cluster: VirtualCluster) -> CachedZones:
    """The plugin's cache."""
    plugins = cluster.scheduler.profiles["default-scheduler"].engine.framework.plugins
    plugin = next(each for each in plugins if isinstance(each, NodeResourceTopologyMatch))
    assert plugin._cache is not None
    return plugin._cache


def test_foreign_pods_of_nodes_that_are_gone_are_forgotten(cluster: VirtualCluster) -> None:
    """A node that comes and goes leaves nothing behind that later pods are compared with."""
    configure(cluster)
    cluster.add(machine("n0"), topology("n0", BY_POD, ROOMY), machine())
    run_on(cluster, "foreign", "other")
    cluster.start()
    cluster.remove(machine(), cluster.pod("foreign"))
    cluster.advance(PERIOD + 1)
    assert not cache_of(cluster)._foreign


def test_foreign_pods_count_only_on_nodes_with_a_report(cluster: VirtualCluster) -> None:
    """As upstream: the first report of a node is taken as it is, and no other node inherits a row's foreign pods."""
    configure(cluster)
    cluster.add(machine())
    run_on(cluster, "foreign", "other")
    cluster.advance(PERIOD + 1)
    cluster.add(topology("n1", BY_POD, ROOMY))
    assert fits(cluster, "q")


def test_pods_that_request_nothing_are_not_kept(cluster: VirtualCluster) -> None:
    """They take nothing from a zone, so that no rejection would lead to their being dropped."""
    configure(cluster)
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    assert cluster.schedule(pod("best-effort")).node == "n1"
    assert not cache_of(cluster)._reserved.get(cluster.scheduler.cluster.nodes.row_of["n1"])


def test_a_node_that_is_replaced_starts_anew(cluster: VirtualCluster) -> None:
    """What was reserved on the old node is not taken from the new one of the same name."""
    configure(cluster)
    cluster.add(machine("n0"), topology("n0", BY_POD, [{"cpu": "1", "memory": "8Gi"}]))
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    assert fits(cluster, "p", "6")
    cluster.remove(cluster.pod("p"), machine(), topology("n1", BY_POD, ROOMY))
    assert not fits(cluster, "q", "6")
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    cluster.advance(2)
    assert cluster.node_of("q") == "n1"


class Refuse(Plugin):
    """Rejects a pod on Permit, after its place was reserved."""

    name = "Refuse"

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status | None:
        return unschedulable("refused") if pod.name == "refused" else None


def test_a_pod_that_is_not_bound_gives_back_what_it_took(cluster: VirtualCluster) -> None:
    """What Reserve took is free again after Unreserve."""
    cluster.know(Refuse)
    both = {"multiPoint": {"enabled": [{"name": NAME}, {"name": "Refuse"}]}}
    cluster.configure(profile(both, {NAME: {"cacheResyncPeriodSeconds": PERIOD}}))
    cluster.add(machine(), topology("n1", BY_POD, ROOMY))
    assert not fits(cluster, "refused", "6")
    assert fits(cluster, "q", "6")


# --- preemption -------------------------------------------------------------------------------------------------------

THREE = [("ns-0", "pod-0", "container-0"), ("ns-0", "pod-1", "container-1"), ("ns-0", "pod-1", "container-2")]


def as_tree(report: Any) -> Any:
    """A report as JSON has it."""
    return msgspec.json.decode(msgspec.json.encode(report))


def placed(metadata: str, *vectors: str, policy: str = BY_CONTAINER) -> Any:
    """A report that says which containers are on which zone."""
    tree = as_tree(topology("n1", policy, ROOMY, attributes=[{"name": METADATA, "value": metadata}]))
    for zone, vector in zip(tree["zones"], vectors, strict=True):
        zone["attributes"] = [{"name": VECTOR, "value": vector}]
    return msgspec.convert(tree, NodeResourceTopology)


def test_the_zones_of_containers() -> None:
    """The busiest zone has those that no other zone lists; anything inconsistent is ignored."""
    assert container_zones(placed("npv0v001::ve=leb89::cc=3::nn=2::bn=1", "!", ""), THREE) == {
        THREE[0]: 1,
        THREE[1]: 0,
        THREE[2]: 1,
    }
    assert set(container_zones(placed("npv0v001::ve=leb89::cc=2::nn=2::bn=1", "", ""), THREE[1:]).values()) == {1}
    for metadata, vectors in (
        ("npv0v001::ve=leb89::cc=2::nn=2::bn=1", ("!", "")),  # another number of containers
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=2", ("!", "")),  # a zone that does not exist
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=0", ("!", "")),  # the busiest zone is listed
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("!!", "")),  # a container twice
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("%", "")),  # a position beyond the last
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("f", "")),  # a number without an end
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("~" * 100_000, "")),  # a number that would take hours to read
        ("npv0v001::ve=leb89::cc=2::nn=99999999999::bn=1", ("!", "")),  # more zones than fit into memory
        ("npv0v001::ve=leb89::cc=3::nn=2::bn=1", ("&", "")),  # an unknown character
        ("npv0v001::ve=other::cc=3::nn=2::bn=1", ("!", "")),
        ("npv9", ("!", "")),
        ("npv0v001::cc", ("!", "")),
        ("", ("", "")),
    ):
        assert container_zones(placed(metadata, *vectors), THREE) == {}, (metadata, vectors)
    assert container_zones(placed("npv0v001::ve=leb89::cc=3::nn=2::bn=1", "!", "", policy=""), THREE) == {}


def test_long_vectors() -> None:
    """Differences of 64 and more take two characters."""
    containers = [("ns", f"pod-{number}", "main") for number in range(200)]
    found = container_zones(placed("npv0v001::ve=leb89::cc=200::nn=2::bn=0", "", "f!f!"), containers)
    assert sorted(found.values()).count(1) == 2


def evicts(cluster: VirtualCluster, mode: str, allocatable: int = 99) -> bool:
    """Two zones have two free CPUs each, and a victim has two of one; whether a pod that needs four evicts it."""
    configure(cluster, preemptionMode=mode)
    zones = [{"cpu": "2", "memory": "4Gi"}, {"cpu": "2", "memory": "4Gi"}]
    cluster.add(machine(), topology("n1", BY_POD, [{"cpu": "4", "memory": "8Gi"}, {"cpu": "2", "memory": "4Gi"}]))
    victim = pod("victim", limits={"cpu": "2", "memory": "4Gi"}, priority=1)
    assert cluster.schedule(victim).node == "n1"
    run_on(cluster, "victim")
    assert not fits(cluster, "rejected", "4")
    report = signed("victim", zones=zones)
    tree = as_tree(report)
    tree["attributes"].append({"name": METADATA, "value": "npv0v001::ve=leb89::cc=1::nn=2::bn=0"})
    for each in (each for zone in tree["zones"] for each in zone["resources"]):
        each["allocatable"] = allocatable if each["name"] == "cpu" else "99Gi"
    cluster.add(msgspec.convert(tree, NodeResourceTopology))
    cluster.advance(PERIOD + 1)
    cluster.schedule(pod("urgent", limits={"cpu": "4", "memory": "1Gi"}, priority=9))
    return not any(each.name == "victim" for each in cluster.api.objects(Pod))


@pytest.mark.parametrize(("mode", "evicted"), [("Enabled", True), ("Disabled", False)])
def test_preemption_knows_the_zones_of_victims(cluster: VirtualCluster, mode: str, evicted: bool) -> None:
    """With preemptionMode Enabled, an eviction frees the zone that the victim's containers are on."""
    assert evicts(cluster, mode) is evicted


def test_reports_that_do_not_fit_their_pods(cluster: VirtualCluster) -> None:
    """If an eviction frees more than a zone has, nothing is evicted."""
    assert not evicts(cluster, "Enabled", allocatable=3)
