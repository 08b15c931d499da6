"""What synthetic files are good for: margins beside those of the original, and pMSE.

Of a margin with cells c, of which the original has o_c of n records and a synthetic file s_c of m,

    distance     sum |o_c / n - s_c / m| / 2
    pMSE         sum t_c / (n + m) (s_c / t_c - h)^2,     t_c = o_c + s_c,  h = m / (n + m)
    pMSE ratio   pMSE over its mean (k - k') h (1 - h)^2 / (n + m) if the synthetic records were
                 drawn from the original's own shares, k being the cells with t_c > 0

(Raab, Nowok and Dibben 2021, section 3; Snoke and others 2018, section 3.1). k' is 1 where all keys
are drawn. Where some are kept the draws are from the shares given these, and k' is the number of
their cells: each of them is a table of its own. A ratio of 1 is that of records drawn from the
original's own shares, and 1 / (1 - h), 2 for files of one size, that of a second sample of the same
population.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import distinct, is_in

ORDERS = (1, 2, 3)
"""Keys of the margins that are looked at."""
MOST_MARGINS = 500
"""Margins of one order that are looked at, spread over all in their order."""
MOST_SHOWN = 1500
"""Cells of the margins of one order that a figure shows."""
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
    distance_weighted: float | None
    """The distance with each record counted by its sample weight; None without weights."""
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
    """Mean over the margins looked at, as the next three."""
    distance_expected: float
    distance_weighted: float | None
    pmse_ratio: float
    n_cells: int
    """Cells of these margins with at least 10 records of the original."""
    cells: tuple[tuple[float, float], ...]
    """Share of such a cell in the original, and in the synthetic files, mean over them; of many,
    some that are spread over all."""


def margin_utility(
    original: Int32,
    synthetic: Sequence[Int32],
    n_levels: Sequence[int],
    names: Sequence[str],
    *,
    kept: Sequence[str] = (),
    weights: Float64 | None = None,
) -> tuple[OrderUtility, ...]:
    """Compare the one-, two- and three-way margins.

    Parameters
    ----------
    original
        (n, n_keys) codes, -1 where missing: a record counts for the margins of keys that it has.
    synthetic
        The same of each synthetic file.
    n_levels, names
        Of the keys.
    kept
        Keys that were not drawn. Margins of these alone are not looked at.
    weights
        (n,) sample weights; synthetic record i has the weight of record i.
    """
    # Missing is a level here, left out of the counts.
    sizes = np.array(n_levels, np.int64)
    files = [np.ascontiguousarray(codes.T, np.int64) for codes in (original, *synthetic)]
    orders = []
    of_kept = {j for j, name in enumerate(names) if name in kept}
    for order in ORDERS:
        looked_at = _margins(sizes, order, of_kept)
        if not looked_at:
            continue
        found, first, second = [], [], []
        for one in looked_at:
            keys = list(one)
            counts = [margin_counts(columns, keys, sizes) for columns in files]
            drawn = tuple(i for i, key in enumerate(one) if names[key] not in kept)
            margin = compare_margin(counts, tuple(names[key] for key in one), sizes[keys], drawn)
            if weights is not None:
                sums = [margin_counts(columns, keys, sizes, weights) for columns in files]
                margin = replace(margin, distance_weighted=_distance(sums))
            found.append(margin)
            shares = [count / max(count.sum(), 1) for count in counts]
            shown = counts[0] >= LEAST_EXPECTED
            first.append(shares[0][shown])
            second.append(np.mean([share[shown] for share in shares[1:]], axis=0))
        x, y = np.concatenate(first), np.concatenate(second)
        spread = np.linspace(0, len(x) - 1, min(len(x), MOST_SHOWN)).astype(int)
        shown_cells = np.argsort(x, kind="stable")[spread]
        orders.append(
            OrderUtility(
                order=order,
                n_margins=comb(len(names), order) - comb(len(kept), order),
                n_looked_at=len(found),
                margins=tuple(found),
                distance=float(np.mean([one.distance for one in found])),
                distance_expected=float(np.mean([one.distance_expected for one in found])),
                distance_weighted=(
                    None
                    if weights is None
                    else float(np.mean([one.distance_weighted for one in found]))
                ),
                pmse_ratio=float(np.mean([one.pmse_ratio for one in found])),
                n_cells=len(x),
                cells=tuple(zip(x[shown_cells].tolist(), y[shown_cells].tolist(), strict=True)),
            )
        )
    return tuple(orders)


def _margins(sizes: Int64, order: int, kept: Collection[int] = ()) -> list[tuple[int, ...]]:
    """Margins of an order that are looked at: not too large, and not of kept keys alone."""
    every = [
        one
        for one in combinations(range(len(sizes)), order)
        if np.prod(sizes[list(one)].astype(np.float64)) < MOST_CELLS
        and not all(key in kept for key in one)
    ]
    if not every:
        return []
    at = np.unique(np.linspace(0, len(every) - 1, min(len(every), MOST_MARGINS)).astype(int))
    return [every[i] for i in at]


def margin_distances(
    cells: Int32, counts: Int64, records: Int32, n_levels: Sequence[int]
) -> tuple[float, ...]:
    """Mean distance of the one-, two- and three-way margins of records from those of cells.

    Parameters
    ----------
    cells, counts
        (n_cells, n_keys) codes without missing ones, and how many records each cell has.
    records
        (n, n_keys) codes.
    n_levels
        Of the keys.

    Returns
    -------
    tuple of float
        Total variation distance, 0 to 1, mean over the margins of each order; of two keys there
        are two orders.

    Examples
    --------
    >>> cells, counts = np.array([[0, 0], [1, 1]], np.int32), np.array([3, 1])
    >>> margin_distances(cells, counts, np.array([[0, 0], [1, 0]], np.int32), (2, 2))
    (0.25, 0.5)
    """
    sizes = np.array(n_levels, np.int64)
    weights = counts.astype(np.float64)
    first, second = (np.ascontiguousarray(one.T, np.int64) for one in (cells, records))
    found = []
    for order in ORDERS:
        distances = [
            _distance(
                [margin_counts(first, one, sizes, weights), margin_counts(second, one, sizes)]
            )
            for one in _margins(sizes, order)
        ]
        if distances:
            found.append(float(np.mean(distances)))
    return tuple(found)


def margin_counts(
    columns: Int64, keys: Sequence[int], sizes: Int64, weights: Float64 | None = None
) -> Float64:
    """Records in each cell of a margin, or their weights, of the columns (n_keys, n) of a file."""
    place = columns[keys[0]]
    missing = place < 0
    for key in keys[1:]:
        missing = missing | (columns[key] < 0)
        place = place * sizes[key] + columns[key]
    known = ~missing
    of_known = None if weights is None else weights[known]
    counts = np.bincount(place[known], of_known, minlength=int(np.prod(sizes[list(keys)])))
    return counts.astype(np.float64)


def _distance(counts: Sequence[Float64]) -> float:
    """Total variation distance of the first file's shares from those of the others, mean."""
    first, *others = (count / max(count.sum(), 1e-300) for count in counts)
    return float(np.mean([0.5 * np.abs(first - other).sum() for other in others]))


