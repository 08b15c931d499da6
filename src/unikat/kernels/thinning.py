"""Probabilities of cells without some of the records that the state of a mixture was drawn from.

A state holds components z of tokens, weights w ~ Dirichlet(s + m_k, ..., alpha_0) and profiles
theta_jk ~ Dirichlet(phi_j + n_jk); m_k are the tables of component k. In latent classes a table is
a record, and all its tokens have one class; under mixed membership a record opens a table for each
of its components, and further ones at random (`weights.open_tables`). s is 1 where the number of
components is fixed, else 0. Had the records R not been there, with the same z and tables of all
others, w and theta would have the same laws with d_k tables and e_jyk tokens fewer. A gamma
variable of shape a + b, times a Beta(a, b), is one of shape a: so

    w'_k   proportional to  w_k Beta(s + m_k - d_k, d_k),     0 where s + m_k = d_k,
    theta'_jyk  proportional to  theta_jyk Beta(phi_jy + n_jyk - e_jyk, e_jyk)

are draws from these laws, and no refit is needed ("thinning"). Components without a table of R stay
as they are, but for the sum of the weights.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.cells import SeatingRoom, combine, extend, seated, sum_partitions
from unikat.kernels.jit import device, kernel
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_ORDER,
    PURPOSE_THIN,
    seek,
    uniform,
)

_LANES = 8
"""Cells whose partitions are summed together."""
_LOW = 5
"""Keys whose products are kept apart from those of the others."""


class Drawn(NamedTuple):
    """A state, and what it was drawn from."""

    rows: npt.NDArray[np.int32]
    """(n_records, n_keys): row of theta of each known key, -1 where missing."""
    z: npt.NDArray[np.int16]
    """(n_records, n_keys), or (n_records, 1) of whole records: components, -1 for none."""
    opens: npt.NDArray[np.bool_]
    """Whether each of these opened a table."""
    theta: npt.NDArray[np.float64]
    """(n_rows, n_components)"""
    weights: npt.NDArray[np.float64]
    """(n_components,)"""
    counts: npt.NDArray[np.int64]
    """(n_rows, n_components): tokens."""
    tables: npt.NDArray[np.int64]
    """(n_components,)"""
    share: float
    """s."""
    profile: npt.NDArray[np.float64]
    """(n_rows,): phi."""


class Asked(NamedTuple):
    """Cells whose probabilities are asked for."""

    rows: npt.NDArray[np.int64]
    """(n, n_keys): row of `joined` of each key, -1 for any level."""
    joined: npt.NDArray[np.float64]
    """(n_rows + n_sets, n_components): theta, and its sums over sets of levels."""
    starts: npt.NDArray[np.int64]
    """(n_sets + 1,): where the levels of each set begin."""
    levels: npt.NDArray[np.int64]
    """Rows of theta, set by set."""
    shares: npt.NDArray[np.float64]
    """Share of each of these in its set."""


class Room(NamedTuple):
    """Scratch of `leave_out`, and what it finds."""

    left: npt.NDArray[np.int64]
    """(n_components,), zero between calls."""
    tokens: npt.NDArray[np.int64]
    """(n_rows,), zero between calls."""
    mass: npt.NDArray[np.float64]
    """(n_components,): w', before they are made to add up to 1."""
    factor: npt.NDArray[np.float64]
    """(n_keys, n_components): theta' of what is asked for, 1 for any level."""


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
def share_of(asked, n_rows, r, y):
    """Share of level y in row r of `joined`: a level, or from n_rows on a set of levels."""
    if r < n_rows:
        return 1.0 if r == y else 0.0
    for i in range(asked.starts[r - n_rows], asked.starts[r - n_rows + 1]):
        if asked.levels[i] == y:
            return asked.shares[i]
    return 0.0


@device
def room_of(drawn):
    """Make the scratch of `leave_out`."""
    n_rows, n_components = drawn.theta.shape
    return Room(
        np.zeros(n_components, np.int64),
        np.zeros(n_rows, np.int64),
        np.empty(n_components),
        np.empty((drawn.rows.shape[1], n_components)),
    )


