"""All possible cells of a table in a list, for models that condition on the empty ones too."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64, UInt32
from unikat.data.patterns import by_known_keys
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels.fixed_effects import information
from unikat.kernels.mixed_effects import complete
from unikat.kernels.random import PURPOSE_COUNTS, PURPOSE_SIMULATE
from unikat.zeros.diagram import n_possible

MOST_CELLS = 1_000_000
"""Most possible cells that are listed."""
MOST_COMBINATIONS = 20_000_000
"""Most combinations, impossible ones included: each has a place in the list of them."""
MOST_COLUMNS = 2_000
"""Most fixed effects; a sweep factors matrices of as many rows."""
_REMEDY = "Leave keys out, give keys fewer levels, or use the model loglinear."


class Grid(NamedTuple):
    """The listed cells, and the way from a combination of levels to its place among them."""

    cells: Int32
    """(n_cells, n_keys), in lexicographic order."""
    levels: Int64
    """(n_keys,): number of levels of each key."""
    strides: Int64
    """(n_keys,): a combination stands in `place` at its levels times these."""
    place: Int32
    """(n_combinations,): place of each combination among the cells, or -1."""

    def without(self, dropped: Bool) -> Grid:
        """Return the grid with some cells taken from the list."""
        cells = np.ascontiguousarray(self.cells[~dropped])
        return _indexed(cells, self.levels, self.strides)

    def find(self, cells: Int32) -> Int64:
        """Place of complete cells among the listed ones, (n,), -1 where they are not."""
        places: Int64 = self.place[cells @ self.strides].astype(np.int64)
        return places

    def sums(self, mass: Float64, cells: Int32) -> Float64:
        """Sum of mass (n_cells,) over the cells that agree with each pattern, -1 with any level."""
        out = np.zeros(len(cells))
        for rows, known in zip(*by_known_keys(cells), strict=True):
            if known.all():
                places = self.find(cells[rows])
                out[rows] = np.where(places >= 0, mass[places], 0.0)
                continue
            strides = _strides(np.where(known, self.levels, 1)) * known
            sums = np.bincount(
                self.cells @ strides, mass, minlength=math.prod(self.levels[known].tolist())
            )
            out[rows] = sums[np.where(known, cells[rows], 0) @ strides]
        return out

    def records(self, table: CellTable) -> Int64:
        """Complete records of each cell, (n_cells,)."""
        complete = ~table.incomplete
        known = np.zeros(len(self.cells), np.int64)
        known[self.find(table.cells[complete])] = table.counts[complete]
        return known

    def draw(
        self, key: UInt32, sweep: int, purpose: int, patterns: Int32, times: Int64, mass: Float64
    ) -> Int64:
        """Draw a cell for every record of patterns (n, n_keys), in proportion to mass (n_cells,).

        Returns the places of the cells, (sum of times,).
        """
        rows = np.empty(int(times.sum()), np.int64)
        if len(rows):
            complete(
                key, sweep, purpose, patterns, times, self.levels, self.strides, self.place, mass,
                rows,
            )  # fmt: skip
        return rows

    def complete(
        self, key: UInt32, sweep: int, known: Int64, patterns: Int32, times: Int64, mass: Float64
    ) -> Int64:
        """Records of each cell, (n_cells,): those that are known and those of patterns, drawn."""
        rows = self.draw(key, sweep, PURPOSE_COUNTS, patterns, times, mass)
        counts: Int64 = known + np.bincount(rows, minlength=len(known))
        return counts

    def draw_new(self, key: UInt32, sweep: int, mass: Float64, n_records: int) -> Int32:
        """Draw the keys of new individuals, (n_records, n_keys), in proportion to mass."""
        anything = np.full((1, len(self.levels)), -1, np.int32)
        times = np.array([n_records])
        return self.cells[self.draw(key, sweep, PURPOSE_SIMULATE, anything, times, mass)]


class Design(NamedTuple):
    """Entries of the design matrix that are 1; all others are 0."""

    starts: Int64
    """(n_cells + 1,): first entry of each cell in `columns`."""
    columns: Int32
    """(n_entries,): columns of a cell, ascending."""
    column_starts: Int64
    """(n_columns + 1,): first entry of each column in `column_cells`."""
    column_cells: Int32
    """(n_entries,)"""
    gram: Float64
    """(n_columns, n_columns): W'W, its upper triangle."""

    @property
    def n_columns(self) -> int:
        """Number of fixed effects."""
        return len(self.column_starts) - 1


