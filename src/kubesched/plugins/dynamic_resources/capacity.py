"""Consumable capacity: how much of a device's capacity a request takes, by the device's request policy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from kubesched.api import devices as dra
from kubesched.api.quantity import NANO, Quantity, binary, canonical, nanos, value_of

Consumed = Mapping[str, int]
"""Amounts by capacity name, in billionths."""
NOTHING: Consumed = {}


@dataclass(frozen=True, slots=True)
class Portion:
    """A quantity to count with and to write down."""

    nanos: int
    text: str

    @staticmethod
    def of(quantity: Quantity) -> Portion:
        """The amount that a quantity stands for."""
        return Portion(nanos(quantity), canonical(quantity))


@dataclass(frozen=True, slots=True)
class Capacity:
    """One capacity of a device and the policy for requests of it."""

    value: Portion
    default: Portion | None = None
    valid_values: tuple[Portion, ...] = ()
    has_range: bool = False
    minimum: Portion | None = None
    maximum: Portion | None = None
    step: Portion | None = None

    def consumed(self, requested: Portion | None) -> Portion:
        """What a request takes: rounded up as the policy says, the default or everything where nothing is requested."""
        if requested is None:
            return self.default or self.value
        if self.minimum is not None:
            return self._rounded_up(requested, self.minimum)
        for valid in self.valid_values:
            if requested.nanos <= valid.nanos:
                return valid
        return requested

    def _rounded_up(self, requested: Portion, minimum: Portion) -> Portion:
        if requested.nanos < minimum.nanos:
            return minimum
        if self.step is None:
            return requested
        step, start = value_of(self.step.nanos), value_of(minimum.nanos)
        steps = -(-(value_of(requested.nanos) - start) // step) if step else 0
        units = (start + step * steps) * NANO
        return Portion(units, binary(units))

    def violates_policy(self, consumed: Portion) -> bool:
        """Whether an amount is one that the policy does not allow."""
        if self.default is not None and consumed == self.default:
            return False
        if self.has_range:
            return self._violates_range(consumed)
        return bool(self.valid_values) and all(consumed.nanos != valid.nanos for valid in self.valid_values)

    def _violates_range(self, consumed: Portion) -> bool:
        if self.maximum is not None and consumed.nanos > self.maximum.nanos:
            return True
        if self.step is None:
            return False
        step = value_of(self.step.nanos)
        start = 0 if self.minimum is None else value_of(self.minimum.nanos)
        return step != 0 and (value_of(consumed.nanos) - start) % step != 0


def compiled_capacity(capacity: dra.DeviceCapacity) -> Capacity:
    """A device's capacity, ready to count with."""
    value, policy = Portion.of(capacity.value), capacity.request_policy
    if policy is None:
        return Capacity(value)
    allowed = policy.valid_range
    return Capacity(
        value,
        default=_amount(policy.default),
        valid_values=tuple(Portion.of(each) for each in policy.valid_values),
        has_range=allowed is not None,
        minimum=None if allowed is None else _amount(allowed.min),
        maximum=None if allowed is None else _amount(allowed.max),
        step=None if allowed is None else _amount(allowed.step),
    )


def _amount(quantity: Quantity | None) -> Portion | None:
    return None if quantity is None else Portion.of(quantity)


def consumption(capacities: Mapping[str, Capacity], requested: Mapping[str, Portion]) -> dict[str, Portion] | None:
    """What a request takes of each capacity of a device; None if it asks for what the device does not have, for more
    than there is, or for an amount that the policy does not allow."""
    if any(name not in capacities for name in requested):
        return None
    taken = {name: capacity.consumed(requested.get(name)) for name, capacity in capacities.items()}
    for name, capacity in capacities.items():
        if capacity.violates_policy(taken[name]) or taken[name].nanos > capacity.value.nanos:
            return None
    return taken


def fits(capacities: Mapping[str, Capacity], taken: Mapping[str, Portion], allocated: Consumed, more: Consumed) -> bool:
    """Whether the device has this much left beside what others took: recorded allocations, and those being made."""
    return all(
        allocated.get(name, 0) + more.get(name, 0) + amount.nanos <= capacities[name].value.nanos
        for name, amount in taken.items()
    )
