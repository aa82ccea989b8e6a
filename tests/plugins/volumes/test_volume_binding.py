"""VolumeBinding up to Reserve: which nodes can provide a pod's volumes, and what is reserved there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.builders import HOSTNAME, ZONE, cluster, expression, node, pod, selector
from tests.plugins.volumes.storage import (
    Harness,
    claim,
    classes,
    csi_driver,
    csi_node,
    ephemeral,
    owned_by,
    pool,
    ref,
    selects,
    storage_class,
    volume,
)

from kubesched.api import objects as api
from kubesched.cluster.view import Nodes
from kubesched.config.args import UtilizationShapePoint, VolumeBindingArgs
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.state import CycleState
from kubesched.framework.status import Code
from kubesched.plugins.volume_binding import VolumeBinding
from kubesched.plugins.volume_binding.plan import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING
from kubesched.plugins.volume_binding.plugin import Reservation

SELECTED_NODE = "volume.kubernetes.io/selected-node"


def asked(*objects: api.Object, shape: tuple[UtilizationShapePoint, ...] = ()) -> Harness:
    """Nodes a and b in zones x and y, the usual classes, and the given objects."""
    nodes = (node("a", zone="x"), node("b", zone="y"))
    return Harness(VolumeBinding, cluster(*nodes, *classes(), *objects), VolumeBindingArgs(shape=shape))


# --- PreFilter --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("incoming", [pod(), pod(volumes=[api.Volume(name="config")])])
def test_pods_without_claims_are_skipped(incoming: api.Pod) -> None:
    """And Reserve has nothing to do for them."""
    case = asked()
    state = case.state(incoming)
    status = case.pre_filter(incoming, state)
    assert status is not None
    assert status.is_skip
    assert case.plugin.reserve(state, incoming, "a") is None


POD = pod("p", claims=["c"])
EPHEMERAL = pod("p", volumes=[ephemeral("v")])
REFUSED: list[tuple[api.Pod, list[api.Object], str]] = [
    (POD, [], 'persistentvolumeclaim "c" not found'),
    (
        EPHEMERAL,
        [],
        'waiting for ephemeral volume controller to create the persistentvolumeclaim "p-v"',
    ),
    (EPHEMERAL, [claim("p-v")], "PVC default/p-v was not created for pod default/p (pod is not owner)"),
    (
        POD,
        [claim("c", phase="Lost", volume="v")],
        'persistentvolumeclaim "c" bound to non-existent persistentvolume "v"',
    ),
    (POD, [claim("c", deleted=True)], 'persistentvolumeclaim "c" is being deleted'),
    (POD, [claim("c", storage_class="now")], "pod has unbound immediate PersistentVolumeClaims"),
    (POD, [claim("c", storage_class="gone")], "pod has unbound immediate PersistentVolumeClaims"),
    (POD, [claim("c", storage_class=None)], "pod has unbound immediate PersistentVolumeClaims"),
    (POD, [claim("c", volume="v", bound=False)], "pod has unbound immediate PersistentVolumeClaims"),
]


@pytest.mark.parametrize(("incoming", "objects", "reason"), REFUSED)
def test_claims_that_stop_a_pod(incoming: api.Pod, objects: list[api.Object], reason: str) -> None:
    """PreFilter reports problems that no node can solve."""
    status = asked(*objects).pre_filter(incoming)
    assert status is not None
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))


def test_a_class_without_a_binding_mode_is_an_error() -> None:
    """The API server always sets one; upstream fails the attempt."""
    status = asked(claim("c", storage_class="x"), storage_class("x", mode=None)).pre_filter(POD)
    assert status is not None
    assert (status.code, status.reasons) == (Code.ERROR, ('VolumeBindingMode not set for StorageClass "x"',))


def test_the_annotation_of_old_names_the_class() -> None:
    """It wins over the field, also with an empty value."""
    beta = "volume.beta.kubernetes.io/storage-class"
    assert asked(claim("c", storage_class="now", annotations={beta: "wait"})).pre_filter(POD) is None
    status = asked(claim("c", annotations={beta: ""})).pre_filter(POD)
    assert status is not None
    assert status.reasons == ("pod has unbound immediate PersistentVolumeClaims",)


def test_an_ephemeral_claim_of_the_pod_is_like_any_other() -> None:
    """It waits for the pod and is provisioned with it."""
    case = asked(claim("p-v", owner=owned_by(EPHEMERAL)))
    assert not case.filter(EPHEMERAL)


# --- Filter: bound claims ---------------------------------------------------------------------------------------------

BAD_TERM = selects((HOSTNAME, "Huh", "a"))


@pytest.mark.parametrize(
    ("affinity", "refused"),
    [
        (None, ""),
        (selects((HOSTNAME, "In", "a")), "b"),
        (selects((HOSTNAME, "In", "a", "b")), ""),
        (selects((HOSTNAME, "NotIn", "a")), "a"),
        (selects((ZONE, "Exists")), ""),
        (selects((ZONE, "In", "x"), (HOSTNAME, "In", "b")), "ab"),
        (api.NodeSelector(), "ab"),
        (api.NodeSelector((api.NodeSelectorTerm(),)), "ab"),
        (BAD_TERM, "ab"),
        (api.NodeSelector((*BAD_TERM.node_selector_terms, *selects((ZONE, "In", "x")).node_selector_terms)), "b"),
        (
            api.NodeSelector(
                (api.NodeSelectorTerm(match_fields=(api.NodeSelectorRequirement("metadata.name", "In", ("a",)),)),)
            ),
            "",
        ),
    ],
)
def test_a_bound_volume_must_be_reachable(affinity: api.NodeSelector | None, refused: str) -> None:
    """By the labels of the node alone: upstream does not look at names here."""
    case = asked(claim("c", volume="v"), volume("v", affinity=affinity))
    assert case.reasons(POD) == dict.fromkeys(refused, (NODE_CONFLICT,))


def test_a_bound_volume_that_is_gone_closes_every_node() -> None:
    """But a node that an earlier volume already ruled out keeps that reason."""
    case = asked(claim("c", volume="v"), claim("d", volume="gone"), volume("v", on=["a"]))
    assert case.reasons(pod(claims=["d"])) == {"a": (VOLUME_MISSING,), "b": (VOLUME_MISSING,)}
    assert case.reasons(pod(claims=["c", "d"])) == {"a": (VOLUME_MISSING,), "b": (NODE_CONFLICT,)}


def test_a_migrated_volume_is_placed_by_its_drivers_zones_where_the_node_says_so() -> None:
    """One node has the driver's label and has migrated, the other knows only the volume's own."""
    ebs = api.AWSElasticBlockStoreVolumeSource("vol-1")
    case = Harness(
        VolumeBinding,
        cluster(
            node("migrated", labels={"topology.ebs.csi.aws.com/zone": "x"}),
            node("wrong", zone="x", labels={"topology.ebs.csi.aws.com/zone": "y"}),
            node("plain", zone="x"),
            csi_node("migrated", migrated=["kubernetes.io/aws-ebs"]),
            csi_node("wrong", migrated=["kubernetes.io/gce-pd", "kubernetes.io/aws-ebs"]),
            csi_node("plain"),
            claim("c", volume="v"),
            volume("v", affinity=selects((ZONE, "In", "x")), aws_elastic_block_store=ebs),
        ),
        VolumeBindingArgs(),
    )
    assert case.reasons(POD) == {"wrong": (NODE_CONFLICT,)}


def test_a_volume_that_cannot_be_migrated_is_an_error_where_it_should_be() -> None:
    """And nowhere else."""
    azure = api.AzureDiskVolumeSource("name", "uri", kind="Dedicated")
    case = asked(
        csi_node("a", migrated=["kubernetes.io/azure-disk"]), claim("c", volume="v"), volume("v", azure_disk=azure)
    )
    (status,) = case.filter(POD).values()
    assert status.code is Code.ERROR
    assert status.reasons == ("could not translate pv: kind(Dedicated) is not supported in csi migration",)


# --- Filter: static volumes -------------------------------------------------------------------------------------------


def local(name: str = "c", **fields: Any) -> api.PersistentVolumeClaim:
    """A claim that only a volume that exists can satisfy."""
    return claim(name, storage_class="local", **fields)


@pytest.mark.parametrize(
    ("wanted", "offered", "fits"),
    [
        (local(), volume("v"), True),
        (local(size="10Gi"), volume("v", size="10Gi"), True),
        (local(size="10Gi"), volume("v", size="10G"), False),
        (local(size=None), volume("v", size="0"), True),
        (local(), volume("v", storage_class="wait"), False),
        (local(modes=["ReadWriteMany"]), volume("v"), False),
        (local(modes=[]), volume("v"), True),
        (local(modes=["ReadWriteOnce"]), volume("v", modes=["ReadWriteOnce", "ReadOnlyMany"]), True),
        (local(), volume("v", phase="Released"), False),
        (local(), volume("v", deleted=True), False),
        (local(volume_mode="Block"), volume("v"), False),
        (local(volume_mode="Block"), volume("v", volume_mode="Block"), True),
        (local(volume_mode="Filesystem"), volume("v"), True),
        (local(attributes_class="gold"), volume("v"), False),
        (local(attributes_class="gold"), volume("v", attributes_class="gold"), True),
        (local(), volume("v", attributes_class="gold"), False),
        (local(selector=selector({"t": "x"})), volume("v", labels={"t": "x"}), True),
        (local(selector=selector({"t": "x"})), volume("v"), False),
        (local(selector=selector()), volume("v"), True),
        (local(), volume("v", claimed_by=ref("c")), True),
        (local(), volume("v", claimed_by=ref("c", uid=""), phase="Pending"), True),
        (local(), volume("v", claimed_by=ref("c", uid="else")), False),
        (local(), volume("v", claimed_by=ref("other")), False),
        (local(size="20Gi"), volume("v", claimed_by=ref("c")), False),
        (local(), volume("v", claimed_by=ref("c"), storage_class="wait"), False),
        (local(), volume("v", annotations={"volume.beta.kubernetes.io/storage-class": "wait"}), False),
    ],
)
def test_a_volume_matches_a_claim_or_not(
    wanted: api.PersistentVolumeClaim, offered: api.PersistentVolume, fits: bool
) -> None:
    """Every condition upstream has, one by one."""
    expected: dict[str, tuple[str, ...]] = {} if fits else {"a": (BIND_CONFLICT,), "b": (BIND_CONFLICT,)}
    assert asked(wanted, offered).reasons(POD) == expected


def promised(case: Harness, incoming: api.Pod, node_name: str) -> tuple[dict[str, str], list[str]]:
    """What Reserve assumes: the volume of each claim, and the claims to provision."""
    state = case.state(incoming)
    assert case.pre_filter(incoming, state) is None
    case.filter(incoming, state=state)
    assert case.plugin.reserve(state, incoming, node_name) is None
    reservation = state.read("VolumeBinding", Reservation)
    return {b.claim.name: b.volume.name for b in reservation.bindings}, [c.name for c in reservation.provisions]


def test_the_smallest_volume_that_is_there_is_taken() -> None:
    """Each node by itself."""
    volumes = [
        volume("huge", size="100Gi"),
        volume("on-a", size="20Gi", on=["a"]),
        volume("on-b", size="30Gi", on=["b"]),
        volume("tiny", size="1Gi"),
    ]
    for node_name, expected in (("a", "on-a"), ("b", "on-b")):
        assert promised(asked(local(size="5Gi"), *volumes), POD, node_name) == ({"c": expected}, [])


def test_a_volume_reserved_for_the_claim_decides_alone() -> None:
    """It wins where it can be reached, although larger; elsewhere there is no choice left."""
    case = asked(local(), volume("small"), volume("mine", size="100Gi", on=["a"], claimed_by=ref("c")))
    assert case.reasons(POD) == {"b": (BIND_CONFLICT,)}
    assert promised(case, POD, "a") == ({"c": "mine"}, [])


def test_a_volume_serves_one_claim_of_a_pod() -> None:
    """Smaller claims choose first, so that each gets the tightest fit; a node must have one for each."""
    both = pod("p", claims=["big", "small"])
    case = asked(
        local("big", size="10Gi"),
        local("small", size="1Gi"),
        volume("v5", size="5Gi"),
        volume("v20", size="20Gi", on=["a"]),
        volume("v30", size="30Gi", on=["a"]),
    )
    assert case.reasons(both) == {"b": (BIND_CONFLICT,)}
    assert promised(case, both, "a") == ({"small": "v5", "big": "v20"}, [])


def test_alike_volumes_are_counted_per_claim() -> None:
    """Three equal claims need three volumes: two are not enough."""
    three = pod("p", claims=["c1", "c2", "c3"])
    claims = [local(f"c{i}") for i in (1, 2, 3)]
    assert asked(*claims, volume("v1"), volume("v2")).reasons(three)
    case = asked(*claims, volume("v1"), volume("v2"), volume("v3"))
    assert promised(case, three, "a") == ({"c1": "v1", "c2": "v2", "c3": "v3"}, [])


def test_a_claim_in_two_volumes_of_a_pod_is_matched_twice() -> None:
    """As upstream does, although the second volume will never be used."""
    twice = pod("p", claims=["c", "c"])
    assert asked(local(), volume("v")).reasons(twice)
    assert not asked(local(), volume("v"), volume("w")).reasons(twice)


def test_a_bad_selector_fails_the_attempt() -> None:
    """The API server would refuse it; upstream stops with an error."""
    case = asked(local(selector=selector(None, expression("t", "Huh"))), volume("v"))
    for status in case.filter(POD).values():
        assert status.code is Code.ERROR
        assert status.reasons == (
            'error creating internal label selector for claim: default/c: "Huh" is not a valid label selector operator',
        )


# --- Filter: provisioning ---------------------------------------------------------------------------------------------


def test_a_claim_without_a_volume_is_provisioned() -> None:
    """A class with a provisioner can do it anywhere; a volume that fits is taken first."""
    assert promised(asked(claim("c")), POD, "a") == ({}, ["c"])
    assert promised(asked(claim("c"), volume("v", storage_class="wait")), POD, "a") == ({"c": "v"}, [])
    assert asked(claim("c", storage_class="none"), storage_class("none", "")).reasons(POD)


@pytest.mark.parametrize(
    ("topologies", "refused"),
    [
        ([{ZONE: ("x",)}], "b"),
        ([{ZONE: ("x", "y")}], ""),
        ([{ZONE: ("x",)}, {HOSTNAME: ("b",)}], ""),
        ([{ZONE: ("x",), HOSTNAME: ("b",)}], "ab"),
        ([{}], "ab"),
        ([{"bad key!": ("x",)}], "ab"),
        ([{ZONE: ()}], "ab"),
    ],
)
def test_a_class_provisions_in_its_topologies(topologies: list[dict[str, tuple[str, ...]]], refused: str) -> None:
    """One term must hold, with all its labels; terms that are empty or wrong hold nowhere."""
    case = asked(claim("c", storage_class="zonal"), storage_class("zonal", topologies=topologies))
    assert case.reasons(POD) == dict.fromkeys(refused, (BIND_CONFLICT,))


def in_zone(name: str) -> api.LabelSelector:
    return selector({ZONE: name})


@pytest.mark.parametrize(
    ("pools", "refused"),
    [
        ([], "ab"),
        ([pool()], ""),
        ([pool(where=in_zone("x"))], "b"),
        ([pool("p1", where=in_zone("x")), pool("p2", where=in_zone("y"))], ""),
        ([pool(where=None)], "ab"),
        ([pool(where=selector(None, expression("t", "Huh")))], "ab"),
        ([pool(storage_class="other")], "ab"),
        ([pool(capacity="5Gi")], "ab"),
        ([pool(capacity="10Gi")], ""),
        ([pool(largest="5Gi")], "ab"),
        ([pool(capacity="5Gi", largest="10Gi")], ""),
        ([pool(capacity=None)], "ab"),
    ],
)
def test_storage_capacity_limits_where(pools: list[api.CSIStorageCapacity], refused: str) -> None:
    """A driver that tracks capacity needs a pool with room that the node can reach."""
    case = asked(claim("c", size="10Gi"), csi_driver(), *pools)
    assert case.reasons(POD) == dict.fromkeys(refused, (NOT_ENOUGH_SPACE,))


@pytest.mark.parametrize(
    "objects",
    [
        [claim("c")],
        [claim("c"), csi_driver(storage_capacity=False)],
        [claim("c"), csi_driver(storage_capacity=None)],
        [claim("c", size=None), csi_driver()],
    ],
)
def test_capacity_is_not_asked_for(objects: list[api.Object]) -> None:
    """Without a driver that wants it, or a size to ask for."""
    assert not asked(*objects).reasons(POD)


def test_capacity_changes_count_at_once() -> None:
    """Pools come, shrink, and go."""
    case = asked(claim("c", size="10Gi"), csi_driver())
    assert case.reasons(POD)
    case.cluster.set(pool())
    assert not case.reasons(POD)
    case.cluster.set(pool(capacity="1Gi"))
    assert case.reasons(POD)
    case.cluster.set(pool(capacity="20Gi"))
    case.cluster.remove(pool())
    assert case.reasons(POD)


def test_a_claim_sent_to_its_provisioner_stays_on_its_node() -> None:
    """Its selected node is the only one left, and it is provisioned there even if a volume would fit."""
    sent = claim("c", annotations={SELECTED_NODE: "a"})
    case = asked(sent, volume("v", storage_class="wait"))
    assert case.reasons(POD) == {"b": (BIND_CONFLICT,)}
    assert promised(case, POD, "a") == ({}, ["c"])
    assert asked(claim("c", annotations={SELECTED_NODE: "gone"})).reasons(POD) == {
        "a": (BIND_CONFLICT,),
        "b": (BIND_CONFLICT,),
    }


def test_reasons_add_up_in_upstreams_order() -> None:
    """Problems of bound and of unbound claims are reported together."""
    mine = volume("v", on=["a"], claimed_by=ref("c"), phase="Bound")
    case = asked(claim("c", volume="v"), mine, local("d"), claim("e"), csi_driver())
    assert case.reasons(pod(claims=["d", "c"])) == {"a": (BIND_CONFLICT,), "b": (NODE_CONFLICT, BIND_CONFLICT)}
    assert case.reasons(pod(claims=["e", "c"])) == {"a": (NOT_ENOUGH_SPACE,), "b": (NODE_CONFLICT, NOT_ENOUGH_SPACE)}


def test_without_pre_filter_the_attempt_fails_as_upstream() -> None:
    """A profile may disable PreFilter; every later point then reports an error."""
    case = asked(claim("c"))
    state = case.state(POD)
    assert {s.reasons for s in case.filter(POD, state=state).values()} == {("not found",)}
    assert case.plugin.reserve(state, POD, "a").code is Code.ERROR
    assert case.plugin.unreserve(state, POD, "a") is None


# --- Reserve ----------------------------------------------------------------------------------------------------------


def reserve(case: Harness, incoming: api.Pod, node_name: str) -> CycleState:
    """Take a pod through PreFilter, Filter and Reserve."""
    state = case.state(incoming)
    assert case.pre_filter(incoming, state) is None
    case.filter(incoming, state=state)
    assert case.plugin.reserve(state, incoming, node_name) is None
    return state


def test_a_promised_volume_is_not_promised_again() -> None:
    """The next pod sees the assumed binding, until it is taken back."""
    case = asked(local("c"), local("d"), volume("v"))
    other = pod("other", claims=["d"])
    state = reserve(case, POD, "a")
    assert case.reasons(other) == {"a": (BIND_CONFLICT,), "b": (BIND_CONFLICT,)}
    case.plugin.unreserve(state, POD, "a")
    assert not case.reasons(other)


def test_a_second_pod_on_the_claim_gets_the_promised_volume() -> None:
    """The claim is not bound yet, but its volume is decided."""
    case = asked(local("c"), volume("small", size="5Gi"), volume("on-b", size="1Gi", on=["b"]))
    reserve(case, POD, "b")
    assert case.reasons(pod("second", claims=["c"])) == {"a": (BIND_CONFLICT,)}


def test_a_promised_provisioning_binds_the_claim_to_the_node() -> None:
    """The next pod on the claim can only follow."""
    case = asked(claim("c"))
    state = reserve(case, POD, "a")
    assert case.reasons(pod("second", claims=["c"])) == {"b": (BIND_CONFLICT,)}
    case.plugin.unreserve(state, POD, "a")
    assert not case.reasons(pod("second", claims=["c"]))


def test_news_from_the_api_server_end_a_promise() -> None:
    """Any other resource version than the one it was made from overrides the assumption."""
    case = asked(local("c"), local("d"), volume("v", version="1"), claim("e", version="1"))
    reserve(case, POD, "a")
    reserve(case, pod("p2", claims=["e"]), "a")
    case.cluster.set(volume("v", version="2"))
    case.cluster.set(claim("e", version="2"))
    assert not case.reasons(pod("other", claims=["d"]))
    assert not case.reasons(pod("other", claims=["e"]))


def test_a_restored_backup_ends_a_promise_although_it_brings_the_old_version_back() -> None:
    """The version that the promise was made from comes again, after a newer one that nobody looked at."""
    case = asked(local("c"), local("d"), volume("v", version="1"), claim("e", version="1"))
    reserve(case, POD, "a")
    reserve(case, pod("p2", claims=["e"]), "a")
    for version in ("2", "1"):
        case.cluster.set(volume("v", version=version))
        case.cluster.set(claim("e", version=version))
    assert not case.reasons(pod("other", claims=["d"]))
    assert not case.reasons(pod("other", claims=["e"]))


def test_the_promised_volume_names_its_claim() -> None:
    """As the volume controller would write it; a volume bound by its user keeps that."""
    case = asked(local("c", version="7"), volume("v"))
    (binding,) = reserve(case, POD, "a").read("VolumeBinding", Reservation).bindings
    assert binding.volume.spec.claim_ref == api.ObjectReference(
        "v1", "PersistentVolumeClaim", "default", "c", "claim.c", "7"
    )
    assert binding.volume.annotations == {"pv.kubernetes.io/bound-by-controller": "yes"}
    case = asked(local("c"), volume("v", claimed_by=ref("c", uid="")))
    (binding,) = reserve(case, POD, "a").read("VolumeBinding", Reservation).bindings
    assert binding.volume.spec.claim_ref is not None
    assert binding.volume.spec.claim_ref.uid == "claim.c"
    assert not binding.volume.annotations


# --- Score ------------------------------------------------------------------------------------------------------------

SHAPE = (UtilizationShapePoint(utilization=0, score=0), UtilizationShapePoint(utilization=100, score=10))
LESS_IS_MORE = (UtilizationShapePoint(utilization=20, score=10), UtilizationShapePoint(utilization=80, score=1))


def scores(case: Harness, incoming: api.Pod) -> list[int]:
    """What both nodes score."""
    state, window = case.state(incoming), Nodes(case.cluster.nodes)
    case.pre_filter(incoming, state)
    case.filter(incoming, window, state)
    assert case.plugin.pre_score(state, incoming, window) is None
    found = case.plugin.score_all(state, incoming, window)
    return [found] * 2 if isinstance(found, int) else found.tolist()


def test_without_a_shape_there_is_no_score() -> None:
    """The feature is off by default."""
    case = asked(claim("c"))
    state = case.state(POD)
    assert case.plugin.pre_score(state, POD, None).is_skip


def test_static_volumes_score_by_how_full_they_get() -> None:
    """5Gi of 10Gi, and 5Gi of 20Gi."""
    volumes = [volume("v1", size="10Gi", on=["a"]), volume("v2", size="20Gi", on=["b"])]
    assert scores(asked(local(size="5Gi"), *volumes, shape=SHAPE), POD) == [50, 25]
    assert scores(asked(local(size="5Gi"), *volumes, shape=LESS_IS_MORE), POD) == [55, 93]


def test_pools_score_by_what_is_taken_of_them() -> None:
    """The two claims share the class's pool; a node without tracked capacity scores nothing."""
    pools = [pool("p1", capacity="40Gi", where=in_zone("x")), pool("p2", capacity="200Gi", where=in_zone("y"))]
    both = pod("p", claims=["c", "d"])
    claims = [claim("c", size="10Gi"), claim("d", size="10Gi")]
    assert scores(asked(*claims, csi_driver(), *pools, shape=SHAPE), both) == [50, 10]
    assert scores(asked(*claims, shape=SHAPE), both) == [0, 0]
    assert scores(asked(shape=SHAPE), pod()) == [0, 0]


