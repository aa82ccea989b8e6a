"""What can be chosen about a simulated cluster, in the words of a scenario file."""

from __future__ import annotations

import msgspec

from kubesched.config.duration import Duration
from kubesched.controlplane.embedded import ClusterSettings
from kubesched.controlplane.kubelet import KubeletSettings
from kubesched.controlplane.kubelet_nodes import NodeSettings

HALF_A_SECOND = Duration.parse("500ms")


class ClusterOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The ``cluster`` of a scenario."""

    pod_start_delay: Duration = HALF_A_SECOND
    """From the binding of a pod to its running."""
    pod_stop_delay: Duration = Duration.parse("200ms")
    """From the deletion of a pod to its being gone."""
    pod_run_time: Duration = Duration.of(5)
    """How long a pod runs that ends and does not say after how long."""
    node_cpu: str = "4"
    node_memory: str = "8Gi"
    node_pods: str = "110"
    heartbeat: Duration = Duration.of(10)
    """Between two heartbeats of a node; ``0s`` for none, which also means that no node is ever found lost."""
    events: bool = True
    """Whether anybody writes Events."""
    pod_steps: bool = True
    """Whether kubelets write every step of a pod's start or only the last."""

    def for_cluster(self, seed: int) -> ClusterSettings:
        """The same for the embedded cluster."""
        return ClusterSettings(
            kubelet=KubeletSettings(
                start_delay=self.pod_start_delay.seconds,
                stop_delay=self.pod_stop_delay.seconds,
                run_time=self.pod_run_time.seconds,
                every_step=self.pod_steps,
            ),
            node=NodeSettings(
                cpu=self.node_cpu, memory=self.node_memory, pods=self.node_pods, heartbeat=self.heartbeat.seconds
            ),
            events=self.events,
            seed=seed,
        )
