"""Who lives in a household: the first of its keys, by role.

With a role (the relation to the head) the composition of a household, how many of its members have
each level of it, takes the place of the size. The compositions that the sample has twice or more
are levels of their own; a level more holds all others. Their size and their members' roles are
independent, by the law that makes those that were seen once most likely. Where members are tied to
the head, who is in every household once, the others have one head too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.households import HouseholdLayout
from unikat.data.table import CellTable
from unikat.errors import SpecError, brief, suggest
from unikat.kernels.nested_roles import Roles, States

_LEAST_SEEN = 2
"""Households of the sample from which on their composition is listed. Compositions have a heavy
tail: what is seen once in n is in the population much more rarely than once in n."""
_STEPS = 50
"""Of expectation and maximisation."""
_LEAST_REST = 1e-6
"""Probability of all others below which there are none."""


def role_of(table: CellTable, composition: str) -> int:
    """Person key that holds the role, -1 if none; `composition`: "auto", its name, or "none"."""
    layout = table.layout
    if composition == "none" or layout is None:
        return -1
    names = [key.name for key in layout.person_keys]
    role = layout.role if composition == "auto" else -1
    if composition != "auto":
        if composition not in names:
            raise SpecError(
                f"The option composition names {brief(composition)!r}, which is no key of "
                f"members.{suggest(composition, names)}"
            )
        role = names.index(composition)
    if role < 0:
        return -1
    codes, members = layout.parts(table.cells)
    there = np.arange(layout.n_slots) < layout.n_members(codes[:, 0])[:, None]
    missing = bool(np.any(there & (members[:, :, role] < 0)))
    if not missing and len(names) > 1:
        return role
    if composition == "auto":
        return -1
    raise SpecError(
        f"The key {brief(names[role])!r} cannot be the composition of households: "
        + ("it is missing of some members." if missing else "members have no other key.")
    )


def without_roles(layout: HouseholdLayout) -> Roles:
    """The composition is the size."""
    n_sizes = layout.household_keys[0].n_levels
    least = int(not layout.head_apart)
    return Roles(
        -1,
        np.arange(least, n_sizes + least)[:, None],
        np.zeros(n_sizes),
        np.ones(1),
        np.zeros(n_sizes),
        0.0,
        least,
        np.ones((2, 1), bool),
        -1,
    )


def roles_of(table: CellTable, role: int, once: int = -1) -> Roles:
    """The compositions of a table of households; their roles are known.

    once: the role that those that are not listed have exactly once, as all of the table; -1 if
    there is none.
    """
    layout = table.layout
    assert layout is not None
    members = layout.parts(table.cells)[1]
    n_each = members_by_role(members[:, :, role], layout.person_keys[role].n_levels)
    compositions, which = np.unique(n_each, axis=0, return_inverse=True)
    seen = np.bincount(which.ravel(), table.counts, minlength=len(compositions))
    listed = seen >= min(_LEAST_SEEN, int(seen.max()))
    least = int(not layout.head_apart)
    n_sizes = layout.household_keys[0].n_levels
    sizes, shares = _law_of_others(compositions, seen, listed, n_sizes, least, once)
    return listing(role, compositions[listed], sizes, shares, least, once)


def head_role(table: CellTable, role: int) -> int:
    """Role that every household of a table has exactly once: the head's.

    -1 if there is none, or the head is apart.
    """
    layout = table.layout
    assert layout is not None
    if layout.head_apart:
        return -1
    codes = layout.parts(table.cells)[1][:, :, role]
    n_each = members_by_role(codes, layout.person_keys[role].n_levels)
    once = np.flatnonzero((n_each == 1).all(axis=0))
    return int(once[0]) if len(once) else -1


def _law_of_others(
    compositions: Int64, seen: Int64, listed: Bool, n_sizes: int, least: int, once: int
) -> tuple[Float64, Float64]:
    """Law of the size and of the roles of households whose composition is not listed.

    seen (n,): households of each composition. The most likely law given that none of the listed
    ones came out, by expectation and maximisation, with half a household that is like the sample's.
    """
    n = compositions.sum(axis=1)
    sizes = np.bincount(n - least, seen, minlength=n_sizes) + 0.5
    drawn, half = compositions.copy(), np.full(compositions.shape[1], 0.5)
    if once >= 0:
        drawn[:, once] = half[once] = 0
    shares = seen @ drawn + half
    like_all = sizes, shares = sizes / sizes.sum(), shares / shares.sum()
    weights = np.where(listed, 0.0, seen)
    n_others = weights.sum()
    for _ in range(_STEPS):
        of = listing(-1, compositions[listed], sizes, shares, least, once)
        if of.rest == 0.0:
            break
        # How many listed ones would have come out beside the others.
        weights[listed] = n_others * of.listed / of.rest
        sizes = np.bincount(n - least, weights, minlength=n_sizes) + 0.5 * like_all[0]
        shares = weights @ drawn + 0.5 * like_all[1]
        sizes, shares = sizes / sizes.sum(), shares / shares.sum()
    return sizes, shares


def listing(
    role: int, members: Int64, sizes: Float64, shares: Float64, least: int, once: int = -1
) -> Roles:
    """Roles with these compositions listed, (n_listed, n_roles), and that law of all others."""
    n = members.sum(axis=1)
    listed: Float64 = sizes[n - least] * np.exp(_log_chance(shares, once, members))
    rest = 1.0 - float(listed.sum())
    rest = rest if rest > _LEAST_REST else 0.0
    allowed = np.vstack((np.eye(len(shares), dtype=bool), np.ones((1, len(shares)), bool)))
    return Roles(role, members.astype(np.int64), sizes, shares, listed, rest, least, allowed, once)


def _log_chance(shares: Float64, once: int, n_each: Int64) -> Float64:
    """Log probability of compositions (n, n_roles) given their sizes if none were listed, (n,)."""
    drawn, log_shares = n_each.copy(), np.zeros(len(shares))
    np.log(shares, out=log_shares, where=np.arange(len(shares)) != once)
    if once >= 0:
        drawn[:, once] = 0
    n = drawn.sum(axis=1)
    orders = np.array([math.lgamma(s + 1.0) for s in range(int(n.max(initial=0)) + 1)])
    log_p: Float64 = orders[n] - orders[drawn].sum(axis=1) + drawn @ log_shares
    if once >= 0:
        log_p[n_each[:, once] != 1] = -np.inf
    return log_p


def members_by_role(codes: Int32, n_roles: int) -> Int64:
    """Members of each role, (n, n_roles), of their codes (n, n_slots); others are not counted."""
    return np.stack([(codes == r).sum(axis=1) for r in range(n_roles)], axis=1).astype(np.int64)


def n_levels(roles: Roles) -> int:
    """Levels of the composition."""
    return len(roles.members) + int(roles.rest > 0.0)


def levels_of(roles: Roles, n_each: Int64) -> tuple[Int64, Float64]:
    """Level of each composition (n, n_roles), and the log of its probability in its level.

    Where there is no level for others, one that is not listed has the level -1 and log 0.
    """
    place = {row.tobytes(): c for c, row in enumerate(roles.members)}
    n_listed = len(roles.members)
    n_each = np.ascontiguousarray(n_each, np.int64)
    level = np.array([place.get(row.tobytes(), n_listed) for row in n_each], np.int64)
    log_p = np.zeros(len(level))
    others = np.flatnonzero(level == n_listed)
    if not len(others):
        return level, log_p
    if roles.rest == 0.0:
        level[others], log_p[others] = -1, -np.inf
        return level, log_p
    n = n_each[others].sum(axis=1)
    log_p[others] = np.log(roles.sizes[n - roles.least] / roles.rest)
    log_p[others] += _log_chance(roles.shares, roles.once, n_each[others])
    return level, log_p


class Means(NamedTuple):
    """What households of each level of the composition are like."""

    sizes: Float64
    """(n_sizes, n_levels): law of their size."""
    members: Float64
    """(n_roles, n_levels): mean numbers of members by role."""


def means(roles: Roles) -> Means:
    """Law of the size, and mean members by role, of each level; without ties to a head."""
    n_listed, n_roles = roles.members.shape
    n_sizes = len(roles.sizes)
    sizes, members = np.zeros((n_sizes, n_levels(roles))), np.zeros((n_roles, n_levels(roles)))
    code = roles.members.sum(axis=1) - roles.least
    sizes[code, np.arange(n_listed)] = 1.0
    members[:, :n_listed] = roles.members.T
    if roles.rest > 0.0:
        left = roles.sizes - np.bincount(code, roles.listed, minlength=n_sizes)
        sizes[:, n_listed] = np.maximum(left, 0.0) / roles.rest
        expected = roles.sizes @ (np.arange(n_sizes) + roles.least) * roles.shares
        members[:, n_listed] = np.maximum(expected - roles.listed @ roles.members, 0.0) / roles.rest
    return Means(sizes, members)


def states_of(roles: Roles, n_slots: int) -> States:
    """All compositions of some members of listed ones, and how they follow each other."""
    n_roles = roles.members.shape[1]
    empty = (0,) * n_roles
    found = {tuple(row) for row in roles.members.tolist()} | {empty}
    listed = {tuple(row): c for c, row in enumerate(roles.members.tolist())}
    waiting = list(found)
    while waiting:
        state = waiting.pop()
        for r in range(n_roles):
            less = (*state[:r], state[r] - 1, *state[r + 1 :])
            if state[r] > 0 and less not in found:
                found.add(less)
                waiting.append(less)
    states = sorted(found, key=lambda state: (sum(state), state))
    number = {state: s for s, state in enumerate(states)}
    after, before = (np.full((len(states), n_roles), -1, np.int64) for _ in range(2))
    for state, s in number.items():
        for r in range(n_roles):
            more = (*state[:r], state[r] + 1, *state[r + 1 :])
            if more in number:
                after[s, r], before[number[more], r] = number[more], s
    totals = np.array([sum(state) for state in states])
    return States(
        np.searchsorted(totals, np.arange(n_slots + 3)).astype(np.int64),
        after,
        before,
        np.array([listed.get(state, -1) for state in states], np.int64),
    )