def list_cells(table: CellTable, model: str) -> Grid:
    """List the possible cells of a table for a model, which messages name.

    Examples
    --------
    >>> from unikat.data.keys import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> grid = list_cells(CellTable.from_codes([[0, 2]], keys, population_size=9), "mixed-effects")
    >>> len(grid.cells), grid.find(np.array([[1, 0]])).tolist()
    (6, [3])
    """
    combinations = math.prod(table.n_levels)
    n = combinations if table.zeros is None else n_possible(table.zeros, table.n_levels)
    if n > MOST_CELLS:
        raise SpecError(
            f"The keys have {n:,} possible combinations; {model} lists them all and takes "
            f"at most {MOST_CELLS:,}. {_REMEDY}"
        )
    if combinations > MOST_COMBINATIONS:
        raise SpecError(
            f"The keys have {combinations:,} combinations, impossible ones included; "
            f"{model} takes at most {MOST_COMBINATIONS:,}. {_REMEDY}"
        )
    levels = np.array(table.n_levels, np.int64)
    if table.zeros is None:
        cells = np.stack(np.unravel_index(np.arange(n), table.n_levels), axis=1)
    else:
        cells = np.zeros((1, table.n_keys), np.int64)
        node = np.zeros(1, np.int64)
        for key in table.zeros.order.tolist():
            n_levels = table.n_levels[key]
            after = table.zeros.child[node, :n_levels]
            parent, level = np.nonzero(after >= 0)
            cells = cells[parent]
            cells[:, key] = level
            node = after[parent, level].astype(np.int64)
        cells = cells[np.argsort(cells @ _strides(levels))]
    grid = _indexed(np.ascontiguousarray(cells, np.int32), levels, _strides(levels))
    if (grid.sums(np.ones(n), table.cells) == 0.0).any():
        raise SpecError("Records lie in impossible combinations; apply the rules to the table.")
    return grid


def design_of(grid: Grid, fixed: str, intercept: bool) -> Design:
    """Treatment contrasts from the first level of each key, and products of two of them."""
    n_cells, n_keys = grid.cells.shape
    contrasts = (grid.levels - 1).tolist()
    terms: list[tuple[int, ...]] = [()] if intercept else []
    if fixed != "none":
        terms += [(j,) for j in range(n_keys)]
    if fixed == "two-way":
        terms += list(itertools.combinations(range(n_keys), 2))
    sizes = [math.prod(contrasts[j] for j in term) for term in terms]
    n_columns = sum(sizes)
    if n_columns > MOST_COLUMNS:
        raise SpecError(
            f"fixed={fixed!r} has {n_columns:,} effects for these keys; mixed-effects takes at "
            f"most {MOST_COLUMNS:,}. Use fixed='independence', or keys with fewer levels."
        )
    entries = np.full((n_cells, len(terms)), -1, np.int32)
    first = 0
    for t, term in enumerate(terms):
        column, present = np.zeros(n_cells, np.int64), np.ones(n_cells, np.bool_)
        for j in term:
            level = grid.cells[:, j]
            column = column * contrasts[j] + level - 1
            present &= level > 0
        entries[present, t] = (first + column)[present]
        first += sizes[t]
    has = entries >= 0
    starts = np.concatenate(([0], np.cumsum(has.sum(axis=1)))).astype(np.int64)
    columns = entries[has]
    owner = np.nonzero(has)[0].astype(np.int32)
    counts = np.bincount(columns, minlength=n_columns)
    gram = np.zeros((n_columns, n_columns))
    information(starts, columns, np.ones(n_cells), gram)
    return Design(
        starts=starts,
        columns=columns,
        column_starts=np.concatenate(([0], np.cumsum(counts))).astype(np.int64),
        column_cells=owner[np.argsort(columns, kind="stable")],
        gram=gram,
    )


def _indexed(cells: Int32, levels: Int64, strides: Int64) -> Grid:
    place = np.full(math.prod(levels.tolist()), -1, np.int32)
    place[cells @ strides] = np.arange(len(cells))
    return Grid(cells, levels, strides, place)


def _strides(levels: Int64) -> Int64:
    below = np.concatenate((np.cumprod(levels[::-1])[:-1][::-1], [1])).astype(np.int64)
    return below
