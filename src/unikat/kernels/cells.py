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
    PURPOSE_POPULATION,
    binomial,
    seek,
)


@kernel
def partition_probabilities(rows, theta, weights, alpha, alpha_weight, out):
    """Exact probability of each cell, into `out` (n,).

    rows (n, n_keys) int32 with -1 for a key left out, sorted lexicographically so that cells with
    the same first keys are neighbours and share work; theta (n_rows, n_components) float64;
    weights (n_components,) = g0; alpha, alpha_weight (n_nodes,): values of the concentration and
    their probabilities (one value if it is shared).

    The last key needs no subsets at all: the probability is linear in its theta, so cells that
    differ in the last key only cost one dot product each.
    """
    n, n_keys = rows.shape
    n_components = weights.shape[0]
    n_nodes = alpha.shape[0]
    n_subsets = 1 << (n_keys - 1)
    product = np.empty((n_subsets, n_components))
    block = np.empty(n_subsets)
    partial = np.empty((n_subsets, n_nodes))
    final = np.empty(n_nodes)
    slope = np.empty(n_components)
    factorial = np.ones(n_keys + 1)
    for s in range(1, n_keys + 1):
        factorial[s] = factorial[s - 1] * s
    size = np.zeros(n_subsets, np.int64)
    for s in range(1, n_subsets):
        size[s] = size[s >> 1] + (s & 1)
    # tokens[d]: known keys among the first d; a subset of them is a bit mask.
    tokens = np.zeros(n_keys + 1, np.int64)
    for k in range(n_components):
        product[0, k] = weights[k]
    for p in range(n_nodes):
        partial[0, p] = 1.0
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
                total = 0.0
                for k in range(n_components):
                    value = product[s, k] * theta[r, k]
                    product[bit + s, k] = value
                    total += value
                block[bit + s] = factorial[size[s]] * total
            for s in range(bit):
                for p in range(n_nodes):
                    partial[bit + s, p] = 0.0
                b = s
                while True:
                    for p in range(n_nodes):
                        partial[bit + s, p] += block[bit + b] * partial[s - b, p]
                    if b == 0:
                        break
                    b = (b - 1) & s
                for p in range(n_nodes):
                    partial[bit + s, p] *= alpha[p]
        known = tokens[n_keys - 1]
        full = (1 << known) - 1
        r = rows[i, n_keys - 1]
        if r < 0:
            total = 0.0
            for p in range(n_nodes):
                denominator = 1.0
                for l in range(known):
                    denominator *= alpha[p] + l
                total += alpha_weight[p] * partial[full, p] / denominator
            out[i] = total
            continue
        if i == 0 or shared < n_keys - 1 or rows[i - 1, n_keys - 1] < 0:
            for p in range(n_nodes):
                denominator = 1.0
                for l in range(1, known + 1):
                    denominator *= alpha[p] + l
                final[p] = alpha_weight[p] / denominator
            for k in range(n_components):
                slope[k] = 0.0
            for s in range(full + 1):
                rest = 0.0
                for p in range(n_nodes):
                    rest += final[p] * partial[full - s, p]
                rest *= factorial[size[s]]
                for k in range(n_components):
                    slope[k] += rest * product[s, k]
        total = 0.0
        for k in range(n_components):
            total += slope[k] * theta[r, k]
        out[i] = total


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


@kernel
def cell_risk(unobserved, probability, counts, r1, r2):
    """Expected risk of each cell: r1 (for any count: P(no other in the population)) and r2."""
    for i in range(probability.shape[0]):
        # A certain cell has p = 1 up to rounding, and log1p must not see 1 or more.
        p = min(probability[i], 1.0 - 1.2e-16)
        r1[i] = unique_risk(unobserved, p)
        r2[i] = match_risk(unobserved, p, counts[i])


@kernel
def draw_population(key, sweep, unobserved, probability):
    """Draw F of sample-unique cells jointly; return (population uniques, sum of 1/F).

    One multinomial over the cells and "elsewhere" as sequential binomials: the same law as
    simulating the `unobserved` individuals (models.md §1).
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, 0, sweep, PURPOSE_POPULATION)
    left = unobserved
    elsewhere = 1.0
    uniques = 0.0
    matches = 0.0
    for i in range(probability.shape[0]):
        p = probability[i]
        others = binomial(generator, left, min(1.0, p / elsewhere))
        left -= others
        elsewhere = max(elsewhere - p, 1e-300)
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
