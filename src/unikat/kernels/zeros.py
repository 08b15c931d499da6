"""Kernels of structural zeros: decision diagrams of the possible cells.

Truncated to possible cells, a model's likelihood is prod_i p(x_i) / (1 - p0)^n, p0 the probability
of an impossible record. It is that of the model without zeros if one also sees the impossible
records that came before n possible ones. Of those only the *beginning* is needed, in the order of
the diagram's layers, up to the key that makes them impossible: what follows sums to 1. So an
impossible record is one whose later keys are missing.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_COMPLETE,
    PURPOSE_IMPOSSIBLE,
    PURPOSE_MASS,
    log_gamma_variate,
    next_bits,
    seek,
    uniform,
)

_INV32 = 1.0 / 4294967296.0


class Diagram(NamedTuple):
    """The possible cells as a decision diagram: one layer per key, in the order `order`.

    Node 0 is the root, in layer 0; the nodes of layer d are `first[d]` to `first[d + 1] - 1`; the
    last node, alone in layer n_keys, is the end of every possible cell.

    Examples
    --------
    >>> import unikat
    >>> table = unikat.tabulate([[0, 1], [1, 0]], ["AGE", "MARRIED"], population_size=9)
    >>> diagram = unikat.Zeros.of(["AGE == 0 and MARRIED == 1"], table.keys).diagram
    >>> type(diagram).__name__, diagram.order.shape
    ('Diagram', (2,))
    """

    order: npt.NDArray[np.int64]
    """(n_keys,): key of each layer."""
    first: npt.NDArray[np.int64]
    """(n_keys + 2,): first node of each layer, and the number of nodes."""
    child: npt.NDArray[np.int32]
    """(n_nodes - 1, most levels): node of the next layer by level, -1 where nothing is possible."""


class Memberships(NamedTuple):
    """Law of records under mixed membership, as running sums."""

    alpha: npt.NDArray[np.float64]
    """(1,) shared, or (2,): shape and rate of each record's own."""
    weights: npt.NDArray[np.float64]
    """(n_components,): running sum of g0."""
    theta: npt.NDArray[np.float64]
    """(n_components, n_rows): running sums within each key."""


class Found(NamedTuple):
    """Room for impossible records: their keys up to the one that makes them impossible, then -1."""

    rows: npt.NDArray[np.int32]
    """(capacity, n_keys)"""
    z: npt.NDArray[np.int16]
    """(capacity, n_keys)"""
    alphas: npt.NDArray[np.float64]
    """(capacity,): each record's own alpha; (0,) if it is shared."""


@kernel
def possible_chances(diagram, offsets, theta, chance):
    """Probability that a record of component k at each node ends possible, into chance.

    theta (n_rows, n_components); chance (n_nodes, n_components) float64; chance[0] is
    P(possible | k).
    """
    order, first, child = diagram
    n_components = theta.shape[1]
    last = chance.shape[0] - 1
    for k in range(n_components):
        chance[last, k] = 1.0
    for d in range(order.shape[0] - 1, -1, -1):
        j = order[d]
        for node in range(first[d], first[d + 1]):
            for k in range(n_components):
                chance[node, k] = 0.0
            for level in range(offsets[j + 1] - offsets[j]):
                after = child[node, level]
                if after < 0:
                    continue
                r = offsets[j] + level
                for k in range(n_components):
                    chance[node, k] += theta[r, k] * chance[after, k]


@device
def find(cumulative, first, last, point):
    """First index of cumulative[first:last] whose value exceeds `point`, at most last - 1."""
    low = first
    high = last - 1
    while low < high:
        middle = (low + high) // 2
        if cumulative[middle] > point:
            high = middle
        else:
            low = middle + 1
    return low


@kernel
def simulate_impossible(key, sweep, lane, target, diagram, offsets, law, found):
    """Simulate records under mixed membership until `target` possible ones have come.

    The beginnings of the impossible ones go into found: Found. law: Memberships. Negative
    binomials add, so the target can be cut into lanes with streams of their own. Returns how many
    impossible ones came; if more than fit, the rest is only counted, up to twice the capacity.
    """
    order, _first, child = diagram
    alpha, weights, theta = law
    rows, z, alphas = found
    n_keys = order.shape[0]
    capacity = rows.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    seek(generator, key, lane, sweep, PURPOSE_IMPOSSIBLE)
    component = np.empty(n_keys, np.int64)
    drawn = np.empty(n_keys, np.int64)
    concentration = alpha[0]
    total = weights[weights.shape[0] - 1]
    n_possible = 0
    n_impossible = 0
    while n_possible < target and n_impossible <= 2 * capacity:
        if alpha.shape[0] == 2:
            value = log_gamma_variate(generator, alpha[0])
            concentration = max(np.exp(value) / alpha[1], 1e-100)
        node = 0
        d = 0
        while d < n_keys and node >= 0:
            mark = uniform(generator) * (d + concentration)
            if mark < d:
                k = component[int(mark)]
            else:
                k = find(weights, 0, weights.shape[0], uniform(generator) * total)
            j = order[d]
            point = float(next_bits(generator)) * _INV32 * theta[k, offsets[j + 1] - 1]
            r = find(theta[k], offsets[j], offsets[j + 1], point)
            component[d] = k
            drawn[d] = r
            node = child[node, r - offsets[j]]
            d += 1
        if node >= 0:
            n_possible += 1
            continue
        if n_impossible < capacity:
            for e in range(n_keys):
                rows[n_impossible, order[e]] = drawn[e] if e < d else -1
                z[n_impossible, order[e]] = component[e] if e < d else -1
            if alphas.shape[0] > 0:
                alphas[n_impossible] = concentration
        n_impossible += 1
    return n_impossible


