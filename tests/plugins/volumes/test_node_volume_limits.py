"""NodeVolumeLimits: how many volumes of a driver a node takes."""

from __future__ import annotations

import pytest
from tests.builders import cluster, node, pod
from tests.plugins.volumes.storage import (
    Harness,
    attachment,
    claim,
    classes,
    csi_node,
    csi_volume,
    ephemeral,
    owned_by,
    storage_class,
    volume,
)

from kubesched.api import objects as api
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.status import Code
from kubesched.plugins.node_volume_limits import NodeVolumeLimits
from kubesched.plugins.node_volume_limits.plugin import EXCEEDED

GCE = "kubernetes.io/gce-pd"


def limited(limit: int | None, *objects: api.Object) -> Harness:
    """A node with a limit on the example driver, and the given objects."""
    return Harness(NodeVolumeLimits, cluster(node("n"), csi_node("n", csi_example_com=limit), *classes(), *objects))


def bound(name: str, **fields: str) -> list[api.Object]:
    """A claim bound to a volume of the example driver."""
    return [claim(name, volume=f"{name}-v"), csi_volume(f"{name}-v", **fields)]


@pytest.mark.parametrize(("limit", "fits"), [(2, False), (3, True), (None, True), (0, False)])
def test_volumes_of_pods_count(limit: int | None, fits: bool) -> None:
    """Two volumes are in use; a third fits if the limit is three, or if there is none."""
    there = pod("there", node="n", claims=["a", "b"])
    asked = limited(limit, *bound("a"), *bound("b"), *bound("c"), there)
    assert asked.filter(pod("new", claims=["c"])) == ({} if fits else {"n": EXCEEDED})


def test_nodes_that_do_not_say_take_any_number() -> None:
    """Without a CSINode, or with one that does not mention the driver, there is no limit."""
    asked = Harness(
        NodeVolumeLimits, cluster(node("silent"), node("bare"), csi_node("silent", other_driver=0), *bound("a"))
    )
    assert not asked.filter(pod("new", claims=["a"]))


def test_a_volume_in_use_on_the_node_costs_nothing() -> None:
    """A second pod on the same claim needs no second attachment, and two claims on one volume are one."""
    there = pod("there", node="n", claims=["a"])
    asked = limited(1, *bound("a", handle="h"), *bound("same", handle="h"), *bound("b"), there)
    assert not asked.filter(pod("new", claims=["a"]))
    assert not asked.filter(pod("new", claims=["same"]))
    assert asked.filter(pod("new", claims=["a", "b"]))


def test_claims_to_be_provisioned_count_by_their_class() -> None:
    """An unbound claim will be a volume of its class's provisioner; two pods on it share it."""
    asked = limited(1, claim("a"), claim("b"), pod("there", node="n", claims=["a"]))
    assert asked.filter(pod("new", claims=["b"])) == {"n": EXCEEDED}
    assert not asked.filter(pod("new", claims=["a"]))


@pytest.mark.parametrize(
    "unknown",
    [
        claim("a", storage_class=None),
        claim("a", storage_class="gone"),
        claim("a", storage_class="plain"),
        claim("a", volume="plain-v"),
    ],
)
def test_what_is_no_csi_volume_does_not_count(unknown: api.PersistentVolumeClaim) -> None:
    """Claims without a class, of a class that is gone, of no provisioner, and volumes of another kind."""
    asked = limited(0, unknown, volume("plain-v"), storage_class("plain", ""))
    assert not asked.filter(pod("new", claims=["a"]))


def test_a_bound_volume_that_is_gone_counts_by_its_class() -> None:
    """A claim may name a volume that has not arrived yet."""
    assert limited(0, claim("a", volume="unheard")).filter(pod("new", claims=["a"])) == {"n": EXCEEDED}


