"""Kernels of the nested mixture of households.

Symbols: g = household class, m = person class within it; pi (n_classes,) and omega (n_classes,
n_kinds) the weights; lam (n_household_rows, n_classes) and phi (n_person_rows, n_classes * n_kinds)
the profiles, of component g * n_kinds + m. A household's class is drawn with its members' classes
summed out,

    P(G = g | .) ~ pi_g prod_k lam_gk prod_j T[person j, g],
    T[p, g] = sum_m omega_gm prod_k phi_gmk(x_pk),

where the table T over the distinct persons is computed once in a sweep.

Where keys are tied to the head's (`nested_ties`), phi has rows more: of each level of a member
together with the level of the head.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.latent_class import descend
from unikat.kernels.random import (
    GENERATOR_SIZE,
    PURPOSE_ALLOCATE,
    PURPOSE_MEMBERS,
    draw_one,
    gamma,
    locate,
    log_beta_variate,
    log_gamma_variate,
    next_bits,
    seek,
    uniform,
)

_INV32 = 1.0 / 4294967296.0


class Households(NamedTuple):
    """Distinct households: rows of lam, and members by the distinct person that each of them is."""

    rows: npt.NDArray[np.int32]
    """(n_cells, n_household_keys): row of lam of each known key, -1 where missing; sorted."""
    starts: npt.NDArray[np.int64]
    """(n_cells + 1,): first record of each cell."""
    member_starts: npt.NDArray[np.int64]
    """(n_cells + 1,): first entry of each cell in `person`."""
    person: npt.NDArray[np.int32]
    """(n_entries,): the distinct persons of each cell."""
    times: npt.NDArray[np.int64]
    """(n_entries,): members of the household that are this person."""
    token_starts: npt.NDArray[np.int64]
    """(n_cells + 1,): first member of the records of each cell, member by member."""
    persons: npt.NDArray[np.int32]
    """(n_persons, n_person_keys): row of phi of each known key of each distinct person; sorted."""


class Weights(NamedTuple):
    """Parameters of the nested mixture."""

    pi: npt.NDArray[np.float64]
    omega: npt.NDArray[np.float64]
    lam: npt.NDArray[np.float32]
    phi: npt.NDArray[np.float32]
    ties: npt.NDArray[np.float64] = np.empty((3, 0))
    """(3, n_places): the table of ties, see `nested_ties`."""


class Tally(NamedTuple):
    """Counts of households and members by class."""

    sizes: npt.NDArray[np.int64]
    """(n_classes,)"""
    member_sizes: npt.NDArray[np.int64]
    """(n_classes, n_kinds)"""
    counts: npt.NDArray[np.int64]
    """(n_household_rows, n_classes)"""
    member_counts: npt.NDArray[np.int64]
    """(n_person_rows, n_classes * n_kinds)"""
    ties: npt.NDArray[np.int64] = np.empty((4, 0), np.int64)
    """(4, n_places), see `nested_ties`."""


class Drawn(NamedTuple):
    """Classes of records and of their members."""

    g: npt.NDArray[np.int16]
    """(n_records,)"""
    m: npt.NDArray[np.int16]
    """(n_members,): cell by cell, record by record, person by person."""
    own_rows: npt.NDArray[np.int32] = np.empty((0, 0), np.int32)
    """(n_members, n_person_keys): rows of phi of the members' own draws; (0, 0) without ties."""


@kernel
def person_table(first, last, persons, omega, phi, table):
    """Fill rows [first, last) of T, table (n_persons, n_classes).

    persons (n_persons, n_person_keys), sorted so that neighbours share their first keys; omega
    (1, n_kinds * n_classes) and phi (n_person_rows, n_kinds * n_classes), of component
    m * n_classes + g: classes are the inner index, over which this vectorises.
    """
    n_keys = persons.shape[1]
    n_classes = table.shape[1]
    n_kinds = omega.shape[1] // n_classes
    product = np.empty((n_keys + 1, omega.shape[1]))
    product[0] = omega[0]
    for i in range(first, last):
        descend(persons, i, first, phi, product)
        for g in range(n_classes):
            table[i, g] = product[n_keys, g]
        for m in range(1, n_kinds):
            start = m * n_classes
            for g in range(n_classes):
                table[i, g] += product[n_keys, start + g]


