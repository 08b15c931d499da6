"""How many records match a pattern of which only some keys are shown."""

from __future__ import annotations

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.households import HouseholdLayout
from unikat.data.keys import MISSING
from unikat.data.patterns import by_known_keys, distinct
from unikat.kernels.margins import add_margin_counts


def as_bits(keys: Bool) -> Int64:
    """Sets of keys (m, n_keys) as integers, key j as bit j, (m,)."""
    bits: Int64 = keys @ (np.int64(1) << np.arange(keys.shape[1], dtype=np.int64))
    return bits


class Patterns:
    """Distinct patterns, grouped by the keys that they know.

    Parameters
    ----------
    cells
        (C, n_keys) distinct, -1 where a key is missing.
    counts
        (C,) records of each.
    """

    def __init__(self, cells: Int32, counts: Int64) -> None:
        self.cells = np.ascontiguousarray(cells)
        self.counts = counts
        self.knows = self.cells != MISSING
        """(C, n_keys)"""
        self.members, masks = by_known_keys(self.cells)
        self.known = as_bits(masks)
        """(n_groups,) keys that the patterns of each group know, as bits."""

    def matching(self, rows: Int64, kept: int) -> Int64:
        """Count the records that match patterns which show some keys alone, (n_rows,).

        rows: patterns that know the keys `kept` (bits). A key that another record lacks matches.
        """
        total = np.zeros(len(rows), np.int64)
        shared, group_of = np.unique(self.known & kept, return_inverse=True)
        for g, common in enumerate(shared):
            answering = np.concatenate([self.members[m] for m in np.flatnonzero(group_of == g)])
            keys = self._keys(common)
            add_margin_counts(self.cells, self.counts, keys, rows, answering, total)
        return total

    def shown(self, rows: Int64, kept: int) -> Int32:
        """Patterns with all keys missing but those kept, (n_rows, n_keys)."""
        cells = np.full((len(rows), self.cells.shape[1]), MISSING, np.int32)
        keys = self._keys(kept)
        cells[:, keys] = self.cells[np.ix_(rows, keys)]
        return cells

    def _keys(self, bits: int) -> Int64:
        return np.flatnonzero((int(bits) >> np.arange(self.cells.shape[1])) & 1)


class HouseholdPatterns:
    """Distinct households. A key is shown of all members of a household, or of none.

    Parameters
    ----------
    cells
        (C, n_columns) distinct rows of the layout, whole (`HouseholdLayout.is_whole`).
    counts
        (C,) households of each.
    layout
        What the columns are.
    of_key
        (n_keys, n_variables): variables of the layout that are of each key. A key that the head has
        apart is shown of all, or of none.
    """

    def __init__(self, cells: Int32, counts: Int64, layout: HouseholdLayout, of_key: Bool) -> None:
        self.cells, self.counts = cells, counts
        self.layout, self.of_key = layout, of_key
        unknown = layout.unknown(cells)[:, None] & of_key
        self.knows = np.logical_not(unknown.any(axis=2))
        """(C, n_keys)"""

    def matching(self, rows: Int64, kept: int) -> Int64:
        """Count the households that match patterns which show some keys alone, (n_rows,).

        rows: patterns that know the keys `kept` (bits). A household that lacks one of them matches
        none of these, which is the safe side: more is suppressed.
        """
        shown = self.shown(np.arange(len(self.cells)), kept)
        found = distinct(shown, [key.n_levels for key in self.layout.columns])
        totals = np.bincount(found.place, self.counts).astype(np.int64)
        matching: Int64 = totals[found.place][rows]
        return matching

    def shown(self, rows: Int64, kept: int) -> Int32:
        """Patterns with all keys missing but those kept, (n_rows, n_columns)."""
        hidden = ((int(kept) >> np.arange(len(self.of_key))) & 1) == 0
        variables = np.broadcast_to(hidden @ self.of_key, (len(rows), self.of_key.shape[1]))
        return self.layout.hiding(self.cells[rows], variables)
