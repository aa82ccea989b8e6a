"""Ranges of sizes and costs, in arithmetic that stops at the largest unsigned integer of 64 bits."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

LIMIT = 2**64 - 1


@dataclass(frozen=True, slots=True)
class Range:
    """The least and the greatest size or cost that is possible."""

    min: int
    max: int

    @classmethod
    def fixed(cls, value: int) -> Range:
        return cls(value, value)

    def __add__(self, other: Range) -> Range:
        return Range(min(self.min + other.min, LIMIT), min(self.max + other.max, LIMIT))

    def __mul__(self, other: Range) -> Range:
        return Range(min(self.min * other.min, LIMIT), min(self.max * other.max, LIMIT))

    def __or__(self, other: Range) -> Range:
        """The range that covers both."""
        return Range(min(self.min, other.min), max(self.max, other.max))

    def scaled(self, factor: float) -> Range:
        """Multiplied in floating point and rounded up, with cel-go's rounding errors."""
        return Range(_scaled(self.min, factor), _scaled(self.max, factor))


def _scaled(value: int, factor: float) -> int:
    number = float(value)
    if number > 0 and factor > 0 and number > float(LIMIT) / factor:
        return LIMIT
    return min(ceil(number * factor), LIMIT)


UNKNOWN = Range(0, LIMIT)
ZERO = Range(0, 0)
ONE = Range(1, 1)
EMPTY = Range(LIMIT, 0)
