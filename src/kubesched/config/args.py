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
    weight: Int64 = 1


DEFAULT_RESOURCES = (ResourceSpec(name="cpu"), ResourceSpec(name="memory"))


class UtilizationShapePoint(Section, frozen=True, kw_only=True):
    utilization: Int32 = 0
    score: Int32 = 0


class RequestedToCapacityRatioParam(Section, frozen=True, kw_only=True):
    shape: tuple[UtilizationShapePoint, ...] = ()


class ScoringStrategy(Section, frozen=True, kw_only=True):
    type: ScoringStrategyType
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES
    requested_to_capacity_ratio: RequestedToCapacityRatioParam | None = None


class DefaultPreemptionArgs(Args, frozen=True, kw_only=True):
    min_candidate_nodes_percentage: Int32 = 10
    min_candidate_nodes_absolute: Int32 = 100


FILTER_TIMEOUT = Duration.of(10)
BINDING_TIMEOUT = Duration.of(600)


class DynamicResourcesArgs(Args, frozen=True, kw_only=True):
    filter_timeout: Duration | None = None
    """None if the gate DRASchedulerFilterTimeout is off; otherwise FILTER_TIMEOUT by default."""
    binding_timeout: Duration | None = None
    """None if binding conditions are off; otherwise BINDING_TIMEOUT by default."""


class InterPodAffinityArgs(Args, frozen=True, kw_only=True):
    hard_pod_affinity_weight: Int32 = 1
    ignore_preferred_terms_of_existing_pods: bool = False


class NodeAffinityArgs(Args, frozen=True, kw_only=True):
    added_affinity: NodeAffinity | None = None


class NodeResourcesBalancedAllocationArgs(Args, frozen=True, kw_only=True):
    resources: tuple[ResourceSpec, ...] = DEFAULT_RESOURCES


class NodeResourcesFitArgs(Args, frozen=True, kw_only=True):
    ignored_resources: tuple[str, ...] = ()
    ignored_resource_groups: tuple[str, ...] = ()
    scoring_strategy: ScoringStrategy = ScoringStrategy(type="LeastAllocated")


class PodTopologySpreadArgs(Args, frozen=True, kw_only=True):
    default_constraints: tuple[TopologySpreadConstraint, ...] = ()
    defaulting_type: Literal["System", "List"] = "System"


class VolumeBindingArgs(Args, frozen=True, kw_only=True):
    bind_timeout_seconds: Int64 = 600
    shape: tuple[UtilizationShapePoint, ...] = ()


ARGS: dict[str, type[Args]] = {cls.__name__.removesuffix("Args"): cls for cls in Args.__subclasses__()}
"""Built-in plugin name → the type of its arguments."""
