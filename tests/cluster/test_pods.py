"""Pod classes: what pods of one template share, and what separates them."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest
from msgspec.structs import replace
from tests.builders import affinity, container, host_port, node, pod, pod_term

from kubesched.api import objects as api
from kubesched.cluster.pods import PodClasses, disks, host_ports
from kubesched.cluster.state import ClusterState


def status(cpu: str) -> api.ContainerStatus:
    return api.ContainerStatus("main", api.ResourceRequirements({"cpu": cpu}))


def test_pods_of_a_template_share_class_and_spec() -> None:
    """Pods that differ only in name, UID and owner have one class and share one copy of the spec."""
    classes = PodClasses()
    one, other = (classes.info(pod(name, cpu="1", labels={"app": "web"})) for name in ("p1", "p2"))
    assert one.pod_class is other.pod_class
    assert one.pod.spec is other.pod.spec
    assert len(classes) == 1


def test_pods_on_nodes_share_what_they_have_in_common() -> None:
    """Bound pods of a template share one copy of containers and labels, and each keeps its own node."""
    classes = PodClasses()
    one, other = (classes.info(pod(name, node=f"on-{name}", cpu="1", labels={"app": "web"})) for name in ("p1", "p2"))
    assert (one.pod.node_name, other.pod.node_name) == ("on-p1", "on-p2")
    assert one.pod.spec.containers is other.pod.spec.containers
    assert one.pod.labels is other.pod.labels


def test_the_order_of_labels_does_not_matter() -> None:
    """The same labels in a different order give the same class."""
    classes = PodClasses()
    one = classes.info(pod("p1", labels={"a": "1", "b": "2"}))
    other = classes.info(pod("p2", labels={"b": "2", "a": "1"}))
    assert one.pod_class is other.pod_class


@pytest.mark.parametrize(
    "change",
    [
        {"namespace": "other"},
        {"labels": {"app": "web"}},
        {"cpu": "2"},
        {"priority": 1},
        {"node_selector": {"disk": "ssd"}},
        {"tolerations": ["k:NoSchedule"]},
        {"affinity": affinity(away=[pod_term({"app": "web"})])},
        {"host_ports": [80]},
        {"image": "web:1"},
        {"preemption_policy": "Never"},
    ],
)
def test_what_scheduling_reads_makes_another_class(change: dict[str, Any]) -> None:
    """A difference in any field that a plugin reads makes a different class."""
    classes = PodClasses()
    assert classes.info(pod(cpu="1")).pod_class is not classes.info(pod(**{"cpu": "1", **change})).pod_class


@pytest.mark.parametrize(
    "change",
    [
        {"node": "a"},
        {"nominated": "a"},
        {"phase": "Running"},
        {"started": "2026-01-01T00:00:00Z"},
        {"terminating": True},
        {"uid": "another"},
    ],
)
def test_what_happens_to_a_pod_does_not_change_its_class(change: dict[str, Any]) -> None:
    """Being bound, nominated, started or deleted does not change a pod's class."""
    classes = PodClasses()
    assert classes.info(pod(cpu="1")).pod_class is classes.info(pod(cpu="1", **change)).pod_class


def test_the_class_does_not_know_its_pods_node() -> None:
    """The spec of a class has no node name, whichever pod came first; a bound pod keeps its own."""
    classes = PodClasses()
    bound = classes.info(pod("p1", node="a"))
    assert bound.pod_class.spec.node_name == ""
    assert bound.pod.node_name == "a"
    assert classes.info(pod("p2")).pod.node_name == ""


def test_a_record_tells_whether_the_pod_is_leaving() -> None:
    """Termination belongs to the pod and not to its class."""
    classes = PodClasses()
    assert classes.info(pod(terminating=True)).terminating
    assert not classes.info(pod()).terminating
    assert repr(classes.info(pod("p1"))) == "PodInfo(default/p1)"


@pytest.mark.parametrize("resized_first", [True, False])
def test_a_resize_is_another_class(resized_first: bool) -> None:
    """A pod that is allocated more than it requests counts with that, and does not affect other pods of its
    template.
    """
    classes = PodClasses()
    pods = [pod("resized", cpu="1", statuses=[status("3")]), pod("plain", cpu="1")]
    infos = {p.name: classes.info(p) for p in (pods if resized_first else reversed(pods))}
    assert infos["resized"].pod_class.node_requests.milli_cpu == 3000
    assert infos["plain"].pod_class.node_requests.milli_cpu == 1000


