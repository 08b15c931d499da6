"""Kernels of the nested mixture of households: what is missing of them, drawn with their classes.

Symbols: as in `nested`.
"""

from __future__ import annotations

import math

import numpy as np

from unikat.kernels.jit import device, kernel
from unikat.kernels.nested import from_logs
from unikat.kernels.nested_roles import fill_roles
from unikat.kernels.nested_ties import (
    GIVEN,
    count_value,
    draw_instead,
    draw_origin,
    draw_tied,
    only_head,
    tied_share,
)
from unikat.kernels.random import GENERATOR_SIZE, draw_one, seek


@device
def draw_level(generator, profiles, component, first, end):
    """Draw a row [first, end) of a component's profile."""
    total = 0.0
    for r in range(first, end):
        total += profiles[r, component]
    return first + draw_one(generator, profiles[first:end, component], total)


@device
def fill_starts(members, j, head, role, ties, first_rows, n_levels, starts):
    """Fill where the rows of the table of ties of a member's keys start, -1 where untied.

    members (n_slots, n_person_keys): rows of phi, -1 where missing; j, head: slots of the member,
    and of the head, -1 if nobody is tied.
    """
    for k in range(members.shape[1]):
        starts[k] = -1
        if head >= 0 and j != head and ties.first[k, role] >= 0 and members[head, k] >= 0:
            level = members[head, k] - first_rows[k, ties.head]
            starts[k] = ties.first[k, role] + level * (n_levels[k] + 1)


@device
def fill_kinds(rows, starts, g, weights, lost, ties, mass):
    """Fill `mass` (n_kinds,) with the shares of the person classes in class g; return their sum.

    rows (n_person_keys,): rows of phi, -1 where missing; starts: see `fill_starts`.
    """
    total = 0.0
    for m in range(mass.shape[0]):
        component = g * mass.shape[0] + m
        mass[m] = weights.omega[g, m]
        for k in range(rows.shape[0]):
            if rows[k] >= 0 and starts[k] < 0:
                mass[m] *= weights.phi[rows[k], component]
            elif rows[k] >= 0:
                place = starts[k] + 1 + rows[k] - ties.base[starts[k] + 1]
                mass[m] *= tied_share(place, ties, weights.ties, weights.phi, lost, component)
        total += mass[m]
    return total