def test_attachments_count_beside_pods() -> None:
    """A volume still attached without a pod takes a place; one that a pod uses is not counted twice."""
    asked = limited(
        2, *bound("a"), *bound("b"), *bound("c"), pod("there", node="n", claims=["a"]), attachment("x", "n", "a-v")
    )
    assert not asked.filter(pod("new", claims=["c"]))
    left_behind = attachment("y", "n", "b-v")
    asked.cluster.set(left_behind)
    assert asked.filter(pod("new", claims=["c"])) == {"n": EXCEEDED}
    asked.cluster.remove(left_behind)
    assert not asked.filter(pod("new", claims=["c"]))


def test_an_attachment_of_the_very_volume_counts_as_upstream_does() -> None:
    """Only volumes of pods are taken off what the pod brings; an attachment that no pod uses makes it two."""
    assert limited(1, *bound("a"), attachment("x", "n", "a-v")).filter(pod("new", claims=["a"])) == {"n": EXCEEDED}


@pytest.mark.parametrize(
    "meaningless",
    [
        attachment("x", "n", None),
        attachment("x", "n", "gone"),
        attachment("x", "n", "plain"),
        attachment("x", "n", "b-v", attacher=""),
        attachment("x", "other", "b-v"),
    ],
)
def test_attachments_that_say_nothing_do_not_count(meaningless: api.VolumeAttachment) -> None:
    """Without a volume, of a volume that is gone or not CSI, without an attacher, or on another node."""
    asked = limited(1, *bound("a"), *bound("b"), volume("plain"), meaningless)
    assert not asked.filter(pod("new", claims=["a"]))


def test_in_tree_volumes_count_for_the_driver_that_serves_them() -> None:
    """Inline, by a PersistentVolume or by a class to come, on nodes with a CSINode."""
    gce = api.GCEPersistentDiskVolumeSource("disk")
    inline = api.Volume(name="inline", gce_persistent_disk=api.GCEPersistentDiskVolumeSource("other"))
    asked = Harness(
        NodeVolumeLimits,
        cluster(
            node("n"),
            node("bare"),
            csi_node("n", pd_csi_storage_gke_io=0),
            storage_class("gce", GCE),
            storage_class("vsphere", "kubernetes.io/vsphere-volume"),
            claim("static", volume="v"),
            volume("v", gce_persistent_disk=gce),
            claim("dynamic", storage_class="gce"),
            claim("off", storage_class="vsphere"),
        ),
    )
    for incoming in (pod(claims=["static"]), pod(claims=["dynamic"]), pod(volumes=[inline])):
        assert asked.filter(incoming) == {"n": EXCEEDED}
    assert not asked.filter(pod(claims=["off"]))


def test_a_row_knows_inline_volumes_of_its_pods() -> None:
    """A pod without claims can fill a node too."""
    disk = [api.Volume(name="a", portworx_volume=api.PortworxVolumeSource(name)) for name in ("one", "two")]
    asked = Harness(
        NodeVolumeLimits,
        cluster(node("n"), csi_node("n", pxd_portworx_com=1), pod("there", node="n", volumes=disk[:1])),
    )
    assert asked.filter(pod("new", volumes=disk[1:])) == {"n": EXCEEDED}
    assert not asked.filter(pod("new", volumes=disk[:1]))


def test_pods_without_attachable_volumes_are_skipped() -> None:
    """No volumes, or only such as are never attached."""
    asked = limited(0)
    for incoming in (pod(), pod(volumes=[api.Volume(name="config")])):
        status = asked.pre_filter(incoming)
        assert status is not None
        assert status.is_skip


def test_a_missing_claim_is_unresolvable_on_every_node() -> None:
    """The pod cannot run without it, so even nodes without a limit are rejected."""
    asked = Harness(NodeVolumeLimits, cluster(node("a"), node("b"), csi_node("b")))
    found = asked.filter(pod(claims=["gone"]))
    assert set(found) == {"a", "b"}
    for status in found.values():
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        assert status.reasons == ('looking up PVC default/gone: persistentvolumeclaim "gone" not found',)


