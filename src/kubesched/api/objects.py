"""Kubernetes objects, reduced to the fields that scheduling reads.

A scheduler sees every pod and node of a cluster many times and reads perhaps a tenth of each. These structs hold that
tenth: decoding skips the rest, and a cluster of fifty thousand pods stays small. They are frozen, so that cluster
state, queue and decision records can share an object without copying it.

Names are upstream's in Python spelling. Fields that upstream omits when empty have the empty value as their default,
and pointers whose nil has a meaning are ``| None``.
"""

from collections.abc import Mapping
from typing import ClassVar

from msgspec import field

from kubesched.api.decoding import InvalidObject as InvalidObject
from kubesched.api.decoding import decode_as as decode_as
from kubesched.api.decoding import kind_of
from kubesched.api.devices import DeviceClass as DeviceClass
from kubesched.api.devices import DeviceTaintRule as DeviceTaintRule
from kubesched.api.devices import ResourceClaim as ResourceClaim
from kubesched.api.devices import ResourceClaimTemplate as ResourceClaimTemplate
from kubesched.api.devices import ResourceSlice as ResourceSlice
from kubesched.api.meta import Int32, Int64
from kubesched.api.meta import LabelSelector as LabelSelector
from kubesched.api.meta import LabelSelectorRequirement as LabelSelectorRequirement
from kubesched.api.meta import NodeSelector as NodeSelector
from kubesched.api.meta import NodeSelectorRequirement as NodeSelectorRequirement
from kubesched.api.meta import NodeSelectorTerm as NodeSelectorTerm
from kubesched.api.meta import Object as Object
from kubesched.api.meta import ObjectMeta as ObjectMeta
from kubesched.api.meta import OwnerReference as OwnerReference
from kubesched.api.meta import Part as Part
from kubesched.api.quantity import Quantity as Quantity
from kubesched.api.workloads import PodGroup as PodGroup
from kubesched.api.workloads import Workload as Workload

ResourceList = dict[str, Quantity]

DEFAULT_SCHEDULER_NAME = "default-scheduler"


# --- references and resources -----------------------------------------------------------------------------------------


class ObjectReference(Part, frozen=True):
    api_version: str = ""
    kind: str = ""
    namespace: str = ""
    name: str = ""
    uid: str = ""
    resource_version: str = ""


class ContainerClaim(Part, frozen=True):
    name: str = ""
    request: str = ""


class ResourceRequirements(Part, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}
    claims: tuple[ContainerClaim, ...] = ()


# --- affinity, tolerations, spreading ---------------------------------------------------------------------------------


class PreferredSchedulingTerm(Part, frozen=True):
    weight: Int32 = 0
    preference: NodeSelectorTerm = NodeSelectorTerm()


class NodeAffinity(Part, frozen=True):
    required_during_scheduling_ignored_during_execution: NodeSelector | None = None
    preferred_during_scheduling_ignored_during_execution: tuple[PreferredSchedulingTerm, ...] = ()


class PodAffinityTerm(Part, frozen=True):
    topology_key: str = ""
    label_selector: LabelSelector | None = None
    namespaces: tuple[str, ...] = ()
    namespace_selector: LabelSelector | None = None
    match_label_keys: tuple[str, ...] = ()
    mismatch_label_keys: tuple[str, ...] = ()


class WeightedPodAffinityTerm(Part, frozen=True):
    weight: Int32 = 0
    pod_affinity_term: PodAffinityTerm = PodAffinityTerm()


