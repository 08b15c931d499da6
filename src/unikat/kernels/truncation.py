"""Kernels of moves under structural zeros, the impossible records of one component integrated out.

Symbols: g_k = component weight; P_k = g_k prod_{0<l<J} (l + alpha g_k) / (l + alpha), the chance
that all J keys of a record come from component k (g_k for latent classes, alpha = 0); q_k = chance
that such a record is possible; m = possible records wanted. Records of one component need no
simulation: of N others seen, sum_k P_k (1 - q_k) = R leaves the factor (1 - R)^-N.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_MIXED,
    PURPOSE_RIDGE,
    binomial,
    gamma,
    next_bits,
    seek,
    small_gamma,
    uniform,
)
from unikat.kernels.zeros import find

_INV32 = 1.0 / 4294967296.0


class MixedLaw(NamedTuple):
    """Law of records under mixed membership with a shared alpha, and of those of one component."""

    alpha: float
    weights: npt.NDArray[np.float64]
    """(n_components,): g."""
    cumulative: npt.NDArray[np.float64]
    """(n_components,): running sum of g."""
    theta: npt.NDArray[np.float64]
    """(n_components, n_rows): running sums within each key."""
    together: npt.NDArray[np.float64]
    """(n_components,): P_k."""
    first_mixed: npt.NDArray[np.float64]
    """(n_components,): running sum of g_k - P_k, the chance that a mixed record begins with k."""
    possible_share: float
    """sum_k P_k q_k / sum_k P_k"""


class Seen(NamedTuple):
    """Tokens and tables of the sample and of the impossible mixed records."""

    counts: npt.NDArray[np.int64]
    """(n_rows, n_components)"""
    tables: npt.NDArray[np.int64]
    """(n_components,)"""
    n_seen: int
    """Number of these records, less what tempering takes away."""


class RidgePrior(NamedTuple):
    """Prior of profiles and weights.

    The weights' density is prod_k g_k^(tables_k + share - 1) over occupied components and the rest.
    """

    profile: npt.NDArray[np.float64]
    """(n_rows,): Dirichlet parameters of the profiles."""
    alpha: float
    share: float
    total_exponent: float
    """Sum of the exponents of the weights' density."""


@device
def one_component(weight, alpha, n_keys):
    """P_k of a component."""
    value = weight
    for l in range(1, n_keys):
        value *= (l + alpha * weight) / (l + alpha)
    return value


@kernel
def chances_of_one(weights, alpha, n_keys, out):
    """P_k of every component, into out (n_components,)."""
    for k in range(weights.shape[0]):
        out[k] = one_component(weights[k], alpha, n_keys)


@device
def powers_of_one(alpha, n_keys, coefficient):
    """Coefficients of P_k as a polynomial in g_k, into coefficient (n_keys + 1,)."""
    for m in range(n_keys + 1):
        coefficient[m] = 0.0
    coefficient[1] = 1.0
    for l in range(1, n_keys):
        for m in range(n_keys, 0, -1):
            above = coefficient[m - 1] * alpha
            coefficient[m] = (coefficient[m] * l + above) / (l + alpha)


@device
def impossible_of_others(coefficient, degree, weights, q, k, growth, scratch):
    """Sum of P_l (1 - q_l) over the components but k, their weights divided by `growth`.

    From the weights every time: what is left when a large component is subtracted from a sum is
    rounding error, which powers of a small growth would blow up. scratch (n_components,).
    """
    n_components = weights.shape[0]
    inverse = 1.0 / growth
    for other in range(n_components):
        scratch[other] = coefficient[degree]
    # Components are the inner index, over which this vectorises.
    for m in range(degree - 1, 0, -1):
        for other in range(n_components):
            scratch[other] = scratch[other] * (weights[other] * inverse) + coefficient[m]
    total = 0.0
    for other in range(n_components):
        if other != k:
            total += scratch[other] * (weights[other] * inverse) * (1.0 - q[other])
    return total


@device
def draw_other(generator, cumulative, k):
    """Draw a component other than k from cumulative weights."""
    last = cumulative.shape[0]
    before = cumulative[k - 1] if k > 0 else 0.0
    point = uniform(generator) * (before + (cumulative[last - 1] - cumulative[k]))
    if point < before or k == last - 1:
        return find(cumulative, 0, k, point)
    return find(cumulative, k + 1, last, point - before + cumulative[k])


