"""Workloads and pod groups: the kinds of scheduling.k8s.io/v1alpha2, cut down to the fields that scheduling reads.

A Workload has templates of pod groups. A PodGroup is a set of pods that are scheduled together; its pods name it in
`spec.schedulingGroup`.
"""

from typing import ClassVar

from kubesched.api.meta import Int32, Int64, Object, Part

API_GROUP = "scheduling.k8s.io"
API_VERSION = f"{API_GROUP}/v1alpha2"

POD_GROUP_SCHEDULED = "PodGroupScheduled"
DISRUPTED_TOGETHER = "PodGroup"
"""The disruption mode of a group that is preempted as a whole."""


class BasicSchedulingPolicy(Part, frozen=True):
    pass


class GangSchedulingPolicy(Part, frozen=True):
    min_count: Int32 = 0


class PodGroupSchedulingPolicy(Part, frozen=True):
    basic: BasicSchedulingPolicy | None = None
    gang: GangSchedulingPolicy | None = None


class TopologyConstraint(Part, frozen=True):
    key: str = ""


class PodGroupSchedulingConstraints(Part, frozen=True):
    topology: tuple[TopologyConstraint, ...] = ()


class PodGroupTemplate(Part, frozen=True):
    name: str = ""
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None


class WorkloadSpec(Part, frozen=True):
    pod_group_templates: tuple[PodGroupTemplate, ...] = ()


class Workload(Object, frozen=True):
    api_version: ClassVar[str] = API_VERSION
    kind: ClassVar[str] = "Workload"

    spec: WorkloadSpec = WorkloadSpec()


class PodGroupResourceClaim(Part, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None
    resource_claim_template_name: str | None = None


class PodGroupResourceClaimStatus(Part, frozen=True):
    name: str = ""
    resource_claim_name: str | None = None


class PodGroupSpec(Part, frozen=True):
    scheduling_policy: PodGroupSchedulingPolicy = PodGroupSchedulingPolicy()
    scheduling_constraints: PodGroupSchedulingConstraints | None = None
    disruption_mode: str | None = None
    priority_class_name: str = ""
    priority: Int32 | None = None
    resource_claims: tuple[PodGroupResourceClaim, ...] = ()


class Condition(Part, frozen=True):
    type: str = ""
    status: str = ""
    observed_generation: Int64 = 0
    last_transition_time: str | None = None
    reason: str = ""
    message: str = ""


class PodGroupStatus(Part, frozen=True):
    conditions: tuple[Condition, ...] = ()
    resource_claim_statuses: tuple[PodGroupResourceClaimStatus, ...] = ()


class PodGroup(Object, frozen=True):
    api_version: ClassVar[str] = API_VERSION
    kind: ClassVar[str] = "PodGroup"

    spec: PodGroupSpec = PodGroupSpec()
    status: PodGroupStatus = PodGroupStatus()

    @property
    def priority(self) -> int:
        """The resolved priority; 0 for a group that has none."""
        return self.spec.priority or 0

    @property
    def min_count(self) -> int | None:
        """How many pods must be scheduled together; None without a gang policy."""
        gang = self.spec.scheduling_policy.gang
        return None if gang is None else gang.min_count

    @property
    def topology_key(self) -> str:
        """The node label within one value of which all pods go; empty without a constraint."""
        constraints = self.spec.scheduling_constraints
        return constraints.topology[0].key if constraints is not None and constraints.topology else ""
