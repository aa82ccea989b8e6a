"""Devices, classes and claims in one call each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubesched.api import devices as dra
from kubesched.api import objects as api
from kubesched.base.features import DEFAULT_FEATURES, Features
from kubesched.cluster.state import ClusterState
from kubesched.plugins.dynamic_resources.inventory import Inventory
from kubesched.plugins.dynamic_resources.ledger import Ledger
from kubesched.plugins.dynamic_resources.requests import compile_claims
from kubesched.plugins.dynamic_resources.results import allocations
from kubesched.plugins.dynamic_resources.search import Search
from kubesched.plugins.dynamic_resources.selectors import Selectors

DRIVER = "gpu.example.com"


def device(name: str, **fields: Any) -> dict[str, Any]:
    """A device; attributes are given as plain values."""
    attributes = {key: attribute(value) for key, value in fields.pop("attributes", {}).items()}
    return {"name": name, "attributes": attributes, **fields}


def attribute(value: object) -> dict[str, object]:
    """An attribute of the type that the value has."""
    kind = "bool" if isinstance(value, bool) else "int" if isinstance(value, int) else "string"
    return {"strings": list(value)} if isinstance(value, list) else {kind: value}


def resource_slice(
    name: str,
    *devices: Mapping[str, Any],
    pool: str = "",
    node: str | None = None,
    generation: int = 1,
    count: int = 1,
    driver: str = DRIVER,
    **fields: Any,
) -> api.ResourceSlice:
    """A slice for one node, or for all of them."""
    place = {"nodeName": node} if node is not None else {} if fields else {"allNodes": True}
    spec = {
        "driver": driver,
        "pool": {"name": pool or node or "pool", "generation": generation, "resourceSliceCount": count},
        "devices": list(devices),
        **place,
        **fields,
    }
    return api.decode_as(api.ResourceSlice, {"metadata": {"name": name}, "spec": spec})


def device_class(name: str = "gpu", *expressions: str, **fields: Any) -> api.DeviceClass:
    """A device class."""
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    return api.decode_as(api.DeviceClass, {"metadata": {"name": name}, "spec": {"selectors": selectors, **fields}})


def exactly(name: str = "r", count: int = 1, *expressions: str, **fields: Any) -> dict[str, Any]:
    """A request for a number of devices."""
    return {"name": name, "exactly": _request(count, expressions, fields)}


def every(name: str = "r", *expressions: str, **fields: Any) -> dict[str, Any]:
    """A request for all devices."""
    return {"name": name, "exactly": _request(0, expressions, {"allocationMode": "All", **fields})}


def first_of(name: str, *alternatives: Mapping[str, Any]) -> dict[str, Any]:
    """A request for the first alternative that can be had; each is what `exactly` or `every` returns."""
    return {"name": name, "firstAvailable": [{"name": each["name"], **each["exactly"]} for each in alternatives]}


def _request(count: int, expressions: Sequence[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    selectors = [{"cel": {"expression": expression}} for expression in expressions]
    common = {"deviceClassName": "gpu", "allocationMode": "ExactCount", "selectors": selectors}
    return {**common, **({"count": count} if count else {}), **fields}


def claim(
    name: str, *requests: Mapping[str, Any], constraints: Sequence[Mapping[str, Any]] = (), **fields: Any
) -> api.ResourceClaim:
    """A claim in the default namespace."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", **fields.pop("metadata", {})}
    spec = {"devices": {"requests": list(requests), "constraints": list(constraints), **fields.pop("devices", {})}}
    return api.decode_as(api.ResourceClaim, {"metadata": metadata, "spec": spec, **fields})


def matching(name: str, *requests: str) -> dict[str, Any]:
    """A constraint: all devices have the same value of an attribute."""
    return {"matchAttribute": f"{DRIVER}/{name}", "requests": list(requests)}


def distinct(name: str, *requests: str) -> dict[str, Any]:
    """A constraint: devices have different values of an attribute."""
    return {"distinctAttribute": f"{DRIVER}/{name}", "requests": list(requests)}


@dataclass
class Allocator:
    """A cluster with devices, and the search on its nodes."""

    cluster: ClusterState
    ledger: Ledger
    inventory: Inventory
    features: Features

    @staticmethod
    def of(*objects: api.Object, features: Features = DEFAULT_FEATURES) -> Allocator:
        """An allocator for these objects."""
        cluster = ClusterState(features)
        for obj in objects:
            cluster.set(obj)
        if not cluster.all(api.DeviceClass):
            cluster.set(device_class())
        ledger = Ledger(cluster, shares=features.dra_consumable_capacity)
        return Allocator(cluster, ledger, Inventory(cluster, ledger, features), features)

    def allocate(self, node: str, *claims: api.ResourceClaim) -> list[dra.AllocationResult] | None:
        """What the claims get on a node; None if they cannot be allocated there."""
        self.inventory.sync()
        row = self.cluster.nodes.row_of[node]
        number = int(self.inventory.state_numbers(slice(row, row + 1))[0])
        compiled = compile_claims(claims, lambda name: self.cluster.get(api.DeviceClass, name), self.features)
        solution = Search(self.inventory.states.nodes[number], compiled, Selectors(self.features), self.features).run()
        if solution is None:
            return None
        shares = iter(f"share-{number}" for number in range(100))
        view = self.inventory.view(row)
        return allocations(compiled, solution, view, node, self.features, lambda: next(shares))

    def devices(self, node: str, *claims: api.ResourceClaim) -> list[list[str]] | None:
        """The names of the devices that each claim gets."""
        found = self.allocate(node, *claims)
        return None if found is None else [[each.device for each in result.devices.results] for result in found]
