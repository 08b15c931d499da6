"""Where the risk is in the table of two keys: expected population uniques of each cell."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations

import numpy as np

from unikat._typing import Bool, Float64, Int32, Int64
from unikat.data.keys import Key
from unikat.data.structure import structure_of
from unikat.report.facts.breakdown import FEWEST_RECORDS
from unikat.risk.estimate import RiskEstimate

MOST = 18
"""Levels of a key in a map; neighbours of an ordered key are joined, of others the rest."""


@dataclass(frozen=True, kw_only=True)
class RiskMap:
    """The cells of two keys."""

    names: tuple[str, str]
    """Of the keys, that of the rows first."""
    labels: tuple[tuple[str, ...], tuple[str, ...]]
    records: tuple[tuple[float | None, ...], ...]
    """Of each cell; None where they are too few to be told, or would tell such a cell."""
    tau1: tuple[tuple[float | None, ...], ...]
    """Expected population uniques among them; None likewise."""
    n_hidden: int
    """Cells that are not told."""
    tau1_hidden: float
    """Expected population uniques in these."""
    share_of_half: float
    """Share of the records in the fewest cells that together hold half of the expected population
    uniques."""

    @property
    def largest(self) -> float:
        """Expected population uniques of the cell that has most."""
        return max((value or 0.0 for row in self.tau1 for value in row), default=0.0)

    @property
    def total(self) -> float:
        """Expected population uniques of all cells."""
        return sum(value or 0.0 for row in self.tau1 for value in row) + self.tau1_hidden


def risk_map(
    found: RiskEstimate, pair: tuple[str, str] | None = None, *, show_all: bool = False
) -> RiskMap | None:
    """Sum the risk over the cells of two keys.

    Parameters
    ----------
    found
        Of persons.
    pair
        Names of the keys; None: those two in which the risk is in cells of the fewest records.
    show_all
        Tell cells with few records, too.

    Returns
    -------
    RiskMap or None
        None of households, where there are no two such keys, or no risk.
    """
    table = found.table
    r1 = np.nan_to_num(found.records.r1, nan=0.0) * table.counts
    names = [key.name for key in table.keys]
    if table.layout is not None or len(names) < 2 or r1.sum() <= 0.0:
        return None
    if pair is not None and (pair[0] == pair[1] or not set(pair) <= set(names)):
        return None
    counts = table.released.astype(np.float64)
    sides = [side(key, table.cells[:, j], r1) for j, key in enumerate(table.keys)]

    def of(one: int, other: int) -> tuple[Float64, Float64]:
        shape = len(sides[one][1]), len(sides[other][1])
        cell = sides[one][0] * shape[1] + sides[other][0]
        size = shape[0] * shape[1]
        n, risk = (np.bincount(cell, of, size).astype(np.float64) for of in (counts, r1))
        return n.reshape(shape), risk.reshape(shape)

    if pair is None:
        every = list(combinations(range(len(names)), 2))
        shares = [_share_of_half(*of(*places)) for places in every]
        one, other = every[int(np.argmin(shares))]
    else:
        one, other = names.index(pair[0]), names.index(pair[1])
    n, tau1 = of(one, other)
    few = np.zeros(n.shape, np.bool_) if show_all else hidden(n)
    return RiskMap(
        names=(names[one], names[other]),
        labels=(sides[one][1], sides[other][1]),
        records=told(n, few),
        tau1=told(tau1, few),
        n_hidden=int(few.sum()),
        tau1_hidden=float(tau1[few].sum()),
        share_of_half=_share_of_half(n, tau1),
    )


def hidden(n: Float64) -> Bool:
    """Cells that are not told: of few records, and of others by which these could be found.

    The sums of rows and columns are told elsewhere, so that one cell alone would be their
    difference. The smallest other cell of its row or column is then not told either.
    """
    few: Bool = (n > 0) & (n < FEWEST_RECORDS)
    changed = bool(few.any())
    while changed:
        changed = False
        for cells, gone in [*zip(n, few, strict=True), *zip(n.T, few.T, strict=True)]:
            others = np.flatnonzero(~gone & (cells > 0))
            if gone.sum() == 1 and len(others):
                gone[others[np.argmin(cells[others])]] = changed = True
    return few


def told(values: Float64, few: Bool) -> tuple[tuple[float | None, ...], ...]:
    """Values of cells, None where a cell is not told."""
    pairs = zip(values.tolist(), few.tolist(), strict=True)
    return tuple(
        tuple(None if hidden else value for value, hidden in zip(row, gone, strict=True))
        for row, gone in pairs
    )


def _share_of_half(n: Float64, tau1: Float64) -> float:
    risk, records = tau1.ravel(), n.ravel()
    order = np.argsort(-risk / np.maximum(records, 1.0), kind="stable")
    reached = np.cumsum(risk[order]) >= 0.5 * risk.sum() - 1e-12
    return float(records[order][: int(np.argmax(reached)) + 1].sum() / max(records.sum(), 1.0))


def side(key: Key, codes: Int32, r1: Float64) -> tuple[Int64, tuple[str, ...]]:
    """Row of each code, and what the rows are called; missing values are the last one."""
    n = key.n_levels
    missing = bool((codes < 0).any())
    if n <= MOST:
        groups, labels = np.arange(n), list(key.labels)
    elif structure_of(key).is_ordered:
        groups = np.arange(n) * MOST // n
        first = np.searchsorted(groups, np.arange(MOST))
        last = np.searchsorted(groups, np.arange(MOST), side="right") - 1
        labels = [
            key.labels[a] if a == b else f"{key.labels[a]} … {key.labels[b]}"
            for a, b in zip(first.tolist(), last.tolist(), strict=True)
        ]
    else:
        risk = np.bincount(codes[codes >= 0], r1[codes >= 0], n)
        kept = np.sort(np.argsort(-risk, kind="stable")[: MOST - 1])
        groups = np.full(n, MOST - 1)
        groups[kept] = np.arange(MOST - 1)
        labels = [*(key.labels[code] for code in kept.tolist()), "…"]
    if missing:
        labels.append("–")
    return np.where(codes < 0, len(labels) - 1, groups[codes]), tuple(labels)
