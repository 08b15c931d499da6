"""Kernels of the nested mixture of households: who lives in them, by role.

The first key of a household is its *composition*, how many of its members have each role. Where the
roles of a household are not known they are summed out,

    p = sum_r sum_g pi_g lam_g(composition of r) prod_t s_t! prod_k lam_gk prod_j T[j, r_j, g],

r running over the role vectors of the members, of which s_t have role t. The sum goes member by
member over the compositions of those before, the *states*: role vectors with the same composition
share all that follows.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from unikat.kernels.jit import device, kernel
from unikat.kernels.random import GENERATOR_SIZE, PURPOSE_ROLES, draw_one, seek


class Roles(NamedTuple):
    """The levels of the first key of households, by role; without roles all members have one."""

    key: int
    """The person key that holds the role; -1 if none, the composition being the size."""
    members: npt.NDArray[np.int64]
    """(n_listed, n_roles): members of each listed composition. A level more has all others."""
    sizes: npt.NDArray[np.float64]
    """(n_sizes,): law of the size of the others, but for those that are listed."""
    shares: npt.NDArray[np.float64]
    """(n_roles,): law of the role of each of their members, but for `once`."""
    listed: npt.NDArray[np.float64]
    """(n_listed,): probability of each listed composition under that law."""
    rest: float
    """Probability of all others under it; 0 if there are none, and no level for them."""
    least: int
    """Members of the smallest household, 0 or 1."""
    allowed: npt.NDArray[np.bool_]
    """(n_codes + 1, n_roles): the roles that each code of the role stands for, itself unless roles
    are grouped; the last row is that of the code -1, missing."""
    once: int
    """The role that all others have exactly once, its share 0; -1 if there is none."""


class States(NamedTuple):
    """Compositions of the first members of households, in the order of their sizes."""

    starts: npt.NDArray[np.int64]
    """(n_slots + 3,): first state of each number of members."""
    after: npt.NDArray[np.int64]
    """(n_states, n_roles): the state with a member more of this role, -1 if there is none."""
    before: npt.NDArray[np.int64]
    """(n_states, n_roles): the state with a member less."""
    level: npt.NDArray[np.int64]
    """(n_states,): the composition that is this state, -1 if none is."""


@device
def draw_place(generator, weights):
    """Draw an index in proportion to its weight."""
    return draw_one(generator, weights, weights.sum())


@device
def is_listed(roles, n_each):
    """Whether a composition, members by role (n_roles,), is a listed one."""
    for c in range(roles.members.shape[0]):
        if np.all(roles.members[c] == n_each):
            return True
    return False


@device
def fill_roles(generator, level, roles, role_of):
    """Give the members of a household of this level their roles; return how many they are."""
    n = 0
    if level < roles.members.shape[0]:
        for r in range(roles.members.shape[1]):
            for _ in range(roles.members[level, r]):
                role_of[n] = r
                n += 1
        return n
    n_each = np.zeros(roles.members.shape[1], np.int64)
    while True:
        n = draw_place(generator, roles.sizes) + roles.least
        n_each[:] = 0
        for j in range(n):
            first = j == 0 and roles.once >= 0
            role_of[j] = roles.once if first else draw_place(generator, roles.shares)
            n_each[role_of[j]] += 1
        if not is_listed(roles, n_each):
            return n


@device
def fill_others(roles, codes, person, n, g, table, without, at):
    """Sum over the role vectors of a household's members as if no composition were listed.

    codes (n_slots,) and person (n_slots,): see `over_roles`. Into without (n,): each member's sum
    over the roles but the one that everybody has once; into at (n,): the product with member j in
    that role. Returns the sum.
    """
    for j in range(n):
        without[j] = 0.0
        for r in range(roles.shares.shape[0]):
            if roles.allowed[codes[j], r]:
                without[j] += roles.shares[r] * table[person[j], r, g]
    ways = roles.sizes[n - roles.least]
    if roles.once < 0:
        return ways * math.gamma(n + 1.0) * np.prod(without[:n])
    total = 0.0
    for j in range(n):
        at[j] = 0.0
        if roles.allowed[codes[j], roles.once]:
            at[j] = table[person[j], roles.once, g]
            for i in range(n):
                if i != j:
                    at[j] *= without[i]
        total += at[j]
    return ways * math.gamma(float(n)) * total


@kernel
def over_roles(
    key, sweep, attempt, which, draw, roles, states, pi, lam, rows, person, role_of, table, out
):
    """Sum over the roles of the members of households, and draw them where `draw` is true.

    rows (n, n_household_keys): rows of lam, -1 where missing, the first not read; person (n,
    n_slots): the member's keys but for its role, -1 in slots beyond the size; role_of (n, n_slots):
    codes of the roles, see `Roles.allowed`, drawn in place; table (n_persons, n_roles, n_classes).
    Into out (n,): the probability times the product of the factorials of the numbers of members
    that are alike. which (n,) and attempt: see `nested.complete`.
    """
    n_classes = pi.shape[0]
    n_roles = roles.members.shape[1]
    n_listed = roles.members.shape[0]
    n_states = states.level.shape[0]
    generator = np.zeros(GENERATOR_SIZE, np.uint32)
    forward = np.empty((n_states, n_classes))
    product = np.empty(n_classes)
    rest = np.empty(n_classes)
    mass = np.empty(n_classes)
    orders = np.ones(n_listed)
    for c in range(n_listed):
        for r in range(n_roles):
            orders[c] *= math.gamma(roles.members[c, r] + 1.0)
    n_each = np.zeros(n_roles, np.int64)
    choice = np.empty(n_roles)
    without, at = np.empty(person.shape[1]), np.empty(person.shape[1])
    for i in range(rows.shape[0]):
        n = 0
        while n < person.shape[1] and person[i, n] >= 0:
            n += 1
        for g in range(n_classes):
            product[g] = pi[g]
            for k in range(1, rows.shape[1]):
                if rows[i, k] >= 0:
                    product[g] *= lam[rows[i, k], g]
        forward[: states.starts[n + 1]] = 0.0
        forward[0] = 1.0
        for j in range(n):
            for s in range(states.starts[j], states.starts[j + 1]):
                for r in range(n_roles):
                    t = states.after[s, r]
                    if t >= 0 and roles.allowed[role_of[i, j], r]:
                        for g in range(n_classes):
                            forward[t, g] += forward[s, g] * table[person[i, j], r, g]
        # What is not listed: all role vectors but those of the listed compositions.
        rest[:] = 0.0
        if roles.rest > 0.0:
            for g in range(n_classes):
                rest[g] = fill_others(roles, role_of[i], person[i], n, g, table, without, at)
        mass[:] = 0.0
        for s in range(states.starts[n], states.starts[n + 1]):
            c = states.level[s]
            if c >= 0:
                chance = roles.listed[c] * orders[c]
                for g in range(n_classes):
                    mass[g] += lam[c, g] * orders[c] * forward[s, g]
                    rest[g] -= chance * forward[s, g]
        for g in range(n_classes):
            rest[g] = max(rest[g], 0.0)
            if roles.rest > 0.0:
                rest[g] *= lam[n_listed, g] / roles.rest
            mass[g] = product[g] * (mass[g] + rest[g])
        out[i] = mass.sum()
        if not draw:
            continue
        seek(generator, key, which[i], sweep, PURPOSE_ROLES)
        generator[0] = attempt << 16
        g = draw_place(generator, mass)
        ends = np.zeros(states.starts[n + 1] - states.starts[n] + 1)
        ends[-1] = rest[g]
        for s in range(states.starts[n], states.starts[n + 1]):
            c = states.level[s]
            if c >= 0:
                ends[s - states.starts[n]] = lam[c, g] * orders[c] * forward[s, g]
        state = draw_place(generator, ends) + states.starts[n]
        if state < states.starts[n + 1]:
            for j in range(n - 1, -1, -1):
                for r in range(n_roles):
                    s = states.before[state, r]
                    choice[r] = 0.0
                    if s >= 0 and roles.allowed[role_of[i, j], r]:
                        choice[r] = forward[s, g] * table[person[i, j], r, g]
                role_of[i, j] = draw_place(generator, choice)
                state = states.before[state, role_of[i, j]]
            continue
        known = role_of[i].copy()
        fill_others(roles, known, person[i], n, g, table, without, at)
        while True:
            n_each[:] = 0
            once = draw_place(generator, at[:n]) if roles.once >= 0 else -1
            for j in range(n):
                for r in range(n_roles):
                    choice[r] = 0.0
                    if roles.allowed[known[j], r]:
                        choice[r] = roles.shares[r] * table[person[i, j], r, g]
                role_of[i, j] = roles.once if j == once else draw_place(generator, choice)
                n_each[role_of[i, j]] += 1
            if not is_listed(roles, n_each):
                break
