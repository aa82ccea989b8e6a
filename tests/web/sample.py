"""A cluster to look at: three zones, pools with and without GPUs, workloads, and pods that are pending."""

from __future__ import annotations

from typing import Any

Obj = dict[str, Any]
HOSTILE = "<img src=x onerror=document.title='owned'>"
"""A text that becomes markup where a page forgets to escape it."""


def node(name: str, zone: str, pool: str, *, cpu: str = "16", memory: str = "64Gi", gpu: int = 0, **spec: Any) -> Obj:
    amounts = {"cpu": cpu, "memory": memory, "pods": "110", "ephemeral-storage": "200Gi"}
    if gpu:
        amounts["nvidia.com/gpu"] = str(gpu)
    labels = {
        "kubernetes.io/hostname": name,
        "topology.kubernetes.io/zone": zone,
        "node.kubernetes.io/pool": pool,
        "node.kubernetes.io/instance-type": {"gpu": "g5.4xlarge", "spot": "m6i.4xlarge"}.get(pool, "m7i.4xlarge"),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels},
        "spec": spec,
        "status": {
            "capacity": amounts,
            "allocatable": amounts,
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }


def nodes(count: int) -> list[Obj]:
    """Nodes in three zones: most of them general, some spot, some with GPUs, two that need attention."""
    made = []
    for number in range(count):
        zone = f"eu-west-1{'abc'[number % 3]}"
        if number % 10 == 7:
            taint = {"key": "nvidia.com/gpu", "value": "true", "effect": "NoSchedule"}
            made.append(node(f"gpu-{number:03}", zone, "gpu", cpu="32", memory="128Gi", gpu=4, taints=[taint]))
        elif number % 10 in (3, 8):
            made.append(node(f"spot-{number:03}", zone, "spot", cpu="8", memory="32Gi"))
        else:
            made.append(node(f"general-{number:03}", zone, "general"))
    if count > 12:
        made[10]["spec"]["unschedulable"] = True
    return made


def pod(name: str, namespace: str = "shop", *, cpu: str = "500m", memory: str = "1Gi", **more: Any) -> Obj:
    requests = {"cpu": cpu, "memory": memory, **more.pop("requests", {})}
    limits = {name: amount for name, amount in requests.items() if "/" in name}
    metadata = {"name": name, "namespace": namespace, "labels": more.pop("labels", {"app": name})}
    container = {
        "name": "main",
        "image": "registry.example/app:1",
        "resources": {"requests": requests, "limits": limits},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": metadata,
        "spec": {"containers": [container], **more},
    }


WORKLOADS = (
    ("web", "1500m", "3Gi", 90),
    ("api", "2", "4Gi", 70),
    ("worker", "4", "12Gi", 45),
    ("cache", "500m", "14Gi", 40),
    ("search", "6", "28Gi", 18),
)


def workload(share: float = 1.0) -> list[Obj]:
    """Pods that fit."""
    made = [
        pod(f"{name}-{number}", cpu=cpu, memory=memory, labels={"app": name})
        for name, cpu, memory, count in WORKLOADS
        for number in range(max(1, round(count * share)))
    ]
    tolerated = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}
    made += [
        pod(
            f"train-{number}",
            "ml",
            cpu="6",
            memory="24Gi",
            requests={"nvidia.com/gpu": "1"},
            tolerations=[tolerated],
            labels={"app": "train"},
        )
        for number in range(max(1, round(8 * share)))
    ]
    return made


def pending() -> list[Obj]:
    """Pods that do not fit, each for another reason."""
    selector = {"matchLabels": {"app": "quorum"}}
    apart = {"topologyKey": "topology.kubernetes.io/zone", "labelSelector": selector}
    only = {"podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [apart]}}
    return [
        pod("huge", cpu="48", memory="256Gi"),
        pod("video", "ml", requests={"nvidia.com/gpu": "1"}),
        *(pod(f"quorum-{number}", labels={"app": "quorum"}, affinity=only) for number in range(4)),
        pod("etl", "batch", schedulingGates=[{"name": "example.com/quota"}]),
        pod("arm", nodeSelector={"kubernetes.io/arch": "arm64"}),
        pod("other", "batch", schedulerName="batch-scheduler"),
    ]


def namespaces() -> list[Obj]:
    return [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": each}} for each in ("shop", "ml", "batch")]


def cluster(count: int = 60, share: float = 1.0) -> Obj:
    """Everything, as kubectl prints a list."""
    return {
        "apiVersion": "v1",
        "kind": "List",
        "items": [*namespaces(), *nodes(count), *workload(share), *pending()],
    }
