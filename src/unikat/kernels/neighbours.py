"""Probabilities of a record and of those that differ from it in one key, given all other records.

The profiles are integrated out: component k has level v of key j with probability

    theta_kjv = (c_kjv + eta_jv) / sum_u (c_kju + eta_ju),

c the other records' counts. A record of latent classes is of one class. Under mixed membership its
keys are of several components; profiles of different keys are independent, and a record has each
key once, so that its probability is the partition sum of `kernels.cells` on these means.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.cells import combine, dot, extend, sum_partitions
from unikat.kernels.jit import device, kernel, leaf

_LANES = 8
"""Records whose partitions are summed together, see `sum_partitions`."""
_TILE = 64
"""Components whose products are together in the fastest memory."""
_SMALLEST = 1e-20
"""Probability, over the largest of each level, below which single precision is not enough."""


@device
def fill_means(counts, profile, offsets, share, total):
    """Fill share (n_classes, n_rows) with theta given all records, total (n_classes, n_keys)."""
    for k in range(counts.shape[0]):
        for j in range(offsets.shape[0] - 1):
            total[k, j] = 0.0
            for row in range(offsets[j], offsets[j + 1]):
                total[k, j] += counts[k, row] + profile[row]
            for row in range(offsets[j], offsets[j + 1]):
                share[k, row] = (counts[k, row] + profile[row]) / total[k, j]


@kernel
def neighbour_ratios(rows, z, counts, profile, offsets, weights, ratio, own):
    """Find p(t | others) / p(x | others) for each record x and each neighbour t, into ratio.

    rows (n, n_keys) int32: row of the level of each key; z (n,): class of each record; counts
    (n_classes, n_rows) int64: tokens of all records by class, the record's own among them; profile
    (n_rows,): eta; offsets (n_keys + 1,): first row of each key; weights (n_classes,). ratio
    (n, n_each) gets the record itself first, then of each key in turn all other levels in order;
    own (n,) gets p(x | others).
    """
    n_classes, n_rows = counts.shape
    n_keys = rows.shape[1]
    share, total = np.empty((n_classes, n_rows)), np.empty((n_classes, n_keys))
    fill_means(counts, profile, offsets, share, total)
    inverse = 1.0 / share
    law = np.empty(n_rows)
    for i in range(rows.shape[0]):
        law[:] = 0.0
        truth = 0.0
        for k in range(n_classes):
            if k == z[i]:
                continue
            product = weights[k]
            for j in range(n_keys):
                product *= share[k, rows[i, j]]
            truth += product
            for j in range(n_keys):
                scale = product * inverse[k, rows[i, j]]
                for row in range(offsets[j], offsets[j + 1]):
                    law[row] += scale * share[k, row]
        # The record's own class, without the record.
        k = z[i]
        product = weights[k]
        for j in range(n_keys):
            row = rows[i, j]
            product *= (counts[k, row] - 1 + profile[row]) / (total[k, j] - 1.0)
        truth += product
        for j in range(n_keys):
            row = rows[i, j]
            scale = product / (counts[k, row] - 1 + profile[row])
            for other in range(offsets[j], offsets[j + 1]):
                law[other] += scale * (counts[k, other] + profile[other])
        own[i] = truth
        ratio[i, 0] = 1.0
        at = 1
        for j in range(n_keys):
            for row in range(offsets[j], offsets[j + 1]):
                if row != rows[i, j]:
                    ratio[i, at] = law[row] / truth
                    at += 1


class Room(NamedTuple):
    """Scratch of `_fill_group`, in single or double precision."""

    theta: npt.NDArray[np.floating]
    """(8, n_keys, n_components): leave-one-out means of the records' levels."""
    product: npt.NDArray[np.floating]
    """(n_components, 2^(n_keys - 1)): of weights and means over subsets without the last key."""
    joint: npt.NDArray[np.floating]
    """(2^n_keys,): sums of the products over the components."""
    slope: npt.NDArray[np.floating]
    """(2^n_keys,): derivative of a record's probability by them."""
    low: npt.NDArray[np.floating]
    """(2^(n_keys - 1), n_tile): the products, of a tile of components side by side."""
    above: npt.NDArray[np.floating]
    """(2^(n_keys - 1), n_tile): derivatives by them of all products that have them as a factor."""
    mass: npt.NDArray[np.floating]
    """(n_keys, n_components): derivative of the probability by theta."""


