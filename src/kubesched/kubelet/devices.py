"""Simulated devices: a node publishes them in ResourceSlices, as the driver of real devices does.

They are described by a text, in an annotation of the node or for all nodes in the settings:
``gpu.example.com=4:memory=80Gi:model=a100, nic.example.com=2``. That is four devices of the driver gpu.example.com with
a capacity and an attribute, and two of another driver without any.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from kubesched.api.objects import Part
from kubesched.apiserver.validation.naming import subdomain_errors
from kubesched.base.annotations import DEVICES
from kubesched.base.types import JSON
from kubesched.reconcile.access import DEVICE_CLASSES, SLICES, Access
from kubesched.reconcile.cache import Cache, Index
from kubesched.reconcile.views import Node, View

MAX_PER_SLICE = 128
MAX_DEVICES = 10_000
"""Maximum number of devices in one description. More are probably a typing error."""
_MAX_DRIVER = 63
_FORM = "write it as gpu.example.com=4:memory=80Gi:model=a100"
_NAME = re.compile(r"([a-z0-9.-]+/)?[A-Za-z_][A-Za-z0-9_]{0,31}")
_CAPACITY = re.compile(r"[0-9]+(\.[0-9]+)?([KMGTPE]i|[kMGTPE])")
_VERSION = re.compile(r"(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?")


class DeviceTextError(ValueError):
    """A description of devices that cannot be read."""


def parse_devices(text: str) -> dict[str, list[JSON]]:
    """Return the devices by driver. Raises `DeviceTextError`, which says what is wrong and how to write it."""
    drivers: dict[str, list[JSON]] = {}
    for part in filter(None, map(str.strip, text.split(","))):
        head, *properties = part.split(":")
        driver, _, count = head.partition("=")
        _check_driver(driver)
        number = int(count) if count.isdecimal() and len(count) <= len(str(MAX_DEVICES)) else 0
        if not 0 < number <= MAX_DEVICES - sum(map(len, drivers.values())):
            raise DeviceTextError(f'"{head}" needs a number of devices from 1 to {MAX_DEVICES}; {_FORM}')
        body = _body(properties)
        known = drivers.setdefault(driver, [])
        known += [{"name": f"{driver.partition('.')[0]}-{len(known) + i}", **body} for i in range(number)]
    return drivers


def _check_driver(driver: str) -> None:
    if len(driver) > _MAX_DRIVER or any(subdomain_errors(driver)):
        raise DeviceTextError(f'"{driver}" is not the name of a driver; {_FORM}')


def _body(properties: list[str]) -> JSON:
    """Sizes such as 80Gi are capacities; versions, numbers, true, false and everything else are attributes."""
    attributes: JSON = {}
    capacity: JSON = {}
    for each in properties:
        name, _, value = each.strip().partition("=")
        if not _NAME.fullmatch(name) or not 0 < len(value) <= 64:
            raise DeviceTextError(f'"{each}" is not an attribute or a capacity; {_FORM}')
        if _CAPACITY.fullmatch(value):
            capacity[name] = {"value": value}
        else:
            attributes[name] = _attribute(value)
    return {key: part for key, part in (("attributes", attributes), ("capacity", capacity)) if part}


def _attribute(value: str) -> JSON:
    if value in ("true", "false"):
        return {"bool": value == "true"}
    if re.fullmatch(r"-?[0-9]{1,18}", value):
        return {"int": int(value)}
    return {"version": value} if _VERSION.fullmatch(value) else {"string": value}


class _Pool(Part, frozen=True):
    generation: int = 0


class _SliceSpec(Part, frozen=True):
    node_name: str = ""
    pool: _Pool = _Pool()


class Slice(View, frozen=True):
    """A ResourceSlice: its node, its generation, and in an annotation the description that it was made from."""

    spec: _SliceSpec = _SliceSpec()


class DevicePublisher:
    """Keeps the ResourceSlices of simulated devices in step with the annotation of their node."""

    def __init__(self, access: Access, default: str, on_lost: Callable[[str], None]) -> None:
        """`on_lost` is called with the name of a node that has lost a slice."""
        self._access = access
        self._default = default
        self._described: set[str] = set()
        """Nodes that have had a description here. The slices of others come from a snapshot and stay."""
        slices = Cache(access.store.shelf(SLICES), Slice)
        self._published: Index[Slice] = slices.index(_publishers)

        def on_slice(old: Slice | None, new: Slice | None) -> None:
            if new is None and old is not None:
                for node in _publishers(old):
                    on_lost(node)

        slices.watch(on_slice)

    def text_of(self, node: Node) -> str:
        """Return the description of a node's devices: its own, or the one for all nodes."""
        return node.metadata.annotations.get(DEVICES, self._default)

    def publish(self, node: Node) -> None:
        """Create the slices of a node, or replace them. Raises `DeviceTextError`; then nothing changes."""
        text = self.text_of(node)
        if text:
            self._described.add(node.metadata.name)
        elif node.metadata.name not in self._described:
            return
        wanted = {driver: _parts(devices) for driver, devices in parse_devices(text).items()}
        old = self._published.get(node.metadata.name)
        complete = len(old) == sum(map(len, wanted.values()))
        if complete and all(each.metadata.annotations[DEVICES] == text for each in old):
            return
        generation = max((each.spec.pool.generation for each in old), default=0) + 1
        for each in old:
            self._access.delete(SLICES, each.key)
        for driver, parts in wanted.items():
            self._add_class(driver)
            self._add_slices(node, text, driver, parts, generation)

    def _add_class(self, driver: str) -> None:
        """Create a class for all devices of a driver, as the installation of a driver does."""
        if self._access.store.get(DEVICE_CLASSES, driver) is None:
            selector = {"cel": {"expression": f'device.driver == "{driver}"'}}
            self._access.create(DEVICE_CLASSES, {"metadata": {"name": driver}, "spec": {"selectors": [selector]}})

    def _add_slices(self, node: Node, text: str, driver: str, parts: list[list[JSON]], generation: int) -> None:
        name = node.metadata.name
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid, "controller": True}
        pool = {"name": name, "generation": generation, "resourceSliceCount": len(parts)}
        for part in parts:
            meta = {"generateName": f"{name}-{driver}-", "annotations": {DEVICES: text}, "ownerReferences": [owner]}
            spec = {"driver": driver, "nodeName": name, "pool": pool, "devices": part}
            self._access.create(SLICES, {"metadata": meta, "spec": spec})


def _parts(devices: list[JSON]) -> list[list[JSON]]:
    return [devices[start : start + MAX_PER_SLICE] for start in range(0, len(devices), MAX_PER_SLICE)]


def _publishers(found: Slice) -> list[str]:
    """Return the node of a slice that was published here. Those that users create are left alone."""
    return [found.spec.node_name] if DEVICES in found.metadata.annotations else []
