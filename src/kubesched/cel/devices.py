"""Selectors of devices: CEL expressions over ``device``, as Kubernetes evaluates them for resource claims."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, lru_cache

from kubesched.cel.environment import KUBERNETES, Environment, Program
from kubesched.cel.equality import contains, equal
from kubesched.cel.errors import CELError, CompileError, EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.program import ProgramError
from kubesched.cel.quantities import Quantity
from kubesched.cel.semver import Semver
from kubesched.cel.types import ANY, BOOL, DYN, STRING, Type, map_of, object_type, parse_type
from kubesched.cel.values import name_of

#: resource.k8s.io/v1 CELSelectorExpressionMaxCost and CELSelectorExpressionMaxLength.
MAX_COST = 1_000_000
MAX_LENGTH = 10 * 1024
_MAX_DOMAIN, _MAX_ID, _MAX_DRIVER, _MAX_VALUE, _MAX_NAMES, _MAX_LIST = 63, 32, 63, 64, 32, 48

_CACHED_SHAPES = 1 << 16
# cel-go has different words for each type of a result that is no bool.
_NOT_BOOL = {
    "int": "unsupported type conversion from 'int' to bool",
    "string": "unsupported native conversion from string to 'bool'",
    "kubernetes.Semver": "type conversion error from 'Semver' to 'bool'",
    "list": "type conversion error from list to 'bool'",
}


@dataclass(frozen=True, slots=True)
class Version:
    """The value of an attribute of type version, as it is written."""

    text: str


Scalar = bool | int | str | Version
AttributeValue = Scalar | tuple[Scalar, ...]


class DeviceShape:
    """What a selector can see of a device. Equal shapes give equal results, so a selector runs once for each."""

    __slots__ = ("_hash", "_key", "allow_multiple_allocations", "attributes", "capacities", "driver")

    def __init__(
        self,
        driver: str,
        attributes: Mapping[str, AttributeValue],
        capacities: Mapping[str, str | int],
        allow_multiple_allocations: bool = False,
    ) -> None:
        self.driver = driver
        self.attributes = attributes
        self.capacities = capacities
        self.allow_multiple_allocations = allow_multiple_allocations
        # The class of a value is part of the key: Python takes True for 1.
        values = frozenset((name, _typed(value)) for name, value in attributes.items())
        self._key = (driver, allow_multiple_allocations, values, frozenset(capacities.items()))
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        return isinstance(other, DeviceShape) and (self is other or self._key == other._key)


def _typed(value: AttributeValue) -> tuple[object, ...]:
    return tuple(map(_typed, value)) if isinstance(value, tuple) else (type(value), value)


class DeviceSelectorError(CELError):
    """An expression that Kubernetes does not accept as a selector. The message is the API server's."""


class _WithDefault(dict[str, dict[str, object]]):
    """Attributes or capacities by domain. A domain without any reads as an empty map."""

    def __missing__(self, key: str) -> dict[str, object]:
        return {}


class CompiledDeviceSelector:
    """A compiled selector, with the results for the shapes that it has seen."""

    def __init__(self, expression: str, program: Program, list_attributes: bool) -> None:
        self.expression = expression
        self.program = program
        self._list_attributes = list_attributes
        self._results: dict[DeviceShape, bool | CELError] = {}

    def matches(self, device: DeviceShape) -> bool:
        """Whether the selector is true for a device. Raises EvaluationError or CostLimitError, each time the same."""
        result = self._results.get(device)
        if result is None:
            if len(self._results) >= _CACHED_SHAPES:
                self._results.clear()
            result = self._results[device] = self._run(device)
        if isinstance(result, CELError):
            raise result.with_traceback(None)
        return result

    def _run(self, device: DeviceShape) -> bool | CELError:
        try:
            value = self.program({"device": self._activation(device)})
        except CELError as error:
            return error
        if isinstance(value, bool):
            return value
        name = name_of(type(value))
        reason = _NOT_BOOL.get(name, f"type conversion error from '{name}' to 'bool'")
        return EvaluationError(f"CEL result of type {name} could not be converted to bool: {reason}")

    def _activation(self, device: DeviceShape) -> dict[str, object]:
        attributes, capacities = _WithDefault(), _WithDefault()
        for name in sorted(device.attributes):
            domain, identifier = _split(name, device.driver)
            attributes.setdefault(domain, {})[identifier] = self._attribute(name, device.attributes[name])
        for name, amount in device.capacities.items():
            domain, identifier = _split(name, device.driver)
            capacities.setdefault(domain, {})[identifier] = Quantity.parse(str(amount))
        return {
            "driver": device.driver,
            "allowMultipleAllocations": device.allow_multiple_allocations,
            "attributes": attributes,
            "capacity": capacities,
        }

    def _attribute(self, name: str, value: AttributeValue) -> object:
        if isinstance(value, tuple):
            if not self._list_attributes:
                raise EvaluationError(f"attribute {name}: unsupported attribute value")
            return [self._attribute(name, item) for item in value]
        if not isinstance(value, Version):
            return value
        try:
            return Semver.parse(value.text)
        except ValueError as error:
            raise EvaluationError(f"attribute {name}: parse semantic version: {error}") from None


