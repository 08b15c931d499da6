"""Households of recoded keys, under a model of the keys as they were.

Given its class and the members' classes, the keys of a household are independent. So the profile of
a recoded key is the sum of the profile's levels in each group, and one that is left out is left out
of the product: a cell of groups has the probability of a cell, with these profiles. Members are
alike who are so in the groups. Where roles are grouped, a member has one of several, which are
summed over as missing ones are (`kernels.nested_roles`).

Under rules the impossible households are taken off. A group is cut into *blocks*, levels that no
rule tells apart. A household of blocks is possible or not, and those of a cell are listed if there
are up to `MOST_BLOCKS`. Of cells with more, `COMPLETIONS` households are drawn in each state: the
share of them that is possible is without bias, with the error of so many draws.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple, TypeVar

import numpy as np

from unikat._typing import AnyArray, Bool, Float32, Float64, Int32, Int64
from unikat.data.patterns import distinct
from unikat.kernels import nested as kernels
from unikat.kernels.nested import Weights
from unikat.kernels.random import PURPOSE_HOUSEHOLD_MASS
from unikat.models.base import Stream
from unikat.models.groups import Groups
from unikat.models.households.cells import (
    PreparedCells,
    of_prepared,
    over_roles,
    over_sizes,
    person_table,
    prepare_cells,
)
from unikat.models.households.records import (
    Columns,
    NestedData,
    lay_out_households,
    lay_out_open,
    possible,
    refuse_ties,
)
from unikat.rng import chain_key
from unikat.zeros.household_rules import alike_to

MOST_BLOCKS = 256
"""Households of blocks that are listed for one cell, at most."""
COMPLETIONS = 64
"""Households drawn of a cell that has more."""
_BEYOND = 1 << 15
"""Attempts whose random numbers no simulation of households reaches; the fit's takes this one."""
_REMEMBERED = 8
"""Sets of cells about which something is remembered, at most."""


def grouped(
    stream: Stream, data: NestedData, weights: Weights, groups: Groups, cells: Int32
) -> Float64:
    """Probability of each cell of groups, (n,), impossible households left out; of all households.

    groups: of each column of the table, see `Model.grouped_probabilities`; the last one of a
    member's key is that of no such member.
    """
    if data.columns.ties.head >= 0:
        refuse_ties("the risk of recoded keys is not known")
    seen = _remembered(groups, b"", lambda: Seen.of(data, groups))
    coarse = seen.weights(weights)

    def of_known_sizes(part: Int32) -> Float64:
        prepared = _remembered(
            groups, part.tobytes(), lambda: _Prepared.of(data, groups, seen, part)
        )
        p = of_prepared(seen.columns, coarse, prepared.cells)
        if prepared.listed is None or prepared.blocks is None:
            return p
        p *= prepared.good
        which = prepared.listed.cells
        within = of_prepared(
            prepared.blocks.columns, prepared.blocks.weights(weights), prepared.listed.households
        )
        p[which] = np.bincount(prepared.listed.owner, within, minlength=len(which))
        drawn = prepared.drawn
        if len(drawn):
            p[drawn] *= _share_possible(stream, data, weights, seen, coarse, part[drawn])
        return p

    return over_sizes(data.columns, cells, of_known_sizes)


_Found = TypeVar("_Found")


def _remembered(groups: Groups, key: bytes, make: Callable[[], _Found]) -> _Found:
    """Return what is kept about cells; compute it if it is not, and keep it if little is kept."""
    found: _Found | None = groups.found.get(key)
    if found is None:
        found = make()
        if len(groups.found) < _REMEMBERED:
            groups.found[key] = found
    return found


class Levels(NamedTuple):
    """Levels in groups of a key."""

    levels: Int64
    """Group by group; a group without a level has the number of levels."""
    starts: Int64
    """(n_groups,)"""

    def sums(self, profiles: Float32) -> Float64:
        """Sums over the levels of each group, (n, n_groups, n_classes), of (n, n_levels, ...)."""
        n, n_levels, n_classes = profiles.shape
        if np.array_equal(self.starts, np.arange(n_levels)) and len(self.levels) == n_levels:
            return profiles[:, self.levels].astype(np.float64)
        found = np.zeros((n, len(self.starts), n_classes))
        # A group without a level is empty, and has a place all the same.
        real = self.levels < n_levels
        starts = np.append(0, np.cumsum(real))[np.append(self.starts, len(real))]
        for profile, sums in zip(profiles, found, strict=True):
            kernels.group_sums(profile, self.levels[real], starts, sums)
        return found

    def ends(self) -> Int64:
        """Where each group ends, (n_groups,)."""
        return np.append(self.starts[1:], len(self.levels))