@device
def _room(n_keys, n_components, one):
    """Scratch of the type of `one`."""
    half = 1 << (n_keys - 1)
    tile = min(_TILE, n_components)
    kind = one.dtype
    return Room(
        np.empty((_LANES, n_keys, n_components), kind),
        np.empty((n_components, half), kind),
        np.zeros(2 * half, kind),
        np.empty(2 * half, kind),
        np.empty((half, tile), kind),
        np.empty((half, tile), kind),
        np.empty((n_keys, n_components), kind),
    )


class Given(NamedTuple):
    """What the probabilities of all records depend on."""

    counts: npt.NDArray[np.int64]
    profile: npt.NDArray[np.float64]
    offsets: npt.NDArray[np.int64]
    weights: npt.NDArray[np.float64]
    alpha: npt.NDArray[np.float64]
    alpha_weight: npt.NDArray[np.float64]
    total: npt.NDArray[np.float64]
    """(n_components, n_keys): see `fill_means`."""
    scale: npt.NDArray[np.float64]
    """(n_rows,): largest mean of each level over the components."""
    by_row: npt.NDArray[np.float64]
    """(n_rows, n_components): the means over it."""
    order: npt.NDArray[np.float64]
    """(2^n_keys,): (|s| - 1)! of each subset of the keys."""


@kernel
def membership_ratios(rows, z, counts, profile, offsets, weights, alpha, alpha_weight, ratio, own):
    """Do as `neighbour_ratios` under mixed membership.

    z (n, n_keys): component of each key; counts, profile, weights (g0): of the components; alpha,
    alpha_weight (n_nodes,): values of the record's concentration, and their probabilities.

    The probability is linear in the level of each key: that of key j is sum_k theta_kjv mass_jk.
    It is a function of the sums V_s = sum_k g0_k prod_{j in s} theta_jk over subsets s of the keys,
    with the derivatives slope_s = (|s| - 1)! F(rest) / (alpha + 1) ... (alpha + J - 1), F as in
    `kernels.cells`; so mass_jk is its derivative by theta_jk, and the chain rule backwards through
    the products gives that of all keys at twice the cost of the products.

    Products are in single precision, relative to the largest mean of each level. All terms are
    positive. Records of very small probability are computed in double precision.
    """
    n, n_keys = rows.shape
    n_components, n_rows = counts.shape
    share, total = np.empty((n_components, n_rows)), np.empty((n_components, n_keys))
    fill_means(counts, profile, offsets, share, total)
    scale, by_row = np.empty(n_rows), np.empty((n_rows, n_components))
    for row in range(n_rows):
        scale[row] = share[:, row].max()
        by_row[row] = share[:, row] / scale[row]
    order = np.ones(1 << n_keys)
    size = np.zeros(1 << n_keys, np.int64)
    for s in range(1, 1 << n_keys):
        size[s] = size[s >> 1] + (s & 1)
        for l in range(2, size[s]):
            order[s] *= l
    given = Given(
        counts, profile, offsets, weights, alpha, alpha_weight, total, scale, by_row, order
    )
    single = _room(n_keys, n_components, np.ones(1, np.float32))
    double = _room(n_keys, n_components, np.ones(1))
    for first in range(0, n, _LANES):
        if _fill_group(first, rows, z, given, single, ratio, own) < _SMALLEST:
            _fill_group(first, rows, z, given, double, ratio, own)


