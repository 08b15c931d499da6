"""Kernels of rates that vary around a model: each cell has a gamma effect of mean 1.

The probability of cell c is q_c g_c, where q_c = `factor` p_c and g_c ~ Gamma(1/k_c, rate 1/k_c):
the overdispersion k_c is the relative variance of such cells' rates around what the model gives
them. With f_c records of n seen, g_c ~ Gamma(1/k_c + f_c, rate 1/k_c + n q_c): the negative
binomial of Elamir and Skinner (2006, Journal of Official Statistics 22, 525-539) around any model.
Overdispersion is larger in rarer cells: k_c = k (N_c q_c)^-FALL, at most `largest(k)`, so that k is
that of a cell of which one individual of the population is expected. N_c is the population's size
N, or where cells were sampled at different rates, expected units of the population over q_c.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_CALIBRATE,
    PURPOSE_RATES,
    gamma,
    seek,
    uniform,
)

FALL = 0.15
"""Between 0.3, which fits true population counts best, and 0 (docs/explanation/auto.md)."""
MOST, MOST_TIMES = 5.0, 2.5
"""Overdispersion of a cell, and how many times k, at most: whichever is more."""


@kernel
def draw_pair(key, sweep, cumulative):
    """Draw an index with cumulative weights `cumulative` (m,)."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_CALIBRATE)
    return np.searchsorted(cumulative, uniform(generator) * cumulative[-1])


@device
def largest(k):
    """Largest overdispersion of a cell."""
    return max(MOST, MOST_TIMES * k)


@device
def overdispersion_of(k, expected):
    """Overdispersion of a cell of which so many individuals of the population are expected."""
    return min(k * max(expected, 1e-30) ** -FALL, largest(k))


@kernel
def draw_rates(key, sweep, p, counts, looked_at, population, k, factor, out):
    """Draw the probability of each cell given its records, into `out` (n,).

    p (n,): what the model gives; counts (n,) float64: units seen in the cell, where looked_at (n,)
    of the population's are looked at: the records, in a sample; population (n,): N_c; k positive.
    Where there are no records the mean is taken instead of a draw: such cells stand beside others,
    of which they are the rest, and rests must not fall below what they are the rest of.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(p.shape[0]):
        q = factor * p[i]
        shape = 1.0 / overdispersion_of(k, population[i] * q)
        drawn = shape
        if counts[i] > 0.0:
            seek(generator, key, i, sweep, PURPOSE_RATES)
            # At least 1, as the generator asks.
            drawn = gamma(generator, shape + counts[i])
        out[i] = min(q * drawn / (shape + looked_at[i] * q), 1.0)


@kernel
def add_to_bins(values, lowest, width, out):
    """Count each value (n,) in the bin of its logarithm, out (n, n_bins) int32."""
    last = out.shape[1] - 1
    for i in range(values.shape[0]):
        place = (math.log(max(values[i], 1e-300)) - lowest) / width
        out[i, int(min(max(place, 0.0), last))] += 1


@device
def weigh_without(draws, expected, times, fraction, weights):
    """Weights (n_bins,) of the draws in each bin without the cell's own records; not scaled.

    draws (n_bins,) counts; expected (n_bins,): population units; `times` of the cell's units are in
    the sample, which is this fraction of the population. Weights of single draws are cut off at
    sqrt(S) times their mean.
    """
    largest = -np.inf
    n_draws = 0
    for b in range(draws.shape[0]):
        weights[b] = fraction * expected[b] - times * math.log(expected[b])
        if draws[b] > 0:
            n_draws += draws[b]
            largest = max(largest, weights[b])
    total = 0.0
    for b in range(draws.shape[0]):
        weights[b] = math.exp(min(weights[b] - largest, 0.0)) if draws[b] > 0 else 0.0
        total += draws[b] * weights[b]
    most = total / math.sqrt(max(n_draws, 1))
    for b in range(draws.shape[0]):
        weights[b] = draws[b] * min(weights[b], most)


@kernel
def means_without(draws, expected, times, fraction):
    """Mean number of population units expected in each cell without its own records, (n,).

    draws (n, n_bins) as `add_to_bins` counts them; fraction (n,); the others as for
    `weigh_without`.
    """
    out = np.empty(draws.shape[0])
    weights = np.empty(draws.shape[1])
    for i in range(draws.shape[0]):
        weigh_without(draws[i], expected, times, fraction[i], weights)
        out[i] = np.sum(weights * expected) / max(np.sum(weights), 1e-300)
    return out


@kernel
def repeat_likelihood(draws, expected, counts, fraction, overdispersion, shifts, out):
    """Log-probability of each cell's count given that it is 1, 2 or 3, into `out` (n, m, s).

    draws (n, n_bins), expected (n_bins,), fraction (n,) as for `means_without`; counts (n,);
    overdispersion (m,), shifts (s,). The count is negative binomial around the cell's probability,
    which is drawn without the cell's own records.
    """
    weights = np.empty(draws.shape[1])
    for i in range(draws.shape[0]):
        weigh_without(draws[i], expected, float(counts[i]), fraction[i], weights)
        for s in range(shifts.shape[0]):
            factor = math.exp(shifts[s])
            for m in range(overdispersion.shape[0]):
                seen, some = 0.0, 0.0
                for b in range(draws.shape[1]):
                    if weights[b] == 0.0:
                        continue
                    units = factor * expected[b]
                    k = overdispersion_of(overdispersion[m], units)
                    mean = fraction[i] * units
                    step = mean / (1.0 + k * mean)
                    once = mean * math.exp(-(1.0 / k + 1.0) * math.log1p(k * mean))
                    twice = once * step * (1.0 + k) / 2.0
                    thrice = twice * step * (1.0 + 2.0 * k) / 3.0
                    some += weights[b] * (once + twice + thrice)
                    if counts[i] == 1:
                        seen += weights[b] * once
                    elif counts[i] == 2:
                        seen += weights[b] * twice
                    else:
                        seen += weights[b] * thrice
                out[i, m, s] = math.log(max(seen, 1e-300) / max(some, 1e-300))
