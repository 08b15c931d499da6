"""Probabilities of a household and of those that differ from it in one key, given all others.

The nested mixture with the profiles integrated out, and of the household itself its class and that
of the member that differs. Members of one class and role share a profile, so that their classes
cannot be summed over one by one. In place of the sum, member j has a class m_j(g) in every
household class g: the household's own class has those of the state, any other draws them from

    q_g(m_j) ~ omega_gm prod_k phi_gmk(x_jk),        T_g(j) the sum over m,

phi the means given all other households. With them as part of what is known, x and any t that
differs in member j have the probabilities

    sum_g pi_g prod_k lam_gk(x_k) prod_{i != j} T_g(i) R_g(j) sum_m omega_gm prod_k phi'_gmk(t_jk),

lam the means given all other households, phi' those given the other members m_i(g) of this one too,
and R_g(j) the joint probability of these members' keys given their classes, over the product of
their single ones: 1 where no two share a class and role. See docs/design/attacks.md.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import GENERATOR_SIZE, PURPOSE_NEIGHBOURS, draw_one, seek


class Known(NamedTuple):
    """Counts and weights of a state, the counts of all households, x among them."""

    pi: npt.NDArray[np.float64]
    """(n_classes,)"""
    omega: npt.NDArray[np.float64]
    """(n_classes, n_kinds)"""
    profile: npt.NDArray[np.float64]
    """(n_household_rows,)"""
    member_profile: npt.NDArray[np.float64]
    """(n_person_rows,)"""
    counts: npt.NDArray[np.int64]
    """(n_classes, n_household_rows)"""
    member_counts: npt.NDArray[np.int64]
    """(n_classes * n_kinds, n_person_rows)"""
    offsets: npt.NDArray[np.int64]
    """(n_household_keys + 1,): first row of each household key."""
    first_rows: npt.NDArray[np.int64]
    """(n_keys, n_roles): first row of each key of members, without the key that holds the role."""
    n_levels: npt.NDArray[np.int64]
    """(n_keys,)"""


class Targets(NamedTuple):
    """The households x."""

    rows: npt.NDArray[np.int64]
    """(n, n_household_keys): rows of the household keys."""
    members: npt.NDArray[np.int64]
    """(n, n_slots, n_keys): rows of the members' keys."""
    role: npt.NDArray[np.int64]
    """(n, n_slots)"""
    n_members: npt.NDArray[np.int64]
    """(n,)"""


@kernel
def fill_shares(known, share):
    """Fill share (n_classes * n_kinds, n_person_rows) with the means of the profiles."""
    for c in range(share.shape[0]):
        for k in range(known.first_rows.shape[0]):
            for r in range(known.first_rows.shape[1]):
                _fill_block(known, c, k, r, share)


@device
def _fill_block(known, c, k, r, share):
    first = known.first_rows[k, r]
    end = first + known.n_levels[k]
    total = 0.0
    for row in range(first, end):
        share[c, row] = known.member_counts[c, row] + known.member_profile[row]
        total += share[c, row]
    for row in range(first, end):
        share[c, row] /= total


@device
def _move(known, c, rows, role, sign, share):
    """Add a member to the counts of component c, or take it off; keep the shares up to date."""
    for k in range(rows.shape[0]):
        known.member_counts[c, rows[k]] += sign
        _fill_block(known, c, k, role, share)


@device
def _product(share, c, rows):
    p = 1.0
    for k in range(rows.shape[0]):
        p *= share[c, rows[k]]
    return p


@kernel
def draw_kinds(key, sweep, targets, g, known, share, kinds, scale):
    """Draw the members' classes in every household class but the household's own.

    g (n,): own class; share: see `fill_shares`; into kinds (n, n_classes, n_slots) int64, which
    holds the members' classes in the own class already, and scale (n, n_slots): the largest T_g(j).
    """
    n_classes, n_kinds = known.omega.shape
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    mass = np.empty(n_kinds)
    for i in range(targets.rows.shape[0]):
        seek(generator, key, i, sweep, PURPOSE_NEIGHBOURS)
        scale[i] = 0.0
        for c in range(n_classes):
            for j in range(targets.n_members[i]):
                total = 0.0
                for m in range(n_kinds):
                    p = _product(share, c * n_kinds + m, targets.members[i, j])
                    mass[m] = known.omega[c, m] * p
                    total += mass[m]
                scale[i, j] = max(scale[i, j], total)
                if c != g[i]:
                    kinds[i, c, j] = draw_one(generator, mass, total)


@device
def _list_kinds(omega, of_members, occupied, listed, weight):
    """List the classes of members that differ, with their weights, and return how many.

    All that have nobody in them, and get nobody of this household, have the same profiles: the
    last one stands for them.
    """
    n = 0
    rest, empty = 0.0, -1
    for m in range(omega.shape[0]):
        differs = occupied[m]
        for j in range(of_members.shape[0]):
            differs = differs or of_members[j] == m
        if differs:
            listed[n], weight[n] = m, omega[m]
            n += 1
        else:
            rest, empty = rest + omega[m], m
    if empty >= 0:
        listed[n], weight[n] = empty, rest
        n += 1
    return n


