"""Cells of households given the parameters: their probabilities, and draws of what is missing."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float32, Float64, Int32, Int64
from unikat.errors import SpecError
from unikat.kernels import nested as kernels
from unikat.kernels import nested_completion as completion
from unikat.kernels import nested_roles as roles_kernels
from unikat.kernels.household_rules import HouseholdRules
from unikat.kernels.nested import Weights
from unikat.kernels.random import PURPOSE_SIMULATE
from unikat.models.base import Stream
from unikat.models.households.classes import wide
from unikat.models.households.composition import levels_of, means, members_by_role
from unikat.models.households.records import (
    Columns,
    LaidOut,
    OpenRoles,
    lay_out_households,
    lay_out_open,
    log_factorials,
    possible,
    refuse_ties,
)
from unikat.models.households.ties import extended, lost_draws
from unikat.models.records import in_parts
from unikat.rng import chain_key

_AT_A_TIME, _MOST_AT_A_TIME = 4096, 64
"""Households that are drawn at a time, at most, once some are left; and of each."""
_MOST_DRAWN = 1_000, 100_000
"""Draws until all households are possible: so many times the households, and so many more."""


def person_table(households: kernels.Households, weights: Weights, n_threads: int = 1) -> Float64:
    """Probability of each distinct person in each household class, (n_persons, n_classes)."""
    return _table(households.persons, weights, n_threads)


def _table(persons: Int32, weights: Weights, n_threads: int = 1) -> Float64:
    """The same of persons by their rows of phi."""
    table = np.empty((len(persons), len(weights.omega)))
    turned, profiles = wide(weights.omega, weights.phi)

    def fill(_: int, first: int, last: int) -> None:
        kernels.person_table(first, last, persons, turned, profiles, table)

    in_parts(fill, len(table), n_threads)
    return table


class PreparedCells(NamedTuple):
    """Cells as kernels read them; sizes are known."""

    open_roles: Bool
    """(n,): those with members of a role that is not known."""
    opened: OpenRoles
    laid: LaidOut
    """The others."""


def prepare_cells(columns: Columns, cells: Int32) -> PreparedCells:
    """Lay cells out, -1 leaving a key out; sizes are known."""
    cells = np.ascontiguousarray(cells)
    open_roles = columns.lack_roles(cells)
    known = np.ascontiguousarray(cells[~open_roles])
    return PreparedCells(
        open_roles,
        lay_out_open(columns, cells[open_roles]),
        lay_out_households(columns, known, np.ones(len(known), np.int64)),
    )


def of_prepared(columns: Columns, weights: Weights, prepared: PreparedCells) -> Float64:
    """Probability of each cell without rules, (n,)."""
    open_roles, opened, laid = prepared
    p = np.empty(len(open_roles))
    if open_roles.any():
        p[open_roles] = over_roles(columns, weights, opened, np.empty(len(opened.rows), np.int64))
    found = np.empty(len(laid.log_orders))
    lost = lost_draws(columns.ties, weights)
    table = person_table(laid.households, extended(columns.ties, weights, laid.entries, lost))
    kernels.probabilities(laid.households, weights.pi, weights.lam, table, found)
    p[~open_roles] = found * np.exp(laid.log_orders)
    return p


def probabilities(columns: Columns, weights: Weights, cells: Int32) -> Float64:
    """Probability of each cell without rules, -1 leaving a key out; sizes are known."""
    return of_prepared(columns, weights, prepare_cells(columns, cells))


def over_sizes(
    columns: Columns, cells: Int32, probabilities: Callable[[Int32], Float64]
) -> Float64:
    """Probabilities of cells, (n,), a size that is left out being summed over."""
    if not np.any(cells[:, 0] < 0):
        return probabilities(cells)
    n_sizes = len(columns.roles.sizes)
    times = np.where(cells[:, 0] < 0, n_sizes, 1)
    owner = np.repeat(np.arange(len(cells)), times)
    every = cells[owner]
    missing = every[:, 0] < 0
    every[missing, 0] = np.tile(np.arange(n_sizes), int((times > 1).sum()))
    total: Float64 = np.bincount(owner, probabilities(every), minlength=len(cells)).astype(
        np.float64
    )
    return total


def over_roles(
    columns: Columns,
    weights: Weights,
    opened: OpenRoles,
    which: Int64,
    stream: Stream | None = None,
    attempt: int = 0,
) -> Float64:
    """Probabilities of cells of which roles are missing; draw these, in place, if asked for."""
    n_roles = columns.roles.members.shape[1]
    table = _table(opened.persons, weights).reshape(-1, n_roles, len(weights.pi))
    p = np.zeros(len(opened.rows))
    roles_kernels.over_roles(
        chain_key(0, 0) if stream is None else chain_key(stream.seed, stream.chain),
        0 if stream is None else stream.sweep,
        attempt,
        which,
        stream is not None,
        columns.roles,
        columns.states,
        weights.pi,
        weights.lam,
        opened.rows,
        opened.person,
        opened.role_of,
        table,
        p,
    )
    found: Float64 = p * np.exp(opened.log_orders)
    return found


def independent(columns: Columns, weights: Weights, cells: Int32) -> Float64:
    """Probability of each cell if members were independent of each other; sizes are known.

    Each member then has the law of a person, whatever household it lives in. Impossible households
    are none to somebody who thinks so. Roles are known.
    """
    if columns.ties.head >= 0:
        refuse_ties("there is no risk of independent members")
    cells = np.ascontiguousarray(cells)
    laid = lay_out_households(columns, cells, np.ones(len(cells), np.int64))
    households = laid.households
    n_first = int(columns.offsets[1])
    mean = means(columns.roles)
    persons = weights.pi * (mean.members @ weights.lam[:n_first])
    law = (person_table(households, weights) * persons[laid.role]).sum(axis=1) / persons.sum()
    # The size in place of the composition: members are in any order, whatever their roles.
    codes, _ = columns.parts(cells)
    n_sizes = len(columns.roles.sizes)
    rows = households.rows + np.int32(n_sizes - n_first) * (households.rows >= 0)
    rows[:, 0] = codes[:, 0]
    lam = np.concatenate((mean.sizes @ weights.lam[:n_first], weights.lam[n_first:]))
    p = np.empty(len(cells))
    table = np.repeat(law[:, None], len(weights.pi), axis=1)
    kernels.probabilities(
        households._replace(rows=rows), weights.pi, lam.astype(np.float32), table, p
    )
    orders = log_factorials(columns)
    owner = np.repeat(np.arange(len(cells)), np.diff(households.member_starts))
    log_orders = orders[columns.n_members(codes[:, 0])]
    log_orders[np.isneginf(laid.log_orders)] = -np.inf
    log_orders -= np.bincount(owner, orders[households.times], minlength=len(cells))
    p *= np.exp(log_orders)
    return p


class Completed(NamedTuple):
    """Households with what was missing drawn."""

    cells: Int32
    """Members in the order in which they were given."""
    rows: Int32
    members: Int32
    g: Int64
    m: Int64
    origins: Int64
    """(n, n_slots, n_person_keys, 3), or (0, 0, 0, 0) without ties; see `complete`."""


def completed(
    stream: Stream,
    purpose: int,
    columns: Columns,
    weights: Weights,
    cells: Int32,
    which: Int64,
    attempt: int,
) -> Completed:
    """Draw what is missing of cells, by the numbers of household `which` and `attempt`."""
    codes, members = columns.parts(cells)
    roles = columns.roles
    role_of = columns.roles_known(members).astype(np.int64)
    n_members = np.where(codes[:, 0] < 0, -1, columns.n_members(codes[:, 0]))
    lacking = np.flatnonzero(columns.lack_roles(cells) & (n_members >= 0))
    if len(lacking):
        # First the roles given all else that is known, then all else that is missing given them.
        opened = lay_out_open(columns, cells[lacking])
        over_roles(columns, weights, opened, which[lacking], stream, attempt)
        role_of[lacking] = opened.role_of
    there = np.arange(columns.n_slots) < n_members[:, None]
    n_each = members_by_role(np.where(there, role_of, -1).astype(np.int32), roles.members.shape[1])
    rows = np.where(codes >= 0, codes + columns.offsets[:-1], -1).astype(np.int32)
    rows[:, 0] = np.where(n_members < 0, -1, levels_of(roles, n_each)[0])
    real = there[:, :, None] & (members >= 0) & (members < columns.absent)
    real &= np.arange(members.shape[2]) != roles.key
    keys = np.arange(members.shape[2])
    first_rows = columns.first_rows[keys, np.maximum(role_of, 0)[:, :, None]]
    slots = np.where(real, members + first_rows, -1).astype(np.int32)
    g, m = np.empty(len(rows), np.int64), np.full(slots.shape[:2], -1, np.int64)
    shape = (*slots.shape, 3) if columns.ties.head >= 0 else (0, 0, 0, 0)
    origins = np.full(shape, -1, np.int64)
    completion.complete(
        chain_key(stream.seed, stream.chain),
        stream.sweep,
        purpose,
        attempt,
        which,
        roles,
        columns.ties,
        weights,
        lost_draws(columns.ties, weights),
        columns.offsets,
        columns.first_rows,
        columns.absent,
        n_members,
        rows,
        role_of,
        slots,
        g,
        m,
        origins,
    )
    house = rows - columns.offsets[:-1].astype(np.int32)
    house[:, 0] = n_members - roles.least
    persons = slots - columns.first_rows[keys, np.maximum(role_of, 0)[:, :, None]]
    if roles.key >= 0:
        persons[:, :, roles.key] = role_of
    return Completed(columns.joined(house, persons.astype(np.int32)), rows, slots, g, m, origins)


def drawn_given(
    stream: Stream,
    columns: Columns,
    rules: HouseholdRules | None,
    weights: Weights,
    cells: Int32,
) -> Int32:
    """Draw households of which the size, and perhaps more, is given; -1 is drawn.

    Those that the rules forbid are drawn again, given the same: so what is drawn has its
    distribution given what is known and that the household is possible. Members stay in the order
    in which they are given.
    """
    found = cells.copy()
    left, n = np.arange(len(cells)), len(cells)
    attempt = done = 0
    most = _MOST_DRAWN[0] * n + _MOST_DRAWN[1]
    while len(left):
        # Of few that are left several are drawn at a time, and the first possible one is taken.
        times = int(np.clip(_AT_A_TIME // len(left), 1, _MOST_AT_A_TIME)) if attempt else 1
        which = (left + n * np.arange(times)[:, None]).ravel()
        drawn = completed(
            stream,
            PURPOSE_SIMULATE,
            columns,
            weights,
            np.tile(cells[left], (times, 1)),
            which,
            attempt,
        ).cells
        good = np.ones((times, len(left)), bool)
        if rules is not None:
            good = possible(columns, rules, drawn).reshape(times, -1)
        first = good.argmax(axis=0)
        some = good.any(axis=0)
        found[left[some]] = drawn.reshape(times, len(left), -1)[first, np.arange(len(left))][some]
        left = left[~some]
        attempt, done = attempt + 1, done + len(which)
        if len(left) and done > most:
            raise SpecError(
                f"{len(left):,} of {n:,} households cannot be drawn: given what is kept of them, "
                f"hardly any of the {done:,} that the model drew obey the household rules. "
                "Replace fewer keys, take the relation to the head as composition "
                "(--set composition=KEY), or check that the rules say what is impossible."
            )
    return found


def mean_profiles(counts: Int32, profile: Float64, offsets: Int64) -> Float32:
    """Means of Dirichlet profiles given counts."""
    mean = counts + profile[:, None]
    totals = np.add.reduceat(mean, offsets[:-1], axis=0)
    shares: Float32 = (mean / np.repeat(totals, np.diff(offsets), axis=0)).astype(np.float32)
    return shares