@device
def leave_out(generator, records, drawn, asked, a, room):
    """Leave records out of the state; return the sum of `room.mass`.

    What is drawn depends on the records alone, so that a cell and a union of cells that holds it
    have one draw.
    """
    n_keys = drawn.rows.shape[1]
    n_rows, n_components = drawn.theta.shape
    left, tokens, mass, factor = room
    mass[:] = drawn.weights
    for j in range(n_keys):
        factor[j, :] = 1.0
        if asked.rows[a, j] >= 0:
            factor[j, :] = asked.joined[asked.rows[a, j]]
    for i in records:
        for j in range(drawn.z.shape[1]):
            if drawn.opens[i, j]:
                left[drawn.z[i, j]] += 1
    rest = 1.0
    for k in range(n_components):
        if left[k] == 0:
            continue
        fewer, mass[k] = left[k], 0.0
        left[k] = 0
        stays = drawn.share + float(drawn.tables[k] - fewer)
        if stays <= 0.0:
            rest -= drawn.weights[k]
            continue
        mass[k] = drawn.weights[k] * beta_of(generator, stays, fewer)
        rest -= drawn.weights[k] - mass[k]
        for j in range(n_keys):
            column = min(j, drawn.z.shape[1] - 1)
            for i in records:
                y = drawn.rows[i, j]
                if drawn.z[i, column] == k and y >= 0:
                    tokens[y] += 1
            r = asked.rows[a, j]
            lost, lost_of_asked = 0.0, 0.0
            for i in records:
                y = drawn.rows[i, j]
                if drawn.z[i, column] != k or y < 0 or tokens[y] == 0:
                    continue
                alpha = drawn.profile[y] + float(drawn.counts[y, k] - tokens[y])
                gone = drawn.theta[y, k] * (1.0 - beta_of(generator, alpha, tokens[y]))
                tokens[y] = 0
                lost += gone
                if r >= 0:
                    lost_of_asked += gone * share_of(asked, n_rows, r, y)
            if r >= 0:
                share = max(asked.joined[r, k] - lost_of_asked, 0.0) / max(1.0 - lost, 1e-12)
                factor[j, k] = min(share, 1.0)
    return max(rest, 1e-12)


@kernel
def thin(key, sweep, companions, drawn, asked, part, p, of_part):
    """Replace p (n,) of cells that have companions by their probability without these.

    Of latent classes. companions: starts (n + 1,), records, and units (n,) of random numbers;
    drawn: Drawn; asked: Asked; part (n_keys,): keys of which alone that in of_part (n,) is; nothing
    if this is empty.
    """
    starts, records, unit = companions
    n_keys = drawn.rows.shape[1]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    room = room_of(drawn)
    for a in range(p.shape[0]):
        if starts[a] == starts[a + 1]:
            continue
        seek(generator, key, unit[a], sweep, PURPOSE_THIN)
        rest = leave_out(generator, records[starts[a] : starts[a + 1]], drawn, asked, a, room)
        total = 0.0
        for k in range(room.mass.shape[0]):
            product = room.mass[k]
            for j in range(n_keys):
                product *= room.factor[j, k]
            total += product
        p[a] = total / rest
        if not of_part.shape[0]:
            continue
        total = 0.0
        for k in range(room.mass.shape[0]):
            product = room.mass[k]
            for j in range(n_keys):
                if part[j]:
                    product *= room.factor[j, k]
            total += product
        of_part[a] = total / rest


