"""What synthetic files are good for: margins beside those of the original, and pMSE.

Of a margin with cells c, of which the original has o_c of n records and a synthetic file s_c of m,

    distance     sum |o_c / n - s_c / m| / 2
    pMSE         sum t_c / (n + m) (s_c / t_c - h)^2,     t_c = o_c + s_c,  h = m / (n + m)
    pMSE ratio   pMSE over its mean (k - 1) h (1 - h)^2 / (n + m) if the synthetic records were
                 drawn from the original's own shares, k being the cells with t_c > 0

(Raab, Nowok and Dibben 2021, section 3; Snoke and others 2018, section 3.1). A ratio of 1 is that
of records drawn from the original's own shares, and 1 / (1 - h), 2 for files of one size, that of a
second sample of the same population.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from math import comb
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import distinct, is_in

MOST_MARGINS = 500
"""Margins of one order that are looked at, spread over all in their order."""
MOST_CELLS = 20_000_000
"""Cells of a margin that is looked at."""
LEAST_EXPECTED = 10
"""Records of the original that a plotted cell has at least."""


@dataclass(frozen=True, kw_only=True)
class MarginUtility:
    """One margin; means over the synthetic files."""

    variables: tuple[str, ...]
    n_cells: int
    """Cells that the original or a synthetic file has."""
    distance: float
    """Total variation distance."""
    distance_expected: float
    """The same between the original and a second sample of the population, about."""
    pmse: float
    pmse_ratio: float


@dataclass(frozen=True, kw_only=True)
class OrderUtility:
    """All margins of one order."""

    order: int
    n_margins: int
    n_looked_at: int
    margins: tuple[MarginUtility, ...]
    distance: float
    """Mean over the margins looked at, as the next two."""
    distance_expected: float
    pmse_ratio: float


class Points(NamedTuple):
    """Cells of margins of one order, for a plot; those of at least 10 records."""

    original: Float64
    synthetic: Float64
    """Mean over the files."""


def margin_utility(
    original: Int32, synthetic: Sequence[Int32], n_levels: Sequence[int], names: Sequence[str]
) -> tuple[tuple[OrderUtility, ...], tuple[Points, ...]]:
    """Compare the one-, two- and three-way margins.

    Parameters
    ----------
    original
        (n, n_keys) codes, -1 where missing: a record counts for the margins of keys that it has.
    synthetic
        The same of each synthetic file.
    n_levels, names
        Of the keys.
    """
    # Missing is a level here, left out of the counts.
    sizes = np.array(n_levels, np.int64)
    files = [np.ascontiguousarray(codes.T, np.int64) for codes in (original, *synthetic)]
    orders, points = [], []
    for order in (1, 2, 3):
        every = [
            one
            for one in combinations(range(len(names)), order)
            if np.prod(sizes[list(one)].astype(np.float64)) < MOST_CELLS
        ]
        if not every:
            continue
        at = np.unique(np.linspace(0, len(every) - 1, min(len(every), MOST_MARGINS)).astype(int))
        found, first, second = [], [], []
        for one in (every[i] for i in at):
            keys = list(one)
            counts = [_counts(columns, keys, sizes) for columns in files]
            found.append(_margin(counts, tuple(names[key] for key in one)))
            shares = [count / max(count.sum(), 1) for count in counts]
            shown = counts[0] >= LEAST_EXPECTED
            first.append(shares[0][shown])
            second.append(np.mean([share[shown] for share in shares[1:]], axis=0))
        orders.append(
            OrderUtility(
                order=order,
                n_margins=comb(len(names), order),
                n_looked_at=len(found),
                margins=tuple(found),
                distance=float(np.mean([one.distance for one in found])),
                distance_expected=float(np.mean([one.distance_expected for one in found])),
                pmse_ratio=float(np.mean([one.pmse_ratio for one in found])),
            )
        )
        points.append(Points(np.concatenate(first), np.concatenate(second)))
    return tuple(orders), tuple(points)


def _counts(columns: Int64, keys: Sequence[int], sizes: Int64) -> Int64:
    """Records in each cell of a margin, of the columns (n_keys, n) of a file."""
    place = columns[keys[0]]
    missing = place < 0
    for key in keys[1:]:
        missing = missing | (columns[key] < 0)
        place = place * sizes[key] + columns[key]
    known = place[~missing] if missing.any() else place
    return np.bincount(known, minlength=int(np.prod(sizes[list(keys)]))).astype(np.int64)


def _margin(counts: Sequence[Int64], variables: tuple[str, ...]) -> MarginUtility:
    original = counts[0]
    n = max(int(original.sum()), 1)
    p = original / n
    distance, expected, pmse, ratio = [], [], [], []
    n_cells = int(np.count_nonzero(np.sum(counts, axis=0)))
    for count in counts[1:]:
        m = max(int(count.sum()), 1)
        distance.append(0.5 * np.abs(p - count / m).sum())
        # A mean absolute normal deviation in every cell.
        pooled = (original + count) / (n + m)
        spread = np.sqrt(pooled * (1.0 - pooled) * (1.0 / n + 1.0 / m))
        expected.append(0.5 * np.sqrt(2.0 / np.pi) * spread.sum())
        total = (original + count)[original + count > 0]
        share, h = count[original + count > 0] / total, m / (n + m)
        found = float((total / (n + m) * (share - h) ** 2).sum())
        null = max(len(total) - 1, 1) * h * (1.0 - h) ** 2 / (n + m)
        pmse.append(found)
        ratio.append(found / null)
    return MarginUtility(
        variables=variables,
        n_cells=n_cells,
        distance=float(np.mean(distance)),
        distance_expected=float(np.mean(expected)),
        pmse=float(np.mean(pmse)),
        pmse_ratio=float(np.mean(ratio)),
    )


def repeated_uniques(original: Int32, synthetic: Sequence[Int32], n_levels: Sequence[int]) -> float:
    """Share of the synthetic records whose cell has exactly one original record; mean over files.

    A record with a missing key (-1) has no cell.
    """
    found = distinct(original, n_levels)
    cells = original[found.first]
    unique = cells[(found.counts == 1) & (cells >= 0).all(axis=1)]
    return float(np.mean([is_in(codes, unique, n_levels).mean() for codes in synthetic]))
