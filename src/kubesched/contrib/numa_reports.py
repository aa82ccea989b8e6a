"""NodeResourceTopology objects: what an agent on a node reports about its NUMA zones."""

from __future__ import annotations

import re
from collections.abc import Container, Iterable
from typing import ClassVar, Final

from kubesched.api import objects as api
from kubesched.api.meta import Part
from kubesched.api.quantity import milli, value
from kubesched.api.resources import is_hugepage, is_native
from kubesched.contrib.qos_sort import GUARANTEED, qos_class

MAX_NUMA_ID: Final = 64
DEFAULT_MAX_NUMA_NODES: Final = 8
MOST_NUMA_NODES: Final = 1024
_ZONE_NAME: Final = re.compile(r"(?:.*?-)?0*([0-9]{1,2})")
_NUMBER: Final = re.compile(r"[0-9]{1,18}")
POLICIES: Final = {
    "SingleNUMANodePodLevel": ("single-numa-node", "pod"),
    "SingleNUMANodeContainerLevel": ("single-numa-node", "container"),
    "BestEffortPodLevel": ("best-effort", "pod"),
    "BestEffortContainerLevel": ("best-effort", "container"),
    "RestrictedPodLevel": ("restricted", "pod"),
    "RestrictedContainerLevel": ("restricted", "container"),
}
"""Deprecated names of the kubelet's policy and scope."""


class NamedValue(Part, frozen=True):
    name: str = ""
    value: str = ""


class ZoneCost(Part, frozen=True):
    name: str = ""
    value: int = 0


class ZoneResource(Part, frozen=True):
    name: str = ""
    available: api.Quantity = "0"
    allocatable: api.Quantity = "0"


class Zone(Part, frozen=True):
    name: str = ""
    type: str = ""
    costs: tuple[ZoneCost, ...] = ()
    resources: tuple[ZoneResource, ...] = ()
    attributes: tuple[NamedValue, ...] = ()


class NodeResourceTopology(api.Object, frozen=True):
    """The zones of the node of the same name, as an agent on the node reports them."""

    api_version: ClassVar[str] = "topology.node.k8s.io/v1alpha2"
    kind: ClassVar[str] = "NodeResourceTopology"
    plural: ClassVar[str] = "noderesourcetopologies"
    namespaced: ClassVar[bool] = False

    topology_policies: tuple[str, ...] = ()
    attributes: tuple[NamedValue, ...] = ()
    zones: tuple[Zone, ...] = ()


def amount(resource: str, quantity: api.Quantity) -> int:
    """A quantity as columns have it."""
    return milli(quantity) if resource == "cpu" else value(quantity)


def numa_id(name: str) -> int:
    """The number in a zone's name, such as node-0; -1 if there is none, or if it is too large."""
    match = _ZONE_NAME.fullmatch(name)
    return int(match[1]) if match and int(match[1]) < MAX_NUMA_ID else -1


def kubelet_settings(topology: NodeResourceTopology) -> tuple[str, str, int]:
    """The kubelet's policy, its scope, and how many NUMA nodes it supports. Attributes have precedence."""
    policy, scope = POLICIES.get(next(iter(topology.topology_policies), ""), ("none", "container"))
    most = DEFAULT_MAX_NUMA_NODES
    for each in topology.attributes:
        if each.name == "topologyManagerScope" and each.value in ("container", "pod"):
            scope = each.value
        elif each.name == "topologyManagerPolicy" and each.value in (
            "none",
            "best-effort",
            "restricted",
            "single-numa-node",
        ):
            policy = each.value
        elif each.name == "topologyManagerMaxNUMANodes" and _NUMBER.fullmatch(each.value):
            given = int(each.value)
            most = min(given, MOST_NUMA_NODES) if given > 1 else most
    return policy, scope, most


def attribute(attributes: Iterable[NamedValue], name: str) -> str:
    """The value of an attribute; empty if there is none."""
    return next((each.value for each in attributes if each.name == name), "")


def has_exclusive_resources(pod: api.Pod, in_zones: Container[str]) -> bool:
    """Whether a container holds whole CPUs, memory or devices of zones for itself while the pod runs."""
    return any(exclusive_requests(pod, each, in_zones) for each in lasting_containers(pod))


def lasting_containers(pod: api.Pod) -> list[api.Container]:
    """The containers that run as long as the pod: sidecars and those that are no init containers."""
    return [*(each for each in pod.spec.init_containers if each.restart_policy == "Always"), *pod.spec.containers]


def exclusive_requests(pod: api.Pod, container: api.Container, in_zones: Container[str]) -> dict[str, api.Quantity]:
    """What a container holds for itself: whole CPUs and memory of a Guaranteed pod, and devices that zones have."""
    guaranteed = qos_class(pod) == GUARANTEED
    requests = container.resources.requests or container.resources.limits
    return {name: each for name, each in requests.items() if _is_exclusive(name, each, guaranteed, in_zones)}


def _is_exclusive(name: str, quantity: api.Quantity, guaranteed: bool, in_zones: Container[str]) -> bool:
    if not is_native(name):
        return name in in_zones
    if not guaranteed or milli(quantity) <= 0:
        return False
    return milli(quantity) % 1000 == 0 if name == "cpu" else name == "memory" or is_hugepage(name)
