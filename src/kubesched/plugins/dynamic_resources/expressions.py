"""CEL expressions of device classes and requests, evaluated for kinds of device. Imports the whole of CEL."""

from __future__ import annotations

from kubesched.api import devices as dra
from kubesched.base.features import Features
from kubesched.cel import devices as cel
from kubesched.cel.errors import CELError
from kubesched.plugins.dynamic_resources.kinds import DeviceKind
from kubesched.plugins.dynamic_resources.selectors import ExpressionError


class DeviceExpressions:
    """Evaluates expressions. Each is compiled once and evaluated once per shape of device."""

    def __init__(self, features: Features) -> None:
        self._features = features
        self._shapes: dict[DeviceKind, cel.DeviceShape] = {}

    def matches(self, expression: str, kind: DeviceKind) -> bool:
        """Whether an expression is true for a kind of device."""
        try:
            selector = cel.compile_device_selector(
                expression,
                consumable_capacity=self._features.dra_consumable_capacity,
                list_attributes=self._features.dra_list_type_attributes,
            )
        except CELError as problem:
            raise ExpressionError(f"CEL compile error: {problem}") from None
        shape = self._shapes.get(kind)
        if shape is None:
            shape = self._shapes[kind] = _shape(kind)
        try:
            return selector.matches(shape)
        except CELError as problem:
            raise ExpressionError(f"CEL runtime error: {problem}") from None


def _shape(kind: DeviceKind) -> cel.DeviceShape:
    device = kind.device
    return cel.DeviceShape(
        kind.driver,
        {name: _value(attribute) for name, attribute in device.attributes.items()},
        {name: capacity.value.text for name, capacity in kind.capacities.items()},
        kind.multiple,
    )


def _value(attribute: dra.DeviceAttribute) -> cel.AttributeValue:
    for single in (attribute.int_, attribute.bool_, attribute.string):
        if single is not None:
            return single
    if attribute.version is not None:
        return cel.Version(attribute.version)
    versions = tuple(cel.Version(text) for text in attribute.versions)
    return attribute.ints or attribute.bools or attribute.strings or versions