@kernel
def simulate_mixed(key, sweep, lane, target, diagram, offsets, law, rows, z):
    """Simulate records until `target` possible ones have come; keep the impossible mixed ones.

    Mixed records have keys of several components. Of the others only the number of possible ones
    is drawn. law: MixedLaw. As `zeros.simulate_impossible` otherwise, but that z has the components
    of all keys: that a record is mixed may show in keys whose levels were not needed. Returns the
    number of impossible mixed records; if more than fit into rows (capacity, n_keys) and z, the
    rest is only counted, up to twice of that.
    """
    order, _first, child = diagram
    alpha, weights, cumulative, theta, together, first_mixed, possible_share = law
    n_keys = order.shape[0]
    capacity = rows.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, lane, sweep, PURPOSE_MIXED)
    component = np.empty(n_keys, np.int64)
    drawn = np.empty(n_keys, np.int64)
    n_components = weights.shape[0]
    total = cumulative[n_components - 1]
    mixed_chance = min(max(first_mixed[n_components - 1] / total, 0.0), 1.0)
    left = target
    n_impossible = 0
    while left > 0 and n_impossible <= 2 * capacity:
        # So many records cannot hold more than `left` possible ones.
        n_mixed = int(binomial(generator, float(left), mixed_chance))
        left -= int(binomial(generator, float(left - n_mixed), possible_share))
        for _ in range(n_mixed):
            k = find(
                first_mixed, 0, n_components, uniform(generator) * first_mixed[n_components - 1]
            )
            component[0] = k
            # The first key that leaves k, given that one does.
            mark = uniform(generator) * max(1.0 - together[k] / weights[k], 1e-300)
            stays = 1.0
            leaves = n_keys - 1
            for l in range(1, n_keys):
                other = alpha * (1.0 - weights[k]) / (l + alpha)
                mark -= stays * other
                stays *= 1.0 - other
                if mark < 0.0:
                    leaves = l
                    break
            for d in range(1, n_keys):
                if d < leaves:
                    component[d] = k
                    continue
                if d == leaves:
                    component[d] = draw_other(generator, cumulative, k)
                    continue
                mark = uniform(generator) * (d + alpha)
                if mark < d:
                    component[d] = component[int(mark)]
                else:
                    component[d] = find(cumulative, 0, n_components, uniform(generator) * total)
            node = 0
            d = 0
            while d < n_keys and node >= 0:
                j = order[d]
                k = component[d]
                point = float(next_bits(generator)) * _INV32 * theta[k, offsets[j + 1] - 1]
                r = find(theta[k], offsets[j], offsets[j + 1], point)
                drawn[d] = r
                node = child[node, r - offsets[j]]
                d += 1
            if node >= 0:
                left -= 1
                continue
            if n_impossible < capacity:
                for e in range(n_keys):
                    rows[n_impossible, order[e]] = drawn[e] if e < d else -1
                    z[n_impossible, order[e]] = component[e]
            n_impossible += 1
    return n_impossible


