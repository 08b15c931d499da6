"""Kernels on cells: probabilities under mixed membership, and the risk of a cell.

`partition_probabilities` is exact. With g ~ DP(alpha, g0),

    E prod_j (sum_k g_k theta_jk) = Gamma(alpha) / Gamma(alpha + J)
                                    sum_partitions prod_blocks (|B|-1)! alpha V_B,
    V_B = sum_k g0_k prod_{j in B} theta_jk,

because unnormalised gamma weights make the left side the J-fold mixed cumulant expansion of
prod_k (1 - sum_j t_j theta_jk)^(-alpha g0_k); it is the Chinese restaurant process of one record's
tokens. F(S), the sum over partitions of a subset S, obeys F(S + j) = sum_{B subset S}
|B|! V_{B+j} F(S - B).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_MEMBERSHIP,
    PURPOSE_POPULATION,
    binomial,
    draw_one,
    poisson_variate,
    seek,
    uniform,
)

_LANES = 8
"""Beginnings of cells whose partitions are summed together: independent sums fill the processor."""


@kernel
def partition_probabilities(rows, theta, weights, alpha, alpha_weight, out):
    """Exact probability of each cell, into `out` (n,).

    rows (n, n_keys) int32 with -1 for a key left out, sorted lexicographically so that cells with
    the same first keys are neighbours and share work; theta (n_rows, n_components) float32;
    weights (n_components,) = g0; alpha, alpha_weight (n_nodes,): values of the concentration and
    their probabilities (one value if it is shared).

    The last key needs no recursion: the probability is linear in it, sum_k theta_rk m_k, and cells
    that differ in it only share m, see `component_masses`. Sums over components are in single
    precision, as theta is: all terms are positive, and rows are scaled to a largest entry of 1.
    Partitions are summed in double precision, for eight *beginnings* of cells at a time.
    """
    n, n_keys = rows.shape
    n_components = weights.shape[0]
    n_nodes = alpha.shape[0]
    # Products are kept for all keys but the last two.
    n_first = max(n_keys - 2, 0)
    n_subsets = 1 << max(n_keys - 1, 4)
    scaled = np.empty(theta.shape, np.float32)
    scale = np.empty(theta.shape[0])
    for r in range(theta.shape[0]):
        scale[r] = max(float(theta[r].max()), 1e-300)
        for k in range(n_components):
            scaled[r, k] = theta[r, k] / scale[r]
    product = np.empty((n_components, 1 << n_first), np.float32)
    for k in range(n_components):
        product[k, 0] = weights[k]
    # joint[s]: V of a subset s, a bit mask, of the present beginning's known keys.
    joint = np.zeros(n_subsets, np.float32)
    block = np.zeros((n_subsets, _LANES))
    partial = np.empty((n_subsets, _LANES))
    rest = np.zeros((_LANES, n_subsets))
    single = np.empty((_LANES, n_subsets), np.float32)
    whole = np.empty(_LANES)
    known = np.zeros(_LANES, np.int64)
    head = np.empty(_LANES + 1, np.int64)
    room = MassRoom(
        np.empty((16, n_components), np.float32),
        np.empty((1 << max(n_keys - 5, 0), n_components), np.float32),
        np.empty(n_components, np.float32),
    )
    mass = np.empty(n_components)
    factorial = np.ones(n_keys + 1)
    for s in range(1, n_keys + 1):
        factorial[s] = factorial[s - 1] * s
    size = np.zeros(n_subsets, np.int64)
    for s in range(1, n_subsets):
        size[s] = size[s >> 1] + (s & 1)
    tokens = np.zeros(n_first + 1, np.int64)
    present = np.full(n_first, -2, np.int64)
    first = 0
    while first < n:
        n_lanes = 0
        end = first
        while end < n:
            if end == first or not begins_alike(rows, end):
                if n_lanes == _LANES:
                    break
                head[n_lanes] = end
                changed = False
                for d in range(n_first):
                    r = rows[end, d]
                    changed = changed or present[d] != r
                    if changed:
                        present[d] = r
                        tokens[d + 1] = tokens[d] + int(r >= 0)
                        if r >= 0:
                            bit = 1 << tokens[d]
                            extend(product, scaled[r], bit)
                            combine(product, scaled[r], bit, joint[bit:])
                n_known = tokens[n_first]
                if n_keys > 1 and rows[end, n_first] >= 0:
                    bit = 1 << n_known
                    combine(product, scaled[rows[end, n_first]], bit, joint[bit:])
                    n_known += 1
                for s in range(1, 1 << n_known):
                    block[s, n_lanes] = joint[s] * factorial[size[s] - 1]
                for s in range(1 << n_known, n_subsets):
                    block[s, n_lanes] = 0.0
                known[n_lanes] = n_known
                n_lanes += 1
            end += 1
        head[n_lanes] = end
        rest[:, :] = 0.0
        whole[:] = 0.0
        for p in range(n_nodes):
            sum_partitions(block, known[:n_lanes].max(), alpha[p], partial)
            for w in range(n_lanes):
                full = (1 << known[w]) - 1
                share = alpha_weight[p]
                for l in range(known[w]):
                    share /= alpha[p] + l
                whole[w] += share * partial[full, w]
                # One token more. Its block carries an alpha, which takes that of l = 0 away.
                share = alpha_weight[p]
                for l in range(1, known[w] + 1):
                    share /= alpha[p] + l
                for s in range(full + 1):
                    rest[w, s] += share * partial[full - s, w] * factorial[size[s]]
        single[:, :] = rest
        for w in range(n_lanes):
            size_of = 1.0
            for d in range(n_keys - 1):
                if rows[head[w], d] >= 0:
                    size_of *= scale[rows[head[w], d]]
            ready = False
            for i in range(head[w], head[w + 1]):
                r = rows[i, n_keys - 1]
                if r < 0:
                    out[i] = size_of * whole[w]
                    continue
                if not ready:
                    ready = True
                    component_masses(rows, i, scaled, weights, single[w], room, mass)
                out[i] = size_of * dot(theta[r], mass)
        first = end


class MassRoom(NamedTuple):
    """Scratch of `component_masses`."""

    low: npt.NDArray[np.float32]
    """(16, n_components): products over subsets of the first four tokens."""
    high: npt.NDArray[np.float32]
    """(n_high, n_components): weights times products over subsets of the others."""
    inner: npt.NDArray[np.float32]
    """(n_components,)"""


@device
def begins_alike(rows, i):
    """Whether cell i differs from cell i - 1 in no key but the last."""
    alike = True
    for d in range(rows.shape[1] - 1):
        alike = alike and rows[i, d] == rows[i - 1, d]
    return alike


@device
def dot(profile, mass):
    """sum_k profile[k] mass[k], in four sums side by side: one sum waits for every addition."""
    n = mass.shape[0]
    a, b, c, d = 0.0, 0.0, 0.0, 0.0
    for k in range(0, n - 3, 4):
        a += profile[k] * mass[k]
        b += profile[k + 1] * mass[k + 1]
        c += profile[k + 2] * mass[k + 2]
        d += profile[k + 3] * mass[k + 3]
    for k in range(n // 4 * 4, n):
        a += profile[k] * mass[k]
    return (a + b) + (c + d)


@device
def extend(product, factor, bit):
    """product[k, bit + s] = product[k, s] factor[k] for s < bit."""
    for k in range(product.shape[0]):
        value = factor[k]
        for s in range(bit):
            product[k, bit + s] = product[k, s] * value


@device
def combine(vectors, factor, length, out):
    """out[s] = sum_k factor[k] vectors[k, s] for s < length, all float32.

    Four at a time: with more, the compiler no longer sees that the arrays do not overlap.
    """
    n = vectors.shape[0]
    for s in range(length):
        out[s] = np.float32(0.0)
    for k in range(0, n - 3, 4):
        a, b, c, d = vectors[k], vectors[k + 1], vectors[k + 2], vectors[k + 3]
        of_a, of_b, of_c, of_d = factor[k], factor[k + 1], factor[k + 2], factor[k + 3]
        for s in range(length):
            out[s] += (a[s] * of_a + b[s] * of_b) + (c[s] * of_c + d[s] * of_d)
    for k in range(n // 4 * 4, n):
        a, of_a = vectors[k], factor[k]
        for s in range(length):
            out[s] += a[s] * of_a


@device
def sum_partitions(block, known, alpha, partial):
    """F of every subset of `known` tokens, into partial (n_subsets, 8); block: (|B| - 1)! V_B."""
    for w in range(8):
        partial[0, w] = 1.0
    for t in range(known):
        bit = 1 << t
        for s in range(bit):
            x = bit + s
            t0, t1, t2, t3 = block[x, 0], block[x, 1], block[x, 2], block[x, 3]
            t4, t5, t6, t7 = block[x, 4], block[x, 5], block[x, 6], block[x, 7]
            b = s
            while b > 0:
                b = (b - 1) & s
                x = bit + b
                y = s - b
                t0 += block[x, 0] * partial[y, 0]
                t1 += block[x, 1] * partial[y, 1]
                t2 += block[x, 2] * partial[y, 2]
                t3 += block[x, 3] * partial[y, 3]
                t4 += block[x, 4] * partial[y, 4]
                t5 += block[x, 5] * partial[y, 5]
                t6 += block[x, 6] * partial[y, 6]
                t7 += block[x, 7] * partial[y, 7]
            y = bit + s
            partial[y, 0], partial[y, 1] = t0 * alpha, t1 * alpha
            partial[y, 2], partial[y, 3] = t2 * alpha, t3 * alpha
            partial[y, 4], partial[y, 5] = t4 * alpha, t5 * alpha
            partial[y, 6], partial[y, 7] = t6 * alpha, t7 * alpha


@device
def component_masses(rows, i, theta, weights, rest, room, mass):
    """mass[k] = g_k sum_s rest[s] prod_{j in s} theta[r_j, k], s subsets of all keys but the last.

    rest (at least 16,), of cell i. A subset is one of the first four tokens and one of the others,
    so that all products stay in the fastest memory.
    """
    low, high, inner = room
    n_components = weights.shape[0]
    for k in range(n_components):
        low[0, k] = 1.0
        high[0, k] = weights[k]
        mass[k] = 0.0
    known = 0
    for d in range(rows.shape[1] - 1):
        r = rows[i, d]
        if r < 0:
            continue
        if known < 4:
            bit = 1 << known
            for s in range(bit):
                for k in range(n_components):
                    low[bit + s, k] = low[s, k] * theta[r, k]
        else:
            bit = 1 << (known - 4)
            for s in range(bit):
                for k in range(n_components):
                    high[bit + s, k] = high[s, k] * theta[r, k]
        known += 1
    width = 1 << min(known, 4)
    for s in range(1 << max(known - 4, 0)):
        combine(low[:width], rest[16 * s :], n_components, inner)
        for k in range(n_components):
            mass[k] += high[s, k] * inner[k]


@kernel
def sequential_probabilities(
    key, sweep, rows, theta, weights, base, alpha, alpha_weight, n_repeats, out
):
    """Unbiased estimate of the probability of each cell, for any number of keys, into `out` (n,).

    Arguments as in `partition_probabilities`, `base` (n_rows,) = sum_k g0_k theta_rk. The tokens
    of a new record are seated one after another. That all sit at one table is summed exactly; the
    rest is split by the token t that opens the second table, and each part is estimated by
    `n_repeats` sequences whose later tokens choose their table given the earlier ones. So no part
    is missed, however small alpha is, and the cost is of order n_keys^2 instead of 3^n_keys.
    """
    n, n_keys = rows.shape
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    token = np.empty(n_keys, np.int64)
    room = SeatingRoom(np.empty(weights.shape[0]), np.empty(n_keys, np.int64), np.empty(n_keys))
    for i in range(n):
        n_tok = 0
        for j in range(n_keys):
            if rows[i, j] >= 0:
                token[n_tok] = rows[i, j]
                n_tok += 1
        seek(generator, key, i, sweep, PURPOSE_MEMBERSHIP)
        probability = 0.0
        for p in range(alpha.shape[0]):
            probability += alpha_weight[p] * seated(
                generator, token[:n_tok], theta, weights, base, alpha[p], n_repeats, room
            )
        out[i] = probability


class SeatingRoom(NamedTuple):
    """Scratch of `seated`."""

    joint: npt.NDArray[np.float64]
    """(n_components,)"""
    component: npt.NDArray[np.int64]
    """(n_keys,): of each table."""
    size: npt.NDArray[np.float64]
    """(n_keys,): tokens at each table."""


@device
def seated(generator, token, theta, weights, base, a, n_repeats, room):
    """Estimate of the probability of rows `token` of theta; see `sequential_probabilities`."""
    joint, table_component, table_size = room
    n_tok = token.shape[0]
    joint[:] = weights
    # prior: that the tokens before t all sit at the first table.
    prior = 1.0
    estimate = 0.0
    for t in range(n_tok + 1):
        first = 0.0
        for k in range(joint.shape[0]):
            first += joint[k]
        if t == n_tok:
            estimate += prior * first
            break
        if t > 0:
            part = 0.0
            for _ in range(n_repeats):
                table_component[0] = draw_one(generator, joint, first)
                table_size[0] = t
                table_component[1] = draw_fresh(
                    theta[token[t]], weights, uniform(generator) * base[token[t]]
                )
                table_size[1] = 1.0
                n_tables = 2
                value = 1.0
                for s in range(t + 1, n_tok):
                    r = token[s]
                    total = a * base[r]
                    for b in range(n_tables):
                        total += table_size[b] * theta[r, table_component[b]]
                    value *= total / (a + s)
                    mark = uniform(generator) * total - a * base[r]
                    if mark < 0.0:
                        table_component[n_tables] = draw_fresh(
                            theta[r], weights, uniform(generator) * base[r]
                        )
                        table_size[n_tables] = 1.0
                        n_tables += 1
                    else:
                        chosen = 0
                        for b in range(n_tables):
                            chosen = b
                            mark -= table_size[b] * theta[r, table_component[b]]
                            if mark < 0.0:
                                break
                        table_size[chosen] += 1.0
                part += value
            opening = prior * a / (a + t)
            estimate += opening * first * base[token[t]] * part / n_repeats
            prior *= t / (a + t)
        for k in range(joint.shape[0]):
            joint[k] *= theta[token[t], k]
    return estimate


@device
def draw_fresh(profile, weights, mark):
    """Index at `mark` in the running sum of weights[k] * profile[k]."""
    chosen = 0
    for k in range(weights.shape[0]):
        mass = weights[k] * profile[k]
        if mass > 0.0:
            chosen = k
            mark -= mass
            if mark < 0.0:
                break
    return chosen


@device
def unique_risk(unobserved, p):
    """r1 = P(F = 1 | f = 1) = (1 - p)^M."""
    return math.exp(unobserved * math.log1p(-p))


@device
def match_risk(unobserved, p, count):
    """E[1/F | f = count], F - f ~ Binomial(M, p).

    Closed form for count 1 (models.md §1). Otherwise the sum over the distribution where its mean
    is small, and the series of E[1/X] around the mean of X, to the sixth central moment, where it
    is large (relative error below 1e-6).
    """
    mean = unobserved * p
    if mean <= 0.0:
        return 1.0 / count
    if count == 1:
        x = (unobserved + 1.0) * p
        if x < 1e-8:
            return 1.0 - 0.5 * mean
        return -math.expm1((unobserved + 1.0) * math.log1p(-p)) / x
    if mean > 60.0 or p > 0.999:
        return inverse_mean(count, mean, p)
    odds = p / (1.0 - p)
    term = math.exp(unobserved * math.log1p(-p))
    total = term / count
    seen = term
    x = 0.0
    while x < unobserved and 1.0 - seen > 1e-12 and x < mean + 12.0 * math.sqrt(mean) + 40.0:
        x += 1.0
        term *= odds * (unobserved - x + 1.0) / x
        total += term / (count + x)
        seen += term
    return total


@device
def inverse_mean(count, mean, p):
    """E[1/(count + X)] by its series around the mean of X ~ Binomial(mean / p, p)."""
    centre = count + mean
    q = 1.0 - p
    variance = mean * q
    third = variance * (1.0 - 2.0 * p)
    fourth = 3.0 * variance**2 + variance * (1.0 - 6.0 * p * q)
    fifth = third * (1.0 + 10.0 * variance - 12.0 * p * q)
    sixth = 15.0 * variance**3
    series = 1.0 + variance / centre**2 - third / centre**3 + fourth / centre**4
    series += -fifth / centre**5 + sixth / centre**6
    return series / centre


@device
def poisson_match_risk(mean, count):
    """E[1/F | f = count], F - f ~ Poisson(mean); as `match_risk`."""
    if mean <= 0.0:
        return 1.0 / count
    if count == 1:
        return 1.0 - 0.5 * mean if mean < 1e-8 else -math.expm1(-mean) / mean
    if mean > 60.0:
        return inverse_mean(count, mean, 0.0)
    term = math.exp(-mean)
    total = term / count
    seen = term
    x = 0.0
    while 1.0 - seen > 1e-12 and x < mean + 12.0 * math.sqrt(mean) + 40.0:
        x += 1.0
        term *= mean / x
        total += term / (count + x)
        seen += term
    return total


@kernel
def cell_risk(unobserved, probability, counts, poisson, r1, r2):
    """Expected risk of each cell: r1 (for any count: P(no other in the population)) and r2.

    unobserved (n,): units that fall in the cell with its probability; poisson: whether the
    unobserved count of a cell is Poisson, instead of binomial.
    """
    for i in range(probability.shape[0]):
        if poisson:
            mean = unobserved[i] * probability[i]
            r1[i] = math.exp(-mean)
            r2[i] = poisson_match_risk(mean, counts[i])
            continue
        # A certain cell has p = 1 up to rounding, and log1p must not see 1 or more.
        p = min(probability[i], 1.0 - 1.2e-16)
        r1[i] = unique_risk(unobserved[i], p)
        r2[i] = match_risk(unobserved[i], p, counts[i])


@kernel
def draw_population(key, sweep, unobserved, probability, poisson):
    """Draw F of sample-unique cells jointly; return (population uniques, sum of 1/F).

    One multinomial over the cells and "elsewhere" as sequential binomials: the same law as
    simulating the `unobserved` individuals (models.md §1). If `poisson`, independent counts.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_POPULATION)
    left = unobserved
    elsewhere = 1.0
    uniques = 0.0
    matches = 0.0
    for i in range(probability.shape[0]):
        p = probability[i]
        if poisson:
            others = poisson_variate(generator, unobserved * p)
        else:
            others = binomial(generator, left, min(1.0, p / elsewhere))
            left -= others
            elsewhere = max(elsewhere - p, 1e-300)
        uniques += 1.0 if others == 0.0 else 0.0
        matches += 1.0 / (1.0 + others)
    return uniques, matches


