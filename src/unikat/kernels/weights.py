"""Kernels of the mixed-membership sampler above the records.

Given the tokens' components: concentrations, tables, component weights and profiles. Symbols as
in `kernels.mixture`; stacks[l, k] = tokens that are the (l+1)-th of component k in their record.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_CONCENTRATION,
    PURPOSE_SEATS,
    PURPOSE_TABLES,
    PURPOSE_WEIGHTS,
    binomial,
    gamma,
    log_beta_variate,
    log_gamma_variate,
    next_bits,
    seek,
    uniform,
)

_INV32 = 1.0 / 4294967296.0


@device
def fill_alias(weights, cut, alias, small, large):
    """Fill alias tables of weights (n,) (Walker; Vose), and return their sum.

    small and large (n,) are room.
    """
    n = weights.shape[0]
    total = 0.0
    for k in range(n):
        total += weights[k]
    n_small = 0
    n_large = 0
    for k in range(n):
        cut[k] = weights[k] * (n / max(total, 1e-300))
        alias[k] = k
        if cut[k] < 1.0:
            small[n_small] = k
            n_small += 1
        else:
            large[n_large] = k
            n_large += 1
    while n_small > 0 and n_large > 0:
        n_small -= 1
        low = small[n_small]
        high = large[n_large - 1]
        alias[low] = high
        cut[high] -= 1.0 - cut[low]
        if cut[high] < 1.0:
            n_large -= 1
            small[n_small] = high
            n_small += 1
    for s in range(n_small):
        cut[small[s]] = 2.0
    for s in range(n_large):
        cut[large[s]] = 2.0
    return total


@kernel
def base_tables(theta, weights, base, cut, alias):
    """Fill `base` (n_rows,) and the alias tables of weights[k] * theta[r, k]."""
    n_rows, n_components = theta.shape
    scaled, room = np.empty(n_components), np.empty(n_components)
    small = np.empty(n_components, np.int64)
    large = np.empty(n_components, np.int64)
    for r in range(n_rows):
        for k in range(n_components):
            scaled[k] = weights[k] * theta[r, k]
        base[r] = fill_alias(scaled, room, alias[r], small, large)
        cut[r] = room


@device
def log_density_alpha(eta, shape, rate, stacks, weights, at_least):
    """Log density of eta = log alpha given the tokens' components and g0, tables summed out.

    prod_i [Gamma(a) / Gamma(a + J_i) prod_k Gamma(a g0_k + n_ik) / Gamma(a g0_k)] times the
    Gamma(shape, rate) prior and the Jacobian; at_least[l] = records with more than l tokens.
    """
    alpha = math.exp(eta)
    if alpha < 1e-100:
        # So that products with component weights cannot underflow; no data ask for less.
        return -np.inf
    value = shape * eta - rate * alpha
    for l in range(stacks.shape[0]):
        value -= at_least[l] * math.log(alpha + l)
        for k in range(stacks.shape[1]):
            if stacks[l, k] > 0:
                value += stacks[l, k] * math.log(alpha * weights[k] + l)
    return value


@kernel
def draw_alpha(key, sweep, alpha, shape, rate, stacks, weights, at_least):
    """Draw the shared alpha by slice sampling on the log scale (Neal 2003), two updates."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_CONCENTRATION)
    eta = math.log(alpha)
    width = 0.3
    for _ in range(2):
        level = log_density_alpha(eta, shape, rate, stacks, weights, at_least)
        level += math.log(uniform(generator))
        low = eta - width * uniform(generator)
        high = low + width
        while log_density_alpha(low, shape, rate, stacks, weights, at_least) > level:
            low -= width
        while log_density_alpha(high, shape, rate, stacks, weights, at_least) > level:
            high += width
        while True:
            proposal = low + (high - low) * uniform(generator)
            if log_density_alpha(proposal, shape, rate, stacks, weights, at_least) > level:
                eta = proposal
                break
            if high - low < 1e-12:
                # Only rounding gets here: the interval has shrunk onto the present value.
                break
            if proposal < eta:
                low = proposal
            else:
                high = proposal
    return math.exp(eta)


