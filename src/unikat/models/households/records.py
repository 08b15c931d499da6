"""Households as the kernels of the nested mixture read them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple, NoReturn

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.households import HouseholdLayout, sorted_slots
from unikat.data.keys import Key
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels.household_rules import HouseholdRules, first_rules, household_scratch
from unikat.kernels.nested import Households
from unikat.kernels.nested_roles import Roles, States
from unikat.kernels.nested_split import Tokens
from unikat.kernels.nested_ties import Ties
from unikat.models.base import Facts
from unikat.models.households.composition import (
    levels_of,
    members_by_role,
    n_levels,
    states_of,
    without_roles,
)
from unikat.models.households.exact import ExactRules, exact_rules
from unikat.models.households.ties import heads_of, places_of, ties_of
from unikat.models.records import MixtureData, sorted_places
from unikat.zeros.household_rules import HouseholdZeros


class Columns(NamedTuple):
    """What the columns of a row are."""

    offsets: Int64
    """(n_household_keys + 1,): first row of lam of each key, the composition first."""
    member_offsets: Int64
    """First row of phi of each key of members, and of each role within the key."""
    first_rows: Int64
    """(n_person_keys, n_roles): the same; -1 of the key that holds the role."""
    absent: Int64
    """(n_person_keys,): codes of a member that is not there, the numbers of levels."""
    roles: Roles
    ties: Ties
    states: States
    n_slots: int
    n_more: int
    """Household keys after the members: the class of a design."""

    @property
    def n_household_keys(self) -> int:
        """Household keys, those after the members included."""
        return len(self.offsets) - 1

    @property
    def walk(self) -> Int64:
        """Person keys in the order of the walk, few levels first; the role is none of them."""
        order = np.argsort(self.absent, kind="stable")
        walk: Int64 = order[order != self.roles.key]
        return walk

    def role_codes(self, members: Int32) -> Int32:
        """Codes of the roles of members (..., n_person_keys): 0 without roles, -1 if missing."""
        if self.roles.key < 0:
            return np.zeros(members.shape[:-1], np.int32)
        codes = members[..., self.roles.key]
        return np.where(codes < self.absent[self.roles.key], codes, -1).astype(np.int32)

    def roles_known(self, members: Int32) -> Int32:
        """Roles of members (..., n_person_keys); -1 where the code leaves several."""
        codes = self.role_codes(members)
        allowed = self.roles.allowed
        one = np.where(allowed.sum(axis=1) == 1, allowed.argmax(axis=1), -1)
        one[-1] = -1
        return one[codes].astype(np.int32)

    def lack_roles(self, cells: Int32) -> Bool:
        """Which cells have members of a role that is not known, (n,); sizes are known."""
        codes, members = self.parts(cells)
        there: Bool = np.less(np.arange(self.n_slots), self.n_members(codes[:, 0])[:, None])
        lack: Bool = np.asarray((there & (self.roles_known(members) < 0)).any(axis=1))
        return lack

    def parts(self, cells: Int32) -> tuple[Int32, Int32]:
        """Household codes (n, n_household_keys) and members (n, n_slots, n_person_keys)."""
        first = self.n_household_keys - self.n_more
        last = cells.shape[1] - self.n_more
        households = np.concatenate((cells[:, :first], cells[:, last:]), axis=1)
        shape = len(cells), self.n_slots, len(self.absent)
        return households, cells[:, first:last].reshape(shape)

    def joined(self, codes: Int32, members: Int32) -> Int32:
        """Cells of household codes and members, in their order; slots left over are absent."""
        there = np.arange(self.n_slots) < self.n_members(codes[:, 0])[:, None]
        slots = np.where(there[:, :, None], members, self.absent).astype(np.int32)
        first = self.n_household_keys - self.n_more
        parts = (
            codes[:, :first],
            slots.reshape(len(codes), self.n_slots * len(self.absent)),
            codes[:, first:],
        )
        return np.concatenate(parts, axis=1)

    def canonical(self, cells: Int32) -> Int32:
        """Complete cells with their members sorted."""
        codes, members = self.parts(cells)
        return self.joined(codes, sorted_slots(members))

    def places(self, persons: Int32, entries: Int64) -> Int64:
        """Places of the values of persons by their rows, -1 where they are not tied."""
        tied = persons >= self.member_offsets[-1]
        places = np.full(persons.shape, -1, np.int64)
        places[tied] = entries[persons[tied] - self.member_offsets[-1]]
        return places

    def base_rows(self, persons: Int32, entries: Int64) -> Int32:
        """Rows of phi of the levels of persons, whatever the head's."""
        if not len(entries):
            return persons
        places = self.places(persons, entries)
        return np.where(places >= 0, self.ties.base[places], persons).astype(np.int32)

    def n_members(self, sizes: Int32) -> Int64:
        """Members of households of these codes of the size, which are known."""
        return sizes.astype(np.int64) + self.roles.least


