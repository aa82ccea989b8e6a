"""The options of a simulated cluster, as a scenario file writes them."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum

import msgspec

from kubesched.api.quantity import QuantityError, nanos
from kubesched.config.duration import Duration
from kubesched.config.errors import Problem, join
from kubesched.embedded import ClusterSettings
from kubesched.kubelet.devices import DeviceTextError, parse_devices
from kubesched.kubelet.nodes import NodeSettings
from kubesched.kubelet.settings import KubeletSettings
from kubesched.simulator.autoscaler import NodeGroup

HALF_A_SECOND = Duration.parse("500ms")


class ReplayMode(Enum):
    """What of a recording is replayed."""

    RECORDED = "recorded"
    """Everything, exactly as it was: nothing is decided here."""
    ARRIVALS = "arrivals"
    """Arrivals, with our own decisions about them."""


class ClusterOptions(msgspec.Struct, frozen=True, rename="camel"):
    """The ``cluster`` field of a scenario."""

    pod_start_delay: Duration = HALF_A_SECOND
    """Time from binding a pod until it runs."""
    pod_stop_delay: Duration = Duration.parse("200ms")
    """Time from deleting a pod until it is gone."""
    pod_run_time: Duration = Duration.of(5)
    """Run time of pods that end and have no run-time annotation."""
    node_cpu: object = "4"
    """A Kubernetes quantity, quoted or not."""
    node_memory: object = "8Gi"
    node_pods: object = "110"
    node_devices: str = ""
    """Devices of nodes without an annotation for them, such as ``gpu.example.com=4:memory=80Gi``."""
    heartbeat: Duration = Duration.of(10)
    """Interval between heartbeats of a node. With ``0s`` there are none, and no node is ever considered lost."""
    events: bool = True
    """Whether Events are written."""
    pod_steps: bool = True
    """Whether kubelets write every step of a pod's start, or only the last."""
    ended_pods: int = 0
    """How many pods that have ended are kept; 0 keeps all."""

    node_groups: tuple[NodeGroup, ...] = ()
    """Groups of nodes that come and go as they are needed."""

    def problems(self, path: str) -> Iterator[Problem]:
        """Yield invalid values."""
        for index, group in enumerate(self.node_groups):
            yield from group.problems(f"{join(path, 'nodeGroups')}[{index}]")
        if len({group.name for group in self.node_groups}) < len(self.node_groups):
            yield Problem(join(path, "nodeGroups"), "two groups have the same name")
        for field in msgspec.structs.fields(self):
            value, where = getattr(self, field.name), join(path, field.encode_name)
            if field.type is object and not _is_quantity(value):
                yield Problem(
                    where, "is not a quantity", value, "write a number with or without a suffix, such as 4 or 8Gi"
                )
            elif field.type in (Duration, int) and value < 0:
                yield Problem(where, "must not be negative", str(value))

        try:
            parse_devices(self.node_devices)
        except DeviceTextError as error:
            yield Problem(join(path, "nodeDevices"), str(error))

    def for_cluster(self, seed: int, *, workloads: bool = True) -> ClusterSettings:
        """Convert the options to settings of the embedded cluster."""
        return ClusterSettings(
            workloads=workloads,
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
                devices=self.node_devices,
                heartbeat=self.heartbeat.seconds,
            ),
            events=self.events,
            ended_pods=self.ended_pods,
            seed=seed,
        )


def _is_quantity(value: object) -> bool:
    try:
        return isinstance(value, str | int) and not isinstance(value, bool) and nanos(value) >= 0
    except QuantityError:
        return False