@kernel
def draw_tables(key, sweep, alpha, stacks, weights, tables):
    """Draw the number of tables of every component under a shared alpha, into `tables`.

    The (l+1)-th token of k in a record opens a table with probability a g_k / (a g_k + l),
    independently (Antoniak 1974); only the number of such tokens matters.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for k in range(stacks.shape[1]):
        tables[k] = stacks[0, k]
        if tables[k] > 0:
            seek(generator, key, k, sweep, PURPOSE_TABLES)
            mass = alpha * weights[k]
            for l in range(1, stacks.shape[0]):
                if stacks[l, k] > 0:
                    tables[k] += binomial(generator, float(stacks[l, k]), mass / (mass + l))


@device
def opens_table(generator, z, i, j, mass):
    """Whether key j of record i opens a table, given concentration `mass` of its component."""
    before = 0
    for l in range(j):
        before += int(z[i, l] == z[i, j])
    return before == 0 or float(next_bits(generator)) * _INV32 * (mass + before) < mass


@kernel
def open_tables(key, sweep, first, z, alpha, weights, opens):
    """Draw which tokens open a table, into `opens`, given the components z (n, n_keys), -1: none.

    alpha (1,) shared, or (n,). Records are numbered from `first`.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(z.shape[0]):
        seek(generator, key, first + i, sweep, PURPOSE_SEATS)
        concentration = alpha[0] if alpha.shape[0] == 1 else alpha[i]
        for j in range(z.shape[1]):
            k = z[i, j]
            opens[i, j] = k >= 0 and opens_table(generator, z, i, j, concentration * weights[k])


@kernel
def draw_tables_and_alphas(key, sweep, z, weights, shape, rate, alpha, tables):
    """Per-record alpha: draw the tables of every record, then its alpha, in place.

    alpha_i ~ Gamma(shape, rate); alpha (n,); adds to `tables` (n_components,). Given m tables
    among J tokens its density is that of the prior times a^m Gamma(a) / Gamma(a + J): Escobar &
    West (1995), with eta ~ Beta(a + 1, J) a mixture of two gammas.
    """
    n_keys = z.shape[1]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(z.shape[0]):
        seek(generator, key, i, sweep, PURPOSE_CONCENTRATION)
        n_tok = 0
        n_tables = 0
        for j in range(n_keys):
            k = z[i, j]
            if k < 0:
                continue
            n_tok += 1
            if opens_table(generator, z, i, j, alpha[i] * weights[k]):
                n_tables += 1
                tables[k] += 1
        spread = rate
        which = shape + n_tables
        if n_tok > 0:
            spread -= log_beta_variate(generator, alpha[i] + 1.0, float(n_tok))
            odds = n_tok * spread
            which -= int(uniform(generator) * (odds + which - 1.0) < odds)
        # So that products with component weights cannot underflow.
        alpha[i] = max(math.exp(log_gamma_variate(generator, which)) / spread, 1e-100)


@device
def log_density_shape(eta, n, total, total_log):
    """Log density of eta = log(shape) given n draws of Gamma(shape, rate), the rate summed out.

    Priors: shape ~ Gamma(1, 1), rate ~ Gamma(1, 1).
    """
    shape = math.exp(eta)
    value = eta - shape + (shape - 1.0) * total_log - n * math.lgamma(shape)
    return value + math.lgamma(1.0 + n * shape) - (1.0 + n * shape) * math.log(1.0 + total)


