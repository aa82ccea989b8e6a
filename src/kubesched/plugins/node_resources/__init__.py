"""NodeResourcesFit and NodeResourcesBalancedAllocation: what pods request against what nodes have."""

from kubesched.plugins.node_resources.balanced_allocation import NodeResourcesBalancedAllocation
from kubesched.plugins.node_resources.fit import NodeResourcesFit

__all__ = ["NodeResourcesBalancedAllocation", "NodeResourcesFit"]
