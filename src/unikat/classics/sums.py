"""Sums of reciprocals of many terms without listing them, and roots between two signs."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.optimize import brentq
from scipy.special import gammaln

from unikat._typing import Float64


def falling_root(function: Callable[[float], float], start: float) -> float:
    """Root of a function on (0, inf) that is positive at first and negative in the end."""
    low = high = start
    while function(low) <= 0.0:
        low /= 8.0
    while function(high) > 0.0:
        high *= 8.0
    root = brentq(lambda x: function(math.exp(x)), math.log(low), math.log(high), xtol=1e-15)
    return math.exp(root)


def reciprocals(x: float, m: float | Float64) -> Float64:
    """Sum of 1 / (x + i) for i = 0 to m - 1: digamma(x + m) - digamma(x), without cancelling.

    Parameters
    ----------
    x
        Above 0.
    m
        Number of terms, at least 0; need not be whole.
    """
    terms = np.asarray(m, dtype=np.float64)
    total = np.zeros(terms.shape)
    # Where digamma's asymptotic series is not good yet, its recurrence.
    while x < 20.0:
        total += terms / (x * (x + terms))
        x += 1.0
    y = x + terms
    total += np.log1p(terms / x) + terms / (2.0 * x * y)
    for power, number in ((2, 12.0), (4, -120.0), (6, 252.0), (8, -240.0)):
        total += (x**-power - y**-power) / number
    return total


def spaced(delta: float, alpha: float, m: float) -> float:
    """Sum of 1 / (delta + k alpha) for k = 0 to m - 1."""
    if alpha * m < 1e-17 * delta:
        return m / delta
    return float(reciprocals(delta / alpha, m)) / alpha


def weighted(delta: float, alpha: float, m: float) -> float:
    """Sum of k / (delta + k alpha) for k = 0 to m - 1."""
    step = alpha / delta
    if step * m > 1e-4:
        return (m - delta * spaced(delta, alpha, m)) / alpha
    # That would cancel: the sums of powers of k, times those of the small step.
    one = m * (m - 1.0) / 2.0
    two = one * (2.0 * m - 1.0) / 3.0
    four = two * (3.0 * m * m - 3.0 * m - 1.0) / 5.0
    return (one - step * (two - step * (one * one - step * four))) / delta


def stirling(x: Float64) -> Float64:
    """Log gamma less its leading part (x - 1/2) log x - x + log(2 pi) / 2, for x > 0."""
    series = (1.0 / 12.0 - x**-2.0 / 360.0) / x
    exact = gammaln(x) - (x - 0.5) * np.log(x) + x - 0.5 * math.log(2.0 * math.pi)
    return np.where(x < 100.0, exact, series)
