"""The arguments of the built-in plugins, with kube-scheduler's defaults.

They live with the configuration rather than with the plugins because a file is checked, completed and written back
before any plugin exists. A plugin that is not listed here gets its arguments as the file has them.
"""

from typing import Literal

from kubesched.api.objects import NodeAffinity, TopologySpreadConstraint
from kubesched.config.duration import Duration
from kubesched.config.types import Int32, Int64, Section

ScoringStrategyType = Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"]


class Args(Section, frozen=True, kw_only=True):
    """The base of all arguments; a class's name is the ``kind`` that files give it."""


class ResourceSpec(Section, frozen=True, kw_only=True):
    name: str = ""
    """Name of the resource."""
    weight: Int64 = 1
    """How much the resource counts."""


DEFAULT_RESOURCES = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(Section, frozen=True, kw_only=True):
    utilization: Int32 = 0
    """Utilisation in percent, 0 to 100."""
    score: Int32 = 0
    """The score at this utilisation, 0 to 10."""


class RequestedToCapacityRatioParam(Section, frozen=True, kw_only=True):
    shape: tuple[UtilizationShapePoint, ...] = ()
    """Points of the function from utilisation to score."""


class ScoringStrategy(Section, frozen=True, kw_only=True):
    type: ScoringStrategyType
    """Which nodes score high: empty ones, full ones, or by `requestedToCapacityRatio`."""
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    """Resources that count, with weights."""
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None
    """The function of RequestedToCapacityRatio."""


class DefaultPreemptionArgs(Args, frozen=True, kw_only=True):
    min_candidate_nodes_percentage: Int32 = 10
    """Candidates for preemption to look for at least, in percent of all nodes."""
    min_candidate_nodes_absolute: Int32 = 100
    """Candidates for preemption to look for at least, as a number."""


FILTER_TIMEOUT = Duration.of(10)
BINDING_TIMEOUT = Duration.of(600)


class DynamicResourcesArgs(Args, frozen=True, kw_only=True):
    filter_timeout: Duration | None = None
    """Timeout of the search for devices on a node: 10s, or none if the gate DRASchedulerFilterTimeout is off."""
    binding_timeout: Duration | None = None
    """How long to wait for the binding conditions of devices: 10m, or none if their gates are off."""


class InterPodAffinityArgs(Args, frozen=True, kw_only=True):
    hard_pod_affinity_weight: Int32 = 1
    """How much the required affinity of running pods counts in scores, 0 to 100."""
    ignore_preferred_terms_of_existing_pods: bool = False
    """Whether to ignore preferred terms of running pods if the new pod has none."""


class NodeAffinityArgs(Args, frozen=True, kw_only=True):
    added_affinity: NodeAffinity | None = None
    """Node affinity that all pods of the profile get in addition to their own."""


class NodeResourcesBalancedAllocationArgs(Args, frozen=True, kw_only=True):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    """Resources whose use should be balanced."""


class NodeResourcesFitArgs(Args, frozen=True, kw_only=True):
    ignored_resources: tuple[str, ...] = ()
    """Extended resources that are not checked."""
    ignored_resource_groups: tuple[str, ...] = ()
    """Groups of extended resources that are not checked: `example.com` for `example.com/gpu`."""
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")
    """How nodes are scored."""


class PodTopologySpreadArgs(Args, frozen=True, kw_only=True):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    """Constraints for pods that have none of their own; they have no label selector."""
    defaulting_type: Literal["System", "List"] = "System"
    """`System` for kube-scheduler's own default constraints, `List` for `defaultConstraints`."""


class VolumeBindingArgs(Args, frozen=True, kw_only=True):
    bind_timeout_seconds: Int64 = 600
    """How long to wait until volumes are bound."""
    shape: tuple[UtilizationShapePoint, ...] = ()
    """Function from the utilisation of storage to a score. It needs the gate StorageCapacityScoring."""


ARGS: dict[str, type[Args]] = {cls.__name__.removesuffix("Args"): cls for cls in Args.__subclasses__()}
"""Built-in plugin name → the type of its arguments."""
