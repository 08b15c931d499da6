"""Companions: the other sampled members of the households that the records of a cell are from.

Where whole households were drawn, members are no independent draws: three members with the same
rare region, tenure and size are three records of one combination, which then looks frequent. So
the probability of a cell is taken as if of each household with records in it only one of these had
been sampled (`kernels.thinning`). What is left out are the companions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.patterns import agreeing
from unikat.data.table import CellTable

MOST_RECORDS = 10
"""Of a cell whose companions are left out. A cell of more is frequent whatever they are, and to
leave them out would take long."""


class Companions(NamedTuple):
    """Records that are left out of the probability of each of n cells."""

    starts: Int64
    """(n + 1,): where those of each cell begin in `records`."""
    records: Int64
    """Numbers of records, from 0 in the order of the input; ascending within a cell."""
    unit: Int64
    """(n,): first record of each cell, which addresses its random numbers; 0 without any."""

    @property
    def some(self) -> Bool:
        """Whether each cell has companions, (n,)."""
        found: Bool = self.starts[1:] > self.starts[:-1]
        return found

    def taken(self, which: Int64 | Bool) -> Companions:
        """Return those of some cells.

        Examples
        --------
        >>> two = Companions(np.array([0, 1, 3]), np.array([7, 8, 9]), np.array([1, 2]))
        >>> two.taken(np.array([1, 0])).records.tolist()
        [8, 9, 7]
        """
        which = np.arange(len(self.unit))[which]
        sizes = np.diff(self.starts)[which]
        starts = np.concatenate(([0], np.cumsum(sizes)))
        place = np.arange(starts[-1]) + np.repeat(self.starts[which] - starts[:-1], sizes)
        return Companions(starts, self.records[place], self.unit[which])


@dataclass(frozen=True, kw_only=True, eq=False)
class Members:
    """Households of a sample, some of which have several members in it. Made by :meth:`of`."""

    codes: Int32
    """(n_records, n_keys), -1 where missing."""
    n_levels: tuple[int, ...]
    households: Int32
    """(n_records,): number of the household each record was drawn with."""
    by_household: Int64
    """(n_records,): records, household by household, ascending within each."""
    first: Int64
    """(n_households + 1,): where each household begins in `by_household`."""
    incomplete: Int64
    """(n_incomplete,): records with a missing key, as `CellTable.imputed_records`."""

    @classmethod
    def of(cls, table: CellTable) -> Members | None:
        """Return None if records were drawn one by one, or no two of a household are there."""
        households = table.households
        if households is None or not len(households) or np.bincount(households).max() < 2:
            return None
        return cls(
            codes=table.cells[table.record_cell],
            n_levels=table.n_levels,
            households=households,
            by_household=np.argsort(households, kind="stable"),
            first=np.concatenate(([0], np.cumsum(np.bincount(households)))),
            incomplete=table.imputed_records,
        )

    def n_households(self, table: CellTable) -> Int64:
        """Households with a record in each cell of the table, (n_cells,)."""
        pairs = np.unique(table.record_cell * np.int64(len(self.first)) + self.households)
        return np.bincount(pairs // len(self.first), minlength=table.n_cells)

    def companions(self, patterns: Int32, imputed: Int32 | None = None) -> Companions:
        """Find the companions of patterns (n, n_keys), -1 where a key is left out.

        The records of a pattern are those that agree in the keys that it has.

        Parameters
        ----------
        patterns
            Codes as of the table.
        imputed
            (n_incomplete, n_keys): incomplete records as they are completed; None: they agree with
            no pattern that has a key which they lack.

        Examples
        --------
        Records 0 and 1 share a household and a cell, record 2 only the household.

        >>> from dataclasses import replace
        >>> from unikat.data.keys import Key
        >>> table = CellTable.from_codes([[0], [0], [1], [2]], [Key.of_size("A", 3)], 90)
        >>> table = replace(table, households=np.array([5, 5, 5, 6], np.int32))
        >>> found = Members.of(table).companions(table.cells)
        >>> found.starts.tolist(), found.records.tolist(), found.unit.tolist()
        ([0, 2, 4, 4], [1, 2, 0, 1], [0, 2, 3])
        """
        codes = self.codes
        if imputed is not None:
            codes = codes.copy()
            codes[self.incomplete] = imputed
        pattern, record = _pairs(patterns, codes, self.n_levels)
        unit = np.zeros(len(patterns), np.int64)
        unit[pattern[::-1]] = record[::-1]
        # Of the records of a household in a cell the first stands for all.
        home = self.households[record]
        _, own = np.unique(pattern * (len(self.first) + 1) + home, return_index=True)
        pattern, record, home = pattern[own], record[own], home[own]
        sizes = np.diff(self.first)[home]
        place = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        found = self.by_household[np.repeat(self.first[home], sizes) + place]
        left_out = found != np.repeat(record, sizes)
        found, of = found[left_out], np.repeat(pattern, sizes)[left_out]
        found = found[np.lexsort((found, of))]
        sizes = np.bincount(of, minlength=len(patterns))
        return Companions(np.concatenate(([0], np.cumsum(sizes))), found, unit)


def companions_of(table: CellTable, patterns: Int32) -> Companions | None:
    """Companions of patterns (n, n_keys) in a table; None if no record has any."""
    members = Members.of(table)
    return None if members is None else members.companions(patterns)


def _pairs(patterns: Int32, codes: Int32, n_levels: tuple[int, ...]) -> tuple[Int64, Int64]:
    """Patterns with few records, and each of these: pairs sorted by pattern and record."""
    pairs = [(np.zeros(0, np.int64), np.zeros(0, np.int64))]
    for met in agreeing(patterns, codes, n_levels):
        order = np.argsort(met.offered, kind="stable")
        sizes = np.bincount(met.offered, minlength=met.n_numbers)
        starts = np.cumsum(sizes) - sizes
        few = sizes[met.wanted] <= MOST_RECORDS
        asking, wanted = met.asking[few], met.wanted[few]
        size = sizes[wanted]
        place = np.arange(size.sum()) - np.repeat(np.cumsum(size) - size, size)
        answering = met.answering[order][np.repeat(starts[wanted], size) + place]
        pairs.append((np.repeat(asking, size), answering))
    pattern, record = (np.concatenate(part) for part in zip(*pairs, strict=True))
    order = np.lexsort((record, pattern))
    return pattern[order], record[order]
