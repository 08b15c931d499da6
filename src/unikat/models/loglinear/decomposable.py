"""Decomposable log-linear models in closed form, whatever the number of cells.

    p_c = prod_v f(c_v, c_parents(v)) / f(c_parents(v))          v in a perfect order of the keys

(Lauritzen 1996, section 4.4). Only margins that are occupied are needed, so the grid may have any
number of cells. It has neither missing keys nor structural zeros: then there is no closed form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import listed_completions, numbered, sum_equal
from unikat.data.table import CellTable

_SMALL = 100_000
"""Combinations up to which they are counted in place, without sorting."""


class DecomposableFit(NamedTuple):
    """A fit in closed form; the sample itself is what is kept."""

    order: tuple[tuple[int, tuple[int, ...]], ...]
    """Each key with the earlier keys it depends on."""
    n_levels: tuple[int, ...]
    cells: Int32
    """(n_cells, n_keys)"""
    counts: Int64

    @classmethod
    def of(cls, table: CellTable, order: list[tuple[int, tuple[int, ...]]]) -> DecomposableFit:
        """Fit to a table without missing keys and structural zeros."""
        return cls(tuple(order), table.n_levels, table.cells, table.counts)

    def probabilities(self, cells: Int32) -> Float64:
        """Probability of each cell, (n,); -1 leaves a key out."""
        p = np.ones(len(cells))
        complete = (cells >= 0).all(axis=1)
        for key, parents in self.order:
            above = self._counts(parents, cells[complete])
            both = self._counts((*parents, key), cells[complete])
            p[complete] *= np.divide(both, above, out=np.zeros(len(both)), where=above > 0)
        partly = ~complete & (cells >= 0).any(axis=1)
        if partly.any():
            completed, owner = listed_completions(cells[partly], self.n_levels)
            p[partly] = np.bincount(owner, self.probabilities(completed))
        return p

    def _counts(self, keys: tuple[int, ...], cells: Int32) -> Float64:
        """Records of the sample that agree with each cell in some keys."""
        if not keys:
            return np.full(len(cells), float(self.counts.sum()))
        levels = [self.n_levels[j] for j in keys]
        if math.prod(levels) <= _SMALL:
            ours = np.ravel_multi_index(tuple(self.cells[:, keys].T), levels)
            found = np.bincount(ours, self.counts, minlength=math.prod(levels))
            counted: Float64 = found[np.ravel_multi_index(tuple(cells[:, keys].T), levels)]
            return counted
        return sum_equal(cells[:, keys], self.cells[:, keys], self.counts.astype(float), levels)

    def simulate(self, generator: np.random.Generator, n: int) -> Int32:
        """Draw n individuals: each key as in a record of the sample with the same parents."""
        records = np.repeat(self.cells, self.counts, axis=0)
        drawn = np.empty((n, len(self.n_levels)), np.int32)
        for key, parents in self.order:
            levels = [self.n_levels[j] for j in parents]
            ours, theirs, _ = numbered(records[:, parents], drawn[:, parents], levels)
            order = np.argsort(ours, kind="stable")
            first = np.searchsorted(ours[order], theirs, side="left")
            last = np.searchsorted(ours[order], theirs, side="right")
            pick = first + (generator.random(n) * (last - first)).astype(np.int64)
            drawn[:, key] = records[order[np.minimum(pick, last - 1)], key]
        return drawn