class Seen(NamedTuple):
    """A model seen through groups."""

    fine: Columns
    columns: Columns
    """Of codes that are groups."""
    house: tuple[Levels, ...]
    """Of household keys but the composition."""
    persons: tuple[Levels, ...]
    """Of keys of members, without what is absent."""

    @classmethod
    def of(cls, data: NestedData, groups: Groups) -> Seen:
        """Look at columns through groups of each column of the table."""
        columns, ends = data.columns, data.cells.offsets
        n_first, n_persons = columns.n_household_keys - columns.n_more, len(columns.absent)

        def of_column(column: int, absent: int = 0) -> Levels:
            first, last = int(groups.offsets[column]), int(groups.offsets[column + 1])
            end = len(groups.rows) if last == len(groups.starts) else int(groups.starts[last])
            begin = int(groups.starts[first])
            starts = groups.starts[first:last] - begin
            levels = groups.rows[begin:end] - ends[column]
            n_levels = int(ends[column + 1] - ends[column])
            found = Levels(np.minimum(levels, n_levels), starts)
            if not absent:
                return found
            return Levels(found.levels[: int(starts[-1])], starts[:-1])

        house = tuple(
            of_column(k if k < n_first else k + columns.n_slots * n_persons)
            for k in range(1, columns.n_household_keys)
        )
        persons = tuple(of_column(n_first + k, 1) for k in range(n_persons))
        roles, first_rows = columns.roles, np.full_like(columns.first_rows, -1)
        n_roles, n_rows, widths = columns.first_rows.shape[1], 0, []
        for k, one in enumerate(persons):
            n = len(one.starts)
            if k == roles.key:
                allowed = np.zeros((n + 1, n_roles), bool)
                allowed[np.repeat(np.arange(n), one.ends() - one.starts), one.levels] = True
                allowed[-1] = True
                roles = roles._replace(allowed=allowed)
                continue
            first_rows[k] = n_rows + n * np.arange(n_roles)
            n_rows += n * n_roles
            widths += [n] * n_roles
        sizes = [int(columns.offsets[1]), *(len(one.starts) for one in house)]
        coarse = columns._replace(
            offsets=np.cumsum([0, *sizes], dtype=np.int64),
            member_offsets=np.cumsum([0, *widths], dtype=np.int64),
            first_rows=first_rows,
            absent=np.array([len(one.starts) for one in persons], np.int64),
            roles=roles,
        )
        return cls(columns, coarse, house, persons)

    def weights(self, weights: Weights) -> Weights:
        """Return the weights of the groups."""
        fine = self.fine
        lam: list[AnyArray] = [weights.lam[: fine.offsets[1]]]
        for k, one in enumerate(self.house, start=1):
            lam.append(one.sums(weights.lam[None, fine.offsets[k] : fine.offsets[k + 1]])[0])
        phi: list[AnyArray] = [weights.phi[:0]]
        for k, one in enumerate(self.persons):
            if k != fine.roles.key:
                rows = fine.first_rows[k][:, None] + np.arange(fine.absent[k])
                sums = one.sums(weights.phi[rows])
                phi.append(sums.reshape(-1, sums.shape[2]))
        return weights._replace(
            lam=np.concatenate(lam).astype(np.float32), phi=np.concatenate(phi).astype(np.float32)
        )


class Blocks(NamedTuple):
    """Groups of a column cut into blocks."""

    first: Int64
    """(n_groups + 1,): first block of each group; the last is of the code -1."""
    many: Int64
    """(n_groups + 1,)"""
    level: Int64
    """(n_blocks + 1,): a level of each; 0 of the block -1, of a key that no rule reads."""
    members: Bool
    """(n_blocks, n_levels)"""

    @classmethod
    def of(cls, members: Bool, alike: Int64 | None) -> Blocks:
        """Cut groups (n_groups, n_levels); alike (n_levels,): see `alike_to`, None if unread."""
        if alike is None:
            n = len(members)
            return cls(
                np.append(np.arange(n), -1),
                np.ones(n + 1, np.int64),
                np.append(members.argmax(axis=1), 0),
                members,
            )
        n_levels = members.shape[1]
        absent = n_levels - len(alike)
        # The code -1 is any level; absent, which is a level and a group of its own, stays last.
        anything = np.arange(n_levels) < len(alike)
        every = [*members[: len(members) - absent], anything, *members[len(members) - absent :]]
        marks = np.append(alike, [-1] * absent)
        cut = [
            [group & (marks == one) for one in np.unique(marks[group])] or [group]
            for group in every
        ]
        many = np.array([len(parts) for parts in cut])
        first = np.cumsum(many) - many
        order = np.delete(np.arange(len(every)), len(every) - 1 - absent)
        order = np.append(order, len(every) - 1 - absent)
        blocks = np.array([part for parts in cut for part in parts])
        return cls(first[order], many[order], np.append(blocks.argmax(axis=1), 0), blocks)


