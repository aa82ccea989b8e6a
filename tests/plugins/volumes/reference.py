"""A plain model of the volume plugins, one node at a time, to compare with."""

from __future__ import annotations

from kubesched.api import objects as api
from kubesched.api.quantity import nanos, value
from kubesched.api.selectors import label_selector, node_selector
from kubesched.cluster.state import ClusterState
from kubesched.plugins.csi_migration import csi_node_affinity, migration_of, volume_handle
from kubesched.plugins.volume_binding.plan import BIND_CONFLICT, NODE_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING

SELECTED_NODE = "volume.kubernetes.io/selected-node"
GCE = "kubernetes.io/gce-pd"
GCE_DRIVER = "pd.csi.storage.gke.io"


def bindings(cluster: ClusterState, pod: api.Pod, node: api.Node) -> tuple[str, ...]:
    """VolumeBinding's reasons against a node, for a pod whose claims all exist and are bound or wait."""
    claims = [_claim(cluster, pod, v) for v in pod.spec.volumes]
    mine = [c for c in claims if c is not None]
    bound_reason = _bound(cluster, [c for c in mine if c.spec.volume_name], node)
    unbound_reason = _unbound(cluster, [c for c in mine if not c.spec.volume_name], node)
    order = (NODE_CONFLICT, BIND_CONFLICT, NOT_ENOUGH_SPACE, VOLUME_MISSING)
    return tuple(sorted({r for r in (bound_reason, unbound_reason) if r}, key=order.index))


def _claim(cluster: ClusterState, pod: api.Pod, volume: api.Volume) -> api.PersistentVolumeClaim | None:
    if volume.persistent_volume_claim is not None:
        return cluster.get(api.PersistentVolumeClaim, f"{pod.namespace}/{volume.persistent_volume_claim.claim_name}")
    if volume.ephemeral is not None:
        return cluster.get(api.PersistentVolumeClaim, f"{pod.namespace}/{pod.name}-{volume.name}")
    return None


def _bound(cluster: ClusterState, claims: list[api.PersistentVolumeClaim], node: api.Node) -> str:
    for claim in claims:
        volume = cluster.get(api.PersistentVolume, claim.spec.volume_name)
        if volume is None:
            return VOLUME_MISSING
        required = volume.spec.node_affinity.required if volume.spec.node_affinity else None
        migration = migration_of(volume.spec)
        csi_node = cluster.get(api.CSINode, node.name)
        if migration and csi_node and migration.plugin in ",".join(csi_node.annotations.values()):
            required = csi_node_affinity(volume, migration)
        if not _reaches(required, node):
            return NODE_CONFLICT
    return ""


def _reaches(required: api.NodeSelector | None, node: api.Node) -> bool:
    return required is None or node_selector(required).matches(node.labels, "")


def _unbound(cluster: ClusterState, claims: list[api.PersistentVolumeClaim], node: api.Node) -> str:
    if any(c.annotations.get(SELECTED_NODE, node.name) != node.name for c in claims):
        return BIND_CONFLICT
    to_provision = [c for c in claims if SELECTED_NODE in c.annotations]
    taken: set[str] = set()
    for claim in sorted((c for c in claims if SELECTED_NODE not in c.annotations), key=_size):
        volume = _match(cluster, claim, node, taken)
        if volume is None:
            to_provision.append(claim)
        else:
            taken.add(volume.name)
    for claim in to_provision:
        if reason := _cannot_provision(cluster, claim, node):
            return reason
    return ""


def _size(claim: api.PersistentVolumeClaim) -> int:
    return nanos(claim.spec.resources.requests["storage"])


