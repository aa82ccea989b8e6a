"""The other objects that plugins read, in one line each, for tests."""

from __future__ import annotations

from collections.abc import Iterable

from kubesched.api import objects as api
from kubesched.api.builders import Labels, Selects, selected
from kubesched.api.workloads import (
    BasicSchedulingPolicy,
    GangSchedulingPolicy,
    PodGroupSchedulingConstraints,
    PodGroupSchedulingPolicy,
    PodGroupSpec,
    TopologyConstraint,
)
from kubesched.cluster.state import ClusterState


def pod_group(
    name: str,
    min_count: int | None = None,
    *,
    topology: str = "",
    priority: int | None = None,
    disrupted_together: bool = False,
) -> api.PodGroup:
    """A group of pods: a gang with `min_count`, within one value of the label `topology` if that is given."""
    gang = None if min_count is None else GangSchedulingPolicy(min_count)
    basic = BasicSchedulingPolicy() if min_count is None else None
    constraints = PodGroupSchedulingConstraints((TopologyConstraint(topology),)) if topology else None
    return api.PodGroup(
        metadata=api.ObjectMeta(name=name, namespace="default", uid=f"group.{name}", generation=1),
        spec=PodGroupSpec(
            scheduling_policy=PodGroupSchedulingPolicy(basic, gang),
            scheduling_constraints=constraints,
            disruption_mode="PodGroup" if disrupted_together else None,
            priority=priority,
        ),
    )


def namespace(name: str = "default", *, labels: Labels | None = None) -> api.Namespace:
    """A namespace with labels."""
    return api.Namespace(metadata=api.ObjectMeta(name=name, uid=f"namespace.{name}", labels=dict(labels or {})))


def service(name: str, selects: Labels, *, namespace: str = "default") -> api.Service:
    """A service that selects pods."""
    return api.Service(metadata=_meta(name, namespace), spec=api.ServiceSpec(dict(selects)))


def replica_set(name: str, selects: Selects, *, namespace: str = "default") -> api.ReplicaSet:
    """A replica set that selects pods."""
    return api.ReplicaSet(metadata=_meta(name, namespace), spec=api.ReplicaSetSpec(selected(selects)))


def stateful_set(name: str, selects: Selects, *, namespace: str = "default") -> api.StatefulSet:
    """A stateful set that selects pods."""
    return api.StatefulSet(metadata=_meta(name, namespace), spec=api.StatefulSetSpec(selected(selects)))


def replication_controller(name: str, selects: Labels, *, namespace: str = "default") -> api.ReplicationController:
    """A replication controller that selects pods."""
    spec = api.ReplicationControllerSpec(dict(selects))
    return api.ReplicationController(metadata=_meta(name, namespace), spec=spec)


def claim(name: str, *, volume: str = "", namespace: str = "default") -> api.PersistentVolumeClaim:
    """A claim, bound if it has a volume."""
    return api.PersistentVolumeClaim(
        metadata=_meta(name, namespace),
        spec=api.PersistentVolumeClaimSpec(access_modes=("ReadWriteOnce",), volume_name=volume),
        status=api.PersistentVolumeClaimStatus(phase="Bound" if volume else "Pending"),
    )


def volume(name: str) -> api.PersistentVolume:
    """A volume of one GiB."""
    return api.PersistentVolume(
        metadata=api.ObjectMeta(name=name, uid=f"volume.{name}"),
        spec=api.PersistentVolumeSpec(capacity={"storage": "1Gi"}, access_modes=("ReadWriteOnce",)),
        status=api.PersistentVolumeStatus(phase="Bound"),
    )


def budget(
    name: str,
    selects: Selects,
    *,
    allowed: int = 0,
    disrupted: Iterable[str] = (),
    namespace: str = "default",
) -> api.PodDisruptionBudget:
    """A disruption budget that lets `allowed` more pods be evicted; those `disrupted` are counted already."""
    return api.PodDisruptionBudget(
        metadata=_meta(name, namespace),
        spec=api.PodDisruptionBudgetSpec(selected(selects)),
        status=api.PodDisruptionBudgetStatus(
            allowed, dict.fromkeys(disrupted, "2026-01-01T00:00:00Z"), observed_generation=1
        ),
    )


def cluster(*objects: api.Object) -> ClusterState:
    """A cluster with these objects, given to it in this order."""
    made = ClusterState()
    for each in objects:
        made.set(each)
    return made


def _meta(name: str, namespace: str) -> api.ObjectMeta:
    return api.ObjectMeta(name=name, namespace=namespace, uid=f"{namespace}.{name}")