def test_classes_weigh_the_same() -> None:
    """The mean of half full and completely full, rounded half up."""
    volumes = [volume("v1", size="10Gi"), volume("v2", size="10Gi", storage_class="fast")]
    case = asked(
        local("c", size="10Gi"),
        claim("d", size="5Gi", storage_class="fast"),
        storage_class("fast"),
        *volumes,
        shape=SHAPE,
    )
    assert scores(case, pod("p", claims=["c", "d"])) == [75, 75]


def test_pre_score_without_pre_filter_is_an_error() -> None:
    """As upstream, which finds no state."""
    case = asked(shape=SHAPE)
    assert case.plugin.pre_score(case.state(POD), POD, None).code is Code.ERROR


# --- hints ------------------------------------------------------------------------------------------------------------


def test_events() -> None:
    """The events upstream registers, no more and no less."""
    change = Action.ADD | Action.UPDATE
    events = {(e.event.resource, e.event.action) for e in asked().plugin.events_to_register()}
    assert events == {
        (Resource.STORAGE_CLASS, change),
        (Resource.PERSISTENT_VOLUME_CLAIM, change),
        (Resource.PERSISTENT_VOLUME, change),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.CSI_NODE, change),
        (Resource.CSI_DRIVER, Action.UPDATE),
        (Resource.CSI_STORAGE_CAPACITY, change),
    }


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, storage_class("x"), Hint.QUEUE),
        (storage_class("x"), storage_class("x", "other"), Hint.SKIP),
        (storage_class("x"), storage_class("x", topologies=[{ZONE: ("x",)}]), Hint.QUEUE),
    ],
)
def test_a_class_helps_if_it_is_new_or_reaches_elsewhere(
    old: api.StorageClass | None, new: api.StorageClass, hint: Hint
) -> None:
    """Its binding mode never changes."""
    assert asked().plugin._after_class_change(POD, old, new) is hint