BAD_INLINE = api.Volume(name="v", aws_elastic_block_store=api.AWSElasticBlockStoreVolumeSource("aws://zone/bad"))


@pytest.mark.parametrize(
    ("incoming", "objects", "problem"),
    [
        (pod("p", claims=[""]), [], "PersistentVolumeClaim had no name"),
        (
            pod("p", volumes=[ephemeral("v")]),
            [claim("p-v")],
            "PVC default/p-v was not created for pod default/p (pod is not owner)",
        ),
        (
            pod("p", volumes=[BAD_INLINE]),
            [],
            "converting volume(v) from inline to csi: failed to translate Kubernetes ID to EBS Volume ID "
            "Invalid format for AWS volume (aws://zone/bad)",
        ),
    ],
)
def test_volumes_that_cannot_be_counted_fail_the_attempt(
    incoming: api.Pod, objects: list[api.Object], problem: str
) -> None:
    """The incoming pod's own, and those of a pod on the node if the node has limits and the pod brings volumes."""
    asked = limited(5, *objects)
    status = asked.filter(incoming)["n"]
    assert (status.code, status.reasons) == (Code.ERROR, (problem,))
    asked = limited(5, *objects, *bound("a"), api.Pod(incoming.metadata, _on(incoming.spec, "n")))
    status = asked.filter(pod("new", claims=["a"]))["n"]
    assert (status.code, status.reasons) == (Code.ERROR, (problem,))


def _on(spec: api.PodSpec, name: str) -> api.PodSpec:
    return api.PodSpec(node_name=name, volumes=spec.volumes)


def test_an_ephemeral_volume_counts_through_its_claim() -> None:
    """The claim is called after the pod and the volume, and must belong to the pod."""
    incoming = pod("p", volumes=[ephemeral("v")])
    assert limited(0, claim("p-v", owner=owned_by(incoming))).filter(incoming) == {"n": EXCEEDED}


def test_pods_in_trouble_do_not_matter_without_limits() -> None:
    """Upstream looks at the pods of a node only where it has a limit to compare with."""
    asked = limited(None, *bound("a"), pod("bad", node="n", claims=[""]))
    assert not asked.filter(pod("new", claims=["a"]))


def test_filter_works_without_pre_filter() -> None:
    """PreFilter only saves work."""
    asked = limited(0, *bound("a"))
    incoming = pod(claims=["a"])
    assert asked.filter(incoming, state=asked.state(incoming)) == {"n": EXCEEDED}


def test_limits_follow_their_csi_node() -> None:
    """A CSINode that comes, changes, goes, or whose node comes later counts from then on."""
    asked = Harness(NodeVolumeLimits, cluster(*bound("a"), csi_node("late", csi_example_com=0)))
    incoming = pod(claims=["a"])
    asked.cluster.set(node("n"))
    assert not asked.filter(incoming)
    asked.cluster.set(csi_node("n", csi_example_com=0))
    assert set(asked.filter(incoming)) == {"n"}
    asked.cluster.set(csi_node("n", csi_example_com=1))
    asked.cluster.set(node("late"))
    assert set(asked.filter(incoming)) == {"late"}
    asked.cluster.remove(csi_node("late"))
    assert not asked.filter(incoming)


def test_a_row_that_becomes_another_nodes_forgets_the_first() -> None:
    """Rows are reused; limits and attachments are the node's."""
    first, second = node("first"), node("second")
    asked = Harness(
        NodeVolumeLimits,
        cluster(first, csi_node("first", csi_example_com=0), csi_node("second", csi_example_com=1), *bound("a")),
    )
    incoming = pod(claims=["a"])
    assert asked.filter(incoming)
    asked.cluster.remove(first)
    asked.cluster.set(second)
    assert not asked.filter(incoming)


