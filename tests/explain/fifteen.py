"""A cluster of 40 nodes and 300 pods in which fifteen pods are pending, each for another cause."""

from __future__ import annotations

from typing import Any

ZONES = ("a", "b", "c")
NODES = 40
PODS = 300

Manifest = dict[str, Any]


def node(name: str, number: int, **more: Any) -> Manifest:
    """A node with 8 cpus, in one of three zones."""
    labels = {"kubernetes.io/hostname": name, "topology.kubernetes.io/zone": ZONES[number % 3], "disk": "hdd"}
    spec = {key: more.pop(key) for key in ("taints", "unschedulable") if key in more}
    allocatable = {"cpu": "8", "memory": "16Gi", "pods": "110", **more.pop("allocatable", {})}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {**labels, **more.pop("labels", {})}},
        "spec": spec,
        "status": {"allocatable": allocatable},
    }


def pod(name: str, cpu: str = "100m", memory: str = "128Mi", **spec: Any) -> Manifest:
    """A pod with one container; `labels` and `ports` go where they belong."""
    labels, ports = spec.pop("labels", {}), spec.pop("ports", [])
    main = {"name": "main", "image": "nginx", "resources": {"requests": {"cpu": cpu, "memory": memory}}, "ports": ports}
    metadata = {"name": name, "namespace": "default", "labels": labels, "creationTimestamp": "2026-01-01T10:00:00Z"}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": {"containers": [main], **spec}}


def volume_of(claim: str) -> list[Manifest]:
    """The volumes of a pod that uses a claim."""
    return [{"name": "data", "persistentVolumeClaim": {"claimName": claim}}]


def claim(name: str, **spec: Any) -> Manifest:
    """A PersistentVolumeClaim."""
    common = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
    annotations = {"pv.kubernetes.io/bind-completed": "yes"} if "volumeName" in spec else {}
    metadata = {"name": name, "namespace": "default", "annotations": annotations}
    return {"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": metadata, "spec": {**common, **spec}}


def device_claim(name: str, class_name: str, count: int) -> Manifest:
    """A ResourceClaim."""
    exactly = {"deviceClassName": class_name, "allocationMode": "ExactCount", "count": count}
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceClaim",
        "metadata": {"name": name, "namespace": "default", "uid": f"claim-{name}"},
        "spec": {"devices": {"requests": [{"name": "gpu", "exactly": exactly}]}},
    }


def slice_of(name: str) -> Manifest:
    """One device on a node."""
    return {
        "apiVersion": "resource.k8s.io/v1",
        "kind": "ResourceSlice",
        "metadata": {"name": f"slice-{name}"},
        "spec": {
            "driver": "gpu.example.com",
            "pool": {"name": name, "generation": 1, "resourceSliceCount": 1},
            "nodeName": name,
            "devices": [{"name": "gpu-0"}],
        },
    }


def pool(name: str) -> dict[str, str]:
    """The selector of a pool of nodes."""
    return {"pool": name}


