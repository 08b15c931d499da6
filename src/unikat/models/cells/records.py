"""Records of a superpopulation model: missing keys, and new individuals."""

from __future__ import annotations

import math

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import by_known_keys, distinct, is_in, numbered
from unikat.models.cells.laws import Law, SuperpopulationData, empty_parts


def complete(
    generator: np.random.Generator, data: SuperpopulationData, mass: Float64, each: float
) -> Int32:
    """Draw the missing keys of the incomplete records, each for itself, (n_incomplete, n_keys).

    In proportion to mass (n_occupied,), and to `each` for every possible cell without records.
    """
    completed = np.repeat(data.patterns, data.pattern_counts, axis=0)
    owner = np.repeat(np.arange(len(data.patterns)), data.pattern_counts)
    levels = data.combinations.levels.tolist()
    for rows, mask in reversed(list(zip(*by_known_keys(data.patterns), strict=True))):
        keys = np.flatnonzero(mask)
        ours, theirs, _ = numbered(
            data.cells[:, keys], data.patterns[np.ix_(rows, keys)], [levels[j] for j in keys]
        )
        place = np.full(len(data.patterns), -1)
        place[rows] = np.arange(len(rows))
        mine = np.flatnonzero(place[owner] >= 0)
        row = place[owner[mine]]
        order = np.argsort(ours, kind="stable")
        below = np.concatenate(([0.0], np.cumsum(mass[order])))
        first = np.searchsorted(ours[order], theirs, "left")
        after = np.searchsorted(ours[order], theirs, "right")
        seen = below[after] - below[first]
        free = data.combinations.completions(data.patterns[rows]) - (after - first)
        at = generator.random(len(mine)) * (seen + np.maximum(free, 0.0) * each)[row]
        # A pattern that no cell with records agrees with is of a new one, however rare these are.
        new = (at >= seen[row]) & (free[row] > 0.0) | (seen[row] <= 0.0)
        old = mine[~new]
        chosen = np.searchsorted(below[1:], below[first][row[~new]] + at[~new], "right")
        completed[old] = data.cells[order[np.minimum(chosen, after[row[~new]] - 1)]]
        empty = mine[new]
        completed[empty] = _empty_cells(generator, data, data.patterns[owner[empty]])
    return completed


def _empty_cells(
    generator: np.random.Generator, data: SuperpopulationData, patterns: Int32
) -> Int32:
    """Draw a possible completion without records for each pattern, (n, n_keys)."""
    levels = data.combinations.levels.tolist()
    cells = data.combinations.draw(generator, patterns)
    while True:
        taken = np.flatnonzero(is_in(cells, data.cells, levels))
        if not len(taken):
            return cells
        cells[taken] = data.combinations.draw(generator, patterns[taken])


def simulate(
    generator: np.random.Generator,
    law: Law,
    data: SuperpopulationData,
    rates: Float64,
    total: float,
    n_records: int,
) -> Int32:
    """Draw unobserved individuals, (n_records, n_keys); those of one cell share its rate.

    rates (n_occupied,): drawn; total: mean of the sum of the rates of all cells.
    """
    # A few more than asked for, of which so many are taken at random: the cells' Poisson counts
    # given their total.
    theta = (n_records + 5.0 * math.sqrt(n_records) + 10.0) / max(total, 1.0)
    occupied = generator.poisson(theta * rates)
    times = _new_counts(generator, law, data, theta)
    cells = _different_empty_cells(generator, data, len(times))
    everything = np.concatenate(
        (np.repeat(data.cells, occupied, axis=0), np.repeat(cells, times[: len(cells)], axis=0))
    )
    if not len(everything):
        anything = np.full((n_records, len(data.combinations.levels)), -1, np.int32)
        return data.combinations.draw(generator, anything)
    if len(everything) < n_records:
        more = generator.integers(0, len(everything), n_records - len(everything))
        everything = np.concatenate((everything, everything[more]))
    return generator.permutation(everything)[:n_records]


def _new_counts(
    generator: np.random.Generator, law: Law, data: SuperpopulationData, theta: float
) -> Int64:
    """New records of the empty cells that get any: Poisson(theta N pi (1 - p)), (n,)."""
    weights, scales = empty_parts(law, data, data.share)
    scales = theta * scales
    some = weights * -np.expm1(-law.alpha * np.log1p(scales))
    n_empty = int(data.n_cells) - len(data.counts)
    n = int(generator.binomial(n_empty, min(float(some.sum()), 1.0)))
    if not n:
        return np.empty(0, np.int64)
    scale = scales[generator.choice(len(some), n, p=some / some.sum())]
    counts = np.zeros(n, np.int64)
    left = np.arange(n)
    while len(left):
        # The rate given that a record comes: of its law times 1 - e^-rate, by rejection from it or,
        # where that is nearly always 0, from it times the rate, which has one more in its shape.
        few = law.alpha * scale[left] < 1.0
        rate = scale[left] * generator.standard_gamma(law.alpha + few)
        chance = -np.expm1(-rate)
        chance[few] /= np.maximum(rate[few], 1e-300)
        good = (generator.random(len(left)) < chance) & (rate > 0.0)
        # The first arrival, and those after it.
        first = -np.log1p(generator.random(int(good.sum())) * np.expm1(-rate[good]))
        counts[left[good]] = 1 + generator.poisson(np.maximum(rate[good] - first, 0.0))
        left = left[~good]
    return counts


def _different_empty_cells(
    generator: np.random.Generator, data: SuperpopulationData, n: int
) -> Int32:
    """Draw n different possible combinations without records, (n, n_keys)."""
    n_keys, levels = len(data.combinations.levels), data.combinations.levels.tolist()
    n = int(min(n, data.n_possible - len(data.counts)))
    found = np.empty((0, n_keys), np.int32)
    batch = 2 * n + 16
    while len(found) < n:
        cells = data.combinations.draw(generator, np.full((batch, n_keys), -1, np.int32))
        cells = np.concatenate((found, cells[~is_in(cells, data.cells, levels)]))
        found = cells[np.sort(distinct(cells, levels).first)][:n]
        batch *= 2
    return found
