"""Means of a few measurements, with the interval in which the true mean lies."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf, pi, sqrt, tan
from statistics import NormalDist, fmean, stdev
from typing import NamedTuple


class MeanInterval(NamedTuple):
    """A mean and its confidence interval, which is infinite for a single measurement."""

    mean: float
    half: float
    """Half the width of the interval."""

    @property
    def low(self) -> float:
        return self.mean - self.half

    @property
    def high(self) -> float:
        return self.mean + self.half

    @property
    def excludes_zero(self) -> bool:
        """Whether the sign of the true mean is known."""
        return self.low > 0 or self.high < 0

    def __str__(self) -> str:
        mean = in_digits(self.mean)
        return mean if self.half in (0.0, inf) else f"{mean} ± {in_digits(self.half, 2)}"


def in_digits(value: float, digits: int = 4, *, sign: str = "") -> str:
    """A number with so many significant digits, never with an exponent where it is large. Zero has no sign."""
    if not value:
        return "0"
    large = abs(value) >= 10**digits - 0.5
    return f"{value:{sign},.0f}" if large else f"{value:{sign}.{digits}g}"


def mean_interval(values: Sequence[float]) -> MeanInterval:
    """The mean of independent measurements with its 95 % interval, by Student's t.

    For two configurations, give their paired differences.
    """
    if len(values) < 2:
        return MeanInterval(fmean(values), inf)
    t = student_t(0.975, len(values) - 1)
    return MeanInterval(fmean(values), t * stdev(values) / sqrt(len(values)))


def student_t(probability: float, freedom: int) -> float:
    """The quantile of Student's t distribution: exact for one and two degrees of freedom, else to three digits."""
    if freedom == 1:
        return tan(pi * (probability - 0.5))
    if freedom == 2:
        return (2 * probability - 1) * sqrt(2 / (4 * probability * (1 - probability)))
    z = NormalDist().inv_cdf(probability)
    n = float(freedom)
    terms = (  # the Cornish-Fisher expansion
        z,
        (z**3 + z) / (4 * n),
        (5 * z**5 + 16 * z**3 + 3 * z) / (96 * n**2),
        (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * n**3),
        (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / (92160 * n**4),
    )
    return sum(terms)