@device
def class_masses(product, first, last, person, times, table, mass):
    """Fill `mass` (n_classes,) with the shares of the classes for a household; return their sum.

    product (n_classes,): pi_g prod_k lam_gk; person and times [first, last): its members.
    """
    n_classes = mass.shape[0]
    for g in range(n_classes):
        mass[g] = product[g]
    for e in range(first, last):
        p = person[e]
        for _ in range(times[e]):
            for g in range(n_classes):
                mass[g] *= table[p, g]
    total = 0.0
    for g in range(n_classes):
        total += mass[g]
    if total > 1e-250:
        return total
    # Many members with rare keys: once more on the log scale.
    largest = -np.inf
    for g in range(n_classes):
        value = math.log(max(product[g], 1e-300))
        for e in range(first, last):
            value += times[e] * math.log(max(table[person[e], g], 1e-300))
        mass[g] = value
        largest = max(largest, value)
    return from_logs(mass, largest)


@device
def from_logs(mass, largest):
    """Turn logarithms into shares of the largest one, in place; return their sum."""
    total = 0.0
    for k in range(mass.shape[0]):
        mass[k] = math.exp(mass[k] - largest)
        total += mass[k]
    return total


@device
def kind_masses(rows, g, omega, phi, mass):
    """Fill `mass` (n_kinds,) with the shares of the person classes in class g; return their sum.

    rows (n_person_keys,): rows of phi, -1 where missing.
    """
    n_kinds = mass.shape[0]
    start = g * n_kinds
    for m in range(n_kinds):
        mass[m] = omega[g, m]
    for k in range(rows.shape[0]):
        r = rows[k]
        if r >= 0:
            for m in range(n_kinds):
                mass[m] *= phi[r, start + m]
    total = 0.0
    for m in range(n_kinds):
        total += mass[m]
    if total > 1e-280:
        return total
    # All but impossible in this class: only rounding gets here.
    total = 0.0
    for m in range(n_kinds):
        mass[m] = omega[g, m]
        total += mass[m]
    return total


@kernel
def allocate(key, sweep, first, last, households, weights, table, drawn, tally):
    """Draw the classes of the records of the cells [first, last), and those of their members.

    households: Households; weights: Weights; table (n_persons, n_classes): T; into drawn: Drawn.
    Adds to tally: Tally.
    """
    rows, starts, member_starts, person, times, token_starts, persons = households
    pi, omega, lam, phi, _ties = weights
    sizes, member_sizes, counts, member_counts, _tie_counts = tally
    n_keys = rows.shape[1]
    n_person_keys = persons.shape[1]
    n_classes, n_kinds = omega.shape
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    product = np.empty((n_keys + 1, n_classes))
    product[0] = pi
    mass = np.empty(n_classes)
    kinds = np.empty(n_kinds)
    for i in range(first, last):
        descend(rows, i, first, lam, product)
        begin, end = member_starts[i], member_starts[i + 1]
        total = class_masses(product[n_keys], begin, end, person, times, table, mass)
        n_members = 0
        for e in range(begin, end):
            n_members += times[e]
        seek(generator, key, i, sweep, PURPOSE_ALLOCATE)
        last_g = -1
        kind_total = 0.0
        for record in range(starts[i], starts[i + 1]):
            g = draw_one(generator, mass, total)
            drawn.g[record] = g
            sizes[g] += 1
            for k in range(n_keys):
                if rows[i, k] >= 0:
                    counts[rows[i, k], g] += 1
            place = token_starts[i] + (record - starts[i]) * n_members
            for e in range(begin, end):
                p = person[e]
                if end - begin > 1 or g != last_g:
                    kind_total = kind_masses(persons[p], g, omega, phi, kinds)
                for _ in range(times[e]):
                    m = locate(kinds, float(next_bits(generator)) * _INV32 * kind_total)
                    drawn.m[place] = m
                    place += 1
                    member_sizes[g, m] += 1
                    for k in range(n_person_keys):
                        if persons[p, k] >= 0:
                            member_counts[persons[p, k], g * n_kinds + m] += 1
            last_g = g


