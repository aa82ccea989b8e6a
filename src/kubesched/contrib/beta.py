"""The beta distribution, for many nodes at once: how likely is a load of at most x, given its mean and deviation?"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]

STEPS = 20_000
PRECISION = 1e-12
TINY = 1e-300
FEW = 16

_log_gamma = np.frompyfunc(math.lgamma, 1, 1)


def beta_cdf(x: Floats, a: Floats, b: Floats) -> Floats:
    """The regularised incomplete beta function, for a and b above 0 and x from 0 to 1."""
    inside = (x > 0) & (x < 1)
    found = np.where(x >= 1, 1.0, 0.0)
    if inside.any():
        found[inside] = _inside(x[inside], a[inside], b[inside])
    return found


def _inside(x: Floats, a: Floats, b: Floats) -> Floats:
    # The continued fraction converges quickly below the mean; above it, the tail of the mirrored one is used.
    mirrored = x > (a + 1) / (a + b + 2)
    x, a, b = np.where(mirrored, 1 - x, x), np.where(mirrored, b, a), np.where(mirrored, a, b)
    fraction = _fraction if len(x) > FEW else np.frompyfunc(_one_fraction, 3, 1)
    log = _lgamma(a + b) - _lgamma(a) - _lgamma(b) + a * np.log(x) + b * np.log1p(-x)
    part = np.clip(np.exp(log) * np.asarray(fraction(x, a, b), dtype=np.float64) / a, 0, 1)
    return np.where(mirrored, 1 - part, part)


def _lgamma(values: Floats) -> Floats:
    return np.asarray(_log_gamma(values), dtype=np.float64)


def _fraction(x: Floats, a: Floats, b: Floats) -> Floats:
    """The continued fraction of the incomplete beta function, by Lentz's method."""
    found = np.ones_like(x)
    left = np.flatnonzero(x >= 0)
    c, d = np.ones_like(x), 1 / _apart(1 - (a + b) * x / (a + 1))
    result = d.copy()
    for m in range(1, STEPS):
        for factor in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1 / _apart(1 + factor * d)
            c = _apart(1 + factor / c)
            result *= c * d
        if m % 8 == 0:  # drop the numbers that have converged
            more = np.abs(c * d - 1) >= PRECISION
            found[left[~more]] = result[~more]
            if not more.any():
                return found
            left = left[more]
            x, a, b, c, d, result = (each[more] for each in (x, a, b, c, d, result))
    found[left] = result
    return found


def _one_fraction(x: float, a: float, b: float) -> float:
    """The same for one number: arrays are slow if they are short."""
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or TINY)
    result = d
    for m in range(1, STEPS):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for factor in (even, odd):
            d = 1 / (1 + factor * d or TINY)
            c = 1 + factor / c or TINY
            result *= c * d
        if abs(c * d - 1) < PRECISION:
            break
    return result


def _apart(values: Floats) -> Floats:
    """Keep away from zero."""
    return np.where(np.abs(values) < TINY, TINY, values)


def shape_of(mean: Floats, deviation: Floats) -> tuple[Floats, Floats]:
    """The parameters of the beta distribution with this mean, between 0 and 1, and this positive deviation."""
    scale = np.maximum(mean * (1 - mean) / deviation**2 - 1, np.finfo(np.float64).tiny)
    return mean * scale, (1 - mean) * scale