class NestedData(NamedTuple):
    """The table, for the sampler."""

    columns: Columns
    households: Households
    household_levels: MixtureData
    """Household keys, for their profiles."""
    person_levels: MixtureData
    """Person keys, for theirs."""
    cells: MixtureData
    """The cells that are walked, as they are in the table, for starts."""
    token_record: Int64
    """(n_members,): record of each member, in the order of `nested.Drawn`."""
    tokens: Tokens
    """Records and members one by one, for split-merge moves."""
    entries: Int64
    """Places of the table of ties that `households` has beyond the rows of phi."""
    member_rows: Int32
    """(n_members, n_person_keys): rows of phi of each member; (0, 0) without ties."""
    places: Int64
    """(n_members, n_person_keys): places of the tied values of each member, -1 elsewhere; (0, 0)
    without ties."""
    gaps: Int32
    """(n_incomplete, n_columns): codes of the incomplete records. Under rules they are not among
    `households`: they are imputed in every sweep."""
    n_records: int
    """The incomplete ones included."""
    rules: HouseholdRules | None
    """None if every household is possible."""
    exact: ExactRules | None
    """What the probability of a possible household is computed from; None if it is simulated."""


@dataclass(frozen=True, kw_only=True)
class HouseholdFacts(Facts):
    """Facts of a table of households."""

    members: int
    """Of complete households under rules, else of all; without heads where these are apart."""
    distinct_members: int
    incomplete_households: int


def prepare(table: CellTable, roles: Roles | None = None, head: int = -1) -> NestedData:
    """Lay a table of households out, the composition being the size if no roles are given.

    head: the role of the head, to whose values those of the others are tied; -1 without ties.
    """
    layout = table.layout
    if layout is None:
        raise SpecError(
            "The model households needs records that are households: name the column of the "
            "households, or choose another model."
        )
    columns = columns_of(layout, table, roles, head)
    if np.any(table.cells[:, 0] < 0):
        raise SpecError("The size of a household is missing; the model households needs it.")
    multiplicity = lay_out_households(columns, table.cells, table.counts).log_orders
    if not np.all(np.isfinite(multiplicity)):
        raise SpecError(
            "The members of a household are not as many as its size says; count them again."
        )
    gaps = np.repeat(table.cells, table.counts * table.incomplete, axis=0)
    n_records = table.n_records
    walked = ~table.incomplete | (layout.rules is None)
    counts, cells = table.counts[walked], np.ascontiguousarray(table.cells[walked])
    laid = lay_out_households(columns, cells, counts)
    households = laid.households
    if layout.rules is not None:
        n_bad = int(counts[~possible(columns, layout.rules, cells)].sum())
        if n_bad:
            raise SpecError(
                f"{n_bad:,} households of the sample break the household rules; correct the rules "
                "or leave these households out."
            )
    times = np.repeat(counts, np.diff(households.member_starts)) * households.times
    base = columns.base_rows(households.persons, laid.entries)
    tokens = _tokens(columns, households, counts)
    rows, places = np.empty((0, 0), np.int32), np.empty((0, 0), np.int64)
    if columns.ties.head >= 0:
        rows = base[tokens.person]
        places = columns.places(households.persons, laid.entries)[tokens.person]
    return NestedData(
        columns,
        households,
        _levels(columns.offsets, households.rows, counts),
        _levels(columns.member_offsets, _unsorted(base[households.person], columns), times),
        _as_records(table, cells, counts),
        np.repeat(np.arange(int(counts.sum())), np.repeat(_members(households), counts)),
        tokens,
        laid.entries,
        rows,
        places,
        gaps,
        n_records,
        layout.rules,
        None
        if layout.rules is None
        else exact_rules(
            layout.rules, columns.roles, columns.ties, columns.absent, columns.first_rows
        ),
    )


