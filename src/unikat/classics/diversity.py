"""l-diversity and t-closeness: what a record's keys give away of a sensitive variable.

The *class* of a pattern are the records that its keys cannot be told from. n_v of them have the
sensitive value v; q_v is its share of them, p_v that in the whole file.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy import sparse

from unikat._typing import Float64, Int64
from unikat.data.patterns import meetings
from unikat.data.table import CellTable
from unikat.errors import DataError, SpecError

_BLOCK = 5_000_000
"""Numbers held at once where the values of a class are spread out."""
_WAITING = 20_000_000
"""Entries of classes that are found before they are added up."""


class Diversity(NamedTuple):
    """l-diversity of the class of each pattern; 0 where no value is known."""

    distinct: Int64
    """(n_cells,) number of distinct values."""
    entropy: Float64
    """(n_cells,) exp(-sum_v q_v log q_v): the number of equally frequent values with as much."""
    recursive: Int64
    """(n_cells,) largest l such that the class is recursively (c, l)-diverse; 0 if none."""


class Closeness(NamedTuple):
    """t-closeness."""

    distance: Float64
    """(n_cells,) distance of each class from the whole file, 0 to 1; NaN where no value is
    known."""
    largest: float
    """The file's t: the largest of them; NaN if no value is known at all."""


def l_diversity(
    table: CellTable, sensitive: ArrayLike, recursion: float = 2.0, *, wildcards: bool = True
) -> Diversity:
    """l-diversity of a sensitive variable, distinct, by entropy and recursive.

    A class is recursively (c, l)-diverse if n_(1) < c (n_(l) + ... + n_(m)), its frequencies
    falling from n_(1) to n_(m) (Machanavajjhala, Kifer, Gehrke and Venkitasubramaniam 2007, ACM
    Transactions on Knowledge Discovery from Data 1, 3). Each of the three measures is at least l
    where the class is l-diverse in that sense. Records whose value is missing say nothing and are
    left out of their class.

    Parameters
    ----------
    table
        Cells of the keys.
    sensitive
        (n_records,) codes of the sensitive variable, -1 where missing.
    recursion
        c, above 0.
    wildcards
        Whether a missing key matches any level; else patterns match only themselves, and classes
        are no larger.

    Raises
    ------
    DataError
        If the codes are not one whole number of -1 or more per record.
    SpecError
        If c is not above 0.

    Examples
    --------
    >>> from unikat.data import Key
    >>> table = CellTable.from_codes([[0], [0], [0], [1]], [Key.of_size("SEX", 2)], 40)
    >>> found = l_diversity(table, [2, 2, 5, 5], recursion=3)
    >>> found.distinct.tolist(), found.entropy.round(2).tolist(), found.recursive.tolist()
    ([2, 1], [1.89, 1.0], [2, 1])
    """
    if not recursion > 0.0:
        raise SpecError(
            f"recursion is {recursion!r}; the constant c of recursive diversity is > 0."
        )
    distinct = np.zeros(table.n_cells, np.int64)
    entropy = np.zeros(table.n_cells)
    recursive = np.zeros(table.n_cells, np.int64)
    for rows, counts in _classes(table, _of_patterns(table, sensitive), wildcards):
        falling = -np.sort(-counts, axis=1)
        known = falling.sum(axis=1)
        distinct[rows] = (falling > 0.0).sum(axis=1)
        shares = falling / np.maximum(known, 1.0)[:, None]
        logs = np.log(shares, out=np.zeros_like(shares), where=shares > 0.0)
        entropy[rows] = np.where(known > 0.0, np.exp(-(shares * logs).sum(axis=1)), 0.0)
        # n_(l) + ... + n_(m) falls with l, so that the l that hold come first.
        rest = np.cumsum(falling[:, ::-1], axis=1)[:, ::-1]
        recursive[rows] = (falling[:, :1] < recursion * rest).sum(axis=1)
    return Diversity(distinct, entropy, recursive)


