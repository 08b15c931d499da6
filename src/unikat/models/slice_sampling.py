"""A slice sampler of one number whose log density is known up to a constant (Neal 2003)."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_WIDTH = 1.0
"""Steps of the stepping out; coordinates are logarithms."""


def slice_draw(
    generator: np.random.Generator, position: float, log_density: Callable[[float], float]
) -> float:
    """Make an update of a slice sampler with stepping out (Neal 2003)."""
    level = log_density(position) - generator.standard_exponential()
    low = position - _WIDTH * generator.random()
    high = low + _WIDTH
    while log_density(low) > level:
        low -= _WIDTH
    while log_density(high) > level:
        high += _WIDTH
    while True:
        there = float(generator.uniform(low, high))
        if log_density(there) > level or high - low < 1e-12:
            return there
        low, high = (there, high) if there < position else (low, there)
