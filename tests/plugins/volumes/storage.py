"""Builders for claims, volumes and other storage objects, and a harness for a single plugin."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from random import Random
from typing import Any

from tests.builders import HOSTNAME

from kubesched.api import objects as api
from kubesched.cluster.state import ClusterState
from kubesched.cluster.view import Nodes
from kubesched.framework.handle import Services
from kubesched.framework.plugin import Handle, Plugin
from kubesched.framework.state import CycleState
from kubesched.framework.status import Status
from kubesched.plugins.volumes import BIND_COMPLETED

DRIVER = "csi.example.com"
GIB = 1 << 30

Labels = Mapping[str, str]


# --- objects ----------------------------------------------------------------------------------------------------------


def claim(
    name: str = "claim",
    *,
    namespace: str = "default",
    storage_class: str | None = "wait",
    size: str | None = "1Gi",
    modes: Iterable[str] = ("ReadWriteOnce",),
    volume: str = "",
    bound: bool | None = None,
    phase: str = "",
    annotations: Labels | None = None,
    selector: api.LabelSelector | None = None,
    volume_mode: str | None = None,
    attributes_class: str | None = None,
    owner: api.OwnerReference | None = None,
    deleted: bool = False,
    version: str = "",
) -> api.PersistentVolumeClaim:
    """A claim; with a `volume` it is bound on both sides, unless `bound` is given."""
    complete = {BIND_COMPLETED: "yes"} if (bool(volume) if bound is None else bound) else {}
    return api.PersistentVolumeClaim(
        metadata=api.ObjectMeta(
            name=name,
            namespace=namespace,
            uid=f"claim.{name}",
            resource_version=version,
            annotations={**complete, **(annotations or {})},
            owner_references=(owner,) if owner is not None else (),
            deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
        ),
        spec=api.PersistentVolumeClaimSpec(
            access_modes=tuple(modes),
            selector=selector,
            resources=api.VolumeResourceRequirements({} if size is None else {"storage": size}),
            volume_name=volume,
            storage_class_name=storage_class,
            volume_mode=volume_mode,
            volume_attributes_class_name=attributes_class,
        ),
        status=api.PersistentVolumeClaimStatus(phase=phase),
    )


def volume(
    name: str = "volume",
    *,
    storage_class: str = "local",
    size: str = "10Gi",
    modes: Iterable[str] = ("ReadWriteOnce",),
    on: Iterable[str] | None = None,
    affinity: api.NodeSelector | None = None,
    claimed_by: api.ObjectReference | None = None,
    phase: str = "Available",
    labels: Labels | None = None,
    annotations: Labels | None = None,
    volume_mode: str | None = None,
    attributes_class: str | None = None,
    deleted: bool = False,
    version: str = "",
    **source: Any,
) -> api.PersistentVolume:
    """A volume, reachable from everywhere, or `on` some nodes; its source, if that matters, by the field's name."""
    if on is not None:
        affinity = selects((HOSTNAME, "In", *on))
    return api.PersistentVolume(
        metadata=api.ObjectMeta(
            name=name,
            uid=f"volume.{name}",
            resource_version=version,
            labels=dict(labels or {}),
            annotations=dict(annotations or {}),
            deletion_timestamp="2026-01-01T00:00:00Z" if deleted else None,
        ),
        spec=api.PersistentVolumeSpec(
            capacity={"storage": size},
            access_modes=tuple(modes),
            claim_ref=claimed_by,
            storage_class_name=storage_class,
            volume_mode=volume_mode,
            volume_attributes_class_name=attributes_class,
            node_affinity=None if affinity is None else api.VolumeNodeAffinity(affinity),
            **source,
        ),
        status=api.PersistentVolumeStatus(phase),
    )


def csi_volume(name: str, *, driver: str = DRIVER, handle: str = "", **fields: Any) -> api.PersistentVolume:
    """A volume of a CSI driver; its handle is its name unless it is given one."""
    return volume(name, csi=api.CSIPersistentVolumeSource(driver, handle or name), **fields)


def selects(*expressions: tuple[str, ...]) -> api.NodeSelector:
    """A node selector of one term, made of ``(key, operator, *values)``."""
    return api.NodeSelector(
        (api.NodeSelectorTerm(tuple(api.NodeSelectorRequirement(e[0], e[1], e[2:]) for e in expressions)),)
    )


def ref(name: str, *, namespace: str = "default", uid: str | None = None) -> api.ObjectReference:
    """A volume's reference to a claim; without a UID it matches any claim of that name."""
    return api.ObjectReference(namespace=namespace, name=name, uid=f"claim.{name}" if uid is None else uid)


