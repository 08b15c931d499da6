"""How many records match a pattern of which only some keys are shown."""

from __future__ import annotations

import numpy as np

from unikat._typing import Bool, Int32, Int64
from unikat.data.keys import MISSING
from unikat.data.patterns import by_known_keys
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

    def most_alike(self, kept: int) -> int:
        """Count at most how many records match one margin of some keys (bits).

        The largest margin among those that know the keys, and all that do not.
        """
        knows = (self.known & kept) == kept
        parts = [part for part, full in zip(self.members, knows, strict=True) if full]
        rows = np.concatenate(parts) if parts else np.empty(0, np.int64)
        total = np.zeros(len(rows), np.int64)
        add_margin_counts(self.cells, self.counts, self._keys(kept), rows, rows, total)
        others = int(self.counts.sum() - self.counts[rows].sum())
        return int(total.max(initial=0)) + others

    def shown(self, rows: Int64, kept: int) -> Int32:
        """Patterns with all keys missing but those kept, (n_rows, n_keys)."""
        cells = np.full((len(rows), self.cells.shape[1]), MISSING, np.int32)
        keys = self._keys(kept)
        cells[:, keys] = self.cells[np.ix_(rows, keys)]
        return cells

    def _keys(self, bits: int) -> Int64:
        return np.flatnonzero((int(bits) >> np.arange(self.cells.shape[1])) & 1)
