"""Random clusters with storage, small enough that everything collides with everything."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st
from tests.builders import ZONE, node, pod, selector
from tests.plugins.volumes.storage import (
    attachment,
    claim,
    csi_driver,
    csi_node,
    csi_volume,
    ephemeral,
    owned_by,
    pool,
    ref,
    selects,
    storage_class,
    volume,
)

from kubesched.api import objects as api

NODES = ("n0", "n1", "n2")
CLAIMS = ("c0", "c1", "c2", "c3")
VOLUMES = ("v0", "v1", "v2", "v3", "v4")
SIZES = ("1Gi", "2Gi", "3Gi")

node_names = st.sampled_from(NODES)
zones = st.sampled_from(("us-east-x", "us-east-y"))
classes = st.sampled_from(("wait", "local", "zonal", "tree"))

nodes = st.builds(lambda name, zone: node(name, zone=zone), node_names, st.none() | zones)
csi_nodes = st.builds(
    lambda name, a, gce, migrated: csi_node(
        name, csi_a=a, pd_csi_storage_gke_io=gce, migrated=("kubernetes.io/gce-pd",) if migrated else ()
    ),
    node_names,
    st.none() | st.integers(0, 3),
    st.none() | st.integers(0, 2),
    st.booleans(),
)
CLASSES = (
    storage_class("wait", "csi.a"),
    storage_class("local", "kubernetes.io/no-provisioner"),
    storage_class("zonal", "csi.a", topologies=[{ZONE: ("us-east-x",)}]),
    storage_class("tree", "kubernetes.io/gce-pd"),
)
storage_classes = st.sampled_from(CLASSES)
drivers = st.builds(lambda on: csi_driver("csi.a", storage_capacity=on), st.booleans())
pools = st.builds(
    lambda name, of, capacity, zone: pool(
        name, storage_class=of, capacity=capacity, where=selector({} if zone is None else {ZONE: zone})
    ),
    st.sampled_from(("p0", "p1")),
    st.sampled_from(("wait", "zonal")),
    st.sampled_from(SIZES),
    st.none() | zones,
)
places = (
    st.none()
    | st.builds(lambda on: selects(("kubernetes.io/hostname", "In", *on)), st.sets(node_names))
    | (st.builds(lambda zone: selects((ZONE, "In", zone)), zones))
)
claimants = st.none() | st.builds(
    lambda name, uid: ref(name, uid=uid), st.sampled_from(CLAIMS), st.sampled_from(("", None))
)


@st.composite
def volumes(draw: st.DrawFn, name: str = "") -> api.PersistentVolume:
    """Free, reserved or bound; of a CSI driver, in-tree, or neither."""
    name = name or draw(st.sampled_from(VOLUMES))
    zone = draw(st.sampled_from(("", "", "us-east-x", "us-east-y", "us-east-x__us-east-y")))
    fields: dict[str, Any] = {
        "storage_class": draw(classes),
        "size": draw(st.sampled_from(SIZES)),
        "affinity": draw(places),
        "claimed_by": draw(claimants),
        "phase": draw(st.sampled_from(("Available", "Available", "Released"))),
        "labels": {ZONE: zone} if zone else {},
    }
    kind = draw(st.integers(0, 3))
    if kind == 0:
        return volume(name, **fields)
    if kind == 1:
        return volume(name, gce_persistent_disk=api.GCEPersistentDiskVolumeSource("disk"), **fields)
    return csi_volume(name, driver="csi.a", handle=draw(st.sampled_from((name, "shared"))), **fields)


@st.composite
def claims(draw: st.DrawFn, name: str = "") -> api.PersistentVolumeClaim:
    """Bound, waiting, or on its way to a provisioner."""
    sent = draw(st.sampled_from(("", "", "", "", *NODES)))
    return claim(
        name or draw(st.sampled_from(CLAIMS)),
        storage_class=draw(classes),
        size=draw(st.sampled_from(SIZES)),
        volume=draw(st.sampled_from(("", "", "v0", "v1", "v2"))),
        modes=draw(st.sampled_from((("ReadWriteOnce",), ("ReadWriteOncePod",)))),
        annotations={"volume.kubernetes.io/selected-node": sent} if sent else {},
    )


attachments = st.builds(
    lambda name, on, of: attachment(name, on, of, attacher="csi.a"),
    st.sampled_from(("x0", "x1", "x2")),
    node_names,
    st.sampled_from(VOLUMES),
)

INLINE = (
    api.Volume(name="disk", gce_persistent_disk=api.GCEPersistentDiskVolumeSource("disk")),
    api.Volume(name="other", gce_persistent_disk=api.GCEPersistentDiskVolumeSource("disk", read_only=True)),
    ephemeral("scratch"),
    api.Volume(name="config"),
)


@st.composite
def pods(draw: st.DrawFn, *, running: bool = True) -> api.Pod:
    """A pod with claims and volumes of its own, on a node if it is `running`."""
    name = draw(st.sampled_from(("r0", "r1", "r2", "r3"))) if running else "new"
    return pod(
        name,
        node=draw(node_names) if running else "",
        claims=draw(st.lists(st.sampled_from(CLAIMS), max_size=3)),
        volumes=draw(st.lists(st.sampled_from(INLINE), max_size=2, unique_by=lambda v: v.name)),
    )


@st.composite
def ephemeral_claims(draw: st.DrawFn, name: str = "") -> api.PersistentVolumeClaim:
    """The claim of a pod's ephemeral volume; now and then not its own."""
    name = name or draw(st.sampled_from(("r0", "r1", "new")))
    owner = owned_by(pod(name if draw(st.integers(0, 9)) else "stranger"))
    return claim(f"{name}-scratch", storage_class=draw(classes), owner=owner)


objects = st.one_of(
    nodes,
    csi_nodes,
    storage_classes,
    drivers,
    pools,
    volumes(),
    volumes(),
    claims(),
    claims(),
    attachments,
    pods(),
    ephemeral_claims(),
)


@st.composite
def worlds(draw: st.DrawFn) -> list[api.Object]:
    """At least one object of every kind, and random ones more."""
    return [
        *(node(name, zone=draw(zones)) for name in NODES),
        *CLASSES,
        *(draw(volumes(name)) for name in VOLUMES),
        *(draw(claims(name)) for name in CLAIMS),
        *(draw(ephemeral_claims(name)) for name in ("new", "r0")),
        *draw(st.lists(objects, max_size=8)),
    ]