def test_many_nodes_need_larger_columns() -> None:
    """The table grows, and the counts with it."""
    asked = limited(0, *bound("a"))
    assert asked.filter(pod(claims=["a"]))
    for number in range(200):
        asked.cluster.set(node(f"n{number}"))
    asked.cluster.set(csi_node("n199", csi_example_com=0))
    assert set(asked.filter(pod(claims=["a"]))) == {"n", "n199"}


def test_events() -> None:
    """The events upstream registers, no more and no less."""
    events = [(e.event.resource, e.event.action) for e in limited(0).plugin.events_to_register()]
    assert events == [
        (Resource.CSI_NODE, Action.ADD),
        (Resource.CSI_NODE, Action.UPDATE),
        (Resource.POD, Action.DELETE),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD),
        (Resource.VOLUME_ATTACHMENT, Action.DELETE),
    ]


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (csi_node("n", d=1), csi_node("n", d=2), Hint.QUEUE),
        (csi_node("n", d=2), csi_node("n", d=1), Hint.SKIP),
        (csi_node("n"), csi_node("n", d=1), Hint.QUEUE),
        (csi_node("n", d=None), csi_node("n", d=0), Hint.SKIP),
        (csi_node("n", d=1), csi_node("n", d=None), Hint.SKIP),
    ],
)
def test_a_raised_limit_helps(old: api.CSINode, new: api.CSINode, hint: Hint) -> None:
    """A driver without a number counts as 0, as upstream has it."""
    assert limited(0).plugin._after_csi_node_update(pod(), old, new) is hint


@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        (pod("x", node="n", claims=["c"]), Hint.QUEUE),
        (pod("x", nominated="n", claims=["c"]), Hint.QUEUE),
        (pod("x", claims=["c"]), Hint.SKIP),
        (pod("x", node="n", volumes=[ephemeral()]), Hint.QUEUE),
        (pod("x", node="n", volumes=[BAD_INLINE]), Hint.QUEUE),
        (pod("x", node="n", volumes=[api.Volume(name="config")]), Hint.SKIP),
        (pod("x", node="n"), Hint.SKIP),
    ],
)
def test_a_deleted_pod_helps_if_it_had_volumes_on_a_node(gone: api.Pod, hint: Hint) -> None:
    """Anything that may have been attached."""
    assert limited(0).plugin._after_pod_deleted(pod(), gone, None) is hint


@pytest.mark.parametrize(
    ("added", "hint"),
    [(claim("c"), Hint.QUEUE), (claim("p-scratch"), Hint.QUEUE), (claim("d"), Hint.SKIP)],
)
def test_an_added_claim_helps_if_it_is_the_pods(added: api.PersistentVolumeClaim, hint: Hint) -> None:
    """Named or ephemeral."""
    assert limited(0).plugin._after_claim_added(pod("p", claims=["c"], volumes=[ephemeral()]), None, added) is hint


GCE_INLINE = api.Volume(name="v", gce_persistent_disk=api.GCEPersistentDiskVolumeSource("d"))


@pytest.mark.parametrize(
    ("waiting", "attacher", "hint"),
    [
        (pod(claims=["c"]), "any", Hint.QUEUE),
        (pod(volumes=[GCE_INLINE]), "pd.csi.storage.gke.io", Hint.QUEUE),
        (pod(volumes=[GCE_INLINE]), "any", Hint.SKIP),
        (pod(volumes=[BAD_INLINE]), "any", Hint.QUEUE),
        (pod(), "any", Hint.SKIP),
    ],
)
def test_a_deleted_attachment_helps_whoever_may_wait_for_its_driver(
    waiting: api.Pod, attacher: str, hint: Hint
) -> None:
    """Any claim may; an inline volume only if the driver is its own."""
    gone = attachment("x", "n", "v", attacher=attacher)
    assert limited(0).plugin._after_attachment_deleted(waiting, gone, None) is hint
