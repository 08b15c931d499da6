"""Kernels of Skinner and Shlomo's tests of fit of a log-linear model, weighted by the risk.

Sums over all cells, the empty ones among them; see `models/loglinear/selection.py`.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.loglinear import block_factors, is_constant, next_block, start_walk


@device
def risk_derivatives(rate, share):
    """First and second derivative by the rate of r1 and of r2 of a sample unique (Poisson).

    With x = (1 - share) rate: r1 = exp(-x), r2 = (1 - exp(-x)) / x.
    """
    rest = 1.0 - share
    x = rest * rate
    if x < 0.02:
        # Series: the closed forms lose all digits near 0, and most cells are there.
        decay = 1.0 - x * (1.0 - x * (1 / 2 - x * (1 / 6 - x * (1 / 24 - x / 120))))
        slope = -1 / 2 + x * (1 / 3 + x * (-1 / 8 + x * (1 / 30 - x / 144)))
        bend = 1 / 3 + x * (-1 / 4 + x * (1 / 10 + x * (-1 / 36 + x / 168)))
    else:
        decay = math.exp(-x)
        slope = (decay * (x + 1.0) - 1.0) / (x * x)
        bend = (2.0 - decay * (x * x + 2.0 * x + 2.0)) / (x * x * x)
    return -rest * decay, rest * rest * decay, rest * slope, rest * rest * bend


@device
def bias_weights(mean, share):
    """Weights a, b of a cell in B1 and B2, which sum a (f - mean) + b ((f - mean)^2 - f).

    Skinner and Shlomo (2008). The sum tests the fitted means; it is not the bias of tau, whose
    second-order term has another weight (`models/loglinear/selection.py`).
    """
    rate = mean / share
    slope1, bend1, slope2, bend2 = risk_derivatives(rate, share)
    none = math.exp(-mean) if mean > 1e-5 else 1.0 - mean * (1.0 - 0.5 * mean)
    unique = mean * none
    return (
        -unique * slope1 / share,
        0.5 * unique * bend1 / share**2,
        -unique * slope2 / share,
        0.5 * unique * bend2 / share**2,
    )


@kernel
def empty_cell_sums(scale, share, terms, factors, sums):
    """Sums over all cells as if each were empty; the mean of a cell is scale times its weight.

    Added to sums: the squared means; then for B1 its terms at f = 0 and its variance
    a^2 mean + 2 b^2 mean^2, and the same for B2.
    """
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    block = np.empty((offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]))
    free = np.full(n_keys, -1)
    nothing = np.empty(0)
    stale = True
    walk = start_walk(scale, terms, factors)
    while next_block(walk, terms, factors, free, False, factors.pair, nothing):
        if stale:
            block_factors(walk, terms, factors, free, block)
            stale = not is_constant(terms)
        for x in range(block.shape[0]):
            v = walk.value[a] * walk.weight[a, offsets[a] + x]
            if v == 0.0:
                continue
            for y in range(block.shape[1]):
                mean = v * walk.weight[a, offsets[b] + y] * block[x, y]
                if mean == 0.0:
                    continue
                a1, b1, a2, b2 = bias_weights(mean, share)
                sums[0] += mean * mean
                sums[1] += mean * (b1 * mean - a1)
                sums[2] += mean * (a1 * a1 + 2.0 * b1 * b1 * mean)
                sums[3] += mean * (b2 * mean - a2)
                sums[4] += mean * (a2 * a2 + 2.0 * b2 * b2 * mean)


@kernel
def add_occupied(means, counts, share, sums):
    """Correct the sums of `empty_cell_sums` for the cells that are not empty."""
    for i in range(means.shape[0]):
        mean, f = means[i], counts[i]
        a1, b1, a2, b2 = bias_weights(mean, share)
        # The term at f minus the term at 0, whose (f - mean)^2 - f is mean^2.
        change = (f - mean) ** 2 - f - mean * mean
        sums[1] += a1 * f + b1 * change
        sums[3] += a2 * f + b2 * change