@pytest.mark.parametrize(
    ("changed", "hint"),
    [
        (claim("c"), Hint.QUEUE),
        (claim("p-v"), Hint.QUEUE),
        (claim("d"), Hint.SKIP),
        (claim("c", namespace="else"), Hint.SKIP),
    ],
)
def test_a_claim_helps_if_it_is_the_pods(changed: api.PersistentVolumeClaim, hint: Hint) -> None:
    """Named or ephemeral."""
    waiting = pod("p", claims=["c"], volumes=[ephemeral("v")])
    assert asked().plugin._after_claim_change(waiting, None, changed) is hint


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, csi_node("n"), Hint.QUEUE),
        (csi_node("n"), csi_node("n", d=1), Hint.SKIP),
        (csi_node("n"), csi_node("n", migrated=["x"]), Hint.QUEUE),
    ],
)
def test_a_csi_node_helps_if_it_is_new_or_has_migrated(old: api.CSINode | None, new: api.CSINode, hint: Hint) -> None:
    """Nothing else in it is read here."""
    assert asked().plugin._after_csi_node_change(POD, old, new) is hint


@pytest.mark.parametrize(("before", "after", "hint"), [(True, False, Hint.QUEUE), (True, None, Hint.QUEUE)])
@pytest.mark.parametrize(("driver", "concerned"), [("csi.example.com", True), ("other", False)])
def test_a_driver_helps_if_it_stops_asking_for_capacity(
    before: bool, after: bool | None, hint: Hint, driver: str, concerned: bool
) -> None:
    """Upstream looks for the driver among the pod's inline CSI volumes, and so do we."""
    waiting = pod(volumes=[api.Volume(name="v", csi=api.CSIVolumeSource(driver))])
    old, new = csi_driver(storage_capacity=before), csi_driver(storage_capacity=after)
    plugin = asked().plugin
    assert plugin._after_driver_update(waiting, old, new) is (hint if concerned else Hint.SKIP)
    assert plugin._after_driver_update(waiting, new, old) is Hint.SKIP


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, pool(), Hint.QUEUE),
        (pool(capacity="1Gi"), pool(capacity="2Gi"), Hint.QUEUE),
        (pool(capacity="2Gi"), pool(capacity="1Gi"), Hint.SKIP),
        (pool(capacity=None), pool(capacity="1Gi"), Hint.QUEUE),
        (pool(capacity="1Gi"), pool(capacity=None), Hint.SKIP),
        (pool(largest="1Gi"), pool(capacity="500Gi", largest="1Gi"), Hint.SKIP),
    ],
)
def test_a_pool_helps_if_it_is_new_or_can_give_more(
    old: api.CSIStorageCapacity | None, new: api.CSIStorageCapacity, hint: Hint
) -> None:
    """The largest volume it can provide is what counts."""
    assert asked().plugin._after_pool_change(POD, old, new) is hint
