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
    completed,
    of_prepared,
    over_sizes,
    prepare_cells,
)
from unikat.models.households.records import Columns, NestedData, possible
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
    """What was found out about cells; anew if it was not, or of too many."""
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
        padded = np.zeros((n, n_levels + 1, n_classes))
        padded[:, :-1] = profiles
        found: Float64 = np.add.reduceat(padded[:, self.levels], self.starts, axis=1)
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
    stream: Stream,
    data: NestedData,
    weights: Weights,
    seen: Seen,
    coarse: Weights,
    cells: Int32,
) -> Float64:
    """Share of the households of each cell that is possible, (n,), by drawing some."""
    fine, rules = data.columns, data.rules
    assert rules is not None
    which = np.arange(len(cells) * COMPLETIONS)
    drawn = completed(
        stream,
        PURPOSE_HOUSEHOLD_MASS,
        seen.columns,
        coarse,
        np.repeat(cells, COMPLETIONS, axis=0),
        which,
        _BEYOND + 1,
    )
    sizes = fine.n_members(drawn.cells[:, 0])
    codes, members = (part.astype(np.int64) for part in fine.parts(drawn.cells))
    there = np.arange(fine.n_slots) < sizes[:, None]
    role_of = np.where(there, members[:, :, fine.roles.key], 0) if fine.roles.key >= 0 else 0
    starts: list[Int64] = []
    levels: list[Int64] = []
    n_groups = n_levels = 0

    def number(one: Levels, first: int) -> int:
        """Add the groups of a key whose rows begin at `first`; return the number of the first."""
        nonlocal n_groups, n_levels
        starts.append(n_levels + one.starts)
        levels.append(first + one.levels)
        n_groups, n_levels = n_groups + len(one.starts), n_levels + len(one.levels)
        return n_groups - len(one.starts)

    rows, slots = np.full_like(codes, -1), np.full_like(members, -1)
    for k in set(rules.house_keys.tolist()) - {0}:
        rows[:, k] = codes[:, k] + number(seen.house[k - 1], int(fine.offsets[k]))
    keys = sorted(set(rules.person_keys.tolist()) - {fine.roles.key})
    for k in keys:
        firsts = np.array([number(seen.persons[k], int(row)) for row in fine.first_rows[k]])
        slots[:, :, k] = np.where(there, members[:, :, k] + firsts[role_of], -1)
    kernels.draw_within(
        chain_key(stream.seed, stream.chain),
        stream.sweep,
        PURPOSE_HOUSEHOLD_MASS,
        _BEYOND + 2,
        which,
        weights.lam,
        weights.phi,
        drawn.g,
        drawn.m,
        weights.omega.shape[1],
        rows,
        slots,
        np.append(np.concatenate([*starts, np.empty(0, np.int64)]), n_levels),
        np.concatenate([*levels, np.empty(0, np.int64)]),
    )
    # Keys that no rule reads have any level.
    own = np.where(rows >= 0, rows - fine.offsets[:-1], 0)
    own[:, 0] = codes[:, 0]
    persons = np.zeros_like(members)
    for k in keys:
        persons[:, :, k] = slots[:, :, k] - fine.first_rows[k][role_of]
    if fine.roles.key >= 0:
        persons[:, :, fine.roles.key] = role_of
    made = fine.joined(own.astype(np.int32), persons.astype(np.int32))
    share: Float64 = possible(fine, rules, made).reshape(len(cells), COMPLETIONS).mean(axis=1)
    return share
