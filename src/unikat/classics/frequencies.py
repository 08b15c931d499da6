"""Frequencies of patterns in sample and population, and k-anonymity.

The sample frequency f of a pattern counts the records that share its keys, the population frequency
F adds up their weights. Records with missing keys count as the options say (`frequencies`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int64
from unikat.data.keys import MISSING
from unikat.data.patterns import match_sums
from unikat.data.table import CellTable
from unikat.errors import SpecError


class Frequencies(NamedTuple):
    """Sample and population frequencies of the patterns of a table."""

    sample: Float64
    """(n_cells,) f, at least 1; whole unless alpha is a fraction."""
    population: Float64
    """(n_cells,) F, estimated by the weights."""
    records: Int64
    """(n_cells,) records that have the very pattern."""


class Anonymity(NamedTuple):
    """How many records lack k-anonymity."""

    ks: tuple[int, ...]
    violating: Int64
    """(n_ks,) records with f < k."""
    violating_population: Int64
    """(n_ks,) records with F < k: also in the population, as far as the weights tell."""
    smallest: float
    """Smallest f: the file is k-anonymous for every k up to it."""
    smallest_population: float
    """Smallest F."""


def frequencies(table: CellTable, alpha: float | None = 1.0) -> Frequencies:
    """Count the records that a record's keys cannot be told from, and add up their weights.

    Missing keys match any level, as in sdcMicro's `freqCalc`. Records of the same pattern count for
    each other in full. Beyond them

    - for a complete record, records with missing keys that match count alpha, and those without any
      known key nothing;
    - for a record with missing keys, complete records that match count in full, others that match
      alpha;
    - for a record without any known key all records count in full.

    Parameters
    ----------
    table
        Cells and weights; the treatment of missing keys it was made with does not matter, except
        that under ``"level"`` none are missing.
    alpha
        Weight of matches by missing keys, from 0 to 1. None: no match but of the same pattern, so
        that missing is as good as a level.

    Raises
    ------
    SpecError
        If alpha is not between 0 and 1.

    Notes
    -----
    The definition is that of Templ, Kowarik and Meindl (2015), Journal of Statistical Software 67
    (4), with what their program does where they leave it open.

    Examples
    --------
    >>> from unikat.data import Key
    >>> keys = [Key.of_size("SEX", 2), Key.of_size("AGE", 3)]
    >>> table = CellTable.from_codes([[0, 2], [0, 2], [1, 1], [0, -1]], keys, population_size=40)
    >>> table.cells.tolist()
    [[0, -1], [0, 2], [1, 1]]
    >>> frequencies(table, alpha=0.5).sample.tolist()
    [3.0, 2.5, 1.0]
    >>> frequencies(table, alpha=None).population.tolist()
    [10.0, 20.0, 10.0]
    """
    if alpha is not None and not 0.0 <= alpha <= 1.0:
        raise SpecError(
            f"alpha is {alpha!r}; it is the weight of matches by missing keys, from 0 to 1 "
            "(or None for none at all)."
        )
    own = np.stack((table.counts.astype(np.float64), table.cell_weights), axis=1)
    incomplete = table.incomplete[:, None]
    if alpha is None or not incomplete.any():
        return Frequencies(own[:, 0], own[:, 1], table.counts)
    unknown = (table.cells == MISSING).all(axis=1)[:, None]
    everybody = own.sum(axis=0)
    # Sums over the complete patterns that match, and over those that are not.
    of_complete, of_others = np.split(
        match_sums(
            table.cells,
            np.concatenate(
                (np.where(incomplete, 0.0, own), np.where(incomplete, own, 0.0)), axis=1
            ),
            table.n_levels,
        ),
        2,
        axis=1,
    )
    nobody = np.where(unknown, own, 0.0).sum(axis=0)
    found = np.where(
        incomplete,
        of_complete + own + alpha * (of_others - own),
        own + alpha * (of_others - nobody),
    )
    found = np.where(unknown, everybody, found)
    # A sum less its parts may fall short of the part that is left by rounding.
    found = np.maximum(found, own)
    return Frequencies(found[:, 0], found[:, 1], table.counts)


def k_anonymity(frequencies: Frequencies, ks: Sequence[int] = (2, 3, 5)) -> Anonymity:
    """Count the records whose pattern has less than k records, in the sample and the population.

    Parameters
    ----------
    frequencies
        Of `frequencies`.
    ks
        Whole numbers, at least 1.

    Raises
    ------
    SpecError
        If a k is below 1.

    Examples
    --------
    >>> pattern = Frequencies(np.array([1.0, 4.0]), np.array([2.5, 8.0]), np.array([1, 4]))
    >>> found = k_anonymity(pattern, ks=(2, 5))
    >>> found.violating.tolist(), found.violating_population.tolist(), found.smallest
    ([1, 5], [0, 1], 1.0)
    """
    if any(k < 1 for k in ks):
        raise SpecError(f"ks holds {min(ks)}; k-anonymity asks for whole numbers from 1 on.")
    # A weighted sum of k units must not count as less than k by rounding.
    slack = 1.0 - 1e-12

    def below(values: Float64) -> Int64:
        found = [frequencies.records[values < k * slack].sum() for k in ks]
        return np.array(found, dtype=np.int64)

    return Anonymity(
        ks=tuple(ks),
        violating=below(frequencies.sample),
        violating_population=below(frequencies.population),
        smallest=float(frequencies.sample.min()),
        smallest_population=float(frequencies.population.min()),
    )
