"""VolumeRestrictions: which pods may mount which disks on the same node."""

from __future__ import annotations

import pytest
from tests.builders import cluster, node, pod
from tests.plugins.volumes.storage import Harness, claim

from kubesched.api import objects as api
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.status import Code
from kubesched.plugins.volume_restrictions import CLAIM_CONFLICT, DISK_CONFLICT, NOT_PREPARED, VolumeRestrictions


def gce(name: str, *, read_only: bool = False) -> api.Volume:
    return api.Volume(name="disk", gce_persistent_disk=api.GCEPersistentDiskVolumeSource(name, read_only=read_only))


def ebs(name: str, *, read_only: bool = False) -> api.Volume:
    source = api.AWSElasticBlockStoreVolumeSource(name, read_only=read_only)
    return api.Volume(name="disk", aws_elastic_block_store=source)


def iscsi(iqn: str, *, lun: int = 0, read_only: bool = False) -> api.Volume:
    return api.Volume(name="disk", iscsi=api.ISCSIVolumeSource("portal", iqn, lun, read_only))


def rbd(monitors: str, image: str = "image", *, pool: str = "rbd", read_only: bool = False) -> api.Volume:
    return api.Volume(name="disk", rbd=api.RBDVolumeSource(tuple(monitors), image, pool, read_only))


DISKS = [
    # what a pod on the node has, what the incoming one wants, whether they conflict
    (gce("a"), gce("a"), True),
    (gce("a"), gce("b"), False),
    (gce("a", read_only=True), gce("a", read_only=True), False),
    (gce("a", read_only=True), gce("a"), True),
    (gce("a"), gce("a", read_only=True), True),
    (ebs("a"), ebs("a"), True),
    (ebs("a", read_only=True), ebs("a", read_only=True), True),
    (ebs("a"), ebs("b"), False),
    (iscsi("a"), iscsi("a", lun=1), True),
    (iscsi("a", read_only=True), iscsi("a", read_only=True), False),
    (iscsi("a"), iscsi("b"), False),
    (rbd("xy"), rbd("yz"), True),
    (rbd("x"), rbd("y"), False),
    (rbd("x"), rbd("x", "other"), False),
    (rbd("x"), rbd("x", pool="other"), False),
    (rbd("x", read_only=True), rbd("xy", read_only=True), False),
    (rbd("x", read_only=True), rbd("xy"), True),
    (rbd(""), rbd(""), False),
    (gce("a"), ebs("a"), False),
]


@pytest.mark.parametrize(("present", "wanted", "conflict"), DISKS)
def test_a_disk_is_shared_only_where_its_kind_allows(present: api.Volume, wanted: api.Volume, conflict: bool) -> None:
    """A node whose pod uses the disk is rejected unless both pods can share it; other nodes are not."""
    asked = Harness(VolumeRestrictions, cluster(node("n1"), node("n2"), pod("there", node="n1", volumes=[present])))
    assert asked.filter(pod("new", volumes=[wanted])) == ({"n1": DISK_CONFLICT} if conflict else {})


def test_a_disk_is_free_again_when_its_pod_is_gone() -> None:
    """Only pods that are on the node now count."""
    there = pod("there", node="n1", volumes=[gce("a")])
    asked = Harness(VolumeRestrictions, cluster(node("n1"), there))
    assert asked.filter(pod("new", volumes=[gce("a")]))
    asked.cluster.remove(there)
    assert not asked.filter(pod("new", volumes=[gce("a")]))


@pytest.mark.parametrize("modes", [("ReadWriteOnce",), ("ReadWriteMany",), ()])
def test_nothing_to_check_is_skipped(modes: tuple[str, ...]) -> None:
    """A pod without disks whose claims may be shared, or without volumes at all, skips Filter."""
    asked = Harness(
        VolumeRestrictions, cluster(node("n1"), claim("c", modes=modes), pod("there", node="n1", claims=["c"]))
    )
    for incoming in (pod("new"), pod("new", claims=["c"])):
        status = asked.pre_filter(incoming)
        assert status is not None
        assert status.is_skip


def test_an_exclusive_claim_in_use_closes_every_node() -> None:
    """ReadWriteOncePod means one pod in the whole cluster; preempting that pod would help."""
    asked = Harness(
        VolumeRestrictions,
        cluster(node("n1"), node("n2"), claim("c", modes=["ReadWriteOncePod"]), pod("there", node="n1", claims=["c"])),
    )
    incoming = pod("new", claims=["c"])
    assert asked.filter(incoming) == {"n1": CLAIM_CONFLICT, "n2": CLAIM_CONFLICT}
    assert CLAIM_CONFLICT.code is Code.UNSCHEDULABLE


@pytest.mark.parametrize(
    "other",
    [
        pod("there", node="n1", namespace="else", claims=["c"]),
        pod("there", node="unknown", claims=["c"]),
        pod("there", node="n1", claims=["d"]),
    ],
)
def test_an_exclusive_claim_is_free_for_all_others(other: api.Pod) -> None:
    """A claim of the same name in another namespace, a pod on an unknown node, and another claim do not count."""
    asked = Harness(VolumeRestrictions, cluster(node("n1"), claim("c", modes=["ReadWriteOncePod"]), other))
    status = asked.pre_filter(pod("new", claims=["c"]))
    assert status is not None
    assert status.is_skip


