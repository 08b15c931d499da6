"""Limited-memory BFGS for smooth convex functions (Nocedal 1980).

SciPy's `minimize(method="L-BFGS-B")` takes as many walks over the cells (59 and 63 beside 55 and 58
for two-way models of 1,000 and 10,000 records) and as long with one thread. With two threads of its
linear algebra it takes 1.4 to 2 times as long: the vectors have a few hundred numbers, so it waits
for threads, and its result is rounded differently with their number. `benchmarks/optimisers.py`
measures both.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable

import numpy as np

from unikat._typing import Float64

_MEMORY = 30
_PATIENCE = 60
"""Iterations after which the gradient must have become smaller."""


def minimise(
    function: Callable[[Float64], tuple[float, Float64]],
    start: Float64,
    longest: Float64,
    most: int,
) -> None:
    """Walk down a convex function until the gradient gets no smaller; the caller keeps the best.

    The function returns value and gradient, has a curvature of about 1 along the axes, and may
    raise to end the walk. longest (n,): how far one iteration may go along each axis, since the
    minimum may be at infinity, and a long step towards it never comes back.
    """
    x = start
    value, gradient = function(x)
    pairs: deque[tuple[Float64, Float64, float]] = deque(maxlen=_MEMORY)
    smallest, waited, calls = math.inf, 0, 1
    while calls < most and waited < _PATIENCE:
        size = float(np.abs(gradient).max(initial=0.0))
        waited = 0 if size < 0.9 * smallest else waited + 1
        smallest = min(smallest, size)
        direction = -_times_inverse(pairs, gradient)
        slope = float(gradient @ direction)
        if not slope < 0.0:
            return
        step = 1.0 / max(1.0, float(np.max(np.abs(direction) / longest, initial=0.0)))
        while True:
            there = x + step * direction
            new_value, new_gradient = function(there)
            calls += 1
            # The last digits of the value say nothing: near the minimum it may seem to rise.
            allowed = 1e-4 * step * slope + 1e-13 * abs(value)
            if new_value <= value + allowed:
                break
            bend = new_value - value - step * slope
            best = -0.5 * slope * step**2 / bend if math.isfinite(bend) else 0.0
            step = min(max(best, 0.1 * step), 0.5 * step)
            if step < 1e-12 or calls >= most:
                return
        moved, change = there - x, new_gradient - gradient
        curvature = float(moved @ change)
        if curvature > 1e-14 * float(change @ change):
            pairs.append((moved, change, curvature))
        x, value, gradient = there, new_value, new_gradient


def _times_inverse(pairs: deque[tuple[Float64, Float64, float]], gradient: Float64) -> Float64:
    """Multiply by the approximate inverse of the second derivatives (two loops)."""
    if not pairs:
        # A short first step: factors that share cells push together.
        return 0.1 * gradient
    product = gradient.copy()
    shares = []
    for moved, change, curvature in reversed(pairs):
        share = float(moved @ product) / curvature
        product -= share * change
        shares.append(share)
    _, change, curvature = pairs[-1]
    product *= curvature / float(change @ change)
    for (moved, change, curvature), share in zip(pairs, reversed(shares), strict=True):
        product += (share - float(change @ product) / curvature) * moved
    return product
