"""example: logs each node's resources and accepts every pod."""

from __future__ import annotations

from kubesched import CycleState, NodeInfo, Plugin, Pod, Status


class Example(Plugin):
    """Logs each node's CPU and memory in Filter."""

    name = "example"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status | None:
        """Level 0, as klog.InfoS: shown at every verbosity. CPU is in thousandths, memory in bytes."""
        offers = node.allocatable
        self.handle.log(0, "Filter", pod=pod.name, node=node.name, cpu=offers.milli_cpu, memory=offers.memory)
        return None