@kernel
def count(households, drawn, tally):
    """Add all records to the tally, given their classes."""
    rows, starts, member_starts, person, times, token_starts, persons = households
    sizes, member_sizes, counts, member_counts, _tie_counts = tally
    n_kinds = member_sizes.shape[1]
    for i in range(rows.shape[0]):
        place = token_starts[i]
        for record in range(starts[i], starts[i + 1]):
            g = drawn.g[record]
            sizes[g] += 1
            for k in range(rows.shape[1]):
                if rows[i, k] >= 0:
                    counts[rows[i, k], g] += 1
            for e in range(member_starts[i], member_starts[i + 1]):
                for _ in range(times[e]):
                    m = drawn.m[place]
                    place += 1
                    member_sizes[g, m] += 1
                    for k in range(persons.shape[1]):
                        if persons[person[e], k] >= 0:
                            member_counts[persons[person[e], k], g * n_kinds + m] += 1


@kernel
def draw_member_weights(key, sweep, beta, shape, rate, common, member_sizes, omega, remainder):
    """Draw the concentration of the person classes' weights, and the weights given their sizes.

    beta | sizes: Escobar & West (1995); common to all household classes, Teh et al. (2006), eq.
    A.6, or of each its own. Then omega_g ~ Dirichlet(sizes of occupied person classes, beta); the
    rest is broken by Beta(1, beta) sticks over the empty ones, the last of which takes what is
    left. beta (1,) if `common`, else (n_classes,): drawn in place; into omega (n_classes, n_kinds)
    and remainder (n_classes,): what is given to the last stick.
    """
    n_classes, n_kinds = member_sizes.shape
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    if common:
        seek(generator, key, 0, sweep, PURPOSE_MEMBERS)
        value = shape
        spread = rate
        for g in range(n_classes):
            total = 0
            for m in range(n_kinds):
                total += member_sizes[g, m]
                value += int(member_sizes[g, m] > 0)
            if total > 0:
                spread -= log_beta_variate(generator, beta[0] + 1.0, float(total))
                value -= int(uniform(generator) * (beta[0] + total) < total)
        beta[0] = max(math.exp(log_gamma_variate(generator, value)) / spread, 1e-100)
    for g in range(n_classes):
        seek(generator, key, g + 1, sweep, PURPOSE_MEMBERS)
        total = 0
        occupied = 0
        for m in range(n_kinds):
            total += member_sizes[g, m]
            occupied += int(member_sizes[g, m] > 0)
        if not common:
            if total > 0:
                log_eta = log_beta_variate(generator, beta[g] + 1.0, float(total))
                odds = total * (rate - log_eta)
                less = int(uniform(generator) * (odds + occupied + shape - 1.0) < odds)
                drawn = math.exp(log_gamma_variate(generator, shape + occupied - less))
                beta[g] = max(drawn / (rate - log_eta), 1e-100)
            else:
                beta[g] = max(math.exp(log_gamma_variate(generator, shape)) / rate, 1e-100)
        concentration = beta[0] if common else beta[g]
        unseen = log_gamma_variate(generator, concentration)
        largest = unseen
        for m in range(n_kinds):
            if member_sizes[g, m] > 0:
                omega[g, m] = math.log(gamma(generator, float(member_sizes[g, m])))
                largest = max(largest, omega[g, m])
        scale = math.exp(unseen - largest)
        for m in range(n_kinds):
            if member_sizes[g, m] > 0:
                scale += math.exp(omega[g, m] - largest)
        left = math.exp(unseen - largest) / scale
        last = -1
        for m in range(n_kinds):
            if member_sizes[g, m] > 0:
                omega[g, m] = math.exp(omega[g, m] - largest) / scale
            else:
                kept = math.exp(math.log(uniform(generator)) / concentration)
                omega[g, m] = left * (1.0 - kept)
                left *= kept
                last = m
        if last >= 0:
            omega[g, last] += left
        remainder[g] = left


