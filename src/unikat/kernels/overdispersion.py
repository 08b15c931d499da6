"""Kernels of rates that vary around a model: each cell has a gamma effect of mean 1.

The probability of cell c is `factor p_c g_c` with g_c ~ Gamma(1/k, rate 1/k): the overdispersion k
is the relative variance of the cells' rates around what the model gives them. With f_c records of n
seen, g_c ~ Gamma(1/k + f_c, rate 1/k + n factor p_c): the negative binomial of Elamir and Skinner
(2006, Journal of Official Statistics 22, 525-539) around any model.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_CALIBRATE,
    PURPOSE_RATES,
    gamma,
    seek,
    uniform,
)


@kernel
def draw_pair(key, sweep, cumulative):
    """Draw an index with cumulative weights `cumulative` (m,)."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_CALIBRATE)
    return np.searchsorted(cumulative, uniform(generator) * cumulative[-1])


@kernel
def draw_rates(key, sweep, p, counts, n_records, overdispersion, factor, out):
    """Draw the probability of each cell given its records, into `out` (n,).

    p (n,): what the model gives; counts (n,) float64: records seen in the cell, of n_records. Where
    there are none the mean is taken instead of a draw: such cells stand beside others, of which
    they are the rest, and rests must not fall below what they are the rest of.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(p.shape[0]):
        q = factor * p[i]
        # gamma shape and rate, both times the overdispersion: it may be zero.
        shape = 1.0 + overdispersion * counts[i]
        rate = 1.0 + overdispersion * n_records * q
        if overdispersion > 0.0 and counts[i] > 0.0:
            seek(generator, key, i, sweep, PURPOSE_RATES)
            shape = overdispersion * gamma(generator, 1.0 / overdispersion + counts[i])
        out[i] = min(q * shape / rate, 1.0)


@kernel
def expected_sizes(p, times, n_records, overdispersion, out):
    """Add the expected number of cells seen once, twice, three times to `out` (m, 3), for each k.

    p (n,), times (n,): cells of a sample drawn from the model and how often each was drawn;
    overdispersion (m,). With individuals i drawn from the model,

        E #{c: f_c = s} = sum_c NB(s; n p_c, k) = E_i NB(s; n p_i, k) / p_i.
    """
    drawn = 0.0
    for i in range(p.shape[0]):
        drawn += times[i]
    for m in range(overdispersion.shape[0]):
        k = overdispersion[m]
        ones = 0.0
        twos = 0.0
        threes = 0.0
        for i in range(p.shape[0]):
            mean = n_records * p[i]
            grown = 1.0 + k * mean
            # NB(1) / mean = (1 + k mean)^(-1/k - 1), whose limit is exp(-mean).
            once = math.exp(-math.log(grown) / k) / grown if k > 0.0 else math.exp(-mean)
            step = mean / grown
            ones += times[i] * once
            twos += times[i] * once * step * (1.0 + k) / 2.0
            threes += times[i] * once * step * step * (1.0 + k) * (1.0 + 2.0 * k) / 6.0
        scale = n_records / drawn
        out[m, 0] += ones * scale
        out[m, 1] += twos * scale
        out[m, 2] += threes * scale


@kernel
def match_likelihood(p, matches, n_kept, n_left_out, overdispersion, shifts, out):
    """Add the probability of each cell's matches to `out` (n, m, s), for each k and each d.

    p (n,): of cells that one of the n_kept records is in; matches (n,): records left out that are
    in it, of n_left_out; overdispersion (m,), shifts (s,). Given one record, the matches are
    negative binomial of shape 1/k + 1 and mean proportional to exp(d) p.
    """
    for m in range(overdispersion.shape[0]):
        k = overdispersion[m]
        shape = 1.0 / k + 1.0
        for s in range(shifts.shape[0]):
            factor = math.exp(shifts[s])
            for i in range(p.shape[0]):
                q = max(factor * p[i], 1e-300)
                odds = n_left_out * q / (1.0 / k + n_kept * q)
                log_term = -shape * math.log1p(odds)
                # Without records left out the odds are 0, and so are the matches.
                step = math.log(odds / (1.0 + odds)) if matches[i] > 0 else 0.0
                for y in range(matches[i]):
                    log_term += step + math.log((shape + y) / (y + 1.0))
                out[i, m, s] += math.exp(log_term)