@kernel
def draw_population_by_class(key, sweep, unobserved, probability, of, poisson):
    """As `draw_population`, for unobserved units of several classes.

    unobserved (n_classes,): of each class; probability (n, width): that a unit of class `of[i, w]`
    falls in cell i.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_POPULATION)
    n, width = probability.shape
    left = unobserved.copy()
    elsewhere = np.ones(len(unobserved))
    uniques = 0.0
    matches = 0.0
    for i in range(n):
        others = 0.0
        for w in range(width):
            p = probability[i, w]
            h = of[i, w]
            if p <= 0.0:
                continue
            if poisson:
                others += poisson_variate(generator, unobserved[h] * p)
            else:
                drawn = binomial(generator, left[h], min(1.0, p / elsewhere[h]))
                left[h] -= drawn
                elsewhere[h] = max(elsewhere[h] - p, 1e-300)
                others += drawn
        uniques += 1.0 if others == 0.0 else 0.0
        matches += 1.0 / (1.0 + others)
    return uniques, matches


@kernel
def add_records(r1, r2, pattern, weight, sum_r1, sum_r2, histogram_r1, histogram_r2):
    """Add one draw of risks, item i credited to `pattern[i]`, to sums and histograms, in place.

    Histograms (n_cells, n_bins) int32 are over the square root of the risk, which gives small
    risks their resolution. No bins: sums alone.
    """
    n_bins = histogram_r1.shape[1]
    for i in range(pattern.shape[0]):
        c = pattern[i]
        weight[c] += 1.0
        sum_r1[c] += r1[i]
        sum_r2[c] += r2[i]
        if n_bins == 0:
            continue
        histogram_r1[c, min(int(math.sqrt(r1[i]) * n_bins), n_bins - 1)] += 1
        histogram_r2[c, min(int(math.sqrt(r2[i]) * n_bins), n_bins - 1)] += 1