class Listed(NamedTuple):
    """Possible households of blocks of some cells."""

    cells: Int64
    """Which cells."""
    owner: Int64
    """(n_households,): place among these."""
    households: PreparedCells


class _Prepared(NamedTuple):
    """What is the same of cells for all states."""

    cells: PreparedCells
    blocks: Seen | None = None
    listed: Listed | None = None
    """None, as `blocks`, without rules."""
    good: Float64 = np.empty(0)
    """(n,): 0 where every household of a cell is impossible, else 1."""
    drawn: Int64 = np.empty(0, np.int64)
    """Cells of which households are drawn."""

    @classmethod
    def of(cls, data: NestedData, groups: Groups, seen: Seen, cells: Int32) -> _Prepared:
        """List households of blocks, where there are few."""
        prepared = prepare_cells(seen.columns, cells)
        if data.rules is None:
            return cls(prepared)
        blocks = _blocks(data, groups)
        through = Groups.of([one.members for one in blocks])
        within = Seen.of(data, through)
        # In slots beyond the size nobody is left out.
        full = seen.columns.joined(*seen.columns.parts(cells))
        many = np.ones(len(cells))
        for column, one in enumerate(blocks):
            many *= one.many[full[:, column]]
        good = np.ones(len(cells))
        few = np.flatnonzero(many <= MOST_BLOCKS)
        owner = np.repeat(few, many[few].astype(np.int64))
        times = many[few].astype(np.int64)
        number = np.arange(len(owner)) - np.repeat(np.cumsum(times) - times, times)
        rows = np.empty((len(owner), full.shape[1]), np.int32)
        fine = np.empty_like(rows)
        for column, one in enumerate(blocks):
            group = full[owner, column]
            number, digit = np.divmod(number, one.many[group])
            rows[:, column] = one.first[group] + digit
            fine[:, column] = one.level[rows[:, column]]
        fits = possible(data.columns, data.rules, fine)
        n_possible = np.bincount(owner, fits, minlength=len(cells))
        good[few] = n_possible[few] > 0
        mixed = (n_possible > 0) & (n_possible < many) & (many <= MOST_BLOCKS)
        kept = fits & mixed[owner]
        which = np.flatnonzero(mixed)
        place = np.full(len(cells), -1)
        place[which] = np.arange(len(which))
        # Members have no order: each household once.
        households = np.column_stack((place[owner[kept]], within.columns.canonical(rows[kept])))
        n_levels = [max(len(which), 1), *(len(one.members) for one in blocks)]
        first = distinct(households.astype(np.int32), n_levels).first
        listed = Listed(
            which,
            households[first, 0],
            prepare_cells(within.columns, households[first, 1:].astype(np.int32)),
        )
        return cls(prepared, within, listed, good, np.flatnonzero(many > MOST_BLOCKS))


def _blocks(data: NestedData, groups: Groups) -> list[Blocks]:
    """Blocks of each column of the table."""
    columns, rules, ends = data.columns, data.rules, data.cells.offsets
    assert rules is not None
    members = groups.members(int(ends[-1]))
    n_first, n_persons = columns.n_household_keys - columns.n_more, len(columns.absent)
    n_slots = columns.n_slots * n_persons
    found: list[Blocks] = []
    for column in range(len(ends) - 1):
        of_person = n_first <= column < n_first + n_slots
        k = (column - n_first) % n_persons if of_person else column
        if of_person and column >= n_first + n_persons:
            found.append(found[n_first + k])
            continue
        part = members[
            groups.offsets[column] : groups.offsets[column + 1], ends[column] : ends[column + 1]
        ]
        read = rules.person_keys if of_person else rules.house_keys
        n_levels = int(ends[column + 1] - ends[column]) - of_person
        alike = alike_to(rules, n_levels, of_person, k) if k in read and column != 0 else None
        found.append(Blocks.of(part, alike))
    return found


