"""Cells of a superpopulation model: laws of occupied and empty cells, and sums over patterns."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from unikat._typing import Float64, Int32, Int64
from unikat.data.patterns import Meeting, agreeing, distinct, sum_equal
from unikat.data.table import CellTable
from unikat.errors import SpecError
from unikat.kernels import superpopulation as kernels
from unikat.kernels.hypergeometric import posterior_nodes
from unikat.models.base import Stream
from unikat.models.cells.combinations import Combinations
from unikat.models.cells.hyperparameters import Proposal
from unikat.rng import chain_key
from unikat.zeros.diagram import n_possible

MOST_POINTS = 16
"""Sampling rates that stand for those of empty cells; more are joined in groups of cells."""
HIGHEST_RATE = 1.0 - 1e-6
"""Cells of which all units are in the sample have p just below 1, as a beta law asks."""


class Law(NamedTuple):
    """Hyperparameters, and what a cell's own beta law is."""

    alpha: float
    size: float
    """a + b, which all cells share."""
    shape: float
    """a of all cells, or 0 where it is the size times the cell's sampling rate."""
    gamma: float
    """Chance that a cell can be sampled at all."""

    def shapes(self, rates: Float64) -> Float64:
        """Return a of cells with these sampling rates, (n,)."""
        if self.shape > 0.0:
            return np.full(len(rates), self.shape)
        return self.size * rates


class SuperpopulationData(NamedTuple):
    """The cells with records, and the distinct pairs of count and sampling rate."""

    combinations: Combinations
    population_size: float
    n_records: float
    n_cells: float
    """K."""
    n_possible: float
    """Combinations of levels that are possible; K cells lie among them."""
    share: float
    """Records that are complete, at least a millionth."""
    cells: Int32
    """(n_occupied, n_keys): complete patterns."""
    counts: Float64
    """(n_occupied,): f."""
    weights: Float64
    """(n_occupied,): sums of the records' weights."""
    pair: Int64
    """(n_occupied,): place of a cell's count and sampling rate among the distinct ones."""
    pair_counts: Float64
    """(n_pairs,): ascending."""
    pair_rates: Float64
    """(n_pairs,)"""
    times: Float64
    """(n_pairs,): cells."""
    points: Float64
    """(n_points,): sampling rates that an empty cell may have."""
    chances: Float64
    """(n_points,)"""
    patterns: Int32
    """(n_patterns, n_keys): patterns with missing keys."""
    pattern_counts: Int64
    """(n_patterns,)"""
    pattern_weights: Float64
    """(n_patterns,): mean weight of the records."""
    n_certain: int
    """Cells whose weights do not add up to more than their records."""
    proposal: Proposal
    """What the posterior of the hyperparameters nearly is."""

    @property
    def mean_rate(self) -> float:
        """Records per unit of the population, n / N."""
        return min(self.n_records / self.population_size, HIGHEST_RATE)

    def odds(self, law: Law, share: float) -> float:
        """Return s = N / (K alpha), where a share of the population counts."""
        return share * self.population_size / (self.n_cells * law.alpha)

    def density(self, n_occupied: int) -> float:
        """Empty cells per possible combination that has no records."""
        room = self.n_possible - n_occupied
        return max(self.n_cells - n_occupied, 0.0) / room if room > 0.0 else 0.0


class Empty(NamedTuple):
    """A cell without records, given the hyperparameters."""

    sampled: float
    """Mean of N pi p, of the share of the population that counts."""
    others: float
    """Mean of N pi (1 - p) of the whole population."""