@kernel
def probabilities(households, pi, lam, table, out):
    """Sum over the classes of pi_g prod_k lam_gk prod_j T[j, g] for each cell, into out (n_cells,).

    Not yet the number of orders of the members.
    """
    rows, _starts, member_starts, person, times, _tokens, _persons = households
    n_keys = rows.shape[1]
    n_classes = pi.shape[0]
    product = np.empty((n_keys + 1, n_classes))
    mass = np.empty(n_classes)
    product[0] = pi
    for i in range(rows.shape[0]):
        descend(rows, i, 0, lam, product)
        for g in range(n_classes):
            mass[g] = product[n_keys, g]
        for e in range(member_starts[i], member_starts[i + 1]):
            for _ in range(times[e]):
                for g in range(n_classes):
                    mass[g] *= table[person[e], g]
        total = 0.0
        for g in range(n_classes):
            total += mass[g]
        out[i] = total


@device
def draw_listed(generator, profiles, component, levels, first, end):
    """Draw one of the rows levels[first:end] of a component's profile."""
    total = 0.0
    for t in range(first, end):
        total += profiles[levels[t], component]
    mark = uniform(generator) * total
    chosen = levels[first]
    for t in range(first, end):
        share = profiles[levels[t], component]
        if share > 0.0:
            chosen = levels[t]
            if mark < share:
                break
            mark -= share
    return chosen


@kernel
def group_sums(profiles, levels, starts, out):
    """Add the rows levels[starts[t]:starts[t + 1]] of profiles into row t of out, all 0 before."""
    for t in range(out.shape[0]):
        for place in range(starts[t], starts[t + 1]):
            for c in range(out.shape[1]):
                out[t, c] += profiles[levels[place], c]


@kernel
def draw_within(
    key,
    sweep,
    purpose,
    attempt,
    n_draws,
    households,
    table,
    coarse,
    weights,
    slots,
    house_groups,
    member_groups,
    starts,
    levels,
    rows,
    members,
):
    """Draw households of cells of groups: their classes, then levels within the groups.

    households: Households, cells of groups; table (n_persons, n_classes) and coarse: Weights, of
    groups; weights: those of levels; slots (n, n_slots, n_person_keys): rows of coarse.phi, -1
    where unknown; house_groups (n, n_household_keys) and member_groups (n, n_slots, n_person_keys):
    numbers of groups, -1 where no level is drawn. Group t has the rows levels[starts[t]:starts[t +
    1]] of lam or phi. Into rows (n * n_draws, n_household_keys) and members (n * n_draws, n_slots,
    n_person_keys): rows of lam and phi.
    """
    n_classes, n_kinds = coarse.omega.shape
    n_keys = households.rows.shape[1]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    product = np.empty((n_keys + 1, n_classes))
    product[0] = coarse.pi
    mass = np.empty(n_classes)
    kinds = np.empty(n_kinds)
    for i in range(slots.shape[0]):
        descend(households.rows, i, 0, coarse.lam, product)
        begin, end = households.member_starts[i], households.member_starts[i + 1]
        total = class_masses(
            product[n_keys], begin, end, households.person, households.times, table, mass
        )
        for draw in range(i * n_draws, (i + 1) * n_draws):
            seek(generator, key, draw, sweep, purpose)
            generator[0] = attempt << 16
            g = draw_one(generator, mass, total)
            for k in range(house_groups.shape[1]):
                t = house_groups[i, k]
                if t >= 0:
                    rows[draw, k] = draw_listed(
                        generator, weights.lam, g, levels, starts[t], starts[t + 1]
                    )
            for j in range(slots.shape[1]):
                component = -1
                for k in range(slots.shape[2]):
                    t = member_groups[i, j, k]
                    if t >= 0:
                        if component < 0:
                            whole = kind_masses(slots[i, j], g, coarse.omega, coarse.phi, kinds)
                            component = g * n_kinds + draw_one(generator, kinds, whole)
                        members[draw, j, k] = draw_listed(
                            generator, weights.phi, component, levels, starts[t], starts[t + 1]
                        )
