"""Known margins of the population in `result.json`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from unikat.data.margins import margin_cell
from unikat.data.table import CellTable, Margin


@dataclass(frozen=True, kw_only=True)
class MarginResult:
    """Exact counts of the population over some keys, and what they add to the sample."""

    file: str
    """Name of the file, or what a frame is called."""
    keys: tuple[str, ...]
    n_cells: int
    """Combinations of levels that have units in the population."""
    n_outside: int
    """Units at levels that the keys do not have."""
    standard_error: float | None
    """Relative standard error of the count as the sample alone estimates it, for the margin cell of
    a typical sample unique (median); None without complete sample uniques."""
    off: float | None
    """How far the sample's estimate is off, relative to the count, in the same way."""


def margin_results(table: CellTable) -> tuple[MarginResult, ...]:
    """Return the facts of a table's margins."""
    return tuple(_result(margin, table) for margin in table.margins)


def _result(margin: Margin, table: CellTable) -> MarginResult:
    cell = margin_cell(table.cells, margin.keys, table.n_levels)
    known = cell >= 0
    records = np.bincount(cell[known], table.counts[known], len(margin.counts))
    of_uniques = cell[table.unique & known]
    error = off = None
    if len(of_uniques):
        n, size = table.n_records, float(table.n_units)
        units = margin.counts[of_uniques]
        share = units / size
        # Of a simple random sample, without replacement.
        errors = np.sqrt(np.maximum((1.0 - n / size) * (1.0 - share), 0.0) / (n * share))
        error = float(np.median(errors))
        off = float(np.median(np.abs(records[of_uniques] * size / n / units - 1.0)))
    return MarginResult(
        file=margin.name,
        keys=tuple(table.keys[j].name for j in margin.keys),
        n_cells=int(np.count_nonzero(margin.counts)),
        n_outside=margin.outside,
        standard_error=error,
        off=off,
    )
