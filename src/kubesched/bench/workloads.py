"""The workloads: the nodes, the pods that run before the measurement starts, and the pods that are measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.builders import affinity, node, node_term, pod, pod_term, spread

ZONES = 10


@dataclass(frozen=True, slots=True)
class BenchWorkload:
    """Nodes, pods that run before the measurement starts, and pods that are measured."""

    name: str
    nodes: int
    initial: int
    measured: int
    template: Callable[[int], dict[str, Any]]
    """The arguments with which the i-th measured pod is built."""
    initial_template: Callable[[int], dict[str, Any]] | None = None
    node_cpu: str = "32"
    preempts: bool = False
    devices: int = 0
    """Devices on each node. If there are any, every pod has its own claim for one of them."""
    contrib: bool = False
    """Whether the plugin of this name is enabled, with what `contrib_workloads` prepares for it."""


def make_node(index: int, cpu: str) -> api.Node:
    """A node with a zone, a few labels and ordinary capacity."""
    return node(
        f"node-{index:05d}",
        cpu=cpu,
        memory="64Gi",
        resources={"ephemeral-storage": "100Gi"},
        zone=f"zone-{index % ZONES}",
        labels={"disk": "ssd" if index % 2 else "hdd"},
    )


def make_pod(prefix: str, index: int, template: dict[str, Any]) -> api.Pod:
    """A pod from a template."""
    name = f"{prefix}-{index}"
    return pod(name, uid=name, **template)


DRIVER = "gpu.example.com"


def device_objects(workload: BenchWorkload) -> Iterator[api.Object]:
    """The device class and the devices of every node."""
    if workload.devices:
        selector = dra.DeviceSelector(cel=dra.CELDeviceSelector(expression=f'device.driver == "{DRIVER}"'))
        yield api.DeviceClass(metadata=api.ObjectMeta(name="gpu"), spec=dra.DeviceClassSpec(selectors=(selector,)))
    for index in range(workload.nodes if workload.devices else 0):
        name = f"node-{index:05d}"
        devices = tuple(dra.Device(name=f"gpu-{number}") for number in range(workload.devices))
        pool = dra.ResourcePool(name=name, generation=1, resource_slice_count=1)
        spec = dra.ResourceSliceSpec(driver=DRIVER, pool=pool, node_name=name, devices=devices)
        yield api.ResourceSlice(metadata=api.ObjectMeta(name=f"{name}-gpus"), spec=spec)


def claiming(plain_pod: api.Pod) -> tuple[api.ResourceClaim, api.Pod]:
    """A pod that claims a device through a template, and the claim that a controller would have created for it."""
    exactly = dra.ExactDeviceRequest(device_class_name="gpu", allocation_mode=dra.EXACT_COUNT, count=1)
    request = dra.DeviceRequest(name="gpu", exactly=exactly)
    owner = api.OwnerReference(api_version="v1", kind="Pod", name=plain_pod.name, uid=plain_pod.uid, controller=True)
    name = f"{plain_pod.name}-gpu"
    metadata = api.ObjectMeta(name=name, namespace=plain_pod.namespace, owner_references=(owner,))
    spec = dra.ResourceClaimSpec(devices=dra.DeviceClaim(requests=(request,)))
    reference = api.PodResourceClaim("gpu", resource_claim_template_name="gpu")
    statuses = (api.PodResourceClaimStatus("gpu", name),)
    pod_spec = msgspec.structs.replace(plain_pod.spec, resource_claims=(reference,))
    status = msgspec.structs.replace(plain_pod.status, resource_claim_statuses=statuses)
    return (
        api.ResourceClaim(metadata=metadata, spec=spec),
        msgspec.structs.replace(plain_pod, spec=pod_spec, status=status),
    )


def _template(app: str, cpu: str = "100m", memory: str = "128Mi", **more: Any) -> dict[str, Any]:
    return {"labels": {"app": app}, "cpu": cpu, "memory": memory, "image": "nginx", **more}


def plain(_: int) -> dict[str, Any]:
    """Pods with CPU and memory requests only."""
    return _template("plain")


def node_affinity(_: int) -> dict[str, Any]:
    """Pods that fit half of the nodes."""
    return _template("affine", affinity=affinity(nodes=[node_term(("disk", "In", "ssd"))]))


def anti_affinity(_: int) -> dict[str, Any]:
    """Pods of which a host runs at most one."""
    return _template("lonely", affinity=affinity(away=[pod_term({"app": "lonely"})]))


def spread_hard(_: int) -> dict[str, Any]:
    """Pods that must be spread evenly over zones."""
    return _template("spread", spread=[spread({"app": "spread"}, skew=5)])


def spread_soft(_: int) -> dict[str, Any]:
    """Pods that are spread evenly over zones if possible."""
    return _template("spread", spread=[spread({"app": "spread"}, skew=5, soft=True)])


def preferred_affinity(_: int) -> dict[str, Any]:
    """Pods that prefer the host of another such pod."""
    return _template("sociable", affinity=affinity(prefer_near=[(1, pod_term({"app": "sociable"}))]))


def mixed_templates(index: int) -> dict[str, Any]:
    """Pods from ten templates in turn, of different sizes, some with node selectors, spreading or affinity."""
    kind = index % 10
    special = {0: node_affinity, 1: anti_affinity, 2: spread_hard, 3: spread_soft, 4: preferred_affinity}
    if kind in special:
        return special[kind](index)
    return _template(f"app-{kind}", cpu=f"{kind * 50}m", memory=f"{kind * 64}Mi")


def low_priority(_: int) -> dict[str, Any]:
    """Pods of which four fill a node."""
    return _template("low", cpu="900m", memory="500Mi", priority=0)


def high_priority(_: int) -> dict[str, Any]:
    """Pods that need most of a node, so they have to preempt others."""
    return _template("high", cpu="3000m", memory="500Mi", priority=10)


def in_gang(index: int) -> dict[str, Any]:
    """Pods of groups of a hundred."""
    return _template("gang") | {"labels": {"scheduling.x-k8s.io/pod-group": f"gang-{index // 100}"}}


def guaranteed(_: int) -> dict[str, Any]:
    """Pods whose limits equal their requests."""
    return {"labels": {"app": "guaranteed"}, "limits": {"cpu": "100m", "memory": "128Mi"}}


def of_application(index: int) -> dict[str, Any]:
    """Pods of two workloads, of which one depends on the other."""
    workload = ("frontend", "database")[index % 2]
    labels = {"appgroup.diktyo.x-k8s.io": "shop", "appgroup.diktyo.x-k8s.io.workload": workload}
    return _template("shop") | {"labels": labels}


CONTRIB_TEMPLATES: dict[str, Callable[[int], dict[str, Any]]] = {
    "Coscheduling": in_gang,
    "CapacityScheduling": plain,
    "NodeResourceTopologyMatch": guaranteed,
    "NodeResourcesAllocatable": plain,
    "TargetLoadPacking": plain,
    "LoadVariationRiskBalancing": plain,
    "LowRiskOverCommitment": plain,
    "Peaks": plain,
    "TopologicalSort": of_application,
    "NetworkOverhead": of_application,
    "PreemptionToleration": plain,
    "PodState": plain,
    "QOSSort": plain,
    "NodeMetadata": plain,
}

WORKLOADS: Sequence[BenchWorkload] = (
    BenchWorkload("plain", 500, 1000, 3000, plain),
    BenchWorkload("plain", 5000, 1000, 3000, plain),
    BenchWorkload("plain", 100000, 1000, 3000, plain),
    BenchWorkload("node-affinity", 5000, 1000, 3000, node_affinity),
    BenchWorkload("anti-affinity", 5000, 1000, 3000, anti_affinity),
    BenchWorkload("spread-hard", 5000, 1000, 3000, spread_hard),
    BenchWorkload("spread-hard", 100000, 1000, 1000, spread_hard),
    BenchWorkload("spread-soft", 5000, 1000, 3000, spread_soft),
    BenchWorkload("preferred-affinity", 5000, 1000, 3000, preferred_affinity),
    BenchWorkload("mixed-templates", 5000, 1000, 3000, mixed_templates),
    *(BenchWorkload(name, 5000, 1000, 1000, template, contrib=True) for name, template in CONTRIB_TEMPLATES.items()),
    BenchWorkload("preemption", 1000, 4000, 500, high_priority, low_priority, node_cpu="4", preempts=True),
)
