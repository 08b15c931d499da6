"""Kernels of the latent class model, where all keys of a record share one component.

Records of one cell have one likelihood, so the work is per cell. Cells come sorted so that
neighbours share their first keys; the products over those are kept (a walk along a trie).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel, leaf
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_ALLOCATE,
    binomial,
    seek,
    uniform,
)


class Walk(NamedTuple):
    """Cells in an order in which neighbours share their first keys."""

    rows: npt.NDArray[np.int32]
    """(n_cells, n_keys): row of theta of each known key, -1 where missing."""
    cell: npt.NDArray[np.int64]
    """(n_cells,): the cell's place in the table."""
    starts: npt.NDArray[np.int64]
    """(n_table_cells + 1,): first record of each cell of the table."""


@device
def descend(rows, i, start, theta, product):
    """Fill product[d] for d > the number of keys that cell i shares with cell i - 1.

    product (n_keys + 1, n_components): products of the weights and of theta over the first d keys.
    Cells before `start` were not visited.
    """
    n_keys = rows.shape[1]
    n_components = product.shape[1]
    shared = 0
    if i > start:
        while shared < n_keys and rows[i, shared] == rows[i - 1, shared]:
            shared += 1
    for d in range(shared, n_keys):
        r = rows[i, d]
        if r < 0:
            for s in range(n_components):
                product[d + 1, s] = product[d, s]
        else:
            for s in range(n_components):
                product[d + 1, s] = product[d, s] * theta[r, s]


@leaf
def sum_groups(mass, group):
    """Fill group (8,) with the sums over every eighth component; return the total.

    mass (n_components,), n_components a multiple of 8.
    """
    for g in range(8):
        group[g] = 0.0
    for b in range(mass.shape[0] // 8):
        for g in range(8):
            group[g] += mass[8 * b + g]
    total = 0.0
    for g in range(8):
        total += group[g]
    return total


@leaf
def pick(mass, group, mark):
    """Find the component at `mark` in [0, total), in the order of the groups."""
    g = 0
    while g < 7 and mark >= group[g]:
        mark -= group[g]
        g += 1
    chosen = g
    for s in range(g, mass.shape[0], 8):
        if mass[s] > 0.0:
            # The last component with mass stands in where rounding runs past the end.
            chosen = s
            if mark < mass[s]:
                break
            mark -= mass[s]
    return chosen


@kernel
def allocate(key, sweep, first, last, walk, theta, weights, z, counts, sizes):
    """Draw the component of every record of the cells [first, last), into z (n, 1).

    walk: Walk; theta (n_rows, n_components), n_components a multiple of 8; weights
    (n_components,). Adds to counts (n_rows, n_components) and sizes (n_components,). A record
    without known keys is left out (z = -1).
    """
    rows, cell, starts = walk
    n_keys = rows.shape[1]
    n_components = theta.shape[1]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    product = np.empty((n_keys + 1, n_components))
    group = np.empty(8)
    taken = np.zeros(n_components, np.int64)
    touched = np.empty(n_components, np.int64)
    product[0] = weights
    for i in range(first, last):
        descend(rows, i, first, theta, product)
        c = cell[i]
        known = False
        for j in range(n_keys):
            known = known or rows[i, j] >= 0
        if not known:
            for record in range(starts[c], starts[c + 1]):
                z[record, 0] = -1
            continue
        mass = product[n_keys]
        total = sum_groups(mass, group)
        seek(generator, key, c, sweep, PURPOSE_ALLOCATE)
        n_records = starts[c + 1] - starts[c]
        if n_records <= 2 * n_components:
            n_touched = 0
            for record in range(starts[c], starts[c + 1]):
                k = pick(mass, group, uniform(generator) * total)
                z[record, 0] = k
                if taken[k] == 0:
                    touched[n_touched] = k
                    n_touched += 1
                taken[k] += 1
            for a in range(n_touched):
                k = touched[a]
                sizes[k] += taken[k]
                for j in range(n_keys):
                    if rows[i, j] >= 0:
                        counts[rows[i, j], k] += taken[k]
                taken[k] = 0
            continue
        deal(generator, mass, total, n_records, taken)
        record = starts[c]
        for k in range(n_components):
            n_taken = taken[k]
            taken[k] = 0
            if n_taken == 0:
                continue
            for _ in range(n_taken):
                z[record, 0] = k
                record += 1
            sizes[k] += n_taken
            for j in range(n_keys):
                if rows[i, j] >= 0:
                    counts[rows[i, j], k] += n_taken


@device
def deal(generator, mass, total, n_records, taken):
    """Draw how many of many records go to each component, one after another, into `taken`.

    mass (n_components,) sums to total; taken (n_components,) is zero before.
    """
    left = n_records
    rest = total
    for k in range(mass.shape[0]):
        if left == 0:
            break
        # Within rounding the last component with mass takes all that is left.
        share = mass[k] / rest if rest - mass[k] > 1e-12 * total else 1.0
        n_taken = np.int64(binomial(generator, float(left), share)) if mass[k] > 0.0 else 0
        rest -= mass[k]
        left -= n_taken
        taken[k] = n_taken


@kernel
def count(rows, z, counts):
    """Add the tokens of records to counts (n_rows, n_components).

    rows (n, n_keys), -1 where missing; z (n, 1): class of each record, -1 for a record without
    known keys.
    """
    for i in range(rows.shape[0]):
        for j in range(rows.shape[1]):
            if rows[i, j] >= 0:
                counts[rows[i, j], z[i, 0]] += 1


@kernel
def probabilities(rows, theta, weights, out):
    """Probability of each cell, sum_k weights_k prod_j theta_jk, into out (n,).

    rows (n, n_keys), -1 for a key left out, sorted so that neighbours share their first keys.
    """
    n, n_keys = rows.shape
    n_components = theta.shape[1]
    product = np.empty((n_keys + 1, n_components))
    product[0] = weights
    for i in range(n):
        descend(rows, i, 0, theta, product)
        # Four sums side by side: one sum would wait for every addition.
        last = product[n_keys]
        a, b, c, d = 0.0, 0.0, 0.0, 0.0
        for s in range(0, n_components - 3, 4):
            a += last[s]
            b += last[s + 1]
            c += last[s + 2]
            d += last[s + 3]
        for s in range(n_components // 4 * 4, n_components):
            a += last[s]
        out[i] = (a + b) + (c + d)
