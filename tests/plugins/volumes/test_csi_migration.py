"""In-tree volumes translated: handles and topology."""

from __future__ import annotations

from typing import Any

import pytest
from tests.plugins.volumes.storage import Labels, selects, volume

from kubesched.api import objects as api
from kubesched.plugins.csi_migration import (
    MIGRATIONS,
    CSIVolume,
    TranslationError,
    csi_node_affinity,
    inline_handle,
    migration_of,
    volume_handle,
)

ZONE = "topology.kubernetes.io/zone"
BETA_ZONE = "failure-domain.beta.kubernetes.io/zone"
GCE = api.GCEPersistentDiskVolumeSource("disk")
EBS = api.AWSElasticBlockStoreVolumeSource("vol-1")


def handle(source: str, value: object, labels: Labels | None = None) -> CSIVolume:
    """The CSI volume that a PersistentVolume with this source is."""
    fields: dict[str, Any] = {source: value}
    made = volume("v", labels=labels, **fields)
    migration = migration_of(made.spec)
    assert migration is not None
    return volume_handle(made, migration)


@pytest.mark.parametrize(
    ("labels", "expected"),
    [
        ({}, "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"),
        ({ZONE: "us-east-a"}, "projects/UNSPECIFIED/zones/us-east-a/disks/disk"),
        ({ZONE: "us-east-a", BETA_ZONE: "us-east-b"}, "projects/UNSPECIFIED/zones/us-east-b/disks/disk"),
        ({ZONE: "us-east-a__us-east-b"}, "projects/UNSPECIFIED/regions/us-east/disks/disk"),
    ],
)
def test_a_gce_disk_is_known_by_its_zone_or_region(labels: Labels, expected: str) -> None:
    """One zone makes a zonal disk, several of one region a regional one."""
    assert handle("gce_persistent_disk", GCE, labels) == CSIVolume("pd.csi.storage.gke.io", expected)


@pytest.mark.parametrize(
    ("zones", "problem"),
    [
        ("us-east-a__eu-west-a", r"multiple or no regions gotten from zones, got: map\[eu-west:{} us-east:{}\]"),
        ("here__there", "zone in unexpected format, expected: {locale}-{region}-{zone}, got: here"),
    ],
)
def test_zones_of_no_common_region_have_no_translation(zones: str, problem: str) -> None:
    """The error is upstream's, for it reaches the pod's events."""
    with pytest.raises(TranslationError, match=f"failed to get region from zones: {problem}"):
        handle("gce_persistent_disk", GCE, {ZONE: zones})


@pytest.mark.parametrize(
    ("volume_id", "expected"),
    [("vol-1", "vol-1"), ("anything", "anything"), ("aws:///vol-1", "vol-1"), ("aws://us-east-1a/vol-1", "vol-1")],
)
def test_an_ebs_volume_is_known_by_its_bare_id(volume_id: str, expected: str) -> None:
    """The form with a zone in it is unwrapped."""
    source = api.AWSElasticBlockStoreVolumeSource(volume_id)
    assert handle("aws_elastic_block_store", source) == CSIVolume("ebs.csi.aws.com", expected)


@pytest.mark.parametrize("volume_id", ["aws://vol-1", "aws://zone/disk", "aws://zone/vol-1/more", "aws://[/vol-1"])
def test_malformed_ebs_ids_have_no_translation(volume_id: str) -> None:
    """What claims to be a URL must hold a volume."""
    with pytest.raises(TranslationError, match="failed to translate Kubernetes ID to EBS Volume ID"):
        handle("aws_elastic_block_store", api.AWSElasticBlockStoreVolumeSource(volume_id))


def test_the_others_keep_their_ids() -> None:
    """Cinder, Portworx and managed Azure disks have one name for both worlds."""
    assert handle("cinder", api.CinderVolumeSource("id")) == CSIVolume("cinder.csi.openstack.org", "id")
    assert handle("portworx_volume", api.PortworxVolumeSource("id")) == CSIVolume("pxd.portworx.com", "id")
    azure = api.AzureDiskVolumeSource("name", "uri", kind="managed")
    assert handle("azure_disk", azure) == CSIVolume("disk.csi.azure.com", "uri")


def test_unmanaged_azure_disks_have_no_translation() -> None:
    """There is no CSI form of a blob disk."""
    with pytest.raises(TranslationError, match=r"kind\(Dedicated\) is not supported in csi migration"):
        handle("azure_disk", api.AzureDiskVolumeSource("name", "uri", kind="Dedicated"))


def test_inline_volumes_translate_without_zones() -> None:
    """A pod's own volume has no labels to tell a zone by."""
    inline = api.Volume(name="v", gce_persistent_disk=GCE)
    migration = migration_of(inline)
    assert migration is MIGRATIONS[0]
    assert inline_handle(inline, migration).handle == "projects/UNSPECIFIED/zones/UNSPECIFIED/disks/disk"


def test_other_volumes_are_not_migrated() -> None:
    """CSI volumes and all the rest are what they are."""
    assert migration_of(api.Volume(name="v", csi=api.CSIVolumeSource("driver"))) is None
    assert migration_of(volume("v").spec) is None


TOPOLOGY = "topology.ebs.csi.aws.com/zone"


@pytest.mark.parametrize(
    ("labels", "affinity", "expected"),
    [
        ({}, None, None),
        ({}, selects((ZONE, "In", "a")), selects((TOPOLOGY, "In", "a"))),
        ({}, selects((BETA_ZONE, "In", "a")), selects((TOPOLOGY, "In", "a"))),
        ({}, selects((ZONE, "Exists")), selects((ZONE, "Exists"))),
        ({}, selects(("disk", "In", "ssd")), selects(("disk", "In", "ssd"))),
        ({ZONE: "b__a"}, None, selects((TOPOLOGY, "In", "a", "b"))),
        ({BETA_ZONE: "a"}, None, selects((TOPOLOGY, "In", "a"))),
        ({ZONE: "__"}, None, None),
        ({ZONE: "a"}, selects(("disk", "In", "ssd")), selects(("disk", "In", "ssd"), (TOPOLOGY, "In", "a"))),
        ({ZONE: "b"}, selects((ZONE, "In", "a")), selects((TOPOLOGY, "In", "a"))),
        (
            {},
            selects((BETA_ZONE, "In", "a"), ("failure-domain.beta.kubernetes.io/region", "In", "r")),
            selects((TOPOLOGY, "In", "a"), ("topology.kubernetes.io/region", "In", "r")),
        ),
    ],
)
def test_zones_become_the_drivers_own(
    labels: Labels, affinity: api.NodeSelector | None, expected: api.NodeSelector | None
) -> None:
    """From the node affinity, or from the volume's labels if the affinity does not mention zones."""
    made = volume("v", labels=labels, affinity=affinity, aws_elastic_block_store=EBS)
    migration = migration_of(made.spec)
    assert migration is not None
    assert csi_node_affinity(made, migration) == expected


def test_drivers_without_a_zone_label_keep_the_affinity() -> None:
    """Azure disks and Portworx volumes are placed as they were."""
    affinity = selects((ZONE, "In", "a"))
    made = volume("v", affinity=affinity, portworx_volume=api.PortworxVolumeSource("id"))
    migration = migration_of(made.spec)
    assert migration is not None
    assert csi_node_affinity(made, migration) == affinity