def possible(columns: Columns, rules: HouseholdRules, cells: Int32) -> Bool:
    """Which complete households are possible, (n,)."""
    codes, members = columns.parts(cells)
    first = np.empty(len(cells), np.int64)
    n_members = columns.n_members(codes[:, 0])
    # A household that contradicts its size has no members to look at beyond its slots.
    n_members = np.clip(n_members, 0, columns.n_slots)
    first_rules(
        rules,
        np.ascontiguousarray(codes, np.int64),
        np.ascontiguousarray(np.where(members >= columns.absent, -1, members), np.int64),
        n_members,
        household_scratch(rules, columns.n_slots),
        first,
    )
    good: Bool = first < 0
    return good


def _as_records(table: CellTable, cells: Int32, counts: Int64) -> MixtureData:
    """Cells as records of all columns, for starts."""
    offsets = np.concatenate(([0], np.cumsum(table.n_levels, dtype=np.int64)))
    return _levels(
        offsets, np.where(cells >= 0, cells + offsets[:-1], -1).astype(np.int32), counts
    )._replace(record_cell=np.repeat(np.arange(len(cells), dtype=np.int32), counts))


def _tokens(columns: Columns, households: Households, counts: Int64) -> Tokens:
    """Records and members one by one."""
    cell = np.repeat(np.arange(len(counts), dtype=np.int32), counts)
    n_members = _members(households)
    persons = np.repeat(households.person, households.times)
    first = _sums(n_members[cell])
    start = _sums(n_members)[cell]
    record = np.repeat(np.arange(len(cell)), n_members[cell])
    place = start[record] + np.arange(len(record)) - first[record]

    def keys(offsets: Int64) -> Int64:
        return np.repeat(np.arange(len(offsets) - 1), np.diff(offsets))

    return Tokens(
        households.rows,
        households.persons,
        cell,
        first,
        persons[place],
        keys(columns.offsets),
        keys(columns.member_offsets),
    )


def own_draws(data: NestedData, own_rows: Int32) -> Tokens:
    """Records and members one by one, each a person of its own with these rows of phi."""
    if not len(own_rows):
        return data.tokens
    each = np.arange(len(own_rows), dtype=np.int32)
    return data.tokens._replace(persons=own_rows, person=each)


def apart(tokens: Tokens) -> Households:
    """Return households record by record."""
    return Households(
        rows=tokens.rows[tokens.cell],
        starts=np.arange(len(tokens.cell) + 1),
        member_starts=tokens.first,
        person=tokens.person,
        times=np.ones(len(tokens.person), np.int64),
        token_starts=tokens.first,
        persons=tokens.persons,
    )


def _members(households: Households) -> Int64:
    """Members of a household of each cell, (n_cells,)."""
    totals = _sums(households.times)
    return np.diff(totals[households.member_starts])


def _unsorted(rows: Int32, columns: Columns) -> Int32:
    """Rows of phi of members, their keys in the table's order."""
    return rows[:, np.argsort(columns.walk, kind="stable")]


def _levels(offsets: Int64, rows: Int32, times: Int64) -> MixtureData:
    known = rows >= 0
    weight = np.broadcast_to(times[:, None], rows.shape)[known]
    return MixtureData(
        rows=rows,
        record_cell=np.empty(0, np.int32),
        counts=times,
        offsets=offsets,
        at_least=np.empty(0),
        frequencies=np.bincount(rows[known], weight, minlength=int(offsets[-1])).astype(np.float64),
    )


def columns_of(
    layout: HouseholdLayout, table: CellTable, roles: Roles | None = None, head: int = -1
) -> Columns:
    """Columns of a table of households; those after the members are household keys too.

    head: see `prepare`.
    """
    roles = without_roles(layout) if roles is None else roles
    more = table.keys[layout.n_columns :]
    levels = [n_levels(roles), *(key.n_levels for key in (*layout.household_keys[1:], *more))]
    absent = np.array([key.n_levels for key in layout.person_keys], np.int64)
    n_roles = roles.members.shape[1]
    own = np.flatnonzero(np.arange(len(absent)) != roles.key)
    member_offsets = np.concatenate(([0], np.cumsum(np.repeat(absent[own], n_roles))))
    first_rows = np.full((len(absent), n_roles), -1, np.int64)
    first_rows[own] = member_offsets[:-1].reshape(len(own), n_roles)
    columns = Columns(
        np.concatenate(([0], np.cumsum(levels, dtype=np.int64))),
        member_offsets,
        first_rows,
        absent,
        roles,
        ties_of(-1, np.ones(len(absent), bool), absent, n_roles, first_rows),
        states_of(roles, layout.n_slots),
        layout.n_slots,
        len(more),
    )
    if head < 0:
        return columns
    tied = _can_be_tied(columns, head, table.cells)
    return columns._replace(ties=ties_of(head, tied, absent, n_roles, first_rows))


