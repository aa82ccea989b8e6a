"""Extended resources backed by devices: the claim that a pod needs on a node which has no device plugin for them.

The claim exists in memory only until the pod is bound. It differs from node to node, because a device plugin may
provide a resource on one node and a driver on another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.api.quantity import value
from kubesched.plugins.device_classes import DeviceClassResolver, may_be_devices

IN_MEMORY = "<extended-resources>"
"""The name of a claim that is not created yet. No real claim can have it."""
SIDECAR = "Always"


@dataclass(frozen=True, slots=True)
class Mapping:
    """Which request of the claim serves a container's resource."""

    container: str
    resource: str
    request: str


def resources_of(scalar: dict[str, int]) -> list[str]:
    """The resources of a pod that devices may provide."""
    return [name for name, amount in scalar.items() if amount and may_be_devices(name)]


def claim_in_memory(pod: api.Pod, uid: str) -> dra.ResourceClaim:
    """A claim for a pod's extended resources, without requests: those depend on the node."""
    owner = api.OwnerReference(api_version="v1", kind="Pod", name=pod.name, uid=pod.uid, controller=True)
    metadata = api.ObjectMeta(
        namespace=pod.namespace,
        name=IN_MEMORY,
        uid=uid,
        owner_references=(owner,),
        annotations={dra.EXTENDED_RESOURCE_CLAIM: "true"},
    )
    return dra.ResourceClaim(metadata=metadata)


def claim_on_node(
    claim: dra.ResourceClaim, pod: api.Pod, resources: Sequence[str], resolver: DeviceClassResolver
) -> tuple[dra.ResourceClaim, list[Mapping]]:
    """The claim with requests for the resources that a node provides by devices, and what each request is for."""
    requests: list[dra.DeviceRequest] = []
    mappings: list[Mapping] = []
    for resource in sorted(resources):
        device_class = resolver.class_of(resource)
        if device_class is not None:
            asked, served = _Requests(pod, resource, device_class.name).build()
            requests += asked
            mappings += served
    requests.sort(key=lambda request: request.name)
    spec = dra.ResourceClaimSpec(devices=dra.DeviceClaim(requests=tuple(requests)))
    return msgspec.structs.replace(claim, spec=spec), mappings


class _Requests:
    """The requests for one resource of a pod's containers.

    Containers that keep running get devices of their own. Init containers end before the next one starts, so they use
    the devices of containers that come after them, and share what they need beyond that.
    """

    def __init__(self, pod: api.Pod, resource: str, class_name: str) -> None:
        self._init = len(pod.spec.init_containers)
        self._containers = (*pod.spec.init_containers, *pod.spec.containers)
        self._resource = resource
        self._class_name = class_name

    def build(self) -> tuple[list[dra.DeviceRequest], list[Mapping]]:
        running: dict[int, dra.DeviceRequest] = {}
        mappings: list[Mapping] = []
        for index, container in enumerate(self._containers):
            if not self._ends(index, container):
                request, served = self._request(index, container, ())
                mappings += served
                if request is not None:
                    running[index] = request
        shared, served = self._for_init_containers(running)
        return [*shared, *(running[index] for index in sorted(running))], mappings + served

    def _for_init_containers(
        self, running: dict[int, dra.DeviceRequest]
    ) -> tuple[list[dra.DeviceRequest], list[Mapping]]:
        requests: list[dra.DeviceRequest] = []
        mappings: list[Mapping] = []
        for index, container in enumerate(self._containers[: self._init]):
            if self._ends(index, container):
                later = [running[other] for other in sorted(running) if other >= index]
                request, served = self._request(index, container, later)
                mappings += served
                if request is not None:
                    requests.append(request)
        if not requests:
            return [], mappings
        largest = max(requests, key=_count)
        names = {request.name for request in requests}
        renamed = [
            Mapping(each.container, each.resource, largest.name) if each.request in names else each for each in mappings
        ]
        return [largest], renamed

    def _ends(self, index: int, container: api.Container) -> bool:
        return index < self._init and container.restart_policy != SIDECAR

    def _request(
        self, index: int, container: api.Container, reusable: Sequence[dra.DeviceRequest]
    ) -> tuple[dra.DeviceRequest | None, list[Mapping]]:
        """A request for what others' devices do not cover, and all requests that serve the container."""
        requests = container.resources.requests
        wanted = value(requests.get(self._resource, 0))
        if wanted == 0:
            return None, []
        mappings: list[Mapping] = []
        covered = 0
        for request in reusable:
            covered += _count(request)
            mappings.append(Mapping(container.name, self._resource, request.name))
            if covered >= wanted:
                return None, mappings
        name = f"container-{index}-request-{sorted(requests).index(self._resource)}"
        exactly = dra.ExactDeviceRequest(
            device_class_name=self._class_name, allocation_mode=dra.EXACT_COUNT, count=wanted - covered
        )
        mappings.append(Mapping(container.name, self._resource, name))
        return dra.DeviceRequest(name=name, exactly=exactly), mappings


def _count(request: dra.DeviceRequest) -> int:
    assert request.exactly is not None  # all requests made here are exact
    return request.exactly.count
