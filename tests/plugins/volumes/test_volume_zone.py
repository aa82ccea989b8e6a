"""VolumeZone: the labels of bound volumes against those of nodes."""

from __future__ import annotations

import pytest
from tests.builders import cluster, node, pod
from tests.plugins.volumes.storage import Harness, Labels, claim, classes, storage_class, volume

from kubesched.api import objects as api
from kubesched.framework.events import Action, Hint, Resource
from kubesched.framework.status import Code
from kubesched.plugins.volume_zone import CONFLICT, VolumeZone

ZONE = "topology.kubernetes.io/zone"
REGION = "topology.kubernetes.io/region"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
BETA_REGION = "failure-domain.beta.kubernetes.io/region"

LABELS = [
    # of the volume, of the node, whether the pod may go there
    ({ZONE: "a"}, {ZONE: "a"}, True),
    ({ZONE: "a"}, {ZONE: "b"}, False),
    ({ZONE: "a__b"}, {ZONE: "b"}, True),
    ({ZONE: "a __ b "}, {ZONE: "b"}, True),
    ({ZONE: "a__"}, {ZONE: "b"}, True),
    ({ZONE: "a"}, {}, True),
    ({ZONE: "a"}, {REGION: "r"}, False),
    ({ZONE: "a"}, {BETA_ZONE: "a"}, False),
    ({BETA_ZONE: "a"}, {ZONE: "a"}, True),
    ({BETA_ZONE: "a"}, {ZONE: "b"}, False),
    ({BETA_ZONE: "a"}, {BETA_ZONE: "a", ZONE: "b"}, True),
    ({BETA_ZONE: "a"}, {BETA_ZONE: "b", ZONE: "a"}, False),
    ({BETA_REGION: "r"}, {REGION: "r"}, True),
    ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "s"}, False),
    ({ZONE: "a", REGION: "r"}, {ZONE: "a", REGION: "r"}, True),
]


@pytest.mark.parametrize(("of_volume", "of_node", "fits"), LABELS)
def test_labels_must_agree(of_volume: Labels, of_node: Labels, fits: bool) -> None:
    """A labelled node must carry one of the volume's values; a node without any such label takes everything."""
    bound = claim("c", volume="v")
    asked = Harness(VolumeZone, cluster(node("n", labels=of_node), bound, volume("v", labels=of_volume)))
    assert asked.filter(pod(claims=["c"])) == ({} if fits else {"n": CONFLICT})
    assert CONFLICT.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_every_volume_has_a_say() -> None:
    """Two volumes in different zones leave no zone at all."""
    asked = Harness(
        VolumeZone,
        cluster(
            node("a", zone="a"),
            node("b", zone="b"),
            claim("c", volume="v"),
            claim("d", volume="w"),
            volume("v", labels={ZONE: "a"}),
            volume("w", labels={ZONE: "b"}),
        ),
    )
    assert set(asked.filter(pod(claims=["c"]))) == {"b"}
    assert set(asked.filter(pod(claims=["c", "d"]))) == {"a", "b"}


@pytest.mark.parametrize(
    "objects",
    [
        [],
        [claim("c")],
        [claim("c", volume="v"), volume("v")],
        [claim("c", volume="v"), volume("v", labels={ZONE: "a____b"})],
    ],
)
def test_nothing_to_compare_is_skipped(objects: list[api.Object]) -> None:
    """No claims, claims that wait for the pod, and volumes without a usable label skip Filter."""
    asked = Harness(VolumeZone, cluster(node("n", zone="a"), *classes(), *objects))
    status = asked.pre_filter(pod(claims=["c"] if objects else []))
    assert status is not None
    assert status.is_skip