@kernel
def along_ridges(key, sweep, diagram, offsets, seen, prior, theta, weights):
    """Redraw every profile together with its component's weight; theta and weights in place.

    Mass on levels that a component's other keys make impossible hardly changes what is seen of it,
    if its weight goes along: the data leave a ridge. For key j of component k, with
    u_l = P(possible | key j has level l, the other keys of k),

        theta'_l ~ Gamma(profile_l + counts_l) / (u_l + floor), normalised;  g'_k ~ g_k q_k / q'_k,

    accepted by Metropolis-Hastings. seen: Seen; prior: RidgePrior. Components without tables are
    left alone where share is 0. Returns the number of moves accepted and proposed.
    """
    order, first, child = diagram
    counts, tables, n_seen = seen
    profile, alpha, share, total_exponent = prior
    n_keys = order.shape[0]
    n_rows, n_components = counts.shape
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    # Single precision sums to 1 but for 1e-7, which many records would turn into a likelihood.
    exact = np.empty((n_rows, n_components))
    for j in range(n_keys):
        for k in range(n_components):
            total = 0.0
            for r in range(offsets[j], offsets[j + 1]):
                total += float(theta[r, k])
            for r in range(offsets[j], offsets[j + 1]):
                exact[r, k] = float(theta[r, k]) / total
    chance = np.zeros((child.shape[0] + 1, n_components))
    reach = np.zeros((child.shape[0] + 1, n_components))
    last = child.shape[0]
    for k in range(n_components):
        chance[last, k] = 1.0
        reach[0, k] = 1.0
    for d in range(n_keys - 1, -1, -1):
        j = order[d]
        for node in range(first[d], first[d + 1]):
            for level in range(offsets[j + 1] - offsets[j]):
                after = child[node, level]
                if after >= 0:
                    r = offsets[j] + level
                    for k in range(n_components):
                        chance[node, k] += exact[r, k] * chance[after, k]
    q = chance[0].copy()
    # P_k is a polynomial in g_k; for latent classes there is the first power alone.
    degree = n_keys if alpha > 0.0 else 1
    coefficient = np.zeros(n_keys + 1)
    powers_of_one(alpha, n_keys, coefficient)
    scratch = np.empty(n_components)
    impossible = impossible_of_others(coefficient, degree, weights, q, -1, 1.0, scratch)
    u = np.empty((n_rows, n_components))
    proposal = np.empty(n_rows)
    n_accepted = 0
    n_proposed = 0
    for d in range(n_keys):
        j = order[d]
        n_levels = offsets[j + 1] - offsets[j]
        for level in range(n_levels):
            for k in range(n_components):
                u[level, k] = 0.0
            for node in range(first[d], first[d + 1]):
                after = child[node, level]
                if after >= 0:
                    for k in range(n_components):
                        u[level, k] += reach[node, k] * chance[after, k]
        for k in range(n_components):
            exponent = tables[k] + share
            if exponent <= 0.0 or weights[k] <= 0.0:
                continue
            largest = 0.0
            smallest = 1.0
            for level in range(n_levels):
                largest = max(largest, u[level, k])
                smallest = min(smallest, u[level, k])
            if largest - smallest <= 1e-9 * largest:
                # No rule meets this key here: nothing is gained over the Gibbs step.
                continue
            n_proposed += 1
            seek(generator, key, k * n_keys + j, sweep, PURPOSE_RIDGE)
            floor = largest * math.exp(-9.0 * uniform(generator))
            total = 0.0
            size = 0.0
            for level in range(n_levels):
                r = offsets[j] + level
                shape = profile[r] + counts[r, k]
                size += shape
                if shape >= 1.0:
                    value = gamma(generator, shape)
                else:
                    value = small_gamma(generator, shape)
                proposal[level] = value / (u[level, k] + floor)
                total += proposal[level]
            tilt = 0.0
            tilt_before = 0.0
            q_after = 0.0
            q_before = 0.0
            for level in range(n_levels):
                before = exact[offsets[j] + level, k]
                proposal[level] /= total
                tilt += proposal[level] * (u[level, k] + floor)
                tilt_before += before * (u[level, k] + floor)
                q_after += proposal[level] * u[level, k]
                q_before += before * u[level, k]
            if not (q_after > 1e-12 and q_before > 1e-12):
                continue
            ratio = q_before / q_after
            growth = (1.0 - weights[k]) + weights[k] * ratio
            weight = weights[k] * ratio / growth
            changed = impossible_of_others(coefficient, degree, weights, q, k, growth, scratch)
            changed += one_component(weight, alpha, n_keys) * (1.0 - q_after)
            if not (impossible < 1.0 and changed < 1.0):
                continue
            log_ratio = size * math.log(tilt / tilt_before) + exponent * math.log(ratio)
            log_ratio -= total_exponent * math.log(growth)
            log_ratio -= n_seen * (math.log1p(-changed) - math.log1p(-impossible))
            if not math.log(uniform(generator)) < log_ratio:
                continue
            n_accepted += 1
            for level in range(n_levels):
                exact[offsets[j] + level, k] = proposal[level]
                theta[offsets[j] + level, k] = proposal[level]
            for other in range(n_components):
                weights[other] /= growth
            weights[k] = weight
            q[k] = q_after
            impossible = changed
        for level in range(n_levels):
            r = offsets[j] + level
            for node in range(first[d], first[d + 1]):
                after = child[node, level]
                if after >= 0:
                    for k in range(n_components):
                        reach[after, k] += reach[node, k] * exact[r, k]
    return n_accepted, n_proposed
