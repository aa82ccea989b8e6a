"""Objects as reconcilers read them: only the fields that affect a decision.

A cluster has tens of thousands of pods, and several controllers look at each change. A view is decoded once per change
and shared. Code that writes loads the whole object, so that no field is lost.
"""

from __future__ import annotations

from typing import Any

import msgspec

from kubesched.api import objects as api
from kubesched.api.objects import Part, Toleration
from kubesched.base.annotations import KUBELET


class Owner(Part, frozen=True):
    """A reference to an owner, with the fields that garbage collection needs."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False
    block_owner_deletion: bool = False


class Meta(Part, frozen=True):
    """The metadata that controllers read."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    labels: dict[str, str] = msgspec.field(default_factory=dict)
    annotations: dict[str, str] = msgspec.field(default_factory=dict)
    creation_timestamp: str = ""
    deletion_timestamp: str = ""
    deletion_grace_period_seconds: int = 0
    owner_references: tuple[Owner, ...] = ()
    finalizers: tuple[str, ...] = ()

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name

    @property
    def controller(self) -> Owner | None:
        """The owner that manages the object."""
        for owner in self.owner_references:
            if owner.controller:
                return owner
        return None

    @property
    def being_deleted(self) -> bool:
        """Whether it has a deletion timestamp."""
        return bool(self.deletion_timestamp)


class View(Part, frozen=True):
    """Any object: its identity and its owners."""

    metadata: Meta = Meta()

    @property
    def key(self) -> str:
        return self.metadata.key


class Condition(Part, frozen=True):
    type: str = ""
    status: str = ""
    reason: str = ""
    last_transition_time: str = ""


class ClaimSource(Part, frozen=True):
    claim_name: str = ""


class Volume(Part, frozen=True):
    name: str = ""
    persistent_volume_claim: ClaimSource | None = None
    ephemeral: dict[str, Any] | None = None


class Port(Part, frozen=True):
    name: str = ""
    container_port: int = 0
    protocol: str = "TCP"
    host_port: int = 0
    host_ip: str = msgspec.field(default="", name="hostIP")


class _HttpGet(Part, frozen=True):
    path: str = ""


class Probe(Part, frozen=True):
    """The timing of a probe, and the path that it asks for."""

    http_get: _HttpGet | None = None
    initial_delay_seconds: int = 0
    period_seconds: int = 10
    success_threshold: int = 1
    failure_threshold: int = 3


class _Sleep(Part, frozen=True):
    seconds: int = 0


class _Exec(Part, frozen=True):
    command: tuple[str, ...] = ()


class _Hook(Part, frozen=True):
    sleep: _Sleep | None = None
    exec: _Exec | None = None


class _Lifecycle(Part, frozen=True):
    pre_stop: _Hook | None = None


class Container(Part, frozen=True):
    name: str = ""
    image: str = ""
    image_pull_policy: str = ""
    command: tuple[str, ...] = ()
    args: tuple[str, ...] = ()
    ports: tuple[Port, ...] = ()
    restart_policy: str = ""
    startup_probe: Probe | None = None
    readiness_probe: Probe | None = None
    liveness_probe: Probe | None = None
    lifecycle: _Lifecycle | None = None

    @property
    def command_line(self) -> tuple[str, ...]:
        return (*self.command, *self.args)


class _Expression(Part, frozen=True):
    key: str = ""
    values: tuple[str, ...] = ()


class _Term(Part, frozen=True):
    match_fields: tuple[_Expression, ...] = ()


class _Required(Part, frozen=True):
    node_selector_terms: tuple[_Term, ...] = ()


class _NodeAffinity(Part, frozen=True):
    required_during_scheduling_ignored_during_execution: _Required = _Required()


class _Affinity(Part, frozen=True):
    node_affinity: _NodeAffinity = _NodeAffinity()


class Gate(Part, frozen=True):
    condition_type: str = ""


class PodResourceClaim(Part, frozen=True):
    """One of the claims on devices in a pod's spec: a claim by name, or a template to create one from."""

    name: str = ""
    resource_claim_name: str = ""
    resource_claim_template_name: str = ""


class _SchedulingGroup(Part, frozen=True):
    pod_group_name: str = ""


class PodSpec(Part, frozen=True):
    node_name: str = ""
    service_account_name: str = ""
    restart_policy: str = "Always"
    host_network: bool = False
    hostname: str = ""
    subdomain: str = ""
    active_deadline_seconds: int | None = None
    init_containers: tuple[Container, ...] = ()
    containers: tuple[Container, ...] = ()
    ephemeral_containers: tuple[Container, ...] = ()
    readiness_gates: tuple[Gate, ...] = ()
    tolerations: tuple[Toleration, ...] = ()
    volumes: tuple[Volume, ...] = ()
    resource_claims: tuple[PodResourceClaim, ...] = ()
    scheduling_group: _SchedulingGroup = _SchedulingGroup()
    affinity: _Affinity = _Affinity()

    @property
    def pinned_node(self) -> str:
        """The only node that the pod's affinity allows by name, as in pods of a DaemonSet; empty for other pods."""
        for term in self.affinity.node_affinity.required_during_scheduling_ignored_during_execution.node_selector_terms:
            for field in term.match_fields:
                if field.key == "metadata.name" and len(field.values) == 1:
                    return field.values[0]
        return ""


class ContainerStatus(Part, frozen=True):
    restart_count: int = 0


class ResourceClaimStatus(Part, frozen=True):
    """The claim that was created for one of a pod's claims; an empty name if none is needed."""

    name: str = ""
    resource_claim_name: str = ""


class ExtendedClaimStatus(Part, frozen=True):
    resource_claim_name: str = ""


