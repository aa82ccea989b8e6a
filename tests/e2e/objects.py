"""Objects as an API server takes them. They are plain data, so that nothing of what is tested makes them."""

from __future__ import annotations

from tests.e2e.api import JSON


def node(name: str, *, cpu: str = "4", memory: str = "8Gi", pods: str = "110", **more: object) -> JSON:
    """A node that no kubelet serves. `labels`, `taints`, `unschedulable`, `images`, `declared` features and further
    resources may follow."""
    labels = {"kubernetes.io/hostname": name, **_mapping(more.pop("labels", {}))}
    spec = {field: more.pop(field) for field in ("taints", "unschedulable") if field in more}
    status: JSON = {"allocatable": {"cpu": cpu, "memory": memory, "pods": pods, **_mapping(more.pop("resources", {}))}}
    status["capacity"] = status["allocatable"]
    if "images" in more:
        status["images"] = more.pop("images")
    if "declared" in more:
        status["declaredFeatures"] = more.pop("declared")
    assert not more, more
    return _object("v1", "Node", name, "", spec=spec, status=status, labels=labels)


def pod(name: str, namespace: str = "default", *, cpu: str = "", memory: str = "", **more: object) -> JSON:
    """A pod of one container. What follows goes into its spec, except for `labels`, `ports`, `image`, `requests` and
    `claims`, which are names of volume claims."""
    requests = {key: value for key, value in (("cpu", cpu), ("memory", memory)) if value}
    requests |= _mapping(more.pop("requests", {}))
    container: JSON = {"name": "main", "image": more.pop("image", "registry.k8s.io/pause:3.10")}
    container["resources"] = {"requests": requests, "limits": _extended(requests)}
    container["ports"] = [{"containerPort": port, "hostPort": port} for port in _sequence(more.pop("ports", ()))]
    labels = _mapping(more.pop("labels", {}))
    claims = [
        {"name": f"volume-{claim}", "persistentVolumeClaim": {"claimName": claim}}
        for claim in _sequence(more.pop("claims", ()))
    ]
    spec = {"terminationGracePeriodSeconds": 0, "containers": [container], "volumes": claims, **more}
    return _object("v1", "Pod", name, namespace, spec=spec, labels=labels)


def _extended(requests: JSON) -> JSON:
    """Resources of which a pod cannot use more than it asks for must have a limit."""
    return {key: value for key, value in requests.items() if "/" in key}


def service(name: str, labels: JSON) -> JSON:
    """A service whose pods have these labels."""
    return _object("v1", "Service", name, "default", spec={"selector": labels, "ports": [{"port": 80}]})


def priority_class(name: str, value: int, *, preempts: bool = True) -> JSON:
    """A priority that pods can have by its name."""
    policy = "PreemptLowerPriority" if preempts else "Never"
    return _object("scheduling.k8s.io/v1", "PriorityClass", name, "", value=value, preemptionPolicy=policy)


def disruption_budget(name: str, labels: JSON, allowed: int, healthy: int) -> JSON:
    """A budget with the status that a controller would give it."""
    spec = {"minAvailable": healthy - allowed, "selector": {"matchLabels": labels}}
    status = {
        "observedGeneration": 1,
        "disruptionsAllowed": allowed,
        "currentHealthy": healthy,
        "desiredHealthy": healthy - allowed,
        "expectedPods": healthy,
    }
    return _object("policy/v1", "PodDisruptionBudget", name, "default", spec=spec, status=status)


def storage_class(name: str, provisioner: str = "kubernetes.io/no-provisioner", *, waits: bool = True) -> JSON:
    """A storage class whose claims wait for their first consumer, or do not."""
    mode = "WaitForFirstConsumer" if waits else "Immediate"
    return _object("storage.k8s.io/v1", "StorageClass", name, "", provisioner=provisioner, volumeBindingMode=mode)


def claim(name: str, storage_class_name: str, size: str = "1Gi", *, mode: str = "ReadWriteOnce") -> JSON:
    """A claim for a volume."""
    spec = {
        "accessModes": [mode],
        "storageClassName": storage_class_name,
        "resources": {"requests": {"storage": size}},
    }
    return _object("v1", "PersistentVolumeClaim", name, "default", spec=spec)


def local_volume(name: str, storage_class_name: str, node_name: str, size: str = "1Gi") -> JSON:
    """A volume on one node."""
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node_name]}]}]
    spec = {
        "capacity": {"storage": size},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": storage_class_name,
        "persistentVolumeReclaimPolicy": "Retain",
        "local": {"path": f"/mnt/{name}"},
        "nodeAffinity": {"required": {"nodeSelectorTerms": terms}},
    }
    return _object("v1", "PersistentVolume", name, "", spec=spec, status={"phase": "Available"})


def csi_volume(
    name: str, storage_class_name: str, driver: str, *, mode: str = "ReadWriteOnce", labels: JSON | None = None
) -> JSON:
    """A volume that a driver attaches."""
    spec = {
        "capacity": {"storage": "1Gi"},
        "accessModes": [mode],
        "storageClassName": storage_class_name,
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": {"driver": driver, "volumeHandle": name},
    }
    return _object("v1", "PersistentVolume", name, "", spec=spec, status={"phase": "Available"}, labels=labels or {})


def csi_node(name: str, driver: str, count: int) -> JSON:
    """What a driver says of a node: how many of its volumes can be attached there."""
    drivers = [{"name": driver, "nodeID": name, "allocatable": {"count": count}}]
    return _object("storage.k8s.io/v1", "CSINode", name, "", spec={"drivers": drivers})


def _object(version: str, kind: str, name: str, namespace: str, labels: object = None, **more: object) -> JSON:
    metadata: JSON = {"name": name}
    if namespace:
        metadata["namespace"] = namespace
    if labels:
        metadata["labels"] = labels
    return {"apiVersion": version, "kind": kind, "metadata": metadata, **more}


def _mapping(value: object) -> JSON:
    assert isinstance(value, dict)
    return value


def _sequence(value: object) -> list[object]:
    assert isinstance(value, list | tuple)
    return list(value)