class PodAffinity(Part, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class PodAntiAffinity(Part, frozen=True):
    required_during_scheduling_ignored_during_execution: tuple[PodAffinityTerm, ...] = ()
    preferred_during_scheduling_ignored_during_execution: tuple[WeightedPodAffinityTerm, ...] = ()


class Affinity(Part, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAntiAffinity | None = None


class Toleration(Part, frozen=True):
    key: str = ""
    operator: str = ""
    value: str = ""
    effect: str = ""
    toleration_seconds: Int64 | None = None


class Taint(Part, frozen=True):
    key: str = ""
    value: str = ""
    effect: str = ""


class TopologySpreadConstraint(Part, frozen=True):
    max_skew: Int32 = 0
    topology_key: str = ""
    when_unsatisfiable: str = ""
    label_selector: LabelSelector | None = None
    min_domains: Int32 | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None
    match_label_keys: tuple[str, ...] = ()


# --- volume sources ---------------------------------------------------------------------------------------------------


class PersistentVolumeClaimVolumeSource(Part, frozen=True):
    claim_name: str = ""
    read_only: bool = False


class GCEPersistentDiskVolumeSource(Part, frozen=True):
    pd_name: str = ""
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class AWSElasticBlockStoreVolumeSource(Part, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    partition: Int32 = 0
    read_only: bool = False


class ISCSIVolumeSource(Part, frozen=True):
    target_portal: str = ""
    iqn: str = ""
    lun: Int32 = 0
    read_only: bool = False


class RBDVolumeSource(Part, frozen=True):
    monitors: tuple[str, ...] = ()
    image: str = ""
    pool: str = ""
    read_only: bool = False


class CinderVolumeSource(Part, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class AzureDiskVolumeSource(Part, frozen=True):
    disk_name: str = ""
    disk_uri: str = field(default="", name="diskURI")
    kind: str | None = None
    fs_type: str | None = None
    read_only: bool | None = None


class AzureFileVolumeSource(Part, frozen=True):
    secret_name: str = ""
    secret_namespace: str | None = None
    share_name: str = ""
    read_only: bool = False


class VsphereVirtualDiskVolumeSource(Part, frozen=True):
    volume_path: str = ""
    fs_type: str = ""


class PortworxVolumeSource(Part, frozen=True):
    volume_id: str = field(default="", name="volumeID")
    fs_type: str = ""
    read_only: bool = False


class CSIVolumeSource(Part, frozen=True):
    driver: str = ""
    read_only: bool | None = None


class CSIPersistentVolumeSource(Part, frozen=True):
    driver: str = ""
    volume_handle: str = ""
    read_only: bool = False


class VolumeResourceRequirements(Part, frozen=True):
    requests: ResourceList = {}
    limits: ResourceList = {}


class PersistentVolumeClaimSpec(Part, frozen=True):
    access_modes: tuple[str, ...] = ()
    selector: LabelSelector | None = None
    resources: VolumeResourceRequirements = VolumeResourceRequirements()
    volume_name: str = ""
    storage_class_name: str | None = None
    volume_mode: str | None = None
    volume_attributes_class_name: str | None = None


class PersistentVolumeClaimTemplate(Part, frozen=True):
    metadata: ObjectMeta = ObjectMeta()
    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()


class EphemeralVolumeSource(Part, frozen=True):
    volume_claim_template: PersistentVolumeClaimTemplate | None = None


class ImageVolumeSource(Part, frozen=True):
    reference: str = ""


class Volume(Part, frozen=True):
    name: str = ""
    image: ImageVolumeSource | None = None
    persistent_volume_claim: PersistentVolumeClaimVolumeSource | None = None
    ephemeral: EphemeralVolumeSource | None = None
    csi: CSIVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    iscsi: ISCSIVolumeSource | None = None
    rbd: RBDVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


# --- pods -------------------------------------------------------------------------------------------------------------


class ContainerPort(Part, frozen=True):
    container_port: Int32 = 0
    host_port: Int32 = 0
    host_ip: str = field(default="", name="hostIP")
    protocol: str = ""


class ContainerRestartRule(Part, frozen=True):
    action: str = ""


class Container(Part, frozen=True):
    name: str = ""
    image: str = ""
    resources: ResourceRequirements = ResourceRequirements()
    ports: tuple[ContainerPort, ...] = ()
    restart_policy: str | None = None
    restart_policy_rules: tuple[ContainerRestartRule, ...] = ()


class PodSchedulingGate(Part, frozen=True):
    name: str = ""


class PodResourceClaim(Part, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodSchedulingGroup(Part, frozen=True):
    pod_group_name: str = ""


class PodSpec(Part, frozen=True):
    node_name: str = ""
    scheduler_name: str = ""
    priority: Int32 | None = None
    priority_class_name: str = ""
    preemption_policy: str | None = None
    node_selector: dict[str, str] = {}
    affinity: Affinity | None = None
    tolerations: tuple[Toleration, ...] = ()
    topology_spread_constraints: tuple[TopologySpreadConstraint, ...] = ()
    containers: tuple[Container, ...] = ()
    init_containers: tuple[Container, ...] = ()
    overhead: ResourceList = {}
    resources: ResourceRequirements | None = None
    volumes: tuple[Volume, ...] = ()
    scheduling_gates: tuple[PodSchedulingGate, ...] = ()
    scheduling_group: PodSchedulingGroup | None = None
    resource_claims: tuple[PodResourceClaim, ...] = ()
    host_network: bool = False
    host_users: bool | None = None
    termination_grace_period_seconds: Int64 | None = None
    restart_policy: str = ""


class PodCondition(Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    last_transition_time: str | None = None


class ContainerStatus(Part, frozen=True):
    name: str = ""
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}


class PodResourceClaimStatus(Part, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class NodeAllocatableResourceClaimStatus(Part, frozen=True):
    resource_claim_name: str = ""
    containers: tuple[str, ...] = ()
    resources: ResourceList = {}


class PodStatus(Part, frozen=True):
    phase: str = ""
    nominated_node_name: str = ""
    conditions: tuple[PodCondition, ...] = ()
    start_time: str | None = None
    container_statuses: tuple[ContainerStatus, ...] = ()
    init_container_statuses: tuple[ContainerStatus, ...] = ()
    resources: ResourceRequirements | None = None
    allocated_resources: ResourceList = {}
    resource_claim_statuses: tuple[PodResourceClaimStatus, ...] = ()
    node_allocatable_resource_claim_statuses: tuple[NodeAllocatableResourceClaimStatus, ...] = ()


class Pod(Object, frozen=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Pod"

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def priority(self) -> int:
        """The resolved priority; 0 for a pod that bypassed the admission plugin."""
        return self.spec.priority or 0

    @property
    def scheduler_name(self) -> str:
        return self.spec.scheduler_name or DEFAULT_SCHEDULER_NAME

    @property
    def node_name(self) -> str:
        """The node the pod is bound to, or the empty string."""
        return self.spec.node_name

    @property
    def nominated_node_name(self) -> str:
        return self.status.nominated_node_name

    @property
    def pod_group(self) -> str:
        """The key of the PodGroup that the pod belongs to, or the empty string."""
        group = self.spec.scheduling_group
        return "" if group is None else f"{self.metadata.namespace}/{group.pod_group_name}"

    @property
    def is_terminating(self) -> bool:
        """Whether deletion was requested; the pod may still be running."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_terminal(self) -> bool:
        """Whether the pod has ended and holds nothing on its node."""
        return self.status.phase in ("Succeeded", "Failed")


# --- nodes ------------------------------------------------------------------------------------------------------------


class ContainerImage(Part, frozen=True):
    names: tuple[str, ...] = ()
    size_bytes: Int64 = 0


class NodeCondition(Part, frozen=True):
    type: str = ""
    status: str = ""


class NodeSpec(Part, frozen=True):
    unschedulable: bool = False
    taints: tuple[Taint, ...] = ()


class NodeStatus(Part, frozen=True):
    allocatable: ResourceList = {}
    capacity: ResourceList = {}
    images: tuple[ContainerImage, ...] = ()
    conditions: tuple[NodeCondition, ...] = ()
    declared_features: tuple[str, ...] = ()


class Node(Object, frozen=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Node"

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()


class Namespace(Object, frozen=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Namespace"


# --- what owns or guards pods -----------------------------------------------------------------------------------------


class ServiceSpec(Part, frozen=True):
    selector: dict[str, str] = {}


class Service(Object, frozen=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "Service"

    spec: ServiceSpec = ServiceSpec()


class ReplicationControllerSpec(Part, frozen=True):
    selector: dict[str, str] = {}


class ReplicationController(Object, frozen=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "ReplicationController"

    spec: ReplicationControllerSpec = ReplicationControllerSpec()


class ReplicaSetSpec(Part, frozen=True):
    selector: LabelSelector | None = None


class ReplicaSet(Object, frozen=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "ReplicaSet"

    spec: ReplicaSetSpec = ReplicaSetSpec()


class StatefulSetSpec(Part, frozen=True):
    selector: LabelSelector | None = None


class StatefulSet(Object, frozen=True):
    api_version: ClassVar[str] = "apps/v1"
    kind: ClassVar[str] = "StatefulSet"

    spec: StatefulSetSpec = StatefulSetSpec()


class PodDisruptionBudgetSpec(Part, frozen=True):
    selector: LabelSelector | None = None
    min_available: int | str | None = None
    max_unavailable: int | str | None = None


class PodDisruptionBudgetStatus(Part, frozen=True):
    disruptions_allowed: Int32 = 0
    disrupted_pods: dict[str, str] = {}
    observed_generation: int = 0


class PodDisruptionBudget(Object, frozen=True):
    api_version: ClassVar[str] = "policy/v1"
    kind: ClassVar[str] = "PodDisruptionBudget"

    spec: PodDisruptionBudgetSpec = PodDisruptionBudgetSpec()
    status: PodDisruptionBudgetStatus = PodDisruptionBudgetStatus()


class PriorityClass(Object, frozen=True):
    api_version: ClassVar[str] = "scheduling.k8s.io/v1"
    kind: ClassVar[str] = "PriorityClass"

    value: Int32 = 0
    global_default: bool = False
    preemption_policy: str | None = None


# --- storage ----------------------------------------------------------------------------------------------------------


class PersistentVolumeClaimStatus(Part, frozen=True):
    phase: str = ""
    access_modes: tuple[str, ...] = ()
    capacity: ResourceList = {}


class PersistentVolumeClaim(Object, frozen=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolumeClaim"

    spec: PersistentVolumeClaimSpec = PersistentVolumeClaimSpec()
    status: PersistentVolumeClaimStatus = PersistentVolumeClaimStatus()


class VolumeNodeAffinity(Part, frozen=True):
    required: NodeSelector | None = None


class PersistentVolumeSpec(Part, frozen=True):
    capacity: ResourceList = {}
    access_modes: tuple[str, ...] = ()
    claim_ref: ObjectReference | None = None
    storage_class_name: str = ""
    volume_mode: str | None = None
    node_affinity: VolumeNodeAffinity | None = None
    volume_attributes_class_name: str | None = None
    csi: CSIPersistentVolumeSource | None = None
    gce_persistent_disk: GCEPersistentDiskVolumeSource | None = None
    aws_elastic_block_store: AWSElasticBlockStoreVolumeSource | None = None
    cinder: CinderVolumeSource | None = None
    azure_disk: AzureDiskVolumeSource | None = None
    azure_file: AzureFileVolumeSource | None = None
    vsphere_volume: VsphereVirtualDiskVolumeSource | None = None
    portworx_volume: PortworxVolumeSource | None = None


class PersistentVolumeStatus(Part, frozen=True):
    phase: str = ""


class PersistentVolume(Object, frozen=True):
    api_version: ClassVar[str] = "v1"
    kind: ClassVar[str] = "PersistentVolume"

    spec: PersistentVolumeSpec = PersistentVolumeSpec()
    status: PersistentVolumeStatus = PersistentVolumeStatus()


class TopologySelectorLabelRequirement(Part, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class TopologySelectorTerm(Part, frozen=True):
    match_label_expressions: tuple[TopologySelectorLabelRequirement, ...] = ()


class StorageClass(Object, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "StorageClass"

    provisioner: str = ""
    parameters: dict[str, str] = {}
    volume_binding_mode: str | None = None
    allowed_topologies: tuple[TopologySelectorTerm, ...] = ()


class VolumeNodeResources(Part, frozen=True):
    count: Int32 | None = None


class CSINodeDriver(Part, frozen=True):
    name: str = ""
    node_id: str = field(default="", name="nodeID")
    topology_keys: tuple[str, ...] = ()
    allocatable: VolumeNodeResources | None = None


class CSINodeSpec(Part, frozen=True):
    drivers: tuple[CSINodeDriver, ...] = ()


class CSINode(Object, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSINode"

    spec: CSINodeSpec = CSINodeSpec()


class CSIDriverSpec(Part, frozen=True):
    attach_required: bool | None = None
    storage_capacity: bool | None = None
    prevent_pod_scheduling_if_missing: bool | None = None


class CSIDriver(Object, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIDriver"

    spec: CSIDriverSpec = CSIDriverSpec()


class CSIStorageCapacity(Object, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "CSIStorageCapacity"

    node_topology: LabelSelector | None = None
    storage_class_name: str = ""
    capacity: Quantity | None = None
    maximum_volume_size: Quantity | None = None


class VolumeAttachmentSource(Part, frozen=True):
    persistent_volume_name: str | None = None
    inline_volume_spec: PersistentVolumeSpec | None = None


class VolumeAttachmentSpec(Part, frozen=True):
    attacher: str = ""
    node_name: str = ""
    source: VolumeAttachmentSource = VolumeAttachmentSource()


class VolumeAttachmentStatus(Part, frozen=True):
    attached: bool = False


class VolumeAttachment(Object, frozen=True):
    api_version: ClassVar[str] = "storage.k8s.io/v1"
    kind: ClassVar[str] = "VolumeAttachment"

    spec: VolumeAttachmentSpec = VolumeAttachmentSpec()
    status: VolumeAttachmentStatus = VolumeAttachmentStatus()


# --- decoding by kind -------------------------------------------------------------------------------------------------

KINDS: dict[tuple[str, str], type[Object]] = {
    (cls.api_version, cls.kind): cls
    for cls in (
        Pod,
        Node,
        Namespace,
        Service,
        ReplicationController,
        ReplicaSet,
        StatefulSet,
        PersistentVolumeClaim,
        PersistentVolume,
        StorageClass,
        CSINode,
        CSIDriver,
        CSIStorageCapacity,
        VolumeAttachment,
        PodDisruptionBudget,
        PriorityClass,
        DeviceClass,
        DeviceTaintRule,
        ResourceClaim,
        ResourceClaimTemplate,
        ResourceSlice,
        PodGroup,
        Workload,
    )
}


def decode(data: bytes | Mapping[str, object]) -> Object:
    """The object in ``data``, as the class of its apiVersion and kind."""
    api_version, kind = kind_of(data)
    cls = KINDS.get((api_version, kind))
    if cls is None:
        raise InvalidObject(kind or "object", "", "kind", _unknown_kind(api_version, kind))
    return decode_as(cls, data)


def _unknown_kind(api_version: str, kind: str) -> str:
    known = sorted(version for version, name in KINDS if name == kind)
    if known:
        return f"apiVersion {api_version!r} is not known; use {known[0]!r}"
    return f"kind {kind!r} (apiVersion {api_version!r}) is none that scheduling reads"
