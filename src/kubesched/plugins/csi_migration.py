"""In-tree volumes as the CSI volumes that replaced them.

The drivers once built into Kubernetes are gone; a volume that still names one is served by a CSI driver. It counts
against that driver's limit under the CSI volume's handle. On a node that reports the migration, the volume's zones are
matched against the driver's own topology label.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from kubesched.api import objects as api
from kubesched.api.selectors import IN
from kubesched.plugins.volumes import BETA_REGION, BETA_ZONE, REGION, ZONE, ZONE_SEPARATOR

MIGRATED_PLUGINS: Final = "storage.alpha.kubernetes.io/migrated-plugins"
UNSPECIFIED: Final = "UNSPECIFIED"

_NOT_EBS: Final = "failed to translate Kubernetes ID to EBS Volume ID"
_EBS_VOLUME: Final = re.compile(r"vol-[^/]*")


class TranslationError(ValueError):
    """A volume that has no CSI form; the text is upstream's."""


class CSIVolume(NamedTuple):
    """A volume as its CSI driver knows it."""

    driver: str
    handle: str


class Migration(NamedTuple):
    """How volumes of one in-tree plugin become CSI volumes."""

    field: str
    """Where the source is, in a pod's volume and in a PersistentVolume's spec."""
    plugin: str
    driver: str
    topology_key: str = ""
    """The driver's name for a node's zone, if it has one of its own."""
    is_on: bool = True
    """Whether the scheduler treats such a volume as a CSI volume at all."""


MIGRATIONS: Final = (
    Migration("gce_persistent_disk", "kubernetes.io/gce-pd", "pd.csi.storage.gke.io", "topology.gke.io/zone"),
    Migration("aws_elastic_block_store", "kubernetes.io/aws-ebs", "ebs.csi.aws.com", "topology.ebs.csi.aws.com/zone"),
    Migration("cinder", "kubernetes.io/cinder", "cinder.csi.openstack.org", "topology.cinder.csi.openstack.org/zone"),
    Migration("azure_disk", "kubernetes.io/azure-disk", "disk.csi.azure.com"),
    Migration("portworx_volume", "kubernetes.io/portworx-volume", "pxd.portworx.com"),
    Migration("azure_file", "kubernetes.io/azure-file", "file.csi.azure.com", is_on=False),
    Migration("vsphere_volume", "kubernetes.io/vsphere-volume", "csi.vsphere.vmware.com", is_on=False),
)
BY_PLUGIN: Final = {migration.plugin: migration for migration in MIGRATIONS}


def migration_of(source: api.Volume | api.PersistentVolumeSpec) -> Migration | None:
    """The in-tree plugin that a volume names; None for anything else."""
    return next((m for m in MIGRATIONS if getattr(source, m.field) is not None), None)


def migrated_plugins(csi_node: api.CSINode) -> frozenset[str]:
    """The in-tree plugins that a node reports as served by CSI drivers."""
    return frozenset(csi_node.annotations.get(MIGRATED_PLUGINS, "").split(",")) - {""}


# --- handles ----------------------------------------------------------------------------------------------------------


def inline_handle(volume: api.Volume, migration: Migration) -> CSIVolume:
    """The CSI volume that a pod's inline volume is."""
    return CSIVolume(migration.driver, _HANDLES[migration.field](getattr(volume, migration.field), ""))


def volume_handle(volume: api.PersistentVolume, migration: Migration) -> CSIVolume:
    """The CSI volume that a PersistentVolume is."""
    zones = volume.labels.get(BETA_ZONE) or volume.labels.get(ZONE, "")
    return CSIVolume(migration.driver, _HANDLES[migration.field](getattr(volume.spec, migration.field), zones))


def _gce_handle(source: api.GCEPersistentDiskVolumeSource, zones: str) -> str:
    several = zones.split(ZONE_SEPARATOR)
    if len(several) > 1:
        return f"projects/{UNSPECIFIED}/regions/{_gce_region(several)}/disks/{source.pd_name}"
    return f"projects/{UNSPECIFIED}/zones/{zones or UNSPECIFIED}/disks/{source.pd_name}"