def t_closeness(
    table: CellTable, sensitive: ArrayLike, *, ordered: bool = False, wildcards: bool = True
) -> Closeness:
    """Distance of the sensitive values of each class from those of the whole file.

    The earth mover's distance of Li, Li and Venkatasubramanian (2007, ICDE): between values that
    are equally far apart it is ``sum_v |q_v - p_v| / 2``; between ordered values, neighbours
    1 / (m - 1) apart, it is ``sum_v |(q_1 + ... + q_v) - (p_1 + ... + p_v)| / (m - 1)``.
    Records whose value is missing are left out.

    Parameters
    ----------
    table
        Cells of the keys.
    sensitive
        (n_records,) codes of the sensitive variable, -1 where missing; m is the number of values
        that occur, in the order of their codes.
    ordered
        Whether the values have an order.
    wildcards
        Whether a missing key matches any level; else patterns match only themselves.

    Raises
    ------
    DataError
        If the codes are not one whole number of -1 or more per record.

    Examples
    --------
    >>> from unikat.data import Key
    >>> table = CellTable.from_codes([[0], [0], [1], [1]], [Key.of_size("SEX", 2)], 40)
    >>> t_closeness(table, [0, 1, 2, 2]).distance.tolist()
    [0.5, 0.5]
    >>> t_closeness(table, [0, 1, 2, 2], ordered=True).largest
    0.375
    """
    of_patterns = _of_patterns(table, sensitive)
    everybody = np.asarray(of_patterns.sum(axis=0), np.float64).ravel()
    overall = everybody / max(everybody.sum(), 1.0)
    distance = np.full(table.n_cells, np.nan)
    for rows, counts in _classes(table, of_patterns, wildcards):
        known = counts.sum(axis=1)
        difference = counts / np.maximum(known, 1.0)[:, None] - overall
        if ordered:
            moved = np.abs(np.cumsum(difference, axis=1)).sum(axis=1)
            moved /= max(len(overall) - 1, 1)
        else:
            moved = np.abs(difference).sum(axis=1) / 2.0
        distance[rows] = np.where(known > 0.0, moved, np.nan)
    found = distance[~np.isnan(distance)]
    return Closeness(distance, float(found.max()) if len(found) else float("nan"))


def _of_patterns(table: CellTable, sensitive: ArrayLike) -> sparse.csr_array:
    """Records of each pattern by value, (n_cells, n_values), of the values that occur."""
    codes = np.asarray(sensitive)
    if codes.shape != (table.n_records,) or codes.dtype.kind not in "iu" or codes.min() < -1:
        raise DataError(
            f"The sensitive variable must be {table.n_records:,} whole numbers, one per record, -1 "
            f"where missing; got an array of {codes.dtype} of shape {codes.shape}."
        )
    known = np.flatnonzero(codes >= 0)
    values, place = np.unique(codes[known], return_inverse=True)
    return sparse.csr_array(
        (np.ones(len(known)), (table.record_cell[known], place)),
        shape=(table.n_cells, max(len(values), 1)),
    )


def _classes(
    table: CellTable, of_patterns: sparse.csr_array, wildcards: bool
) -> Iterator[tuple[Int64, Float64]]:
    """Give the classes in blocks: rows of the patterns, and records by value (n_rows, n_values)."""
    n_cells, n_values = of_patterns.shape
    if wildcards and table.incomplete.any():
        of_patterns = _with_matches(table, of_patterns)
    step = max(1, _BLOCK // n_values)
    for start in range(0, n_cells, step):
        rows = np.arange(start, min(start + step, n_cells))
        yield rows, of_patterns[rows].toarray()


def _with_matches(table: CellTable, of_patterns: sparse.csr_array) -> sparse.csr_array:
    """Sum the rows over the patterns compatible with each."""
    of_classes = sparse.csr_array(of_patterns.shape)
    found: list[tuple[Float64, Int64, Int64]] = []
    waiting = 0
    for met in meetings(table.cells, table.n_levels):
        sums = _incidence(met.offered, met.n_numbers).T @ of_patterns[met.answering]
        joined = (_incidence(met.wanted, met.n_numbers) @ sums).tocoo()
        rows, values = joined.coords
        found.append((joined.data, met.asking[rows], values))
        waiting += len(rows)
        if waiting > _WAITING:
            of_classes += _summed(found, of_patterns.shape)
            found, waiting = [], 0
    return of_classes + _summed(found, of_patterns.shape)


def _incidence(numbers: Int64, n_numbers: int) -> sparse.csr_array:
    """1 in every row's column, (n_rows, n_numbers)."""
    each = np.arange(len(numbers))
    return sparse.csr_array((np.ones(len(numbers)), (each, numbers)), (len(numbers), n_numbers))


def _summed(found: list[tuple[Float64, Int64, Int64]], shape: tuple[int, int]) -> sparse.csr_array:
    if not found:
        return sparse.csr_array(shape)
    data, rows, values = (np.concatenate(part) for part in zip(*found, strict=True))
    return sparse.csr_array((data, (rows, values)), shape)
