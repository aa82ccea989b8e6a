"""The workloads: what the nodes look like, what is there before, and which pods are measured."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.api import objects as api

ZONES = 10
HOSTNAME = "kubernetes.io/hostname"
ZONE = "topology.kubernetes.io/zone"


@dataclass(frozen=True, slots=True)
class Workload:
    """Nodes, pods that are there before the clock starts, and pods that are measured."""

    name: str
    nodes: int
    initial: int
    measured: int
    template: Callable[[int], dict[str, Any]]
    """The spec and labels of the i-th measured pod."""
    initial_template: Callable[[int], dict[str, Any]] | None = None
    node_cpu: str = "32"
    preempts: bool = False


def make_node(index: int, cpu: str) -> api.Node:
    """A node with a zone, a few labels and ordinary capacity."""
    resources = {"cpu": cpu, "memory": "64Gi", "pods": "110", "ephemeral-storage": "100Gi"}
    name = f"node-{index:05d}"
    return api.decode_as(
        api.Node,
        {
            "metadata": {
                "name": name,
                "labels": {HOSTNAME: name, ZONE: f"zone-{index % ZONES}", "disk": "ssd" if index % 2 else "hdd"},
            },
            "status": {"allocatable": resources, "capacity": resources},
        },
    )


def make_pod(prefix: str, index: int, template: dict[str, Any]) -> api.Pod:
    """A pod of a template."""
    name = f"{prefix}-{index}"
    return api.decode_as(
        api.Pod,
        {
            "metadata": {"name": name, "namespace": "default", "uid": name, "labels": template.get("labels", {})},
            "spec": template["spec"],
        },
    )


def _spec(cpu: str = "100m", memory: str = "128Mi", **more: Any) -> dict[str, Any]:
    requests = {"cpu": cpu, "memory": memory}
    return {"containers": [{"name": "c", "image": "nginx", "resources": {"requests": requests}}], **more}


def plain(_: int) -> dict[str, Any]:
    """Cpu and memory, nothing else."""
    return {"labels": {"app": "plain"}, "spec": _spec()}


def node_affinity(_: int) -> dict[str, Any]:
    """Half of the nodes will do."""
    term = {"matchExpressions": [{"key": "disk", "operator": "In", "values": ["ssd"]}]}
    required = {"nodeSelectorTerms": [term]}
    affinity = {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}
    return {"labels": {"app": "affine"}, "spec": _spec(affinity=affinity)}


def anti_affinity(_: int) -> dict[str, Any]:
    """At most one per host."""
    term = {"labelSelector": {"matchLabels": {"app": "lonely"}}, "topologyKey": HOSTNAME}
    affinity = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}
    return {"labels": {"app": "lonely"}, "spec": _spec(affinity=affinity)}


def _spread(action: str) -> dict[str, Any]:
    constraint = {
        "maxSkew": 5,
        "topologyKey": ZONE,
        "whenUnsatisfiable": action,
        "labelSelector": {"matchLabels": {"app": "spread"}},
    }
    return {"labels": {"app": "spread"}, "spec": _spec(topologySpreadConstraints=[constraint])}


def spread_hard(_: int) -> dict[str, Any]:
    """Evenly over zones, or not at all."""
    return _spread("DoNotSchedule")


def spread_soft(_: int) -> dict[str, Any]:
    """Evenly over zones, if possible."""
    return _spread("ScheduleAnyway")


def preferred_affinity(_: int) -> dict[str, Any]:
    """Preferably where its like is."""
    term = {"labelSelector": {"matchLabels": {"app": "sociable"}}, "topologyKey": HOSTNAME}
    preferred = [{"weight": 1, "podAffinityTerm": term}]
    affinity = {"podAffinity": {"preferredDuringSchedulingIgnoredDuringExecution": preferred}}
    return {"labels": {"app": "sociable"}, "spec": _spec(affinity=affinity)}


def mixed_templates(index: int) -> dict[str, Any]:
    """Ten templates in turn, of different sizes, some with node selectors, spreading or affinity."""
    kind = index % 10
    special = {0: node_affinity, 1: anti_affinity, 2: spread_hard, 3: spread_soft, 4: preferred_affinity}
    if kind in special:
        return special[kind](index)
    return {"labels": {"app": f"app-{kind}"}, "spec": _spec(cpu=f"{kind * 50}m", memory=f"{kind * 64}Mi")}


def low_priority(_: int) -> dict[str, Any]:
    """Four of them fill a node."""
    return {"labels": {"app": "low"}, "spec": _spec(cpu="900m", memory="500Mi", priority=0)}


def high_priority(_: int) -> dict[str, Any]:
    """Needs most of a node, so others must go."""
    return {"labels": {"app": "high"}, "spec": _spec(cpu="3000m", memory="500Mi", priority=10)}


WORKLOADS: Sequence[Workload] = (
    Workload("plain", 500, 1000, 3000, plain),
    Workload("plain", 5000, 1000, 3000, plain),
    Workload("plain", 50000, 1000, 3000, plain),
    Workload("node-affinity", 5000, 1000, 3000, node_affinity),
    Workload("anti-affinity", 5000, 1000, 3000, anti_affinity),
    Workload("spread-hard", 5000, 1000, 3000, spread_hard),
    Workload("spread-soft", 5000, 1000, 3000, spread_soft),
    Workload("preferred-affinity", 5000, 1000, 3000, preferred_affinity),
    Workload("mixed-templates", 5000, 1000, 3000, mixed_templates),
    Workload("preemption", 1000, 4000, 500, high_priority, low_priority, node_cpu="4", preempts=True),
)
