"""Kubernetes quantities (``500m``, ``1.5Gi``, ``2e3``) as exact integers.

Whether a pod fits must not depend on a rounding error, so nothing here is a float. A quantity becomes a whole number of
billionths, the finest step that Kubernetes supports, and is rounded to thousandths (CPU) or units (bytes, counts) only
where upstream does so. The same few strings occur on thousands of pods, hence the cache.

Upstream's grammar is wider than its documentation: digits may be missing altogether (``m``, ``.`` and ``+`` are zero),
a dot may lead or trail, and surrounding white space is ignored. All of that is accepted here, too.
"""

import re
from functools import lru_cache
from typing import Annotated

import msgspec

NANO = 10**9
MAX_INT64 = 2**63 - 1
# Upstream documents 2^63-1 as the largest magnitude of any quantity but enforces it for binary suffixes only: "10E"
# overflows its accessors and reads as 0. Capping every form keeps a huge quantity huge.
_MAX_NANOS = MAX_INT64 * NANO

_DECIMAL = {"n": -9, "u": -6, "m": -3, "": 0, "k": 3, "M": 6, "G": 9, "T": 12, "P": 15, "E": 18}
_BINARY = {"Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40, "Pi": 50, "Ei": 60}

_PATTERN = (
    r"^(?=\s*\S)\s*(?P<sign>[+-]?)(?P<whole>[0-9]{0,999})(?:\.(?P<fraction>[0-9]{0,999}))?"
    r"(?P<suffix>[KMGTPE]i|[numkMGTPE]?|[eE](?P<exponent>[+-]?[0-9]{1,18}))\s*$"
)
_QUANTITY = re.compile(_PATTERN)
# Decoding checks every quantity of every object. Nearly all match this pattern, which takes half the time.
_USUAL = r"^[0-9]{1,18}(?:[KMG]i|m|)$"

#: How a quantity is written: a string or a bare JSON number. Decoding rejects other strings.
Quantity = Annotated[str, msgspec.Meta(pattern=f"{_USUAL}|{_PATTERN}")] | int | float

MALFORMED = "is malformed; use a number with an optional suffix such as 500m or 1Gi"


class QuantityError(ValueError):
    """A quantity that Kubernetes does not accept."""

    def __init__(self, quantity: Quantity) -> None:
        super().__init__(quantity)
        self.quantity = quantity

    def __str__(self) -> str:
        return f"quantity {msgspec.json.encode(self.quantity).decode()} {MALFORMED}"


def nanos(quantity: Quantity) -> int:
    """The exact value in billionths. Anything finer rounds away from zero, so that a nonzero request stays nonzero."""
    return _nanos(quantity)


def milli(quantity: Quantity) -> int:
    """The value in thousandths, rounded away from zero: how CPU is counted."""
    return milli_of(_nanos(quantity))


def value(quantity: Quantity) -> int:
    """The value in units, rounded away from zero: how everything but CPU is counted."""
    return value_of(_nanos(quantity))


def milli_of(amount: int) -> int:
    """Billionths to thousandths, rounded away from zero and kept within 64 bits."""
    return _scaled(amount, 10**6)


def value_of(amount: int) -> int:
    """Billionths to units, rounded away from zero and kept within 64 bits."""
    return _scaled(amount, NANO)


def _scaled(amount: int, divisor: int) -> int:
    if amount < 0:
        return -_scaled(-amount, divisor)
    return min(-(-amount // divisor), MAX_INT64)


@lru_cache(maxsize=1 << 16)
def _nanos(quantity: Quantity) -> int:
    match = _QUANTITY.match(quantity if isinstance(quantity, str) else repr(quantity))
    if match is None:
        raise QuantityError(quantity)
    fraction = match["fraction"] or ""
    digits = int(match["whole"] + fraction or "0")
    suffix = match["suffix"]
    if suffix in _BINARY:
        magnitude = _shifted(digits << _BINARY[suffix], 9 - len(fraction))
    else:
        exponent = int(match["exponent"]) if match["exponent"] else _DECIMAL[suffix]
        magnitude = _shifted(digits, exponent + 9 - len(fraction))
    return -magnitude if match["sign"] == "-" else magnitude


def _shifted(digits: int, places: int) -> int:
    """``digits * 10**places``, rounded up and capped, without computing the huge power of a hostile exponent."""
    if digits == 0:
        return 0
    if places < 0 and -places >= len(str(digits)):
        return 1
    power: int = 10 ** (min(places, 28) if places > 0 else -places)
    return min(digits * power if places > 0 else -(-digits // power), _MAX_NANOS)


def canonical(quantity: Quantity) -> str:
    """The quantity as the API server writes it: ``1024Mi`` is ``1Gi``, ``1000m`` is ``1``."""
    text = quantity if isinstance(quantity, str) else repr(quantity)
    match = _QUANTITY.match(text)
    if match is None:
        raise QuantityError(quantity)
    amount = _nanos(quantity)
    if match["suffix"] in _BINARY:
        return binary(amount)
    return _decimal(amount, exponent=match["exponent"] is not None)


def binary(amount: int) -> str:
    """Billionths in canonical form with a binary suffix."""
    if abs(amount) < 1024 * NANO:
        return _decimal(amount, exponent=False)
    units, suffix = value_of(amount), ""
    for suffix_above in _BINARY:
        if units % 1024:
            break
        units, suffix = units // 1024, suffix_above
    return f"{units}{suffix}"


def _decimal(amount: int, *, exponent: bool) -> str:
    """Billionths with a decimal suffix, or as a power of ten: the largest one that is a multiple of three."""
    if amount == 0:
        return "0"
    power = -9
    while amount % 1000 == 0 and power < 18:
        amount //= 1000
        power += 3
    if exponent:
        return f"{amount}e{power}" if power else str(amount)
    return f"{amount}{next(suffix for suffix, each in _DECIMAL.items() if each == power)}"


def plus(first: Quantity, second: Quantity, sign: int = 1) -> str:
    """The sum in canonical form, or with ``sign`` -1 the difference. A zero takes the other's kind of suffix."""
    total = _nanos(first) + sign * _nanos(second)
    text = str(first if _nanos(first) else second)
    return binary(total) if text.rstrip().endswith("i") else _decimal(total, exponent=False)