@kernel
def draw_impossible(key, sweep, first, last, classes, diagram, offsets, theta, chance, rows):
    """Draw the beginnings of impossible records of given classes, into rows (n, n_keys) int32.

    classes (n,), sorted: class of each record [first, last); theta (n_rows, n_components); chance:
    see `possible_chances`. A level is drawn with the probability that it comes and the record ends
    impossible; -1 from the key on that was not needed.
    """
    order, _first, child = diagram
    n_keys = order.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    # Records of one class that meet at a node share the sums over its levels.
    sums = np.empty(child.shape)
    summed = np.full(child.shape[0], -1, np.int64)
    for i in range(first, last):
        seek(generator, key, i, sweep, PURPOSE_IMPOSSIBLE)
        k = classes[i]
        node = 0
        for d in range(n_keys):
            j = order[d]
            if node < 0:
                rows[i, j] = -1
                continue
            n_levels = offsets[j + 1] - offsets[j]
            if summed[node] != k:
                summed[node] = k
                total = 0.0
                for level in range(n_levels):
                    after = child[node, level]
                    weight = float(theta[offsets[j] + level, k])
                    if after >= 0:
                        # A child from which all is possible has chance 1 but for rounding.
                        weight *= max(1.0 - chance[after, k], 0.0)
                    total += weight
                    sums[node, level] = total
            point = uniform(generator) * sums[node, n_levels - 1]
            chosen = find(sums[node], 0, n_levels, point)
            rows[i, j] = offsets[j] + chosen
            node = child[node, chosen]


@kernel
def complete(key, sweep, rows, z, diagram, offsets, theta, out):
    """Draw the missing keys of records given their components, possible ones, into out.

    rows and out (n, n_keys) int32, -1 where missing; z (n, n_keys), or (n, 1) where a record has
    one component. Known keys are copied. Exact: probabilities are carried from the last layer to
    the first, then levels are drawn from the first to the last.
    """
    order, first, child = diagram
    n_keys = order.shape[0]
    width = z.shape[1]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    chance = np.empty(child.shape[0] + 1)
    for i in range(rows.shape[0]):
        seek(generator, key, i, sweep, PURPOSE_COMPLETE)
        chance[child.shape[0]] = 1.0
        for d in range(n_keys - 1, -1, -1):
            j = order[d]
            k = z[i, min(j, width - 1)]
            for node in range(first[d], first[d + 1]):
                total = 0.0
                if rows[i, j] >= 0:
                    after = child[node, rows[i, j] - offsets[j]]
                    if after >= 0:
                        total = chance[after]
                else:
                    for level in range(offsets[j + 1] - offsets[j]):
                        after = child[node, level]
                        if after >= 0:
                            # A level that no float can tell from 0 stays possible.
                            total += max(theta[offsets[j] + level, k], 1e-30) * chance[after]
                chance[node] = total
            # Many unlikely levels must not run out of range.
            largest = 0.0
            for node in range(first[d], first[d + 1]):
                largest = max(largest, chance[node])
            for node in range(first[d], first[d + 1]):
                chance[node] /= largest
        node = 0
        for d in range(n_keys):
            j = order[d]
            if rows[i, j] >= 0:
                out[i, j] = rows[i, j]
                node = child[node, rows[i, j] - offsets[j]]
                continue
            k = z[i, min(j, width - 1)]
            total = 0.0
            for level in range(offsets[j + 1] - offsets[j]):
                after = child[node, level]
                if after >= 0:
                    total += max(theta[offsets[j] + level, k], 1e-30) * chance[after]
            mark = uniform(generator) * total
            chosen = -1
            for level in range(offsets[j + 1] - offsets[j]):
                after = child[node, level]
                if after >= 0 and chance[after] > 0.0:
                    chosen = level
                    mark -= max(theta[offsets[j] + level, k], 1e-30) * chance[after]
                    if mark < 0.0:
                        break
            out[i, j] = offsets[j] + chosen
            node = child[node, chosen]


@kernel
def mixed_chance(key, sweep, n_draws, diagram, offsets, alpha, weights, theta):
    """Mean over `n_draws` records of P(possible | their components), 0 where these are all one.

    alpha (n_draws,): concentration of each; weights (n_components,) cumulative; theta
    (n_rows, n_components). With the records of one component added exactly, this is the probability
    that a record is possible.
    """
    order, first, child = diagram
    n_keys = order.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    chance = np.empty(child.shape[0] + 1)
    component = np.empty(n_keys, np.int64)
    chance[child.shape[0]] = 1.0
    total = weights[weights.shape[0] - 1]
    mean = 0.0
    for i in range(n_draws):
        seek(generator, key, i, sweep, PURPOSE_MASS)
        mixed = False
        for d in range(n_keys):
            mark = uniform(generator) * (d + alpha[i])
            if mark < d:
                component[d] = component[int(mark)]
            else:
                component[d] = find(weights, 0, weights.shape[0], uniform(generator) * total)
            mixed = mixed or component[d] != component[0]
        if not mixed:
            continue
        for d in range(n_keys - 1, -1, -1):
            j = order[d]
            k = component[d]
            for node in range(first[d], first[d + 1]):
                value = 0.0
                for level in range(offsets[j + 1] - offsets[j]):
                    after = child[node, level]
                    if after >= 0:
                        value += theta[offsets[j] + level, k] * chance[after]
                chance[node] = value
        mean += chance[0]
    return mean / n_draws
