"""Kernels of rates that vary around a model: each cell has a gamma effect of mean 1.

The probability of cell c is q_c g_c, where q_c = `factor` p_c and g_c ~ Gamma(1/k_c, rate 1/k_c):
the overdispersion k_c is the relative variance of such cells' rates around what the model gives
them. With f_c records of n seen, g_c ~ Gamma(1/k_c + f_c, rate 1/k_c + n q_c): the negative
binomial of Elamir and Skinner (2006, Journal of Official Statistics 22, 525-539) around any model.
Overdispersion is larger in rarer cells: k_c = k (N_c q_c)^-FALL, at most `MOST`, so that k is
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
MOST = 5.0


@kernel
def draw_pair(key, sweep, cumulative):
    """Draw an index with cumulative weights `cumulative` (m,)."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_CALIBRATE)
    return np.searchsorted(cumulative, uniform(generator) * cumulative[-1])


@device
def overdispersion_of(k, expected):
    """Overdispersion of a cell of which so many individuals of the population are expected."""
    return min(k * max(expected, 1e-30) ** -FALL, MOST)


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
def match_likelihood(p, matches, n_kept, n_left_out, population, overdispersion, shifts, out):
    """Add the probability of each cell's matches to `out` (n, m, s), for each k and each d.

    p (n,): of cells that one of the n_kept records is in; matches (n,): records left out that are
    in it, of n_left_out; population (n,): N_c; overdispersion (m,), shifts (s,). Given one record,
    the matches are negative binomial of shape 1 / k_c + 1 and mean proportional to q_c, which is
    exp(d) p_c.
    """
    for s in range(shifts.shape[0]):
        factor = math.exp(shifts[s])
        for i in range(p.shape[0]):
            q = max(factor * p[i], 1e-300)
            # A power a cell and shift, not one for each k.
            relative = max(population[i] * q, 1e-30) ** -FALL
            for m in range(overdispersion.shape[0]):
                rate = 1.0 / min(overdispersion[m] * relative, MOST)
                shape = rate + 1.0
                odds = n_left_out * q / (rate + n_kept * q)
                log_term = -shape * math.log1p(odds)
                # Without records left out the odds are 0, and so are the matches.
                step = math.log(odds / (1.0 + odds)) if matches[i] > 0 else 0.0
                for y in range(matches[i]):
                    log_term += step + math.log((shape + y) / (y + 1.0))
                out[i, m, s] += math.exp(log_term)
