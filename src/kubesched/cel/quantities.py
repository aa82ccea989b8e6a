"""Quantities: ``quantity('1Gi').isGreaterThan(quantity('500Mi'))``."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import total_ordering

from kubesched.api.quantity import MAX_INT64, NANO, QuantityError, nanos
from kubesched.cel.errors import EvaluationError
from kubesched.cel.functions import Library
from kubesched.cel.values import register

library = Library()

_MALFORMED = "quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'"
_PARTS = re.compile(
    r"[+-]?(?P<digits>[0-9]*)(?:\.(?P<fraction>[0-9]*))?(?P<suffix>[a-zA-Z]*)(?P<exponent>[+-]?[0-9]*)$"
)
_POWERS = {"n": -9, "u": -6, "m": -3, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}


@total_ordering
@dataclass(frozen=True, slots=True)
class Quantity:
    """An exact amount in billionths.

    ``integral`` says whether it is written as a whole number: Kubernetes does not take ``2000m`` for an integer.
    """

    nanos: int
    integral: bool

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Quantity) and self.nanos == other.nanos

    def __lt__(self, other: Quantity) -> bool:
        return self.nanos < other.nanos

    def __hash__(self) -> int:
        return hash(self.nanos)

    @classmethod
    def parse(cls, text: str) -> Quantity:
        amount = nanos(text)
        return cls(amount, _integral(text, amount))

    def plus(self, amount: int, integral: bool) -> Quantity:
        total = self.nanos + amount
        return Quantity(total, self.integral and integral and -MAX_INT64 - 1 <= total // NANO <= MAX_INT64)


register(Quantity, "kubernetes.Quantity")


def _integral(text: str, amount: int) -> bool:
    match = _PARTS.match(text.strip())
    if match is None or abs(amount) >= MAX_INT64 * NANO:
        return False
    fraction, suffix = match["fraction"] or "", match["suffix"]
    if suffix.endswith("i"):
        return not fraction and amount % NANO == 0
    exponent = int(match["exponent"] or 0) if suffix in ("e", "E") and match["exponent"] else _POWERS.get(suffix, 0)
    return exponent >= len(fraction) and amount % NANO == 0


@library.define(string_to_quantity="quantity(string) -> quantity")
def quantity(text: str) -> Quantity:
    try:
        return Quantity.parse(text)
    except QuantityError:
        raise EvaluationError(_MALFORMED) from None


@library.define(is_quantity_string="isQuantity(string) -> bool")
def is_quantity(text: str) -> bool:
    try:
        nanos(text)
    except QuantityError:
        return False
    return True


@library.define(quantity_is_integer="quantity.isInteger() -> bool")
def is_integer(value: Quantity) -> bool:
    return value.integral


@library.define(quantity_get_int="quantity.asInteger() -> int")
def as_integer(value: Quantity) -> int:
    if not value.integral:
        raise EvaluationError("cannot convert value to integer")
    return value.nanos // NANO


@library.define(quantity_get_float="quantity.asApproximateFloat() -> double")
def as_float(value: Quantity) -> float:
    return value.nanos / NANO


@library.define(quantity_sign="sign(quantity) -> int")
def sign(value: Quantity) -> int:
    return (value.nanos > 0) - (value.nanos < 0)


@library.define(quantity_add="quantity.add(quantity) -> quantity")
def add(value: Quantity, other: Quantity) -> Quantity:
    return value.plus(other.nanos, other.integral)


@library.define(quantity_add_int="quantity.add(int) -> quantity")
def add_int(value: Quantity, other: int) -> Quantity:
    return value.plus(other * NANO, True)


@library.define(quantity_sub="quantity.sub(quantity) -> quantity")
def sub(value: Quantity, other: Quantity) -> Quantity:
    return value.plus(-other.nanos, other.integral)


@library.define(quantity_sub_int="quantity.sub(int) -> quantity")
def sub_int(value: Quantity, other: int) -> Quantity:
    return value.plus(-other * NANO, True)


@library.define(quantity_is_less_than="quantity.isLessThan(quantity) -> bool")
def less(value: Quantity, other: Quantity) -> bool:
    return value < other


@library.define(quantity_is_greater_than="quantity.isGreaterThan(quantity) -> bool")
def greater(value: Quantity, other: Quantity) -> bool:
    return value > other


@library.define(quantity_compare_to="quantity.compareTo(quantity) -> int")
def compare_to(value: Quantity, other: Quantity) -> int:
    return (value > other) - (value < other)