def _match(
    cluster: ClusterState, claim: api.PersistentVolumeClaim, node: api.Node, taken: set[str]
) -> api.PersistentVolume | None:
    fits = []
    for volume in cluster.all(api.PersistentVolume):
        spec, claimant = volume.spec, volume.spec.claim_ref
        if volume.name in taken or spec.storage_class_name != claim.spec.storage_class_name:
            continue
        if nanos(spec.capacity["storage"]) < _size(claim):
            continue
        reaches = _reaches(spec.node_affinity.required if spec.node_affinity else None, node)
        if claimant is not None:
            if claimant.name == claim.name and claimant.uid in ("", claim.uid):
                fits.append((0, volume.name, reaches, volume))
        elif volume.status.phase == "Available" and reaches and set(claim.spec.access_modes) <= set(spec.access_modes):
            fits.append((nanos(spec.capacity["storage"]), volume.name, True, volume))
    if not fits:
        return None
    _, _, reaches, best = min(fits, key=lambda fit: fit[:2])
    return best if reaches else None


def _cannot_provision(cluster: ClusterState, claim: api.PersistentVolumeClaim, node: api.Node) -> str:
    storage_class = cluster.get(api.StorageClass, claim.spec.storage_class_name or "")
    assert storage_class is not None
    if storage_class.provisioner == "kubernetes.io/no-provisioner":
        return BIND_CONFLICT
    terms = storage_class.allowed_topologies
    if terms and not any(all(node.labels.get(e.key) in e.values for e in t.match_label_expressions) for t in terms):
        return BIND_CONFLICT
    driver = cluster.get(api.CSIDriver, storage_class.provisioner)
    if driver is None or not driver.spec.storage_capacity:
        return ""
    for pool in cluster.all(api.CSIStorageCapacity):
        large_enough = value(pool.capacity or 0) * 10**9 >= _size(claim)
        reaches = label_selector(pool.node_topology).matches(node.labels)
        if pool.storage_class_name == storage_class.name and large_enough and reaches:
            return ""
    return NOT_ENOUGH_SPACE


def exceeds(cluster: ClusterState, pod: api.Pod, node: api.Node) -> bool:
    """Whether NodeVolumeLimits refuses a node, for pods whose volumes can all be counted."""
    csi_node = cluster.get(api.CSINode, node.name)
    if csi_node is None:
        return False
    wanted = _attachable(cluster, pod)
    in_use: set[tuple[str, str]] = set()
    for info in cluster.nodes.pods[cluster.nodes.row_of[node.name]].values():
        in_use |= _attachable(cluster, info.pod)
    attached = set()
    for attachment in cluster.all(api.VolumeAttachment):
        volume = cluster.get(api.PersistentVolume, attachment.spec.source.persistent_volume_name or "")
        if attachment.spec.node_name == node.name and volume is not None and volume.spec.csi is not None:
            attached.add((attachment.spec.attacher, volume.spec.csi.volume_handle))
    for driver in csi_node.spec.drivers:
        limit = driver.allocatable.count if driver.allocatable else None
        new = sum(d == driver.name for d, _ in wanted - in_use)
        if limit is not None and new and new + sum(d == driver.name for d, _ in in_use | attached) > limit:
            return True
    return False


def _attachable(cluster: ClusterState, pod: api.Pod) -> set[tuple[str, str]]:
    found: set[tuple[str, str]] = set()
    for volume in pod.spec.volumes:
        claim = _claim(cluster, pod, volume)
        if volume.gce_persistent_disk is not None:
            disk = volume.gce_persistent_disk.pd_name
            found.add((GCE_DRIVER, f"projects/UNSPECIFIED/zones/UNSPECIFIED/disks/{disk}"))
        if claim is None:
            continue
        backing = cluster.get(api.PersistentVolume, claim.spec.volume_name)
        storage_class = cluster.get(api.StorageClass, claim.spec.storage_class_name or "")
        if backing is not None and backing.spec.csi is not None:
            found.add((backing.spec.csi.driver, backing.spec.csi.volume_handle))
        elif backing is not None and (migration := migration_of(backing.spec)) is not None:
            found.add(volume_handle(backing, migration))
        elif backing is None and storage_class is not None:
            driver = GCE_DRIVER if storage_class.provisioner == GCE else storage_class.provisioner
            found.add((driver, f"to be provisioned for {claim.key}"))
    return found
