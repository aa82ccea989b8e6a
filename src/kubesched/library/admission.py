"""What an API server would do to a new object, as far as it changes where pods can go.

A manifest leaves out what the server fills in: requests where there are only limits, host ports of host-network pods,
the priority that the pod's class stands for, the default storage class, how many devices a claim asks for, and when a
storage class binds.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from msgspec.structs import replace

from kubesched.api import objects as api
from kubesched.api.devices import DeviceSubRequest, ExactDeviceRequest, ResourceClaimSpec

SYSTEM_CLASSES: Mapping[str, int] = {"system-cluster-critical": 2_000_000_000, "system-node-critical": 2_000_001_000}

DEFAULT_STORAGE_CLASS = "storageclass.kubernetes.io/is-default-class"
OLD_STORAGE_CLASS = "volume.beta.kubernetes.io/storage-class"

R = TypeVar("R", ExactDeviceRequest, DeviceSubRequest)


def defaulted(obj: api.Object) -> api.Object:
    """An object with the values that the API server gives to fields that are left out, whatever else there is."""
    match obj:
        case api.ResourceClaim():
            return replace(obj, spec=_with_devices(obj.spec))
        case api.ResourceClaimTemplate():
            return replace(obj, spec=replace(obj.spec, spec=_with_devices(obj.spec.spec)))
        case api.StorageClass(volume_binding_mode=None):
            return replace(obj, volume_binding_mode="Immediate")
        case _:
            return obj


def admitted(pod: api.Pod, classes: Callable[[], Mapping[str, api.PriorityClass]]) -> api.Pod:
    """The pod as the API server would store it. A pod that was read from a server stays as it is."""
    if pod.metadata.resource_version:
        return pod
    spec = replace(
        pod.spec,
        containers=tuple(_completed(each, pod.spec.host_network) for each in pod.spec.containers),
        init_containers=tuple(_completed(each, pod.spec.host_network) for each in pod.spec.init_containers),
    )
    return replace(pod, spec=_with_priority(pod.key, spec, classes()))


def _completed(container: api.Container, host_network: bool) -> api.Container:
    given = container.resources
    requests = {**given.limits, **given.requests}
    ports = tuple(
        replace(port, host_port=port.container_port) if host_network and not port.host_port else port
        for port in container.ports
    )
    return replace(container, resources=replace(given, requests=requests), ports=ports)


def _with_priority(key: str, spec: api.PodSpec, classes: Mapping[str, api.PriorityClass]) -> api.PodSpec:
    if spec.priority is not None:
        return spec
    name = spec.priority_class_name
    if name in SYSTEM_CLASSES and name not in classes:
        return replace(spec, priority=SYSTEM_CLASSES[name])
    found = classes.get(name) if name else _default(classes)
    if found is None:
        if name:
            known = ", ".join(sorted({*SYSTEM_CLASSES, *classes}))
            raise ValueError(f"pod {key}: no PriorityClass with name {name} was found; the cluster has {known}")
        return spec
    return replace(spec, priority=found.value, preemption_policy=spec.preemption_policy or found.preemption_policy)


def _default(classes: Mapping[str, api.PriorityClass]) -> api.PriorityClass | None:
    """The class of pods that name none; if several claim to be it, the lowest."""
    return min((each for each in classes.values() if each.global_default), key=lambda c: c.value, default=None)


def with_storage_class(
    claim: api.PersistentVolumeClaim, classes: Iterable[api.StorageClass]
) -> api.PersistentVolumeClaim:
    """The claim as the API server would store it. One that was read from a server stays as it is."""
    named = claim.spec.storage_class_name is not None or OLD_STORAGE_CLASS in claim.annotations
    if claim.metadata.resource_version or named:
        return claim
    defaults = [each for each in classes if each.annotations.get(DEFAULT_STORAGE_CLASS) == "true"]
    if not defaults:
        return claim
    newest = max(defaults, key=lambda each: (each.metadata.creation_timestamp or "", each.name))
    return replace(claim, spec=replace(claim.spec, storage_class_name=newest.name))


def _with_devices(spec: ResourceClaimSpec) -> ResourceClaimSpec:
    """One device per request that says no more, as the API server has it."""

    def complete(part: R) -> R:
        mode = part.allocation_mode or "ExactCount"
        return replace(part, allocation_mode=mode, count=part.count or int(mode == "ExactCount"))

    requests = tuple(
        replace(
            each,
            exactly=None if each.exactly is None else complete(each.exactly),
            first_available=tuple(map(complete, each.first_available)),
        )
        for each in spec.devices.requests
    )
    return replace(spec, devices=replace(spec.devices, requests=requests))