def compare_margin(
    counts: Sequence[Float64], variables: tuple[str, ...], shape: Int64, drawn: tuple[int, ...]
) -> MarginUtility:
    """Compare a margin of this shape, of which the keys at the places `drawn` were drawn."""
    original = counts[0]
    n = max(original.sum(), 1.0)
    expected, pmse, ratio = [], [], []
    n_cells = int(np.count_nonzero(np.sum(counts, axis=0)))
    for count in counts[1:]:
        m = max(count.sum(), 1.0)
        both = original + count
        some = both > 0.0
        # Cells of the kept keys: within each of them records were drawn.
        kept = both.reshape(shape).sum(axis=drawn, keepdims=True)
        given = np.broadcast_to(kept, shape).ravel()[some]
        total, share, h = both[some], count[some] / both[some], m / (n + m)
        # A mean absolute normal deviation in every cell.
        spread = np.sqrt(total / (n + m) * (1.0 - total / given) * (1.0 / n + 1.0 / m))
        expected.append(0.5 * np.sqrt(2.0 / np.pi) * spread.sum())
        found = float((total / (n + m) * (share - h) ** 2).sum())
        free = max(len(total) - np.count_nonzero(kept), 1)
        pmse.append(found)
        ratio.append(found / (free * h * (1.0 - h) ** 2 / (n + m)))
    return MarginUtility(
        variables=variables,
        n_cells=n_cells,
        distance=_distance(counts),
        distance_expected=float(np.mean(expected)),
        distance_weighted=None,
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
