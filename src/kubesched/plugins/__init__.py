"""kube-scheduler's default plugins, one module each, in the order in which they are enabled."""

from kubesched.framework.registry import BUILT_IN, CONTRIB, Origin, Registry
from kubesched.plugins.default_binder import DefaultBinder
from kubesched.plugins.default_preemption import DefaultPreemption
from kubesched.plugins.dynamic_resources import DynamicResources
from kubesched.plugins.gang_scheduling import GangScheduling
from kubesched.plugins.image_locality import ImageLocality
from kubesched.plugins.inter_pod_affinity import InterPodAffinity
from kubesched.plugins.node_affinity import NodeAffinity
from kubesched.plugins.node_declared_features import NodeDeclaredFeatures
from kubesched.plugins.node_name import NodeName
from kubesched.plugins.node_ports import NodePorts
from kubesched.plugins.node_resources import NodeResourcesBalancedAllocation, NodeResourcesFit
from kubesched.plugins.node_unschedulable import NodeUnschedulable
from kubesched.plugins.node_volume_limits import NodeVolumeLimits
from kubesched.plugins.pod_topology_spread import PodTopologySpread
from kubesched.plugins.priority_sort import PrioritySort
from kubesched.plugins.scheduling_gates import SchedulingGates
from kubesched.plugins.taint_toleration import TaintToleration
from kubesched.plugins.topology_placement import PodGroupPodsCount, TopologyPlacementGenerator
from kubesched.plugins.volume_binding import VolumeBinding
from kubesched.plugins.volume_restrictions import VolumeRestrictions
from kubesched.plugins.volume_zone import VolumeZone

IN_TREE = (
    SchedulingGates,
    PrioritySort,
    NodeUnschedulable,
    NodeName,
    TaintToleration,
    NodeAffinity,
    NodePorts,
    NodeResourcesFit,
    VolumeRestrictions,
    NodeVolumeLimits,
    VolumeBinding,
    VolumeZone,
    PodTopologySpread,
    InterPodAffinity,
    DynamicResources,
    DefaultPreemption,
    NodeResourcesBalancedAllocation,
    ImageLocality,
    DefaultBinder,
    NodeDeclaredFeatures,
    GangScheduling,
    TopologyPlacementGenerator,
    PodGroupPodsCount,
)


OFFERED = {
    "CapacityScheduling": "kubesched.contrib.capacity_scheduling:CapacityScheduling",
    "Coscheduling": "kubesched.contrib.coscheduling:Coscheduling",
    "LoadVariationRiskBalancing": "kubesched.contrib.load_variation_risk_balancing:LoadVariationRiskBalancing",
    "LowRiskOverCommitment": "kubesched.contrib.low_risk_over_commitment:LowRiskOverCommitment",
    "NetworkOverhead": "kubesched.contrib.network_overhead:NetworkOverhead",
    "NodeMetadata": "kubesched.contrib.node_metadata:NodeMetadata",
    "NodeResourceTopologyMatch": "kubesched.contrib.node_resource_topology_match:NodeResourceTopologyMatch",
    "NodeResourcesAllocatable": "kubesched.contrib.node_resources_allocatable:NodeResourcesAllocatable",
    "Peaks": "kubesched.contrib.peaks:Peaks",
    "PodState": "kubesched.contrib.pod_state:PodState",
    "PreemptionToleration": "kubesched.contrib.preemption_toleration:PreemptionToleration",
    "QOSSort": "kubesched.contrib.qos_sort:QOSSort",
    "TargetLoadPacking": "kubesched.contrib.target_load_packing:TargetLoadPacking",
    "TopologicalSort": "kubesched.contrib.topological_sort:TopologicalSort",
}
"""The plugins of scheduler-plugins: known by name, off by default, and imported only when a profile enables one."""


def in_tree_registry() -> Registry:
    """A new registry with the plugins that ship with kubesched, to which others may be added."""
    registry = Registry(IN_TREE, Origin(BUILT_IN))
    registry.offer(OFFERED, Origin(CONTRIB))
    return registry
