"""Kernels of the individual risk: E[1/F | f] where F - f is negative binomial.

Benedetti and Franconi (1998): each of the F units of a cell is in the sample with probability p,
and F given f is negative binomial, P(F | f) = C(F-1, f-1) p^f (1-p)^(F-f).
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_IMPUTE,
    PURPOSE_RATE,
    gamma,
    seek,
    uniform,
)
from unikat.kernels.random_rates import hashed
from unikat.kernels.zeros import find

_MANY = 16.0
"""Frequencies from which on the power series converges for any p, in 90 terms."""
_TERMS = 24
_SCALE = ((3.0 + math.sqrt(8.0)) ** _TERMS + (3.0 - math.sqrt(8.0)) ** _TERMS) / 2.0


@device
def mean_inverse(f, p):
    """E[1/F | f] of one cell, f >= 1 (it need not be whole), 0 < p <= 1, to about 1e-15.

    With q = 1 - p it is p^f/f 2F1(f, f; f+1; q). By Euler's transformation that is p/f times
    2F1(1, 1; f+1; q) = sum_k k! q^k / ((f+1) ... (f+k)): positive terms, no power of p that could
    underflow. It converges fast for large p or f. Else, with r = p/q,

        E[1/F | f] = r int_0^1 u^(f-1) / (u + r) du,

    cut at r and expanded in u/r and r/u: an alternating sum over k of

        r^(f-1) / (f+k)  +  (r^k - r^(f-1)) / (f-1-k),

    moments of a positive measure on [0, 1], which 24 terms sum to 4e-19 (Cohen, Rodriguez Villegas
    and Zagier 2000, algorithm 1).
    """
    q = 1.0 - p
    if p >= 0.5 or f >= _MANY:
        term, total, k = 1.0, 1.0, 1.0
        while term * k > 1e-18:
            term *= q * k / (f + k)
            total += term
            k += 1.0
        return p / f * total
    log_r = math.log(p) - math.log1p(-p)
    r = p / q
    low = math.exp((f - 1.0) * log_r)
    high = 1.0
    b, c, total = -1.0, -_SCALE, 0.0
    for k in range(_TERMS):
        rest = f - 1.0 - k
        if rest > 0.0:
            moment = -high * math.expm1(rest * log_r) / rest
        elif rest < 0.0:
            moment = low * math.expm1(-rest * log_r) / rest
        else:
            moment = -high * log_r
        c = b - c
        total += c * (moment + low / (f + k))
        b *= (k + _TERMS) * (k - _TERMS) / ((k + 0.5) * (k + 1.0))
        high *= r
    return r * total / _SCALE


@kernel
def exact_risk(frequency, p, risk):
    """E[1/F | f] of each cell into risk; all (n,)."""
    for i in range(frequency.shape[0]):
        risk[i] = mean_inverse(frequency[i], p[i])


@kernel
def approximate_risk(frequency, p, risk):
    """Franconi and Polettini's (2004) E[1/F | f] into risk: exact up to f = 2, then p / (f - q)."""
    for i in range(frequency.shape[0]):
        if frequency[i] > 2.0:
            risk[i] = p[i] / (frequency[i] - (1.0 - p[i]))
        else:
            risk[i] = mean_inverse(frequency[i], p[i])


@kernel
def draw_rates(key, sweep, cells, counts, odds, rates):
    """Draw the rate of the unobserved units of each cell: Gamma(f) (1 - p) / p, into rates.

    F - f is Poisson of it, so negative binomial. cells (n, n_keys); counts f >= 1, odds (1 - p) / p
    and rates (n,). A cell has the same number in all calls of a sweep.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(cells.shape[0]):
        seek(generator, key, hashed(cells[i]), sweep, PURPOSE_RATE)
        rates[i] = odds[i] * gamma(generator, counts[i])


@kernel
def choose(key, sweep, times, start, candidates, below, chosen):
    """Draw one of its pattern's candidates for every record, in proportion to their sizes.

    Pattern q has times[q] records and the candidates start[q] to start[q+1]-1, their sizes added up
    in below. chosen (sum(times),) is left as it is where a pattern has none.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    record = 0
    for q in range(times.shape[0]):
        first, last = start[q], start[q + 1]
        for _ in range(times[q]):
            if first < last:
                seek(generator, key, record, sweep, PURPOSE_IMPUTE)
                point = uniform(generator) * below[last - 1]
                chosen[record] = candidates[find(below, first, last, point)]
            record += 1