def storage_class(
    name: str,
    provisioner: str = DRIVER,
    *,
    mode: str | None = "WaitForFirstConsumer",
    topologies: Iterable[Mapping[str, tuple[str, ...]]] = (),
) -> api.StorageClass:
    """A storage class; `topologies` are the terms of where it may provision, each a label with its values."""
    return api.StorageClass(
        metadata=api.ObjectMeta(name=name),
        provisioner=provisioner,
        volume_binding_mode=mode,
        allowed_topologies=tuple(
            api.TopologySelectorTerm(tuple(api.TopologySelectorLabelRequirement(k, v) for k, v in term.items()))
            for term in topologies
        ),
    )


def classes() -> list[api.StorageClass]:
    """The three storage classes most tests need."""
    return [
        storage_class("wait"),
        storage_class("local", "kubernetes.io/no-provisioner"),
        storage_class("now", mode="Immediate"),
    ]


def csi_node(name: str, *, migrated: Iterable[str] = (), **limits: int | None) -> api.CSINode:
    """A CSINode; `limits` are per driver, written with _ for the characters an identifier cannot have."""
    drivers = {key.replace("__", "-").replace("_", "."): limit for key, limit in limits.items()}
    return api.CSINode(
        metadata=api.ObjectMeta(
            name=name, annotations={"storage.alpha.kubernetes.io/migrated-plugins": ",".join(migrated)}
        ),
        spec=api.CSINodeSpec(
            tuple(
                api.CSINodeDriver(name=driver, allocatable=api.VolumeNodeResources(limit))
                for driver, limit in drivers.items()
            )
        ),
    )


def csi_driver(name: str = DRIVER, *, storage_capacity: bool | None = True) -> api.CSIDriver:
    """A CSI driver, by default one that tracks storage capacity."""
    return api.CSIDriver(metadata=api.ObjectMeta(name=name), spec=api.CSIDriverSpec(storage_capacity=storage_capacity))


def pool(
    name: str = "pool",
    *,
    storage_class: str = "wait",
    capacity: str | None = "100Gi",
    largest: str | None = None,
    where: api.LabelSelector | None = api.LabelSelector(),  # noqa: B008 - frozen
) -> api.CSIStorageCapacity:
    """A pool of storage that a class provisions from, reachable from everywhere by default."""
    return api.CSIStorageCapacity(
        metadata=api.ObjectMeta(name=name, namespace="kube-system"),
        node_topology=where,
        storage_class_name=storage_class,
        capacity=capacity,
        maximum_volume_size=largest,
    )


def attachment(name: str, node: str, volume: str | None, *, attacher: str = DRIVER) -> api.VolumeAttachment:
    """A volume attached to a node."""
    source = api.VolumeAttachmentSource(persistent_volume_name=volume)
    return api.VolumeAttachment(
        metadata=api.ObjectMeta(name=name), spec=api.VolumeAttachmentSpec(attacher, node, source)
    )


def ephemeral(name: str = "scratch") -> api.Volume:
    """An ephemeral volume; its claim is named after the pod and the volume."""
    return api.Volume(name=name, ephemeral=api.EphemeralVolumeSource())


def owned_by(pod: api.Pod) -> api.OwnerReference:
    """The reference of an ephemeral volume's claim to its pod."""
    return api.OwnerReference("v1", "Pod", pod.name, pod.uid, controller=True)


# --- asking -----------------------------------------------------------------------------------------------------------


class Harness:
    """One plugin on a cluster, run on pods as in a profile without other plugins."""

    def __init__(
        self, plugin: type[Plugin], cluster: ClusterState, args: object = None, services: Services | None = None
    ) -> None:
        self.cluster = cluster
        self.handle = Handle(cluster, Random(0), services=services)
        self.plugin: Any = plugin(args, self.handle)

    def state(self, pod: api.Pod) -> CycleState:
        """A new cycle for a pod."""
        return CycleState(self.cluster.classes.info(pod).pod_class)

    def pre_filter(self, pod: api.Pod, state: CycleState | None = None) -> Status | None:
        """The status of PreFilter."""
        answer = self.plugin.pre_filter(state or self.state(pod), pod, Nodes(self.cluster.nodes))
        assert answer is None or isinstance(answer, Status)
        return answer

    def filter(self, pod: api.Pod, window: Nodes | None = None, state: CycleState | None = None) -> dict[str, Status]:
        """Nodes the pod cannot go to, and why; PreFilter runs first unless a state is given."""
        if state is None:
            state = self.state(pod)
            answer = self.pre_filter(pod, state)
            if answer is not None:
                assert answer.is_skip, answer
                return {}
        window = Nodes(self.cluster.nodes) if window is None else window
        verdicts = self.plugin.filter_all(state, pod, window)
        codes = [0] * len(window) if verdicts is None else [int(code) for code in verdicts.codes]
        valid = self.cluster.nodes.valid
        return {
            self.cluster.nodes.names[row]: verdicts.status_of(code)
            for row, code in zip(window.row_numbers(), codes, strict=True)
            if code and valid[row]
        }

    def reasons(self, pod: api.Pod) -> dict[str, tuple[str, ...]]:
        """Like `filter`, with the reasons only."""
        return {node: status.reasons for node, status in self.filter(pod).items()}