def test_a_disk_conflict_is_named_before_a_claim_conflict() -> None:
    """A node with both has the disk's reason, as upstream checks disks first."""
    there = pod("there", node="n1", volumes=[gce("a")], claims=["c"])
    asked = Harness(VolumeRestrictions, cluster(node("n1"), node("n2"), claim("c", modes=["ReadWriteOncePod"]), there))
    assert asked.filter(pod("new", volumes=[gce("a")], claims=["c"])) == {"n1": DISK_CONFLICT, "n2": CLAIM_CONFLICT}


def test_a_claim_that_does_not_exist_cannot_be_resolved() -> None:
    """PreFilter rejects the pod with the lister's message."""
    status = Harness(VolumeRestrictions, cluster(node("n1"))).pre_filter(pod("new", claims=["c"]))
    assert status is not None
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ('persistentvolumeclaim "c" not found',)


def test_a_what_if_without_the_user_opens_all_nodes() -> None:
    """Removing the pod that holds the claim counts for the clone alone; adding it back closes nodes again."""
    there = pod("there", node="n1", claims=["c"])
    asked = Harness(VolumeRestrictions, cluster(node("n1"), claim("c", modes=["ReadWriteOncePod"]), there))
    incoming = pod("new", claims=["c"])
    state = asked.state(incoming)
    assert asked.pre_filter(incoming, state) is None
    what_if, info = state.clone(), asked.cluster.pods[there.uid]
    asked.plugin.remove_pod(what_if, incoming, info, 0)
    assert not asked.filter(incoming, state=what_if)
    assert asked.filter(incoming, state=state)
    asked.plugin.add_pod(what_if, incoming, info, 0)
    assert asked.filter(incoming, state=what_if)


def test_a_what_if_counts_namesakes_as_upstream_does() -> None:
    """Upstream compares claim names without namespaces when pods are taken away."""
    there, namesake = pod("there", node="n1", claims=["c"]), pod("x", namespace="else", node="n1", claims=["c"])
    asked = Harness(VolumeRestrictions, cluster(node("n1"), claim("c", modes=["ReadWriteOncePod"]), there, namesake))
    incoming = pod("new", claims=["c"])
    state = asked.state(incoming)
    asked.pre_filter(incoming, state)
    asked.plugin.remove_pod(state, incoming, asked.cluster.pods[namesake.uid], 0)
    assert not asked.filter(incoming, state=state)


def test_without_pre_filter_the_attempt_fails_as_upstream() -> None:
    """A profile may disable PreFilter; disks are still checked first."""
    asked = Harness(VolumeRestrictions, cluster(node("n1"), node("n2"), pod("there", node="n1", volumes=[gce("a")])))
    incoming = pod("new", volumes=[gce("a")])
    found = asked.filter(incoming, state=asked.state(incoming))
    assert found == {"n1": DISK_CONFLICT, "n2": NOT_PREPARED}


def test_events() -> None:
    """The events upstream registers, no more and no less."""
    events = {
        (e.event.resource, e.event.action) for e in Harness(VolumeRestrictions, cluster()).plugin.events_to_register()
    }
    assert events == {
        (Resource.POD, Action.DELETE),
        (Resource.NODE, Action.ADD),
        (Resource.PERSISTENT_VOLUME_CLAIM, Action.ADD),
    }


@pytest.mark.parametrize(
    ("gone", "hint"),
    [
        (pod("gone", volumes=[gce("a")]), Hint.QUEUE),
        (pod("gone", volumes=[gce("b")]), Hint.SKIP),
        (pod("gone", namespace="else", volumes=[gce("a")]), Hint.SKIP),
        (pod("gone", claims=["c"]), Hint.QUEUE),
        (pod("gone", claims=["d"]), Hint.SKIP),
        (pod("gone"), Hint.SKIP),
    ],
)
def test_a_deleted_pod_helps_if_it_had_what_the_pod_wants(gone: api.Pod, hint: Hint) -> None:
    """Its disk or its claim, in the pod's own namespace."""
    plugin = Harness(VolumeRestrictions, cluster()).plugin
    assert plugin._after_pod_deleted(pod("waiting", volumes=[gce("a")], claims=["c"]), gone, None) is hint


@pytest.mark.parametrize(
    ("added", "hint"),
    [(claim("c"), Hint.QUEUE), (claim("d"), Hint.SKIP), (claim("c", namespace="else"), Hint.SKIP)],
)
def test_an_added_claim_helps_if_it_is_the_pods(added: api.PersistentVolumeClaim, hint: Hint) -> None:
    """Only the claim that was missed."""
    plugin = Harness(VolumeRestrictions, cluster()).plugin
    assert plugin._after_claim_added(pod("waiting", claims=["c"]), None, added) is hint