def lay_out(table: CellTable, n_cells: int | None, by_rate: bool) -> SuperpopulationData:
    """Collect counts and sampling rates of a table; rates count for the pairs if `by_rate`."""
    complete = ~table.incomplete
    counts = table.counts[complete].astype(np.float64)
    possible = math.prod(table.n_levels)
    if table.zeros is not None:
        possible = n_possible(table.zeros, table.n_levels)
    n_cells = possible if n_cells is None else n_cells
    if not len(counts) <= n_cells <= possible:
        raise SpecError(
            f"model option n_cells is {n_cells:,}; it is the number of cells that can have units "
            f"of the population, and must be from {len(counts):,}, the cells with records, to "
            f"{possible:,}, the possible combinations of levels."
        )
    weights = table.cell_weights[complete]
    rates = counts / weights
    n_certain = int(np.count_nonzero(rates > HIGHEST_RATE))
    rates = np.minimum(rates, HIGHEST_RATE)
    # Rates that differ by rounding are one.
    near = np.round(np.log(rates), 12) if by_rate else np.zeros(len(rates))
    pairs, first, pair, times = np.unique(
        np.stack((counts, near), axis=1),
        axis=0,
        return_index=True,
        return_inverse=True,
        return_counts=True,
    )
    mean_rate = min(table.n_records / table.n_units, HIGHEST_RATE)
    points, chances = _points(rates, mean_rate) if by_rate else (np.array([mean_rate]), np.ones(1))
    return SuperpopulationData(
        combinations=Combinations(np.array(table.n_levels, np.int64), table.zeros),
        population_size=float(table.n_units),
        n_records=float(table.n_records),
        n_cells=float(n_cells),
        n_possible=float(possible),
        share=max(float(counts.sum()) / table.n_records, 1e-6),
        cells=table.cells[complete],
        counts=counts,
        weights=weights,
        pair=pair.ravel().astype(np.int64),
        pair_counts=np.ascontiguousarray(pairs[:, 0]),
        pair_rates=rates[first],
        times=times.astype(np.float64),
        points=points,
        chances=chances,
        patterns=table.cells[~complete],
        pattern_counts=table.counts[~complete],
        pattern_weights=table.cell_weights[~complete] / table.counts[~complete],
        n_certain=n_certain,
        proposal=Proposal.none(),
    )


def integrals(
    law: Law, data: SuperpopulationData, share: float, counts: Float64, rates: Float64
) -> Float64:
    """Log P(f), mean N pi p and mean N pi (1 - p) given f, (n, 3); of a share of the population."""
    out = np.empty((len(counts), 3))
    kernels.integrate(law.alpha, law.size, data.odds(law, share), counts, law.shapes(rates), out)
    return out


def empty_chances(law: Law, data: SuperpopulationData, share: float) -> tuple[Float64, float]:
    """Law of the sampling rates of empty cells, and the probability that a cell is empty.

    Returns
    -------
    chances, log_empty
        (n_points,) chance of an empty cell to have each of the sampling rates, the rest being that
        of p = 0; and the log of the prior chance that a cell is empty.
    """
    some = np.empty(len(data.points))
    kernels.empty_chances(law.alpha, law.size, data.odds(law, share), law.shapes(data.points), some)
    occupied = law.gamma * float(data.chances @ some)
    if occupied < 0.5:
        few: Float64 = law.gamma * data.chances * (1.0 - some) / (1.0 - occupied)
        return few, math.log1p(-occupied)
    # Where cells are rarely empty, what is left of 1 has no digits.
    none = integrals(law, data, share, np.zeros(len(data.points)), data.points)[:, 0]
    logs = np.log(law.gamma * data.chances) + none
    total = float(np.logaddexp.reduce(logs))
    if law.gamma < 1.0:
        total = float(np.logaddexp(total, math.log1p(-law.gamma)))
    return np.exp(logs - total), total


def empty_cell(law: Law, data: SuperpopulationData, share: float) -> Empty:
    """Mean rates of a cell without records."""
    chances, _ = empty_chances(law, data, share)
    found = integrals(law, data, share, np.zeros(len(data.points)), data.points)
    unsampled = max(1.0 - float(chances.sum()), 0.0) * data.population_size / data.n_cells
    others = float(chances @ found[:, 2]) / share + unsampled
    return Empty(float(chances @ found[:, 1]), others)


def empty_parts(law: Law, data: SuperpopulationData, share: float) -> tuple[Float64, Float64]:
    """The law of N pi (1 - p) of an empty cell: weights, and scales of gamma laws of shape alpha.

    p has the nodes of a quadrature: chances of counts, which are smooth in p, are exact.
    """
    chances, _ = empty_chances(law, data, share)
    s = data.odds(law, share)
    weights, scales = [np.array([max(1.0 - float(chances.sum()), 0.0)])], [np.array([s])]
    for chance, shape in zip(chances.tolist(), law.shapes(data.points).tolist(), strict=True):
        p, q, nodes = posterior_nodes(law.alpha, shape, law.size - shape, s, 0.0)
        weights.append(chance * nodes)
        scales.append(s * q / (1.0 + s * p))
    return np.concatenate(weights), np.concatenate(scales) / share