def _gce_region(zones: Iterable[str]) -> str:
    regions = set()
    for zone in zones:
        parts = zone.split("-")
        if len(parts) != 3:
            raise TranslationError(
                "failed to get region from zones: "
                f"zone in unexpected format, expected: {{locale}}-{{region}}-{{zone}}, got: {zone}"
            )
        regions.add("-".join(parts[:2]))
    if len(regions) != 1:
        listed = " ".join(f"{region}:{{}}" for region in sorted(regions))
        raise TranslationError(
            f"failed to get region from zones: multiple or no regions gotten from zones, got: map[{listed}]"
        )
    return regions.pop()


def _ebs_handle(source: api.AWSElasticBlockStoreVolumeSource, _: str) -> str:
    volume_id = source.volume_id
    if not volume_id.startswith("aws://"):
        return volume_id
    try:
        path = urlsplit(volume_id).path.strip("/")
    except ValueError as problem:
        raise TranslationError(f"{_NOT_EBS} Invalid disk name ({volume_id}): {problem}") from None
    if not _EBS_VOLUME.fullmatch(path):
        raise TranslationError(f"{_NOT_EBS} Invalid format for AWS volume ({volume_id})")
    return path


def _azure_disk_handle(source: api.AzureDiskVolumeSource, _: str) -> str:
    if source.kind is not None and source.kind.lower() != "managed":
        raise TranslationError(f"kind({source.kind}) is not supported in csi migration")
    return source.disk_uri


def _volume_id(source: api.CinderVolumeSource | api.PortworxVolumeSource, _: str) -> str:
    return source.volume_id


_HANDLES: Final[dict[str, Callable[..., str]]] = {
    "gce_persistent_disk": _gce_handle,
    "aws_elastic_block_store": _ebs_handle,
    "cinder": _volume_id,
    "azure_disk": _azure_disk_handle,
    "portworx_volume": _volume_id,
}


# --- topology ---------------------------------------------------------------------------------------------------------


def csi_node_affinity(volume: api.PersistentVolume, migration: Migration) -> api.NodeSelector | None:
    """Where the CSI form of a volume can be reached; None for everywhere."""
    volume_handle(volume, migration)  # raises for a volume that cannot be translated
    affinity = volume.spec.node_affinity
    required = affinity.required if affinity is not None else None
    if not migration.topology_key:
        return required
    terms = required.node_selector_terms if required is not None else ()
    zone, region = _labels_in_use(terms, volume.labels)
    if _has_values(terms, zone):
        terms = _renamed(terms, zone, migration.topology_key)
    elif zones := _zones(volume.labels.get(zone, "")):
        terms = _narrowed(terms, migration.topology_key, zones)
    if region == BETA_REGION and _has_values(terms, region):
        terms = _renamed(terms, region, REGION)
    return api.NodeSelector(terms) if terms else required


Terms = tuple[api.NodeSelectorTerm, ...]


def _labels_in_use(terms: Terms, labels: dict[str, str]) -> tuple[str, str]:
    """The keys a volume uses for zone and region: current or deprecated ones, from its affinity or else its labels."""
    keys = {e.key for term in terms for e in term.match_expressions}
    for known in (keys, labels):
        if ZONE in known:
            return ZONE, REGION
        if BETA_ZONE in known:
            return BETA_ZONE, BETA_REGION
    return ZONE, REGION


def _has_values(terms: Terms, key: str) -> bool:
    return any(e.values for term in terms for e in term.match_expressions if e.key == key)


def _renamed(terms: Terms, old: str, new: str) -> Terms:
    def rename(e: api.NodeSelectorRequirement) -> api.NodeSelectorRequirement:
        return msgspec.structs.replace(e, key=new) if e.key == old else e

    return tuple(
        msgspec.structs.replace(term, match_expressions=tuple(map(rename, term.match_expressions))) for term in terms
    )


def _zones(label: str) -> tuple[str, ...]:
    return tuple(sorted({zone.strip() for zone in label.split(ZONE_SEPARATOR)} - {""}))


def _narrowed(terms: Terms, key: str, zones: tuple[str, ...]) -> Terms:
    also = api.NodeSelectorRequirement(key, IN, zones)
    return tuple(
        msgspec.structs.replace(term, match_expressions=(*term.match_expressions, also))
        for term in terms or (api.NodeSelectorTerm(),)
    )
