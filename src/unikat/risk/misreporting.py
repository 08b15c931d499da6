"""τ1 if keys are misreported: correct matches among sample uniques (docs/design/sensitivity.md).

Each key of a record is replaced, with probability e, by a draw from the key's margin m. What is
published in cell j was truly in it with probability

    M_j = prod_s (1 - e + e m_s(j_s))                        given that it is truly in it,
    c_j = 1 - I_j / (n q_j)                                  given that it is published in it,

q being the law of the published records, which the model is fitted to, and I_j the number of
records expected to be published in j that are truly elsewhere:

    I_j = sum over sets S of keys of e^|S| (1 - e)^(J - |S|) prod_{s in S} m_s(j_s) f_-S(j),

f_-S(j) other records that agree with j in all keys but S (here |S| is 1 or 2). The truth has
probability p_j = c_j q_j / M_j in the cell, and a match with a record that is sample unique there
is correct and certain if it is truly there and nobody else is: nobody of the N - n unobserved
units, and no record that is truly in j and published elsewhere,

    c_j exp(-p_j (N - n + n (1 - M_j))).

Shlomo and Skinner (2010, Annals of Applied Statistics 4, 1291-1310) call M_jk the misclassification
matrix; their probability of a correct match is M_jj over the published cell's population count.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64
from unikat.data.table import CellTable
from unikat.risk.measures import RiskTotals
from unikat.risk.population_counts import bin_means

_GROUPS = 20
"""Of sample uniques whose cells are about as frequent: counts of neighbours are noisy, and c_j is
that of its group."""
_LEAST = 20
"""Sample uniques of a group."""


class Neighbours(NamedTuple):
    """What the file says of the sample uniques' neighbours, (n_uniques,) each."""

    margin: Float64
    """(n_uniques, n_keys): share m_s of the records that have the unique's level of the key."""
    one: Float64
    """Sum over the keys of m_s f_-s."""
    two: Float64
    """The same over pairs of keys."""


def correct_shares(table: CellTable, totals: RiskTotals, misreported: Sequence[float]) -> Float64:
    """Expected correct matches over expected τ1, for each share of misreported keys.

    Returns
    -------
    Float64
        (len(misreported),); empty where it is not known: with unequal chances, known margins of the
        population, incomplete records, or nobody unobserved.
    """
    unique, unobserved = table.unique, float(table.n_units - table.n_records)
    histogram = totals.histogram_others[unique].astype(np.float64)
    r1 = totals.r1[unique] / np.maximum(totals.weight[unique], 1.0)
    equal = table.sampling is None and not table.margins
    known = equal and not table.incomplete.any() and unobserved > 0.0
    if not known or histogram.sum() == 0.0 or r1.sum() == 0.0:
        return np.empty(0)
    means = bin_means(histogram.shape[1], unobserved)
    histogram /= histogram.sum(axis=1, keepdims=True)
    neighbours = neighbours_of(table)
    # Without the record's own part in what the model expects: the harmonic mean.
    expected = table.n_records / unobserved / (histogram @ (1.0 / means))
    alone = histogram @ np.exp(-means)
    found = np.empty(len(misreported))
    for place, share in enumerate(misreported):
        stays, truly = probabilities(neighbours, expected, share)
        times = truly / stays * (1.0 + table.n_records * (1.0 - stays) / unobserved)
        correct = truly * (histogram * np.exp(-times[:, None] * means)).sum(axis=1)
        # As a factor on r1, which is not rounded to bins.
        factor = np.divide(correct, alone, out=np.zeros_like(alone), where=alone > 0.0)
        found[place] = np.minimum(factor * r1, truly).sum() / r1.sum()
    return found


def probabilities(
    neighbours: Neighbours, expected: Float64, share: float
) -> tuple[Float64, Float64]:
    """M_j and c_j of sample uniques in whose cells n q_j records are expected, (n_uniques,)."""
    n_keys = neighbours.margin.shape[1]
    stays: Float64 = np.prod(1.0 - share + share * neighbours.margin, axis=1)
    moved = share * (1.0 - share) ** (n_keys - 1) * neighbours.one
    if n_keys > 1:
        moved = moved + share**2 * (1.0 - share) ** (n_keys - 2) * neighbours.two
    truly = np.empty(len(expected))
    n_groups = max(min(_GROUPS, len(expected) // _LEAST), 1)
    for group in np.array_split(np.argsort(expected, kind="stable"), n_groups):
        elsewhere = moved[group].sum() / max(float(expected[group].sum()), 1e-300)
        truly[group] = max(1.0 - elsewhere, 0.0)
    return stays, truly


def neighbours_of(table: CellTable) -> Neighbours:
    """Count the neighbours of the sample uniques."""
    cells, uniques = table.cells, np.flatnonzero(table.unique)
    margin = np.empty((len(uniques), table.n_keys))
    for key in range(table.n_keys):
        records = np.bincount(cells[:, key], table.counts)
        margin[:, key] = records[cells[uniques, key]] / table.n_records
    # A cell's number is a sum over its keys, so that keys are left out by subtraction. Two cells
    # have the same number by chance once in some 10^9 files.
    of_level = np.random.default_rng(0).integers(2**64, size=table.n_keys, dtype=np.uint64)
    parts = cells.astype(np.uint64) * of_level
    number = parts.sum(axis=1)
    sums = np.zeros((2, len(uniques)))
    for n_left_out in (1, 2):
        for left_out in combinations(range(table.n_keys), n_left_out):
            rest = number - parts[:, left_out].sum(axis=1)
            _, place = np.unique(rest, return_inverse=True)
            others = np.bincount(place, table.counts)[place[uniques]] - 1.0
            sums[n_left_out - 1] += np.prod(margin[:, left_out], axis=1) * others
    return Neighbours(margin=margin, one=sums[0], two=sums[1])