@kernel
def household_ratios(targets, g, kinds, scale, known, share, ratio, log_own):
    """Find p(t | others) / p(x | others) for each x and each t that differs in one key.

    g, kinds, scale: see `draw_kinds`; share: see `fill_shares`, changed and restored. Into ratio
    (n, 1 + n_household_rows + n_slots * n_own): 1 for x itself; then for each row of the household
    keys, and for each slot and level of the members' keys one after the other (n_own in all), the
    household with this value in place of its own. Composition and roles stay, and their rows are
    left 0. Into log_own (n,): log p(x | others).
    """
    n_classes, n_kinds = known.omega.shape
    n_household_keys = targets.rows.shape[1]
    n_slots, n_keys = targets.members.shape[1:]
    n_rows = known.counts.shape[1]
    n_own = known.n_levels.sum()
    law = np.empty(n_rows)
    lam = np.empty(n_rows)
    member_law = np.empty((n_slots, n_own))
    own = np.empty(n_slots)
    table = np.empty(n_slots)
    alone = np.empty(n_slots)
    occupied = np.empty(n_classes * n_kinds, np.bool_)
    for c in range(n_classes * n_kinds):
        occupied[c] = known.member_counts[c].any()
    listed, omega = np.empty(n_kinds, np.int64), np.empty(n_kinds)
    for i in range(targets.rows.shape[0]):
        rows = targets.rows[i]
        members = targets.members[i]
        role = targets.role[i]
        n_members = targets.n_members[i]
        law[:] = 0.0
        member_law[:] = 0.0
        own[:] = 0.0
        household_own = 0.0
        for c in range(n_classes):
            start = c * n_kinds
            mine = c == g[i]
            n_listed = _list_kinds(
                known.omega[c], kinds[i, c, :n_members], occupied[start:], listed, omega
            )
            if mine:
                for j in range(n_members):
                    _move(known, start + kinds[i, c, j], members[j], role[j], -1, share)
            # The household keys given all other households.
            house = known.pi[c]
            for k in range(n_household_keys):
                total = 0.0
                for row in range(known.offsets[k], known.offsets[k + 1]):
                    lam[row] = known.counts[c, row] + known.profile[row]
                    if mine and row == rows[k]:
                        lam[row] = known.counts[c, row] - 1 + known.profile[row]
                    total += lam[row]
                for row in range(known.offsets[k], known.offsets[k + 1]):
                    lam[row] /= total
                house *= lam[rows[k]]
            for j in range(n_members):
                table[j] = 0.0
                for a in range(n_listed):
                    p = _product(share, start + listed[a], members[j])
                    table[j] += omega[a] * p
                    if listed[a] == kinds[i, c, j]:
                        alone[j] = p
                table[j] /= scale[i, j]
            together = 1.0
            for j in range(n_members):
                p = _product(share, start + kinds[i, c, j], members[j])
                together *= p / alone[j]
                _move(known, start + kinds[i, c, j], members[j], role[j], 1, share)
            weight = house * together
            for j in range(n_members):
                weight *= table[j]
            household_own += weight
            for k in range(1, n_household_keys):
                unit = weight / lam[rows[k]]
                for row in range(known.offsets[k], known.offsets[k + 1]):
                    law[row] += unit * lam[row]
            for j in range(n_members):
                one = start + kinds[i, c, j]
                _move(known, one, members[j], role[j], -1, share)
                weight = house * together * alone[j] / _product(share, one, members[j])
                for other in range(n_members):
                    if other != j:
                        weight *= table[other]
                for a in range(n_listed):
                    m = start + listed[a]
                    p = weight * omega[a] * _product(share, m, members[j])
                    own[j] += p
                    at = 0
                    for k in range(n_keys):
                        first = known.first_rows[k, role[j]]
                        unit = p / share[m, members[j, k]]
                        for level in range(known.n_levels[k]):
                            member_law[j, at + level] += unit * share[m, first + level]
                        at += known.n_levels[k]
                _move(known, one, members[j], role[j], 1, share)
            if not mine:
                for j in range(n_members):
                    _move(known, start + kinds[i, c, j], members[j], role[j], -1, share)
        ratio[i] = 0.0
        ratio[i, 0] = 1.0
        for row in range(known.offsets[1], n_rows):
            ratio[i, 1 + row] = law[row] / household_own
        log_own[i] = np.log(household_own)
        for j in range(n_members):
            log_own[i] += np.log(scale[i, j])
            first = 1 + n_rows + j * n_own
            for at in range(n_own):
                ratio[i, first + at] = member_law[j, at] / own[j]
