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

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_MEMBERSHIP,
    PURPOSE_POPULATION,
    binomial,
    poisson_variate,
    seek,
    uniform,
)


@kernel
def partition_probabilities(rows, theta, weights, alpha, alpha_weight, out):
    """Exact probability of each cell, into `out` (n,).

    rows (n, n_keys) int32 with -1 for a key left out, sorted lexicographically so that cells with
    the same first keys are neighbours and share work; theta (n_rows, n_components) float64;
    weights (n_components,) = g0; alpha, alpha_weight (n_nodes,): values of the concentration and
    their probabilities (one value if it is shared).

    The last key needs no recursion: the probability is linear in its blocks, so cells that differ
    in the last key only cost one pass over the subsets of the others. Subsets are the inner index
    of every loop: elementwise work vectorises, sums in a fixed order would not.
    """
    n, n_keys = rows.shape
    n_components = weights.shape[0]
    n_nodes = alpha.shape[0]
    n_subsets = 1 << (n_keys - 1)
    product = np.empty((n_components, n_subsets))
    block = np.empty(n_subsets)
    partial = np.empty((n_nodes, n_subsets))
    final = np.empty(n_nodes)
    rest = np.empty(n_subsets)
    joined = np.empty(n_subsets)
    factorial = np.ones(n_keys + 1)
    for s in range(1, n_keys + 1):
        factorial[s] = factorial[s - 1] * s
    size = np.zeros(n_subsets, np.int64)
    for s in range(1, n_subsets):
        size[s] = size[s >> 1] + (s & 1)
    # tokens[d]: known keys among the first d; a subset of them is a bit mask.
    tokens = np.zeros(n_keys + 1, np.int64)
    for k in range(n_components):
        product[k, 0] = weights[k]
    for p in range(n_nodes):
        partial[p, 0] = 1.0
    for i in range(n):
        shared = 0
        if i > 0:
            while shared < n_keys - 1 and rows[i, shared] == rows[i - 1, shared]:
                shared += 1
        if i > 0 and shared == n_keys - 1 and rows[i, shared] == rows[i - 1, shared]:
            out[i] = out[i - 1]
            continue
        for d in range(shared, n_keys - 1):
            tokens[d + 1] = tokens[d]
            r = rows[i, d]
            if r < 0:
                continue
            bit = 1 << tokens[d]
            tokens[d + 1] += 1
            for s in range(bit):
                block[bit + s] = 0.0
            for k in range(n_components):
                factor = theta[r, k]
                for s in range(bit):
                    value = product[k, s] * factor
                    product[k, bit + s] = value
                    block[bit + s] += value
            for s in range(bit):
                block[bit + s] *= factorial[size[s]]
            for p in range(n_nodes):
                for s in range(bit):
                    total = block[bit + s]
                    b = (s - 1) & s
                    while b != s:
                        total += block[bit + b] * partial[p, s - b]
                        if b == 0:
                            break
                        b = (b - 1) & s
                    partial[p, bit + s] = total * alpha[p]
        known = tokens[n_keys - 1]
        full = (1 << known) - 1
        r = rows[i, n_keys - 1]
        if r < 0:
            total = 0.0
            for p in range(n_nodes):
                denominator = 1.0
                for l in range(known):
                    denominator *= alpha[p] + l
                total += alpha_weight[p] * partial[p, full] / denominator
            out[i] = total
            continue
        if i == 0 or shared < n_keys - 1 or rows[i - 1, n_keys - 1] < 0:
            for p in range(n_nodes):
                denominator = 1.0
                for l in range(1, known + 1):
                    denominator *= alpha[p] + l
                final[p] = alpha_weight[p] / denominator
            for s in range(full + 1):
                rest[s] = 0.0
                for p in range(n_nodes):
                    rest[s] += final[p] * partial[p, full - s]
                rest[s] *= factorial[size[s]]
        for s in range(full + 1):
            joined[s] = 0.0
        for k in range(n_components):
            factor = theta[r, k]
            for s in range(full + 1):
                joined[s] += product[k, s] * factor
        total = 0.0
        for s in range(full + 1):
            total += rest[s] * joined[s]
        out[i] = total


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
    n_components = weights.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    token = np.empty(n_keys, np.int64)
    joint = np.empty(n_components)
    table_component = np.empty(n_keys, np.int64)
    table_size = np.empty(n_keys)
    for i in range(n):
        n_tok = 0
        for j in range(n_keys):
            if rows[i, j] >= 0:
                token[n_tok] = rows[i, j]
                n_tok += 1
        seek(generator, key, i, sweep, PURPOSE_MEMBERSHIP)
        probability = 0.0
        for p in range(alpha.shape[0]):
            a = alpha[p]
            for k in range(n_components):
                joint[k] = weights[k]
            # prior: that the tokens before t all sit at the first table.
            prior = 1.0
            estimate = 0.0
            for t in range(n_tok + 1):
                first = 0.0
                for k in range(n_components):
                    first += joint[k]
                if t == n_tok:
                    estimate += prior * first
                    break
                if t > 0:
                    part = 0.0
                    for _ in range(n_repeats):
                        table_component[0] = locate(joint, uniform(generator) * first)
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
                for k in range(n_components):
                    joint[k] *= theta[token[t], k]
            probability += alpha_weight[p] * estimate
        out[i] = probability


@device
def locate(mass, mark):
    """Index at `mark` in the running sum of `mass`."""
    chosen = 0
    for k in range(mass.shape[0]):
        if mass[k] > 0.0:
            chosen = k
            mark -= mass[k]
            if mark < 0.0:
                break
    return chosen


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
    risks their resolution.
    """
    n_bins = histogram_r1.shape[1]
    for i in range(pattern.shape[0]):
        c = pattern[i]
        weight[c] += 1.0
        sum_r1[c] += r1[i]
        sum_r2[c] += r2[i]
        histogram_r1[c, min(int(math.sqrt(r1[i]) * n_bins), n_bins - 1)] += 1
        histogram_r2[c, min(int(math.sqrt(r2[i]) * n_bins), n_bins - 1)] += 1