def test_a_finished_resize_is_no_class_of_its_own() -> None:
    """A status equal to the spec makes no separate class."""
    classes = PodClasses()
    assert (
        classes.info(pod("p1", cpu="1", statuses=[status("1")])).pod_class is classes.info(pod("p2", cpu="1")).pod_class
    )


def test_equal_resizes_share_a_class() -> None:
    """Pods with equal allocations share the resized class."""
    classes = PodClasses()
    one, two, other = (classes.info(pod(f"p{cpu}{i}", cpu="1", statuses=[status(cpu)])) for i, cpu in enumerate("332"))
    assert one.pod_class is two.pod_class is not other.pod_class


def test_resizing_a_running_pod_moves_its_amounts() -> None:
    """The node's amounts follow a pod through its resize and back."""
    cluster = ClusterState()
    cluster.set(node("a"))
    cluster.set(pod("p", node="a", cpu="1"))
    used = []
    for cpu in ("3", "1"):
        cluster.set(pod("p", node="a", cpu="1", statuses=[status(cpu)]))
        used.append(int(cluster.nodes.used[0, 0]))
    assert used == [3000, 1000]


def test_remember_asks_once() -> None:
    """A value derived from a class is computed once, even if it is None."""
    pod_class = PodClasses().info(pod()).pod_class
    calls: list[int] = []
    for _ in range(2):
        assert pod_class.remember("key", lambda: calls.append(1)) is None
    assert calls == [1]


class Few(PodClasses):
    """Keeps few classes."""

    RECENT = 3


def test_idle_classes_are_dropped() -> None:
    """When there are many, classes without pods are dropped; those in use stay the same object."""
    cluster = ClusterState()
    cluster.classes = Few()
    cluster.set(node("a"))
    cluster.set(pod("kept", node="a", cpu="1"))
    kept = cluster.pods["default.kept"].pod_class
    idle = weakref.ref(cluster.classes.info(pod("idle", cpu="2")).pod_class)
    for number in range(10):
        cluster.classes.info(pod(f"p{number}", cpu=str(number + 3)))
    gc.collect()
    assert idle() is None
    assert cluster.classes.info(pod("again", cpu="1")).pod_class is kept
    assert len(cluster.classes) < 6


def test_large_idle_classes_are_dropped_by_size() -> None:
    """A few classes with very large labels are not kept, although few classes are."""
    classes = PodClasses()
    for number in range(20):
        classes.info(pod(f"p{number}", labels={f"key-{number}-{i}": "v" * 60 for i in range(2000)}))
    assert len(classes) < 10


def test_a_class_lives_as_long_as_its_pods_in_the_queue() -> None:
    """Another pod of the template gets the same class, however many classes came between."""
    classes = Few()
    waiting = classes.info(pod("waiting", cpu="1"))
    for number in range(10):
        classes.info(pod(f"p{number}", cpu=str(number + 3)))
    assert classes.info(pod("next", cpu="1")).pod_class is waiting.pod_class


def test_a_dropped_class_with_a_pod_in_hand_still_counts() -> None:
    """A class that was dropped while its pod was queued still works when the pod is placed."""
    cluster = ClusterState()
    cluster.classes = Few()
    cluster.set(node("a"))
    waiting = cluster.classes.info(pod("waiting", cpu="1", labels={"app": "web"}))
    for number in range(10):
        cluster.classes.info(pod(f"p{number}", cpu=str(number + 3)))
    cluster.assume(waiting, "a")
    cluster.set(pod("other", node="a", cpu="1", labels={"app": "web"}))
    assert int(cluster.nodes.used[0, 0]) == 2000
    cluster.forget("default.waiting")
    cluster.remove(pod("other"))
    assert not cluster.nodes.used.any()


# --- ports and disks --------------------------------------------------------------------------------------------------


def test_host_ports_of_containers_and_sidecars() -> None:
    """Containers and sidecars use their host ports for the pod's lifetime; other init containers do not."""
    spec = pod(
        containers=[container(host_ports=[80, host_port(53, "UDP", "10.0.0.1")])],
        init_containers=[container("side", host_ports=[81], sidecar=True), container("init", host_ports=[82])],
    ).spec
    assert host_ports(spec) == (("TCP", 81, "0.0.0.0"), ("TCP", 80, "0.0.0.0"), ("UDP", 53, "10.0.0.1"))


