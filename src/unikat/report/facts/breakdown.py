"""Risk by level: which groups of records carry the expected population uniques.

Levels with few records are summed up, so that no line describes single records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.table import CellTable
from unikat.risk.estimate import RiskEstimate

FEWEST_RECORDS = 10
"""Records that a level needs for a line of its own."""
MOST_LEVELS = 100
"""Levels of a variable with a line of their own; of more, those with the highest expected τ1."""
MISSING = "missing"


@dataclass(frozen=True, kw_only=True, eq=False)
class Column:
    """A column by which risk is broken down."""

    name: str
    codes: Int32
    """Positions in `labels`, (n_records,), -1 where the value is missing."""
    labels: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class LevelFacts:
    """Records with one level of a variable."""

    label: str
    n_records: int
    n_uniques: int
    """Sample uniques."""
    tau1: float
    """Expected number of population uniques: sum of the records' r1."""


@dataclass(frozen=True, kw_only=True)
class Breakdown:
    """Risk by the levels of one variable; the numbers add up to those of the file."""

    variable: str
    is_key: bool
    levels: tuple[LevelFacts, ...]
    """Highest expected τ1 first."""
    n_other: int
    """Levels that are summed up in `other`, because they have few records or are many."""
    other: LevelFacts | None


def breakdowns(
    estimate: RiskEstimate, columns: Sequence[Column] = (), *, show_all: bool = False
) -> tuple[Breakdown, ...]:
    """Break the risk down by every key, and by further columns that are no keys.

    With `show_all`, levels with few records get a line of their own too.
    """
    table = estimate.table
    r1 = np.nan_to_num(estimate.records.r1, nan=0.0)
    counts = table.counts
    found = [
        _breakdown(
            key.name, True, table.cells[:, j], key.labels, (counts, table.unique, r1), show_all
        )
        for j, key in enumerate(table.layout.household_keys if table.layout else table.keys)
    ]
    return (*found, *_by_columns(table, r1[table.record_cell], columns, show_all))


def of_records(
    table: CellTable, values: Float64, columns: Sequence[Column] = (), *, show_all: bool = False
) -> tuple[Breakdown, ...]:
    """Break any number of the records down as the risk, (n_records,), in the place of r1."""
    if table.layout is not None:
        return ()
    keys = [
        Column(name=key.name, codes=table.cells[table.record_cell, j], labels=key.labels)
        for j, key in enumerate(table.keys)
    ]
    others = _by_columns(table, values, columns, show_all)
    return (*_by_columns(table, values, keys, show_all, are_keys=True), *others)


def _by_columns(
    table: CellTable,
    values: Float64,
    columns: Sequence[Column],
    show_all: bool,
    *,
    are_keys: bool = False,
) -> list[Breakdown]:
    rows = np.ones(table.n_records, np.int64), table.unique[table.record_cell], values
    keys = set() if are_keys else {key.name for key in table.keys}
    return [
        _breakdown(one.name, are_keys, one.codes, one.labels, rows, show_all)
        for one in columns
        if one.name not in keys
    ]


def _breakdown(
    variable: str,
    is_key: bool,
    codes: Int32,
    labels: Sequence[str],
    rows: tuple[Int64, Bool, Float64],
    show_all: bool,
) -> Breakdown:
    """Sum over rows by code; rows are counts, whether a row is a sample unique, and r1."""
    n_records, n_uniques, tau1 = sums_by_level(codes, len(labels), rows)
    names = (*labels, MISSING)

    def facts(label: str, levels: Int64) -> LevelFacts:
        return LevelFacts(
            label=label,
            n_records=int(n_records[levels].sum()),
            n_uniques=int(n_uniques[levels].sum()),
            tau1=float(tau1[levels].sum()),
        )

    present = np.flatnonzero(n_records)
    alone, others = _separated(present, n_records, tau1, show_all)
    return Breakdown(
        variable=variable,
        is_key=is_key,
        levels=tuple(facts(names[level], np.array([level])) for level in alone),
        n_other=len(others),
        other=facts("other levels", others) if len(others) else None,
    )


def sums_by_level(
    codes: Int32, n_levels: int, rows: tuple[Int64, Bool, Float64]
) -> tuple[Int64, Int64, Float64]:
    """Sum records, sample uniques and r1 over rows, by level.

    Parameters
    ----------
    codes
        (n_rows,): level of each row, -1 where it is missing.
    n_levels
        Of the variable.
    rows
        Records of each row, whether it is a sample unique, and r1; (n_rows,) each.

    Returns
    -------
    tuple
        (n_levels + 1,) each; what is missing comes last.
    """
    counts, unique, r1 = rows
    place = np.where(codes < 0, n_levels, codes)
    n_records = np.bincount(place, weights=counts, minlength=n_levels + 1).astype(np.int64)
    n_uniques = np.bincount(place[unique], weights=counts[unique], minlength=n_levels + 1)
    tau1 = np.bincount(place, weights=counts * r1, minlength=n_levels + 1).astype(np.float64)
    return n_records, n_uniques.astype(np.int64), tau1


def _separated(
    present: Int64, n_records: Int64, tau1: Float64, show_all: bool
) -> tuple[Int64, Int64]:
    """Levels with a line of their own, highest expected τ1 first, and those that are summed up.

    The sum has enough records too; else small levels would follow by subtraction.
    """
    ranked = present[np.argsort(-tau1[present], kind="stable")]
    if show_all:
        return ranked, ranked[:0]
    few = n_records[ranked] < FEWEST_RECORDS
    summed = few | (np.cumsum(~few) > MOST_LEVELS)
    while summed.any() and not summed.all() and n_records[ranked[summed]].sum() < FEWEST_RECORDS:
        # The smallest of the rest joins, the last of those of equal size.
        rest = np.flatnonzero(~summed)
        summed[rest[::-1][np.argmin(n_records[ranked[rest]][::-1])]] = True
    return ranked[~summed], ranked[summed]