@kernel
def thin_memberships(key, sweep, companions, drawn, asked, alpha, alpha_weight, p):
    """As `thin`, under mixed membership, exactly (see `cells.partition_probabilities`).

    alpha, alpha_weight (n_nodes,): values of the concentration of a new record, and their
    probabilities.
    """
    starts, records, unit = companions
    most = 0
    for a in range(p.shape[0]):
        most = max(most, int((asked.rows[a] >= 0).sum()))
    n_subsets = 1 << most
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    room = room_of(drawn)
    n_components = room.mass.shape[0]
    low = np.empty((n_components, 1 << min(most, _LOW)))
    high = np.empty((n_subsets // low.shape[1], n_components))
    joint = np.empty(n_subsets)
    block, partial = np.zeros((n_subsets, _LANES)), np.empty((n_subsets, _LANES))
    known, cell = np.zeros(_LANES, np.int64), np.zeros(_LANES, np.int64)
    factorial = np.ones(n_subsets)
    size = np.zeros(n_subsets, np.int64)
    for s in range(1, n_subsets):
        size[s] = size[s >> 1] + (s & 1)
        for l in range(1, size[s]):
            factorial[s] *= l
    n_lanes = 0
    for a in range(p.shape[0]):
        if starts[a] < starts[a + 1]:
            seek(generator, key, unit[a], sweep, PURPOSE_THIN)
            rest = leave_out(generator, records[starts[a] : starts[a + 1]], drawn, asked, a, room)
            n_known = join(room, rest, asked.rows[a], low, high, joint)
            for s in range(1, 1 << n_known):
                block[s, n_lanes] = joint[s] * factorial[s]
            block[1 << n_known :, n_lanes] = 0.0
            known[n_lanes], cell[n_lanes] = n_known, a
            p[a] = 0.0
            n_lanes += 1
        if n_lanes == _LANES or (n_lanes > 0 and a == p.shape[0] - 1):
            for node in range(alpha.shape[0]):
                # Only the whole set of keys needs the blocks that hold the last one.
                sum_partitions(block, known[:n_lanes].max() - 1, alpha[node], partial)
                for w in range(n_lanes):
                    chance = alpha_weight[node]
                    if known[w] > 0:
                        last, total = 1 << (known[w] - 1), 0.0
                        for s in range(last):
                            total += block[last + s, w] * partial[last - 1 - s, w]
                        chance *= total
                    for l in range(1, known[w]):
                        chance /= alpha[node] + l
                    p[cell[w]] += chance
            n_lanes = 0


@device
def join(room, rest, rows, low, high, joint):
    """joint[s] = sum_k w'_k prod_{j in s} theta'_jk for all sets s of known keys, 0 for none.

    A set is one of the first few keys and one of the others, so that products stay in the fastest
    memory. Returns the number of known keys.
    """
    low[:, 0] = 1.0
    high[0] = room.mass / rest
    n_known, width = 0, low.shape[1]
    for j in range(rows.shape[0]):
        if rows[j] < 0:
            continue
        bit = 1 << n_known
        if bit < width:
            extend(low, room.factor[j], bit)
        else:
            bit //= width
            for s in range(bit):
                high[bit + s] = high[s] * room.factor[j]
        n_known += 1
    n_subsets = 1 << n_known
    width = min(width, n_subsets)
    for s in range(n_subsets // width):
        combine(low, high[s], width, joint[s * width :])
    return n_known


@kernel
def thin_memberships_sequentially(
    key, sweep, companions, drawn, asked, alpha, alpha_weight, n_repeats, p
):
    """As `thin_memberships`, an unbiased estimate for any number of keys.

    n_repeats: see `cells.sequential_probabilities`.
    """
    starts, records, unit = companions
    n_keys = asked.rows.shape[1]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    room = room_of(drawn)
    weights = np.empty(room.mass.shape[0])
    token, base = np.empty(n_keys, np.int64), np.empty(n_keys)
    seats = SeatingRoom(np.empty(weights.shape[0]), np.empty(n_keys, np.int64), np.empty(n_keys))
    for a in range(p.shape[0]):
        if starts[a] == starts[a + 1]:
            continue
        seek(generator, key, unit[a], sweep, PURPOSE_THIN)
        rest = leave_out(generator, records[starts[a] : starts[a + 1]], drawn, asked, a, room)
        weights[:] = room.mass / rest
        n_tok = 0
        for j in range(n_keys):
            if asked.rows[a, j] >= 0:
                token[n_tok], base[j] = j, (room.factor[j] * weights).sum()
                n_tok += 1
        p[a] = 0.0
        for node in range(alpha.shape[0]):
            p[a] += alpha_weight[node] * seated(
                generator, token[:n_tok], room.factor, weights, base, alpha[node], n_repeats, seats
            )
