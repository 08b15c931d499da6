"""Columns that tell a key, or follow from one, and what becomes of them when the key is recoded.

A column C *tells* a key X if who knows C guesses X; it *follows* X if X tells C. A copy does both,
the region of a municipality follows it, a birth year tells the age. Each is measured beyond groups
G of the levels of X that a reader is shown anyway, as Goodman and Kruskal's tau without chance: the
gain in the probability that another record of the same C and G has the same X, over that of another
record of the same G. Pairs of different records alone count, so that the expected gain is 0 where C
and X are independent within G, however many values C has; a value of one record tells nothing.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import NamedTuple, Self

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.protection.recoding import KeyRecoding

LINKED = 0.9
"""Measure from which on a column is linked with a key."""
_LEAST_SHARE = 0.1
"""Share of the records, at least, whose value of the column or level of the key others have."""
_LEAST_WRONG = 5.0
"""Records whose level is not guessed from the groups alone, at least."""


class Pairs(NamedTuple):
    """How many records have each value of a column with each level of a key."""

    values: Int64
    """(m,) numbers of values, of the pairs that occur."""
    levels: Int64
    """(m,) levels of the key."""
    counts: Int64
    """(m,) records."""
    n_records: int
    """All, also those of whom one of both is missing."""

    @classmethod
    def of(cls, values: Int32 | Int64, levels: Int32 | Int64) -> Self:
        """Count (n,) values and levels, -1 where missing."""
        known = (values >= 0) & (levels >= 0)
        n_levels = int(levels.max(initial=0)) + 1
        both = values[known].astype(np.int64) * n_levels + levels[known]
        most = (int(values.max(initial=0)) + 1) * n_levels
        if most <= 4 * len(values):
            counts = np.bincount(both, minlength=most)
            found = np.flatnonzero(counts)
            counts = counts[found]
        else:
            found, counts = np.unique(both, return_counts=True)
        return cls(found // n_levels, found % n_levels, counts, len(values))

    def tells(self, groups: Int32) -> float:
        """How much the column tells of the key beyond (n_levels,) groups of its levels."""
        return _gain(self, self.levels, self.values, groups[self.levels])

    def follows(self, groups: Int32) -> float:
        """How much the key tells of the column beyond the groups."""
        return _gain(self, self.values, self.levels, groups[self.levels])

    def measure(self, groups: Int32) -> float:
        """The larger of both; 0 if too few records tell it."""
        return max(self.tells(groups), self.follows(groups))

    def coarser_than(self, groups: Int32) -> bool:
        """Whether the groups tell the column: each has one value."""
        seen = np.unique(np.stack([groups[self.levels], self.values]), axis=1)
        return bool(len(np.unique(seen[0])) == seen.shape[1])

    def follows_exactly(self) -> bool:
        """Whether each level of the key has one value."""
        return len(np.unique(self.levels)) == len(self.levels)


def _gain(pairs: Pairs, inner: Int64, outer: Int64, groups: Int32) -> float:
    """How much `outer` tells of `inner` within groups, each (m,); see the module."""
    counts = pairs.counts
    cell = _numbered(groups, outer)
    n_cell = np.bincount(cell, counts)
    n_group = np.bincount(groups, counts)
    group_of = np.zeros(len(n_cell), np.int64)
    group_of[cell] = groups
    alike = np.bincount(cell, counts * (counts - 1.0))
    both = _numbered(groups, inner)
    n_both = np.bincount(both, counts)
    group_of_both = np.zeros(len(n_both), np.int64)
    group_of_both[both] = groups
    by_chance = np.bincount(group_of_both, n_both * (n_both - 1.0), minlength=len(n_group))
    chance = by_chance / np.maximum(n_group * (n_group - 1.0), 1.0)
    several = n_cell >= 2
    n, q = n_cell[several], chance[group_of[several]]
    wrong = float((n * (1.0 - q)).sum())
    if n.sum() < _LEAST_SHARE * pairs.n_records or wrong < _LEAST_WRONG:
        return 0.0
    return float((alike[several] / (n - 1.0) - n * q).sum()) / wrong


def _numbered(one: Int32, two: Int64) -> Int64:
    """Number the different pairs of (m,) numbers."""
    width = int(two.max(initial=0)) + 1
    place = np.unique(one.astype(np.int64) * width + two, return_inverse=True)[1]
    found: Int64 = place.ravel().astype(np.int64)
    return found


class Link(NamedTuple):
    """A column and a key."""

    key: int
    """Number of the key."""
    measure: float
    member: bool
    """Whether it is the key of another member of the household."""


def links(
    values: Int32, codes: Int32, homes: Homes | None = None, only: Collection[int] | None = None
) -> list[Link]:
    """Find the keys that a column is linked with, the closest first.

    Parameters
    ----------
    values
        (n,) numbers of the column's values, -1 where missing.
    codes
        (n, n_keys), -1 where missing.
    homes
        Whose key the column may also be; None without households.
    only
        Keys that are looked at; None: all.
    """
    found = []
    for key in range(codes.shape[1]) if only is None else only:
        samples = [(values, codes[:, key])]
        if homes is not None:
            samples += homes.samples(values, codes[:, key])
        for number, (some, levels) in enumerate(samples):
            if not len(some):
                continue
            together = np.zeros(int(codes[:, key].max(initial=0)) + 1, np.int32)
            measure = Pairs.of(some, levels).measure(together)
            if measure >= LINKED:
                found.append(Link(key, measure, number > 0))
                break
    return sorted(found, key=lambda one: (one.member, -one.measure))


class Homes(NamedTuple):
    """Records whose household tells whom a column of it can be about."""

    alone: Int64
    """Records of households of one."""
    one: Int64
    """Records of households of two, each once."""
    other: Int64
    """(len(one),): the other member of each."""

    @classmethod
    def of(cls, household: Int32) -> Self:
        """Find them by (n,) numbers of households, -1 where none."""
        rows = np.flatnonzero(household >= 0)
        rows = rows[np.argsort(household[rows], kind="stable")]
        numbers = household[rows]
        _, first, sizes = np.unique(numbers, return_index=True, return_counts=True)
        two = first[sizes == 2]
        return cls(
            rows[first[sizes == 1]],
            np.concatenate([rows[two], rows[two + 1]]),
            np.concatenate([rows[two + 1], rows[two]]),
        )

    def samples(self, values: Int32, levels: Int32) -> list[tuple[Int32, Int32]]:
        """The column with the key of who is alone, and of the other one of two."""
        return [(values[self.alone], levels[self.alone]), (values[self.one], levels[self.other])]


def telling(
    columns: Iterable[tuple[str, Int32]],
    codes: Int32,
    keys: Sequence[KeyRecoding],
    hidden: Collection[str] = (),
) -> tuple[tuple[str, str], ...]:
    """Find columns that tell more of a key than a file shows: a copy, a year of birth.

    Parameters
    ----------
    columns
        Names, and (n,) numbers of the values.
    codes
        (n, n_keys): of the keys as they were.
    keys
        What became of them.
    hidden
        Names of keys of which values were perturbed or suppressed: what tells one, tells these.

    Returns
    -------
    tuple
        Names of columns, each with that of the key.
    """
    found = []
    for name, values in columns:
        for j, one in enumerate(keys):
            joins = one.key is None or one.key.n_levels < len(one.groups)
            if not joins and one.name not in hidden:
                continue
            groups = np.zeros_like(one.groups) if one.name in hidden else one.groups
            if Pairs.of(values, codes[:, j]).measure(groups) >= LINKED:
                found.append((name, one.name))
    return tuple(found)


def followed(
    pairs: Mapping[int, Pairs], keys: Sequence[KeyRecoding], n_values: int
) -> Int64 | None:
    """Join the values of a column so that the groups of recoded keys tell what is left of it.

    Parameters
    ----------
    pairs
        Of the column with each key that it is linked with; it follows all of them exactly.
    keys
        What becomes of the keys.
    n_values
        Of the column.

    Returns
    -------
    Int64 or None
        (n_values,) group of each value; None if all would be one.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    rows, columns, n = [], [], n_values
    for key, one in pairs.items():
        rows.append(one.values)
        columns.append(n + keys[key].groups[one.levels])
        n += int(keys[key].groups.max()) + 1
    at = np.concatenate(rows), np.concatenate(columns)
    graph = coo_array((np.ones(len(at[0]), bool), at), shape=(n, n))
    part: Int64 = connected_components(graph, directed=False)[1][:n_values].astype(np.int64)
    there = np.unique(np.concatenate(rows))
    return part if len(np.unique(part[there])) > 1 else None


def told(values: Float64 | Int32, levels: Int32) -> float:
    """Share of the records that have the commonest level of their value."""
    pairs, counts = np.unique(np.column_stack((values, levels)), axis=0, return_counts=True)
    starts = np.flatnonzero(np.diff(pairs[:, 0], prepend=pairs[0, 0] - 1))
    return float(np.maximum.reduceat(counts, starts).sum() / len(values))