def _share_possible(
    stream: Stream, data: NestedData, weights: Weights, seen: Seen, coarse: Weights, cells: Int32
) -> Float64:
    """Share of the households of each cell that is possible, (n,), by drawing some."""
    columns = seen.columns
    open_roles = columns.lack_roles(cells)
    share = np.empty(len(cells))
    for which, n_draws in (
        (np.flatnonzero(~open_roles), COMPLETIONS),
        (np.flatnonzero(open_roles), 1),
    ):
        # Where roles are not known, one household is drawn for each draw of them.
        asked = np.repeat(cells[which], COMPLETIONS // n_draws, axis=0)
        codes, members = columns.parts(asked)
        roles = columns.roles_known(members)
        if n_draws == 1 and len(asked):
            opened = lay_out_open(columns, asked)
            over_roles(columns, coarse, opened, np.arange(len(asked)), stream, _BEYOND + 1)
            roles = opened.role_of.astype(np.int32)
        good = _drawn(stream, data, weights, seen, coarse, codes, members, roles, n_draws)
        share[which] = good.reshape(len(which), COMPLETIONS).mean(axis=1)
    return share


def _drawn(
    stream: Stream,
    data: NestedData,
    weights: Weights,
    seen: Seen,
    coarse: Weights,
    codes: Int32,
    members: Int32,
    roles: Int32,
    n_draws: int,
) -> Bool:
    """Whether drawn households of cells of groups are possible, (n * n_draws,); roles are known."""
    fine, rules = data.columns, data.rules
    assert rules is not None
    known = seen.columns
    if fine.roles.key >= 0:
        absent = known.absent.copy()
        absent[fine.roles.key] = fine.absent[fine.roles.key]
        known = known._replace(roles=fine.roles, absent=absent)
        members = members.copy()
        members[:, :, fine.roles.key] = roles
    there = np.arange(fine.n_slots) < fine.n_members(codes[:, 0])[:, None]
    roles = np.where(there, roles, 0).astype(np.int32)
    laid = lay_out_households(known, known.joined(codes, members), np.ones(len(codes), np.int64))
    slots = np.full(members.shape, -1, np.int32)
    house_groups, member_groups = np.full(codes.shape, -1), np.full(members.shape, -1)
    starts, levels = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    n_groups = n_levels = 0

    def number(one: Levels, first: int, n: int) -> int:
        """Add the groups of a key of n levels whose rows begin at `first`, and one of all.

        Returns the number of the first.
        """
        nonlocal n_groups, n_levels
        starts.append(n_levels + np.append(one.starts, len(one.levels)))
        levels.append(first + np.append(one.levels, np.arange(n)))
        n_groups, n_levels = n_groups + len(starts[-1]), n_levels + len(levels[-1])
        return n_groups - len(starts[-1])

    for k in set(rules.house_keys.tolist()) - {0}:
        one, first = seen.house[k - 1], int(fine.offsets[k])
        begin = number(one, first, int(fine.offsets[k + 1]) - first)
        house_groups[:, k] = begin + np.where(codes[:, k] < 0, len(one.starts), codes[:, k])
    for k in sorted(set(range(len(fine.absent))) - {fine.roles.key}):
        known_of = there & (members[:, :, k] >= 0)
        slots[:, :, k] = np.where(
            known_of, members[:, :, k] + seen.columns.first_rows[k][roles], -1
        )
        if k in rules.person_keys:
            one, n = seen.persons[k], int(fine.absent[k])
            firsts = np.array([number(one, int(row), n) for row in fine.first_rows[k]])
            group = np.where(members[:, :, k] < 0, len(one.starts), members[:, :, k])
            group += firsts[roles]
            member_groups[:, :, k] = np.where(there, group, -1)
    n = len(codes) * n_draws
    rows, drawn = (
        np.zeros((n, codes.shape[1]), np.int64),
        np.zeros((n, *members.shape[1:]), np.int64),
    )
    kernels.draw_within(
        chain_key(stream.seed, stream.chain),
        stream.sweep,
        PURPOSE_HOUSEHOLD_MASS,
        _BEYOND + n_draws,
        n_draws,
        laid.households,
        person_table(laid.households, coarse),
        coarse,
        weights,
        slots,
        house_groups,
        member_groups,
        np.append(np.concatenate(starts), n_levels),
        np.concatenate(levels),
        rows,
        drawn,
    )
    # Keys that no rule reads have any level.
    own = np.where(np.repeat(house_groups, n_draws, axis=0) >= 0, rows - fine.offsets[:-1], 0)
    own[:, 0] = np.repeat(codes[:, 0], n_draws)
    role_of = np.repeat(roles, n_draws, axis=0)
    first_rows = fine.first_rows[np.arange(len(fine.absent)), role_of[:, :, None]]
    persons = np.where(np.repeat(member_groups, n_draws, axis=0) >= 0, drawn - first_rows, 0)
    if fine.roles.key >= 0:
        persons[:, :, fine.roles.key] = role_of
    return possible(fine, rules, fine.joined(own.astype(np.int32), persons.astype(np.int32)))