@kernel
def draw_spread(key, sweep, shape, alpha):
    """Hierarchical alpha: draw (shape, rate) of the gamma law that the records' alphas have."""
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, alpha.shape[0], sweep, PURPOSE_CONCENTRATION)
    n = float(alpha.shape[0])
    total = 0.0
    total_log = 0.0
    for i in range(alpha.shape[0]):
        total += alpha[i]
        total_log += math.log(alpha[i])
    eta = math.log(shape)
    for _ in range(2):
        level = log_density_shape(eta, n, total, total_log) + math.log(uniform(generator))
        low = eta - 0.3 * uniform(generator)
        high = low + 0.3
        while log_density_shape(low, n, total, total_log) > level:
            low -= 0.3
        while log_density_shape(high, n, total, total_log) > level:
            high += 0.3
        while high - low > 1e-12:
            proposal = low + (high - low) * uniform(generator)
            if log_density_shape(proposal, n, total, total_log) > level:
                eta = proposal
                break
            if proposal < eta:
                low = proposal
            else:
                high = proposal
    shape = math.exp(eta)
    rate = gamma(generator, 1.0 + n * shape) / (1.0 + total)
    return shape, rate


@kernel
def draw_weights(key, sweep, top, shape, rate, tables, weights):
    """Draw the top-level concentration and the component weights given the tables.

    top | tables: Escobar & West (1995). Then g0 ~ Dirichlet(tables of occupied components, top);
    the part of the unseen is broken by Beta(1, top) sticks over the empty components, the last of
    which takes the remainder. Returns (top, remainder given to the last stick, number of occupied
    components).
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    n_components = tables.shape[0]
    occupied = 0
    total = 0
    for k in range(n_components):
        total += tables[k]
        occupied += int(tables[k] > 0)
    seek(generator, key, 0, sweep, PURPOSE_WEIGHTS)
    if total > 0:
        log_eta = log_beta_variate(generator, top + 1.0, float(total))
        odds = total * (rate - log_eta)
        less = int(uniform(generator) * (odds + occupied + shape - 1.0) < odds)
        top = math.exp(log_gamma_variate(generator, shape + occupied - less)) / (rate - log_eta)
    else:
        top = math.exp(log_gamma_variate(generator, shape)) / rate
    largest = log_gamma_variate(generator, top)
    unseen = largest
    for k in range(n_components):
        if tables[k] > 0:
            seek(generator, key, k + 1, sweep, PURPOSE_WEIGHTS)
            weights[k] = math.log(gamma(generator, float(tables[k])))
            largest = max(largest, weights[k])
    scale = math.exp(unseen - largest)
    for k in range(n_components):
        if tables[k] > 0:
            scale += math.exp(weights[k] - largest)
    remainder = math.exp(unseen - largest) / scale
    last = -1
    for k in range(n_components):
        if tables[k] > 0:
            weights[k] = math.exp(weights[k] - largest) / scale
        else:
            seek(generator, key, k + 1, sweep, PURPOSE_WEIGHTS)
            # Beta(1, top): 1 - U^(1/top); the stick keeps U^(1/top) of what was left.
            kept = math.exp(math.log(uniform(generator)) / top)
            weights[k] = remainder * (1.0 - kept)
            remainder *= kept
            last = k
    if last >= 0:
        weights[last] += remainder
    return top, remainder, occupied


@kernel
def draw_finite_weights(key, sweep, share, n_used, tables, weights):
    """Draw the weights of a fixed number of components ~ Dirichlet(share + tables).

    Components from n_used on only pad the arrays: their weight is 0. Returns the number of
    occupied components.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    occupied = 0
    largest = -np.inf
    for k in range(weights.shape[0]):
        weights[k] = -np.inf
        if k < n_used:
            occupied += int(tables[k] > 0)
            seek(generator, key, k + 1, sweep, PURPOSE_WEIGHTS)
            weights[k] = log_gamma_variate(generator, share + tables[k])
            largest = max(largest, weights[k])
    total = 0.0
    for k in range(weights.shape[0]):
        weights[k] = math.exp(weights[k] - largest)
        total += weights[k]
    for k in range(weights.shape[0]):
        weights[k] /= total
    return occupied
