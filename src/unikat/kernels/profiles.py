"""Kernels of the components' profiles: their draw, and their prior's parameters.

theta_j^(k) ~ Dirichlet(c_j b_j): c_j the concentration of key j, b_j its base measure over levels.
`profile` (n_rows,) holds c_j b_jx for every row (key, level).
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_LEARN,
    PURPOSE_PROFILES,
    gamma,
    log_beta_variate,
    log_gamma_variate,
    seek,
    small_gamma,
    uniform,
)


@kernel
def draw_profiles(key, sweep, offsets, profile, counts, fresh, theta):
    """Draw theta[rows of key j, k] ~ Dirichlet(profile + counts) for every key and fresh k.

    offsets (n_keys + 1,): first row of each key; profile (n_rows,); counts and theta
    (n_rows, n_components); fresh (n_components,). Empty components get draws from the base measure.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    n_components = counts.shape[1]
    draw = np.empty(counts.shape[0])
    for k in range(n_components):
        if not fresh[k]:
            continue
        seek(generator, key, k, sweep, PURPOSE_PROFILES)
        for j in range(offsets.shape[0] - 1):
            total = 0.0
            for r in range(offsets[j], offsets[j + 1]):
                shape = profile[r] + counts[r, k]
                if shape >= 1.0:
                    draw[r] = gamma(generator, shape)
                else:
                    draw[r] = small_gamma(generator, shape)
                total += draw[r]
            if total < 1e-200:
                # All but gone: once more on the log scale. The shares do not depend on the total,
                # so choosing by it does no harm.
                largest = -np.inf
                for r in range(offsets[j], offsets[j + 1]):
                    draw[r] = log_gamma_variate(generator, profile[r] + counts[r, k])
                    largest = max(largest, draw[r])
                total = 0.0
                for r in range(offsets[j], offsets[j + 1]):
                    draw[r] = math.exp(draw[r] - largest)
                    total += draw[r]
            for r in range(offsets[j], offsets[j + 1]):
                theta[r, k] = draw[r] / total


@device
def opened_tables(generator, mass, size):
    """Tables that `size` tokens open under concentration `mass` (Antoniak 1974).

    Token l + 1 opens one with probability mass / (mass + l), independently. After the first the
    next opener is found by thinning: past token s it is proposed at the first l with
    (s / l)^mass < U, whose chance at l, 1 - ((l - 1) / l)^mass, is never below mass / (mass + l).
    """
    tables = 1
    l = 1.0
    while True:
        # The next opener is proposed among tokens l, l + 1, ..., numbered from zero.
        proposed = 1.0
        if l > 1.0:
            reach = math.log(uniform(generator)) / mass
            if reach < math.log((l - 1.0) / size):
                break
            l = max(l, math.floor((l - 1.0) * math.exp(-reach)) + 1.0)
            proposed = -math.expm1(mass * math.log1p(-1.0 / l))
        if l >= size:
            break
        if uniform(generator) * proposed < mass / (mass + l):
            tables += 1
        l += 1.0
    return tables


@kernel
def draw_prior(key, sweep, offsets, counts, shape, rate, learn_concentration, learn_base, profile):
    """Draw the concentration, the base measure, or both of every key into `profile`, in place.

    The profiles are integrated out: given the tokens' components, a component's n tokens of a key
    sit at tables with levels as dishes. With eta_k ~ Beta(c, n_k) and the tables t_x of level x,

        c | . ~ Gamma(shape + sum t, rate - sum log eta),    b | . ~ Dirichlet(1 + t).

    counts (n_rows, n_components); shape and rate (n_keys,): gamma prior of c.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    n_components = counts.shape[1]
    tables = np.empty(counts.shape[0])
    for j in range(offsets.shape[0] - 1):
        seek(generator, key, j, sweep, PURPOSE_LEARN)
        concentration = 0.0
        for r in range(offsets[j], offsets[j + 1]):
            concentration += profile[r]
            tables[r] = 0.0
        n_tables = 0.0
        spread = rate[j]
        for k in range(n_components):
            size = 0
            for r in range(offsets[j], offsets[j + 1]):
                if counts[r, k] > 0:
                    size += counts[r, k]
                    opened = opened_tables(generator, profile[r], float(counts[r, k]))
                    tables[r] += opened
                    n_tables += opened
            if size > 0:
                spread -= log_beta_variate(generator, concentration, float(size))
        value = concentration
        if learn_concentration:
            # Not so small that products with the base measure underflow.
            value = max(math.exp(log_gamma_variate(generator, shape[j] + n_tables)) / spread, 1e-30)
        scale = value / concentration
        if learn_base:
            total = 0.0
            for r in range(offsets[j], offsets[j + 1]):
                tables[r] = gamma(generator, 1.0 + tables[r])
                total += tables[r]
            for r in range(offsets[j], offsets[j + 1]):
                profile[r] = tables[r] * value / total
        else:
            for r in range(offsets[j], offsets[j + 1]):
                profile[r] *= scale
