"""What can be chosen about a simulated cluster, in the words of a scenario file."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec

from kubesched.api.quantity import QuantityError, nanos
from kubesched.config.duration import Duration
from kubesched.config.errors import Problem, join
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.kubelet import KubeletSettings
from kubesched.kubelet.nodes import NodeSettings

HALF_A_SECOND = Duration.parse("500ms")


class ClusterOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The ``cluster`` of a scenario."""

    pod_start_delay: Duration = HALF_A_SECOND
    """From the binding of a pod to its running."""
    pod_stop_delay: Duration = Duration.parse("200ms")
    """From the deletion of a pod to its being gone."""
    pod_run_time: Duration = Duration.of(5)
    """How long a pod runs that ends and does not say after how long."""
    node_cpu: object = "4"
    """An amount as Kubernetes writes it, in quotes or not."""
    node_memory: object = "8Gi"
    node_pods: object = "110"
    heartbeat: Duration = Duration.of(10)
    """Between two heartbeats of a node; ``0s`` for none, which also means that no node is ever found lost."""
    events: bool = True
    """Whether anybody writes Events."""
    pod_steps: bool = True
    """Whether kubelets write every step of a pod's start or only the last."""

    def problems(self, path: str) -> Iterator[Problem]:
        """What no cluster can have."""
        for field in msgspec.structs.fields(self):
            value, where = getattr(self, field.name), join(path, field.encode_name)
            if isinstance(value, Duration) and value < 0:
                yield Problem(where, "must not be negative", str(value))
            elif field.type is object and not _is_amount(value):
                yield Problem(where, "is no amount", value, "write a number with a suffix or without, such as 4 or 8Gi")

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
                cpu=str(self.node_cpu),
                memory=str(self.node_memory),
                pods=str(self.node_pods),
                heartbeat=self.heartbeat.seconds,
            ),
            events=self.events,
            seed=seed,
        )


def _is_amount(value: object) -> bool:
    try:
        return isinstance(value, str | int) and not isinstance(value, bool) and nanos(value) >= 0
    except QuantityError:
        return False
