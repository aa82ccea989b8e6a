"""Devices that are alike share one `DeviceKind`: everything about a device but its name, compiled once.

A cluster has thousands of devices and a handful of models. Selectors, tolerations and capacities depend on the kind
alone, so each is evaluated once per kind.
"""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from kubesched.api import devices as dra
from kubesched.api.quantity import nanos
from kubesched.plugins.dynamic_resources.capacity import Capacity, compiled_capacity

PREVENTING = ("NoSchedule", "NoExecute")
"""Effects of taints that keep a device from being allocated. All others are ignored, None included."""

Value = tuple[str, object]
"""An attribute's type and value. With list-type attributes the value is the set of all values."""

Counters = tuple[tuple[tuple[str, str], int], ...]
"""(counter set, counter) and an amount each."""


@dataclass(slots=True, eq=False)
class DeviceKind:
    """A device without its name."""

    number: int
    driver: str
    device: dra.Device
    multiple: bool
    """Whether several claims may share it."""
    capacities: dict[str, Capacity]
    counters: Counters
    taints: tuple[dra.DeviceTaint, ...]

    def attribute(self, name: str) -> dra.DeviceAttribute | None:
        """The attribute with a fully qualified name; the driver's own are stored without its domain."""
        attributes = self.device.attributes
        found = attributes.get(name)
        if found is None:
            domain, slash, identifier = name.partition("/")
            if slash and domain == self.driver:
                return attributes.get(identifier)
        return found


class DeviceKinds:
    """Interns device kinds."""

    def __init__(self) -> None:
        self._encode = msgspec.json.Encoder(order="deterministic").encode
        self._known: dict[bytes, DeviceKind] = {}

    def of(self, driver: str, device: dra.Device) -> DeviceKind:
        """The kind of a driver's device."""
        nameless = msgspec.structs.replace(device, name="")
        key = self._encode((driver, nameless))
        kind = self._known.get(key)
        if kind is None:
            kind = self._known[key] = DeviceKind(
                number=len(self._known),
                driver=driver,
                device=nameless,
                multiple=bool(device.allow_multiple_allocations),
                capacities={name: compiled_capacity(each) for name, each in device.capacity.items()},
                counters=tuple(
                    ((consumed.counter_set, name), nanos(counter.value))
                    for consumed in device.consumes_counters
                    for name, counter in consumed.counters.items()
                ),
                taints=tuple(taint for taint in device.taints if taint.effect in PREVENTING),
            )
        return kind


def scalar_value(attribute: dra.DeviceAttribute) -> Value | None:
    """An attribute's single value; None for a list or a type from the future."""
    if attribute.string is not None:
        return "string", attribute.string
    if attribute.int_ is not None:
        return "int", attribute.int_
    if attribute.bool_ is not None:
        return "bool", attribute.bool_
    if attribute.version is not None:
        return "version", attribute.version
    return None


def value_set(attribute: dra.DeviceAttribute) -> tuple[str, frozenset[object]] | None:
    """An attribute's values as a set, of one element for a single value."""
    lists: tuple[tuple[str, tuple[object, ...]], ...] = (
        ("int", attribute.ints),
        ("bool", attribute.bools),
        ("string", attribute.strings),
        ("version", attribute.versions),
    )
    for kind, values in lists:
        if values:
            return kind, frozenset(values)
    single = scalar_value(attribute)
    return None if single is None else (single[0], frozenset((single[1],)))