class PodStatus(Part, frozen=True):
    phase: str = "Pending"
    reason: str = ""
    pod_ip: str = msgspec.field(default="", name="podIP")
    start_time: str = ""
    observed_generation: int = 0
    conditions: tuple[Condition, ...] = ()
    container_statuses: tuple[ContainerStatus, ...] = ()
    ephemeral_container_statuses: tuple[ContainerStatus, ...] = ()
    resource_claim_statuses: tuple[ResourceClaimStatus, ...] = ()
    extended_resource_claim_status: ExtendedClaimStatus | None = None


class Pod(View, frozen=True):
    """A pod."""

    spec: PodSpec = PodSpec()
    status: PodStatus = PodStatus()

    @property
    def is_ready(self) -> bool:
        return any(each.type == "Ready" and each.status == "True" for each in self.status.conditions)

    @property
    def containers_ready(self) -> bool:
        return any(each.type == "ContainersReady" and each.status == "True" for each in self.status.conditions)

    @property
    def passes_gates(self) -> bool:
        """Whether the conditions of all readiness gates are true."""
        true = {each.type for each in self.status.conditions if each.status == "True"}
        return all(gate.condition_type in true for gate in self.spec.readiness_gates)

    @property
    def ready_since(self) -> str:
        return next((each.last_transition_time for each in self.status.conditions if each.type == "Ready"), "")

    @property
    def has_ended(self) -> bool:
        return self.status.phase in ("Succeeded", "Failed")

    @property
    def is_active(self) -> bool:
        """Whether it counts as a replica: neither ended nor being deleted."""
        return not self.has_ended and not self.metadata.being_deleted

    @property
    def restarts(self) -> int:
        return sum(each.restart_count for each in self.status.container_statuses)

    @property
    def claims(self) -> tuple[str, ...]:
        """The names of the claims it uses. Claims of ephemeral volumes are named after the pod."""
        named = [each.persistent_volume_claim.claim_name for each in self.spec.volumes if each.persistent_volume_claim]
        ephemeral = [f"{self.metadata.name}-{each.name}" for each in self.spec.volumes if each.ephemeral is not None]
        return (*named, *ephemeral)

    def device_claim(self, claim: PodResourceClaim) -> str | None:
        """The name of the ResourceClaim for one of its claims: empty if none is needed, None if not yet known."""
        return _device_claim(claim, self.status.resource_claim_statuses)

    @property
    def pod_group(self) -> str:
        """The key of its PodGroup; empty if it has none."""
        name = self.spec.scheduling_group.pod_group_name
        return f"{self.metadata.namespace}/{name}" if name else ""

    @property
    def uses_devices(self) -> bool:
        return bool(self.spec.resource_claims) or self.status.extended_resource_claim_status is not None

    @property
    def device_claims(self) -> tuple[str, ...]:
        """The known names of its ResourceClaims, with the one that the scheduler made for extended resources."""
        if not self.uses_devices:
            return ()
        named = [self.device_claim(each) for each in self.spec.resource_claims]
        extended = self.status.extended_resource_claim_status
        return tuple(filter(None, (*named, extended.resource_claim_name if extended else None)))


class _WorkloadReference(Part, frozen=True):
    workload_name: str = ""


class _TemplateReference(Part, frozen=True):
    workload: _WorkloadReference = _WorkloadReference()


class PodGroupSpec(Part, frozen=True):
    """The fields of a group's spec that controllers read."""

    pod_group_template_ref: _TemplateReference = _TemplateReference()
    resource_claims: tuple[PodResourceClaim, ...] = ()


class PodGroupStatus(Part, frozen=True):
    resource_claim_statuses: tuple[ResourceClaimStatus, ...] = ()


class PodGroup(View, frozen=True):
    """A group of pods that are scheduled together."""

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    def device_claim(self, claim: PodResourceClaim) -> str | None:
        """The name of the ResourceClaim for one of its claims: empty if none is needed, None if not yet known."""
        return _device_claim(claim, self.status.resource_claim_statuses)

    @property
    def device_claims(self) -> tuple[str, ...]:
        """The known names of its ResourceClaims."""
        return tuple(filter(None, map(self.device_claim, self.spec.resource_claims)))


def _device_claim(claim: PodResourceClaim, statuses: tuple[ResourceClaimStatus, ...]) -> str | None:
    if not claim.resource_claim_template_name:
        return claim.resource_claim_name
    return next((each.resource_claim_name for each in statuses if each.name == claim.name), None)


class Taint(api.Taint, frozen=True):
    """A taint with the time it was added."""

    time_added: str = ""


class NodeSpec(Part, frozen=True):
    unschedulable: bool = False
    pod_cidr: str = msgspec.field(default="", name="podCIDR")
    taints: tuple[Taint, ...] = ()


class NodeStatus(Part, frozen=True):
    capacity: dict[str, Any] = msgspec.field(default_factory=dict)
    conditions: tuple[Condition, ...] = ()

    @property
    def devices(self) -> dict[str, Any]:
        """Extended resources, such as GPUs."""
        return {name: amount for name, amount in self.capacity.items() if "/" in name}


class Node(View, frozen=True):
    """A node."""

    spec: NodeSpec = NodeSpec()
    status: NodeStatus = NodeStatus()

    @property
    def readiness(self) -> str:
        """True, False or Unknown; empty before the first status report."""
        return next((each.status for each in self.status.conditions if each.type == "Ready"), "")

    @property
    def kubelet_stopped(self) -> bool:
        """Whether an annotation silences its kubelet."""
        return self.metadata.annotations.get(KUBELET) == "stopped"