PROBLEMS = [
    ([], "c", 'persistentvolumeclaim "c" not found'),
    ([], "", "PersistentVolumeClaim had no name"),
    ([claim("c", volume="v")], "c", 'persistentvolume "v" not found'),
    ([claim("c", storage_class=None)], "c", "PersistentVolumeClaim had no pv name and storageClass name"),
    ([claim("c", storage_class="x")], "c", 'storageclass.storage.k8s.io "x" not found'),
    (
        [claim("c", storage_class="x"), storage_class("x", mode=None)],
        "c",
        'VolumeBindingMode not set for StorageClass "x"',
    ),
    ([claim("c", storage_class="now"), *classes()], "c", "PersistentVolume had no name"),
]


@pytest.mark.parametrize(("objects", "name", "reason"), PROBLEMS)
def test_claims_that_lead_nowhere(objects: list[api.Object], name: str, reason: str) -> None:
    """PreFilter rejects with upstream's message; Filter without PreFilter gives the same for every node."""
    asked = Harness(VolumeZone, cluster(node("n"), *objects))
    incoming = pod(claims=[name])
    status = asked.pre_filter(incoming)
    assert status is not None
    assert (status.code, status.reasons) == (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,))
    assert asked.filter(incoming, state=asked.state(incoming)) == {"n": status}


def test_filter_works_without_pre_filter() -> None:
    """A profile may disable PreFilter; upstream then looks claims up in Filter."""
    asked = Harness(VolumeZone, cluster(node("n", zone="b"), claim("c", volume="v"), volume("v", labels={ZONE: "a"})))
    incoming = pod(claims=["c"])
    assert asked.filter(incoming, state=asked.state(incoming)) == {"n": CONFLICT}


def test_events() -> None:
    """The events upstream registers, no more and no less."""
    change = Action.ADD | Action.UPDATE
    events = {(e.event.resource, e.event.action) for e in Harness(VolumeZone, cluster()).plugin.events_to_register()}
    assert events == {
        (Resource.STORAGE_CLASS, Action.ADD),
        (Resource.NODE, Action.ADD | Action.UPDATE_NODE_LABEL),
        (Resource.PERSISTENT_VOLUME_CLAIM, change),
        (Resource.PERSISTENT_VOLUME, change),
    }


@pytest.mark.parametrize(
    ("mode", "hint"), [("WaitForFirstConsumer", Hint.QUEUE), ("Immediate", Hint.SKIP), (None, Hint.SKIP)]
)
def test_an_added_class_helps_if_it_waits(mode: str | None, hint: Hint) -> None:
    """Only a class that binds late makes an unbound claim acceptable."""
    plugin = Harness(VolumeZone, cluster()).plugin
    assert plugin._after_class_added(pod(), None, storage_class("x", mode=mode)) is hint


@pytest.mark.parametrize(
    ("changed", "hint"),
    [(claim("c"), Hint.QUEUE), (claim("d"), Hint.SKIP), (claim("c", namespace="else"), Hint.SKIP)],
)
def test_a_changed_claim_helps_if_it_is_the_pods(changed: api.PersistentVolumeClaim, hint: Hint) -> None:
    """Any change of its own claims, none of others'."""
    plugin = Harness(VolumeZone, cluster()).plugin
    assert plugin._after_claim_change(pod(claims=["c"]), None, changed) is hint


@pytest.mark.parametrize(
    ("old", "new", "hint"),
    [
        (None, volume("v"), Hint.QUEUE),
        (volume("v"), volume("v", size="1Ti"), Hint.SKIP),
        (volume("v"), volume("v", labels={ZONE: "a"}), Hint.QUEUE),
        (volume("v", labels={ZONE: "a__b"}), volume("v", labels={ZONE: "b__a"}), Hint.SKIP),
    ],
)
def test_a_changed_volume_helps_if_it_moved(old: api.Object | None, new: api.Object, hint: Hint) -> None:
    """A new volume always, an updated one if its topology labels changed."""
    assert Harness(VolumeZone, cluster()).plugin._after_volume_change(pod(claims=["c"]), old, new) is hint