@kernel
def complete(
    key,
    sweep,
    purpose,
    attempt,
    which,
    roles,
    ties,
    weights,
    lost,
    offsets,
    first_rows,
    n_levels,
    n_members,
    rows,
    role_of,
    members,
    drawn_g,
    drawn_m,
    origins,
):
    """Draw what is missing of households, in place; with nothing known they are new ones.

    which (n,): number of each household, which addresses its random numbers together with
    `attempt`; roles: Roles; first_rows (n_person_keys, n_roles) and n_levels (n_person_keys,): the
    rows of phi; n_members (n,): -1 where the composition is missing, and all members with it; rows
    (n, n_household_keys): rows of lam, -1 where missing, the composition first; role_of (n,
    n_slots): role of each member; members (n, n_slots, n_person_keys): rows of phi, -1 where
    missing, and for the key that holds the role. Classes are drawn given what is known, then the
    missing keys given the classes. Slots beyond the size are left. Into drawn_g (n,) and drawn_m
    (n, n_slots): the classes; into origins (n, n_slots, n_person_keys, 3), or (0, 0, 0, 0) without
    ties: of all tied values, see `nested_ties.draw_origin`, -1 elsewhere. Where a tied value is
    known the head's is. lost: see `nested_ties`.
    """
    pi, omega, lam, phi, table = weights
    n_classes, n_kinds = omega.shape
    n_keys = rows.shape[1]
    n_person_keys = members.shape[2]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    mass = np.empty(n_classes)
    kinds = np.empty(n_kinds)
    starts = np.full(n_person_keys, -1, np.int64)
    scratch = np.empty(n_levels.max())
    for i in range(rows.shape[0]):
        seek(generator, key, which[i], sweep, purpose)
        generator[0] = attempt << 16
        head = only_head(role_of[i], n_members[i], ties.head)
        largest = -np.inf
        for g in range(n_classes):
            value = math.log(max(pi[g], 1e-300))
            for k in range(n_keys):
                if rows[i, k] >= 0:
                    value += math.log(max(lam[rows[i, k], g], 1e-300))
            for j in range(n_members[i]):
                known = False
                for k in range(n_person_keys):
                    known = known or members[i, j, k] >= 0
                if known:
                    fill_starts(
                        members[i], j, head, role_of[i, j], ties, first_rows, n_levels, starts
                    )
                    total = fill_kinds(members[i, j], starts, g, weights, lost, ties, kinds)
                    value += math.log(max(total, 1e-300))
            mass[g] = value
            largest = max(largest, value)
        g = draw_one(generator, mass, from_logs(mass, largest))
        drawn_g[i] = g
        for k in range(n_keys):
            if rows[i, k] < 0:
                rows[i, k] = draw_level(generator, lam, g, offsets[k], offsets[k + 1])
        if n_members[i] < 0:
            n_members[i] = fill_roles(generator, rows[i, 0] - offsets[0], roles, role_of[i])
            head = only_head(role_of[i], n_members[i], ties.head)
        for turn in range(n_members[i]):
            # The head comes first, since values of the others depend on the head's.
            j = turn if head < 0 or turn > head else (head if turn == 0 else turn - 1)
            fill_starts(members[i], j, head, role_of[i, j], ties, first_rows, n_levels, starts)
            total = fill_kinds(members[i, j], starts, g, weights, lost, ties, kinds)
            if total <= 1e-280:
                # All but impossible in this class: only rounding gets here.
                kinds[:] = omega[g]
                total = kinds.sum()
            m = draw_one(generator, kinds, total)
            drawn_m[i, j] = m
            c = g * n_kinds + m
            for k in range(n_person_keys):
                if k == roles.key:
                    continue
                first, start = first_rows[k, role_of[i, j]], starts[k]
                if start < 0:
                    if members[i, j, k] < 0:
                        members[i, j, k] = draw_level(generator, phi, c, first, first + n_levels[k])
                    continue
                if members[i, j, k] >= 0:
                    origins[i, j, k] = draw_origin(
                        generator, start + 1 + members[i, j, k] - first, n_levels[k], ties, table,
                        phi, lost, c, scratch,
                    )  # fmt: skip
                    continue
                level = draw_tied(generator, table[GIVEN], start, n_levels[k])
                if level >= 0:
                    origins[i, j, k, 0] = start + 1 + level
                else:
                    level = draw_level(generator, phi, c, first, first + n_levels[k]) - first
                    origins[i, j, k, 0] = start
                    origins[i, j, k, 1] = start + 1 + level
                    instead = draw_instead(generator, table, start, level, n_levels[k])
                    if instead >= 0:
                        level = instead
                        origins[i, j, k, 2] = start + 1 + level
                members[i, j, k] = first + level


@kernel
def count_completed(rows, members, drawn_g, drawn_m, origins, ties, which, tally):
    """Add the households of which `which` (n,) is true to the tally; see `complete`."""
    sizes, member_sizes, counts, member_counts, tie_counts = tally
    n_kinds = member_sizes.shape[1]
    for i in range(rows.shape[0]):
        if not which[i]:
            continue
        g = drawn_g[i]
        sizes[g] += 1
        for k in range(rows.shape[1]):
            counts[rows[i, k], g] += 1
        for j in range(members.shape[1]):
            m = drawn_m[i, j]
            if m >= 0:
                member_sizes[g, m] += 1
                for k in range(members.shape[2]):
                    row = members[i, j, k]
                    if origins.shape[0] > 0 and origins[i, j, k, 0] >= 0:
                        place, drawn, instead = origins[i, j, k]
                        count_value(place, drawn, instead, 1, tie_counts)
                        row = ties.base[drawn] if drawn >= 0 else -1
                    if row >= 0:
                        member_counts[row, g * n_kinds + m] += 1