def _can_be_tied(columns: Columns, head: int, cells: Int32) -> Bool:
    """Keys that the head has wherever another member has them, (n_person_keys,).

    The sum over values of the head that are missing would not go member by member.
    """
    codes, members = columns.parts(cells)
    roles = np.where(_there(columns, codes, members)[0], columns.roles_known(members), -1)
    heads = heads_of(columns.ties._replace(head=head), roles, members)
    alone = (roles == head).sum(axis=1) == 1
    known = ((members >= 0) & ((roles >= 0) & (roles != head))[:, :, None]).any(axis=1)
    tied: Bool = ~(known & alone[:, None] & (heads < 0)).any(axis=0)
    tied &= np.arange(len(tied)) != columns.roles.key
    return tied


class LaidOut(NamedTuple):
    """Households as kernels read them."""

    households: Households
    log_orders: Float64
    """(n,): log of the numbers of orders of their members; -inf for what contradicts its size."""
    role: Int64
    """(n_persons,): role of each distinct person."""
    entries: Int64
    """Places of the table of ties whose rows follow those of phi, see `ties.extended`."""


def lay_out_households(columns: Columns, cells: Int32, counts: Int64) -> LaidOut:
    """Lay rows of codes with known sizes and roles out, and count the orders of their members."""
    codes, members = columns.parts(cells)
    there, fits = _there(columns, codes, members)
    walk = columns.walk
    persons = members[there]
    roles = columns.roles_known(persons)
    rows = np.where(
        persons[:, walk] >= 0, persons[:, walk] + columns.first_rows[walk][:, roles].T, -1
    )
    entries = np.empty(0, np.int64)
    if columns.ties.head >= 0:
        held = np.where(there, columns.roles_known(members), -1)
        heads = heads_of(columns.ties, held, members)[np.nonzero(there)[0]]
        heads[roles == columns.ties.head] = -1
        places = places_of(columns.ties, columns.absent, roles, persons, heads)[:, walk]
        entries = np.unique(places[places >= 0])
        n_rows = int(columns.member_offsets[-1])
        rows = np.where(places >= 0, n_rows + np.searchsorted(entries, places), rows)
    # The role tells persons apart whose keys are all missing.
    distinct, person = _distinct(np.column_stack((rows, roles)).astype(np.int32))
    owner = np.nonzero(there)[0]
    sorting = np.lexsort((person, owner))
    owner, person = owner[sorting], person[sorting]
    new = np.ones(len(person), bool)
    new[1:] = (person[1:] != person[:-1]) | (owner[1:] != owner[:-1])
    first = np.flatnonzero(new)
    times = np.diff(np.append(first, len(person))).astype(np.int64)
    each = np.bincount(owner[first], minlength=len(cells))
    known = there.sum(axis=1)
    orders = log_factorials(columns)
    n_each = members_by_role(
        np.where(there, columns.roles_known(members), -1), columns.roles.members.shape[1]
    )
    level, log_orders = levels_of(columns.roles, n_each)
    log_orders += orders[n_each].sum(axis=1)
    log_orders -= np.bincount(owner[first], orders[times], minlength=len(cells))
    log_orders[~fits] = -np.inf
    house = np.where(codes >= 0, codes + columns.offsets[:-1], -1)
    house[:, 0] = level
    households = Households(
        rows=house.astype(np.int32),
        starts=_sums(counts),
        member_starts=_sums(each),
        person=person[first].astype(np.int32),
        times=times,
        token_starts=_sums(counts * known),
        persons=np.ascontiguousarray(distinct[:, :-1]),
    )
    return LaidOut(households, log_orders, distinct[:, -1].astype(np.int64), entries)