def nodes() -> list[Manifest]:
    """Forty nodes: some pools that a cause needs for itself, and workers."""
    special = [
        node("gpu-1", 0, labels=pool("gpu"), taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
        node("gpu-2", 1, labels=pool("gpu"), taints=[{"key": "gpu", "value": "yes", "effect": "NoSchedule"}]),
        node("small-1", 0, labels=pool("small"), allocatable={"pods": "2"}),
        node("db-1", 0, labels=pool("db")),
        node("db-2", 1, labels=pool("db")),
        node("edge-1", 0, labels=pool("edge")),
        node("spread-1", 0, labels=pool("spread")),
        node("spread-2", 1, labels=pool("spread"), unschedulable=True),
        node("dev-1", 0, labels=pool("dev")),
        node("dev-2", 1, labels=pool("dev")),
    ]
    return special + [node(f"worker-{i:02}", i) for i in range(NODES - len(special))]


def placed() -> list[Manifest]:
    """Three hundred pods on nodes."""
    found = [pod(f"small-{i}", nodeName="small-1") for i in range(2)]
    found += [pod("web-3", nodeName="edge-1", ports=[{"containerPort": 80, "hostPort": 80}])]
    found += [pod(f"db-{i}", "4", nodeName="db-1", labels={"app": "db"}) for i in range(2)]
    found += [pod("db-2", "4", nodeName="db-2", labels={"app": "db"}), pod("batch-1", "3500m", nodeName="db-2")]
    found += [pod(f"even-{i}", nodeName="spread-1", labels={"app": "even"}) for i in range(2)]
    count = NODES - 10
    found += [pod(f"lone-{i:02}", nodeName=f"worker-{i:02}", labels={"app": "lone"}) for i in range(count)]
    found += [pod(f"lone-{name}", nodeName=name, labels={"app": "lone"}) for name in SPECIAL if name != "small-1"]
    rest = PODS - len(found)
    return found + [pod(f"busy-{i:03}", "500m", nodeName=f"worker-{i % count:02}") for i in range(rest)]


SPECIAL = ("gpu-1", "gpu-2", "small-1", "db-1", "db-2", "edge-1", "spread-1", "spread-2", "dev-1", "dev-2")


def others() -> list[Manifest]:
    """Claims, volumes, classes, slices and a budget."""
    return [
        claim("far", volumeName="pv-far", storageClassName="standard"),
        {
            "apiVersion": "v1",
            "kind": "PersistentVolume",
            "metadata": {"name": "pv-far", "labels": {"topology.kubernetes.io/zone": "d"}},
            "spec": {
                "capacity": {"storage": "1Gi"},
                "accessModes": ["ReadWriteOnce"],
                "claimRef": {"namespace": "default", "name": "far"},
                "hostPath": {"path": "/data"},
            },
        },
        claim("odd", storageClassName="fast"),
        {
            "apiVersion": "storage.k8s.io/v1",
            "kind": "StorageClass",
            "metadata": {"name": "standard"},
            "provisioner": "disk.example.com",
            "volumeBindingMode": "WaitForFirstConsumer",
        },
        {
            "apiVersion": "resource.k8s.io/v1",
            "kind": "DeviceClass",
            "metadata": {"name": "gpu.example.com"},
            "spec": {},
        },
        {
            "apiVersion": "scheduling.k8s.io/v1",
            "kind": "PriorityClass",
            "metadata": {"name": "urgent"},
            "value": 1000,
            "preemptionPolicy": "Never",
        },
        device_claim("two-gpus", "gpu.example.com", 2),
        slice_of("dev-1"),
        slice_of("dev-2"),
        {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "db", "namespace": "default"},
            "spec": {"selector": {"matchLabels": {"app": "db"}}},
            "status": {"disruptionsAllowed": 0},
        },
    ]


def _affinity(kind: str, app: str, key: str) -> Manifest:
    term = {"labelSelector": {"matchLabels": {"app": app}}, "topologyKey": key}
    return {kind: {"requiredDuringSchedulingIgnoredDuringExecution": [term]}}


def pending() -> dict[str, Manifest]:
    """The fifteen pods, by cause."""
    zone = "topology.kubernetes.io/zone"
    matches = [{"key": "disk", "operator": "In", "values": ["ssd", "nvme"]}]
    terms = [{"matchExpressions": [{"key": "cpu-kind", "operator": "Exists"}]}, {"matchExpressions": matches}]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    spread = {
        "maxSkew": 1,
        "topologyKey": zone,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {"matchLabels": {"app": "even"}},
    }
    gpus = [{"name": "gpu", "resourceClaimName": "two-gpus"}]
    return {
        "resources": pod("resources", "8"),
        "taint": pod("taint", nodeSelector=pool("gpu")),
        "affinity": pod("affinity", affinity={"nodeAffinity": required}),
        "anti-affinity": pod("anti-affinity", affinity=_affinity("podAntiAffinity", "lone", zone)),
        "spread": pod(
            "spread", labels={"app": "even"}, nodeSelector=pool("spread"), topologySpreadConstraints=[spread]
        ),
        "volume-zone": pod("volume-zone", volumes=volume_of("far")),
        "missing-claim": pod("missing-claim", volumes=volume_of("nowhere")),
        "budget": pod("budget", "4", nodeSelector=pool("db"), priorityClassName="urgent"),
        "gate": pod("gate", schedulingGates=[{"name": "example.com/quota"}]),
        "port": pod("port", nodeSelector=pool("edge"), ports=[{"containerPort": 80, "hostPort": 80}]),
        "scheduler": pod("scheduler", schedulerName="volcano"),
        "devices": pod("devices", resourceClaims=gpus),
        "class": pod("class", volumes=volume_of("odd")),
        "max-pods": pod("max-pods", nodeSelector=pool("small")),
        "node-name": pod("node-name", nodeName="ghost"),
    }


def cluster() -> list[Manifest]:
    """All objects."""
    return [*nodes(), *others(), *placed(), *pending().values()]