def test_a_container_port_is_no_host_port() -> None:
    """A container port without a host port takes nothing on the node."""
    inside = api.ContainerPort(container_port=80)
    assert host_ports(pod(host_ports=[inside]).spec) == ()


def test_ports_are_tagged_for_their_address_and_for_all() -> None:
    """A port is indexed under its address and under the wildcard, so that a pod for all addresses finds any
    conflict.
    """
    tags = PodClasses().info(pod(host_ports=[host_port(80, "TCP", "10.0.0.1")])).pod_class.tags
    assert tags == (("port", "TCP", 80, "10.0.0.1"), ("port", "TCP", 80, "*"))


def test_a_port_named_twice_is_one_tag() -> None:
    """Two containers with the same port count it once."""
    tags = (
        PodClasses().info(pod(containers=[container(host_ports=[80]), container("b", host_ports=[80])])).pod_class.tags
    )
    assert len(tags) == 2


def test_two_addresses_of_a_port_count_under_the_star_each() -> None:
    """A port on two addresses leaves the wildcard only when both are free."""
    cluster = ClusterState()
    cluster.set(node("a"))
    both = pod("p", node="a", host_ports=[host_port(80, "TCP", "10.0.0.1"), host_port(80, "TCP", "10.0.0.2")])
    cluster.set(both)
    assert cluster.nodes.tagged[("port", "TCP", 80, "*")] == {0: 2}
    cluster.remove(both)
    assert cluster.nodes.tagged == {}


def test_claims_are_tagged_by_namespace() -> None:
    """A claim belongs to the pod's namespace."""
    tags = PodClasses().info(pod(namespace="blue", claims=["data"])).pod_class.tags
    assert tags == (("claim", "blue", "data"),)


@pytest.mark.parametrize(
    ("volume", "expected"),
    [
        (
            api.Volume(gce_persistent_disk=api.GCEPersistentDiskVolumeSource(pd_name="d", read_only=True)),
            [("disk", "gce", "d", True)],
        ),
        (
            api.Volume(aws_elastic_block_store=api.AWSElasticBlockStoreVolumeSource(volume_id="v", read_only=True)),
            [("disk", "ebs", "v", False)],
        ),
        (api.Volume(iscsi=api.ISCSIVolumeSource(iqn="i", read_only=True)), [("disk", "iscsi", "i", True)]),
        (
            api.Volume(rbd=api.RBDVolumeSource(monitors=("m", "n", "m"), pool="p", image="i")),
            [("disk", "rbd", "m", "p", "i", False), ("disk", "rbd", "n", "p", "i", False)],
        ),
        (api.Volume(name="scratch"), []),
    ],
)
def test_disks(volume: api.Volume, expected: list[tuple[object, ...]]) -> None:
    """Disks that two pods on a node cannot share freely, with the fields that decide about sharing."""
    assert list(disks(volume)) == expected


def test_the_volume_of_a_service_account_token_does_not_set_pods_apart() -> None:
    """The random name of a service account token's volume does not make a separate class."""
    classes = PodClasses()
    infos = [
        classes.info(
            api.decode_as(
                api.Pod,
                {
                    "metadata": {"name": name, "namespace": "default", "uid": name},
                    "spec": {
                        "volumes": [
                            {"name": f"kube-api-access-{name}", "projected": {"sources": []}},
                            {"name": "data", "persistentVolumeClaim": {"claimName": "shared"}},
                        ]
                    },
                },
            )
        )
        for name in ("a", "b")
    ]
    assert infos[0].pod_class is infos[1].pod_class
    assert [volume.name for volume in infos[0].pod_class.spec.volumes] == ["data"]


def test_claims_of_their_own_make_no_class_of_their_own() -> None:
    """Pods that differ in the names of their claims share a class, and each keeps its claims; but not if plugins of
    others cache what they read of pods."""
    classes = PodClasses()

    def with_claim(n: int) -> api.Pod:
        plain = pod(f"p{n}", uid=f"u{n}", node="n")
        claims = (api.PodResourceClaim("gpu", resource_claim_name=f"c{n}"),)
        return replace(plain, spec=replace(plain.spec, resource_claims=claims))

    first, second = (classes.info(with_claim(n)) for n in range(2))
    assert first.pod_class is second.pod_class
    assert [each.pod.spec.resource_claims[0].resource_claim_name for each in (first, second)] == ["c0", "c1"]
    assert second.pod.spec.node_name == "n"
    classes.exact = True
    assert classes.info(with_claim(0)).pod_class is not classes.info(with_claim(1)).pod_class