class OpenRoles(NamedTuple):
    """Households of which roles are missing, see `nested_roles.over_roles`."""

    rows: Int32
    """(n, n_household_keys)"""
    person: Int64
    """(n, n_slots): what is known of each member but its role, -1 in slots beyond the size."""
    role_of: Int64
    """(n, n_slots)"""
    persons: Int32
    """(n_persons * n_roles, n_person_keys): rows of phi in each role."""
    log_orders: Float64
    """(n,): less the log factorials of members that are alike; -inf as in `lay_out_households`."""


def lay_out_open(columns: Columns, cells: Int32) -> OpenRoles:
    """Lay rows of codes out of which roles are missing; sizes are known."""
    codes, members = columns.parts(cells)
    there, fits = _there(columns, codes, members)
    walk = columns.walk
    persons = members[there][:, walk]
    if columns.ties.head >= 0 and np.any(persons >= 0):
        refuse_ties("roles of members cannot be left out")
    distinct, place = _distinct(persons.astype(np.int32))
    person = np.full(there.shape, -1, np.int64)
    person[there] = place
    n_roles = columns.roles.members.shape[1]
    first = columns.first_rows[walk].T
    rows = np.where(distinct[:, None] >= 0, distinct[:, None] + first, -1)
    role_of = np.where(there, columns.role_codes(members), -1).astype(np.int64)
    alike = np.sort(person * (n_roles + 1) + role_of + 1, axis=1)
    orders = log_factorials(columns)
    log_orders = np.zeros(len(cells))
    run = np.ones(len(cells), np.int64)
    for j in range(1, columns.n_slots):
        same = (alike[:, j] == alike[:, j - 1]) & (alike[:, j] >= 0)
        run = np.where(same, run + 1, 1)
        # Factorials grow by the length of each run.
        log_orders -= orders[run] - orders[run - 1]
    log_orders[~fits] = -np.inf
    house = np.where(codes >= 0, codes + columns.offsets[:-1], -1)
    return OpenRoles(
        house.astype(np.int32),
        person,
        role_of,
        np.ascontiguousarray(rows.reshape(-1, len(walk)), np.int32),
        log_orders,
    )


def refuse_ties(why: str) -> NoReturn:
    """Stop what the ties of members to their head do not allow."""
    raise SpecError(f"With ties to the head {why}; set the option ties to 'none'.")


def _there(columns: Columns, codes: Int32, members: Int32) -> tuple[Bool, Bool]:
    """Which slots hold members (n, n_slots), and which rows do not contradict their size (n,)."""
    n_members = columns.n_members(codes[:, 0])
    there: Bool = np.less(np.arange(columns.n_slots), n_members[:, None])
    no_such = (members >= columns.absent).any(axis=2)
    real = ((members >= 0) & (members < columns.absent)).any(axis=2)
    fits: Bool = np.asarray(~((there & no_such) | (~there & real)).any(axis=1))
    there &= fits[:, None]
    return there, fits


def log_factorials(columns: Columns) -> Float64:
    """Log factorials of the numbers of members that there are."""
    return np.array([math.lgamma(s + 1.0) for s in range(columns.n_slots + 2)])


def _sums(values: Int64) -> Int64:
    return np.concatenate(([0], np.cumsum(values, dtype=np.int64)))


def _distinct(rows: Int32) -> tuple[Int32, Int64]:
    """Distinct rows, sorted, and the place of each row among them."""
    sorting = sorted_places(rows)
    ordered = rows[sorting]
    new: Bool = np.ones(len(rows), bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    place = np.empty(len(rows), np.int64)
    place[sorting] = np.cumsum(new) - 1
    return np.ascontiguousarray(ordered[new]), place


def toy_table(ruled: bool = False) -> CellTable:
    """Return a table of households on which kernels are compiled; with a rule if asked for."""
    households = Key.of_size("size", 2), Key.of_size("A", 2)
    persons = Key.of_size("B", 2), Key.of_size("C", 3)
    rules = None
    if ruled:
        rules = HouseholdZeros.of(["count(B == 0) > 1"], {}, households, persons).program
    layout = HouseholdLayout(
        household_keys=households, person_keys=persons, n_slots=2, rules=rules, role=0
    )
    codes = [[0, 0, 0, 1, 2, 3], [1, 1, 0, 0, 1, 2], [1, 0, 1, -1, 1, 1]]
    return CellTable.from_codes(codes, layout.columns, population_size=9, layout=layout)
