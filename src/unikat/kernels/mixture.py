"""Kernels of the mixed-membership sampler on records: which component each token comes from.

Symbols (models.md §2): token = one known key of one record; z = its component; row r = (key,
level); theta[r, k] = P(level | key, component k); g0[k] = component weight; alpha = concentration
of a record's own weights around g0. Records are independent given (g0, theta, alpha), so any cut
of them into parts gives the same numbers.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel, leaf
from unikat.kernels.latent_class import pick, sum_groups
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_ASSIGN,
    PURPOSE_MOVES,
    philox,
    seek,
    uniform,
)

_INV32 = 1.0 / 4294967296.0
_INV53 = 1.0 / 9007199254740992.0


class Records(NamedTuple):
    """Records as rows of theta; those of one cell share its rows."""

    rows: npt.NDArray[np.int32]
    """(n_cells, n_keys): row of theta of each known key, -1 where missing."""
    record_cell: npt.NDArray[np.int32]
    """(n_records,)"""
    offsets: npt.NDArray[np.int64]
    """(n_keys + 1,): first row of each key."""


class Given(NamedTuple):
    """Concentration, weights and profiles, given which components are drawn."""

    alpha: npt.NDArray[np.float64]
    """(1,) shared, or (n_records,)."""
    weights: npt.NDArray[np.float64]
    """(n_components,): g0."""
    rising: npt.NDArray[np.float64]
    """(n_keys + 1, n_components): prod_{l < size} (alpha g0_s + l); no rows without a
    shared alpha."""
    theta: npt.NDArray[np.float32]
    """(n_rows, n_components)"""


class BaseTables(NamedTuple):
    """Alias tables of the base part of every row, from `weights.base_tables`."""

    base: npt.NDArray[np.float32]
    """(n_rows,): sum_k g0_k theta_rk."""
    cut: npt.NDArray[np.float32]
    """(n_rows, n_components)"""
    alias: npt.NDArray[np.int16]
    """(n_rows, n_components)"""


class Tally(NamedTuple):
    """Tokens by component."""

    counts: npt.NDArray[np.int32]
    """(n_rows, n_components)"""
    stacks: npt.NDArray[np.int64]
    """(n_keys, n_components): stacks[l, k] tokens are the (l+1)-th of k in their record."""


@kernel
def count(first, last, rows, record_cell, z, counts, stacks):
    """Add the tokens of records [first, last) to `counts` and `stacks` (see `Tally`)."""
    n_keys = rows.shape[1]
    for i in range(first, last):
        c = record_cell[i]
        for j in range(n_keys):
            if rows[c, j] >= 0:
                k = z[i, j]
                counts[rows[c, j], k] += 1
                before = 0
                for l in range(j):
                    before += int(z[i, l] == k)
                stacks[before, k] += 1


@device
def block_mass(rows, c, z, i, k, size, alpha, rising, weights, theta, mass, group):
    """Weights of moving the block `k` of record `i` to each component, into mass (n_components,).

    prod_{l < size} (alpha g0_s + l) prod_{j in block} theta[r_j, s], zero where another block of
    the record sits. `rising`: see `Given`. group (8,) gets the sums over every eighth component;
    returns the total.
    """
    n_components = mass.shape[0]
    n_keys = rows.shape[1]
    if rising.shape[0] > 0:
        for s in range(n_components):
            mass[s] = rising[size, s]
    else:
        for s in range(n_components):
            mass[s] = alpha * weights[s]
        for l in range(1, size):
            for s in range(n_components):
                mass[s] *= alpha * weights[s] + l
    for j in range(n_keys):
        if z[i, j] == k:
            r = rows[c, j]
            for s in range(n_components):
                mass[s] *= theta[r, s]
    for j in range(n_keys):
        if z[i, j] >= 0 and z[i, j] != k:
            mass[z[i, j]] = 0.0
    return sum_groups(mass, group)


@leaf
def first_mover(n_tok, token_row, k, mark, concentration, theta, base):
    """Which is the first token that does not copy, where all have component k; n_tok for none.

    mark: uniform; the chance that the tokens up to t all copy is one product.
    """
    survival = 1.0
    mover = n_tok
    for t in range(n_tok):
        r = token_row[t]
        copies = float(n_tok - 1) * float(theta[r, k])
        survival *= copies / (copies + concentration * base[r])
        mover = min(mover, t + n_tok * int(survival > mark))
    return mover


@leaf
def redraw(
    i, sweep, k0, k1, mover, n_tok, token_row, component,
    bits, cumulative, concentration, theta, base, cut, alias,
):  # fmt: skip
    """Redraw the components of a record's tokens one by one, in place in `component`.

    i, sweep, k0, k1: uint64; mover: the first token, that does not copy; -1: all tokens, which may
    copy. bits (n_keys rounded up to 4s,) uint64 and cumulative (n_keys,) float32 are scratch.
    """
    n_components = theta.shape[1]
    for b in range((n_tok + 3) // 4):
        w0, w1, w2, w3 = philox(np.uint64(b + 1), i, sweep, np.uint64(PURPOSE_ASSIGN), k0, k1)
        bits[4 * b] = w0
        bits[4 * b + 1] = w1
        bits[4 * b + 2] = w2
        bits[4 * b + 3] = w3
    for t in range(max(mover, 0), n_tok):
        r = token_row[t]
        fresh = concentration * base[r]
        total = np.float32(fresh)
        for l in range(t):
            total += theta[r, component[l]]
            cumulative[l] = total
        for l in range(t + 1, n_tok):
            total += theta[r, component[l]]
            cumulative[l - 1] = total
        # 32 bits serve both choices; float64 keeps what is left for the alias table.
        fraction = float(bits[t]) * _INV32
        place = fraction * float(total)
        if place < fresh or t == mover:
            share = fraction if t == mover else min(place / fresh, 1.0)
            position = share * n_components
            k = np.int64(min(int(position), n_components - 1))
            if position - k >= cut[r, k]:
                k = np.int64(alias[r, k])
        else:
            at = np.float32(place)
            l = 0
            for m in range(n_tok - 2):
                l += int(cumulative[m] <= at)
            l += int(l >= t)
            k = component[l]
        component[t] = k


@kernel
def assign(key, sweep, first, last, records, z, given, base_tables, tally):
    """Redraw the components of the tokens of records [first, last), in place in `z`.

    records: Records; z (n, n_keys) int16, -1 where missing; given: Given; base_tables: BaseTables.
    Adds to tally: Tally.

    Two Gibbs steps for each record. Blocks: all tokens that share a component move as one to a
    component the record does not otherwise have; token by token such a move passes through states
    of probability about alpha, so for small alpha it would never happen. Tokens: the conditional
    (n_ik^-ij + alpha g0_k) theta_rk either copies one of the record's other tokens (weight
    theta[r, z_l]) or draws from the base part. While all tokens share a component, the
    chance that all are copied is one product: most records need one uniform for all their tokens.
    """
    rows, record_cell, _offsets = records
    alpha, weights, rising, theta = given
    base, cut, alias = base_tables
    counts, stacks = tally
    n_keys = rows.shape[1]
    n_components = theta.shape[1]
    k0 = np.uint64(key[0])
    k1 = np.uint64(key[1])
    shared = alpha.shape[0] == 1
    concentration = alpha[0]
    cumulative = np.empty(n_keys, np.float32)
    bits = np.empty((n_keys + 3) // 4 * 4, np.uint64)
    token_row = np.empty(n_keys, np.int64)
    token_key = np.empty(n_keys, np.int64)
    component = np.empty(n_keys, np.int64)
    occupancy = np.zeros(n_components, np.int64)
    mass = np.empty(n_components)
    group = np.empty(8)
    cell_mass = np.empty(n_components)
    cell_group = np.empty(8)
    cell_total = 0.0
    cell_ready = False
    cell_count = np.zeros(n_components, np.int64)
    touched = np.empty(n_components, np.int64)
    n_touched = 0
    n_tok = 0
    previous = -1
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(first, last):
        c = record_cell[i]
        if c != previous:
            previous = c
            cell_ready = False
            n_tok = 0
            for j in range(n_keys):
                if rows[c, j] >= 0:
                    token_row[n_tok] = rows[c, j]
                    token_key[n_tok] = j
                    n_tok += 1
        if n_tok == 0:
            continue
        if not shared:
            concentration = alpha[i]
        k = np.int64(z[i, token_key[0]])
        together = True
        for t in range(1, n_tok):
            together = together and z[i, token_key[t]] == k
        w0, w1, w2, _ = philox(
            np.uint64(0), np.uint64(i), np.uint64(sweep), np.uint64(PURPOSE_ASSIGN), k0, k1
        )
        # Blocks.
        if together:
            point = (float(w0 >> np.uint64(6)) * 134217728.0 + float(w1 >> np.uint64(5))) * _INV53
            if shared:
                if not cell_ready:
                    cell_total = block_mass(
                        rows,
                        c,
                        z,
                        i,
                        k,
                        n_tok,
                        concentration,
                        rising,
                        weights,
                        theta,
                        cell_mass,
                        cell_group,
                    )
                    cell_ready = True
                k = pick(cell_mass, cell_group, point * cell_total)
            else:
                total_mass = block_mass(
                    rows, c, z, i, k, n_tok, concentration, rising, weights, theta, mass, group
                )
                k = pick(mass, group, point * total_mass)
            for t in range(n_tok):
                component[t] = k
                z[i, token_key[t]] = k
            mover = first_mover(n_tok, token_row, k, float(w2) * _INV32, concentration, theta, base)
        else:
            seek(generator, key, i, sweep, PURPOSE_MOVES)
            for t in range(n_tok):
                k = np.int64(z[i, token_key[t]])
                seen = False
                for l in range(t):
                    seen = seen or z[i, token_key[l]] == k
                if seen:
                    continue
                size = 0
                for l in range(t, n_tok):
                    size += int(z[i, token_key[l]] == k)
                total_mass = block_mass(
                    rows, c, z, i, k, size, concentration, rising, weights, theta, mass, group
                )
                chosen = pick(mass, group, uniform(generator) * total_mass)
                for l in range(t, n_tok):
                    if z[i, token_key[l]] == k:
                        z[i, token_key[l]] = chosen
            for t in range(n_tok):
                component[t] = z[i, token_key[t]]
            mover = -1
        if mover < n_tok:
            redraw(
                np.uint64(i), np.uint64(sweep), k0, k1, mover, n_tok, token_row, component,
                bits, cumulative, concentration, theta, base, cut, alias,
            )  # fmt: skip
            for t in range(n_tok):
                k = component[t]
                z[i, token_key[t]] = k
                counts[token_row[t], k] += 1
                stacks[occupancy[k], k] += 1
                occupancy[k] += 1
            for t in range(n_tok):
                occupancy[component[t]] = 0
        else:
            if cell_count[k] == 0:
                touched[n_touched] = k
                n_touched += 1
            cell_count[k] += 1
        if i == last - 1 or record_cell[i + 1] != c:
            for a in range(n_touched):
                k = touched[a]
                for t in range(n_tok):
                    counts[token_row[t], k] += cell_count[k]
                    stacks[t, k] += cell_count[k]
                cell_count[k] = 0
            n_touched = 0


@kernel
def impute(key, sweep, purpose, rows, z, alpha, weights, theta, offsets, start=0):
    """Draw the missing keys of records into `rows` (n, n_keys), and their components into `z`.

    A new token copies the component of one of the record's tokens, or draws from g0 with weight
    alpha; then its level comes from that component's profile. Records are numbered from `start`.
    """
    n, n_keys = rows.shape
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    for i in range(n):
        seek(generator, key, start + i, sweep, purpose)
        concentration = alpha[0] if alpha.shape[0] == 1 else alpha[i]
        n_tok = 0
        for j in range(n_keys):
            n_tok += int(z[i, j] >= 0)
        for j in range(n_keys):
            if rows[i, j] >= 0:
                continue
            mark = uniform(generator) * (n_tok + concentration)
            chosen = -1
            if mark < n_tok:
                for l in range(n_keys):
                    if z[i, l] >= 0:
                        chosen = z[i, l]
                        mark -= 1.0
                        if mark < 0.0:
                            break
            else:
                mark = uniform(generator)
                for k in range(weights.shape[0]):
                    if weights[k] > 0.0:
                        chosen = k
                        mark -= weights[k]
                        if mark < 0.0:
                            break
            z[i, j] = chosen
            n_tok += 1
            mark = uniform(generator)
            row = offsets[j]
            while row < offsets[j + 1] - 1:
                mark -= theta[row, chosen]
                if mark < 0.0:
                    break
                row += 1
            rows[i, j] = row
