"""Probabilities of cells without some of the records that a state of latent classes was drawn from.

A state holds classes z, weights w ~ Dirichlet(n_k, ..., alpha) and profiles theta_jk ~
Dirichlet(phi_j + n_jk). Had the records R not been there, with the same z of all others, w and
theta would have the same laws with d_k records of class k and e_jyk tokens fewer. A gamma variable
of shape a + b, times a Beta(a, b), is one of shape a: so

    w'_k   proportional to  w_k Beta(n_k - d_k, d_k),         0 where n_k = d_k,
    theta'_jyk  proportional to  theta_jyk Beta(phi_jy + n_jyk - e_jyk, e_jyk)

are draws from these laws, and no refit is needed ("thinning"). Classes without a record of R stay
as they are, but for the sum of the weights.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_ORDER,
    PURPOSE_THIN,
    seek,
    uniform,
)


@kernel
def shuffled(key, sweep, starts, order):
    """Fill order (n_records,) with the records of each cell, starts (n_cells + 1,), in any order.

    A sweep may hand the classes of a cell's records out sorted; which record of the cell has which
    is then drawn here.
    """
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for c in range(starts.shape[0] - 1):
        first, n = starts[c], starts[c + 1] - starts[c]
        for i in range(n):
            order[first + i] = first + i
        if n < 2:
            continue
        seek(generator, key, c, sweep, PURPOSE_ORDER)
        for i in range(n - 1, 0, -1):
            j = min(np.int64(uniform(generator) * (i + 1)), i)
            order[first + i], order[first + j] = order[first + j], order[first + i]


@device
def beta_of(generator, a, b):
    """Beta(a, b) for a > 0 and a whole number b: a product of powers of uniform variables."""
    log = 0.0
    for i in range(b):
        log += math.log(uniform(generator)) / (a + i)
    return math.exp(log)


@device
def share_of(sets, n_rows, r, y):
    """Share of level y in row r of `joined`: a level, or from n_rows on a set of levels."""
    starts, levels, shares = sets
    if r < n_rows:
        return 1.0 if r == y else 0.0
    for i in range(starts[r - n_rows], starts[r - n_rows + 1]):
        if levels[i] == y:
            return shares[i]
    return 0.0


@kernel
def thin(
    key, sweep, companions, rows, z, theta, weights, counts, sizes, profile, asked, joined, sets, p
):
    """Replace p (n,) of cells that have companions by their probability without these.

    companions: starts (n + 1,), places of records, and units (n,) of random numbers; rows
    (n_records, n_keys) of theta, -1 where missing, and z (n_records,) their classes, -1 for none;
    theta (n_rows, n_components); weights (n_components,); counts (n_rows, n_components) and sizes
    (n_components,) of the state; profile (n_rows,): phi. asked (n, n_keys): row of `joined` of each
    key of each cell, -1 for any level; joined (n_rows + n_sets, n_components): theta, and its sums
    over sets; sets: starts (n_sets + 1,) of their levels, and the share of each. What is drawn
    depends on the companions alone, so that a cell and a union of cells that holds it have one
    draw.
    """
    starts, records, unit = companions
    n_keys = rows.shape[1]
    n_components = weights.shape[0]
    n_rows = theta.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    left = np.zeros(n_components, np.int64)
    tokens = np.zeros(n_rows, np.int64)
    product = np.empty(n_components)
    for a in range(p.shape[0]):
        first, last = starts[a], starts[a + 1]
        if first == last:
            continue
        seek(generator, key, unit[a], sweep, PURPOSE_THIN)
        product[:] = weights
        for j in range(n_keys):
            r = asked[a, j]
            if r >= 0:
                for k in range(n_components):
                    product[k] *= joined[r, k]
        for b in range(first, last):
            if z[records[b]] >= 0:
                left[z[records[b]]] += 1
        rest = 1.0
        for k in range(n_components):
            if left[k] == 0:
                continue
            product[k] = 0.0
            if sizes[k] <= left[k]:
                rest -= weights[k]
                continue
            mass = weights[k] * beta_of(generator, float(sizes[k] - left[k]), left[k])
            rest -= weights[k] - mass
            for j in range(n_keys):
                for b in range(first, last):
                    y = rows[records[b], j]
                    if z[records[b]] == k and y >= 0:
                        tokens[y] += 1
                r = asked[a, j]
                lost, lost_of_asked = 0.0, 0.0
                for b in range(first, last):
                    y = rows[records[b], j]
                    if z[records[b]] != k or y < 0 or tokens[y] == 0:
                        continue
                    alpha = profile[y] + float(counts[y, k] - tokens[y])
                    gone = theta[y, k] * (1.0 - beta_of(generator, alpha, tokens[y]))
                    tokens[y] = 0
                    lost += gone
                    if r >= 0:
                        lost_of_asked += gone * share_of(sets, n_rows, r, y)
                if r >= 0:
                    share = max(joined[r, k] - lost_of_asked, 0.0) / max(1.0 - lost, 1e-12)
                    mass *= min(share, 1.0)
            product[k] = mass
        for b in range(first, last):
            if z[records[b]] >= 0:
                left[z[records[b]]] = 0
        total = 0.0
        for k in range(n_components):
            total += product[k]
        p[a] = total / max(rest, 1e-12)