@device
def _fill_group(first, rows, z, given, room, ratio, own):
    """Fill the ratios of eight records, and return the smallest relative probability of them."""
    n, n_keys = rows.shape
    n_lanes = min(_LANES, n - first)
    n_subsets = 1 << n_keys
    counts, profile, total = given.counts, given.profile, given.total
    scale, by_row = given.scale, given.by_row
    block, partial = np.zeros((n_subsets, _LANES)), np.empty((n_subsets, _LANES))
    slope = np.zeros((n_subsets, _LANES))
    room.product[:, 0] = given.weights
    for w in range(n_lanes):
        for j in range(n_keys):
            row, k = rows[first + w, j], z[first + w, j]
            theta = room.theta[w, j]
            theta[:] = by_row[row]
            # Without the record itself.
            own_mean = (counts[k, row] - 1 + profile[row]) / (total[k, j] - 1.0)
            theta[k] = own_mean / scale[row]
            bit = 1 << j
            combine(room.product, theta, bit, room.joint[bit:])
            if 2 * bit < n_subsets:
                extend(room.product, theta, bit)
        for s in range(1, n_subsets):
            block[s, w] = given.order[s] * room.joint[s]
    for p in range(given.alpha.shape[0]):
        sum_partitions(block, n_keys, given.alpha[p], partial)
        chance = given.alpha_weight[p]
        for l in range(1, n_keys):
            chance /= given.alpha[p] + l
        for s in range(1, n_subsets):
            for w in range(_LANES):
                slope[s, w] += chance * given.order[s] * partial[n_subsets - 1 - s, w]
    smallest = 1.0
    for w in range(n_lanes):
        i = first + w
        # Each partition has one block with the first key in it.
        truth = 0.0
        for s in range(1, n_subsets, 2):
            truth += slope[s, w] * block[s, w] / given.order[s]
        smallest = min(smallest, truth)
        inverse = 1.0 / max(truth, 1e-300)
        for s in range(n_subsets):
            room.slope[s] = slope[s, w] * inverse
        _fill_masses(room.theta[w], given.weights, room)
        own[i] = truth
        ratio[i, 0] = 1.0
        at = 1
        for j in range(n_keys):
            k = z[i, j]
            own[i] *= scale[rows[i, j]]
            mass = room.mass[j]
            for row in range(given.offsets[j], given.offsets[j + 1]):
                if row != rows[i, j]:
                    without = (counts[k, row] + profile[row]) / (total[k, j] - 1.0)
                    changed = without / scale[row] - by_row[row, k]
                    law = dot(by_row[row], mass) + changed * mass[k]
                    ratio[i, at] = law * scale[row] / scale[rows[i, j]]
                    at += 1
    return smallest


@leaf
def _fill_masses(theta, weights, room):
    """Fill the derivatives of a record's probability by theta (n_keys, n_components)."""
    low, above, slope = room.low, room.above, room.slope
    n_keys, n = theta.shape
    last = n_keys - 1
    half = 1 << last
    for first in range(0, n, low.shape[1]):
        width = min(low.shape[1], n - first)
        for k in range(width):
            low[0, k] = weights[first + k]
        for j in range(last):
            factor = theta[j, first : first + width]
            for s in range(1 << j):
                one, out = low[s, :width], low[(1 << j) + s, :width]
                for k in range(width):
                    out[k] = one[k] * factor[k]
        # By each product, and by the mean of the last key.
        factor = theta[last, first : first + width]
        mass = room.mass[last, first : first + width]
        for k in range(width):
            mass[k] = 0.0
        for s in range(half):
            one, out = low[s, :width], above[s, :width]
            without, with_last = slope[s], slope[half + s]
            for k in range(width):
                out[k] = without + with_last * factor[k]
            for k in range(width):
                mass[k] += with_last * one[k]
        # A product of the subset with key j is that of the subset without it, times theta_j.
        for back in range(1, n_keys):
            j = last - back
            factor = theta[j, first : first + width]
            mass = room.mass[j, first : first + width]
            for k in range(width):
                mass[k] = 0.0
            for s in range(1 << j):
                one, out, by = low[s, :width], above[s, :width], above[(1 << j) + s, :width]
                for k in range(width):
                    mass[k] += by[k] * one[k]
                for k in range(width):
                    out[k] += by[k] * factor[k]