def _split(name: str, driver: str) -> tuple[str, str]:
    domain, slash, identifier = name.partition("/")
    return (domain, identifier) if slash else (driver, name)


@lru_cache(maxsize=4096)
def compile_device_selector(
    expression: str, *, consumable_capacity: bool = True, list_attributes: bool = False, stored: bool = True
) -> CompiledDeviceSelector:
    """Compile a selector. Raises SelectorError with the message that the API server gives.

    The flags ``consumable_capacity`` and ``list_attributes`` are the gates DRAConsumableCapacity and
    DRAListTypeAttributes. Selectors that are stored already, which is what the scheduler reads, may use
    ``allowMultipleAllocations`` and ``includes`` with the gates off; new ones, which the API server validates, may not.
    """
    environment = _environment(consumable_capacity or stored, list_attributes, list_attributes or stored)
    try:
        program = environment.compile(expression)
    except CompileError as error:
        raise DeviceSelectorError(f"compilation failed: {error}") from None
    except ProgramError as error:
        raise DeviceSelectorError(f"program instantiation failed: {error}") from None
    allowed = (BOOL, ANY, DYN) if list_attributes else (BOOL, ANY)
    if program.result_type not in allowed:
        raise DeviceSelectorError(f"must evaluate to bool or the unknown type, not {program.result_type.declared}")
    return CompiledDeviceSelector(expression, program, list_attributes)


@cache
def _environment(consumable_capacity: bool, list_attributes: bool, includes: bool) -> Environment:
    libraries = (*KUBERNETES, _lists) if includes else KUBERNETES
    return Environment({"device": _device_type(consumable_capacity, list_attributes)}, libraries, MAX_COST)


def _sized(item: Type, size: int) -> Type:
    return Type(item.name, item.params, item.fields, size)


def _device_type(consumable_capacity: bool, list_attributes: bool) -> Type:
    attribute = _sized(DYN, max(_MAX_VALUE, _MAX_LIST)) if list_attributes else _sized(ANY, _MAX_VALUE)
    domain, identifier = _sized(STRING, _MAX_DOMAIN), _sized(STRING, _MAX_ID)
    fields = {
        "driver": _sized(STRING, _MAX_DRIVER),
        "attributes": map_of(domain, map_of(identifier, attribute, _MAX_NAMES), _MAX_NAMES),
        "capacity": map_of(domain, map_of(identifier, parse_type("quantity"), _MAX_NAMES), _MAX_NAMES),
    }
    if consumable_capacity:
        fields["allowMultipleAllocations"] = _sized(BOOL, 1)
    return _sized(object_type("kubernetes.DRADevice", fields), 0)


_lists = Library()


@_lists.define(dra_includes_dyn_dyn="dyn.includes(dyn) -> bool")
def _includes(target: object, value: object) -> bool:
    """Whether a list attribute contains a value, or a scalar attribute equals it."""
    if not isinstance(target, list | tuple):
        return equal(target, value)
    if contains(target[:_MAX_LIST], value):
        return True
    if len(target) > _MAX_LIST:
        raise EvaluationError(f"'includes' function cannot be applied to lists longer than {_MAX_LIST} values")
    return False
