"""Kernels of log-linear models with a random effect in each cell, gamma or lognormal.

A cell's rate lambda has the fitted rate as its mean (or median); given the count f of the cell,
f ~ Poisson(share lambda), it is drawn from its posterior. `spread` is 1/shape of the gamma law or
the variance of the logarithm; at 0 the rate is the fitted one.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.loglinear import block_factors, is_constant, next_block, start_walk
from unikat.kernels.poisson_normal import draw_log_rate
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_RATE,
    PURPOSE_SIMULATE,
    exponential,
    log_gamma_variate,
    poisson_variate,
    seek,
    uniform,
)

LOWEST, N_OCTAVES, PER_OCTAVE = -70, 140, 32
"""Powers of two between which functions of a fitted rate are tabulated, and points of each."""


class RateLaw(NamedTuple):
    """Law of the random effects."""

    share: float
    """f ~ Poisson(share lambda)."""
    lognormal: bool
    """Else gamma."""
    spread: float
    """1/shape of the gamma law, or the variance of the logarithm."""
    shift: float
    """Added to log fitted for the mean of log lambda."""


@device
def posterior_rate(generator, count, fitted, law):
    """Draw a rate from its posterior."""
    share, lognormal, spread, shift = law
    if fitted == 0.0 or spread == 0.0:
        return fitted * math.exp(shift)
    if lognormal:
        return math.exp(
            draw_log_rate(generator, count, math.log(share), math.log(fitted) + shift, spread)
        )
    shape = 1.0 / spread
    return math.exp(log_gamma_variate(generator, shape + count)) / (shape / fitted + share)


@device
def hashed(cell):
    """Number of a cell, below 2^32, for its random numbers."""
    number = np.uint64(14695981039346656037)
    for j in range(cell.shape[0]):
        number = (number ^ np.uint64(cell[j] + 1)) * np.uint64(1099511628211)
    return np.uint32(number ^ (number >> np.uint64(32)))


@kernel
def draw_rates(key, sweep, cells, counts, fitted, law, rates):
    """Draw the rate of each cell given its count; a cell has the same rate in all calls of a sweep.

    cells (n, n_keys); counts, fitted, rates (n,).
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(cells.shape[0]):
        seek(generator, key, hashed(cells[i]), sweep, PURPOSE_RATE)
        rates[i] = posterior_rate(generator, counts[i], fitted[i], law)


@device
def interpolated(fitted, table):
    """Value of a table at a fitted rate, linear between its points; in proportion below them."""
    mantissa, exponent = math.frexp(fitted)
    if exponent < LOWEST:
        return table[0] * math.ldexp(fitted, 1 - LOWEST)
    at = (exponent - LOWEST) * PER_OCTAVE + (mantissa - 0.5) * (2 * PER_OCTAVE)
    i = min(int(at), table.shape[0] - 2)
    return table[i] + (at - i) * (table[i + 1] - table[i])


@kernel
def empty_total(scale, terms, factors, table):
    """Sum of a table over all cells, at the rates scale times their weights."""
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    block = np.empty((offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]))
    free = np.full(n_keys, -1)
    nothing = np.empty(0)
    total = 0.0
    stale = True
    walk = start_walk(scale, terms, factors)
    while next_block(walk, terms, factors, free, False, factors.pair, nothing):
        if stale:
            block_factors(walk, terms, factors, free, block)
            stale = not is_constant(terms)
        for x in range(block.shape[0]):
            v = walk.value[a] * walk.weight[a, offsets[a] + x]
            for y in range(block.shape[1]):
                fitted = v * walk.weight[a, offsets[b] + y] * block[x, y]
                if fitted > 0.0:
                    total += interpolated(fitted, table)
    return total


@kernel
def draw_empty(key, sweep, scale, theta, law, terms, factors, table, cells, counts):
    """Draw new records in the cells, each as if the sample had none there; return how many cells.

    A cell's new records are Poisson(theta lambda), lambda from its posterior at f = 0. table has
    -log P(no new record): the walk jumps along its sum from one cell with records to the next.
    cells (room, n_keys), counts (room,) are filled; -1 is returned if there is no room.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_SIMULATE)
    offsets = terms.offsets
    n_keys = offsets.shape[0] - 1
    a, b = n_keys - 2, n_keys - 1
    block = np.empty((offsets[a + 1] - offsets[a], offsets[b + 1] - offsets[b]))
    free = np.full(n_keys, -1)
    nothing = np.empty(0)
    n_found = 0
    left = exponential(generator)
    stale = True
    walk = start_walk(scale, terms, factors)
    while next_block(walk, terms, factors, free, False, factors.pair, nothing):
        if stale:
            block_factors(walk, terms, factors, free, block)
            stale = not is_constant(terms)
        for x in range(block.shape[0]):
            v = walk.value[a] * walk.weight[a, offsets[a] + x]
            for y in range(block.shape[1]):
                fitted = v * walk.weight[a, offsets[b] + y] * block[x, y]
                if fitted == 0.0:
                    continue
                left -= interpolated(fitted, table)
                if left > 0.0:
                    continue
                left = exponential(generator)
                if n_found == counts.shape[0]:
                    return -1
                # Of the posterior's density times 1 - exp(-theta lambda), by rejection: from the
                # posterior or, where that is nearly always 0, from it times lambda, which is the
                # posterior with one count more.
                few = theta * fitted < 1.0
                while True:
                    rate = theta * posterior_rate(generator, 1.0 if few else 0.0, fitted, law)
                    chance = -math.expm1(-rate)
                    if few and rate > 0.0:
                        chance /= rate
                    if uniform(generator) < chance:
                        break
                counts[n_found] = at_least_one(generator, rate)
                cells[n_found, :a] = walk.level[:a]
                cells[n_found, a] = x
                cells[n_found, b] = y
                n_found += 1
    return n_found


@device
def at_least_one(generator, rate):
    """Poisson(rate) given that it is not 0: the first arrival, and those after it."""
    if rate <= 0.0:
        return 1.0
    first = -math.log1p(uniform(generator) * math.expm1(-rate))
    return 1.0 + poisson_variate(generator, max(rate - first, 0.0))