def _points(rates: Float64, mean_rate: float) -> tuple[Float64, Float64]:
    """Sampling rates that an empty cell may have, and their chances: those of the occupied cells.

    rates (n_occupied,). More than 16 are put in 16 groups of about as many cells.
    """
    if not len(rates):
        return np.array([mean_rate]), np.ones(1)
    logs, times = np.unique(np.round(np.log(rates), 12), return_counts=True)
    if len(logs) <= MOST_POINTS:
        return np.exp(logs), times / len(rates)
    parts = np.array_split(np.sort(np.log(rates)), MOST_POINTS)
    return (
        np.array([float(np.exp(part.mean())) for part in parts]),
        np.array([len(part) / len(rates) for part in parts]),
    )


def united(
    cells: Int32, counts: Float64, weights: Float64, data: SuperpopulationData
) -> tuple[Int32, Float64, Float64]:
    """Join rows of the same cell: cells, records, weights."""
    if len(cells) == len(data.cells):
        return cells, counts, weights
    found = distinct(cells, data.combinations.levels.tolist())
    records = np.bincount(found.place, counts).astype(np.float64)
    summed = np.bincount(found.place, weights).astype(np.float64)
    return cells[found.first], records, summed


def look_up(
    known: Int32, counts: Float64, weights: Float64, cells: Int32, data: SuperpopulationData
) -> tuple[Float64, Float64]:
    """Records and sampling rates of complete cells, (n,), those of a cell without: 0 and n / N."""
    if np.array_equal(known, cells):
        return counts, np.minimum(counts / weights, HIGHEST_RATE)
    levels = data.combinations.levels.tolist()
    found = sum_equal(cells, known, counts, levels)
    sums = sum_equal(cells, known, weights, levels)
    rates = np.divide(found, sums, out=np.full(len(found), data.mean_rate), where=sums > 0.0)
    return found, np.minimum(rates, HIGHEST_RATE)


def sums(
    known: Int32, values: Float64, each: float, cells: Int32, data: SuperpopulationData
) -> Float64:
    """Sum of the known cells' values, and `each` of the other possible ones, for patterns (n,)."""
    joined = agreeing(cells, known, data.combinations.levels.tolist())
    return _summed(joined, values, each, cells, data)


def _summed(
    joined: Iterable[Meeting],
    values: Float64,
    each: float,
    cells: Int32,
    data: SuperpopulationData,
) -> Float64:
    out, free = np.zeros(len(cells)), data.combinations.completions(cells)
    for met in joined:
        out[met.asking] = np.bincount(met.offered, values[met.answering], met.n_numbers)[met.wanted]
        free[met.asking] -= np.bincount(met.offered, minlength=met.n_numbers)[met.wanted]
    return out + np.maximum(free, 0.0) * each


def drawn_rates(
    stream: Stream,
    law: Law,
    data: SuperpopulationData,
    cells: Int32,
    counts: Float64,
    rates: Float64,
) -> Float64:
    """Draw N pi (1 - p) of complete cells with these counts and sampling rates, (n,)."""
    drawn = np.empty(len(cells))
    chances, _ = empty_chances(law, data, 1.0)
    kernels.draw_rates(
        chain_key(stream.seed, stream.chain),
        stream.sweep,
        cells,
        law.alpha,
        law.size,
        data.odds(law, 1.0),
        counts,
        law.shapes(rates),
        law.shapes(data.points),
        np.cumsum(chances),
        drawn,
    )
    # Where there are fewer cells than combinations, an empty combination has so much of one.
    drawn[counts == 0.0] *= data.density(len(data.counts))
    if data.combinations.zeros is not None:
        drawn[~data.combinations.allows(cells)] = 0.0
    return drawn


def drawn_sums(
    stream: Stream,
    law: Law,
    data: SuperpopulationData,
    known: Int32,
    counts: Float64,
    weights: Float64,
    patterns: Int32,
) -> Float64:
    """Sum the drawn rates of known cells and the mean rates of empty ones for patterns, (n,)."""
    joined = list(agreeing(patterns, known, data.combinations.levels.tolist()))
    inside = np.zeros(len(known), np.bool_)
    for met in joined:
        asked = np.zeros(met.n_numbers, np.bool_)
        asked[met.wanted] = True
        inside[met.answering[asked[met.offered]]] = True
    drawn = np.zeros(len(known))
    drawn[inside] = drawn_rates(
        stream,
        law,
        data,
        known[inside],
        counts[inside],
        np.minimum(counts[inside] / weights[inside], HIGHEST_RATE),
    )
    each = empty_cell(law, data, 1.0).others * data.density(len(known))
    return _summed(joined, drawn, each, patterns, data)
